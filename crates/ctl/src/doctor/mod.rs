//! `redrivectl doctor`: finds what is wrong with a deployment, without changing anything.
//!
//! | file | subject |
//! |---|---|
//! | `read` | the calls that read a deployment into a [`setup::DeploymentFacts`] |
//! | `setup` | the deployment as it was read, with the reads that failed |
//! | `checks` | the checks of a `DeploymentFacts`, without calls or clock |
//! | `access` | the policies of queues and buckets |
//! | `finding` | the findings and their text |

mod access;
mod checks;
mod finding;
mod read;
mod setup;

pub(crate) use access::{MessageSender, PolicyAnswer, ResourcePolicy};
pub(crate) use checks::{MANAGED_KEY, QueueKey, key_of, lets_sns_in, own_key, redrive_policy_command};
pub(crate) use finding::CheckFinding;
pub(crate) use read::{
    ListedSubscription, ListedSubscriptions, ask, each, feeding as queues, listed, mapped as mapped_queues,
    mappings_of_queue, of_topic, policy_of_function, read_error, read_queue, read_subscriptions,
    template_version,
};
pub(crate) use setup::{DeployedQueue, DeployedSubscription, ReadError, ReadResult};

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::args;
use crate::console::{CommandEnd, CommandFailure, ToolEnvironment};
use crate::output::CommandResult;
use crate::tables::{TextStyle, count};
use finding::{Severity, text};
use setup::DeploymentFacts;

/// What the doctor has found.
pub(crate) struct ExaminationResult {
    /// The name of the function.
    function: String,
    /// The ARNs of its queues.
    queues: Vec<String>,
    /// The number of subscriptions.
    subscriptions: u64,
    /// The findings, the most severe first.
    pub(crate) findings: Vec<CheckFinding>,
}

/// Examines a deployment.
pub(crate) async fn examine(
    args: &args::DoctorArgs,
    console: &mut ToolEnvironment,
) -> Result<ExaminationResult, CommandFailure> {
    let setup = Box::pin(read::setup(args, console)).await?;
    let options = args.connection.of_aws_cli();
    let further = further(&setup, console);
    let findings = checks::check(&setup).into_iter().map(|it| it.with(&options, &further)).collect();
    Ok(ExaminationResult {
        function: setup.function.name.clone(),
        queues: setup.queues.iter().map(|queue| queue.arn.to_string()).collect(),
        subscriptions: setup.subscriptions.as_ref().map_or(0, |it| it.all.len()) as u64,
        findings,
    })
}

impl ExaminationResult {
    /// Returns the findings whose answer is unknown because a call failed, with that call.
    fn unseen(&self) -> Vec<(&CheckFinding, &ReadError)> {
        self.findings.iter().filter_map(|it| Some((it, it.unseen.as_ref()?))).collect()
    }
}

impl CommandResult for ExaminationResult {
    fn text(&self, style: TextStyle) -> String {
        let findings: String = self.findings.iter().map(|finding| text(finding, style) + "\n").collect();
        format!(
            "{}{findings}Checked {}, {}, {}: {}.\n",
            blind(&self.unseen()),
            self.function,
            count(self.queues.len() as u64, "dead-letter queue"),
            count(self.subscriptions, "subscription"),
            sum(&self.findings)
        )
    }

    fn json(&self) -> Value {
        let unseen = self.unseen().into_iter().map(|(finding, error)| {
            json!({ "check": finding.check, "about": finding.about, "call": error.call, "denied": error.is_denied() })
        });
        json!({
            "function": self.function,
            "queues": self.queues,
            "subscriptions": self.subscriptions,
            "unseen": unseen.collect::<Vec<_>>(),
            "findings": self.findings,
        })
    }

    fn finished(&self) -> CommandEnd {
        match number(&self.findings, Severity::Error) {
            0 if !self.unseen().is_empty() => CommandEnd::Unseen,
            errors => CommandEnd::of(errors),
        }
    }
}

/// Says what could not be read, and which permissions are missing. This comes first, because the findings
/// below are then incomplete.
fn blind(unseen: &[(&CheckFinding, &ReadError)]) -> String {
    if unseen.is_empty() {
        return String::new();
    }
    let names = |all: BTreeSet<&str>| all.into_iter().collect::<Vec<_>>().join(", ");
    let checks = names(unseen.iter().map(|(finding, _)| finding.check).collect());
    let calls = |denied: bool| -> String {
        names(unseen.iter().filter(|(_, it)| it.is_denied() == denied).map(|(_, it)| it.call).collect())
    };
    let (denied, failed) = (calls(true), calls(false));
    let grants = if denied.is_empty() { denied } else { format!(" Missing permissions: {denied}.") };
    let failed = if failed.is_empty() { failed } else { format!(" Calls that failed: {failed}.") };
    format!("Could not see: {checks}.{grants}{failed}\n\n")
}

/// Returns the options for further commands. Without a stack the control prefix comes from the function's settings.
fn further(setup: &DeploymentFacts, console: &ToolEnvironment) -> args::FurtherOptions {
    let further = console.stack.further();
    let control = setup.function.settings().and_then(|settings| settings.control.as_ref());
    match control.filter(|_| console.stack.name().is_none()) {
        Some(control) => further.at(format!("s3://{}/{}", control.bucket, control.prefix)),
        None => further,
    }
}

fn number(findings: &[CheckFinding], severity: Severity) -> u64 {
    findings.iter().filter(|it| it.severity == severity).count() as u64
}

/// Returns the number of findings of each severity, in words.
fn sum(findings: &[CheckFinding]) -> String {
    let parts = Severity::ALL.map(|severity| (severity, number(findings, severity)));
    let parts = parts.into_iter().filter(|(_, number)| *number > 0);
    let parts = parts.map(|(severity, number)| match severity {
        Severity::CannotTell => format!("{number} cannot tell"),
        severity => count(number, severity.name()),
    });
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() { "no findings".to_owned() } else { parts.join(", ") }
}
