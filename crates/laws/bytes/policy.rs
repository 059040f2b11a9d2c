//! A law: any text is either refused as a policy, with its faults, or is one that gives every letter a
//! bounded schedule.

use std::sync::LazyLock;

use redrive_core::failure::FailureClass;
use redrive_core::letter::{Letter, MessageAttributes, MessageDigest};
use redrive_core::policy::{
    ArchiveReason, DEFAULT_RETENTION, Decision, DeferReason, DeliveryPolicy, DeliverySpec, Jitter,
    LetterFacts, MAX_DELAY_SECONDS, MAX_RETRIES, Policy, Rule, RuleAction, Schedule, is_kept, plus,
    seconds_until,
};
use serde_json::{Value, json};

use super::{now, received, record};

/// The message in the letter that SNS gave up on.
const MESSAGE: &str = r#"{"override": 1, "tags": ["new", "gold"]}"#;

/// One letter of each origin.
static LETTERS: LazyLock<Vec<Letter>> = LazyLock::new(|| {
    let arn = |rest: &str| format!("arn:aws:{rest}");
    let topic = arn("sns:eu-central-1:123456789012:payments");
    let link = format!("https://sns.eu-central-1.amazonaws.com/?SubscriptionArn={topic}:43fe80b0");
    let envelope = json!({
        "Type": "Notification", "MessageId": "d3344452", "TopicArn": topic, "Subject": "Order placed",
        "Message": MESSAGE, "UnsubscribeURL": link,
        "MessageAttributes": {
            "tenant": { "Type": "String", "Value": "gold" }, "n": { "Type": "Number", "Value": "7" },
        },
    });
    let destination = json!({
        "requestContext": {
            "functionArn": arn("lambda:eu-central-1:123456789012:function:f"),
            "condition": "RetriesExhausted",
        },
        "requestPayload": { "override": 1 }, "responsePayload": { "errorType": "Oops" },
    });
    let text = |value: &str| json!({ "stringValue": value, "dataType": "String" });
    let digest = String::from(MessageDigest::of(MESSAGE));
    let mark = json!({ "v": 2, "spent": 2, "id": "abc", "first": 1_793_534_400_000_i64, "gen": 1,
        "msg": digest, "passes": 2 })
    .to_string();
    let attributes = [
        (envelope.to_string(), json!({})),
        (envelope.to_string(), json!({ "sns-redrive": text(&mark) })),
        (r#"{"override": 1}"#.to_owned(), json!({ "tenant": text("silver") })),
        ("{}".to_owned(), json!({ "RequestID": text("r"), "ErrorCode": text("200") })),
        (
            "{}".to_owned(),
            json!({
                "RULE_ARN": text(&arn("events:eu-central-1:123456789012:rule/r")),
                "TARGET_ARN": text(&arn("lambda:eu-central-1:123456789012:function:f")),
            }),
        ),
        (destination.to_string(), json!({})),
    ];
    let letters = attributes.into_iter().map(|(body, attributes)| letter(&body, attributes, Value::Null));
    let source = json!(arn("sqs:eu-central-1:123456789012:payments-worker"));
    letters.chain([letter("text", json!({}), source)]).collect()
});

fn letter(body: &str, attributes: Value, source: Value) -> Letter {
    let mut record = record(body, &MessageAttributes::new());
    record["messageAttributes"] = attributes;
    if !source.is_null() {
        record["attributes"]["DeadLetterQueueSourceArn"] = source;
    }
    Letter::parse(received(&[record]).unwrap().remove(0))
}

/// Checks the law. The bytes are a policy document, or SNS's text about a subscription's delivery policy.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(delivery) = DeliveryPolicy::from_effective(text) {
        schedule(&delivery.schedule);
    }
    let policy = match Policy::parse(text) {
        Ok(policy) => policy,
        Err(bad) => {
            assert!(
                !bad.0.is_empty() && bad.0.iter().all(|fault| !fault.problem.is_empty()),
                "faults say what"
            );
            assert_eq!(Policy::parse(text).unwrap_err(), bad, "the same text has the same faults");
            return;
        }
    };
    let mut names: Vec<_> = policy.all_rules().map(|rule| rule.name.as_str()).collect();
    assert_eq!(names[0], policy.default_rule().name);
    names.sort_unstable();
    assert!(names.windows(2).all(|two| two[0] != two[1]), "logs tell rules apart by name");
    for rule in policy.all_rules() {
        assert!((0.0..=1.0).contains(&rule.jitter));
        if let DeliverySpec::Inline(delivery) = &rule.delivery {
            schedule(&delivery.schedule);
        }
        life(rule, &LETTERS[0]);
    }
    for letter in LETTERS.iter() {
        let verdict = policy.decide(letter, &LetterFacts::default(), now());
        let again = policy.decide(letter, &LetterFacts::default(), now());
        assert_eq!((&verdict.decision, &verdict.route), (&again.decision, &again.route), "no chance in it");
        assert!(policy.all_rules().any(|rule| rule == verdict.rule));
        assert_eq!(policy.rule_for(letter), verdict.rule);
        life(verdict.rule, letter);
    }
}

/// Asserts that a document's schedule respects the schedule's own limits.
fn schedule(schedule: &Schedule) {
    assert!(1 <= schedule.min && schedule.min <= schedule.max && schedule.max <= MAX_DELAY_SECONDS);
    assert!(schedule.retries <= MAX_RETRIES);
    let phases = [schedule.no_delay, schedule.min_delay, schedule.in_backoff(), schedule.max_delay];
    assert_eq!(phases.iter().sum::<u32>(), schedule.retries, "the phases are the schedule");
    assert_eq!((schedule.delay(0), schedule.delay(schedule.retries + 1)), (None, None));
    let (first, last) =
        (1..schedule.retries.min(16) + 1, schedule.retries.saturating_sub(16).max(1)..=schedule.retries);
    let jitter = Jitter::new(0.5, "abc");
    let mut before = None;
    for k in first.chain(last) {
        let (delay, phase) = (schedule.delay(k).unwrap(), schedule.phase(k).unwrap());
        let (least, most) = (f64::from(schedule.min), f64::from(schedule.max));
        assert!(
            delay == 0.0 && k <= schedule.no_delay || (least..=most).contains(&delay),
            "retry {k}: {delay}"
        );
        assert!(
            before.is_none_or(|(number, before, shorter)| {
                number >= k || (before <= phase && shorter <= delay)
            }),
            "phases come in their order, and delays never fall"
        );
        before = Some((k, phase, delay));
        let wait = schedule.wait(k, &Jitter::NONE).unwrap();
        assert!(
            wait <= u64::from(schedule.max) && schedule.wait(k, &jitter).unwrap() <= wait,
            "retry {k}: {wait}"
        );
    }
}

/// Asserts that an undisturbed letter whose deliveries fail gets its retries one after the other, and ends.
fn life(rule: &Rule, letter: &Letter) {
    let facts = LetterFacts::default();
    let mut letter = letter.clone();
    let (mut now, mut number) = (letter.sqs.first_received, letter.spent());
    // This is enough for every phase of a short schedule, and for hops.
    for _ in 0..24 {
        let verdict = rule.decide(&letter, &facts, now);
        let decision = match (&verdict.decision, rule.action) {
            (Decision::Archive(ArchiveReason::Rule, _), RuleAction::Archive) => return,
            (Decision::Archive(ArchiveReason::Expiring, _) | Decision::Defer(_), RuleAction::Hold) => return,
            (decision, RuleAction::Archive | RuleAction::Hold) => panic!("{:?}: {decision:?}", rule.action),
            (Decision::Deliver(retry), RuleAction::Redrive) => {
                number += 1;
                let retries = verdict.delivery.schedule.retries;
                assert_eq!((retry.number, retry.of), (number, retries), "undisturbed, no retry is skipped");
                assert_eq!(Some(retry.phase), verdict.delivery.schedule.phase(number));
                let permanent = verdict.after_failure(*retry, FailureClass::Permanent, now);
                assert_eq!(
                    permanent == Decision::Archive(ArchiveReason::Permanent, None),
                    !rule.retry_permanent
                );
                let failed = verdict.after_failure(*retry, FailureClass::Transient, now);
                let exhausted = failed == Decision::Archive(ArchiveReason::Exhausted, None);
                assert_eq!(exhausted, number == retries, "exhausted with the last retry, not before");
                failed
            }
            (decision, RuleAction::Redrive) => decision.clone(),
        };
        match decision {
            Decision::Archive(..) => return,
            Decision::Defer(deferral) => {
                assert!(deferral.why != DeferReason::Hold && deferral.why != DeferReason::Throttled);
                assert_eq!(deferral.retry, number + 1);
                assert_eq!(deferral.hide, seconds_until(now, deferral.due).min(facts.ceiling));
                let shows = plus(now, deferral.hide);
                assert!(is_kept(letter.kept_since(), DEFAULT_RETENTION, shows), "hidden to its death");
                now = plus(now, deferral.hide);
            }
            Decision::Deliver(_) => panic!("what has failed is not delivered at once"),
        }
        letter.sqs.receive_count += 1;
    }
}
