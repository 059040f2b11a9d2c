//! The environment variables of the AWS SDK: region, credentials, endpoints, flags.
//! <https://docs.aws.amazon.com/sdkref/latest/guide/settings-reference.html>

use std::collections::BTreeMap;
use std::str::FromStr;

use aws_config::Region;
use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
use aws_types::app_name::AppName;
use aws_types::service_config::{LoadServiceConfig, ServiceConfigKey};

use crate::settings::{SettingFaults, fault};

/// Returns the value of a variable. A blank value counts as missing.
pub(super) fn filled(variable: impl Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    variable(name).filter(|value| !value.trim().is_empty())
}

/// Returns the region that the environment names.
pub fn region(variable: impl Fn(&str) -> Option<String>) -> Option<Region> {
    let name = filled(&variable, "AWS_REGION").or_else(|| filled(&variable, "AWS_DEFAULT_REGION"));
    name.map(Region::new)
}

pub(super) fn required_region(
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Region>, SettingFaults> {
    let missing = || {
        fault(
            "AWS_REGION",
            "is missing: set it to an AWS region such as eu-central-1 (on AWS, Lambda sets it)",
        )
    };
    region(variable).map(Some).ok_or_else(missing)
}

/// Reads when S3 gets, or checks, a checksum that it does not require. Stores that only resemble S3 may not
/// know any.
/// <https://docs.aws.amazon.com/sdkref/latest/guide/feature-dataintegrity.html>
pub(super) fn checksums<T: FromStr>(
    variable: impl Fn(&str) -> Option<String>,
    name: &'static str,
) -> Result<Option<T>, SettingFaults> {
    let Some(value) = variable(name) else { return Ok(None) };
    let problem = |_| fault(name, format!("must be when_supported or when_required, not {value:?}"));
    value.parse().map(Some).map_err(problem)
}

pub(super) fn flag(
    variable: impl Fn(&str) -> Option<String>,
    name: &'static str,
) -> Result<bool, SettingFaults> {
    let Some(value) = variable(name) else { return Ok(false) };
    let problem = |_| fault(name, format!("must be true or false, not {value:?}"));
    value.to_ascii_lowercase().parse().map_err(problem)
}

/// Reads the name that marks this function's calls in AWS's logs.
/// <https://docs.aws.amazon.com/sdkref/latest/guide/feature-appid.html>
pub(super) fn app_name(variable: impl Fn(&str) -> Option<String>) -> Result<Option<AppName>, SettingFaults> {
    const NAME: &str = "AWS_SDK_UA_APP_ID";
    let Some(value) = variable(NAME) else { return Ok(None) };
    let problem =
        |_| fault(NAME, format!("must consist of letters, digits and !#$%&'*+-.^_`|~, not {value:?}"));
    AppName::new(value.clone()).map(Some).map_err(problem)
}

/// Returns Lambda's own credentials. Without them every call fails and says so.
pub(super) fn credentials(variable: impl Fn(&str) -> Option<String>) -> SharedCredentialsProvider {
    match (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
        (Some(id), Some(secret)) => {
            let token = variable("AWS_SESSION_TOKEN");
            SharedCredentialsProvider::new(Credentials::new(id, secret, token, None, "Environment"))
        }
        _ => SharedCredentialsProvider::new(EnvironmentVariableCredentialsProvider::new()),
    }
}

/// Custom endpoints, by service. The key is the service's part of the variable's name: `SQS` for
/// `AWS_ENDPOINT_URL_SQS`, empty for `AWS_ENDPOINT_URL`.
#[derive(Debug, Default)]
pub(super) struct CustomEndpoints(BTreeMap<&'static str, String>);

/// The services that the software calls.
const SERVICES: [&str; 8] = ["", "SNS", "SQS", "S3", "LAMBDA", "FIREHOSE", "CLOUDWATCH", "CLOUDWATCH_LOGS"];

const ENDPOINT_URL: &str = "AWS_ENDPOINT_URL";

impl CustomEndpoints {
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

impl LoadServiceConfig for CustomEndpoints {
    fn load_config(&self, key: ServiceConfigKey<'_>) -> Option<String> {
        let service = key.service_id().to_uppercase().replace(' ', "_");
        if key.env() == ENDPOINT_URL { self.of(&service).or_else(|| self.of("")) } else { None }
    }
}
