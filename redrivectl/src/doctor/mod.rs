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

use std::io::Write;

use serde_json::json;

use crate::args;
use crate::console::{Console, Failed, Finished};
use crate::text::count;
use finding::{Finding, Severity, text};
use setup::Setup;

pub(super) async fn run(
    args: &args::Doctor,
    as_json: bool,
    console: &mut Console,
) -> Result<Finished, Failed> {
    let setup = Box::pin(read::setup(args, console)).await?;
    let options = args.connection.of_aws_cli();
    let further = further(&setup, console);
    let findings: Vec<_> = checks::check(&setup).into_iter().map(|it| it.with(&options, &further)).collect();
    let subscriptions = setup.subscriptions.as_ref().map_or(0, |it| it.all.len()) as u64;
    if as_json {
        let answer = json!({
            "function": setup.function.name,
            "queues": setup.queues.iter().map(|queue| queue.arn.as_str()).collect::<Vec<_>>(),
            "subscriptions": subscriptions,
            "findings": findings,
        });
        writeln!(console.out, "{answer}")?;
    } else {
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
    Ok(Finished::of(number(&findings, Severity::Error)))
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
