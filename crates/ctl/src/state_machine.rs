//! The state machine of `operations.yaml`, which runs large replays.

use std::sync::atomic::AtomicBool;

use aws_sdk_sfn::Client;
use aws_sdk_sfn::error::ProvideErrorMetadata;
use aws_sdk_sfn::types::HistoryEvent;
use redrive_aws::clients::failure_of_call;
use redrive_core::failure::Failure;
use redrive_replay::{ErrorKind, EventRequest, ReplayState};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::args;
use crate::aws::{self, AwsAccess};
use crate::console::{CommandFailure, ToolEnvironment, check_interrupt};

/// How many of the latest events of an execution are searched for its last turn. A turn has at most fifteen
/// events, including the round or the wait after it; each failed attempt adds four.
const SEARCHED_EVENTS: i32 = 100;

/// An execution of the state machine: one replay, or a part of one.
pub(crate) struct MachineExecution {
    states: Client,
    pub(crate) arn: String,
}

/// The state of an execution.
pub(crate) struct ExecutionState {
    /// The state of its replay after the last turn; `None` before the end of the first one.
    pub(crate) replay: Option<ReplayState>,
    /// Its end; `None` while it runs.
    pub(crate) end: Option<ExecutionEnd>,
}

/// The end of an execution.
pub(crate) enum ExecutionEnd {
    /// It succeeded: the replay is done, or has stopped.
    Through,
    /// Another process works on the same letters, or on the same replay.
    Busy(String),
    /// It failed by an error of the replay function or of Step Functions.
    Failed(ErrorKind, String),
    /// Somebody aborted it, or it timed out.
    CutOff(&'static str),
}

/// Starts a replay by the state machine of a stack. Returns its execution, or `None` if there is no such state machine.
pub(crate) async fn start(
    stack: &str,
    wish: &EventRequest,
    connection: &args::ConnectionArgs,
    stop: Option<&AtomicBool>,
    console: &ToolEnvironment,
) -> Result<Option<MachineExecution>, CommandFailure> {
    let aws = AwsAccess::connect(connection, console).await?;
    let (states, region) = (aws.states(), aws.region());
    let caller = aws::caller(&aws.sts()).await;
    let caller =
        caller.map_err(|failure| failed("asking AWS for the account (sts:GetCallerIdentity)", &failure))?;
    let mut parts = caller.split(':').skip(1);
    let (partition, account) = (parts.next().unwrap_or_default(), parts.nth(2).unwrap_or_default());
    let machine = format!("arn:{partition}:states:{region}:{account}:stateMachine:{stack}-replay");
    let input = json!({ "replay": wish }).to_string();
    if let Some(stop) = stop {
        check_interrupt(stop)?;
    }
    let started = states.start_execution().state_machine_arn(&machine).input(input).send().await;
    match started {
        Ok(started) => Ok(Some(MachineExecution { states, arn: started.execution_arn })),
        Err(error) if error.code() == Some("StateMachineDoesNotExist") => Ok(None),
        Err(error) => {
            let failure = failure_of_call(&error);
            let failed = failed(&format!("starting {machine} (states:StartExecution)"), &failure);
            Err(match failed {
                // AWS gives the same answer if the state machine does not exist: only callers who may start
                // it can tell the difference.
                CommandFailure::Denied(why) => {
                    CommandFailure::Denied(format!("{why}. To replay from this terminal, add --workers 4"))
                }
                failed => failed,
            })
        }
    }
}

fn failed(what: &str, failure: &Failure) -> CommandFailure {
    let said = failure.message.as_ref().map_or(String::new(), |said| format!(": {said}"));
    let why = format!("{what} failed: {} ({}){said}", failure.code, failure.class.name());
    CommandFailure::of_call(why, failure.is_denied())
}

impl MachineExecution {
    /// Reads its state from its latest events.
    /// <https://docs.aws.amazon.com/step-functions/latest/apireference/API_GetExecutionHistory.html>
    ///
    /// # Errors
    ///
    /// The call failed, or the answer is from a newer version of the replay function.
    pub(crate) async fn look(&self) -> Result<ExecutionState, CommandFailure> {
        let asked = self.states.get_execution_history().execution_arn(&self.arn);
        let asked = asked.reverse_order(true).max_results(SEARCHED_EVENTS);
        let history = asked.send().await.map_err(|error| {
            let what = format!("reading the state of {} (states:GetExecutionHistory)", self.arn);
            failed(&what, &failure_of_call(&error))
        })?;
        let events = history.events();
        let mut standing = ExecutionState { replay: None, end: events.first().and_then(end_of) };
        let outputs = events.iter().filter_map(|event| event.state_exited_event_details()?.output());
        for answer in outputs.filter_map(|output| serde_json::from_str::<Value>(output).ok()) {
            if let Some(replay) = answer.get("replay") {
                standing.replay = Some(ReplayState::from_json(replay, &self.arn)?);
                break;
            }
            let because = answer.get("because").and_then(Value::as_str).unwrap_or_default();
            if matches!(standing.end, Some(ExecutionEnd::Through)) && answer["status"] == "busy" {
                standing.end = Some(ExecutionEnd::Busy(because.to_owned()));
            }
        }
        Ok(standing)
    }
}

/// Returns the end of an execution, if its last event shows one.
fn end_of(last: &HistoryEvent) -> Option<ExecutionEnd> {
    use aws_sdk_sfn::types::HistoryEventType::{
        ExecutionAborted, ExecutionFailed, ExecutionSucceeded, ExecutionTimedOut,
    };
    Some(match last.r#type() {
        ExecutionSucceeded => ExecutionEnd::Through,
        ExecutionAborted => ExecutionEnd::CutOff("was aborted"),
        ExecutionTimedOut => ExecutionEnd::CutOff("has timed out"),
        ExecutionFailed => {
            let details = last.execution_failed_event_details();
            let error = details.and_then(|details| details.error()).unwrap_or_default();
            let cause = details.and_then(|details| details.cause()).unwrap_or_default();
            ExecutionEnd::Failed(
                ErrorKind::named(error),
                format!("the execution failed: {}", said(error, cause)),
            )
        }
        _ => return None,
    })
}

/// Returns the message of a failed execution. The cause that Lambda gives is JSON.
/// <https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html>
fn said(error: &str, cause: &str) -> String {
    #[derive(Deserialize)]
    struct ExecutionCause {
        #[serde(rename = "errorMessage")]
        message: String,
    }
    match serde_json::from_str::<ExecutionCause>(cause) {
        Ok(ExecutionCause { message }) => message,
        Err(_) if cause.is_empty() => error.to_owned(),
        Err(_) => format!("{error}: {cause}"),
    }
}
