//! The topics that the stack's alarms call.

use crate::doctor::finding::{CheckFindings, Severity};
use crate::doctor::setup::DeploymentFacts;

const CHECK: &str = "alarm-actions";
const FIX: &str =
    "deploy with AlarmTopicArn and PageTopicArn: docs/guide/deploying.md#from-nothing-to-active";

pub(super) fn check(setup: &DeploymentFacts, findings: &mut CheckFindings) {
    let Some(topics) = &setup.alarm_topics else { return };
    let name = setup.function.name.as_str();
    if topics.is_empty() {
        let finding =
            "The parameters AlarmTopicArn and PageTopicArn of its stack are empty: its alarms call nobody.";
        findings.add(Severity::Warning, CHECK, name, finding, FIX);
    } else if topics.iter().all(|topic| topic.pages) {
        let finding =
            "The parameter AlarmTopicArn of its stack is empty: alarms that do not page call nobody.";
        findings.add(Severity::Warning, CHECK, name, finding, FIX);
    }
    for topic in topics {
        let what = "whether anybody has subscribed to this topic of alarms";
        let subscribers = findings.known(CHECK, &topic.arn, what, &topic.subscribers);
        if subscribers == Some(&Some(0)) {
            let finding = "The alarms call this topic, and nobody has subscribed to it.";
            findings.add(Severity::Warning, CHECK, &topic.arn, finding, "subscribe somebody, and confirm it");
        }
    }
}
