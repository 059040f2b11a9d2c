//! The queues to which the function sends letters.

use super::queues::set;
use crate::doctor::finding::{CheckFindings, Severity};
use crate::doctor::setup::{DeploymentFacts, ReadError};
use crate::tables::command_line;

/// The largest message of SQS and SNS, in bytes.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
const LARGEST_MESSAGE: u64 = 1_048_576;

/// Checks which letters they take. SNS ignores a queue's `MaximumMessageSize`, and the function's own calls do
/// not: <https://docs.aws.amazon.com/sns/latest/dg/large-message-payloads.html>
pub(super) fn check(setup: &DeploymentFacts, findings: &mut CheckFindings) {
    for queue in &setup.targets {
        if queue.attributes.as_ref().is_err_and(ReadError::is_of_no_queue) {
            let finding = "The queue does not exist: letters for it fail, and wait, until it is created again under this name. It \
                           needs its policy again, too.";
            let name = queue.arn.resource();
            let fix = command_line(["aws", "sqs", "create-queue", "--queue-name", name]);
            findings.add(Severity::Error, "target-exists", name, finding, fix);
        }
        let Some(bytes) = queue.number("MaximumMessageSize").filter(|bytes| *bytes < LARGEST_MESSAGE) else {
            continue;
        };
        let finding = format!(
            "Its MaximumMessageSize is {bytes} bytes, which SNS ignores: it takes larger messages from SNS and refuses \
             them from the function, which archives them."
        );
        let fix = set(queue, "MaximumMessageSize", LARGEST_MESSAGE);
        findings.add(Severity::Warning, "target-size", queue.arn.resource(), finding, fix);
    }
}
