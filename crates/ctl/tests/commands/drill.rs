//! `drill`: everything that it creates has a name of the drill, and is removed whatever fails.

mod drill_account;

use std::sync::Arc;
use std::time::Duration;

use drill_account::{DRILLS, DrillTest, DrillTrouble, SNS, is_fifo};
use redrive_support::{DLQ, FIFO_DLQ, FIFO_REQUEUE, REQUEUE, SimCall, SimFault};
use serde_json::json;

use super::CommandRun;

/// Runs a drill without a question.
pub(crate) async fn drilled(args: &[&str]) -> CommandRun {
    let given = args.strip_prefix(&["drill", "--stack", "payments"]).unwrap();
    DrillTest::new().run(DrillTrouble::None, &[given, &["--yes"]].concat()).await
}

#[tokio::test(start_paused = true)]
async fn a_drill_shows_its_steps_and_leaves_nothing() {
    let drill = DrillTest::new();
    let ran = drill.run(DrillTrouble::None, &["--yes", "--json"]).await;
    let said = ran.json();
    assert_eq!((&said["ok"], &said["left"]), (&json!(true), &json!([])), "{said}");
    let steps: Vec<_> =
        said["steps"].as_array().unwrap().iter().map(|step| step["name"].as_str().unwrap()).collect();
    let all = [
        "create", "break", "override", "publish", "healthy", "retry", "archive", "repair", "deliver",
        "replay", "count",
    ];
    assert_eq!(steps, all);
    assert_eq!(drill.left(), Vec::<String>::new());
    let made = drill.place.lock().unwrap().made.clone();
    assert_eq!(made.len(), 6, "a topic, two queues, two subscriptions, and a queue once more: {made:?}");
    assert!(made.iter().all(|name| name.starts_with("payments-drill-")), "{made:?}");
}

#[tokio::test(start_paused = true)]
async fn a_drill_on_a_fifo_queue_has_a_topic_and_queues_of_that_type() {
    const OUTPUTS: &[(&str, &str)] = &[
        ("ArchiveLocation", "s3://my-bucket/dead-letters"),
        ("ControlLocation", "s3://my-bucket/dead-letters-control"),
        ("DeadLetterQueueArn", FIFO_DLQ),
        ("LogGroupName", "/sns-redrive/payments"),
        ("RequeueArn", FIFO_REQUEUE),
    ];
    let mut drill = DrillTest::new();
    drill.outputs = Some(OUTPUTS);
    drill.policy = drill.policy.replace(DLQ, FIFO_DLQ);
    let ran = drill.run(DrillTrouble::None, &["--yes"]).await;
    assert!(ran.code == 0 && ran.out.contains("4 messages arrived, each once"), "{ran:?}");
    assert_eq!(drill.left(), Vec::<String>::new());
    let made = drill.place.lock().unwrap().made.clone();
    assert_eq!((made.len(), made.iter().all(|name| is_fifo(name))), (6, true), "{made:?}");
}

#[tokio::test(start_paused = true)]
async fn whatever_call_fails_nothing_is_left_in_the_end() {
    let calls = {
        let drill = DrillTest::new();
        assert_eq!(drill.run(DrillTrouble::None, &["--yes"]).await.code, 0);
        let place = drill.place.lock().unwrap();
        place.calls
    };
    assert!(calls > 50, "{calls}");
    // Every third call, because trying all would take too long.
    for number in (3..=calls).step_by(3) {
        let drill = DrillTest::new();
        let ran = drill.run(DrillTrouble::Fails(number), &["--yes"]).await;
        // The drill can work without an answer about the caller or about waking.
        assert!(ran.code <= 1, "call {number}: {ran:?}");
        if ran.out.contains("some of its resources are left") {
            assert!(ran.code == 1 && ran.out.contains("--clean"), "call {number}: {ran:?}");
            let cleaned = drill.run(DrillTrouble::None, &["--clean", "--yes"]).await;
            assert_eq!(cleaned.code, 0, "call {number}: {ran:?} {cleaned:?}");
        }
        assert_eq!(drill.left(), Vec::<String>::new(), "call {number}: {ran:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn whenever_somebody_interrupts_nothing_is_left() {
    let mut stopped = 0;
    for number in (4..).step_by(3) {
        let drill = DrillTest::new();
        let ran = drill.run(DrillTrouble::Interrupted(number), &["--yes"]).await;
        assert_eq!(drill.left(), Vec::<String>::new(), "call {number}: {ran:?}");
        if ran.code == 0 {
            break;
        }
        assert_eq!(ran.code, 4, "call {number}: {ran:?}");
        stopped += 1;
    }
    assert!(stopped > 10, "{stopped}");
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_is_found_again() {
    let drill = DrillTest::new();
    let ran = drill.run(DrillTrouble::None, &["--yes", "--keep", "--profile", "staging"]).await;
    let clean = "To remove them: redrivectl drill --clean --stack payments --profile staging\n";
    assert!(ran.code == 0 && ran.out.ends_with(clean), "{ran:?}");
    assert!(!drill.left().is_empty());
    let asked = drill.run(DrillTrouble::None, &["--clean"]).await;
    assert_eq!(asked.code, 2, "{asked:?}");
    assert!(!drill.left().is_empty());
    drill.run(DrillTrouble::None, &["--clean", "--yes"]).await.text();
    assert_eq!(drill.left(), Vec::<String>::new());
    let nothing = drill.run(DrillTrouble::None, &["--clean", "--yes"]).await.text();
    assert_eq!(nothing, "No drill of payments has left anything.\n");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_where_nobody_reads_what_a_drill_says() {
    let mut whole = 0;
    for lines in [17, 18, 19, 20, 24, 30, 34, 38, 42, 46] {
        let drill = DrillTest { read_until: Some(lines), ..DrillTest::new() };
        let ran = drill.run(DrillTrouble::None, &["--yes"]).await;
        assert_eq!(drill.left(), Vec::<String>::new(), "{lines} lines: {ran:?}");
        assert!(!drill.place.lock().unwrap().made.is_empty(), "{lines} lines: {ran:?}");
        // If the steps were printed whole, the drill was complete. Otherwise it was interrupted.
        let steps_are_read = ran.out.contains("each once");
        assert_eq!(ran.code, if steps_are_read { 0 } else { 4 }, "{lines} lines: {ran:?}");
        whole += usize::from(steps_are_read);
    }
    assert!((1..10).contains(&whole), "{whole}");
}

#[tokio::test(start_paused = true)]
async fn what_is_left_is_taken_away_though_nobody_reads_of_it() {
    let mut drill = DrillTest { read_until: Some(0), ..DrillTest::new() };
    let unseen = drill.run(DrillTrouble::None, &["--yes"]).await;
    assert!(unseen.code == 1 && unseen.err.contains("nothing was done"), "{unseen:?}");
    assert_eq!(drill.left(), Vec::<String>::new());

    drill.read_until = None;
    assert_eq!(drill.run(DrillTrouble::None, &["--yes", "--keep"]).await.code, 0);
    drill.read_until = Some(0);
    assert_eq!(drill.run(DrillTrouble::None, &["--clean", "--yes"]).await.code, 0);
    assert_eq!(drill.left(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn letters_that_a_killed_drill_left_on_their_way_are_archived_first() {
    let drill = DrillTest { hides: Duration::from_secs(135), ..DrillTest::new() };
    drill.killed(|place| !place.log.is_empty()).await;
    let letters = drill.place.lock().unwrap().letters.len();
    assert!(letters > 0);
    drill.run(DrillTrouble::None, &["--clean", "--yes"]).await.text();
    assert_eq!(drill.left(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn letters_that_no_function_archives_keep_the_topic_until_one_may() {
    const OBSERVES: &str =
        "<member><ParameterKey>RedriveMode</ParameterKey><ParameterValue>observe</ParameterValue></member>";
    let mut drill = DrillTest::new();
    drill.killed(|place| !place.log.is_empty()).await;
    drill.parameters = OBSERVES;
    let ran = drill.run(DrillTrouble::None, &["--clean", "--yes"]).await;
    assert!(ran.code == 1 && ran.out.contains("RedriveMode=active, then run drill --clean again"), "{ran:?}");
    assert_eq!(drill.place.lock().unwrap().topics.len(), 1);
    drill.parameters = DRILLS;
    drill.run(DrillTrouble::None, &["--clean", "--yes"]).await.text();
    assert_eq!(drill.left(), Vec::<String>::new());

    // The stack of these drills is deleted, and so is the function.
    let mut drill = DrillTest::new();
    drill.killed(|place| !place.log.is_empty()).await;
    drill.outputs = None;
    let ran = drill.run(DrillTrouble::None, &["--clean", "--yes"]).await;
    assert!(ran.code == 1 && ran.out.contains("archives them as refused"), "{ran:?}");
    assert_eq!(drill.place.lock().unwrap().topics.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_no_override_wakes_is_waited_for() {
    // An unlisted letter is hidden for at most two minutes. Then the mapping may wait for a batch.
    let drill = DrillTest { hides: Duration::from_secs(170), ..DrillTest::new() };
    let mut number = 4;
    let ran = loop {
        let drill = DrillTest { place: Arc::default(), cloud: DrillTest::new().cloud, ..drill.clone() };
        let ran = drill.run(DrillTrouble::Interrupted(number), &["--yes"]).await;
        if ran.out.contains("retry     planned") {
            assert_eq!(drill.left(), Vec::<String>::new(), "{ran:?}");
            break ran;
        }
        number += 3;
    };
    assert_eq!(ran.code, 4, "{ran:?}");
}

/// Otherwise the drill would fail at its replay, after three minutes.
#[tokio::test(start_paused = true)]
async fn a_caller_who_may_not_replay_is_told_before_anything_is_created() {
    for (role, code) in [("operator", 0), ("another", 2)] {
        let drill = DrillTest::new();
        let policy = json!({ "Statement": [
            { "Effect": "Deny", "Principal": "*", "Action": "sqs:SendMessage", "Resource": REQUEUE, "Condition": {
                "ArnNotLike": { "aws:PrincipalArn": format!("arn:aws:iam::123456789012:role/teams/{role}") } } },
        ] });
        let weeks = ("MessageRetentionPeriod", "1209600");
        let attributes = [weeks, ("ApproximateNumberOfMessages", "0"), ("Policy", &policy.to_string())];
        drill.cloud.queue("payments-requeue", &attributes);
        let ran = drill.run(DrillTrouble::None, &["--yes"]).await;
        assert_eq!(ran.code, code, "{ran:?}");
        assert_eq!(drill.place.lock().unwrap().made.is_empty(), code == 2);
        let who = "denies you, arn:aws:sts::123456789012:assumed-role/operator/ada, to send there";
        assert_eq!(ran.err.contains(who) && ran.err.contains("RequeueSenderArns"), code == 2, "{ran:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_sns_did_not_take_is_not_waited_for() {
    for number in [1, 2] {
        let drill = DrillTest::new();
        let ran = drill.run(DrillTrouble::Refuses(number), &["--yes"]).await;
        assert!(ran.code == 1 && ran.out.contains("all of its resources are removed"), "{number}: {ran:?}");
        assert_eq!(drill.left(), Vec::<String>::new(), "{number}: {ran:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_taken_away_is_said_once() {
    let lines = |drill: &DrillTest| {
        let objects = drill.cloud.objects();
        let mut keys = objects.keys().filter(|key| key.starts_with("my-bucket/dead-letters/")).cloned();
        (keys.next().unwrap(), objects)
    };
    for locks in [false, true] {
        let mut drill = DrillTest::new();
        assert_eq!(drill.run(DrillTrouble::None, &["--yes", "--keep"]).await.code, 0);
        let (key, objects) = lines(&drill);
        if locks {
            drill.locks = true;
        } else {
            let others = objects[&key].replace("-drill-", "-other-");
            let both = format!("{}{others}", objects[&key]);
            drill.cloud.put_at(&key, &both, "2026-11-01T11:30:00.000Z");
        }
        let ran = drill.run(DrillTrouble::None, &["--clean", "--yes"]).await;
        assert!(ran.code == 1 && ran.out.contains("left: "), "{ran:?}");
        let left = drill.left();
        assert!(left.iter().all(|it| it.contains("my-bucket")), "{left:?}");
        assert!(left.contains(&key), "{left:?}");
        let again = drill.run(DrillTrouble::None, &["--clean", "--yes"]).await.text();
        assert_eq!(again, "No drill of payments has left anything.\n");
    }
}

#[tokio::test(start_paused = true)]
async fn names_and_tags_are_enough_to_clean() {
    const FIFO: &[(&str, &str)] = &[
        ("ArchiveLocation", "s3://my-bucket/dead-letters"),
        ("ControlLocation", "s3://my-bucket/dead-letters-control"),
        ("DeadLetterQueueArn", "arn:aws:sqs:eu-central-1:123456789012:another.fifo"),
        ("LogGroupName", "/sns-redrive/payments"),
    ];
    const OVERRIDES_OFF: &[(&str, &str)] =
        &[("ArchiveLocation", "s3://my-bucket/dead-letters"), ("DeadLetterQueueArn", DLQ)];
    for (outputs, code) in [(Some(FIFO), 0), (Some(OVERRIDES_OFF), 0), (None, 1)] {
        let mut drill = DrillTest::new();
        assert_eq!(drill.run(DrillTrouble::None, &["--yes", "--keep"]).await.code, 0);
        (drill.outputs, drill.parameters) = (outputs, "");
        let ran = drill.run(DrillTrouble::None, &["--clean", "--yes"]).await;
        assert_eq!(ran.code, code, "{outputs:?}: {ran:?}");
        let left = drill.left();
        if outputs.is_some() {
            assert_eq!(left, Vec::<String>::new(), "{outputs:?}");
        }
        // A deleted stack does not say where the archive is.
        assert!(left.iter().all(|it| it.starts_with("my-bucket/")), "{left:?}");
        let again = drill.run(DrillTrouble::None, &["--clean", "--yes"]).await.text();
        assert_eq!(again, "No drill of payments has left anything.\n");
    }
}

#[tokio::test]
async fn nothing_is_made_where_a_drill_is_not_permitted() {
    let refused = async |drill: DrillTest, args: &[&str], words: &str| {
        let ran = drill.run(DrillTrouble::None, args).await;
        assert!(ran.code == 2 && ran.err.contains(words), "{ran:?}");
        assert_eq!(drill.place.lock().unwrap().made, Vec::<String>::new());
    };
    refused(
        DrillTest { parameters: "", ..DrillTest::new() },
        &["--yes"],
        "deploy it with the parameter Drill=true",
    )
    .await;
    let observes = "<member><ParameterKey>Drill</ParameterKey><ParameterValue>true</ParameterValue></member>\
         <member><ParameterKey>RedriveMode</ParameterKey><ParameterValue>observe</ParameterValue></member>";
    refused(DrillTest { parameters: observes, ..DrillTest::new() }, &["--yes"], "RedriveMode=active").await;
    let stopped = "<member><ParameterKey>Drill</ParameterKey><ParameterValue>true</ParameterValue></member>\
         <member><ParameterKey>EventSourceMappings</ParameterKey><ParameterValue>disabled</ParameterValue></member>";
    refused(DrillTest { parameters: stopped, ..DrillTest::new() }, &["--yes"], "EventSourceMappings=enabled")
        .await;
    let closed = DrillTest { policy: json!({ "Statement": [] }).to_string(), ..DrillTest::new() };
    let statement = format!("\"aws:SourceArn\": \"{SNS}payments-drill-*\"");
    refused(closed, &["--yes"], &statement).await;
    refused(DrillTest::new(), &[], "give --yes").await;
}

/// The account answers as AWS did if that is recorded, so each case shows its own answer.
#[tokio::test(start_paused = true)]
async fn a_drill_writes_down_what_aws_answers_without_names_ids_or_content() {
    let drill = DrillTest::new();
    drill.cloud.aws.clock().run();
    let file = std::env::temp_dir().join(format!("redrivectl-drill-{}.json", std::process::id()));
    let ran = drill.run(DrillTrouble::None, &["--yes", "--json", "--record", file.to_str().unwrap()]).await;
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let said = ran.json();
    assert_eq!((&said["ok"], &said["left"]), (&json!(true), &json!([])), "{said}");
    assert_eq!(drill.left(), Vec::<String>::new());
    for secret in ["123456789012", "payments", "my-bucket", "eu-central-1", "#", "amazonaws"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    let cases: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(cases.len(), 6);
    let last = |case: usize, step: usize| cases[case]["steps"].as_array().unwrap()[step].clone();
    let limit = "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]";
    let refused = json!({ "error": "InvalidParameterValue", "status": 400, "says": limit });
    assert_eq!(last(0, 4)[2], refused);
    let failed = |code: &str, says: &str| json!({ "ok": [], "failed": { "1": code }, "says": { "1": says } });
    assert_eq!(last(0, 5)[2], failed("InvalidParameterValue", limit));
    // An old handle does nothing here: the message comes back after its own time.
    assert_eq!(
        last(1, 4),
        json!(["ChangeMessageVisibility", { "QueueUrl": "$q", "ReceiptHandle": "$h", "VisibilityTimeout": 60 }, {}])
    );
    assert_eq!(last(1, 6)[2]["bodies"], json!(["a"]));
    assert_eq!(last(2, 6)[2]["bodies"], json!(["a"]));
    let gone = "Message does not exist or is not available for visibility timeout change.";
    assert_eq!(last(3, 4)[2]["says"], gone);
    assert_eq!(last(3, 5)[2], failed("InvalidParameterValue", gone));
    assert_eq!(last(4, 4)[2]["failed"]["1"], "ReceiptHandleIsInvalid");
    assert_eq!(last(4, 5)[2]["says"], "The receipt handle has expired.");
    assert_eq!(last(5, 1)[2]["error"], "NoSuchKey");
}

/// If a case's message was never received, the case would record something false about AWS.
#[tokio::test(start_paused = true)]
async fn a_drill_writes_nothing_down_without_a_message_in_hand() {
    let empty = || SimFault::Nonsense(200, "{}".to_owned());
    let refused = || SimFault::refuse(400, "UnsupportedOperation", "no");
    for (operation, fault, words) in [
        ("SendMessage", refused(), "SQS refused SendMessage: UnsupportedOperation"),
        ("ReceiveMessage", refused(), "SQS refused ReceiveMessage: UnsupportedOperation"),
        ("ReceiveMessage", empty(), "SQS did not hand out the message"),
    ] {
        let drill = DrillTest::new();
        drill.cloud.aws.clock().run();
        let is_meant = move |call: &SimCall| call.operation == operation && call.target.ends_with("-asked");
        drill.cloud.script(move |call| if is_meant(call) { fault.clone() } else { SimFault::Pass });
        let file = std::env::temp_dir().join(format!("redrivectl-drill-{}-none.json", std::process::id()));
        let ran = drill.run(DrillTrouble::None, &["--yes", "--record", file.to_str().unwrap()]).await;
        assert!(ran.code == 1 && ran.out.contains(words), "{words}: {ran:?}");
        assert!(!file.exists(), "{words}");
        assert_eq!(drill.left(), Vec::<String>::new(), "{words}");
    }
}
