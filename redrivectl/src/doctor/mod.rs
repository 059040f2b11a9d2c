//! `redrivectl doctor`: finds what is wrong with a deployment, without changing anything.
//!
//! | file | subject |
//! |---|---|
//! | `read` | the calls that read a deployment into a [`setup::Setup`] |
//! | `setup` | the deployment as it was read, with the reads that failed |
//! | `checks` | the checks of a `Setup`, without calls or clock |
//! | `access` | the policies of queues and buckets |
//! | `finding` | the findings and their text |

mod access;
mod checks;
mod finding;
mod read;
mod setup;

pub(crate) use access::{Access, Policy, Sender};
pub(crate) use read::feeding as queues;

use std::collections::BTreeSet;
use std::io::Write;

use serde_json::json;

use crate::args;
use crate::console::{Console, Failed, Finished};
use crate::text::count;
use finding::{Finding, Severity, text};
use setup::{ReadError, Setup};

pub(super) async fn run(
    args: &args::Doctor,
    as_json: bool,
    console: &mut Console,
) -> Result<Finished, Failed> {
    let setup = Box::pin(read::setup(args, console)).await?;
    let options = args.connection.of_aws_cli();
    let further = further(&setup, console);
    let findings: Vec<_> = checks::check(&setup).into_iter().map(|it| it.with(&options, &further)).collect();
    let unseen: Vec<_> = findings.iter().filter_map(|it| Some((it, it.unseen.as_ref()?))).collect();
    let subscriptions = setup.subscriptions.as_ref().map_or(0, |it| it.all.len()) as u64;
    if as_json {
        let answer = json!({
            "function": setup.function.name,
            "queues": setup.queues.iter().map(|queue| queue.arn.as_str()).collect::<Vec<_>>(),
            "subscriptions": subscriptions,
            "unseen": unseen.iter().map(|(finding, error)| {
                json!({ "check": finding.check, "about": finding.about, "call": error.call, "denied": error.is_denied() })
            }).collect::<Vec<_>>(),
            "findings": findings,
        });
        writeln!(console.out, "{answer}")?;
    } else {
        write!(console.out, "{}", blind(&unseen))?;
        for finding in &findings {
            writeln!(console.out, "{}", text(finding))?;
        }
        writeln!(
            console.out,
            "Checked {}, {}, {}: {}.",
            setup.function.name,
            count(setup.queues.len() as u64, "dead-letter queue"),
            count(subscriptions, "subscription"),
            sum(&findings)
        )?;
    }
    Ok(match number(&findings, Severity::Error) {
        0 if !unseen.is_empty() => Finished::Unseen,
        errors => Finished::of(errors),
    })
}

/// Says what could not be read, and which permissions are missing. This comes first, because the findings
/// below are then incomplete.
fn blind(unseen: &[(&Finding, &ReadError)]) -> String {
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
fn further(setup: &Setup, console: &Console) -> args::Further {
    let further = console.stack.further();
    let control = setup.function.settings().and_then(|settings| settings.control.as_ref());
    match control.filter(|_| console.stack.name().is_none()) {
        Some(control) => further.at(format!("s3://{}/{}", control.bucket, control.prefix)),
        None => further,
    }
}

fn number(findings: &[Finding], severity: Severity) -> u64 {
    findings.iter().filter(|it| it.severity == severity).count() as u64
}

/// Returns the number of findings of each severity, in words.
fn sum(findings: &[Finding]) -> String {
    let parts = Severity::ALL.map(|severity| (severity, number(findings, severity)));
    let parts = parts.into_iter().filter(|(_, number)| *number > 0);
    let parts = parts.map(|(severity, number)| match severity {
        Severity::CannotTell => format!("{number} cannot tell"),
        severity => count(number, severity.name()),
    });
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() { "no findings".to_owned() } else { parts.join(", ") }
}
