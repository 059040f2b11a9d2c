//! The AWS clients, made once per process.

use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::BeforeTransmitInterceptorContextMut;
use aws_smithy_runtime_api::client::interceptors::{Intercept, dyn_dispatch_hint};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::ConfigBag;

use super::environment::{Endpoints, app_name, checksums, credentials, filled, flag, required_region};
use super::https::https;
use crate::arn::Arn;
use crate::settings::{BadSettings, note};

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

/// The making of a connection: name, address and TLS.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// What clients are made with.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// Region, credentials, endpoints, times.
    pub sdk: SdkConfig,
    /// Whether a bucket is a part of the path and not of the host's name.
    pub path_style: bool,
}

impl Configuration {
    /// Reads Lambda's environment: region, credentials, and what the SDK's own variables say of endpoints,
    /// checksums and the application's name. Profiles and the credentials of machines are not looked for:
    /// Lambda has neither, and looking takes time and room.
    /// <https://docs.aws.amazon.com/sdkref/latest/guide/settings-reference.html>
    ///
    /// # Errors
    ///
    /// [`BadSettings`] where there is no region: every call would fail, and tell little of why. And where a
    /// value means nothing: the SDK alone would go on without it.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Self, BadSettings> {
        let variable = |name: &str| filled(&variable, name);
        let mut faults = Vec::new();
        let [fips, dual_stack, no_endpoints] =
            ["AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"]
                .map(|name| note(&mut faults, flag(variable, name), false));
        let region = note(&mut faults, required_region(variable), None);
        let of_requests = note(&mut faults, checksums(variable, "AWS_REQUEST_CHECKSUM_CALCULATION"), None);
        let of_answers = note(&mut faults, checksums(variable, "AWS_RESPONSE_CHECKSUM_VALIDATION"), None);
        let app_name = note(&mut faults, app_name(variable), None);
        if !faults.is_empty() {
            return Err(BadSettings(faults));
        }
        let endpoints = if no_endpoints { Endpoints::default() } else { Endpoints::read(variable) };
        let own_endpoint = endpoints.of("").or(endpoints.of("S3")).is_some();
        let mut config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(region)
            .credentials_provider(credentials(variable))
            .http_client(https())
            .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS))
            .timeout_config(
                TimeoutConfig::builder()
                    .connect_timeout(CONNECT_TIMEOUT)
                    .operation_attempt_timeout(ATTEMPT_TIMEOUT)
                    .build(),
            )
            .use_fips(fips)
            .use_dual_stack(dual_stack)
            .service_config(endpoints);
        config.set_request_checksum_calculation(of_requests);
        config.set_response_checksum_validation(of_answers);
        config.set_app_name(app_name);
        Ok(Self { sdk: config.build(), path_style: own_endpoint })
    }
}

impl Clients {
    /// Clients by [`Configuration::from_environment`].
    ///
    /// # Errors
    ///
    /// Those of the configuration.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Self, BadSettings> {
        let configuration = Configuration::from_environment(variable)?;
        Ok(Self::from_config(&configuration.sdk, configuration.path_style))
    }

    /// Clients by a configuration. With an endpoint of one's own, buckets are a part of the path,
    /// since such endpoints have no name for every bucket.
    #[must_use]
    pub fn from_config(config: &SdkConfig, path_style: bool) -> Self {
        use aws_sdk_firehose::config::Builder as Firehose;
        use aws_sdk_lambda::config::Builder as Lambda;
        use aws_sdk_s3::config::Builder as S3;
        use aws_sdk_sns::config::Builder as Sns;
        use aws_sdk_sqs::config::Builder as Sqs;

        let s3 = S3::from(config).force_path_style(path_style).interceptor(NoTrace);
        Self {
            sns: aws_sdk_sns::Client::from_conf(Sns::from(config).interceptor(NoTrace).build()),
            sqs: aws_sdk_sqs::Client::from_conf(Sqs::from(config).interceptor(NoTrace).build()),
            s3: aws_sdk_s3::Client::from_conf(s3.build()),
            lambda: aws_sdk_lambda::Client::from_conf(Lambda::from(config).interceptor(NoTrace).build()),
            firehose: aws_sdk_firehose::Client::from_conf(
                Firehose::from(config).interceptor(NoTrace).build(),
            ),
        }
    }
}

/// The header of a request that names its trace.
pub(crate) const TRACE_HEADER: &str = "x-amzn-trace-id";

/// Takes the function's own trace off each request.
///
/// In a Lambda function the SDK adds it. It counts the passes of a loop, and what is sent with it counts as one
/// pass more of the function's: after sixteen Lambda would stop a subscriber that only gets its retries. The
/// SDK's `RecursionDetectionInterceptor` cannot be disabled, but it comes before those of a client; a
/// letter's own trace, which belongs to one request, is added after them.
/// <https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html>
#[derive(Debug)]
struct NoTrace;

#[dyn_dispatch_hint]
impl Intercept for NoTrace {
    fn name(&self) -> &'static str {
        "NoTrace"
    }

    fn modify_before_signing(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        context.request_mut().headers_mut().remove(TRACE_HEADER);
        Ok(())
    }
}

/// The region of a queue or topic, where it is not the client's own. A call's own region costs as much processor time
/// as two of its letters, and nearly all are where the function is.
pub(crate) fn elsewhere(arn: &Arn, own: Option<&Region>) -> Option<Region> {
    (own.map(Region::as_ref) != Some(arn.region())).then(|| Region::new(arn.region().to_owned()))
}
