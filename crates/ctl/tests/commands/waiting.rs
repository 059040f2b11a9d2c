//! `waiting`: counts the waiting letters by their list.

use redrive_core::waiting::WaitingKey;
use redrive_support::{DLQ, RecordBuilder, TOPIC, TestAccount};
use serde_json::{Value, json};

use super::{CommandRun, CommandWorld, redrivectl_in};

/// Returns the line of a waiting letter, with other values for some fields.
pub(crate) fn letter(id: &str, but: &Value) -> Value {
    let mut letter = json!({
        "letterId": format!("letter-{id}"), "messageId": id, "receiptHandle": format!("handle-S3CR3T-{id}"),
        "queueArn": DLQ, "topicArn": TOPIC, "target": "arn:aws:sqs:eu-central-1:123456789012:payments-worker",
        "rule": "default", "error": "503", "retry": { "number": 9, "of": 12 },
        "since": "2026-11-01T09:00:00Z", "due": "2026-11-01T16:00:00Z",
    });
    for (name, value) in but.as_object().unwrap() {
        letter[name] = value.clone();
    }
    letter
}

pub(crate) fn lines(letters: &[Value]) -> String {
    letters.iter().map(Value::to_string).collect::<Vec<_>>().join("\n") + "\n"
}

/// Puts an object on the list, under the queue of its first line, and its letters into their queues.
pub(crate) fn list(cloud: &TestAccount, written: &str, lines: &str) {
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    let queue = first["queueArn"].as_str().unwrap().parse().unwrap();
    let known: Vec<_> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let key = WaitingKey::of(&known).key("dead-letters-control", &queue, written.parse().unwrap(), "req-1");
    cloud.put(&format!("my-bucket/{key}"), lines);
    for line in lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let post = RecordBuilder::raw(line["messageId"].as_str().unwrap_or_default(), "x");
        let mut record = post.queue(line["queueArn"].as_str().unwrap_or(DLQ)).record();
        record["receiptHandle"] = line["receiptHandle"].clone();
        cloud.place(&json!({ "Records": [record] }));
    }
}

async fn waiting(cloud: &TestAccount, args: &[&str]) -> CommandRun {
    let place = ["waiting", "--control", "s3://my-bucket/dead-letters-control"];
    redrivectl_in(CommandWorld::on(cloud), &[&place, args].concat()).await
}

fn outage() -> TestAccount {
    let cloud = TestAccount::new();
    let billing = "arn:aws:sqs:eu-central-1:123456789012:payments-billing";
    let letters = [
        letter("a", &json!({})),
        letter("b", &json!({ "due": "2026-11-01T17:30:00Z" })),
        letter("c", &json!({ "target": billing, "error": "NonExistentQueue", "topicArn": null })),
        letter("came-back", &json!({ "due": "2026-11-01T12:00:00Z" })),
    ];
    list(&cloud, "2026-11-01T10:00:00Z", &lines(&letters));
    // The function received the letter again and hid it until later.
    list(&cloud, "2026-11-01T11:00:00Z", &lines(&[letter("a", &json!({ "due": "2026-11-01T19:00:00Z" }))]));
    cloud
}

#[tokio::test]
async fn letters_are_counted_by_what_is_asked_for() {
    let cloud = outage();
    let text = waiting(&cloud, &["--by", "error"]).await.text();
    let (list, total) = text.split_once("SQS, for all of ").unwrap();
    assert!(total.starts_with("payments-dlq: about "), "{total}");
    assert_eq!(
        list,
        "error             letters  first due (UTC)      last due (UTC)\n\
         503                     2  2026-11-01 17:30:00  2026-11-01 19:00:00\n\
         NonExistentQueue        1  2026-11-01 16:00:00  2026-11-01 16:00:00\n\
         \n\
         At most 3 letters wait, by the list of those hidden for more than two minutes.\n"
    );
    for (by, groups) in [
        (
            "target",
            &[
                "arn:aws:sqs:eu-central-1:123456789012:payments-billing",
                "arn:aws:sqs:eu-central-1:123456789012:payments-worker",
            ][..],
        ),
        ("due", &["2026-11-01 16:00", "2026-11-01 17:00", "2026-11-01 19:00"]),
        ("queue", &[DLQ]),
        ("rule", &["default"]),
    ] {
        let json = waiting(&cloud, &["--by", by, "--json"]).await.json();
        let names: Vec<_> =
            json["groups"].as_array().unwrap().iter().map(|group| group[by].as_str().unwrap()).collect();
        assert_eq!((names.as_slice(), &json["letters"]), (groups, &json!(3)), "{by}");
    }
    let json = waiting(&cloud, &["--by", "topic", "--json"]).await.json();
    assert_eq!(
        json["groups"][0],
        json!({ "topic": null, "letters": 1, "firstDue": "2026-11-01T16:00:00Z", "lastDue": "2026-11-01T16:00:00Z" })
    );
}

/// Returns the document of recoveries: the worker is back since 10:25, and its letters are claimed that were listed until then.
pub(crate) fn put_recovery(cloud: &TestAccount) {
    let endpoint = json!({ "queue": "payments-dlq", "target": "arn:aws:sqs:eu-central-1:123456789012:payments-worker",
        "recoveredAt": "2026-11-01T10:25:00Z", "place": "hour=2026-11-01T10/20261101T103000.000Z", "isDone": true });
    let document = json!({ "version": 1, "endpoints": [endpoint] });
    cloud.put("my-bucket/dead-letters-control/recoveries.json", &document.to_string());
}

/// Returns a line that waits for its endpoint since ten.
pub(crate) fn recovering(id: &str, hidden: &str) -> Value {
    letter(id, &json!({ "recovers": true, "hidden": hidden }))
}

/// Their endpoint is back, so they may be delivered by now.
#[tokio::test]
async fn letters_that_the_function_has_claimed_are_counted_apart() {
    let cloud = TestAccount::new();
    let ten = "2026-11-01T10:00:00Z";
    let claimed = [recovering("a", ten), recovering("b", ten), recovering("again", ten)];
    list(&cloud, ten, &lines(&[&claimed[..], &[letter("held", &json!({}))]].concat()));
    let since = "2026-11-01T10:27:00Z";
    list(&cloud, since, &lines(&[recovering("failed-since", since)]));
    list(&cloud, "2026-11-01T10:45:00Z", &lines(&[recovering("behind-the-place", "2026-11-01T10:45:00Z")]));
    let failed_since = recovering("again", "2026-11-01T11:20:00Z");
    list(&cloud, "2026-11-01T11:20:00Z", &lines(&[failed_since]));
    let all = waiting(&cloud, &["--json"]).await.json();
    assert_eq!(json!([all["letters"], all["claimed"]]), json!([6, 0]));
    put_recovery(&cloud);
    let json = waiting(&cloud, &["--json"]).await.json();
    assert_eq!(json!([json["letters"], json["claimed"]]), json!([4, 2]));
    let text = waiting(&cloud, &[]).await.text();
    let says = "At most 4 letters wait, by the list of those hidden for more than two minutes.\n\
                Not counted: 2 letters whose endpoint is back. The function has claimed them: most are delivered by now, some may wait.\n";
    assert!(text.contains(says), "{text}");
}

/// A line may be listed anew long after it was written.
#[tokio::test]
async fn the_line_counts_of_when_a_letter_was_hidden_last() {
    let cloud = TestAccount::new();
    let line = |hidden: &str, due: &str| letter("a", &json!({ "hidden": hidden, "due": due }));
    list(&cloud, "2026-11-01T11:00:00Z", &lines(&[line("2026-11-01T11:00:00Z", "2026-11-01T19:00:00Z")]));
    list(&cloud, "2026-11-01T11:30:00Z", &lines(&[line("2026-11-01T10:00:00Z", "2026-11-01T16:00:00Z")]));
    let json = waiting(&cloud, &["--json"]).await.json();
    assert_eq!(json["groups"][0]["lastDue"], "2026-11-01T19:00:00Z");
}

#[tokio::test]
async fn only_the_letters_that_are_asked_for_are_counted() {
    let cloud = outage();
    for (args, letters) in [
        (&["--topic", "payments"][..], 2),
        (&["--topic", "billing"], 0),
        (&["--queue", "payments-dlq"], 3),
        (&["--target", "payments-worker"], 2),
        (&["--target", "arn:aws:sqs:eu-central-1:123456789012:payments-billing"], 1),
        (&["--target", "payments-billing", "--topic", "payments"], 0),
        (&["--arrived-before", "2026-11-01T09:00:00Z"], 0),
    ] {
        assert_eq!(
            waiting(&cloud, &[args, &["--json"]].concat()).await.json()["letters"],
            letters,
            "{args:?}"
        );
    }
}

#[tokio::test]
async fn lines_that_cannot_be_read_are_counted_and_hide_nothing() {
    let cloud = TestAccount::new();
    let odd = format!(
        "{}{{}}\nnonsense\n\n",
        lines(&[letter("a", &json!({ "newField": 1, "heldBy": "override o1" }))])
    );
    list(&cloud, "2026-11-01T10:00:00Z", &odd);
    cloud.put("my-bucket/dead-letters-control/waiting/queue=payments-dlq/hour=2026-11-01T11/notes.txt", "x");
    let ran = waiting(&cloud, &[]).await;
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    assert!(
        ran.out.contains(
            "1 letter listed, of a list that was read in part: 2 could not be read. It has letters hidden for more than two \
             minutes.\nHeld, of those listed: 1 by override o1.\n"
        ),
        "{}",
        ran.out
    );
    assert!(!ran.out.to_lowercase().contains("at most"), "{}", ran.out);
    let ran = waiting(&cloud, &["--json"]).await;
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&json["letters"], &json["atMost"], &json["unread"]), (&json!(1), &json!(false), &json!(2)));
}

/// Two letters of a released hold were delivered. The list keeps them until they would have been due.
#[tokio::test]
async fn the_list_is_a_bound_and_the_number_of_the_queue_is_that_of_sqs() {
    let cloud = TestAccount::new();
    let held = |id: &str| letter(id, &json!({ "heldBy": "override o1" }));
    let lines_of =
        [held("a"), held("b"), letter("c", &json!({ "heldBy": "rule audit" })), letter("d", &json!({}))];
    list(&cloud, "2026-11-01T10:00:00Z", &lines(&lines_of));
    let sqs = cloud.clients().sqs;
    let url = DLQ.parse::<redrive_core::arn::Arn>().unwrap().queue_url();
    for id in ["a", "b"] {
        let delete = sqs.delete_message().queue_url(&url).receipt_handle(format!("handle-S3CR3T-{id}"));
        delete.send().await.unwrap();
    }
    let text = waiting(&cloud, &["--by", "held"]).await.text();
    assert!(text.contains("At most 4 letters wait, by the list"), "{text}");
    assert!(text.contains("Held, at most: 2 by override o1, 1 by rule audit.\n"), "{text}");
    assert!(text.contains("SQS, for all of payments-dlq: about 2 letters hidden, 0 visible.\n"), "{text}");
    let json = waiting(&cloud, &["--by", "held", "--json"]).await.json();
    assert_eq!(json["held"], json!({ "override o1": 2, "rule audit": 1 }));
    assert_eq!(json["queues"], json!([{ "queue": DLQ, "hidden": 2, "visible": 0 }]));
    assert_eq!((&json["letters"], &json["atMost"]), (&json!(4), &json!(true)));
    let denied = outage();
    denied.reply("GetQueueAttributes", redrive_support::SimFault::Denied);
    let text = waiting(&denied, &[]).await.text();
    assert!(
        text.contains("SQS, for all of payments-dlq: not known: sqs:GetQueueAttributes failed (Access"),
        "{text}"
    );
}

#[tokio::test]
async fn a_list_of_many_pages_and_queues_is_read_to_its_end() {
    let cloud = TestAccount::new();
    cloud.pages_of(3);
    for queue in 0..4 {
        for number in 0..10 {
            let arn = format!("{DLQ}-{queue}");
            let line = letter(&format!("{queue}-{number}"), &json!({ "queueArn": arn }));
            list(&cloud, &format!("2026-11-01T{:02}:00:00Z", 1 + number), &lines(&[line]));
        }
    }
    assert_eq!(waiting(&cloud, &["--json"]).await.json()["letters"], 40);
    // The tool reads no object that is older than the longest hiding.
    let lists = cloud.calls("ListObjectsV2");
    let first: Vec<_> = lists.iter().filter_map(|call| call.parameters.get("start-after")).collect();
    assert!(
        !first.is_empty() && first.iter().all(|after| after.ends_with("hour=2026-11-01T00")),
        "{first:?}"
    );
}

/// Its letters are no longer hidden: the bucket deletes an object when the longest hiding is over.
#[tokio::test]
async fn an_object_of_the_list_that_is_gone_is_left_out_though_s3_denies_access_to_it() {
    for denies in [false, true] {
        let cloud = outage();
        list(&cloud, "2026-11-01T11:30:00Z", &lines(&[letter("gone", &json!({}))]));
        if denies {
            cloud.deny_missing_objects();
        }
        cloud.delete_when_read("T113000");
        let told = waiting(&cloud, &["--json"]).await.json();
        assert_eq!((&told["unread"], &told["letters"]), (&json!(0), &json!(3)), "denies: {denies}");
    }
}

/// The function writes no such object, and anyone who may write to the control prefix must not exhaust a reader's memory.
#[tokio::test]
async fn an_object_of_the_list_that_is_too_large_is_not_read() {
    let cloud = outage();
    let spaces = " ".repeat(32 * 1024 * 1024);
    list(&cloud, "2026-11-01T11:30:00Z", &(lines(&[letter("d", &json!({}))]) + &spaces));
    let ran = waiting(&cloud, &["--json"]).await;
    let told: Value = serde_json::from_str(ran.out.lines().next().unwrap()).unwrap();
    assert_eq!((ran.code, &told["unread"], &told["letters"]), (1, &json!(1), &json!(3)), "{}", ran.err);
}
