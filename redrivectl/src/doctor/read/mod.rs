//! The calls that make a [`Setup`]. Each only reads, but for the test of conditional writes, which is asked for.

mod archive;
mod function;
mod grants;
mod letters;
mod queues;
mod subscriptions;

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use super::setup::{Setup, Untold};
use crate::args;
use crate::aws;
use crate::console::{Console, Failed};
use sns_redrive::arn::{Arn, ArnKind};
use sns_redrive::clients::failure_of_call;

/// Reads everything that the checks look at.
///
/// # Errors
///
/// Nothing names a function, or the function cannot be read. All else that cannot be read is a part of the answer.
pub(super) async fn setup(args: &args::Doctor, console: &mut Console) -> Result<Setup, Failed> {
    let name = match &args.function {
        Some(name) => name.clone(),
        None => console.stack.required("FunctionName", "--function")?.ok_or_else(|| {
            Failed::Input(vec![
                "which function? Give --stack NAME (or REDRIVE_STACK) or --function NAME".to_owned(),
            ])
        })?,
    };
    let (clients, iam) = aws::clients_and_iam(&args.connection, console).await?;
    let template = match console.stack.name() {
        Some(stack) => {
            Some(function::template(&aws::formation(&args.connection, console).await?, stack).await)
        }
        None => None,
    };
    let (function, arn) = function::read(&clients.lambda, &name).await?;
    let mappings = function::mappings(&clients.lambda, &name).await;
    let requeue = function.settings().and_then(|settings| settings.requeue.clone());
    let of_stack = console.stack.output("DeadLetterQueueArn").ok().flatten();
    let sources = mappings.iter().flatten().map(|mapping| mapping.source.clone());
    let mut arns: Vec<Arn> = Vec::new();
    for arn in sources.chain(of_stack).filter_map(|arn| arn.parse::<Arn>().ok()) {
        if arn.kind() == ArnKind::Queue && Some(&arn) != requeue.as_ref() && !arns.contains(&arn) {
            arns.push(arn);
        }
    }
    let mut queues = Vec::new();
    for arn in arns {
        queues.push(queues::read(&clients.sqs, arn, false).await);
    }
    let requeue = match requeue {
        Some(arn) => Some(queues::read(&clients.sqs, arn, true).await),
        None => None,
    };
    let subscriptions = subscriptions::read(&clients.sns, &queues, requeue.as_ref(), console).await;
    let (archive, control) = archive::read(&clients.s3, function.settings()).await;
    let conditional = match args.write_test {
        true => Some(archive::test(&clients.s3, control.as_ref(), console).await),
        false => None,
    };
    let (orders, waiting) = letters::read(&clients.s3, function.settings(), console).await;
    let mut setup = Setup {
        now: console.clock.now(),
        template,
        function,
        mappings,
        queues,
        requeue,
        subscriptions,
        archive,
        control,
        conditional,
        orders,
        waiting,
        grants: Ok(Vec::new()),
    };
    setup.grants = grants::read(&iam, &clients, &arn, &setup).await;
    Ok(setup)
}

/// A call that failed.
fn untold<E: ProvideErrorMetadata>(call: &'static str, error: &SdkError<E>) -> Untold {
    Untold { call, why: failure_of_call(error).code }
}
