//! A healthy deployment, and each way in which it can be unhealthy.

mod alarms;
mod archive;
mod function;
mod queues;
mod subscriptions;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use proptest::collection::vec;
use proptest::test_runner::{Config, TestRunner};
use redrive_archive::{LifecycleEffect, LifecycleRule};
use redrive_aws::settings::{BadSettings, Settings};
use redrive_core::policy::{Override, Overrides};
use redrive_testing::shell::{ShellToken, hostile, tokens};
use serde_json::json;

use super::check;
use crate::args::FurtherOptions;
use crate::doctor::finding::Severity::{self, CannotTell, Error, Note, Warning};
use crate::doctor::setup::{
    AccountSubscriptions, AlarmTopic, BucketEncryption, DeployedBucket, DeployedFunction, DeployedMapping,
    DeployedQueue, DeployedSubscription, DeploymentFacts, HiddenLetter, IamDecision, ReadError, ReadResult,
    RoleGrant, StackRelease,
};
use crate::tables::harmless;

const DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-dlq";
const REQUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-requeue";
const WORKER: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-worker";
const TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:payments";
const SUBSCRIPTION: &str = "arn:aws:sns:eu-central-1:123456789012:payments:1";
const ROLE: &str = "arn:aws:iam::123456789012:role/function";

const OPERATOR: &str = "arn:aws:iam::123456789012:role/operator";
const ALARMS: &str = "arn:aws:sns:eu-central-1:123456789012:alarms";

fn now() -> Timestamp {
    "2026-11-01T12:00:00Z".parse().unwrap()
}

fn settings(but: &[(&str, &str)]) -> Result<Settings, BadSettings> {
    Settings::read(|name| {
        let known = [
            ("ARCHIVE", "s3://my-bucket/dead-letters"),
            ("CONTROL", "s3://my-bucket/dead-letters-control"),
            ("REQUEUE_ARN", REQUEUE),
            ("MAX_CONCURRENCY", "2"),
        ];
        but.iter().chain(&known).find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    })
}

fn mapping(source: &str) -> DeployedMapping {
    DeployedMapping {
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

fn queue(arn: &str, attributes: &[(&str, String)]) -> DeployedQueue {
    let common = [("VisibilityTimeout", "180"), ("MessageRetentionPeriod", "1209600")];
    let common = common.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    DeployedQueue {
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

fn subscription(arn: &str) -> DeployedSubscription {
    DeployedSubscription {
        arn: arn.to_owned(),
        topic: TOPIC.to_owned(),
        owner: "123456789012".to_owned(),
        protocol: "sqs".to_owned(),
        endpoint: WORKER.to_owned(),
        dead_letters: Some(DLQ.to_owned()),
        redrive_policy: None,
        is_raw: false,
        filter: None,
    }
}

fn rule(id: &str, prefix: &str, effect: LifecycleEffect) -> LifecycleRule {
    LifecycleRule { id: id.to_owned(), prefix: prefix.to_owned(), is_narrower: false, effect }
}

fn expiry(id: &str, prefix: &str, days: i32) -> LifecycleRule {
    rule(id, prefix, LifecycleEffect::Ends(Some(days)))
}

fn a_bucket(name: &str, prefix: &str) -> DeployedBucket {
    DeployedBucket {
        name: name.to_owned(),
        prefix: prefix.to_owned(),
        encryption: Ok(Some(BucketEncryption { algorithm: "AES256".to_owned(), key: None })),
        is_versioned: Ok(true),
        is_private: Ok(true),
        lifecycle: Ok(vec![expiry("list", "dead-letters-control/waiting/", 1)]),
    }
}

fn release(template: Option<&str>, code_prefix: Option<&str>) -> StackRelease {
    StackRelease { template: template.map(str::to_owned), code_prefix: code_prefix.map(str::to_owned) }
}

fn alarm_topic(pages: bool, subscribers: ReadResult<Option<u64>>) -> AlarmTopic {
    AlarmTopic { arn: ALARMS.to_owned(), pages, subscribers }
}

/// Returns the deployment that the template makes, with one subscription.
fn healthy() -> DeploymentFacts {
    let tags = BTreeMap::from([("sns-redrive".to_owned(), "requeue".to_owned())]);
    let moves = json!({ "redrivePermission": "denyAll" }).to_string();
    let requeue =
        queue(REQUEUE, &[("Policy", denies_all_but(&[ROLE, OPERATOR])), ("RedriveAllowPolicy", moves)]);
    DeploymentFacts {
        now: now(),
        stack: Ok(None),
        undrained: Ok(Vec::new()),
        release: Some(Ok(release(Some(env!("CARGO_PKG_VERSION")), None))),
        alarm_topics: Some(vec![alarm_topic(false, Ok(Some(1)))]),
        function: DeployedFunction {
            name: "payments".to_owned(),
            role: ROLE.to_owned(),
            timeout: 30,
            memory: 256,
            state: "Active".to_owned(),
            last_update: "Successful".to_owned(),
            quiet_log_level: None,
            settings: Ok(settings(&[])),
            has_policy_file: false,
            policy_object: None,
            recursion: Ok("Allow".to_owned()),
            reserved: Ok(None),
        },
        mappings: Ok(vec![mapping(DLQ), mapping(REQUEUE)]),
        queues: vec![queue(DLQ, &[("Policy", lets_sns_in(TOPIC))])],
        requeue: Some(DeployedQueue { tags: Some(Ok(tags)), ..requeue }),
        left_behind: Some(Ok(Vec::new())),
        subscriptions: Ok(AccountSubscriptions {
            all: vec![subscription(SUBSCRIPTION)],
            foreign: BTreeMap::from([(TOPIC.to_owned(), Ok(0))]),
            ..AccountSubscriptions::default()
        }),
        targets: vec![queue(WORKER, &[("MaximumMessageSize", "1048576".to_owned())])],
        archive: Some(a_bucket("my-bucket", "dead-letters")),
        control: Some(a_bucket("my-bucket", "dead-letters-control")),
        conditional: Some(Ok(true)),
        overrides: Some(Ok(vec![override_(1, Some(3))])),
        waiting: Some(Ok(vec![waits(2)])),
        grants: Ok(vec![grant(IamDecision::Allowed, Some(Ok(None)))]),
    }
}

/// SNS ignores the limit, so only a retry shows it.
#[test]
fn a_target_that_takes_less_than_sns_delivers_is_told_with_the_command() {
    let limited = |bytes: &str| found(|it| set(&mut it.targets[0], "MaximumMessageSize", bytes.to_owned()));
    assert_eq!(limited("1048576"), []);
    assert_eq!(limited("1048575"), [(Warning, "target-size")]);
    assert_eq!(limited("262144"), [(Warning, "target-size")]);
    assert_eq!(
        found(|it| {
            let gone = ReadError::new("sqs:GetQueueAttributes", "AWS.SimpleQueueService.NonExistentQueue");
            it.targets[0].attributes = Err(gone.clone());
            it.grants = Ok(vec![grant(IamDecision::Allowed, Some(Err(gone)))]);
        }),
        [(Error, "target-exists")],
        "once"
    );
    assert_eq!(
        found(|it| it.targets[0].attributes = denied("sqs:GetQueueAttributes")),
        [],
        "a grant of the operator's is no finding"
    );
}

/// An override to hold, by the hours since it was given and its duration in hours.
fn override_(ago: i64, hours: Option<i64>) -> Override {
    let at = now() - SignedDuration::from_hours(ago);
    let until = hours.map(|hours| at + SignedDuration::from_hours(hours));
    let overrides = json!({ "version": 1, "overrides": [
        { "id": "o1", "do": "hold", "match": { "queueArn": [DLQ] }, "at": at, "until": until, "by": "jo", "why": "down" },
    ] });
    let mut overrides: serde_json::Value = overrides;
    if until.is_none() {
        overrides["overrides"][0].as_object_mut().unwrap().remove("until");
    }
    Overrides::parse(overrides.to_string().as_bytes()).unwrap().all()[0].clone()
}

/// A letter that has waited for this number of days.
fn waits(days: i64) -> HiddenLetter {
    let since = now() - SignedDuration::from_hours(24 * days);
    HiddenLetter { queue: DLQ.to_owned(), target: Some(WORKER.to_owned()), since }
}

fn grant(decision: IamDecision, own_policy: Option<ReadResult<Option<String>>>) -> RoleGrant {
    RoleGrant {
        action: "sqs:SendMessage",
        resource: WORKER.to_owned(),
        for_what: "to redeliver to a subscription".to_owned(),
        decision: Ok(decision),
        own_policy,
        is_foreign: false,
    }
}

fn denied<T>(call: &'static str) -> ReadResult<T> {
    Err(ReadError::new(call, "AccessDeniedException"))
}

/// Returns the findings for the healthy deployment after a change, without its own.
fn found(change: impl FnOnce(&mut DeploymentFacts)) -> Vec<(Severity, &'static str)> {
    let mut setup = healthy();
    change(&mut setup);
    let manual = include_str!("../../../../../docs/reference/redrivectl.md");
    let usual = check(&healthy());
    check(&setup)
        .iter()
        .filter(|finding| !usual.contains(finding))
        .inspect(|finding| {
            assert!(manual.contains(&format!("`{}`", finding.check)), "the manual lacks {}", finding.check);
        })
        .map(|finding| (finding.severity, finding.check))
        .collect()
}

fn mappings(setup: &mut DeploymentFacts) -> &mut Vec<DeployedMapping> {
    setup.mappings.as_mut().unwrap()
}

fn set(queue: &mut DeployedQueue, name: &str, value: impl Into<String>) {
    queue.attributes.as_mut().unwrap().insert(name.to_owned(), value.into());
}

fn all(setup: &mut DeploymentFacts) -> &mut Vec<DeployedSubscription> {
    &mut setup.subscriptions.as_mut().unwrap().all
}

/// Changes the bucket that has both the archive and the control prefix.
fn in_bucket(setup: &mut DeploymentFacts, change: impl Fn(&mut DeployedBucket)) {
    change(setup.archive.as_mut().unwrap());
    change(setup.control.as_mut().unwrap());
}

#[test]
fn of_a_healthy_deployment_only_those_who_replay_are_named() {
    let found: Vec<_> = check(&healthy()).into_iter().map(|it| (it.severity, it.check)).collect();
    assert_eq!(found, [(Note, "requeue-senders")]);
}

/// Names, ids and keys are answers of AWS and documents that others write.
#[test]
fn a_shell_reads_in_every_fix_the_words_that_were_meant() {
    let commands = RefCell::new(BTreeSet::new());
    let law = |texts: Vec<String>| {
        let mut setup = healthy();
        let [function, uuid, key, bucket, arn, id] = <[String; 6]>::try_from(texts.clone()).unwrap();
        setup.function = DeployedFunction {
            name: function,
            state: "Inactive".to_owned(),
            memory: 128,
            quiet_log_level: Some("WARN".to_owned()),
            recursion: Ok("Terminate".to_owned()),
            reserved: Ok(Some(0)),
            ..setup.function
        };
        let ill = DeployedMapping {
            uuid,
            state: "Disabled".to_owned(),
            is_partial: false,
            filters: Ok(1),
            concurrency: None,
            ..mapping(DLQ)
        };
        setup.mappings = Ok(vec![ill]);
        set(&mut setup.queues[0], "KmsMasterKeyId", key);
        set(&mut setup.queues[0], "RedrivePolicy", "{}");
        set(&mut setup.queues[0], "VisibilityTimeout", "1");
        in_bucket(&mut setup, |it| {
            it.name.clone_from(&bucket);
            (it.encryption, it.is_versioned, it.is_private) = (Ok(None), Ok(false), Ok(false));
        });
        let filter = Some(r#"{"sns-redrive":[{"exists":false}]}"#.to_owned());
        all(&mut setup)[0] = DeployedSubscription { endpoint: DLQ.to_owned(), filter, ..subscription(&arn) };
        let forgotten = Override { id, ..override_(48, None) };
        setup.overrides = Some(Ok(vec![forgotten]));
        let (options, further) = (" --profile p", FurtherOptions::default());
        for finding in check(&setup).into_iter().map(|it| it.with(options, &further)) {
            let Some(fix) =
                finding.fix.filter(|fix| ["aws ", "redrivectl "].iter().any(|it| fix.starts_with(it)))
            else {
                continue;
            };
            let read = tokens(&fix).unwrap_or_else(|_| panic!("{fix}"));
            let words = read.iter().map(|token| match token {
                ShellToken::Word(word) => word.as_str(),
                ShellToken::Obeyed(c) => panic!("a shell obeys {c}: {fix}"),
            });
            let words: Vec<_> = words.collect();
            let meant = texts.iter().map(|text| harmless(text)).any(|text| words.contains(&text.as_str()));
            let names =
                ["function-recursion", "mapping-state", "queue-key", "archive-public", "override-forgotten"];
            let names_it = names.contains(&finding.check) && fix != "redrivectl overrides";
            assert!(meant || !names_it, "{fix}");
            commands.borrow_mut().insert(finding.check);
        }
        Ok(())
    };
    TestRunner::new(Config { cases: 64, ..Config::default() }).run(&vec(hostile(), 6), law).unwrap();
    let commands = commands.into_inner();
    assert!(commands.len() > 12, "{commands:?}");
}

#[test]
fn mappings_are_looked_at() {
    let first = |change: fn(&mut DeployedMapping)| found(|it| change(&mut mappings(it)[0]));
    assert_eq!(found(|it| drop(mappings(it).remove(0))), [(Error, "mapping-missing")]);
    let without_queues = found(|it| (it.queues, it.waiting) = (Vec::new(), Some(Ok(Vec::new()))));
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
