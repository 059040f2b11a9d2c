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
use redrive_core::arn::Arn;

use super::environment::{CustomEndpoints, app_name, checksums, credentials, filled, flag, required_region};
use super::https::https;
use crate::clock::InstanceClock;
use crate::settings::{BadSettings, note};

/// The clients that the function uses.
#[derive(Debug, Clone)]
pub struct AwsClients {
    /// The client for topics and subscriptions.
    pub sns: aws_sdk_sns::Client,
    /// The client for queues.
    pub sqs: aws_sdk_sqs::Client,
    /// The client for buckets.
    pub s3: aws_sdk_s3::Client,
    /// The client for functions.
    pub lambda: aws_sdk_lambda::Client,
    /// The client for streams.
    pub firehose: aws_sdk_firehose::Client,
}

/// The number of tries of a call. The SDK tries twice more on throttling and on network errors, within a
/// second or two, so that a hiccup does not cost a letter one of its retries. Longer problems are left to the
/// schedule, or a batch would spend its time waiting.
const CALL_ATTEMPTS: u32 = 3;

/// The timeout of one try of a call. It is longer than SNS and SQS ever take, and short enough for a second
/// try.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// The timeout for making a connection: name, address and TLS.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The configuration of the clients.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// The region, credentials, endpoints and timeouts.
    pub sdk: SdkConfig,
    /// `true` if a bucket's name is part of the path and not of the host name.
    pub path_style: bool,
}

impl ClientSettings {
    /// Reads Lambda's environment: region, credentials, and the SDK's own variables for endpoints, checksums
    /// and the application's name. It does not look for profiles and machine credentials: Lambda has neither,
    /// and looking takes time and memory.
    /// <https://docs.aws.amazon.com/sdkref/latest/guide/settings-reference.html>
    ///
    /// # Errors
    ///
    /// [`BadSettings`] if there is no region, because every call would fail with an unclear error. Also if a
    /// value is invalid, because the SDK alone would ignore it.
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
        let endpoints =
            if no_endpoints { CustomEndpoints::default() } else { CustomEndpoints::read(variable) };
        let own_endpoint = endpoints.of("").or(endpoints.of("S3")).is_some();
        let mut config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(region)
            .credentials_provider(credentials(variable))
            .http_client(https(InstanceClock::system()))
            .retry_config(RetryConfig::standard().with_max_attempts(CALL_ATTEMPTS))
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

impl AwsClients {
    /// Creates clients from [`ClientSettings::from_environment`].
    ///
    /// # Errors
    ///
    /// The same as those of [`ClientSettings::from_environment`].
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Self, BadSettings> {
        let configuration = ClientSettings::from_environment(variable)?;
        Ok(Self::from_config(&configuration.sdk, configuration.path_style))
    }

    /// Creates clients from a configuration. With custom endpoints buckets must be part of the path, because
    /// such endpoints do not have a host name for every bucket.
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

/// Removes the function's own trace from each request.
///
/// In a Lambda function the SDK adds it. Lambda counts the passes of a loop in it, and anything sent with it
/// counts as one more pass of this function. After sixteen passes Lambda would stop a subscriber that only
/// gets its retries. The SDK's `RecursionDetectionInterceptor` cannot be disabled, but it runs before the
/// interceptors of a client. A letter's own trace belongs to one request and is added after them.
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

/// Returns the region of a queue or topic if it is not the client's own. Setting the region for a single call
/// costs as much processor time as two letters of that call, and nearly all queues and topics are in the
/// function's region.
#[must_use]
pub fn elsewhere(arn: &Arn, own: Option<&Region>) -> Option<Region> {
    (own.map(Region::as_ref) != Some(arn.region())).then(|| Region::new(arn.region().to_owned()))
}
