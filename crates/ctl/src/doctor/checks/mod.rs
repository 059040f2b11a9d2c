//! The checks. Each looks at a [`DeploymentFacts`] and adds findings.
//!
//! | file | subject |
//! |---|---|
//! | `mappings` | the event source mappings |
//! | `queues` | the dead-letter queues |
//! | `subscriptions` | the subscriptions that name them, and those that name no queue |
//! | `targets` | the queues that get letters |
//! | `requeue` | the requeue |
//! | `archive` | the bucket of the archive |
//! | `function` | the function and its settings |
//! | `overrides` | forgotten overrides, letters that expire soon |
//! | `policy` | the redrive policy's origins and allowed targets |
//! | `alarms` | the topics that alarms call |
//! | `grants` | the permissions of the function's role |

mod alarms;
mod archive;
mod function;
mod grants;
mod mappings;
mod overrides;
mod policy;
mod queues;
mod requeue;
mod subscriptions;
mod targets;
#[cfg(test)]
mod tests;

pub(crate) use queues::{MANAGED_KEY, QueueKey, key_of, lets_sns_in, own_key};
pub(crate) use subscriptions::redrive_policy_command;

use super::finding::{CheckFinding, CheckFindings};
use super::setup::DeploymentFacts;

/// Runs every check. The most severe findings come first.
pub(super) fn check(setup: &DeploymentFacts) -> Vec<CheckFinding> {
    let mut findings = CheckFindings::default();
    for check in [
        function::check,
        mappings::check,
        queues::check,
        requeue::check,
        subscriptions::check,
        targets::check,
        policy::check,
        alarms::check,
        grants::check,
        archive::check,
        overrides::check,
    ] {
        check(setup, &mut findings);
    }
    findings.sorted()
}
