//! The event source mappings: how letters get from the queues to the function.

use crate::doctor::finding::{Findings, Severity};
use crate::doctor::setup::{Mapping, Queue, Setup};

pub(super) fn check(setup: &Setup, findings: &mut Findings) {
    let name = &setup.function.name;
    let Some(mappings) = findings.told("mappings", name, "what feeds the function", &setup.mappings) else {
        return;
    };
    for queue in setup.queues.iter().chain(&setup.requeue) {
        match mappings.iter().find(|mapping| mapping.source == queue.arn.as_str()) {
            Some(mapping) => one(setup, mapping, queue, findings),
            None => findings.add(
                Severity::Error,
                "mapping-missing",
                queue.arn.resource(),
                "No mapping feeds the function from this queue: its letters wait until they expire.",
                format!(
                    "aws lambda create-event-source-mapping --function-name {name} --event-source-arn {} \
                     --function-response-types ReportBatchItemFailures --scaling-config MaximumConcurrency=2",
                    queue.arn
                ),
            ),
        }
    }
    if setup.queues.is_empty() {
        let finding = "No mapping feeds it from a dead-letter queue, and no stack names one.";
        findings.add(Severity::Error, "mapping-missing", name, finding, "");
    }
}

fn one(setup: &Setup, mapping: &Mapping, queue: &Queue, findings: &mut Findings) {
    let about = format!("the mapping of {}", queue.arn.resource());
    let update =
        |change: &str| format!("aws lambda update-event-source-mapping --uuid {} {change}", mapping.uuid);
    let filters =
        findings.told("mapping-filters", &about, "whether it has filters", &mapping.filters).copied();
    let mut add = |severity, check, finding: String, mend: String| {
        findings.add(severity, check, &about, finding, mend);
    };
    if !mapping.is_partial {
        let finding = "It lacks ReportBatchItemFailures: whatever the function answers, Lambda deletes the whole batch, \
                       letters that wait for a retry too.";
        let mend = update("--function-response-types ReportBatchItemFailures");
        add(Severity::Error, "mapping-partial-answers", finding.to_owned(), mend);
    }
    if filters.is_some_and(|filters| filters > 0) {
        let finding = "It has filters. Lambda deletes what they filter out: such letters are lost.";
        add(
            Severity::Error,
            "mapping-filters",
            finding.to_owned(),
            update("--filter-criteria '{\"Filters\": []}'"),
        );
    }
    match mapping.state.as_str() {
        "Enabled" => {}
        "Disabled" | "Disabling" => {
            let finding = "It is switched off: letters wait until they expire.";
            add(Severity::Error, "mapping-state", finding.to_owned(), update("--enabled"));
        }
        state => {
            let finding = format!("Its state is {state}: look again in a minute.");
            add(Severity::Note, "mapping-state", finding, String::new());
        }
    }
    concurrency(setup, mapping, &mut add, &update);
    window(setup, mapping, queue, &mut add);
}

/// How many invocations there are at once, by which the function divides its rates.
fn concurrency(
    setup: &Setup,
    mapping: &Mapping,
    add: &mut impl FnMut(Severity, &'static str, String, String),
    update: &impl Fn(&str) -> String,
) {
    if mapping.is_provisioned {
        let finding = "It is in provisioned mode, which excludes MaximumConcurrency: rates of the policy cannot be kept, \
                       since nobody says how many invocations share them.";
        let mend = update("--provisioned-poller-config '{}' --scaling-config MaximumConcurrency=2");
        return add(Severity::Warning, "mapping-provisioned", finding.to_owned(), mend);
    }
    let told = setup.function.settings().map(|settings| i64::from(settings.max_concurrency));
    let Some(most) = mapping.concurrency else {
        let finding = "It has no MaximumConcurrency: an outage starts as many invocations as the account has, and rates of \
                       the policy cannot be kept.";
        let mend = update("--scaling-config MaximumConcurrency=2");
        return add(Severity::Warning, "mapping-concurrency", finding.to_owned(), mend);
    };
    if let Some(told) = told.filter(|told| *told != i64::from(most)) {
        let finding = format!(
            "Its MaximumConcurrency is {most}, and MAX_CONCURRENCY of the function is {told}: the function divides the rates \
             of the policy by the wrong number."
        );
        let mend = update(&format!("--scaling-config MaximumConcurrency={told}"));
        add(Severity::Warning, "mapping-concurrency", finding, if told >= 2 { mend } else { String::new() });
    }
}

/// Letters are hidden while a batch fills, and while the function works on it.
fn window(
    setup: &Setup,
    mapping: &Mapping,
    queue: &Queue,
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
            "A batch of up to {} may take {window} s to fill and {timeout} s to be worked on, and letters are hidden for \
             {visibility} s: they can come back while they are worked on, and go out twice.",
            mapping.batch
        );
        let mend = super::queues::set(queue, "VisibilityTimeout", 6 * timeout + window);
        add(Severity::Warning, "mapping-window", finding, mend);
    }
}
