//! `attach`: names a queue as the dead-letter queue of subscriptions, and takes that back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redrive_support::stand_in::{self, StandInRequest};
use redrive_support::{
    BILLING, BILLING_SUBSCRIPTION, DLQ, FIFO_DLQ, FIFO_TOPIC, FIFO_WORKER, NOTIFIER, REQUEUE, SUBSCRIPTION,
    SimFault, TOPIC, TestAccount, WORKER,
};
use serde_json::{Value, json};

use super::stack::formation;
use super::{CommandRun, CommandWorld, TextFile, manual, redrivectl_in, shows};

const BILLS: &str = "arn:aws:sns:eu-central-1:123456789012:bills";
const OLD: &str = "arn:aws:sqs:eu-central-1:123456789012:old-dlq";
const WEBHOOK: &str = "https://hooks.example.com/S3CR3T";

/// The redrive policy of a subscription that names another queue, written by a person.
fn old() -> String {
    format!("{{ \"deadLetterTargetArn\" : \"{OLD}\" }}")
}

fn bills(id: &str) -> String {
    format!("{BILLS}:{id}")
}

/// Returns an account whose dead-letter queue admits the topics `payments` and `bills`.
fn account() -> TestAccount {
    let cloud = TestAccount::new();
    let admits = json!({ "Statement": [
        { "Effect": "Allow", "Principal": { "Service": "sns.amazonaws.com" }, "Action": "sqs:SendMessage",
          "Resource": DLQ, "Condition": { "ArnLike": { "aws:SourceArn": [TOPIC, BILLS] } } },
    ] });
    cloud.queue("payments-dlq", &[("Policy", &admits.to_string())]);
    cloud.topic("bills", 262_144);
    cloud
}

/// Returns an account with sixty subscriptions of `bills`: 54 without a queue, four with another, two with this one.
fn sixty() -> TestAccount {
    let cloud = account();
    for number in 0..60 {
        let arn = bills(&format!("{number:02}"));
        cloud.subscribe(&arn, BILLS, "sqs", WORKER);
        match number {
            0..4 => cloud.resubscribe(&arn, "RedrivePolicy", &old()),
            4..6 => cloud.resubscribe(&arn, "RedrivePolicy", &attached()),
            _ => {}
        }
    }
    cloud
}

fn attached() -> String {
    json!({ "deadLetterTargetArn": DLQ }).to_string()
}

/// Returns the redrive policy of every subscription of `bills`.
fn policies(cloud: &TestAccount) -> BTreeMap<String, Option<String>> {
    cloud.aws.act("test", |it, _| {
        let listed = it.sns.list_subscriptions_by_topic(BILLS).unwrap();
        let arns: Vec<_> = listed.into_iter().map(|it| it.arn.clone()).collect();
        let policy = |arn: &String| it.sns.get_subscription_attributes(arn).unwrap().remove("RedrivePolicy");
        arns.iter().map(|arn| (arn.clone(), policy(arn))).collect()
    })
}

/// Answers for an account in which no stack owns a subscription, and no topic has tags.
fn unowned(asked: &StandInRequest<'_>) -> Option<(u16, String)> {
    if asked.field("Action") == Some("DescribeStackResources") {
        let said = "<Code>ValidationError</Code><Message>Stack for it does not exist</Message>";
        return Some((400, format!("<ErrorResponse><Error>{said}</Error></ErrorResponse>")));
    }
    tags(asked, "").or_else(|| formation(asked, &[("DeadLetterQueueArn", DLQ), ("RequeueArn", REQUEUE)]))
}

fn tags(asked: &StandInRequest<'_>, tags: &str) -> Option<(u16, String)> {
    (asked.field("Action") == Some("ListTagsForResource")).then(|| {
        let listed = format!("<ListTagsForResourceResult><Tags>{tags}</Tags></ListTagsForResourceResult>");
        (200, format!("<ListTagsForResourceResponse>{listed}</ListTagsForResourceResponse>"))
    })
}

async fn attach_in(world: CommandWorld, cloud: &TestAccount, args: &[&str]) -> CommandRun {
    let config = world.config.clone().unwrap_or_else(|| stand_in::before(cloud, unowned));
    redrivectl_in(CommandWorld { config: Some(config), ..world }, &[&["attach"], args].concat()).await
}

async fn attach(cloud: &TestAccount, args: &[&str]) -> CommandRun {
    attach_in(CommandWorld::default(), cloud, args).await
}

/// Returns a world in which a person attaches the subscriptions of the topic `payments`.
pub(crate) fn attachable() -> CommandWorld {
    let config = Some(stand_in::before(&account(), unowned));
    CommandWorld { config, answers: true, input: b"y\n".to_vec(), ..CommandWorld::default() }
}

/// Returns the path of a file that does not exist. Dropping it deletes the file.
fn record() -> TextFile {
    let file = TextFile::of("attach.json", "");
    std::fs::remove_file(file.path()).unwrap();
    file
}

fn json(ran: &CommandRun) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"))
}

fn counts(answer: &Value) -> [u64; 5] {
    ["changed", "kept", "leftAlone", "failed", "notReached"].map(|name| answer[name].as_u64().unwrap())
}

#[tokio::test]
async fn sixty_subscriptions_are_attached_by_one_command_and_one_that_fails_stops_no_other() {
    let (cloud, file) = (sixty(), record());
    let before = policies(&cloud);
    let bad = bills("30");
    cloud.script({
        let bad = bad.clone();
        move |call| {
            let is_bad = call.operation == "SetSubscriptionAttributes" && call.target == bad;
            if is_bad { SimFault::Denied } else { SimFault::Pass }
        }
    });
    let args = ["--topic", "bills", "--queue", DLQ, "--replace", "--yes", "--record", file.path(), "--json"];
    let ran = attach(&cloud, &args).await;
    let answer = json(&ran);
    assert_eq!((ran.code, counts(&answer)), (1, [57, 2, 0, 1, 0]), "{ran:?}");
    let rows = answer["subscriptions"].as_array().unwrap();
    let failed: Vec<_> = rows.iter().filter(|it| it["does"] == "failed").collect();
    assert_eq!((failed.len(), &failed[0]["subscription"]), (1, &json!(bad)));
    assert!(
        failed[0]["why"].as_str().unwrap().starts_with("sns:SetSubscriptionAttributes failed (Authorization")
    );
    for (arn, policy) in policies(&cloud) {
        assert_eq!(policy, if arn == bad { None } else { Some(attached()) }, "{arn}");
    }

    cloud.script(|_| SimFault::Pass);
    let ran = attach(&cloud, &["--undo", file.path(), "--yes", "--json"]).await;
    assert_eq!((ran.code, counts(&json(&ran))), (0, [57, 1, 0, 0, 0]), "{ran:?}");
    assert_eq!(policies(&cloud), before, "to the letter");
}

/// SNS keeps the deduplication id, so SQS would drop the second letter of a message.
#[tokio::test]
async fn a_fifo_queue_goes_to_one_subscription_of_each_topic() {
    let cloud = account();
    let admits = json!({ "Statement": [
        { "Effect": "Allow", "Principal": { "Service": "sns.amazonaws.com" }, "Action": "sqs:SendMessage",
          "Resource": FIFO_DLQ, "Condition": { "ArnLike": { "aws:SourceArn": [FIFO_TOPIC, "arn:aws:sns:*:*:bills.fifo"] } } },
    ] });
    cloud.queue("payments-dlq.fifo", &[("Policy", &admits.to_string())]);
    cloud.topic("bills.fifo", 262_144);
    let bills = |id: &str| format!("{BILLS}.fifo:{id}");
    for id in ["1", "2"] {
        cloud.subscribe(&bills(id), &format!("{BILLS}.fifo"), "sqs", FIFO_WORKER);
    }
    cloud.subscribe(&format!("{FIFO_TOPIC}:1"), FIFO_TOPIC, "sqs", FIFO_WORKER);
    let topics =
        ["--topic", "bills.fifo", "--topic", "payments.fifo", "--queue", FIFO_DLQ, "--yes", "--json"];
    let run = async || {
        let file = record();
        json(&attach(&cloud, &[&topics[..], &["--record", file.path()]].concat()).await)
    };
    let left_alone = |answer: &Value, id: &str| {
        let rows = answer["subscriptions"].as_array().unwrap();
        let row = rows.iter().find(|row| row["subscription"] == bills(id)).unwrap();
        row["why"]
            .as_str()
            .is_some_and(|why| why.starts_with("another subscription of its topic has this FIFO queue"))
    };
    let answer = run().await;
    assert!(!left_alone(&answer, "1") && left_alone(&answer, "2"), "{answer:#}");
    // Also where the one that has the queue already comes last.
    cloud.resubscribe(&bills("1"), "RedrivePolicy", &old());
    cloud.resubscribe(&bills("2"), "RedrivePolicy", &json!({ "deadLetterTargetArn": FIFO_DLQ }).to_string());
    cloud.subscribe(&bills("0"), &format!("{BILLS}.fifo"), "sqs", FIFO_WORKER);
    let answer = run().await;
    assert!(left_alone(&answer, "0") && !left_alone(&answer, "2"), "{answer:#}");
}

#[tokio::test]
async fn the_text_says_what_was_done_and_how_to_take_it_back() {
    let (cloud, file) = (sixty(), record());
    let ran =
        attach(&cloud, &["--stack", "payments", "--topic", "bills", "--yes", "--record", file.path()]).await;
    assert_eq!((ran.code, ran.err.as_str()), (3, ""), "four name another queue: {ran:?}");
    let end = format!(
        "60 subscriptions: 54 attached, 2 as they should be already, 4 left alone.\n\
         What was there before is in {0}. To take it back: redrivectl attach --undo {0} --stack payments\n",
        file.path()
    );
    assert!(ran.out.ends_with(&end), "{}", ran.out);
    assert!(
        ran.out.contains("54 without a dead-letter queue, 4 with another, 2 with this one.\n"),
        "{}",
        ran.out
    );
    assert_eq!(policies(&cloud).values().filter(|it| **it == Some(old())).count(), 4, "they are left alone");
    let again = attach(&cloud, &["--stack", "payments", "--topic", BILLS, "--yes"]).await;
    assert_eq!((again.code, cloud.calls("SetSubscriptionAttributes").len()), (3, 54), "{again:?}");
}

#[tokio::test]
async fn the_default_answer_changes_nothing_and_writes_no_file() {
    for (answers, input, args, code) in [
        (true, "\n", &[][..], 2),
        (true, "no\n", &[], 2),
        (false, "y\n", &[], 2),
        (false, "", &["--dry-run"], 3),
        (false, "", &["--dry-run", "--json"], 3),
    ] {
        let (cloud, file) = (sixty(), record());
        let world = CommandWorld { answers, input: input.into(), ..CommandWorld::default() };
        let all = ["--topic", "bills", "--queue", DLQ, "--record", file.path()];
        let ran = attach_in(world, &cloud, &[&all, args].concat()).await;
        assert_eq!((ran.code, cloud.calls("SetSubscriptionAttributes").len()), (code, 0), "{ran:?}");
        assert!(!std::path::Path::new(file.path()).exists());
    }
    let (cloud, file) = (sixty(), record());
    let world = CommandWorld { answers: true, input: b"y\n".into(), ..CommandWorld::default() };
    let args = ["--topic", "bills", "--queue", DLQ, "--replace", "--record", file.path()];
    let ran = attach_in(world, &cloud, &args).await;
    assert_eq!((ran.code, cloud.calls("SetSubscriptionAttributes").len()), (0, 58), "{ran:?}");
    assert_eq!(ran.err, "Change the redrive policy of 58 subscriptions? [y/N] ");
}

/// A file of an earlier command is the only way back.
#[tokio::test]
async fn a_file_that_exists_is_not_overwritten() {
    let (cloud, file) = (sixty(), TextFile::of("attach.json", "mine"));
    let args = ["--topic", "bills", "--queue", DLQ, "--yes", "--record", file.path()];
    let ran = attach(&cloud, &args).await;
    assert_eq!((ran.code, file.read().as_str()), (2, "mine"), "{ran:?}");
    assert_eq!(cloud.calls("SetSubscriptionAttributes").len(), 0);
}

#[tokio::test]
async fn a_command_that_is_interrupted_leaves_a_file_that_undoes_it() {
    let (cloud, file) = (sixty(), record());
    let before = policies(&cloud);
    let interrupted = Arc::new(AtomicBool::new(false));
    let (flag, account) = (Arc::clone(&interrupted), cloud.clone());
    let config = stand_in::before(&cloud, move |asked| {
        if account.calls("SetSubscriptionAttributes").len() == 9 {
            flag.store(true, Ordering::Relaxed);
        }
        unowned(asked)
    });
    let world = CommandWorld { config: Some(config), interrupted, ..CommandWorld::default() };
    let args = ["--topic", "bills", "--queue", DLQ, "--yes", "--record", file.path(), "--json"];
    let ran = attach_in(world, &cloud, &args).await;
    assert_eq!((ran.code, counts(&json(&ran))), (4, [10, 2, 4, 0, 44]), "{ran:?}");
    let ran = attach(&cloud, &["--undo", file.path(), "--yes", "--json"]).await;
    assert_eq!((ran.code, counts(&json(&ran))), (0, [10, 44, 0, 0, 0]), "{ran:?}");
    assert_eq!(policies(&cloud), before);
}

#[tokio::test]
async fn what_somebody_else_changes_meanwhile_is_left_to_them() {
    let (cloud, file) = (account(), record());
    for id in ["1", "2"] {
        cloud.subscribe(&bills(id), BILLS, "sqs", WORKER);
    }
    let account = cloud.clone();
    let config = stand_in::before(&cloud, move |asked| {
        if asked.field("Action") == Some("SetSubscriptionAttributes") {
            account.resubscribe(&bills("2"), "RedrivePolicy", &old());
        }
        unowned(asked)
    });
    let world = CommandWorld { config: Some(config), ..CommandWorld::default() };
    let args = ["--topic", "bills", "--queue", DLQ, "--yes", "--record", file.path()];
    let ran = attach_in(world, &cloud, &args).await;
    let said = format!("left alone: {}: somebody else has changed it meanwhile\n", bills("2"));
    assert!(ran.code == 3 && ran.out.contains(&said), "{ran:?}");
    assert_eq!(policies(&cloud)[&bills("2")], Some(old()));

    // The way back leaves it alone, too.
    cloud.resubscribe(&bills("1"), "RedrivePolicy", &old());
    let ran = attach(&cloud, &["--undo", file.path(), "--yes"]).await;
    let text = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        ran.code == 3 && text.contains(&format!("left alone: {}: it names {OLD} now", bills("1"))),
        "{ran:?}"
    );
    cloud.unsubscribe(&bills("2"));
    let ran = attach(&cloud, &["--undo", file.path(), "--yes"]).await;
    assert!(ran.code == 1 && ran.out.contains(&format!("not read: {}", bills("2"))), "{ran:?}");
}

/// An account whose subscriptions have owners.
fn owned(asked: &StandInRequest<'_>) -> Option<(u16, String)> {
    if asked.field("Action") == Some("DescribeStackResources") {
        let physical = asked.field("PhysicalResourceId")?.replace("%3A", ":");
        if physical != bills("2") {
            return unowned(asked);
        }
        let resource = format!(
            "<member><StackName>invoices</StackName><LogicalResourceId>ToWorker</LogicalResourceId>\
             <PhysicalResourceId>{physical}</PhysicalResourceId><ResourceType>AWS::SNS::Subscription</ResourceType>\
             <Timestamp>2026-10-01T00:00:00Z</Timestamp><ResourceStatus>CREATE_COMPLETE</ResourceStatus></member>"
        );
        let resources = format!("<StackResources>{resource}</StackResources>");
        let result = format!("<DescribeStackResourcesResult>{resources}</DescribeStackResourcesResult>");
        return Some((
            200,
            format!("<DescribeStackResourcesResponse>{result}</DescribeStackResourcesResponse>"),
        ));
    }
    let managed = "<member><Key>ManagedBy</Key><Value>Terraform</Value></member>";
    tags(asked, managed).or_else(|| unowned(asked))
}

/// Returns an account with a few subscriptions of `bills`, one of each kind.
fn few() -> TestAccount {
    let cloud = account();
    cloud.subscribe(&bills("1"), BILLS, "https", WEBHOOK);
    cloud.subscribe(&bills("2"), BILLS, "sqs", WORKER);
    cloud.subscribe(&bills("3"), BILLS, "sqs", BILLING);
    cloud.resubscribe(&bills("3"), "RedrivePolicy", &old());
    cloud.subscribe(&bills("4"), BILLS, "lambda", NOTIFIER);
    cloud.resubscribe(&bills("4"), "RedrivePolicy", &attached());
    cloud
}

#[tokio::test]
async fn the_manual_shows_what_is_about_to_be_done() {
    let cloud = few();
    let config = Some(stand_in::before(&cloud, owned));
    let world = CommandWorld { config, ..CommandWorld::default() };
    let ran = attach_in(world, &cloud, &["--stack", "payments", "--topic", "bills", "--dry-run"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (3, ""));
    assert!(shows(&manual(), &ran.out), "it prints:\n{}", ran.out);
    assert!(!ran.out.contains("S3CR3T"), "{}", ran.out);
    for line in [
        format!(
            "  aws sns set-subscription-attributes --subscription-arn {} --attribute-name RedrivePolicy --attribute-value '{}'\n",
            bills("1"),
            attached()
        ),
        format!(
            "2 is ToWorker of the stack invoices:\n  RedrivePolicy: {{ deadLetterTargetArn: \"{DLQ}\" }}\n"
        ),
        format!("  redrive_policy = jsonencode({{ deadLetterTargetArn = \"{DLQ}\" }})\n"),
    ] {
        assert!(ran.out.contains(&line), "{line}: {}", ran.out);
    }
}

#[tokio::test]
async fn owners_that_cannot_be_seen_are_said_to_be_unknown() {
    let cloud = few();
    let config = stand_in::before(&cloud, |asked| {
        let action = asked.field("Action")?;
        if ["DescribeStackResources", "ListTagsForResource"].contains(&action) {
            let denied = "<Code>AccessDenied</Code><Message>no</Message>";
            return Some((403, format!("<ErrorResponse><Error>{denied}</Error></ErrorResponse>")));
        }
        unowned(asked)
    });
    let world = CommandWorld { config: Some(config), ..CommandWorld::default() };
    let ran =
        attach_in(world, &cloud, &["--stack", "payments", "--topic", "bills", "--dry-run", "--json"]).await;
    let notes = json(&ran)["notes"].to_string();
    let denied = "Cannot tell whether a stack owns 2 subscriptions: cloudformation:DescribeStackResources failed (AccessDenied";
    assert!(
        notes.contains(denied) && notes.contains("sns:ListTagsForResource failed (AccessDenied"),
        "{notes}"
    );
}

#[tokio::test]
async fn subscriptions_of_other_accounts_and_topics_without_permission_are_left_alone() {
    let cloud = few();
    cloud.resubscribe(&bills("2"), "Owner", "999999999999");
    let ran = attach(&cloud, &["--queue", DLQ, "--topic", "bills", "--dry-run"]).await;
    let said = format!("left alone: {}: it belongs to the account 999999999999", bills("2"));
    assert!(ran.code == 3 && ran.out.contains(&said), "{ran:?}");
    assert_eq!(cloud.calls("GetSubscriptionAttributes").len(), 3, "others' subscriptions are not asked for");

    cloud.subscribe(
        "arn:aws:sns:eu-central-1:123456789012:notices:1",
        "arn:aws:sns:eu-central-1:123456789012:notices",
        "sqs",
        WORKER,
    );
    let ran = attach(&cloud, &["--queue", DLQ, "--topic", "notices", "--yes", "--json"]).await;
    assert_eq!((ran.code, counts(&json(&ran))), (3, [0, 0, 1, 0, 0]), "{ran:?}");
    assert!(ran.out.contains("the queue's policy does not let SNS write for"), "{}", ran.out);
}

#[tokio::test]
async fn a_single_subscription_and_all_of_the_account_can_be_named() {
    let (cloud, file) = (few(), record());
    let args =
        ["--stack", "payments", "--subscription", &bills("1"), "--yes", "--record", file.path(), "--json"];
    let ran = attach(&cloud, &args).await;
    assert_eq!((ran.code, counts(&json(&ran))), (0, [1, 0, 0, 0, 0]), "{ran:?}");
    cloud.resubscribe(&bills("2"), "PendingConfirmation", "true");
    let ran = attach(&cloud, &["--queue", DLQ, "--all", "--dry-run", "--json"]).await;
    let answer = json(&ran);
    let names = |id: &str| {
        let rows = answer["subscriptions"].as_array().unwrap();
        rows.iter().find(|it| it["subscription"] == id).unwrap()["names"].clone()
    };
    assert_eq!(names(SUBSCRIPTION), "this");
    assert_eq!(names(BILLING_SUBSCRIPTION), "this");
    assert_eq!((names(&bills("3")), &answer["pending"]), (json!("another"), &json!(1)));
    let gone = attach(&cloud, &["--queue", DLQ, "--subscription", &bills("9"), "--dry-run"]).await;
    assert!(gone.code == 1 && gone.out.contains("NotFound"), "{gone:?}");
}

#[tokio::test]
async fn bad_input_changes_nothing() {
    let cloud = few();
    let elsewhere = "arn:aws:sqs:us-east-1:123456789012:payments-dlq";
    for (args, said) in [
        (&["--queue", DLQ][..], "required arguments"),
        (&["--queue", DLQ, "--all", "--topic", "bills"], "cannot be used with"),
        (&["--all"], "no queue is named"),
        (&["--all", "--queue", TOPIC], "it must be the name, the URL or the ARN of a queue"),
        (&["--all", "--queue", elsewhere], "give --region us-east-1"),
        (&["--all", "--queue", REQUEUE, "--stack", "payments"], "is the requeue"),
        (&["--queue", DLQ, "--topic", "arn:aws:sns:us-east-1:123456789012:bills"], "SNS needs one region"),
        (&["--queue", DLQ, "--topic", "no such"], "is not the ARN or the name of a topic"),
        (&["--queue", DLQ, "--topic", "none"], "cannot read the subscriptions of"),
        (&["--queue", DLQ, "--subscription", BILLS], "is not the ARN of a subscription"),
        (&["--undo", "/nowhere"], "cannot read /nowhere"),
    ] {
        let ran = attach(&cloud, &[args, &["--yes"]].concat()).await;
        assert!(ran.code == 2 && ran.err.contains(said), "{args:?}: {ran:?}");
    }
    let file =
        TextFile::of("attach.json", r#"{"version":2,"at":"2026-11-01T12:00:00Z","queue":"no","changes":[]}"#);
    let ran = attach(&cloud, &["--undo", file.path(), "--yes"]).await;
    assert!(ran.code == 2 && ran.err.contains("is not a file of redrivectl attach"), "{ran:?}");
    cloud.queue("payments-dlq", &[("KmsMasterKeyId", "alias/aws/sqs")]);
    let ran = attach(&cloud, &["--queue", DLQ, "--all", "--yes"]).await;
    assert!(ran.code == 2 && ran.err.contains("AWS-managed key"), "{ran:?}");
    assert_eq!(cloud.calls("SetSubscriptionAttributes").len(), 0);
    cloud.reply("GetQueueAttributes", SimFault::Denied);
    let ran = attach(&cloud, &["--queue", DLQ, "--all", "--yes"]).await;
    assert_eq!(ran.code, 6, "{ran:?}");
}
