//! The AWS clients, made once per process.

use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::http::SharedHttpClient;

/// The clients that the function uses.
#[derive(Debug, Clone)]
pub struct Clients {
    /// Topics and subscriptions.
    pub sns: aws_sdk_sns::Client,
    /// Queues.
    pub sqs: aws_sdk_sqs::Client,
    /// Buckets.
    pub s3: aws_sdk_s3::Client,
    /// Functions.
    pub lambda: aws_sdk_lambda::Client,
    /// Streams.
    pub firehose: aws_sdk_firehose::Client,
}

/// The SDK tries a call twice more on throttling and on errors of the network, within a second or
/// two: a hiccup should not cost a letter one of its retries. What lasts longer is the business of
/// the schedule, not of the SDK, or a batch would spend its time waiting.
const ATTEMPTS: u32 = 3;

/// One try of a call. Longer than SNS and SQS ever take, short enough for a second try.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The HTTP client of every AWS client: TLS is rustls with ring.
#[must_use]
pub fn https() -> SharedHttpClient {
    aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https()
}

impl Clients {
    /// Clients by the environment: region, credentials and endpoints are the SDK's own settings.
    pub async fn from_environment() -> Self {
        let config = aws_config::defaults(BehaviorVersion::latest())
            .http_client(https())
            .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS))
            .timeout_config(
                TimeoutConfig::builder()
                    .connect_timeout(CONNECT_TIMEOUT)
                    .operation_attempt_timeout(ATTEMPT_TIMEOUT)
                    .build(),
            )
            .load()
            .await;
        let own_endpoint =
            ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"].iter().any(|name| std::env::var_os(name).is_some());
        Self::from_config(&config, own_endpoint)
    }

    /// Clients by a configuration. With an endpoint of one's own, buckets are a part of the path,
    /// since such endpoints have no name for every bucket.
    #[must_use]
    pub fn from_config(config: &SdkConfig, path_style: bool) -> Self {
        let s3 = aws_sdk_s3::config::Builder::from(config).force_path_style(path_style).build();
        Self {
            sns: aws_sdk_sns::Client::new(config),
            sqs: aws_sdk_sqs::Client::new(config),
            s3: aws_sdk_s3::Client::from_conf(s3),
            lambda: aws_sdk_lambda::Client::new(config),
            firehose: aws_sdk_firehose::Client::new(config),
        }
    }
}
