//! Reads the account for the console's pages: from the stack's outputs and the function's event source
//! mappings.

use redrive_console::{BodyVisibility, ConsoleAccount, TargetGrants};

use crate::args;
use crate::aws::AwsAccess;
use crate::console::{CommandFailure, ToolEnvironment};
use crate::{doctor, s3_location};

/// The default namespace of the function's metrics, for stacks that do not name one.
const NAMESPACE: &str = "SnsRedrive";

/// Reads the account of a stack.
///
/// # Errors
///
/// No stack is named, or it cannot be read. A part that the stack lacks is `None`, and its page says so.
pub(crate) async fn account(
    bodies: BodyVisibility,
    aws: &AwsAccess,
    console: &ToolEnvironment,
) -> Result<ConsoleAccount, CommandFailure> {
    let Some(stack) = console.stack.name().map(str::to_owned) else {
        let problem = "which stack? Give --stack NAME (or REDRIVE_STACK)";
        return Err(CommandFailure::Input(vec![problem.to_owned()]));
    };
    let output = |name: &str| console.stack.output(name);
    let function = output("FunctionName")?;
    let (queues, requeue) = doctor::queues(&aws.clients().lambda, function.as_deref(), console).await?;
    Ok(ConsoleAccount {
        clients: aws.console(),
        archive: s3_location::archive(&args::ArchiveOption::default(), console).ok(),
        control: s3_location::control(&args::ControlPlace::default(), console).ok(),
        stack: Some(stack),
        function,
        log_group: output("LogGroupName")?,
        namespace: output("MetricsNamespace")?.unwrap_or_else(|| NAMESPACE.to_owned()),
        queues: queues.into_iter().chain(requeue.clone()).collect(),
        requeue,
        grants: grants(console)?,
        region: aws.region(),
        clock: console.clock.clone(),
        bodies,
    })
}

/// Returns the endpoints that the stack's parameters name.
fn grants(console: &ToolEnvironment) -> Result<TargetGrants, CommandFailure> {
    let mut arns = Some(Vec::new());
    for parameter in ["TargetQueueArns", "TargetFunctionArns", "TargetStreamArns", "TargetTopicArns"] {
        arns = arns.zip(console.stack.list(parameter)?).map(|(arns, more)| [arns, more].concat());
    }
    Ok(TargetGrants(arns))
}
