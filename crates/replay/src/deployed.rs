//! The settings of a deployed function, as Lambda tells them to others.

use aws_sdk_lambda::operation::get_function_configuration::GetFunctionConfigurationOutput;
use aws_sdk_lambda::types::{ApplicationLogLevel, LogFormat};
use redrive_aws::policy_object::{UnreadPolicy, read_policy};
use redrive_aws::settings::{BadSettings, Settings};
use redrive_core::failure::{Failure, FailureClass};

/// The variable that only the function itself can follow.
const POLICY_FILE: &str = "REDRIVE_POLICY_FILE";

/// The log levels that let all lines pass.
const FULL_LOG_LEVELS: [ApplicationLogLevel; 3] =
    [ApplicationLogLevel::Trace, ApplicationLogLevel::Debug, ApplicationLogLevel::Info];

/// The settings of a deployed function.
#[derive(Debug)]
pub struct DeployedSettings {
    /// The settings as the function reads them, but for a policy in a file of its package, which is out of reach.
    pub settings: Result<Settings, BadSettings>,
    /// True if its policy is in such a file.
    pub has_policy_file: bool,
    /// The policy as JSON. `None` if it is the built-in one, or in S3 and not read.
    pub policy: Option<String>,
}

/// Returns the function's log level if lines are missing from its log by it: those of letters that are well. Metrics are not.
/// <https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-log-level.html>
#[must_use]
pub fn quiet_log_level(answer: &GetFunctionConfigurationOutput) -> Option<&ApplicationLogLevel> {
    let logging = answer.logging_config().filter(|logging| logging.log_format() == Some(&LogFormat::Json));
    logging
        .and_then(|logging| logging.application_log_level())
        .filter(|level| !FULL_LOG_LEVELS.contains(level))
}

impl DeployedSettings {
    /// Reads the policy too, if it is in S3.
    ///
    /// # Errors
    ///
    /// [`UnreadPolicy`] if the policy cannot be read, or is wrong. Then the function fails, too.
    pub async fn read_policy(&mut self, s3: &aws_sdk_s3::Client) -> Result<(), UnreadPolicy> {
        let Ok(settings) = &mut self.settings else { return Ok(()) };
        if let Some(place) = settings.policy_at.clone() {
            let document = read_policy(s3, &place).await?;
            self.policy = Some(document.json);
            if let Err(bad) = settings.take_policy(document.policy) {
                self.settings = Err(bad);
            }
        }
        Ok(())
    }

    /// Reads the settings from Lambda's answer.
    /// <https://docs.aws.amazon.com/lambda/latest/api/API_GetFunctionConfiguration.html>
    ///
    /// # Errors
    ///
    /// [`Failure`] where the caller may not use the key of the variables.
    pub fn read(answer: &GetFunctionConfigurationOutput) -> Result<Self, Failure> {
        let environment = answer.environment();
        if let Some(error) = environment.and_then(|environment| environment.error()) {
            return Err(Failure {
                message: error.message().map(str::to_owned),
                ..Failure::ours(FailureClass::ActionRequired, error.error_code().unwrap_or("Unreadable"))
            });
        }
        let variables = environment.and_then(|environment| environment.variables());
        // An empty value counts as none, as for the function.
        let variable =
            |name: &str| variables.and_then(|all| all.get(name)).filter(|value| !value.is_empty()).cloned();
        Ok(Self {
            settings: Settings::read(|name| variable(name).filter(|_| name != POLICY_FILE)),
            has_policy_file: variable(POLICY_FILE).is_some(),
            policy: variable("REDRIVE_POLICY"),
        })
    }
}
