//! What is to be done with a subscription. Makes no calls.

use std::collections::BTreeSet;

use redrive_core::arn::Arn;
use serde_json::json;

use super::record_file::ChangeRecord;
use super::row::{NamedQueue, RowStep, SubscriptionRow};
use crate::doctor::{DeployedQueue, DeployedSubscription, PolicyAnswer, ResourcePolicy, lets_sns_in};

/// Returns a subscription with the step that attaches it to the queue.
pub(super) fn forward(
    subscription: &DeployedSubscription,
    queue: &DeployedQueue,
    policy: &ResourcePolicy,
    replace: bool,
) -> SubscriptionRow {
    let mut row = SubscriptionRow::of(subscription, &queue.arn);
    if row.named == NamedQueue::This {
        return row;
    }
    row.step = match (obstacle(subscription, queue, policy), &row.named) {
        (Some(why), _) => RowStep::Leave(why),
        (None, NamedQueue::Other(other)) if !replace => {
            RowStep::Leave(format!("it names {other}; --replace changes it"))
        }
        (None, _) => {
            row.after = Some(json!({ "deadLetterTargetArn": queue.arn.as_str() }).to_string());
            RowStep::Change
        }
    };
    row
}

/// Leaves alone all but one subscription of each topic, if the queue is FIFO: SNS keeps a message's deduplication id, so within five
/// minutes SQS would drop the second letter of a message.
pub(super) fn one_of_each_topic(rows: &mut [SubscriptionRow], queue: &Arn) {
    if !queue.is_fifo() {
        return;
    }
    let attached = rows.iter().filter(|row| row.named == NamedQueue::This);
    let mut topics: BTreeSet<_> = attached.map(|row| row.topic.clone()).collect();
    for row in rows.iter_mut().filter(|row| row.step == RowStep::Change) {
        if !topics.insert(row.topic.clone()) {
            row.after = None;
            row.step = RowStep::Leave(
                "another subscription of its topic has this FIFO queue: give it a queue of its own"
                    .to_owned(),
            );
        }
    }
}

/// Returns why a subscription cannot have this dead-letter queue.
fn obstacle(
    subscription: &DeployedSubscription,
    queue: &DeployedQueue,
    policy: &ResourcePolicy,
) -> Option<String> {
    let DeployedSubscription { topic, owner, endpoint, .. } = subscription;
    let arn = &queue.arn;
    if !owner.is_empty() && owner != arn.account() {
        return Some(format!("it belongs to the account {owner}, and the queue to {}", arn.account()));
    }
    let of_topic = topic.parse::<Arn>().ok();
    if let Some(region) = of_topic.as_ref().map(Arn::region).filter(|region| *region != arn.region()) {
        return Some(format!("its topic is in {region}, and the queue in {}", arn.region()));
    }
    if of_topic.is_some_and(|topic| topic.is_fifo()) != arn.is_fifo() {
        let [topic, queue] = if arn.is_fifo() { ["standard", "FIFO"] } else { ["FIFO", "standard"] };
        return Some(format!("its topic is {topic}, and the queue {queue}: SNS needs both of the same type"));
    }
    if endpoint == arn.as_str() {
        return Some("it delivers into this queue: unsubscribe it".to_owned());
    }
    (lets_sns_in(policy, topic, queue) == PolicyAnswer::No).then(|| {
        format!(
            "the queue's policy does not let SNS write for {topic}: add the topic to the stack's parameter TopicArns, or \
             to aws:SourceArn in the policy"
        )
    })
}

/// Reports whether it is unknown if SNS may write to the queue for a topic.
pub(super) fn is_unclear(policy: &ResourcePolicy, topic: &str, queue: &DeployedQueue) -> bool {
    lets_sns_in(policy, topic, queue) == PolicyAnswer::Unclear
}

/// Returns a subscription with the step that gives it back what it had before a record's change.
pub(super) fn back(subscription: &DeployedSubscription, record: &ChangeRecord) -> SubscriptionRow {
    let mut row = SubscriptionRow::of(subscription, &record.queue);
    row.after = record.before(&row.arn).map(str::to_owned);
    row.step = match &row.named {
        _ if row.before == row.after => RowStep::Keep,
        NamedQueue::This => RowStep::Change,
        NamedQueue::Other(other) => RowStep::Leave(format!("it names {other} now")),
        NamedQueue::None | NamedQueue::Hidden => {
            RowStep::Leave("it names no dead-letter queue now".to_owned())
        }
    };
    row
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const ACCOUNT: &str = "123456789012";

    fn arn(service: &str, name: &str) -> String {
        format!("arn:aws:{service}:eu-central-1:{ACCOUNT}:{name}")
    }

    fn subscription(topic: &str) -> DeployedSubscription {
        DeployedSubscription {
            arn: format!("{}:1", arn("sns", topic)),
            topic: arn("sns", topic),
            owner: ACCOUNT.to_owned(),
            protocol: "sqs".to_owned(),
            endpoint: arn("sqs", "worker"),
            dead_letters: None,
            redrive_policy: None,
            is_raw: false,
            filter: None,
        }
    }

    fn queue(name: &str) -> DeployedQueue {
        DeployedQueue { arn: arn("sqs", name).parse().unwrap(), attributes: Ok(BTreeMap::new()), tags: None }
    }

    fn policy(condition: &serde_json::Value) -> ResourcePolicy {
        let statement = json!({ "Effect": "Allow", "Principal": { "Service": "sns.amazonaws.com" },
                                "Action": "sqs:SendMessage", "Resource": "*", "Condition": condition });
        ResourcePolicy::of(&json!({ "Statement": [statement] }).to_string())
    }

    fn step(subscription: &DeployedSubscription, queue: &DeployedQueue, replace: bool) -> RowStep {
        forward(subscription, queue, &policy(&json!({})), replace).step
    }

    #[test]
    fn a_subscription_without_a_queue_is_attached_and_another_queue_is_kept_unless_it_is_replaced() {
        let dlq = queue("dlq");
        let row = forward(&subscription("payments"), &dlq, &policy(&json!({})), false);
        assert_eq!(row.step, RowStep::Change);
        assert_eq!(row.after, Some(format!("{{\"deadLetterTargetArn\":\"{}\"}}", dlq.arn)));
        let named = |name: &str| DeployedSubscription {
            dead_letters: Some(arn("sqs", name)),
            ..subscription("payments")
        };
        for replace in [false, true] {
            assert_eq!(step(&named("dlq"), &dlq, replace), RowStep::Keep);
        }
        let why = format!("it names {}; --replace changes it", arn("sqs", "old"));
        assert_eq!(step(&named("old"), &dlq, false), RowStep::Leave(why));
        assert_eq!(step(&named("old"), &dlq, true), RowStep::Change);
    }

    #[test]
    fn what_sns_could_not_deliver_to_is_left_alone_also_with_replace() {
        let one = subscription("payments");
        let topic = "arn:aws:sns:us-east-1:123456789012:payments".to_owned();
        for (subscription, name, why) in [
            (
                DeployedSubscription { owner: "1".to_owned(), ..one.clone() },
                "dlq",
                "it belongs to the account 1",
            ),
            (DeployedSubscription { topic, ..one.clone() }, "dlq", "its topic is in us-east-1"),
            (one.clone(), "dlq.fifo", "its topic is standard, and the queue FIFO"),
            (subscription("payments.fifo"), "dlq", "its topic is FIFO, and the queue standard"),
            (DeployedSubscription { endpoint: arn("sqs", "dlq"), ..one.clone() }, "dlq", "it delivers into"),
        ] {
            match step(&subscription, &queue(name), true) {
                RowStep::Leave(said) => assert!(said.starts_with(why), "{said}"),
                step => panic!("{why}: {step:?}"),
            }
        }
        assert_eq!(step(&subscription("payments.fifo"), &queue("dlq.fifo"), false), RowStep::Change);
        let of_bills = policy(&json!({ "ArnLike": { "aws:SourceArn": arn("sns", "bills") } }));
        let RowStep::Leave(said) = forward(&one, &queue("dlq"), &of_bills, true).step else { panic!() };
        assert!(said.starts_with("the queue's policy does not let SNS write for arn:aws:sns:"), "{said}");
        let unclear = policy(&json!({ "StringEquals": { "aws:SourceOrgID": "o-1" } }));
        assert_eq!(forward(&one, &queue("dlq"), &unclear, false).step, RowStep::Change);
        assert!(is_unclear(&unclear, &one.topic, &queue("dlq")));
    }
}
