//! The function that redrives the letters that a replay sends: whether it works on them, and by which policy.
//!
//! Its variables can change at any time, so they are read from Lambda and not copied.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_lambda::operation::get_function_configuration::GetFunctionConfigurationOutput;
use aws_sdk_lambda::types::State;
use redrive_aws::clients::{AwsClients, failure_of_call};
use redrive_aws::clock::InstanceClock;
use redrive_aws::policy_object::UnreadPolicy;
use redrive_aws::settings::PolicyAt;
use redrive_core::arn::Arn;
use redrive_core::batch::OperatingMode;
use redrive_core::policy::Policy;

use super::deployed::DeployedSettings;
use super::error::ReplayError;

/// The time for which an answer is valid. Lambda answers 15 calls of this kind per second, for the whole
/// account.
/// <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html#api-requests>
const MAX_AGE: Duration = Duration::from_mins(1);

/// A reader of the configuration of the function that redrives replayed letters.
#[derive(Debug)]
pub struct RedriverReader {
    lambda: aws_sdk_lambda::Client,
    s3: aws_sdk_s3::Client,
    /// The function's name or ARN.
    function: String,
    clock: InstanceClock,
    /// The last answer with which the function works on letters, and the age of this instance until which it is
    /// valid.
    kept: Mutex<Option<(Duration, Arc<RedriverState>)>>,
}

/// The result of reading the function's configuration: whether it works on letters in the requeue, and by
/// which policy.
#[derive(Debug)]
pub struct RedriverState {
    /// The reason why letters stay in the requeue, if the function does not work on them.
    pub idle: Option<String>,
    /// The policy. `None` if only the function itself can read it.
    pub policy: Option<Policy>,
    /// The policy for lanes.
    pub for_lanes: PolicyOfLanes,
}

/// The policy as lanes get it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub enum PolicyOfLanes {
    /// None: it is this function's own, or only the function itself can read it.
    #[default]
    Unknown,
    /// JSON. A thousand lanes could not ask Lambda for it at the same time.
    Json(String),
    /// An object in S3: it may be too long for a thousand lines.
    Object(PolicyAt),
}

impl RedriverReader {
    /// Creates a reader for the function with this name or ARN.
    #[must_use]
    pub fn new(clients: &AwsClients, function: String, clock: InstanceClock) -> Self {
        let (lambda, s3) = (clients.lambda.clone(), clients.s3.clone());
        Self { lambda, s3, function, clock, kept: Mutex::default() }
    }

    /// Returns the function's name or ARN.
    #[must_use]
    pub fn function(&self) -> &str {
        &self.function
    }

    /// Returns what the function does with letters of this requeue. An answer with which it works on them is
    /// valid for a minute.
    ///
    /// # Errors
    ///
    /// [`ReplayError`] if Lambda does not return the function's variables, or if no function can work with
    /// them.
    pub async fn ask(&self, requeue: &Arn) -> Result<Arc<RedriverState>, ReplayError> {
        let age = self.clock.age();
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, redriving)) = kept.filter(|(until, _)| age < *until) {
            return Ok(redriving);
        }
        let asked = self.lambda.get_function_configuration().function_name(&self.function);
        let what =
            || format!("reading the configuration of {} (lambda:GetFunctionConfiguration)", self.function);
        let answer =
            asked.send().await.map_err(|error| ReplayError::failed(what(), failure_of_call(&error)))?;
        let redriving = Arc::new(self.read(&answer, requeue).await?);
        if redriving.idle.is_none() {
            let kept = Some((age + MAX_AGE, Arc::clone(&redriving)));
            *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = kept;
        }
        Ok(redriving)
    }

    /// Interprets Lambda's answer, and reads a policy that is in S3.
    async fn read(
        &self,
        answer: &GetFunctionConfigurationOutput,
        requeue: &Arn,
    ) -> Result<RedriverState, ReplayError> {
        let function = &self.function;
        // A caller who may not use the key of the variables gets an error in their place.
        let mut deployed = DeployedSettings::read(answer).map_err(|failure| {
            let key = answer.kms_key_arn().unwrap_or("its key");
            ReplayError::failed(
                format!("reading the variables of {function} (kms:Decrypt on {key})"),
                failure,
            )
        })?;
        let wrong = |why: String| ReplayError::Request(vec![why]);
        let policy_at = deployed.settings.as_ref().ok().and_then(|settings| settings.policy_at.clone());
        deployed.read_policy(&self.s3).await.map_err(|unread| match unread {
            UnreadPolicy::Wrong { .. } => wrong(format!("{function} cannot work: {unread}")),
            UnreadPolicy::Call { .. } => unread.into(),
        })?;
        let settings = deployed.settings.map_err(|bad| wrong(format!("{function} cannot work: {bad}")))?;
        if settings.requeue.as_ref() != Some(requeue) {
            let other = settings.requeue.as_ref().map_or("none", Arn::as_str);
            let why = format!("{function} does not take letters from {requeue}: its REQUEUE_ARN is {other}");
            return Err(wrong(why));
        }
        Ok(RedriverState {
            idle: self.idle(settings.mode, answer),
            policy: (!deployed.has_policy_file).then_some(settings.policy),
            for_lanes: match policy_at {
                _ if deployed.has_policy_file => PolicyOfLanes::Unknown,
                Some(place) => PolicyOfLanes::Object(place),
                None => PolicyOfLanes::Json(deployed.policy.unwrap_or_else(|| "{}".to_owned())),
            },
        })
    }

    /// Returns why the function does not work on letters, or `None` if it does.
    fn idle(&self, mode: OperatingMode, answer: &GetFunctionConfigurationOutput) -> Option<String> {
        if mode == OperatingMode::Observe {
            return Some(format!("REDRIVE_MODE of {} is observe", self.function));
        }
        // An Inactive function becomes Active with its next event.
        let state = answer.state().filter(|state| {
            matches!(
                state,
                State::Failed
                    | State::Deleting
                    | State::Deactivated
                    | State::Deactivating
                    | State::ActiveNonInvocable
            )
        })?;
        let reason = answer.state_reason().map_or_else(String::new, |reason| format!(" ({reason})"));
        Some(format!("{} is {}{reason}", self.function, state.as_str()))
    }
}
