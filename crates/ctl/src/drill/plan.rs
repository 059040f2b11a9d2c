//! The plan of a drill, shown before it begins: effects, duration and cost.

use std::collections::BTreeMap;

use jiff::Timestamp;
use redrive_core::arn::Arn;
use redrive_core::endpoint::Endpoint;
use redrive_core::letter::SqsMessage;
use redrive_core::policy::{Policy, RuleAction, TargetSpec};
use serde_json::json;

use super::names::DrillNames;
use super::report::rows;
use super::scene::{ATTRIBUTE, message};
use super::story::{GIVE_UP, RETRY};
use crate::args;
use crate::tables::brief;

/// The approximate time in seconds until the function obeys the overrides and retries.
const REACTION_SECONDS: u64 = 120;

/// Returns the plan in words. `clean` is the command that removes what a drill has left.
pub(super) fn text(
    names: &DrillNames,
    stack: &str,
    clean: &str,
    queue: &str,
    replays: bool,
    refused_by: Option<&str>,
    args: &args::DrillArgs,
) -> String {
    let DrillNames { id, .. } = names;
    let (topic, broken, healthy) = (names.topic(), names.broken(), names.healthy());
    let replay = if replays {
        ", and replays the other"
    } else {
        "; replays nothing, because the stack has no requeue"
    };
    let takes = u64::from(args.settle) + u64::from(args.watch) + REACTION_SECONDS;
    let after = if args.keep {
        format!("keeps everything; {clean} removes it")
    } else {
        "removes everything, also after Ctrl-C, with its records in the archive and its overrides".to_owned()
    };
    let mut lines = vec![
        ("creates", format!("the topic {topic}, the queues {broken} and {healthy}, and a subscription for each with the dead-letter queue {queue}")),
        ("does", format!(
            "deletes {broken}, publishes two messages, waits until the function retries one and archives the other, creates \
             the queue again, waits until the first message arrives{replay}"
        )),
        ("overrides", "one to give up and two retry overrides for this topic only, for half an hour. Your own policy decides the rest: \
                    with the built-in one the first retry is made at once, the second a minute later".to_owned()),
        ("takes", format!("about {}", brief(takes))),
        ("costs", "less than 0.01 USD: some hundred requests to SQS, SNS and S3".to_owned()),
        ("alarms", "DeadLettersArriveAlarm, LettersArriveAlarm and ActionRequiredAlarm go off, if the stack has them; with \
                    NoticeTopicArn a notice of the archived letter is sent".to_owned()),
        ("ends", after),
    ];
    if let Some(file) = &args.record {
        let (asked, in_order) = (names.asked(), names.asked_in_order());
        let records = format!(
            "asks SQS and S3 what nobody has recorded of them, with messages in the queues {asked} and {in_order}, which it \
             creates and removes, and writes the answers to {}, without names, ids or content",
            file.display()
        );
        lines.push(("records", records));
    }
    if let Some(rule) = refused_by {
        let refuses = format!(
            "the allowTargets of the rule {rule} do not permit {broken}: the function archives the letters as refused instead of \
             retrying them, and the drill fails. Add a rule without allowTargets that matches topics named {stack}-drill-*"
        );
        lines.push(("policy", refuses));
    }
    format!("Drill {id} of the stack {stack}.\n{}", rows(&lines))
}

/// Returns the name of the rule whose `allowTargets` refuse the drill's queue; `None` if they permit it, or
/// if it is unknown.
pub(super) fn refused_by(
    policy: &str,
    names: &DrillNames,
    dead_letters: &Arn,
    now: Timestamp,
) -> Option<String> {
    let policy = Policy::parse(policy).ok()?;
    let endpoint = Endpoint::Queue(names.queue_arn(&names.broken()).parse().ok()?);
    [RETRY, GIVE_UP].into_iter().find_map(|kind| {
        let letter = policy.read(dead_letter(kind, names, dead_letters, now), None);
        let rule = policy.rule_for(&letter);
        let goes_back = rule.action == RuleAction::Redrive
            && matches!(rule.target, TargetSpec::Origin | TargetSpec::Subscription);
        let allowed = rule.allow_targets.as_ref().filter(|_| goes_back)?;
        (!endpoint.is_allowed(allowed)).then(|| rule.name.clone())
    })
}

/// Returns a letter as the drill will have it in the queue.
fn dead_letter(kind: &str, names: &DrillNames, dead_letters: &Arn, now: Timestamp) -> SqsMessage {
    let topic = names.topic_arn();
    let subscription = format!("{topic}:00000000-0000-0000-0000-000000000000");
    let envelope = json!({
        "Type": "Notification", "MessageId": "00000000-0000-0000-0000-000000000000", "TopicArn": topic,
        "Message": message(&names.id, kind), "Timestamp": now.to_string(),
        "UnsubscribeURL": format!("https://sns.amazonaws.com/?Action=Unsubscribe&SubscriptionArn={subscription}"),
        "MessageAttributes": { ATTRIBUTE: { "Type": "String", "Value": kind } },
    });
    SqsMessage {
        message_id: "drill".to_owned(),
        receipt_handle: String::new(),
        body: envelope.to_string(),
        queue: dead_letters.clone(),
        sent: now,
        first_received: now,
        receive_count: 1,
        system: BTreeMap::new(),
        attributes: BTreeMap::new(),
        unread: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn refused(policy: &Value) -> Option<String> {
        let queue = "arn:aws:sqs:eu-central-1:123456789012:payments-dlq".parse().unwrap();
        let names = DrillNames::new("payments", "7f3a51c2", &queue).unwrap();
        refused_by(&policy.to_string(), &names, &queue, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_rule_with_other_targets_refuses_the_queue_of_a_drill() {
        let another = json!(["arn:aws:sqs:eu-central-1:123456789012:payments-worker"]);
        assert_eq!(refused(&json!({})), None);
        let default = json!({ "default": { "allowTargets": another } });
        assert_eq!(refused(&default).as_deref(), Some("default"));
        let rule = |pattern: Value, target: &str| {
            json!({ "default": { "allowTargets": another }, "rules": [
                { "name": "drills", "match": pattern, "target": target },
                { "name": "others", "match": { "origin": ["sns"] }, "allowTargets": another },
            ] })
        };
        // A rule takes missing settings from the default.
        let of_drill =
            json!({ "topicArn": [{ "prefix": "arn:aws:sns:eu-central-1:123456789012:payments-drill-" }] });
        assert_eq!(refused(&rule(of_drill, "origin")).as_deref(), Some("drills"));
        let archived = json!({ "messageAttributes": { "drill": ["archive"] } });
        assert_eq!(refused(&rule(archived, "topic")).as_deref(), Some("others"));
        let mut free = rule(json!({ "message": { "drill": ["7f3a51c2"] } }), "origin");
        free["default"] = json!({});
        assert_eq!(refused(&free), None);
        assert_eq!(refused(&json!("no policy")), None);
    }
}
