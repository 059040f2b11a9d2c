//! The AWS clients, made once per process.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
use aws_types::service_config::{LoadServiceConfig, ServiceConfigKey};

use crate::arn::Arn;
use crate::https::https;
use crate::settings::{BadSettings, SettingFault};

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

impl Clients {
    /// Clients by Lambda's environment: region, credentials, and the endpoints that the SDK's own variables
    /// name. Profiles and the credentials of machines are not looked for: Lambda has neither, and looking
    /// takes time and room.
    /// <https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html>
    ///
    /// # Errors
    ///
    /// [`BadSettings`] where there is no region: every call would fail, and tell little of why.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Self, BadSettings> {
        let is_true = |name: &str| variable(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let region = region(&variable).ok_or_else(|| {
            let problem = "is missing: the region of AWS, which Lambda sets itself".to_owned();
            BadSettings(vec![SettingFault { variable: "AWS_REGION", problem }])
        })?;
        let endpoints = Endpoints::read(&variable);
        let own_endpoint = endpoints.of("").or(endpoints.of("S3")).is_some();
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(region)
            .credentials_provider(credentials(&variable))
            .http_client(https())
            .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS))
            .timeout_config(
                TimeoutConfig::builder()
                    .connect_timeout(CONNECT_TIMEOUT)
                    .operation_attempt_timeout(ATTEMPT_TIMEOUT)
                    .build(),
            )
            .use_fips(is_true("AWS_USE_FIPS_ENDPOINT"))
            .use_dual_stack(is_true("AWS_USE_DUALSTACK_ENDPOINT"))
            .service_config(endpoints)
            .build();
        Ok(Self::from_config(&config, own_endpoint))
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

/// The region of a queue or topic, where it is not the client's own. A call's own region costs as much processor time
/// as two of its letters, and nearly all are where the function is.
pub(crate) fn elsewhere(arn: &Arn, own: Option<&Region>) -> Option<Region> {
    (own.map(Region::as_ref) != Some(arn.region())).then(|| Region::new(arn.region().to_owned()))
}

/// The region that the environment names; a blank one would only make a host without a name.
pub(crate) fn region(variable: impl Fn(&str) -> Option<String>) -> Option<Region> {
    let filled = |name: &&str| variable(name).filter(|value| !value.trim().is_empty());
    ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().find_map(filled).map(Region::new)
}

/// Lambda's own credentials; where there are none, every call says so.
fn credentials(variable: impl Fn(&str) -> Option<String>) -> SharedCredentialsProvider {
    let filled = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    match (filled("AWS_ACCESS_KEY_ID"), filled("AWS_SECRET_ACCESS_KEY")) {
        (Some(id), Some(secret)) => {
            let token = filled("AWS_SESSION_TOKEN");
            SharedCredentialsProvider::new(Credentials::new(id, secret, token, None, "Environment"))
        }
        _ => SharedCredentialsProvider::new(EnvironmentVariableCredentialsProvider::new()),
    }
}

/// Endpoints of one's own, by the service's part of their variable's name: `AWS_ENDPOINT_URL_SQS` is `SQS`,
/// `AWS_ENDPOINT_URL` the empty name.
#[derive(Debug)]
struct Endpoints(BTreeMap<&'static str, String>);

/// The services of [`Clients`].
const SERVICES: [&str; 6] = ["", "SNS", "SQS", "S3", "LAMBDA", "FIREHOSE"];

const ENDPOINT_URL: &str = "AWS_ENDPOINT_URL";

impl Endpoints {
    fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        if variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS").is_some_and(|it| it.eq_ignore_ascii_case("true")) {
            return Self(BTreeMap::new());
        }
        let of = |service: &'static str| {
            let name = if service.is_empty() {
                ENDPOINT_URL.to_owned()
            } else {
                format!("{ENDPOINT_URL}_{service}")
            };
            variable(&name).map(|url| (service, url))
        };
        Self(SERVICES.into_iter().filter_map(of).collect())
    }

    fn of(&self, service: &str) -> Option<String> {
        self.0.get(service).cloned()
    }
}

impl LoadServiceConfig for Endpoints {
    fn load_config(&self, key: ServiceConfigKey<'_>) -> Option<String> {
        let service = key.service_id().to_uppercase();
        if key.env() == ENDPOINT_URL { self.of(&service).or_else(|| self.of("")) } else { None }
    }
}
