//! The AWS clients that a command line asks for.

use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_s3::config::Region;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};

use super::{Desk, args};
use crate::clients::Clients;

/// An operator waits longer than a function may.
const ATTEMPTS: u32 = 5;
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The clients of the desk, else those by environment, profile and options, in the AWS CLI's order.
pub(super) async fn clients(args: &args::Connection, desk: &Desk) -> Clients {
    if let Some(clients) = &desk.clients {
        return clients.clone();
    }
    let http =
        aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .build();
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http)
        .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS))
        .timeout_config(timeouts);
    if let Some(profile) = &args.profile {
        loader = loader.profile_name(profile);
    }
    if let Some(region) = &args.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if let Some(url) = &args.endpoint_url {
        loader = loader.endpoint_url(url);
    }
    let config = loader.load().await;
    // An endpoint of one's own has no name for every bucket.
    let path_style = config.endpoint_url().is_some() || (desk.variable)("AWS_ENDPOINT_URL_S3").is_some();
    Clients::from_config(&config, path_style)
}
