//! The calls that fill a [`DeploymentFacts`]. All of them only read, except the test of conditional writes, which is
//! made on request.

mod alarms;
mod archive;
mod error;
mod function;
mod grants;
mod letters;
mod needs;
mod queues;
mod subscriptions;

use std::collections::BTreeSet;

use redrive_aws::settings::Settings;
use redrive_core::arn::{Arn, ArnKind};

use super::setup::{DeployedQueue, DeployedSubscription, DeploymentFacts, ReadError, ReadResult};
use crate::args;
use crate::aws::AwsAccess;
use crate::console::{CommandFailure, ToolEnvironment};

pub(crate) use error::read_error;
pub(crate) use grants::policy_of_function;
pub(crate) use queues::mappings_of_queue;
pub(crate) use subscriptions::{
    ListedSubscription, ListedSubscriptions, ask, each, listed, of_topic, read as read_subscriptions,
};

/// The output of a stack that names its function.
const FUNCTION_NAME: &str = "FunctionName";

/// Reads everything that the checks look at.
///
/// # Errors
///
/// No function is named, or it cannot be read. Other failed reads are part of the result.
pub(super) async fn setup(
    args: &args::DoctorArgs,
    console: &mut ToolEnvironment,
) -> Result<DeploymentFacts, CommandFailure> {
    let name = match &args.function {
        Some(name) => name.clone(),
        None => console.stack.required(FUNCTION_NAME, "--function")?.ok_or_else(|| {
            CommandFailure::Input(vec![
                "no function is named: give --stack NAME (or REDRIVE_STACK) or --function NAME".to_owned(),
            ])
        })?,
    };
    let aws = AwsAccess::connect(&args.connection, console).await?;
    let clients = aws.clients();
    let (function, arn) = function::read(&clients, &name).await?;
    let mappings = function::mappings(&clients.lambda, &name).await;
    let sources = mappings.iter().flatten().map(|mapping| mapping.source.as_str());
    let stack = other_than(&function.name, console);
    let of_stack = match stack {
        Ok(None) => outputs(console).unwrap_or_default(),
        _ => StackQueues::default(),
    };
    let release = match (console.stack.name(), &stack) {
        (None, _) | (_, Ok(Some(_))) => None,
        (_, Err(error)) => Some(Err(error.clone())),
        (Some(name), Ok(None)) => {
            let code_prefix = console.stack.parameter(function::CODE_PREFIX)?;
            Some(function::release(&aws.formation(), name, code_prefix).await)
        }
    };
    let alarm_topics = match (console.stack.name(), &stack) {
        (Some(_), Ok(None)) => Some(alarms::topics(&clients.sns, console).await?),
        _ => None,
    };
    let (arns, requeue) = queues_of(function.settings(), sources, &of_stack);
    let mut queues = Vec::new();
    for arn in arns {
        queues.push(queues::read(&clients.sqs, arn, false).await);
    }
    let requeue = match requeue {
        Some(arn) => Some(queues::read(&clients.sqs, arn, true).await),
        None => None,
    };
    let own: Vec<_> = queues.iter().chain(&requeue).map(|queue| &queue.arn).collect();
    let left_behind = match (&stack, console.stack.name(), arn.parse()) {
        (Ok(None), Some(stack), Ok(function)) => {
            Some(queues::left_behind(&clients, stack, &function, &own).await)
        }
        _ => None,
    };
    let subscriptions = subscriptions::read(&clients.sns, &queues, requeue.as_ref(), console).await;
    let named = subscriptions.iter().flat_map(|it| &it.all).filter_map(DeployedSubscription::queue);
    let named: BTreeSet<String> = named.map(|queue| queue.to_string()).collect();
    let named = named.iter().filter_map(|queue| queue.parse().ok());
    let undrained = queues::undrained(&clients, named, &own).await;
    let (archive, control) = archive::read(&clients.s3, function.settings()).await;
    let conditional = if args.write_test {
        Some(archive::test(&clients.s3, control.as_ref(), console).await)
    } else {
        None
    };
    let (overrides, waiting) = letters::read(&clients.s3, function.settings(), console).await;
    let mut setup = DeploymentFacts {
        now: console.clock.now(),
        stack,
        release,
        alarm_topics,
        function,
        mappings,
        queues,
        requeue,
        left_behind,
        undrained,
        subscriptions,
        targets: Vec::new(),
        archive,
        control,
        conditional,
        overrides,
        waiting,
        grants: Ok(Vec::new()),
    };
    setup.targets = grants::target_queues(&clients, &arn, &setup).await;
    setup.grants = grants::read(&aws.iam(), &clients, &arn, &setup).await;
    Ok(setup)
}

/// Reads the attributes of a queue.
pub(crate) async fn read_queue(sqs: &aws_sdk_sqs::Client, arn: Arn) -> DeployedQueue {
    queues::read(sqs, arn, false).await
}

/// Reads which queues feed a function: the dead-letter queues and the requeue. If Lambda does not tell, or no
/// function is named, returns those of the stack's outputs.
pub(crate) async fn feeding(
    lambda: &aws_sdk_lambda::Client,
    function: Option<&str>,
    console: &ToolEnvironment,
) -> Result<(Vec<Arn>, Option<Arn>), CommandFailure> {
    let of_stack = outputs(console)?;
    let mappings = match function {
        Some(name) => function::mappings(lambda, name).await,
        None => Ok(Vec::new()),
    };
    let sources = mappings.iter().flatten().map(|mapping| mapping.source.as_str());
    Ok(queues_of(None, sources, &of_stack))
}

/// Reads the release that the template of a stack names.
///
/// # Errors
///
/// The template cannot be read.
pub(crate) async fn template_version(
    formation: &aws_sdk_cloudformation::Client,
    stack: &str,
) -> ReadResult<Option<String>> {
    Ok(function::release(formation, stack, None).await?.template)
}

/// Reads which queues feed a function, by its mappings alone.
///
/// # Errors
///
/// Lambda does not tell, in words.
pub(crate) async fn mapped(lambda: &aws_sdk_lambda::Client, function: &str) -> Result<Vec<Arn>, String> {
    let mappings = function::mappings(lambda, function).await;
    let mappings = mappings.map_err(|error| format!("{} failed ({})", error.call, error.why))?;
    let queues = mappings.iter().filter_map(|mapping| mapping.source.parse::<Arn>().ok());
    Ok(queues.filter(|arn| arn.kind() == ArnKind::Queue).collect())
}

/// The queues that the outputs of a stack name, if one is named.
#[derive(Debug, Default)]
struct StackQueues {
    dead_letters: Option<String>,
    requeue: Option<String>,
}

/// Returns why the named stack is not that of this function; `None` if it is, or if no stack is named.
fn other_than(function: &str, console: &ToolEnvironment) -> ReadResult<Option<String>> {
    let Some(stack) = console.stack.name() else { return Ok(None) };
    let of = console.stack.output(FUNCTION_NAME);
    let of = of.map_err(|failed| ReadError::new("cloudformation:DescribeStacks", failed.to_string()))?;
    Ok(match of {
        Some(of) if of == function => None,
        Some(of) => Some(format!("The stack {stack} belongs to the function {of}")),
        None => Some(format!("The stack {stack} has no output {FUNCTION_NAME}")),
    })
}

fn outputs(console: &ToolEnvironment) -> Result<StackQueues, CommandFailure> {
    let output = |name| console.stack.output(name);
    Ok(StackQueues { dead_letters: output("DeadLetterQueueArn")?, requeue: output("RequeueArn")? })
}

/// Returns the dead-letter queues and the requeue. Without settings only the stack names the requeue.
fn queues_of<'a>(
    settings: Option<&Settings>,
    sources: impl Iterator<Item = &'a str>,
    stack: &'a StackQueues,
) -> (Vec<Arn>, Option<Arn>) {
    let queue = |text: &str| text.parse::<Arn>().ok().filter(|arn| arn.kind() == ArnKind::Queue);
    let of_stack = || stack.requeue.as_deref().and_then(queue);
    let requeue = settings.map_or_else(of_stack, |settings| settings.requeue.clone());
    let mut queues: Vec<Arn> = Vec::new();
    for arn in sources.chain(stack.dead_letters.as_deref()).filter_map(queue) {
        if Some(&arn) != requeue.as_ref() && !queues.contains(&arn) {
            queues.push(arn);
        }
    }
    (queues, requeue)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-dlq";
    const REQUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-requeue";

    #[test]
    fn without_settings_the_stack_says_which_queue_is_the_requeue() {
        let [dlq, requeue]: [Arn; 2] = [DLQ, REQUEUE].map(|arn| arn.parse().unwrap());
        let stack = StackQueues { dead_letters: Some(DLQ.to_owned()), requeue: Some(REQUEUE.to_owned()) };
        let sources = || [DLQ, REQUEUE].into_iter();
        let settings = |requeue: Option<&str>| {
            let variable = |name: &str| match name {
                "ARCHIVE" => Some("s3://my-bucket/dead-letters".to_owned()),
                "REQUEUE_ARN" => requeue.map(str::to_owned),
                _ => None,
            };
            Settings::read(variable).unwrap()
        };
        let both = (vec![dlq.clone()], Some(requeue.clone()));
        assert_eq!(queues_of(None, sources(), &stack), both);
        assert_eq!(queues_of(Some(&settings(Some(REQUEUE))), sources(), &StackQueues::default()), both);
        assert_eq!(
            queues_of(Some(&settings(None)), sources(), &stack),
            (vec![dlq, requeue], None),
            "the settings know better"
        );
    }
}
