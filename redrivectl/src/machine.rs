//! The state machine of `operations.yaml`, which replays what a terminal would take long for.

use aws_sdk_sfn::error::ProvideErrorMetadata;
use serde_json::json;

use crate::args;
use crate::aws;
use crate::console::{Console, Failed};
use sns_redrive::clients::failure_of_call;
use sns_redrive::failure::Failure;
use sns_redrive::replay::Wish;

/// Has the state machine of a stack replay. Returns the ARN of its execution; none where there is no such state machine.
pub(crate) async fn start(
    stack: &str,
    wish: &Wish,
    connection: &args::Connection,
    console: &Console,
) -> Result<Option<String>, Failed> {
    let (states, sts, region) = aws::states_and_sts(connection, console).await?;
    let caller = aws::caller(&sts).await;
    let caller =
        caller.map_err(|failure| failed("asking AWS for the account (sts:GetCallerIdentity)", &failure))?;
    let mut parts = caller.split(':').skip(1);
    let (partition, account) = (parts.next().unwrap_or_default(), parts.nth(2).unwrap_or_default());
    let machine = format!("arn:{partition}:states:{region}:{account}:stateMachine:{stack}-replay");
    let input = json!({ "replay": wish }).to_string();
    let started = states.start_execution().state_machine_arn(&machine).input(input).send().await;
    match started {
        Ok(started) => Ok(Some(started.execution_arn().to_owned())),
        Err(error) if error.code() == Some("StateMachineDoesNotExist") => Ok(None),
        Err(error) => Err(failed(&format!("starting {machine}"), &failure_of_call(&error))),
    }
}

fn failed(what: &str, failure: &Failure) -> Failed {
    let why = format!("{what} failed: {} ({})", failure.code, failure.class.name());
    if failure.is_denied() { Failed::Denied(why) } else { Failed::Work(why) }
}
