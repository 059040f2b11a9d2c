//! The function, and its settings.

use std::cmp::Ordering;

use redrive_aws::policy_object::UnreadPolicy;
use redrive_core::batch::OperatingMode;
use semver::Version;

use crate::doctor::finding::{CheckFindings, Severity, aws};
use crate::doctor::setup::{DeployedFunction, DeploymentFacts, PolicyObject, ReadError};

/// The memory, in megabytes, below which a full batch of large letters may not fit.
const SMALL_MEMORY_MB: u64 = 256;

pub(super) fn check(setup: &DeploymentFacts, findings: &mut CheckFindings) {
    let function = &setup.function;
    let name = function.name.as_str();
    let call = |operation: &str, change: &[&str]| {
        aws(&[&["lambda", operation, "--function-name", name], change].concat())
    };
    let update = |change: &[&str]| call("update-function-configuration", change);
    if function.state != "Active" || function.last_update == "Failed" {
        let finding = format!(
            "Its state is {}, and the status of its last update {}: it may not run.",
            function.state, function.last_update
        );
        let fix = call("get-function-configuration", &[]);
        findings.add(Severity::Warning, "function-state", name, finding, fix);
    }
    if function.memory < SMALL_MEMORY_MB {
        let finding = format!(
            "It has {} MB of memory. Below {SMALL_MEMORY_MB} MB a batch of large letters can make it run out of memory, and it has a \
             smaller share of a CPU.",
            function.memory
        );
        findings.add(
            Severity::Note,
            "function-memory",
            name,
            finding,
            update(&["--memory-size", &SMALL_MEMORY_MB.to_string()]),
        );
    }
    if let Some(level) = &function.quiet_log_level {
        let finding = format!(
            "Its log level is {level}: the log has no lines of letters that are delivered or wait, so saved queries do not find \
             them. Metrics and alarms are complete."
        );
        let fix = update(&["--logging-config", "LogFormat=JSON,ApplicationLogLevel=INFO"]);
        findings.add(Severity::Note, "function-log-level", name, finding, fix);
    }
    if let Some(recursion) = findings.known(
        "function-recursion",
        name,
        "whether Lambda may stop it as a recursive loop",
        &function.recursion,
    ) && recursion != "Allow"
    {
        let finding = "Lambda may stop it as a recursive loop: after about 16 passes it does not get a letter that is \
                       republished to its topic or comes back through a queue. The function counts passes itself.";
        let fix = call("put-function-recursion-config", &["--recursive-loop", "Allow"]);
        findings.add(Severity::Error, "function-recursion", name, finding, fix);
    }
    if let Some(Some(why)) =
        findings.known("stack", name, "which queues the stack of this function has", &setup.stack)
    {
        let finding = format!("{why}. This tool does not know which queues the stack of this function has.");
        findings.add(
            Severity::CannotTell,
            "stack",
            name,
            finding,
            "give --stack with the name of the function's own stack, or leave it out",
        );
    }
    reserved(function, findings);
    settings(function, findings);
    version(setup, findings);
}

fn reserved(function: &DeployedFunction, findings: &mut CheckFindings) {
    let name = function.name.as_str();
    let what = "whether its concurrency is reserved";
    let Some(Some(reserved)) = findings.known("function-concurrency", name, what, &function.reserved) else {
        return;
    };
    let fix = aws(&["lambda", "delete-function-concurrency", "--function-name", name]);
    if *reserved == 0 {
        let finding = "Its reserved concurrency is 0: it never runs, and letters wait until they expire.";
        return findings.add(Severity::Error, "function-concurrency", name, finding, fix);
    }
    let finding = format!(
        "It has a reserved concurrency of {reserved}. Throttled invocations raise the receive count of letters that were \
         not tried. To limit the rate, set MaximumConcurrency of the mappings instead."
    );
    findings.add(Severity::Note, "function-concurrency", name, finding, fix);
}

fn settings(function: &DeployedFunction, findings: &mut CheckFindings) {
    let name = function.name.as_str();
    let what = "the settings of the function, which are in its environment";
    let Some(settings) = findings.known("function-settings", name, what, &function.settings) else { return };
    match settings {
        Err(bad) => {
            let finding = format!("It refuses to start: {bad}.");
            findings.add(
                Severity::Error,
                "function-settings",
                name,
                finding,
                "correct the stack's parameters",
            );
        }
        Ok(settings) if settings.mode == OperatingMode::Observe => {
            let finding = "It is in observe mode: every letter stays in its queue, where it can expire.";
            let fix = "set the stack's parameter RedriveMode to active";
            findings.add(Severity::Warning, "function-mode", name, finding, fix);
        }
        Ok(_) => {}
    }
    if function.has_policy_file {
        let finding = "Its redrive policy is a file in its package, which no call shows: the checks of rules used the \
                       built-in policy instead.";
        findings.add(Severity::CannotTell, "function-policy", name, finding, "redrivectl plan policy.json");
    }
    policy_object(function, findings);
}

/// Checks the policy in S3. Without it the function touches no letter.
fn policy_object(function: &DeployedFunction, findings: &mut CheckFindings) {
    let name = function.name.as_str();
    let Some(PolicyObject { place, read: Err(unread) }) = &function.policy_object else { return };
    match unread {
        UnreadPolicy::Call { failure, .. } if failure.code != "NoSuchKey" => {
            let error = ReadError::of("s3:GetObject", failure.clone());
            let finding = format!(
                "Cannot tell its redrive policy, {place}: {} failed ({}). The checks of rules used the built-in policy instead.",
                error.call,
                error.reason()
            );
            findings.add_unseen("function-policy", name, finding, &error);
        }
        unread => {
            let finding = format!("It touches no letter: {unread}.");
            let fix = "put a policy there that redrivectl plan accepts";
            findings.add(Severity::Error, "function-policy", name, finding, fix);
        }
    }
}

/// Compares the release of the stack with that of this tool.
fn version(setup: &DeploymentFacts, findings: &mut CheckFindings) {
    let name = setup.function.name.as_str();
    let Some(read) = &setup.release else {
        let finding = "Without a stack this tool cannot tell the release of its code.";
        return findings.add(Severity::CannotTell, "function-version", name, finding, "give --stack NAME");
    };
    let Some(release) = findings.known("function-version", name, "the release of the stack", read) else {
        return;
    };
    let template = release.template.as_deref();
    compare(name, "template", template, "Its template names no release", findings);
    if let Some(prefix) = &release.code_prefix {
        let version = prefix.trim_end_matches('/').rsplit('/').next();
        let unnamed = format!("Its code is in {prefix}, which is not the folder that its template names");
        compare(name, "code", version, &unnamed, findings);
    }
}

/// Compares the version of a part of the stack with that of this tool. `unnamed` is the text for a part
/// without version.
fn compare(name: &str, part: &str, version: Option<&str>, unnamed: &str, findings: &mut CheckFindings) {
    let tool = env!("CARGO_PKG_VERSION");
    let parse = |version: &str| Version::parse(version).ok();
    let Some((version, this)) = version.and_then(parse).zip(parse(tool)) else {
        let finding = format!("{unnamed}: this tool cannot tell whether the code is older than itself.");
        return findings.add(Severity::CannotTell, "function-version", name, finding, "");
    };
    let (severity, finding, fix) = match version.cmp_precedence(&this) {
        Ordering::Less => (
            Severity::Warning,
            format!("Its {part} has version {version}, and this tool {tool}: it lacks newer features."),
            if part == "code" {
                "deploy with CodePrefix, the folder of this release: docs/guide/deploying.md#updates"
            } else {
                "deploy the release of this tool"
            },
        ),
        Ordering::Greater => (
            Severity::Note,
            format!("Its {part} has version {version}, which is newer than this tool, {tool}."),
            "install the tool of that release",
        ),
        Ordering::Equal => return,
    };
    findings.add(severity, "function-version", name, finding, fix);
}
