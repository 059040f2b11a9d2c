//! What a drill is going to do, make and cost, before it begins.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::json;

use super::names::Names;
use super::report::rows;
use super::scene::{ATTRIBUTE, message};
use super::story::{ARCHIVE, RETRY};
use crate::args;
use crate::text::brief;
use sns_redrive::arn::Arn;
use sns_redrive::endpoint::Endpoint;
use sns_redrive::letter::SqsMessage;
use sns_redrive::policy::{Action, Policy, TargetSpec};

/// The time that the orders take to be heard, and the function to retry, in seconds, about.
const BESIDES: u64 = 120;

/// The plan in words.
pub(super) fn text(
    names: &Names,
    stack: &str,
    queue: &str,
    replays: bool,
    refused_by: Option<&str>,
    args: &args::Drill,
) -> String {
    let Names { id, .. } = names;
    let (topic, broken, healthy) = (names.topic(), names.broken(), names.healthy());
    let replay =
        if replays { ", and replays the other" } else { "; replays nothing, since the stack has no requeue" };
    let takes = u64::from(args.settle) + u64::from(args.watch) + BESIDES;
    let after = if args.keep {
        format!("leaves everything; redrivectl drill --clean --stack {stack} takes it away")
    } else {
        "takes all of it away, also after Ctrl-C: its records in the archive and its orders too".to_owned()
    };
    let mut lines = vec![
        ("makes", format!("the topic {topic}, the queues {broken} and {healthy}, a subscription of each; their dead letters go to {queue}")),
        ("does", format!(
            "deletes {broken}, publishes two messages, sees the function retry one and archive the other, makes the queue \
             again, sees the one arrive{replay}"
        )),
        ("orders", "archive, and retry twice, of this topic alone, for half an hour. The rest is your own policy's: with the \
                    built-in one the first retry is made at once, the second a minute later".to_owned()),
        ("takes", format!("about {}", brief(takes))),
        ("costs", "less than 0.01 USD: some hundred requests to SQS, SNS and S3".to_owned()),
        ("alarms", "DeadLettersArriveAlarm, LettersArriveAlarm and ActionRequiredAlarm go off, as far as the stack has them; a \
                    notice of the archived letter goes out where it has a topic for that".to_owned()),
        ("ends", after),
    ];
    if let Some(rule) = refused_by {
        let refuses = format!(
            "the allowTargets of the rule {rule} leave out {broken}: the function archives letters as refused instead of \
             retrying them, and the drill fails. Let a rule without allowTargets match topics named {stack}-drill-"
        );
        lines.push(("policy", refuses));
    }
    format!("Drill {id} of the stack {stack}.\n{}", rows(&lines))
}

/// Returns the name of the rule whose `allowTargets` keep the drill's letters from its queue; none where they may go there, or
/// nobody can tell.
pub(super) fn refused_by(policy: &str, names: &Names, dead_letters: &Arn, now: Timestamp) -> Option<String> {
    let policy = Policy::parse(policy).ok()?;
    let endpoint = Endpoint::Queue(names.queue_arn(&names.broken()).parse().ok()?);
    [RETRY, ARCHIVE].into_iter().find_map(|kind| {
        let letter = policy.read(dead_letter(kind, names, dead_letters, now), None);
        let rule = policy.rule_for(&letter).ok()?;
        let goes_back = rule.action == Action::Redrive
            && matches!(rule.target, TargetSpec::Origin | TargetSpec::Subscription);
        let allowed = rule.allow_targets.as_ref().filter(|_| goes_back)?;
        (!endpoint.is_allowed(allowed)).then(|| rule.name.clone())
    })
}

/// A letter as the drill will have it in the queue.
fn dead_letter(kind: &str, names: &Names, dead_letters: &Arn, now: Timestamp) -> SqsMessage {
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
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn refused(policy: &Value) -> Option<String> {
        let queue = "arn:aws:sqs:eu-central-1:123456789012:orders-dlq".parse().unwrap();
        let names = Names::new("orders", "7f3a51c2", &queue).unwrap();
        refused_by(&policy.to_string(), &names, &queue, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_rule_with_other_targets_refuses_the_queue_of_a_drill() {
        let another = json!(["arn:aws:sqs:eu-central-1:123456789012:orders-worker"]);
        assert_eq!(refused(&json!({})), None);
        let default = json!({ "default": { "allowTargets": another } });
        assert_eq!(refused(&default).as_deref(), Some("default"));
        let rule = |pattern: Value, target: &str| {
            json!({ "default": { "allowTargets": another }, "rules": [
                { "name": "drills", "match": pattern, "target": target },
                { "name": "others", "match": { "origin": ["sns"] }, "allowTargets": another },
            ] })
        };
        // What a rule leaves out comes from the default.
        let of_drill =
            json!({ "topicArn": [{ "prefix": "arn:aws:sns:eu-central-1:123456789012:orders-drill-" }] });
        assert_eq!(refused(&rule(of_drill, "origin")).as_deref(), Some("drills"));
        let archived = json!({ "messageAttributes": { "drill": ["archive"] } });
        assert_eq!(refused(&rule(archived, "topic")).as_deref(), Some("others"));
        let mut free = rule(json!({ "message": { "drill": ["7f3a51c2"] } }), "origin");
        free["default"] = json!({});
        assert_eq!(refused(&free), None);
        assert_eq!(refused(&json!("no policy")), None);
    }
}
