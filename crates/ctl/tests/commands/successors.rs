//! `replay --subscription`: letters of a subscription that was deleted and created again.

use redrive_support::{
    BILLING, BILLING_SUBSCRIPTION, DLQ, REQUEUE, RecordBuilder, SUBSCRIPTION, SimFault, TOPIC, TestAccount,
    WORKER,
};
use serde_json::{Value, json};

use super::replay::{PLACE, archived, ids, line, sent, sent_ids};
use super::{CommandRun, CommandWorld, TextFile, redrivectl_in};

const SUCCESSOR: &str = "arn:aws:sns:eu-central-1:123456789012:payments:c1b3d1a5-1f0e-4d0c-9a54-2f6f1c2f7a10";
const OTHER_DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:other-dlq";

/// Returns the letters of the subscription.
fn its() -> Vec<RecordBuilder> {
    ["a", "b"].map(RecordBuilder::envelope).into()
}

/// Returns an archive with these letters among others, after the subscription was created again.
fn made_again() -> TestAccount {
    let others =
        [RecordBuilder::envelope("c").subscription(BILLING_SUBSCRIPTION), RecordBuilder::raw("d", "raw")];
    let cloud = archived(&[others.to_vec(), its()].concat());
    cloud.unsubscribe(SUBSCRIPTION);
    cloud.subscribe_endpoint(SUCCESSOR, TOPIC, "sqs", WORKER, DLQ);
    cloud
}

fn pair(old: &str, new: &str) -> String {
    format!("{old}={new}")
}

async fn replay(cloud: &TestAccount, args: &[&str]) -> CommandRun {
    let at_once = ["--settle", "0", "--rate", "10000"];
    redrivectl_in(CommandWorld::on(cloud), &[&["replay", "--yes"], args, &PLACE, &at_once].concat()).await
}

/// Returns the error for an invalid successor, and checks that nothing was done.
async fn refused(cloud: &TestAccount, pair: &str, more: &[&str]) -> String {
    let ran = replay(cloud, &[&["--subscription", pair], more].concat()).await;
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
    let writes = ["PutObject", "SendMessageBatch", "StartExecution"];
    assert!(writes.iter().all(|operation| cloud.calls(operation).is_empty()));
    ran.err
}

#[tokio::test]
async fn it_selects_the_letters_of_the_old_one_and_sends_them_to_the_new_one() {
    let cloud = made_again();
    let pair = pair(SUBSCRIPTION, SUCCESSOR);
    let counted = replay(&cloud, &["--subscription", &pair, "--dry-run", "--json"]).await.json();
    assert_eq!(counted["counts"]["sent"], 2);
    assert_eq!(counted["request"]["subscriptions"], json!({ SUBSCRIPTION: SUCCESSOR }));
    assert_eq!(sent_ids(&cloud), ids(&[]));

    replay(&cloud, &["--subscription", &pair]).await.text();
    assert_eq!(sent_ids(&cloud), ids(&its()));
    let targets: Vec<_> = sent(&cloud).into_iter().map(|(_, mark)| mark["to"].clone()).collect();
    assert_eq!(targets, [SUCCESSOR, SUCCESSOR]);
}

/// The archive has letters of both old subscriptions.
#[tokio::test]
async fn one_that_was_made_again_twice_is_checked_for_both() {
    let older = "arn:aws:sns:eu-central-1:123456789012:payments:0d9c4e4c-6f1d-4f43-8f0c-3a3d2f7e9b11";
    let cloud = archived(&[its(), vec![RecordBuilder::envelope("e").subscription(older)]].concat());
    cloud.unsubscribe(SUBSCRIPTION);
    cloud.subscribe_endpoint(SUCCESSOR, TOPIC, "sqs", WORKER, DLQ);
    let pairs = [pair(SUBSCRIPTION, SUCCESSOR), pair(older, SUCCESSOR)];
    let ran = replay(&cloud, &["--subscription", &pairs[0], "--subscription", &pairs[1]]).await;
    assert!(!ran.err.contains("SNS did not say"), "{}", ran.err);
    let targets: Vec<_> = sent(&cloud).into_iter().map(|(_, mark)| mark["to"].clone()).collect();
    assert_eq!(targets, [SUCCESSOR; 3]);
}

#[tokio::test]
async fn a_successor_that_would_get_nothing_is_refused_before_anything_is_sent() {
    let pair = pair(SUBSCRIPTION, SUCCESSOR);
    for (change, why) in [
        (
            (|cloud: &TestAccount| cloud.unsubscribe(SUCCESSOR)) as fn(&TestAccount),
            "the subscription does not exist".to_owned(),
        ),
        (
            |cloud| cloud.subscribe_endpoint(SUCCESSOR, TOPIC, "sqs", WORKER, OTHER_DLQ),
            format!("it names the dead-letter queue {OTHER_DLQ}, but the letters come from {DLQ}"),
        ),
        (
            |cloud| cloud.subscribe(SUCCESSOR, TOPIC, "sqs", WORKER),
            "it names no dead-letter queue; set its RedrivePolicy to the dead-letter queue of the letters"
                .to_owned(),
        ),
        (
            |cloud| cloud.resubscribe(SUCCESSOR, "PendingConfirmation", "true"),
            "the subscription is not confirmed: if you know it, confirm it".to_owned(),
        ),
        (
            |cloud| cloud.subscribe_endpoint(SUCCESSOR, TOPIC, "email", "ada@example.com", DLQ),
            "only SNS can deliver by the protocol \"email\"".to_owned(),
        ),
    ] {
        for dry_run in [&[][..], &["--dry-run"]] {
            let cloud = made_again();
            change(&cloud);
            let said = refused(&cloud, &pair, dry_run).await;
            assert_eq!(said, format!("redrivectl: --subscription {SUCCESSOR}: {why}\n"));
        }
    }
}

/// The state machine cannot ask SNS, but the caller who starts it can.
#[tokio::test]
async fn it_is_refused_before_the_state_machine_is_started_too() {
    let cloud = made_again();
    cloud.unsubscribe(SUCCESSOR);
    let pair = pair(SUBSCRIPTION, SUCCESSOR);
    let args = ["replay", "--yes", "--subscription", &pair, "--stack", "sns-redrive"];
    let ran = redrivectl_in(CommandWorld::on(&cloud), &args).await;
    assert_eq!((ran.code, ran.out.as_str(), cloud.calls("StartExecution")), (2, "", Vec::new()));
    assert_eq!(ran.err, format!("redrivectl: --subscription {SUCCESSOR}: the subscription does not exist\n"));
}

#[tokio::test]
async fn pairs_that_make_no_sense_are_bad_usage() {
    let cloud = made_again();
    let other = "arn:aws:sns:eu-central-1:123456789012:invoices:0a1b";
    for (pair, why) in [
        (SUBSCRIPTION.to_owned(), "must be OLD=NEW with the ARNs of two subscriptions"),
        (pair("payments", SUCCESSOR), "subscriptions: \"payments\" is not the ARN of a subscription"),
        (pair(SUBSCRIPTION, WORKER), "payments-worker\" is not the ARN of a subscription"),
        (pair(SUBSCRIPTION, SUBSCRIPTION), "cannot replace itself"),
        (pair(SUBSCRIPTION, other), "invoices:0a1b belong to different topics"),
    ] {
        let said = refused(&cloud, &pair, &[]).await;
        assert!(said.contains(why), "{pair}: {said}");
    }
    let pair = pair(SUBSCRIPTION, SUCCESSOR);
    let two = format!("{SUBSCRIPTION}={BILLING_SUBSCRIPTION}");
    assert!(refused(&cloud, &pair, &["--subscription", &two]).await.contains("names two successors of"));
    for with in [&["--all"][..], &["--to", BILLING], &["--resume", "x"]] {
        assert!(refused(&cloud, &pair, with).await.contains("cannot be used with"), "{with:?}");
    }
    assert_eq!(cloud.calls("GetSubscriptionAttributes"), []);
}

#[tokio::test]
async fn where_sns_does_not_answer_that_is_said_and_the_function_checks() {
    let cloud = made_again();
    cloud.reply("GetSubscriptionAttributes", SimFault::refuse(403, "AuthorizationError", "not authorized"));
    let ran = replay(&cloud, &["--subscription", &pair(SUBSCRIPTION, SUCCESSOR)]).await;
    let said = format!(
        "redrivectl: cannot check whether {SUCCESSOR} takes the letters of {SUBSCRIPTION} (AuthorizationError: not \
         authorized); the function checks this with each retry\n"
    );
    assert_eq!((ran.code, ran.err), (0, said));
    assert_eq!(sent_ids(&cloud), ids(&its()));
}

#[tokio::test]
async fn of_given_records_those_of_the_old_one_go_to_the_new_one_and_are_checked_too() {
    let pair = pair(SUBSCRIPTION, SUCCESSOR);
    let posts = [its(), vec![RecordBuilder::envelope("c").subscription(BILLING_SUBSCRIPTION)]].concat();
    let lines: Vec<_> = posts.iter().rev().map(line).collect();
    let file = TextFile::of("successors.jsonl", &lines.join("\n"));
    let given = ["--from", file.path(), "--subscription", &pair];
    let cloud = made_again();
    replay(&cloud, &given).await.text();
    let targets: Vec<_> = sent(&cloud).into_iter().map(|(_, mark)| mark.get("to").cloned()).collect();
    assert_eq!(targets, [Some(json!(SUCCESSOR)), Some(json!(SUCCESSOR)), None]);

    let cloud = made_again();
    cloud.subscribe_endpoint(SUCCESSOR, TOPIC, "sqs", WORKER, OTHER_DLQ);
    let said = refused(&cloud, &pair, &given[..2]).await;
    assert!(said.contains(&format!("the letters come from {DLQ}")), "{said}");
}

/// A letter that came back is in the requeue when it is archived. Its dead-letter queue is the one before.
#[tokio::test]
async fn letters_that_came_back_are_checked_by_their_dead_letter_queue() {
    let mark = json!({ "v": 2, "spent": 3, "id": "sns-a", "first": 5, "gen": 1, "dlq": DLQ });
    let cloud = archived(&[]);
    let mut record: Value =
        serde_json::from_str(&line(&RecordBuilder::envelope("a").sqs_mark(&mark))).unwrap();
    record["queueArn"] = REQUEUE.into();
    record["message"]["eventSourceARN"] = REQUEUE.into();
    record["deadLetterQueueArn"] = DLQ.into();
    let key = "my-bucket/dead-letters/queue=payments-dlq/date=2026-10-31/20261031T120000Z-r2.jsonl";
    cloud.put_at(key, &format!("{record}\n"), "2026-10-31T12:00:00.000Z");
    cloud.subscribe_endpoint(SUCCESSOR, TOPIC, "sqs", WORKER, DLQ);
    replay(&cloud, &["--subscription", &pair(SUBSCRIPTION, SUCCESSOR)]).await.text();
    assert_eq!(sent(&cloud)[0].1["to"], SUCCESSOR);
}
