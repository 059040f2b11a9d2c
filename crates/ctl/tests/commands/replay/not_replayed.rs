//! Letters that no replay has sent.

use super::*;

#[tokio::test]
async fn letters_that_no_replay_has_sent_are_counted_and_chosen() {
    let cloud = archived(&ten());
    let all = archive(&cloud, &["list", "--by", "topic"]).await.text();
    assert!(all.starts_with("topic ") && all.contains("  letters  not replayed  first (UTC)"), "{all}");
    assert!(all.ends_with("\n10 letters, 10 not replayed.\n"), "{all}");

    stopped(&cloud).await;
    let gone = sent_ids(&cloud);
    assert_eq!(gone.len(), 2);
    let list = archive(&cloud, &["list", "--json"]).await.json();
    let group = &list["groups"][0];
    assert_eq!((&group["letters"], &group["notReplayed"]), (&json!(10), &json!(8)));
    assert_eq!((&list["letters"], &list["notReplayed"]), (&json!(10), &json!(8)));
    let list = archive(&cloud, &["list", "--json", "--not-replayed"]).await.json();
    assert_eq!((&list["letters"], &list["notReplayed"]), (&json!(8), &json!(8)));
    let shown = archive(&cloud, &["show", "--json", "--not-replayed"]).await.text();
    let shown: Vec<Value> = shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let is_gone = |record: &&Value| gone.iter().any(|id| record["letterId"] == **id);
    assert_eq!((shown.len(), shown.iter().filter(is_gone).count()), (8, 0));

    // It says which letters, so nothing else need be said.
    let told = replay(&cloud, &["--not-replayed", "--new"]).await.text();
    assert!(told.contains("  sent         8 letters\n"), "{told}");
    assert_eq!(sent_ids(&cloud), ids(&ten()), "each letter once");
    assert_eq!(archive(&cloud, &["list", "--not-replayed"]).await.text(), "0 letters.\n");
    let ran = replay(&cloud, &["--not-replayed", "--again"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
}

/// Letters that a replay may have sent, without knowing it, are not known to be sent.
#[tokio::test]
async fn letters_in_doubt_count_as_not_replayed() {
    let cloud = archived(&ten());
    let identity = |post: &RecordBuilder| records::record(&letter(post)).identity();
    let entry = json!({ "replay": "one", "sent": [identity(&ten()[0])], "sending": [identity(&ten()[1])] });
    let ledger =
        "my-bucket/dead-letters-control/replays/queues/queue=payments-dlq/hour=20261031T12/000000.json";
    cloud.put(ledger, &json!({ "version": 1, "entries": [entry] }).to_string());
    assert_eq!(archive(&cloud, &["list", "--json"]).await.json()["notReplayed"], 9);
}

/// The records of replays are read once for each queue, and once for each hour with a replay.
#[tokio::test]
async fn hours_without_a_replay_cost_no_call() {
    let cloud = TestAccount::new();
    let posts: Vec<_> = (10..20).map(|hour| RecordBuilder::envelope(&hour.to_string())).collect();
    for (hour, post) in (10..20).zip(&posts) {
        let key = KEY.replace("T12", &format!("T{hour}"));
        let record = line(post).replace("T12:00:00Z", &format!("T{hour}:00:00Z"));
        cloud.put_at(&format!("my-bucket/{key}"), &record, "2026-10-31T22:00:00.000Z");
    }
    let hour = "my-bucket/dead-letters-control/replays/queues/queue=payments-dlq/hour=20261031T15";
    let sent = records::record(&letter(&posts[5])).identity();
    let ledger = json!({ "version": 1, "entries": [{ "replay": "one", "sent": [sent] }] });
    cloud.put(&format!("{hour}/000000.json"), &ledger.to_string());
    let list = archive(&cloud, &["list", "--json", "--by", "hour"]).await.json();
    let left: Vec<_> = list["groups"].as_array().unwrap().iter().map(|group| &group["notReplayed"]).collect();
    assert_eq!(left, [1, 1, 1, 1, 1, 0, 1, 1, 1, 1]);
    let control: Vec<_> = cloud.summary().into_iter().filter(|call| call.contains("control")).collect();
    assert_eq!(control.len(), 3, "{control:?}");
}

#[tokio::test]
async fn where_nobody_can_say_it_the_list_goes_without_and_a_choice_is_refused() {
    let cloud = archived(&ten());
    cloud.script(|call| {
        let asks = call.target.contains("dead-letters-control");
        if asks { SimFault::refuse(403, "AccessDenied", "no") } else { SimFault::Pass }
    });
    let ran = archive(&cloud, &["list"]).await;
    assert_eq!(ran.code, 0);
    assert!(ran.out.ends_with("\n10 letters.\n") && !ran.out.contains("not replayed"), "{}", ran.out);
    let said =
        "redrivectl: cannot tell which letters were replayed: listing dead-letters-control/replays/queues/";
    assert!(ran.err.starts_with(said) && ran.err.lines().count() == 1, "{}", ran.err);
    for command in ["list", "show"] {
        let ran = archive(&cloud, &[command, "--not-replayed"]).await;
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{command}: {}", ran.err);
        assert!(ran.err.contains("AccessDenied"), "{}", ran.err);
    }
    // Where the function has no place for it, nobody replays.
    let off = CommandWorld { variable: Some(|_| Some("off".to_owned())), ..CommandWorld::on(&cloud) };
    let text = redrivectl_in(off, &["archive", "list", PLACE[0], PLACE[1]]).await.text();
    assert!(text.ends_with("\n10 letters.\n"), "{text}");
}
