//! Archived letters are sent again: replays, and edited letters.

use redrive_replay::ReplayRequest;
use redrive_support::{CALLER, FIFO_DLQ, RecordBuilder, TestAccount};
use serde_json::{Value, json};

use super::serving;
use crate::machine::state;
use crate::overrides::{override_, put_overrides};
use crate::replay::{INDEXED, archived, archived_at, sent};

fn ten() -> TestAccount {
    let posts: Vec<_> = (0..10).map(|number| RecordBuilder::envelope(&number.to_string())).collect();
    archived(&posts)
}

#[tokio::test(start_paused = true)]
async fn a_replay_is_previewed_and_ramped() {
    let posts: Vec<_> = (0..10).map(|number| RecordBuilder::envelope(&number.to_string())).collect();
    let cloud = archived_at(INDEXED, &posts);
    serving(&cloud, &["--operate"], async |client| {
        let form =
            [("do", "replay"), ("why", "up again"), ("ramp", "50,100"), ("settle", "1"), ("rate", "1000")];
        let (_, asks) = client.begin(&form).await;
        let text = asks.text();
        for says in [
            "Replay at most 10 letters, not checked",
            "which the whole archive",
            "to send at most 10 letters, not checked",
            "steps 50 %, 100 %, 1,000 letters a second",
            "--cut-off=2026",
        ] {
            assert!(text.contains(says), "{says}: {text}");
        }
        assert_eq!(sent(&cloud), []);
        let (_, done) = client.confirm(&asks).await;
        let text = done.text();
        assert!(text.contains("It is done.") && text.contains("sent 10 letters"), "{text}");
        // No letter is left to send, and no button offers it.
        let (_, asks) = client.begin(&form).await;
        assert!(asks.text().contains("There is no letter to send."), "{}", asks.text());
        assert!(asks.hidden("nonce").is_none() && !asks.text().contains("Replay 0"), "{}", asks.text());
        // The letters stay in the archive, and the pages say that they were replayed.
        let groups = client.get("groups?by=queue&range=3d").await.text();
        assert!(groups.contains("10 archived in this time, 0 not replayed yet;"), "{groups}");
        let group = client.get("group?queue=payments-dlq&range=3d").await.text();
        assert!(group.contains("not replayed yet 0 of 10 archived"), "{group}");
    })
    .await;
    assert_eq!(sent(&cloud).len(), 10);
}

/// The replay sends letters that a hold keeps, but they get no attempt. So the page must not call it done.
#[tokio::test(start_paused = true)]
async fn letters_that_an_override_will_hold_are_said_to_be_held_before_and_after() {
    let topic = json!({ "topicArn": [redrive_support::TOPIC] });
    for (pattern, address, held) in [
        (json!({ "queueArn": [{ "exists": true }] }), &[][..], "held by the override one (down)"),
        (topic.clone(), &[("topic", redrive_support::TOPIC)], "held by the override one (down)"),
        (topic, &[], "may be held by the override one"),
        (
            json!({ "topicArn": ["arn:aws:sns:eu-central-1:123456789012:bills"] }),
            &[("topic", redrive_support::TOPIC)],
            "",
        ),
    ] {
        let cloud = ten();
        let mut hold = override_("one", "hold", None);
        hold["match"] = pattern.clone();
        hold["why"] = "down".into();
        put_overrides(&cloud, &[hold]);
        serving(&cloud, &["--operate"], async |client| {
            let form =
                [&[("do", "replay"), ("why", "up"), ("ramp", "100"), ("settle", "1")], address].concat();
            let (_, asks) = client.begin(&form).await;
            let text = asks.text();
            assert_eq!(text.contains("as soon as they are sent"), !held.is_empty(), "{text}");
            assert!(text.contains(held), "{pattern}: {text}");
            let (_, done) = client.confirm(&asks).await;
            let says = if held.is_empty() { "It is done.".to_owned() } else { format!("Sent, {held}.") };
            assert!(done.text().contains(&says), "{pattern}: {}", done.text());
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn letters_that_an_override_holds_are_said_to_be_held_also_where_others_were_left_out() {
    let cloud = archived(&[RecordBuilder::envelope("1"), RecordBuilder::envelope("f").queue(FIFO_DLQ)]);
    let mut hold = override_("one", "hold", None);
    hold["match"] = json!({ "queueArn": [{ "exists": true }] });
    put_overrides(&cloud, &[hold]);
    serving(&cloud, &["--operate"], async |client| {
        let (_, asks) =
            client.begin(&[("do", "replay"), ("why", "up"), ("ramp", "100"), ("settle", "1")]).await;
        let (_, done) = client.confirm(&asks).await;
        let says = "Sent, held by the override one (down); letters were left out.";
        assert!(done.text().contains(says), "{}", done.text());
    })
    .await;
    assert_eq!(sent(&cloud).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_replay_is_stopped_and_goes_on() {
    let cloud = ten();
    serving(&cloud, &["--operate"], async |client| {
        let form = [("do", "replay"), ("why", "up again"), ("ramp", "10,100"), ("settle", "2m")];
        let (_, asks) = client.begin(&form).await;
        let (job, nonce) = (asks.hidden("id").unwrap(), asks.hidden("nonce").unwrap());
        client.post("job", &[("id", &job), ("do", "confirm"), ("nonce", &nonce)]).await;
        // The first step sends some letters, and waits for them.
        while sent(&cloud).is_empty() {
            let page = client.get(&format!("job?id={job}")).await;
            assert!(page.text().contains("Replay: "), "{}", page.text());
            assert!(!page.text().contains("Replay: ended"), "{}", page.text());
        }
        let key = cloud
            .objects()
            .into_keys()
            .find(|key| key.contains("/replays/") && key.ends_with("/replay.json"));
        let key = key.unwrap_or_else(|| panic!("{:?}", cloud.objects().into_keys()));
        let id = key.rsplit('/').nth(1).unwrap().to_owned();

        let (_, asks) = client.begin(&[("do", "stop"), ("id", &id), ("why", "too soon")]).await;
        let text = asks.text();
        // The object has no index, so its size gives the bound: at most 25 letters, three of them in the
        // first step.
        assert!(
            text.contains("sent 3 of at most 25 letters") && text.contains("Stop at most 22 letters"),
            "{text}"
        );
        let (_, done) = client.confirm(&asks).await;
        assert!(done.text().contains("It stops, wherever it runs"), "{}", done.text());
        let page = client.settled(&format!("job?id={job}")).await;
        assert!(page.text().contains("It stopped, and can go on."), "{}", page.text());

        // S3's times have whole seconds. Within one second nobody could tell which resumption was to be
        // stopped.
        cloud.aws.clock().pass(std::time::Duration::from_secs(2));
        let (_, asks) =
            client.begin(&[("do", "resume"), ("id", &id), ("settle", "1"), ("why", "time enough")]).await;
        assert!(asks.text().contains("Resume at most 22 letters"), "{}", asks.text());
        let (_, done) = client.confirm(&asks).await;
        assert!(done.text().contains("sent 10 letters"), "{}", done.text());
        let state: Value = serde_json::from_str(&cloud.objects()[&key]).unwrap();
        let reasons = [&state["request"]["why"], &state["resumed"]["why"], &state["resumed"]["by"]];
        assert_eq!(reasons, ["up again", "time enough", CALLER]);
    })
    .await;
    assert_eq!(sent(&cloud).len(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_letter_is_edited_and_goes_out_as_it_was_edited() {
    let cloud = ten();
    serving(&cloud, &["--operate", "--bodies"], async |client| {
        let id = redrive_support::letter(&RecordBuilder::envelope("3")).sqs.message_id;
        let form = client.get(&format!("act?do=edit&id={id}")).await;
        assert!(form.text().contains("Read the letter") && !form.body.contains('\u{fffd}'), "{}", form.body);
        let (_, page) = client.begin(&[("do", "edit"), ("id", &id)]).await;
        assert!(
            page.text().contains("redrivectl replay --from letter.jsonl --stack payments"),
            "{}",
            page.text()
        );
        let (_, body) = page.body.split_once("spellcheck=\"false\">\n").unwrap();
        let body = body.split_once("</textarea>").unwrap().0.replace("&quot;", "\"").replace("&amp;", "&");
        let mut edited: Value = serde_json::from_str(&body).unwrap();
        edited["Message"] = "mended".into();
        let job = page.hidden("id").unwrap();
        let form = [("id", job.as_str()), ("do", "edit"), ("body", &edited.to_string()), ("why", "typo")];
        let reply = client.post("job", &form).await;
        let (_, asks) = client.follow(reply).await;
        let text = asks.text();
        assert!(text.contains("mended") && text.contains("1 letter changed"), "{text}");
        assert!(text.contains("Edit and replay at most 1 letter, not checked"), "{text}");
        let lines: Vec<_> =
            asks.body.split("<code>").last().unwrap().split("</code>").next().unwrap().lines().collect();
        let [show, "$EDITOR letter.jsonl", replay] = lines[..] else { panic!("{lines:?}") };
        assert!(
            show.starts_with("redrivectl archive show --json ") && show.ends_with(" &gt; letter.jsonl"),
            "{show}"
        );
        assert_eq!(replay, "redrivectl replay --from letter.jsonl --why=typo --stack payments");
        let (_, done) = client.confirm(&asks).await;
        assert!(done.text().contains("sent 1 letter"), "{}", done.text());
    })
    .await;
    let bodies: Vec<_> = cloud.entries("SendMessageBatch").into_iter().map(|entry| entry.body).collect();
    assert_eq!(bodies.len(), 1);
    assert_eq!(serde_json::from_str::<Value>(&bodies[0]).unwrap()["Message"], json!("mended"));
}

#[tokio::test]
async fn without_bodies_nothing_is_edited_or_shown() {
    let cloud = ten();
    serving(&cloud, &["--operate"], async |client| {
        let id = redrive_support::letter(&RecordBuilder::envelope("3")).sqs.message_id;
        let form = client.get(&format!("act?do=edit&id={id}")).await;
        assert_eq!(form.status, 403);
        let begun = client.act(&[("do", "edit"), ("id", &id)]).await;
        assert_eq!(begun.status, 403);
        assert!(form.text().contains("--bodies"), "{}", form.text());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_letter_is_replayed_as_it_is() {
    let cloud = ten();
    serving(&cloud, &["--operate"], async |client| {
        let id = redrive_support::letter(&RecordBuilder::envelope("3")).sqs.message_id;
        let (_, asks) = client.begin(&[("do", "replay"), ("id", &id), ("why", "up")]).await;
        assert!(asks.text().contains("Replay at most 1 letter, not checked"), "{}", asks.text());
        let (_, done) = client.confirm(&asks).await;
        assert!(done.text().contains("sent 1 letter"), "{}", done.text());
        let page = client.get(&format!("letter?id={id}&range=14d")).await.text();
        let began = page.split_once(" began, and sent it later").unwrap_or_else(|| panic!("{page}")).0;
        let (before, replay) = began.rsplit_once(" replay ").unwrap();
        let second = |text: &str| text.replace(['-', ':', ' '], "");
        assert!(replay.starts_with("2026"), "{replay}");
        let moment = second(&before[before.len() - "2026-11-01 12:00:00".len()..]);
        assert_eq!(replay.split_once('Z').unwrap().0.replace('T', ""), moment, "the time of its id: {began}");
        let other = redrive_support::letter(&RecordBuilder::envelope("4")).sqs.message_id;
        let page = client.get(&format!("letter?id={other}&range=14d")).await.text();
        assert!(page.contains("Its life") && !page.contains("and sent it later"), "{page}");
        // Neither page shows the content of the letter.
        assert!(!asks.body.contains("<textarea") && !done.body.contains("Signature"));
    })
    .await;
    assert_eq!(sent(&cloud).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_replay_of_the_same_letters_that_somebody_began_meanwhile_is_a_change() {
    let cloud = ten();
    serving(&cloud, &["--operate"], async |client| {
        let (_, asks) = client.begin(&[("do", "replay"), ("why", "up again"), ("settle", "1")]).await;
        let put = |id: &str| {
            let mut other = state("stopped", &json!({ "sent": 1 }));
            other["id"] = id.into();
            other["request"] =
                serde_json::to_value(ReplayRequest::from_json(json!({ "all": true })).unwrap()).unwrap();
            cloud
                .put(&format!("my-bucket/dead-letters-control/replays/{id}/replay.json"), &other.to_string());
        };
        put("20261031T120000Z-0d0e0f");
        let (_, changed) = client.confirm(&asks).await;
        let says = "Unfinished replays of the same letters: 20261031T120000Z-0d0e0f; it was: none.";
        assert!(changed.text().contains(says), "{}", changed.text());
        // One more unfinished replay, beside the one that was confirmed.
        put("20261031T130000Z-0d0e0f");
        let (_, changed) = client.confirm(&changed).await;
        assert!(changed.text().contains("Nothing was done."), "{}", changed.text());
    })
    .await;
    assert_eq!(sent(&cloud), []);
}

#[tokio::test(start_paused = true)]
async fn what_is_masked_is_neither_edited_nor_shown_and_a_hostile_letter_stays_in_its_field() {
    let evil = "</textarea><script>alert(1)</script>";
    let post = RecordBuilder::envelope("3").subject(evil).sns_attribute("Token", "String", "S3CR3T");
    let post = post.attribute("other", "String", evil);
    let whole = post.body();
    // The second change stands next to the unsubscribe link.
    let mended = |body: &str| {
        body.replace(evil, "mended").replace("\"Notification\"", "\"Notification\", \"U\": \"new\"")
    };
    assert!(whole.contains("Action=Unsubscribe"), "{whole}");
    let cloud = archived(&[post]);
    serving(&cloud, &["--operate", "--bodies", "--mask", "token"], async |client| {
        let id = redrive_support::letter(&RecordBuilder::envelope("3")).sqs.message_id;
        let (_, page) = client.begin(&[("do", "edit"), ("id", &id)]).await;
        assert!(
            page.text().contains("redrivectl replay --from letter.jsonl --stack payments"),
            "{}",
            page.text()
        );
        let (_, body) = page.body.split_once("spellcheck=\"false\">\n").unwrap();
        let body = body.split_once("</textarea>").unwrap().0;
        let body =
            body.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        let edited = mended(&body);
        assert!(edited != body && body.contains("(masked 1)"), "{body}");
        let job = page.hidden("id").unwrap();
        let form = [("id", job.as_str()), ("do", "edit"), ("body", &edited), ("why", "typo")];
        let reply = client.post("job", &form).await;
        let (_, asks) = client.follow(reply).await;
        assert!(asks.text().contains("mended") && asks.text().contains("(masked)"), "{}", asks.text());
        let letter = client.get(&format!("letter?id={id}")).await;
        for page in [&page, &asks, &letter] {
            for hidden in ["S3CR3T", "Action=Unsubscribe", "<script"] {
                assert!(!page.body.contains(hidden), "{hidden}: {}", page.body);
            }
        }
        let (_, done) = client.confirm(&asks).await;
        assert!(done.text().contains("sent 1 letter"), "{}", done.text());
    })
    .await;
    let body = cloud.entries("SendMessageBatch").remove(0).body;
    assert_eq!(body, mended(&whole));
}

#[tokio::test(start_paused = true)]
async fn one_letter_is_read_by_the_time_when_it_was_archived() {
    let cloud = ten();
    // Unreadable objects elsewhere in the archive do not matter for this letter.
    let elsewhere =
        "my-bucket/dead-letters/queue=payments-dlq/date=2026-09-01/20260901T120000.000Z-x.2-n1-r0.jsonl";
    cloud.put(elsewhere, "{broken\n");
    serving(&cloud, &["--operate"], async |client| {
        let id = redrive_support::letter(&RecordBuilder::envelope("3")).sqs.message_id;
        let (_, asks) = client.begin(&[("do", "replay"), ("id", &id), ("why", "x")]).await;
        assert!(asks.text().contains("a part of the archive could not be read"), "{}", asks.text());
        cloud.forget();
        let at = "2026-10-31T12:00:00Z";
        let (_, asks) = client.begin(&[("do", "replay"), ("id", &id), ("at", at), ("why", "x")]).await;
        assert!(asks.text().contains("Replay at most 1 letter, not checked"), "{}", asks.text());
        let journal = cloud.journal();
        let read = |key: &str| {
            journal.iter().any(|call| call.operation == "GetObject" && format!("{call:?}").contains(key))
        };
        assert!(!read("20260901T120000") && read("queue=payments-dlq"), "{journal:?}");
    })
    .await;
}

/// Puts a replay in this state into an account.
fn put_replay(cloud: &TestAccount, id: &str, status: &str, change: &Value) {
    let mut it = state(status, &json!({ "sent": 1 }));
    it["id"] = id.into();
    it["request"] = serde_json::to_value(ReplayRequest::from_json(json!({ "all": true })).unwrap()).unwrap();
    change.as_object().unwrap().iter().for_each(|(name, value)| it[name] = value.clone());
    cloud.put(&format!("my-bucket/dead-letters-control/replays/{id}/replay.json"), &it.to_string());
}

#[tokio::test(start_paused = true)]
async fn a_replay_that_was_given_its_letters_cannot_be_resumed_from_a_page() {
    let cloud = ten();
    let id = "20261031T120000Z-0d0e0f";
    put_replay(&cloud, id, "stopped", &json!({ "given": "digest" }));
    serving(&cloud, &["--operate"], async |client| {
        let (_, page) = client.begin(&[("do", "resume"), ("id", id), ("why", "up")]).await;
        assert!(page.text().contains("begin a new replay on the letter's page"), "{}", page.text());
        assert_eq!(page.hidden("nonce"), None);
        let (_, asks) = client.begin(&[("do", "stop"), ("id", id), ("why", "x")]).await;
        assert!(asks.hidden("nonce").is_some(), "{}", asks.text());
    })
    .await;
}

/// Letters that were passed over, refused or are gone are behind it.
#[tokio::test(start_paused = true)]
async fn what_is_left_of_a_replay_is_what_it_has_not_seen_yet() {
    let cloud = ten();
    let id = "20261031T120000Z-0d0e0f";
    serving(&cloud, &["--operate"], async |client| {
        for (counts, left) in [
            (json!({ "sent": 1, "alreadyReplayed": 5 }), Some(4)),
            (
                json!({ "sent": 1, "refused": 1, "gone": 1, "doubles": 1, "unreadable": 1, "inDoubt": 1,
                     "notReplayable": { "noTarget": 2 } }),
                Some(3),
            ),
            (json!({ "sent": 1, "alreadyReplayed": 9 }), None),
        ] {
            put_replay(&cloud, id, "stopped", &json!({ "letters": 10, "counts": counts }));
            let (_, asks) = client.begin(&[("do", "resume"), ("id", id), ("why", "up")]).await;
            let (_, stops) = client.begin(&[("do", "stop"), ("id", id), ("why", "x")]).await;
            let (asks, stops) = (asks.text(), stops.text());
            let Some(left) = left else {
                assert!(asks.contains("There is no letter to send."), "{asks}");
                assert!(stops.contains("Stop 0 letters"), "{stops}");
                continue;
            };
            assert!(asks.contains(&format!("Resume at most {left} letters")), "{asks}");
            assert!(stops.contains(&format!("Stop at most {left} letters")), "{stops}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn who_resumes_a_running_replay_is_told_that_it_takes_it_over() {
    let cloud = ten();
    let (running, stopped) = ("20261031T120000Z-0d0e0f", "20261031T130000Z-0d0e0f");
    put_replay(&cloud, running, "running", &json!({}));
    put_replay(&cloud, stopped, "stopped", &json!({}));
    serving(&cloud, &["--operate"], async |client| {
        let (_, asks) = client.begin(&[("do", "resume"), ("id", running), ("why", "up")]).await;
        let says = "takes it over from the process that may still run it";
        assert!(asks.text().contains(says), "{}", asks.text());
        let (_, asks) = client.begin(&[("do", "stop"), ("id", running), ("why", "x")]).await;
        assert!(!asks.text().contains(says), "{}", asks.text());
        let (_, asks) = client.begin(&[("do", "resume"), ("id", stopped), ("why", "up")]).await;
        assert!(!asks.text().contains(says), "{}", asks.text());
        // A replay that is done by now has nothing left, even if its number of letters was an upper bound.
        put_replay(&cloud, running, "done", &json!({ "exact": false }));
        let (_, asks) = client.begin(&[("do", "stop"), ("id", running), ("why", "x")]).await;
        assert!(asks.text().contains("Stop 0 letters"), "{}", asks.text());
    })
    .await;
}
