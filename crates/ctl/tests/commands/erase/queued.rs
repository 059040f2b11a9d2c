//! Letters in queues: an override gives them up, the function archives them, and they are erased.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redrive_archive::ArchiveRecord;
use redrive_support::stand_in::{self, StandInRequest};
use redrive_support::{DLQ, NOW, RecordBuilder, TOPIC, TestAccount, letter, record};
use serde_json::{Value, json};

use super::{erase_in, versions_with};
use crate::overrides::{has_document, overrides};
use crate::stack::{OUTPUTS, formation};
use crate::{CommandRun, CommandWorld, waiting};

const SELECTED: [&str; 3] = ["--topic", TOPIC, "--yes"];
const KEY: &str =
    "my-bucket/dead-letters/queue=payments-dlq/date=2026-11-01/20261101T120030.000Z-r7.2-n1-r0.jsonl";

fn post() -> RecordBuilder {
    RecordBuilder::envelope("w").message("S3CR3T waits")
}

/// An account in which one letter waits, by the list, and no letter is archived.
fn waits() -> TestAccount {
    let cloud = TestAccount::new();
    cloud.aws.act("test", |it, _| it.s3.keep_versions("my-bucket"));
    let of = letter(&post());
    let ids = json!({ "letterId": of.id.as_str(), "messageId": of.sqs.message_id });
    waiting::list(&cloud, "2026-11-01T11:00:00Z", &waiting::lines(&[waiting::letter("w", &ids)]));
    cloud
}

/// Erases, while the function archives the letter as soon as it wakes.
async fn erase_while_it_is_archived(cloud: &TestAccount, with_stack: bool) -> CommandRun {
    let (account, woken) = (cloud.clone(), Arc::new(AtomicBool::new(false)));
    let config = stand_in::before(cloud, move |asked: &StandInRequest<'_>| {
        if asked.target.ends_with("ChangeMessageVisibilityBatch") && !woken.swap(true, Ordering::Relaxed) {
            let id = overrides(&account)[0]["id"].as_str().unwrap().to_owned();
            let archived = ArchiveRecord {
                reason: "given-up".to_owned(),
                override_id: Some(id),
                ..record(&letter(&post()), NOW + 30_000)
            };
            account.put(KEY, &archived.to_line().unwrap());
            account.drained("payments-dlq");
        }
        if asked.uri.contains("/event-source-mappings") {
            let mapping = json!({ "UUID": "1", "EventSourceArn": DLQ, "State": "Enabled" });
            return Some((200, json!({ "EventSourceMappings": [mapping] }).to_string()));
        }
        let outputs = [&OUTPUTS[..], &[("FunctionName", "payments-redrive")]].concat();
        formation(asked, &outputs)
    });
    let world = CommandWorld { config: Some(config), ticks: true, ..CommandWorld::default() };
    let stack: &[&str] = if with_stack { &["--stack", "payments"] } else { &[] };
    erase_in(world, &[&SELECTED, stack].concat()).await
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_waits_is_given_up_and_erased_when_it_is_archived() {
    let cloud = waits();
    let ran = erase_while_it_is_archived(&cloud, true).await;
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(
        ran.out.contains("  in queues  at most 1 letter on the list of waiting letters\n"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("\nErased 1 letter from 1 object; deleted 1 version.\n"), "{}", ran.out);
    assert!(
        ran.out.contains("\nNo letter is left in the function's queues, by SQS's count.\n"),
        "{}",
        ran.out
    );
    let of = letter(&post());
    for text in ["S3CR3T waits", of.id.as_str()] {
        assert_eq!(versions_with(&cloud, text), Vec::<String>::new(), "{text}");
    }
    assert_eq!(overrides(&cloud), Vec::<Value>::new(), "the override is taken back");
}

#[tokio::test(start_paused = true)]
async fn where_queues_cannot_be_counted_the_command_says_until_when_some_may_be_there() {
    let cloud = waits();
    let ran = erase_while_it_is_archived(&cloud, false).await;
    assert_eq!(ran.code, 3, "{}{}", ran.out, ran.err);
    let said = "Some may still lie in a queue: there are queues that could not be counted (give --stack, so that the function's \
                queues are known).\n";
    assert!(ran.out.contains(said), "{}", ran.out);
    assert!(ran.out.contains("until 2026-11-02 00:00:"), "{}", ran.out);
    assert!(versions_with(&cloud, "S3CR3T waits").is_empty());
    assert_eq!(overrides(&cloud).len(), 1, "the override stays in force");

    // The same command again, when each letter came back: no second override is given.
    let world = CommandWorld { later: 13 * 3_600_000, ..CommandWorld::on(&cloud) };
    cloud.aws.clock().set(redrive_support::at(NOW + 13 * 3_600_000));
    let ran = erase_in(world, &SELECTED).await;
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("archived by an override, which ended at"), "{}", ran.out);
    assert_eq!(overrides(&cloud), Vec::<Value>::new());
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_is_not_archived_in_time_may_still_be_there() {
    let cloud = waits();
    let world = CommandWorld { ticks: true, ..CommandWorld::on(&cloud) };
    let ran = erase_in(world, &[&SELECTED[..], &["--wait", "30"]].concat()).await;
    assert_eq!(ran.code, 3, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains(" At most 1 letter of the list may be among them.\n"), "{}", ran.out);
}

#[tokio::test(start_paused = true)]
async fn queues_are_left_alone_where_no_override_can_find_the_letters() {
    let cloud = waits();
    for args in [
        &["--text", "S3CR3T"][..],
        &["--topic", TOPIC, "--reason", "rule"],
        &["--topic", TOPIC, "--archive-only"],
    ] {
        let ran = erase_in(CommandWorld::on(&cloud), &[args, &["--yes"]].concat()).await;
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
        assert!(ran.out.contains("  in queues  not searched: "), "{}", ran.out);
        assert!(!has_document(&cloud), "{args:?}");
    }
}
