//! A replay of records that are given.

use super::*;

/// Returns a letter as `archive show --json` writes it.
async fn shown(cloud: &TestAccount, post: &RecordBuilder) -> Value {
    let world = CommandWorld::on(cloud);
    let args = ["archive", "show", "--json", "--archive", PLACE[1], &letter(post).sqs.message_id];
    let text = redrivectl_in(world, &args).await.text();
    serde_json::from_str(&text).unwrap()
}

async fn replay_given(cloud: &TestAccount, lines: &str) -> CommandRun {
    let world = CommandWorld { input: lines.as_bytes().to_vec(), ..CommandWorld::default() };
    replay_in(world, cloud, &["--from", "-"]).await
}

#[tokio::test]
async fn an_edited_letter_goes_instead_of_the_archived_one_and_says_so() {
    let posts = ten();
    let cloud = archived(&posts);
    let plain = shown(&cloud, &posts[0]).await;
    let mut edited = shown(&cloud, &posts[1]).await;
    let body = edited["message"]["body"].as_str().unwrap().replace("message of 1", "mended");
    edited["message"]["body"] = body.clone().into();
    replay_given(&cloud, &format!("{plain}\n{edited}\n")).await.text();
    let entries = cloud.entries("SendMessageBatch");
    assert_eq!(entries.len(), 2);
    for entry in &entries {
        let mark: Value = serde_json::from_str(&entry.attributes["sns-redrive"].value.text()).unwrap();
        let is_edited = entry.body == body;
        assert_eq!(mark.get("edited"), is_edited.then_some(&json!(true)), "{mark}");
    }

    cloud.forget();
    replay(&cloud, &[]).await.text();
    assert_eq!(sent_ids(&cloud), ids(&posts[2..]), "neither of them goes once more");
}

#[tokio::test]
async fn without_a_digest_a_letter_counts_as_edited() {
    let posts = ten();
    let cloud = archived(&posts);
    let mut record = shown(&cloud, &posts[0]).await;
    record.as_object_mut().unwrap().remove("digest");
    replay_given(&cloud, &record.to_string()).await.text();
    assert_eq!(sent(&cloud)[0].1["edited"], true);
}

#[tokio::test]
async fn a_bad_line_is_told_by_its_number_and_the_rest_goes() {
    let posts = ten();
    let cloud = archived(&posts);
    let record = shown(&cloud, &posts[0]).await;
    let ran = replay_given(&cloud, &format!("{{\"S3CR3T\n{record}\n\n[]\n")).await;
    assert_eq!(ran.code, 3);
    assert_eq!(
        ran.err,
        "redrivectl: line 1: is not JSON (column 8)\n\
         redrivectl: line 3: is not JSON (column 0)\n\
         redrivectl: line 4: is not a record of an archive: it has no version\n"
    );
    assert_eq!(sent_ids(&cloud), ids(&posts[..1]));
}

#[tokio::test]
async fn a_replay_of_records_that_is_unfinished_says_that_it_needs_them_again() {
    let posts = ten();
    let cloud = archived(&posts);
    let records = [shown(&cloud, &posts[0]).await, shown(&cloud, &posts[1]).await];
    let interrupted = Arc::new(AtomicBool::new(false));
    let ctrl_c = Arc::clone(&interrupted);
    cloud.script(move |call| {
        ctrl_c.fetch_or(call.operation == "SendMessageBatch", Ordering::Relaxed);
        SimFault::Pass
    });
    let input = records.map(|record| format!("{record}\n")).concat().into_bytes();
    let world = CommandWorld { input, interrupted, ..CommandWorld::default() };
    let ran = replay_in(world, &cloud, &["--from", "-", "--ramp", "50,100"]).await;
    let continues = format!("\nTo continue: redrivectl replay --resume {} --from FILE", id_of(&ran));
    assert!(ran.out.contains(&continues), "{}", ran.out);
}

#[tokio::test]
async fn records_over_many_lines_are_refused_with_the_way_out() {
    let posts = ten();
    let cloud = archived(&posts);
    let record = serde_json::to_string_pretty(&shown(&cloud, &posts[0]).await).unwrap();
    let ran = replay_given(&cloud, &record).await;
    assert_eq!(ran.code, 2);
    assert_eq!(ran.err, "redrivectl: give each record on one line, as jq -c writes them\n");
}
