//! The function, and its settings.

use std::cmp::Ordering;

use semver::Version;

use crate::doctor::finding::{Findings, Severity};
use crate::doctor::setup::{Function, Setup};
use sns_redrive::batch::Mode;

/// Megabytes below which a full batch of large letters may not fit.
const SMALL: u64 = 256;

/// The levels at which lines with metrics still pass.
const LOUD: [&str; 3] = ["TRACE", "DEBUG", "INFO"];

pub(super) fn check(setup: &Setup, findings: &mut Findings) {
    let function = &setup.function;
    let name = function.name.as_str();
    let update =
        |change: &str| format!("aws lambda update-function-configuration --function-name {name} {change}");
    if function.state != "Active" || function.last_update == "Failed" {
        let finding = format!(
            "Its state is {}, and its last update {}: it may not run.",
            function.state, function.last_update
        );
        let mend = format!("aws lambda get-function-configuration --function-name {name}");
        findings.add(Severity::Warning, "function-state", name, finding, mend);
    }
    if function.memory < SMALL {
        let finding = format!(
            "It has {} MB of memory, which also decides its share of a CPU: below {SMALL} a batch of large letters can end \
             it.",
            function.memory
        );
        findings.add(
            Severity::Note,
            "function-memory",
            name,
            finding,
            update(&format!("--memory-size {SMALL}")),
        );
    }
    if function.logs_json && function.log_level.as_deref().is_some_and(|level| !LOUD.contains(&level)) {
        let finding = "Its log level is above INFO: Lambda drops the lines that carry the metrics, and alarms see nothing.";
        let mend = update("--logging-config LogFormat=JSON,ApplicationLogLevel=INFO");
        findings.add(Severity::Warning, "function-log-level", name, finding, mend);
    }
    if let Some(recursion) =
        findings.told("function-recursion", name, "whether Lambda stops it as a loop", &function.recursion)
        && recursion != "Allow"
    {
        let finding = "Lambda may stop it as a loop: after about 16 passes a letter that is republished to its topic, or \
                       that comes back by a queue, is not worked on. It counts passes itself.";
        let mend =
            format!("aws lambda put-function-recursion-config --function-name {name} --recursive-loop Allow");
        findings.add(Severity::Error, "function-recursion", name, finding, mend);
    }
    if let Some(Some(why)) = findings.told("stack", name, "which queues its stack has", &setup.stack) {
        let finding = format!("{why}: which queues the stack of this function has, nobody can say.");
        findings.add(
            Severity::CannotTell,
            "stack",
            name,
            finding,
            "give --stack NAME of its own stack, or none",
        );
    }
    reserved(function, findings);
    settings(function, findings);
    version(setup, findings);
}

fn reserved(function: &Function, findings: &mut Findings) {
    let name = function.name.as_str();
    let what = "whether its concurrency is reserved";
    let Some(Some(reserved)) = findings.told("function-concurrency", name, what, &function.reserved) else {
        return;
    };
    let mend = format!("aws lambda delete-function-concurrency --function-name {name}");
    if *reserved == 0 {
        let finding = "Its reserved concurrency is 0: it never runs, and letters wait until they expire.";
        return findings.add(Severity::Error, "function-concurrency", name, finding, mend);
    }
    let finding = format!(
        "It has a reserved concurrency of {reserved}. Invocations that this throttles raise the receive count of letters \
         that nobody tried; MaximumConcurrency of the mappings is the way to go slowly."
    );
    findings.add(Severity::Note, "function-concurrency", name, finding, mend);
}

fn settings(function: &Function, findings: &mut Findings) {
    let name = function.name.as_str();
    let what = "how the function is set, by its environment";
    let Some(settings) = findings.told("function-settings", name, what, &function.settings) else { return };
    match settings {
        Err(bad) => {
            let finding = format!("It refuses to start: {bad}.");
            findings.add(Severity::Error, "function-settings", name, finding, "the stack's parameters");
        }
        Ok(settings) if settings.mode == Mode::Observe => {
            let finding = "It only observes: every letter stays in its queue, where it can expire.";
            let mend = "the stack's parameter RedriveMode, active";
            findings.add(Severity::Warning, "function-mode", name, finding, mend);
        }
        Ok(_) => {}
    }
    if function.has_policy_file {
        let finding = "Its redrive policy is a file of its package, which no call shows: what the checks say of rules is \
                       said of the built-in policy.";
        findings.add(Severity::CannotTell, "function-policy", name, finding, "redrivectl plan policy.json");
    }
}

/// Whether the stack is of an earlier release than this tool.
fn version(setup: &Setup, findings: &mut Findings) {
    let name = setup.function.name.as_str();
    let Some(told) = &setup.release else {
        let finding = "Without a stack nobody can say of which release its code is.";
        return findings.add(Severity::CannotTell, "function-version", name, finding, "give --stack NAME");
    };
    let Some(release) = findings.told("function-version", name, "of which release the stack is", told) else {
        return;
    };
    let template = release.template.as_deref();
    compare(name, "template", template, "Its template names no release", findings);
    if let Some(prefix) = &release.code_prefix {
        let version = prefix.trim_end_matches('/').rsplit('/').next();
        let unnamed = format!("Its code lies in {prefix}, which is not the folder of its template");
        compare(name, "code", version, &unnamed, findings);
    }
}

/// Compares the version of a part of the stack with that of this tool. `unnamed` is said where it is none.
fn compare(name: &str, part: &str, version: Option<&str>, unnamed: &str, findings: &mut Findings) {
    let tool = env!("CARGO_PKG_VERSION");
    let parse = |version: &str| Version::parse(version).ok();
    let Some((version, this)) = version.and_then(parse).zip(parse(tool)) else {
        let finding = format!("{unnamed}: nobody can say whether its code is older than this tool.");
        return findings.add(Severity::CannotTell, "function-version", name, finding, "");
    };
    let (severity, finding, mend) = match version.cmp_precedence(&this) {
        Ordering::Less => (
            Severity::Warning,
            format!("Its {part} is of {version}, and this tool of {tool}: what is new it does not know."),
            if part == "code" {
                "deploy with CodePrefix, the folder of this release: docs/guide/deploying.md#updates"
            } else {
                "deploy the release of this tool"
            },
        ),
        Ordering::Greater => (
            Severity::Note,
            format!("Its {part} is of {version}, which is newer than this tool, of {tool}."),
            "take the tool of that release",
        ),
        Ordering::Equal => return,
    };
    findings.add(severity, "function-version", name, finding, mend);
}
