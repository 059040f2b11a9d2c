//! Erasing and replays: a replay leaves erased letters out, and loses no other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use redrive_support::stand_in::{self, StandInRequest};
use redrive_support::{REQUEUE, RecordBuilder, TestAccount};
use serde_json::{Value, json};

use super::{GOLD, PLACE, erase, erase_in, gold, versions_with};
use crate::replay::{INDEXED, archived_at, ids, put_archive, sent_ids};
use crate::{CommandRun, CommandWorld, redrivectl_in};

fn posts() -> Vec<RecordBuilder> {
    let nine = (0..9).map(|number| RecordBuilder::envelope(&number.to_string()));
    nine.chain([gold()]).collect()
}

async fn replay_in(world: CommandWorld, args: &[&str]) -> CommandRun {
    let all = ["replay", "--all", "--yes", "--requeue", REQUEUE, "--settle", "0", "--json"];
    redrivectl_in(world, &[&all[..], args, &PLACE].concat()).await
}

async fn erase_gold(cloud: &TestAccount) {
    erase(cloud, &["--match", GOLD, "--archive-only", "--yes"]).await.text();
}

#[tokio::test]
async fn a_replay_leaves_an_erased_letter_out_and_says_so() {
    let cloud = archived_at(INDEXED, &posts());
    erase_gold(&cloud).await;
    let ran = replay_in(CommandWorld::on(&cloud), &[]).await;
    let state: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    assert_eq!(ran.code, 3, "{ran:?}");
    assert_eq!(state["counts"], json!({ "sent": 9, "notReplayable": { "erased": 1 } }));
    assert!(ran.err.contains("was erased from the archive"), "{}", ran.err);
    assert_eq!(sent_ids(&cloud), ids(&posts()[..9]));
}

/// S3 stores the object anew, after the replay's cut-off.
#[tokio::test(start_paused = true)]
async fn a_replay_that_has_begun_before_loses_no_other_letter() {
    let cloud = archived_at(INDEXED, &posts());
    let (account, erased) = (cloud.clone(), Arc::new(AtomicBool::new(false)));
    // The first turn of the replay is over: its plan is written.
    let config = stand_in::before(&cloud, move |asked: &StandInRequest<'_>| {
        let plans = asked.method == "PUT" && asked.uri.contains("/units.jsonl");
        if plans && !erased.swap(true, Ordering::Relaxed) {
            let account = account.clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(erase_gold(&account));
            })
            .join()
            .unwrap();
        }
        None::<(u16, String)>
    });
    let world = CommandWorld { config: Some(config), ..CommandWorld::default() };
    let ran = replay_in(world, &["--cut-off", "2026-11-01T11:00:00Z"]).await;
    let state: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    assert_eq!(state["counts"], json!({ "sent": 9, "notReplayable": { "erased": 1 } }), "{ran:?}");
    assert_eq!(sent_ids(&cloud), ids(&posts()[..9]));
    assert!(versions_with(&cloud, "S3CR3T").is_empty());
}

/// It has read the letter, and sends it though the archive does not have it any more.
#[tokio::test(start_paused = true)]
async fn a_replay_that_runs_beside_an_erasing_is_named() {
    const SELECTED: [&str; 5] = ["--match", GOLD, "--since", "2026-10-01", "--yes"];
    let mut posts = posts();
    // The replay reads and sends it first.
    posts.rotate_right(1);
    let cloud = archived_at(INDEXED, &posts);
    let (account, beside) = (cloud.clone(), Arc::new(Mutex::new(None)));
    let erasing = Arc::clone(&beside);
    let config = stand_in::before(&cloud, move |asked: &StandInRequest<'_>| {
        let mut beside = erasing.lock().unwrap();
        if asked.target.ends_with("SendMessageBatch") && beside.is_none() {
            let account = account.clone();
            let erases = std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(erase(&account, &SELECTED))
            });
            *beside = Some(erases.join().unwrap());
        }
        None::<(u16, String)>
    });
    let ran = replay_in(CommandWorld { config: Some(config), ..CommandWorld::default() }, &[]).await;
    let state: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    assert_eq!(sent_ids(&cloud), ids(&posts), "the erased letter was sent");
    let erased = beside.lock().unwrap().take().unwrap();
    let id = state["id"].as_str().unwrap();
    let said = format!("\nLeft: replay {id} runs, and may have read letters before they were erased.\n");
    assert_eq!(erased.code, 3, "{erased:?}");
    assert!(erased.out.contains(&said), "{erased:?}");
    let again = erase(&cloud, &SELECTED).await;
    assert_eq!(again.code, 0, "{again:?}");
}

#[tokio::test]
async fn a_replay_that_ended_while_letters_were_erased_is_named_too_and_one_that_was_cut_off_is_not() {
    const SELECTED: [&str; 5] = ["--match", GOLD, "--since", "2026-10-01", "--yes"];
    for (aged, code) in [(0, 3), (3_600_000, 0)] {
        let cloud = archived_at(INDEXED, &posts()[..9]);
        assert_eq!(replay_in(CommandWorld::on(&cloud), &[]).await.code, 0);
        put_archive(&cloud, "dead-letters/queue=payments-dlq/date=2026-10-30/x.jsonl", &[gold()]);
        let key = cloud.objects().into_keys().find(|key| key.ends_with("/replay.json")).unwrap();
        let ended = cloud.objects()[&key].clone();
        cloud.put(&key, &ended.replace(r#""status":"done""#, r#""status":"running""#));
        cloud.aws.clock().set(redrive_support::at(redrive_support::NOW + aged));
        let account = cloud.clone();
        let config = stand_in::before(&cloud, move |asked: &StandInRequest<'_>| {
            if asked.method == "PUT" {
                account.put(&key, &ended);
            }
            None::<(u16, String)>
        });
        let world = CommandWorld { config: Some(config), ..CommandWorld::default() };
        let ran = erase_in(world, &SELECTED).await;
        assert_eq!(ran.code, code, "{ran:?}");
        assert_eq!(ran.out.contains("\nLeft: replay "), code == 3, "{ran:?}");
    }
}

/// A replay that has sent a letter counts it as sent, though it was erased since.
#[tokio::test]
async fn a_letter_that_was_replayed_before_it_was_erased_counts_as_replayed() {
    let cloud = archived_at(INDEXED, &posts());
    let ran = replay_in(CommandWorld::on(&cloud), &[]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    erase_gold(&cloud).await;
    let ran = replay_in(CommandWorld::on(&cloud), &[]).await;
    let state: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    assert_eq!(state["counts"], json!({ "alreadyReplayed": 10 }), "{ran:?}");
    assert_eq!(ran.code, 0, "{ran:?}");
}
