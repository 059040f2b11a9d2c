//! The function of a stack, which is asked before a terminal replays: whether it is at work, and by which policy.

use std::io::Write;
use std::sync::Arc;

use crate::console::{Console, Failed};
use crate::text::harmless;
use sns_redrive::arn::Arn;
use sns_redrive::clients::Clients;
use sns_redrive::replay::{Redriver, Redriving, ReplayError};

/// Asks what the function of the stack does with letters of its requeue. None where no stack is named or its outputs name no
/// function, or where Lambda cannot be asked, which is said.
///
/// # Errors
///
/// The function does not work on that requeue, or cannot work at all.
pub(crate) async fn ask(
    requeue: &Arn,
    clients: &Clients,
    console: &mut Console,
) -> Result<Option<Arc<Redriving>>, Failed> {
    let Some(function) = console.stack.output("FunctionArn")? else { return Ok(None) };
    let redriver = Redriver::new(clients.lambda.clone(), function, console.clock.clone());
    match redriver.ask(requeue).await {
        Ok(redriving) => Ok(Some(redriving)),
        Err(error @ ReplayError::Failed { .. }) => {
            let error = harmless(&error.to_string());
            writeln!(
                console.err,
                "redrivectl: nobody knows whether the function works on what is sent, and by which policy: {error}"
            )?;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
