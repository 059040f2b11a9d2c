//! Checks the mode and the policy of a stack's function before a terminal replays.

use std::io::Write;
use std::sync::Arc;

use redrive_aws::clients::AwsClients;
use redrive_core::arn::Arn;
use redrive_replay::{RedriverReader, RedriverState, ReplayError};

use crate::console::{CommandFailure, ToolEnvironment};
use crate::tables::harmless;

/// Asks what the stack's function does with letters from its requeue. Returns `None` without a stack, if the
/// stack's outputs name no function, or if Lambda cannot be asked. The last case is printed.
///
/// # Errors
///
/// The function does not work on that requeue, or does not work at all.
pub(crate) async fn ask(
    requeue: &Arn,
    clients: &AwsClients,
    console: &mut ToolEnvironment,
) -> Result<Option<Arc<RedriverState>>, CommandFailure> {
    let Some(function) = console.stack.output("FunctionArn")? else { return Ok(None) };
    let redriver = RedriverReader::new(clients, function, console.clock.clone());
    match redriver.ask(requeue).await {
        Ok(redriving) => Ok(Some(redriving)),
        Err(error @ ReplayError::Failed { .. }) => {
            let error = harmless(&error.to_string());
            writeln!(
                console.err,
                "redrivectl: cannot check the function's mode and policy, so the replay goes on without them: {error}"
            )?;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
