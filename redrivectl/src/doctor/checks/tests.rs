//! A deployment that is healthy, and each way in which it can be not.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::check;
use crate::doctor::finding::Severity::{self, CannotTell, Error, Note, Warning};
use crate::doctor::setup::{
    Bucket, Decision, Effect, Encryption, Function, Grant, LifecycleRule, Mapping, Queue, Release, Setup,
    Subscription, Subscriptions, Told, Untold, Waiting,
};
use sns_redrive::policy::{Order, Orders};
use sns_redrive::settings::{BadSettings, Settings};

const DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:orders-dlq";
const REQUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:orders-requeue";
const WORKER: &str = "arn:aws:sqs:eu-central-1:123456789012:orders-worker";
const TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:orders";
const SUBSCRIPTION: &str = "arn:aws:sns:eu-central-1:123456789012:orders:1";
const ROLE: &str = "arn:aws:iam::123456789012:role/function";

fn now() -> Timestamp {
    "2026-11-01T12:00:00Z".parse().unwrap()
}

fn settings(but: &[(&str, &str)]) -> Result<Settings, BadSettings> {
    Settings::read(|name| {
        let known = [
            ("ARCHIVE", "s3://graveyard/dead-letters"),
            ("CONTROL", "s3://graveyard/dead-letters-control"),
            ("REQUEUE_ARN", REQUEUE),
            ("MAX_CONCURRENCY", "2"),
        ];
        but.iter().chain(&known).find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    })
}

fn mapping(source: &str) -> Mapping {
    Mapping {
        uuid: "uuid".to_owned(),
        source: source.to_owned(),
        state: "Enabled".to_owned(),
        batch: 10,
        window: 0,
        is_partial: true,
        filters: Ok(0),
        concurrency: Some(2),
        is_provisioned: false,
    }
}

fn queue(arn: &str, attributes: &[(&str, String)]) -> Queue {
    let common = [("VisibilityTimeout", "180"), ("MessageRetentionPeriod", "1209600")];
    let common = common.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    Queue {
        arn: arn.parse().unwrap(),
        attributes: Ok(common.into_iter().chain(attributes).collect()),
        tags: None,
    }
}

fn lets_sns_in(topic: &str) -> String {
    json!({ "Statement": [
        { "Effect": "Allow", "Principal": { "Service": "sns.amazonaws.com" }, "Action": "sqs:SendMessage",
          "Resource": DLQ, "Condition": { "ArnLike": { "aws:SourceArn": [topic] } } },
    ] })
    .to_string()
}

fn denies_all_but(senders: &[&str]) -> String {
    json!({ "Statement": [
        { "Effect": "Deny", "Principal": "*", "Action": "sqs:SendMessage", "Resource": REQUEUE,
          "Condition": { "ArnNotLike": { "aws:PrincipalArn": senders } } },
    ] })
    .to_string()
}

fn subscription(arn: &str) -> Subscription {
    Subscription {
        arn: arn.to_owned(),
        topic: TOPIC.to_owned(),
        protocol: "sqs".to_owned(),
        endpoint: WORKER.to_owned(),
        dead_letters: Some(DLQ.to_owned()),
        is_raw: false,
        filter: None,
    }
}

fn rule(id: &str, prefix: &str, effect: Effect) -> LifecycleRule {
    LifecycleRule { id: id.to_owned(), prefix: prefix.to_owned(), is_narrower: false, effect }
}

fn expiry(id: &str, prefix: &str, days: i32) -> LifecycleRule {
    rule(id, prefix, Effect::Ends(Some(days)))
}

fn a_bucket(name: &str, prefix: &str) -> Bucket {
    Bucket {
        name: name.to_owned(),
        prefix: prefix.to_owned(),
        encryption: Ok(Some(Encryption { algorithm: "AES256".to_owned(), key: None })),
        is_versioned: Ok(true),
        is_private: Ok(true),
        lifecycle: Ok(vec![expiry("list", "dead-letters-control/waiting/", 1)]),
    }
}

fn release(template: Option<&str>, code_prefix: Option<&str>) -> Release {
    Release { template: template.map(str::to_owned), code_prefix: code_prefix.map(str::to_owned) }
}

/// What the template makes, with one subscription.
fn healthy() -> Setup {
    let tags = BTreeMap::from([("sns-redrive".to_owned(), "requeue".to_owned())]);
    let moves = json!({ "redrivePermission": "denyAll" }).to_string();
    let requeue = queue(REQUEUE, &[("Policy", denies_all_but(&[ROLE])), ("RedriveAllowPolicy", moves)]);
    Setup {
        now: now(),
        stack: Ok(None),
        release: Some(Ok(release(Some(env!("CARGO_PKG_VERSION")), None))),
        function: Function {
            name: "orders".to_owned(),
            role: ROLE.to_owned(),
            timeout: 30,
            memory: 256,
            state: "Active".to_owned(),
            last_update: "Successful".to_owned(),
            logs_json: true,
            log_level: Some("INFO".to_owned()),
            settings: Ok(settings(&[])),
            has_policy_file: false,
            recursion: Ok("Allow".to_owned()),
            reserved: Ok(None),
        },
        mappings: Ok(vec![mapping(DLQ), mapping(REQUEUE)]),
        queues: vec![queue(DLQ, &[("Policy", lets_sns_in(TOPIC))])],
        requeue: Some(Queue { tags: Some(Ok(tags)), ..requeue }),
        left_behind: Some(Ok(Vec::new())),
        subscriptions: Ok(Subscriptions {
            all: vec![subscription(SUBSCRIPTION)],
            foreign: BTreeMap::from([(TOPIC.to_owned(), Ok(0))]),
            ..Subscriptions::default()
        }),
        archive: Some(a_bucket("graveyard", "dead-letters")),
        control: Some(a_bucket("graveyard", "dead-letters-control")),
        conditional: Some(Ok(true)),
        orders: Some(Ok(vec![order(1, Some(3))])),
        waiting: Some(Ok(vec![waits(2)])),
        grants: Ok(vec![grant(Decision::Allowed, Some(Ok(None)))]),
    }
}

/// An order to hold, given so many hours ago, for so many hours.
fn order(ago: i64, hours: Option<i64>) -> Order {
    let at = now() - SignedDuration::from_hours(ago);
    let until = hours.map(|hours| at + SignedDuration::from_hours(hours));
    let orders = json!({ "version": 1, "orders": [
        { "id": "o1", "do": "hold", "match": { "queueArn": [DLQ] }, "at": at, "until": until, "by": "jo", "why": "down" },
    ] });
    let mut orders: serde_json::Value = orders;
    if until.is_none() {
        orders["orders"][0].as_object_mut().unwrap().remove("until");
    }
    Orders::parse(orders.to_string().as_bytes()).unwrap().all()[0].clone()
}

/// A letter that has waited for so many days.
fn waits(days: i64) -> Waiting {
    let since = now() - SignedDuration::from_hours(24 * days);
    Waiting { queue: DLQ.to_owned(), target: Some(WORKER.to_owned()), since }
}

fn grant(decision: Decision, own_policy: Option<Told<Option<String>>>) -> Grant {
    Grant {
        action: "sqs:SendMessage",
        resource: WORKER.to_owned(),
        for_what: "to redeliver to a subscription".to_owned(),
        decision: Ok(decision),
        own_policy,
        is_foreign: false,
    }
}

fn denied<T>(call: &'static str) -> Told<T> {
    Err(Untold { call, why: "AccessDeniedException".to_owned() })
}

/// What is found where the healthy deployment was changed so.
fn found(change: impl FnOnce(&mut Setup)) -> Vec<(Severity, &'static str)> {
    let mut setup = healthy();
    change(&mut setup);
    let manual = include_str!("../../../../docs/redrivectl.md");
    check(&setup)
        .iter()
        .inspect(|finding| {
            assert!(manual.contains(&format!("`{}`", finding.check)), "the manual lacks {}", finding.check);
        })
        .map(|finding| (finding.severity, finding.check))
        .collect()
}

fn mappings(setup: &mut Setup) -> &mut Vec<Mapping> {
    setup.mappings.as_mut().unwrap()
}

fn set(queue: &mut Queue, name: &str, value: impl Into<String>) {
    queue.attributes.as_mut().unwrap().insert(name.to_owned(), value.into());
}

fn all(setup: &mut Setup) -> &mut Vec<Subscription> {
    &mut setup.subscriptions.as_mut().unwrap().all
}

/// Changes the bucket in which archive and control prefix lie both.
fn in_bucket(setup: &mut Setup, change: impl Fn(&mut Bucket)) {
    change(setup.archive.as_mut().unwrap());
    change(setup.control.as_mut().unwrap());
}

#[test]
fn a_healthy_deployment_has_no_finding() {
    assert_eq!(check(&healthy()), []);
}

#[test]
fn mappings_are_looked_at() {
    let first = |change: fn(&mut Mapping)| found(|it| change(&mut mappings(it)[0]));
    assert_eq!(found(|it| drop(mappings(it).remove(0))), [(Error, "mapping-missing")]);
    let without_queues = found(|it| (it.queues, it.waiting) = (Vec::new(), None));
    assert_eq!(without_queues, [(Error, "mapping-missing")]);
    assert_eq!(first(|it| it.is_partial = false), [(Error, "mapping-partial-answers")]);
    assert_eq!(first(|it| it.filters = Ok(1)), [(Error, "mapping-filters")]);
    let encrypted = first(|it| it.filters = denied("lambda:GetEventSourceMapping"));
    assert_eq!(encrypted, [(CannotTell, "mapping-filters")]);
    assert_eq!(first(|it| it.state = "Disabled".to_owned()), [(Error, "mapping-state")]);
    assert_eq!(first(|it| it.state = "Creating".to_owned()), [(Note, "mapping-state")]);
    assert_eq!(first(|it| it.concurrency = None), [(Warning, "mapping-concurrency")]);
    assert_eq!(first(|it| it.concurrency = Some(5)), [(Warning, "mapping-concurrency")]);
    assert_eq!(first(|it| it.is_provisioned = true), [(Warning, "mapping-provisioned")]);
    assert_eq!(first(|it| it.window = 151), [(Warning, "mapping-window")]);
    let unknown = found(|it| it.mappings = denied("lambda:ListEventSourceMappings"));
    assert_eq!(unknown, [(CannotTell, "mappings")]);
}

#[test]
fn queues_are_looked_at() {
    let with = |name: &str, value: &str| found(|it| set(&mut it.queues[0], name, value));
    assert_eq!(with("VisibilityTimeout", "29"), [(Error, "queue-visibility")]);
    assert_eq!(with("VisibilityTimeout", "179"), [(Note, "queue-visibility")]);
    assert_eq!(with("MessageRetentionPeriod", "345600"), [(Warning, "queue-retention")]);
    assert_eq!(with("RedrivePolicy", "{}"), [(Error, "queue-redrive-policy")]);
    assert_eq!(with("KmsMasterKeyId", "alias/aws/sqs"), [(Error, "queue-key")]);
    assert_eq!(with("KmsMasterKeyId", "some-key"), [(CannotTell, "queue-key")]);
    assert_eq!(with("Policy", &lets_sns_in("arn:aws:sns:*:*:bills")), [(Error, "queue-policy")]);
    let conditional = lets_sns_in(TOPIC).replace("aws:SourceArn", "aws:SourceOrgID");
    assert_eq!(with("Policy", &conditional), [(CannotTell, "queue-policy")]);
    let unknown = found(|it| it.queues[0].attributes = denied("sqs:GetQueueAttributes"));
    assert_eq!(unknown, [(CannotTell, "queue"), (CannotTell, "letters-expire")]);
}

#[test]
fn a_queue_that_the_stack_left_behind_is_found() {
    let left = |attributes: &[(&str, String)]| {
        found(|it| it.left_behind = Some(Ok(vec![queue(&format!("{REQUEUE}-old"), attributes)])))
    };
    assert_eq!(left(&[("ApproximateNumberOfMessages", "0".to_owned())]), [(Note, "queue-left-behind")]);
    for count in ["", "NotVisible", "Delayed"] {
        let count = format!("ApproximateNumberOfMessages{count}");
        assert_eq!(left(&[(&count, "3".to_owned())]), [(Error, "queue-left-behind")], "{count}");
    }
    let unread = Queue { attributes: denied("sqs:GetQueueAttributes"), ..queue(DLQ, &[]) };
    assert_eq!(found(|it| it.left_behind = Some(Ok(vec![unread]))), [(CannotTell, "queue-left-behind")]);
    let unlisted = found(|it| it.left_behind = Some(denied("sqs:ListQueues")));
    assert_eq!(unlisted, [(CannotTell, "queue-left-behind")]);
    assert_eq!(found(|it| it.left_behind = None), []);
}

#[test]
fn the_requeue_is_looked_at() {
    let with = |name: &'static str, value: &str| found(|it| set(it.requeue.as_mut().unwrap(), name, value));
    assert_eq!(found(|it| it.requeue = None), [(Note, "requeue")]);
    assert_eq!(with("RedrivePolicy", "{}"), [(Error, "requeue-redrive-policy")]);
    assert_eq!(with("RedriveAllowPolicy", "{}"), [(Warning, "requeue-moves")]);
    assert_eq!(with("Policy", ""), [(Warning, "requeue-senders")]);
    assert_eq!(with("Policy", &denies_all_but(&["arn:aws:iam::1:role/x"])).len(), 2);
    for anybody in ["*", "arn:aws:iam::*:*", "arn:aws:iam::123456789012:role/*"] {
        assert_eq!(with("Policy", &denies_all_but(&[ROLE, anybody])), [(Error, "requeue-senders")]);
    }
    assert_eq!(with("Policy", &denies_all_but(&[ROLE, "arn:x"])), [(Note, "requeue-senders")]);
    let tags =
        |tags: Told<BTreeMap<String, String>>| found(|it| it.requeue.as_mut().unwrap().tags = Some(tags));
    assert_eq!(tags(Ok(BTreeMap::new())), [(Warning, "requeue-tag")]);
    assert_eq!(tags(denied("sqs:ListQueueTags")), [(CannotTell, "requeue-tag")]);
    let fifo = found(|it| {
        let requeue = it.requeue.as_mut().unwrap();
        let fifo = format!("{REQUEUE}.fifo");
        set(requeue, "Policy", denies_all_but(&[ROLE]).replace(REQUEUE, &fifo));
        requeue.arn = fifo.parse().unwrap();
        mappings(it)[1].source += ".fifo";
    });
    assert_eq!(fifo, [(Warning, "requeue-kind")]);
    let unknown = found(|it| it.requeue.as_mut().unwrap().attributes = denied("sqs:GetQueueAttributes"));
    assert_eq!(unknown, [(CannotTell, "requeue")]);
}

#[test]
fn subscriptions_are_looked_at() {
    let one = |change: fn(&mut Subscription)| found(|it| change(&mut all(it)[0]));
    let second = |change: fn(&mut Subscription)| {
        found(|it| {
            all(it).push(subscription("arn:aws:sns:eu-central-1:123456789012:orders:2"));
            change(&mut all(it)[1]);
        })
    };
    assert_eq!(second(|_| {}), []);
    assert_eq!(found(|it| all(it).clear()), [(Warning, "subscriptions")]);
    assert_eq!(one(|it| it.is_raw = true), [(Error, "subscriptions-raw")]);
    assert_eq!(
        second(|it| it.is_raw = true),
        [(Error, "subscriptions-raw"), (Warning, "subscriptions-raw-shared")]
    );
    assert_eq!(second(|it| it.dead_letters = None), [(Warning, "subscription-without-queue")]);
    assert_eq!(one(|it| it.protocol = "email".to_owned()), [(Warning, "subscription-protocol")]);
    for (protocol, expected) in [("https", vec![(Warning, "subscription-protocol")]), ("sqs", vec![])] {
        let found = found(|it| {
            it.function.settings = Ok(settings(&[("HTTP_TARGETS", "off")]));
            protocol.clone_into(&mut all(it)[0].protocol);
        });
        assert_eq!(found, expected);
    }
    assert_eq!(one(|it| it.protocol = "https".to_owned()), []);
    assert_eq!(one(|it| it.endpoint = DLQ.to_owned()), [(Error, "subscription-endpoint")]);
    for endpoint in [DLQ, REQUEUE] {
        let of_another_topic = found(|it| {
            let other = subscription("arn:aws:sns:eu-central-1:123456789012:bills:1");
            let (topic, endpoint) = (format!("{TOPIC}-bills"), endpoint.to_owned());
            all(it).push(Subscription { topic, endpoint, dead_letters: None, ..other });
        });
        assert_eq!(of_another_topic, [(Error, "subscription-endpoint")]);
    }
    let of_requeue = found(|it| {
        let topic = "arn:aws:sns:eu-central-1:123456789012:bills".to_owned();
        let other = subscription("arn:aws:sns:eu-central-1:123456789012:bills:1");
        all(it).push(Subscription { topic, dead_letters: Some(REQUEUE.to_owned()), ..other });
    });
    assert_eq!(of_requeue, [(Error, "subscription-requeue")]);
    let filter = |it: &mut Subscription| it.filter = Some(r#"{"sns-redrive":[{"exists":false}]}"#.to_owned());
    assert_eq!(one(filter), [(Warning, "subscription-filter")]);
    assert_eq!(one(|it| it.filter = Some(r#"{"tenant":["gold"]}"#.to_owned())), []);
    let fifo = found(|it| {
        all(it)[0].topic += ".fifo";
        set(&mut it.queues[0], "Policy", lets_sns_in("arn:aws:sns:*:*:*"));
    });
    assert_eq!(fifo, [(Error, "subscription-kind")]);
}

const RAW: &str = "arn:aws:sns:eu-central-1:123456789012:orders:2";

/// What is found where a raw subscription shares the queue, and the redrive policy is this.
fn found_of_raw(policy: &serde_json::Value) -> Vec<(Severity, &'static str)> {
    found(|it| {
        it.function.settings = Ok(settings(&[("REDRIVE_POLICY", &policy.to_string())]));
        all(it).push(Subscription { is_raw: true, ..subscription(RAW) });
    })
}

#[test]
fn the_default_finds_a_raw_subscription_and_a_rule_that_need_not_match_may() {
    let (shared, raw) = ("subscriptions-raw-shared", "subscriptions-raw");
    let named = json!({ "subscription": RAW });
    assert_eq!(found_of_raw(&json!({ "default": named })), [(Warning, shared)]);
    let rule = json!({ "name": "raw", "match": { "origin": ["raw"] }, "verifySignature": false, "subscription": RAW });
    assert_eq!(found_of_raw(&json!({ "rules": [rule] })), [(Warning, shared), (CannotTell, raw)]);
    let verified = json!({ "default": { "verifySignature": true }, "rules": [rule] });
    assert_eq!(found_of_raw(&verified), [(CannotTell, raw)]);
    for action in ["archive", "hold"] {
        let mut rule = rule.clone();
        rule["action"] = json!(action);
        let sent = json!({ "default": { "verifySignature": true }, "rules": [rule] });
        assert_eq!(found_of_raw(&sent), [(Error, raw)], "a rule that sends nothing finds nothing");
    }
}

#[test]
fn signatures_keep_others_safe_where_the_default_asks_for_them() {
    let (shared, raw) = ("subscriptions-raw-shared", "subscriptions-raw");
    let verifies = json!({ "name": "v", "match": { "origin": ["sns"] }, "verifySignature": true });
    let by_rule = json!({ "default": { "subscription": RAW }, "rules": [verifies] });
    assert_eq!(found_of_raw(&by_rule), [(CannotTell, shared)]);
    let all = json!({ "default": { "subscription": RAW, "verifySignature": true } });
    assert_eq!(found_of_raw(&all), [(Error, raw)], "raw letters have no signature");
    let in_file = found(|it| {
        it.function.has_policy_file = true;
        self::all(it).push(Subscription { is_raw: true, ..subscription(RAW) });
    });
    assert_eq!(in_file, [(CannotTell, "function-policy"), (CannotTell, shared), (CannotTell, raw)]);
}

#[test]
fn a_search_finds_a_raw_subscription_that_alone_names_the_queue() {
    let (shared, raw) = ("subscriptions-raw-shared", "subscriptions-raw");
    let search = json!({ "default": { "subscription": "discover" } });
    assert_eq!(
        found_of_raw(&search),
        [(Error, raw), (Warning, shared)],
        "another names it, though not a raw one"
    );
    let alone = |change: fn(&mut Subscriptions)| {
        found(|it| {
            it.function.settings = Ok(settings(&[("REDRIVE_POLICY", &search.to_string())]));
            all(it)[0].is_raw = true;
            change(it.subscriptions.as_mut().unwrap());
        })
    };
    assert_eq!(alone(|_| {}), []);
    assert_eq!(alone(|it| it.pending = 1), [(CannotTell, raw), (Note, "subscriptions-pending")]);
    let unread = alone(|it| it.unread = BTreeMap::from([("Throttled".to_owned(), 1)]));
    assert_eq!(unread, [(CannotTell, raw), (CannotTell, "subscriptions")]);
}

#[test]
fn what_cannot_be_asked_of_subscriptions_is_told() {
    let of = |change: fn(&mut Subscriptions)| found(|it| change(it.subscriptions.as_mut().unwrap()));
    let unread = |it: &mut Subscriptions| {
        it.unread.insert("AuthorizationError".to_owned(), 3);
    };
    assert_eq!(of(unread), [(CannotTell, "subscriptions")]);
    assert_eq!(of(|it| it.pending = 1), [(Note, "subscriptions-pending")]);
    let foreign = |it: &mut Subscriptions| drop(it.foreign.insert(TOPIC.to_owned(), Ok(1)));
    assert_eq!(of(foreign), [(CannotTell, "subscriptions-foreign")]);
    let unlisted = |it: &mut Subscriptions| {
        it.foreign.insert(TOPIC.to_owned(), denied("sns:ListSubscriptionsByTopic"));
    };
    assert_eq!(of(unlisted), [(CannotTell, "subscriptions-foreign")]);
    let unknown = found(|it| it.subscriptions = denied("sns:ListSubscriptions"));
    assert_eq!(unknown, [(CannotTell, "subscriptions")]);
}

#[test]
fn who_was_not_denied_is_told_of_no_permission() {
    for (why, is_denied) in [
        ("AccessDeniedException", true),
        ("AuthorizationError", true),
        ("Http403", true),
        ("Throttled", false),
        ("Timeout", false),
        ("1403 of the list could not be read", false),
    ] {
        let mut setup = healthy();
        let untold = Untold { call: "sns:ListSubscriptionsByTopic", why: why.to_owned() };
        let subscriptions = setup.subscriptions.as_mut().unwrap();
        subscriptions.unread.insert(why.to_owned(), 1);
        subscriptions.foreign.insert(TOPIC.to_owned(), Err(untold));
        let findings = check(&setup);
        let told =
            findings.iter().filter(|it| it.mend.as_ref().is_some_and(|it| it.contains("give yourself sns:")));
        assert_eq!((findings.len(), told.count()), (2, if is_denied { 2 } else { 0 }), "{why}");
    }
}

#[test]
fn the_archive_is_looked_at() {
    let of = |change: fn(&mut Bucket)| found(|it| in_bucket(it, change));
    assert_eq!(of(|it| it.encryption = Ok(None)), [(Warning, "archive-encryption")]);
    assert_eq!(of(|it| it.is_versioned = Ok(false)), [(Note, "archive-versions")]);
    assert_eq!(of(|it| it.is_private = Ok(false)), [(CannotTell, "archive-public")]);
    assert_eq!(of(|it| it.lifecycle = Ok(Vec::new())), [(Note, "archive-waiting-list")]);
    assert_eq!(found(|it| it.conditional = Some(Ok(false))), [(Error, "archive-conditions")]);
    assert_eq!(found(|it| it.conditional = None), []);
    let unknown = found(|it| {
        in_bucket(it, |bucket| {
            bucket.encryption = denied("s3:GetEncryptionConfiguration");
            bucket.is_versioned = denied("s3:GetBucketVersioning");
            bucket.is_private = denied("s3:GetBucketPublicAccessBlock");
            bucket.lifecycle = denied("s3:GetLifecycleConfiguration");
        });
        it.conditional = Some(denied("s3:PutObject"));
    });
    assert!(unknown.len() == 5 && unknown.iter().all(|(severity, _)| *severity == CannotTell), "{unknown:?}");
    let in_queue = found(|it| {
        it.archive = None;
        it.function.settings = Ok(settings(&[("ARCHIVE", WORKER)]));
    });
    assert_eq!(in_queue, [(Note, "archive")]);
}

#[test]
fn rules_that_end_a_part_of_what_is_kept_are_found_too() {
    let ends = |prefix: &'static str, days: i32| {
        found(|it| {
            in_bucket(it, |bucket| {
                bucket.lifecycle.as_mut().unwrap().push(expiry("rule", prefix, days));
            });
        })
    };
    assert_eq!(ends("dead-letters/", 29), [(Warning, "archive-lifecycle")]);
    assert_eq!(ends("dead-letters/", 365), [(Note, "archive-lifecycle")]);
    assert_eq!(ends("dead-letters/queue=orders-dlq/", 1), [(Warning, "archive-lifecycle")]);
    assert_eq!(ends("dead-letters-control/replays/", 365), [(Error, "archive-replays-expire")]);
    assert_eq!(ends("dead-letters-control/replays/queues/", 365), [(Error, "archive-replays-expire")]);
    assert_eq!(ends("dead-letters-control/orders", 365), [(Error, "archive-orders-expire")]);
    assert_eq!(ends("something-else/", 1), []);
    assert_eq!(ends("", 1).len(), 3, "a rule of the whole bucket ends all of it");
    let frozen = |prefix: &'static str| {
        found(|it| {
            let freezes = rule("rule", prefix, Effect::Freezes("GLACIER".to_owned()));
            in_bucket(it, |bucket| bucket.lifecycle.as_mut().unwrap().push(freezes.clone()));
        })
    };
    assert_eq!(frozen("dead-letters/"), [(Warning, "archive-frozen")]);
    assert_eq!(frozen("dead-letters-control/orders.json"), [(Warning, "archive-frozen")]);
    assert_eq!(frozen("something-else/"), []);
    let of_one_day = found(|it| {
        let rules = vec![expiry("part", "dead-letters-control/waiting/letters/2026", 1)];
        it.control.as_mut().unwrap().lifecycle = Ok(rules);
    });
    assert_eq!(of_one_day, [(Note, "archive-waiting-list")], "a part of the list is not the list");
}

#[test]
fn a_control_prefix_in_another_bucket_is_looked_at_there() {
    let there = |change: fn(&mut Bucket)| {
        found(|it| {
            let mut control = a_bucket("desk", "orders-control");
            control.lifecycle = Ok(vec![expiry("list", "orders-control/waiting/", 1)]);
            change(&mut control);
            it.control = Some(control);
        })
    };
    assert_eq!(there(|_| {}), []);
    let ends =
        |it: &mut Bucket| it.lifecycle.as_mut().unwrap().push(expiry("rule", "orders-control/replays/", 9));
    assert_eq!(there(ends), [(Error, "archive-replays-expire")]);
    assert_eq!(there(|it| it.is_private = Ok(false)), [(CannotTell, "archive-public")]);
    let unread = |it: &mut Bucket| it.lifecycle = denied("s3:GetLifecycleConfiguration");
    assert_eq!(there(unread), [(CannotTell, "archive-lifecycle")]);
    let nowhere = found(|it| {
        it.control = None;
        it.conditional = Some(Err(Untold { call: "--write-test", why: "there is none".to_owned() }));
    });
    assert_eq!(nowhere, [(CannotTell, "archive-conditions")]);
}

#[test]
fn the_function_is_looked_at() {
    let of = |change: fn(&mut Function)| found(|it| change(&mut it.function));
    assert_eq!(of(|it| it.state = "Inactive".to_owned()), [(Warning, "function-state")]);
    assert_eq!(of(|it| it.memory = 128), [(Note, "function-memory")]);
    assert_eq!(of(|it| it.log_level = Some("WARN".to_owned())), [(Warning, "function-log-level")]);
    assert_eq!(of(|it| (it.logs_json, it.log_level) = (false, None)), []);
    assert_eq!(of(|it| it.recursion = Ok("Terminate".to_owned())), [(Error, "function-recursion")]);
    assert_eq!(
        of(|it| it.recursion = denied("lambda:GetFunctionRecursionConfig")),
        [(CannotTell, "function-recursion")]
    );
    assert_eq!(of(|it| it.reserved = Ok(Some(0))), [(Error, "function-concurrency")]);
    assert_eq!(of(|it| it.reserved = Ok(Some(5))), [(Note, "function-concurrency")]);
    assert_eq!(
        of(|it| it.settings = Ok(settings(&[("REDRIVE_MODE", "observe")]))),
        [(Warning, "function-mode")]
    );
    assert_eq!(
        of(|it| it.settings = Ok(settings(&[("ARCHIVE", "nowhere")]))),
        [(Error, "function-settings")]
    );
    assert_eq!(of(|it| it.settings = denied("kms:Decrypt")), [(CannotTell, "function-settings")]);
    assert_eq!(of(|it| it.has_policy_file = true), [(CannotTell, "function-policy")]);
    let other = found(|it| it.stack = Ok(Some("The stack bills is that of the function bills".to_owned())));
    assert_eq!(other, [(CannotTell, "stack")]);
    assert_eq!(found(|it| it.stack = denied("cloudformation:DescribeStacks")), [(CannotTell, "stack")]);
}

#[test]
fn the_release_of_template_and_code_is_compared_with_the_tool() {
    let tool = env!("CARGO_PKG_VERSION");
    let candidate = format!("{tool}-rc.1");
    let of = |told: Option<Told<Release>>| found(|it| it.release = told);
    assert_eq!(of(None), [(CannotTell, "function-version")]);
    assert_eq!(of(Some(denied("cloudformation:GetTemplateSummary"))), [(CannotTell, "function-version")]);
    for (template, severity) in [
        (None, Some(CannotTell)),
        (Some("some day"), Some(CannotTell)),
        (Some("0.0.9"), Some(Warning)),
        (Some(candidate.as_str()), Some(Warning)),
        (Some(tool), None),
        (Some("999.0.0"), Some(Note)),
    ] {
        let expected: Vec<_> = severity.into_iter().map(|severity| (severity, "function-version")).collect();
        assert_eq!(of(Some(Ok(release(template, None)))), expected, "{template:?}");
    }
    let this = format!("code/{tool}/");
    for (prefix, severity) in [
        ("sns-redrive/0.0.9", Some(Warning)),
        (this.as_str(), None),
        ("sns-redrive/latest", Some(CannotTell)),
    ] {
        let expected: Vec<_> = severity.into_iter().map(|severity| (severity, "function-version")).collect();
        assert_eq!(of(Some(Ok(release(Some(tool), Some(prefix))))), expected, "{prefix}");
    }
}

#[test]
fn orders_and_waiting_letters_are_looked_at() {
    let with = |orders: Vec<Order>| found(|it| it.orders = Some(Ok(orders)));
    assert_eq!(with(vec![order(1, None)]), [(Note, "order-forgotten")]);
    assert_eq!(with(vec![order(25, None)]), [(Warning, "order-forgotten")]);
    assert_eq!(with(vec![order(25, Some(48))]), [(Warning, "order-forgotten")]);
    assert_eq!(with(vec![order(25, Some(24))]), [], "it has ended");
    let waiting = |waiting: Vec<Waiting>| found(|it| it.waiting = Some(Ok(waiting)));
    assert_eq!(waiting(vec![waits(12)]), []);
    assert_eq!(waiting(vec![waits(13), waits(13)]), [(Warning, "letters-expire")]);
    let elsewhere = |queue: &str| waiting(vec![Waiting { queue: queue.to_owned(), ..waits(13) }]);
    assert_eq!(elsewhere(REQUEUE), [(Warning, "letters-expire")]);
    assert_eq!(elsewhere(WORKER), [(CannotTell, "letters-expire")], "no queue that was read");
    let unread = found(|it| {
        it.queues[0].attributes = Ok(BTreeMap::from([("VisibilityTimeout".to_owned(), "180".to_owned())]));
    });
    assert!(unread.contains(&(CannotTell, "letters-expire")), "{unread:?}");
    let unknown = found(|it| {
        it.orders = Some(denied("s3:GetObject"));
        it.waiting = Some(denied("s3:GetObject"));
    });
    assert_eq!(unknown, [(CannotTell, "orders"), (CannotTell, "waiting")]);
}

#[test]
fn grants_are_looked_at_and_what_no_simulation_knows_is_not_fine() {
    let with = |grant: Grant| found(|it| it.grants = Ok(vec![grant]));
    let policy = |effect: &str| {
        let statement =
            json!({ "Effect": effect, "Principal": { "AWS": ROLE }, "Action": "sqs:*", "Resource": "*" });
        Some(Ok(Some(json!({ "Statement": [statement] }).to_string())))
    };
    let unread = || Some(denied("sqs:GetQueueAttributes"));
    for (decision, own, severity) in [
        (Decision::Allowed, None, None),
        (Decision::Allowed, policy("Allow"), None),
        (Decision::Allowed, policy("Deny"), Some(CannotTell)),
        (Decision::Allowed, unread(), Some(CannotTell)),
        (Decision::Allowed, Some(Ok(Some(denies_all_but(&[ROLE])))), None),
        (Decision::Allowed, Some(Ok(Some(denies_all_but(&["arn:other"])))), Some(CannotTell)),
        (Decision::NotAllowed, Some(Ok(None)), Some(Error)),
        (Decision::NotAllowed, policy("Allow"), Some(CannotTell)),
        (Decision::NotAllowed, unread(), Some(CannotTell)),
        (Decision::Denied, policy("Allow"), Some(Error)),
        (Decision::Unclear("it depends on aws:SourceVpc".to_owned()), None, Some(CannotTell)),
    ] {
        let found = with(grant(decision.clone(), own.clone()));
        let expected: Vec<_> = severity.map(|severity| (severity, "grant")).into_iter().collect();
        assert_eq!(found, expected, "{decision:?} {own:?}");
    }
    let foreign = |decision| with(Grant { is_foreign: true, ..grant(decision, None) });
    assert_eq!(foreign(Decision::Allowed), [(CannotTell, "grant")]);
    assert_eq!(foreign(Decision::NotAllowed), [(Error, "grant")]);
    let unknown = Grant { decision: denied("iam:SimulatePrincipalPolicy"), ..grant(Decision::Allowed, None) };
    assert_eq!(with(unknown), [(CannotTell, "grant")]);
    assert_eq!(found(|it| it.grants = denied("iam:SimulatePrincipalPolicy")), [(CannotTell, "grant")]);
}

#[test]
fn the_redrive_policy_is_looked_at() {
    let with = |policy: &serde_json::Value, change: fn(&mut Setup)| {
        found(|it| {
            it.function.settings = Ok(settings(&[("REDRIVE_POLICY", &policy.to_string())]));
            change(it);
        })
    };
    let alone = |it: &mut Setup| all(it)[0].is_raw = true;
    let origins = |queue: &str| json!({ "origins": { queue: ["eventbridge"] }, "default": { "subscription": SUBSCRIPTION } });
    assert_eq!(with(&origins(DLQ), |_| {}), [(CannotTell, "policy-origins")]);
    assert_eq!(with(&origins(DLQ), alone), [(Warning, "policy-origins"), (CannotTell, "policy-origins")]);
    assert_eq!(with(&origins(WORKER), alone), [], "another queue");
    let mut narrow = origins("*");
    narrow["default"]["allowTargets"] = json!([WORKER]);
    assert_eq!(with(&narrow, |_| {}), [], "the grants are asked about it");
    let allows = |target: &str| json!({ "default": { "allowTargets": [target] } });
    assert_eq!(with(&allows(WORKER), |_| {}), []);
    assert_eq!(with(&allows(TOPIC), |_| {}), [(Warning, "policy-allow-targets")]);
    let web = |it: &mut Setup| {
        let endpoint = "https://example.org/hook".to_owned();
        all(it)[0] = Subscription { protocol: "https".to_owned(), endpoint, ..subscription(SUBSCRIPTION) };
    };
    assert_eq!(with(&allows("https://example.org/"), web), []);
    let rule =
        json!({ "name": "to", "match": { "origin": ["raw"] }, "target": TOPIC, "allowTargets": [WORKER] });
    assert_eq!(with(&json!({ "rules": [rule] }), |_| {}), [(Error, "policy-allow-targets")]);
}
