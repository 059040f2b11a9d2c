//! The event source mappings, which bring letters from the queues to the function.

use crate::doctor::finding::{CheckFindings, Severity, aws};
use crate::doctor::setup::{DeployedMapping, DeployedQueue, DeploymentFacts};

pub(super) fn check(setup: &DeploymentFacts, findings: &mut CheckFindings) {
    let name = &setup.function.name;
    let Some(mappings) = findings.known("mappings", name, "which queues feed the function", &setup.mappings)
    else {
        return;
    };
    for queue in setup.queues.iter().chain(&setup.requeue) {
        match mappings.iter().find(|mapping| mapping.source == queue.arn.as_str()) {
            Some(mapping) => one(setup, mapping, queue, findings),
            None => findings.add(
                Severity::Error,
                "mapping-missing",
                queue.arn.resource(),
                "No event source mapping connects this queue with the function: its letters wait until they expire.",
                aws(&[
                    &["lambda", "create-event-source-mapping", "--function-name", name],
                    &["--event-source-arn", queue.arn.as_str()][..],
                    &["--function-response-types", "ReportBatchItemFailures"],
                    &["--scaling-config", "MaximumConcurrency=2"],
                ]
                .concat()),
            ),
        }
    }
    if setup.queues.is_empty() {
        let finding = "No event source mapping connects it with a dead-letter queue, and no stack names one.";
        findings.add(Severity::Error, "mapping-missing", name, finding, "");
    }
}

fn one(
    setup: &DeploymentFacts,
    mapping: &DeployedMapping,
    queue: &DeployedQueue,
    findings: &mut CheckFindings,
) {
    let about = format!("the mapping of {}", queue.arn.resource());
    let update = |change: &[&str]| {
        aws(&[&["lambda", "update-event-source-mapping", "--uuid", &mapping.uuid], change].concat())
    };
    let filters =
        findings.known("mapping-filters", &about, "whether it has filters", &mapping.filters).copied();
    let mut add = |severity, check, finding: String, fix: String| {
        findings.add(severity, check, &about, finding, fix);
    };
    if !mapping.is_partial {
        let finding = "It lacks ReportBatchItemFailures: Lambda deletes the whole batch whatever the function answers, with \
                       letters that wait for a retry.";
        let fix = update(&["--function-response-types", "ReportBatchItemFailures"]);
        add(Severity::Error, "mapping-partial-answers", finding.to_owned(), fix);
    }
    if filters.is_some_and(|filters| filters > 0) {
        let finding = "It has filters. Lambda deletes letters that a filter does not pass: they are lost.";
        add(
            Severity::Error,
            "mapping-filters",
            finding.to_owned(),
            update(&["--filter-criteria", "{\"Filters\": []}"]),
        );
    }
    match mapping.state.as_str() {
        "Enabled" => {}
        "Disabled" | "Disabling" => {
            let finding = "It is disabled: letters wait until they expire.";
            add(Severity::Error, "mapping-state", finding.to_owned(), update(&["--enabled"]));
        }
        state => {
            let finding = format!("Its state is {state}: check again in a minute.");
            add(Severity::Note, "mapping-state", finding, String::new());
        }
    }
    concurrency(setup, mapping, &mut add, &update);
    window(setup, mapping, queue, &mut add);
}

/// Checks the number of concurrent invocations, by which the function divides its rates.
fn concurrency(
    setup: &DeploymentFacts,
    mapping: &DeployedMapping,
    add: &mut impl FnMut(Severity, &'static str, String, String),
    update: &impl Fn(&[&str]) -> String,
) {
    if mapping.is_provisioned {
        let finding = "It is in provisioned mode, which excludes MaximumConcurrency: the function cannot keep the \
                       rates of the policy, because it does not know how many invocations share them.";
        let fix = update(&["--provisioned-poller-config", "{}", "--scaling-config", "MaximumConcurrency=2"]);
        return add(Severity::Warning, "mapping-provisioned", finding.to_owned(), fix);
    }
    let configured = setup.function.settings().map(|settings| i64::from(settings.max_concurrency));
    let Some(most) = mapping.concurrency else {
        let finding = "It has no MaximumConcurrency: an outage starts as many invocations as the account allows, and the \
                       function cannot keep the rates of the policy.";
        let fix = update(&["--scaling-config", "MaximumConcurrency=2"]);
        return add(Severity::Warning, "mapping-concurrency", finding.to_owned(), fix);
    };
    if let Some(configured) = configured.filter(|configured| *configured != i64::from(most)) {
        let finding = format!(
            "Its MaximumConcurrency is {most}, but the function's MAX_CONCURRENCY is {configured}: the function divides the \
             rates of the policy by the wrong number."
        );
        let fix = update(&["--scaling-config", &format!("MaximumConcurrency={configured}")]);
        add(
            Severity::Warning,
            "mapping-concurrency",
            finding,
            if configured >= 2 { fix } else { String::new() },
        );
    }
}

/// Checks that letters stay hidden while a batch fills and while the function works on it.
fn window(
    setup: &DeploymentFacts,
    mapping: &DeployedMapping,
    queue: &DeployedQueue,
    add: &mut impl FnMut(Severity, &'static str, String, String),
) {
    let window = u64::try_from(mapping.window).unwrap_or(0);
    let timeout = setup.function.timeout;
    let Some(visibility) = queue.number("VisibilityTimeout").filter(|visibility| *visibility >= timeout)
    else {
        return;
    };
    if visibility < timeout + window {
        let finding = format!(
            "A batch of up to {} letters may take {window} s to fill and {timeout} s to handle, but letters are \
             hidden for only {visibility} s: they can come back during the work and be sent twice.",
            mapping.batch
        );
        let fix = super::queues::set(queue, "VisibilityTimeout", 6 * timeout + window);
        add(Severity::Warning, "mapping-window", finding, fix);
    }
}
