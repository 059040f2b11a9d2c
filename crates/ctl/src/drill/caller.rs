//! The caller of a drill, who replays a letter.

use redrive_core::arn::Arn;

use crate::aws;
use crate::console::CommandFailure;
use crate::doctor::{PolicyAnswer, ResourcePolicy, read_queue};

/// Checks that the requeue's policy lets the caller send there. If AWS does not tell, the drill goes on, and its replay
/// finds out.
///
/// # Errors
///
/// The policy denies it to the caller.
pub(super) async fn may_replay(
    sqs: &aws_sdk_sqs::Client,
    sts: &aws_sdk_sts::Client,
    requeue: &Arn,
) -> Result<(), CommandFailure> {
    let Ok(caller) = aws::caller(sts).await else { return Ok(()) };
    let requeue = read_queue(sqs, requeue.clone()).await;
    let policy = ResourcePolicy::of(requeue.attribute("Policy").unwrap_or_default());
    if policy.exempts(&caller, requeue.arn.as_str()) != PolicyAnswer::No {
        return Ok(());
    }
    Err(CommandFailure::Input(vec![format!(
        "the policy of {} denies you, {caller}, to send there, so the drill could not replay: add yourself to the stack's \
         parameter RequeueSenderArns, a role by its ARN with its path. Nothing was created",
        requeue.arn
    )]))
}
