//! The SDK's own environment variables: region, credentials, endpoints, flags.
//! <https://docs.aws.amazon.com/sdkref/latest/guide/settings-reference.html>

use std::collections::BTreeMap;
use std::str::FromStr;

use aws_config::Region;
use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
use aws_types::app_name::AppName;
use aws_types::service_config::{LoadServiceConfig, ServiceConfigKey};

use crate::settings::{Faults, fault};

/// A blank value counts as none.
pub(super) fn filled(variable: impl Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    variable(name).filter(|value| !value.trim().is_empty())
}

/// The region that the environment names.
pub fn region(variable: impl Fn(&str) -> Option<String>) -> Option<Region> {
    let name = filled(&variable, "AWS_REGION").or_else(|| filled(&variable, "AWS_DEFAULT_REGION"));
    name.map(Region::new)
}

pub(super) fn required_region(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Region>, Faults> {
    let missing = || fault("AWS_REGION", "is missing: the region of AWS, which Lambda sets itself");
    region(variable).map(Some).ok_or_else(missing)
}

/// When S3 gets or shows a checksum that it does not ask for; stores that only resemble S3 may know none.
/// <https://docs.aws.amazon.com/sdkref/latest/guide/feature-dataintegrity.html>
pub(super) fn checksums<T: FromStr>(
    variable: impl Fn(&str) -> Option<String>,
    name: &'static str,
) -> Result<Option<T>, Faults> {
    let Some(value) = variable(name) else { return Ok(None) };
    let problem = |_| fault(name, format!("must be when_supported or when_required, not {value:?}"));
    value.parse().map(Some).map_err(problem)
}

pub(super) fn flag(variable: impl Fn(&str) -> Option<String>, name: &'static str) -> Result<bool, Faults> {
    let Some(value) = variable(name) else { return Ok(false) };
    let problem = |_| fault(name, format!("must be true or false, not {value:?}"));
    value.to_ascii_lowercase().parse().map_err(problem)
}

/// The name by which AWS's logs tell this function's calls from others.
/// <https://docs.aws.amazon.com/sdkref/latest/guide/feature-appid.html>
pub(super) fn app_name(variable: impl Fn(&str) -> Option<String>) -> Result<Option<AppName>, Faults> {
    const NAME: &str = "AWS_SDK_UA_APP_ID";
    let Some(value) = variable(NAME) else { return Ok(None) };
    let problem = |_| fault(NAME, format!("must be of letters, digits and !#$%&'*+-.^_`|~, not {value:?}"));
    AppName::new(value.clone()).map(Some).map_err(problem)
}

/// Lambda's own credentials; where there are none, every call says so.
pub(super) fn credentials(variable: impl Fn(&str) -> Option<String>) -> SharedCredentialsProvider {
    match (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
        (Some(id), Some(secret)) => {
            let token = variable("AWS_SESSION_TOKEN");
            SharedCredentialsProvider::new(Credentials::new(id, secret, token, None, "Environment"))
        }
        _ => SharedCredentialsProvider::new(EnvironmentVariableCredentialsProvider::new()),
    }
}

/// Endpoints of one's own, by the service's part of their variable's name: `AWS_ENDPOINT_URL_SQS` is `SQS`,
/// `AWS_ENDPOINT_URL` the empty name.
#[derive(Debug, Default)]
pub(super) struct Endpoints(BTreeMap<&'static str, String>);

/// The services that somebody calls.
const SERVICES: [&str; 8] = ["", "SNS", "SQS", "S3", "LAMBDA", "FIREHOSE", "CLOUDWATCH", "CLOUDWATCH_LOGS"];

const ENDPOINT_URL: &str = "AWS_ENDPOINT_URL";

impl Endpoints {
    pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
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

    pub(super) fn of(&self, service: &str) -> Option<String> {
        self.0.get(service).cloned()
    }
}

impl LoadServiceConfig for Endpoints {
    fn load_config(&self, key: ServiceConfigKey<'_>) -> Option<String> {
        let service = key.service_id().to_uppercase().replace(' ', "_");
        if key.env() == ENDPOINT_URL { self.of(&service).or_else(|| self.of("")) } else { None }
    }
}
