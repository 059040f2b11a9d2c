use redrive_aws::settings::Settings;
use redrive_support::{BILLING_SUBSCRIPTION, SUBSCRIPTION};
use sns_redrive::replay_function::{ReplayAnswer, ReplayEvent, ReplayFunction};

use super::*;

pub(super) const ACTIVE: [(&str, &str); 2] =
    [("REQUEUE_ARN", REQUEUE), ("ARCHIVE", "s3://my-bucket/dead-letters")];

pub(super) fn function(world: &ArchiveWorld, settings: &[(&str, &str)]) -> ReplayFunction {
    let variable = |name: &str| {
        let given = settings.iter().find(|(variable, _)| *variable == name);
        given.map(|(_, value)| (*value).to_owned())
    };
    let clock = world.aws.clock().clone();
    let clock = InstanceClock::from_fn(move || clock.now());
    let clients = world.clients(&Caller::new("function"));
    ReplayFunction::new(Settings::read(variable).unwrap(), clients, clock)
}

/// Invokes the function for so many seconds. Returns its answer or its error.
pub(super) async fn invoke(
    function: &ReplayFunction,
    world: &ArchiveWorld,
    seconds: i64,
    event: Value,
) -> Result<Value, String> {
    let deadline = world.aws.clock().millis() + seconds * 1000;
    let event = serde_json::from_value(event).unwrap();
    let answer = function.answer(event, "req-1", deadline.try_into().unwrap()).await;
    let answer = answer.map_err(|error| error.to_string())?;
    assert!(!matches!(answer, ReplayAnswer::Lane { .. }));
    Ok(serde_json::to_value(answer).unwrap())
}

async fn with(settings: &[(&str, &str)], event: Value) -> (Result<Value, String>, usize) {
    let world = ArchiveWorld::with_letters(3);
    let answer = invoke(&function(&world, settings), &world, 60, event).await;
    (answer, world.sent().len())
}

#[tokio::test(start_paused = true)]
async fn the_answer_is_how_it_stands_and_the_same_is_kept() {
    let world = ArchiveWorld::new();
    let policy = json!({ "default": { "target": BILLING } }).to_string();
    let settings = [ACTIVE[0], ACTIVE[1], ("REDRIVE_POLICY", policy.as_str())];
    world.archive("a", &posts(3));
    let request =
        json!({ "select": { "queue": "payments-dlq" }, "ramp": [100], "rate": 9000, "why": "mended" });
    let answer =
        invoke(&function(&world, &settings), &world, 60, json!({ "replay": request })).await.unwrap();
    let id = answer["id"].as_str().unwrap().to_owned();
    let kept = world.objects(&format!("{CONTROL}/replays/{id}/replay.json"));
    assert_eq!(serde_json::from_str::<Value>(&kept[0].1).unwrap(), answer);
    assert_eq!(answer["counts"], json!({ "sent": 3 }));
    assert_eq!((&answer["status"], &answer["by"]), (&json!("done"), &json!("the replay function")));
    assert_eq!(
        answer["request"],
        json!({ "select": { "queue": "payments-dlq" }, "dryRun": false, "rate": 9000, "ramp": [100],
            "threshold": 10, "settleSeconds": 60, "again": false, "why": "mended" })
    );
    // The replay's objects are outside the archive.
    let archive: Vec<_> = world.objects(&format!("{ARCHIVE}/")).into_iter().map(|(key, _)| key).collect();
    assert_eq!(archive, [indexed("a", 3)]);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_counts_by_the_functions_own_policy() {
    let (answer, sent) =
        with(&ACTIVE, json!({ "replay": { "all": true, "select": { "origins": ["raw"] }, "dryRun": true } }))
            .await;
    let answer = answer.unwrap();
    assert_eq!((&answer["status"], sent), (&json!("dryRun"), 0));
    let counts = json!({ "notReplayable": { "noTarget": 3 } });
    assert_eq!(answer["counts"], counts, "raw letters have no target by default");
    let (answer, sent) =
        with(&ACTIVE, json!({ "replay": { "all": true, "to": WORKER, "ramp": [100] } })).await;
    assert_eq!((&answer.unwrap()["counts"]["sent"], sent), (&json!(3), 3));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_is_refused_and_says_why() {
    let observe = [ACTIVE[0], ACTIVE[1], ("REDRIVE_MODE", "observe")];
    let queue = [ACTIVE[0], ("ARCHIVE", BILLING)];
    let off = [ACTIVE[0], ACTIVE[1], ("CONTROL", "off")];
    let go = json!({ "all": true, "to": WORKER, "ramp": [100] });
    for (settings, request, why) in [
        (&observe[..], &go, "REDRIVE_MODE is observe: only dryRun is possible"),
        (&queue, &go, "ARCHIVE is a queue, but only letters in S3 can be replayed"),
        (
            &off,
            &go,
            "CONTROL is off or not set: set it to s3://bucket/prefix, where replays record what they have sent",
        ),
        (&ACTIVE[1..], &go, "REQUEUE_ARN is not set: set it to the queue to which replays send letters"),
        (&ACTIVE, &json!({ "deliverTo": WORKER }), "unknown field `deliverTo`, expected one of"),
        (&ACTIVE, &json!({ "select": { "reason": ["expired"] } }), "unknown field `reason`, expected one of"),
        // An empty selection is the whole archive, so nobody may select it by accident.
        (&ACTIVE, &json!([]), "replay: must be an object"),
        (
            &ACTIVE,
            &json!({}),
            "select: is empty, which selects the whole archive: to confirm that, set all to true",
        ),
        (&ACTIVE, &json!({ "select": [] }), "select: must be an object"),
        (
            &ACTIVE,
            &json!({ "select": { "reasons": ["tired"] } }),
            "select.reasons: must be one of exhausted, ",
        ),
        (&ACTIVE, &json!({ "select": { "match": { "x": 1 } } }), "select.match: "),
        (
            &ACTIVE,
            &json!({ "rate": 0, "threshold": 101 }),
            "rate: must be from 1 to 1000000; threshold: must be from 0 to 100",
        ),
        (
            &ACTIVE,
            &json!({ "ramp": [5, 5, 100] }),
            "ramp: must be a list of rising percentages that ends with 100",
        ),
        (&ACTIVE, &json!({ "cutOff": at(START + 60_000).to_string() }), "cutOff: must not lie in the future"),
        (&ACTIVE, &json!({ "to": "nowhere" }), "must be topic, or the ARN of a topic, queue or function"),
        (
            &ACTIVE,
            &json!({ "all": true, "to": SUBSCRIPTION }),
            "to: must be topic, or the ARN of a topic, queue or function; to name a subscription",
        ),
        (
            &ACTIVE,
            &json!({ "to": WORKER, "subscriptions": { SUBSCRIPTION: BILLING_SUBSCRIPTION } }),
            "to, subscriptions: must not be given together, because each sets the target",
        ),
        (
            &ACTIVE,
            &json!({ "subscriptions": { SUBSCRIPTION: TOPIC, "x": SUBSCRIPTION } }),
            &format!(
                "subscriptions: {TOPIC:?} is not the ARN of a subscription; subscriptions: \"x\" is not"
            ),
        ),
        (
            &ACTIVE,
            &json!({ "select": { "topics": vec!["t".repeat(100); 2000] } }),
            "the request must be at most 131072 bytes long, not 20",
        ),
        (&ACTIVE, &json!({ "resume": "x", "select": {} }), "unknown field `select`, expected one of"),
    ] {
        let (answer, sent) = with(settings, json!({ "replay": request })).await;
        let error = answer.unwrap_err();
        assert!(error.starts_with(&format!("bad request: {why}")), "{request}: {error}");
        assert_eq!(sent, 0);
    }
    let (answer, _) =
        with(&observe, json!({ "replay": { "all": true, "dryRun": true, "to": WORKER } })).await;
    assert_eq!(answer.unwrap()["counts"]["sent"], 3);
    for (event, why) in [
        (json!({}), "expected map with a single key"),
        (json!({ "Records": [] }), "unknown variant `Records`, expected one of `replay`, `turn`, `lane`"),
        (json!({ "turn": { "workers": 3 } }), "did not match any variant of untagged enum TurnEvent"),
    ] {
        let error = serde_json::from_value::<ReplayEvent>(event.clone()).unwrap_err().to_string();
        assert!(error.contains(why), "{event}: {error}");
    }
    for workers in [0, 1001] {
        let (answer, sent) = with(&ACTIVE, first_turn(&go, workers)).await;
        assert_eq!((answer.unwrap_err().as_str(), sent), ("bad request: workers: must be from 1 to 1000", 0));
    }
}

pub(super) fn first_turn(request: &Value, workers: usize) -> Value {
    json!({ "turn": { "begin": request, "workers": workers, "by": "arn:aws:states:eu-central-1:1:execution:x:y" } })
}

/// Does what the state machine of `operations.yaml` does, with lanes one after the other. Returns the last
/// turn, and the kinds of the turns before it.
async fn through(function: &ReplayFunction, world: &ArchiveWorld, request: &Value) -> (Value, Vec<String>) {
    let mut turn = invoke(function, world, 60, first_turn(request, 2)).await.unwrap();
    let mut kinds = Vec::new();
    while turn["next"] != "end" {
        kinds.push(turn["next"].as_str().unwrap().to_owned());
        if turn["next"] == "wait" {
            tokio::time::sleep(Duration::from_secs(turn["seconds"].as_u64().unwrap())).await;
        } else {
            assert_eq!(turn["bucket"], "my-bucket");
            let (_, lanes) = world.objects(turn["key"].as_str().unwrap()).remove(0);
            for lane in lanes.lines() {
                let lane = serde_json::from_str(lane).unwrap();
                let deadline = (world.aws.clock().millis() + 60_000).try_into().unwrap();
                let answer = function.answer(ReplayEvent::Lane(lane), "req-2", deadline).await.unwrap();
                assert!(matches!(answer, ReplayAnswer::Lane { sent: Some(_), trouble: None }), "{answer:?}");
            }
        }
        let next = json!({ "turn": { "id": turn["id"], "holder": turn["holder"], "workers": 2 } });
        turn = invoke(function, world, 60, next).await.unwrap();
    }
    (turn, kinds)
}

#[tokio::test(start_paused = true)]
async fn turns_and_lanes_bring_a_replay_to_its_end() {
    let world = ArchiveWorld::with_letters(30);
    let function = function(&world, &ACTIVE);
    let request = json!({ "all": true, "to": WORKER, "ramp": [10, 100], "rate": 100 });
    let (turn, kinds) = through(&function, &world, &request).await;
    assert_eq!(kinds, ["send", "wait", "send"]);
    let state = &turn["replay"];
    assert_eq!((&state["status"], &state["counts"]), (&json!("done"), &json!({ "sent": 30 })));
    assert_eq!(state["by"], "arn:aws:states:eu-central-1:1:execution:x:y");
    assert_eq!(world.numbers(), numbers(0..30));
}

/// A dry run does not need a function that works on letters.
#[tokio::test(start_paused = true)]
async fn turns_and_lanes_count_what_a_dry_run_must_read() {
    let world = ArchiveWorld::new();
    for hour in 0..60 {
        world.put_hour(hour, &line(&plain(&hour.to_string())));
    }
    let function = function(&world, &[ACTIVE[0], ACTIVE[1], ("REDRIVE_MODE", "observe")]);
    let request = json!({ "select": { "origins": ["raw"] }, "to": WORKER, "dryRun": true });
    let (turn, kinds) = through(&function, &world, &request).await;
    assert_eq!(kinds, ["send"]);
    assert_eq!(
        (&turn["replay"]["status"], &turn["replay"]["counts"]),
        (&json!("dryRun"), &json!({ "sent": 60 }))
    );
    assert_eq!(world.sent().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn out_of_time_it_answers_how_it_stands_and_the_next_call_goes_on() {
    let world = ArchiveWorld::with_letters(30);
    let function = function(&world, &ACTIVE);
    let begin = json!({ "replay": { "all": true, "to": WORKER, "ramp": [10, 100], "rate": 10 } });
    // Half of this second is reserved for the end of the batch.
    let settling = invoke(&function, &world, 1, begin).await.unwrap();
    assert_eq!((&settling["status"], &settling["counts"]["sent"]), (&json!("settling"), &json!(3)));
    tokio::time::sleep(Duration::from_mins(1)).await;
    let resume = json!({ "replay": { "resume": settling["id"] } });
    let running = invoke(&function, &world, 2, resume.clone()).await.unwrap();
    assert_eq!(running["status"], json!("running"), "{running}");
    let done = invoke(&function, &world, 60, resume).await.unwrap();
    assert_eq!((&done["status"], &done["counts"]["sent"]), (&json!("done"), &json!(30)));
    assert_eq!(world.numbers(), numbers(0..30));
}

#[tokio::test(start_paused = true)]
async fn the_message_of_a_replays_line_says_how_it_stands() {
    let world = ArchiveWorld::with_letters(30);
    let function = function(&world, &ACTIVE);
    let (log, guard) = logged(LevelFilter::INFO);
    let wish = json!({ "all": true, "to": WORKER, "ramp": [10, 100], "rate": 10 });
    let mut dry_run = wish.clone();
    dry_run["dryRun"] = true.into();
    invoke(&function, &world, 60, json!({ "replay": dry_run })).await.unwrap();
    let settling = invoke(&function, &world, 1, json!({ "replay": wish })).await.unwrap();
    let resume = json!({ "replay": { "resume": settling["id"] } });
    tokio::time::sleep(Duration::from_mins(1)).await;
    invoke(&function, &world, 2, resume.clone()).await.unwrap();
    invoke(&function, &world, 60, resume).await.unwrap();
    drop(guard);
    let lines = log.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>();
    let told: Vec<_> = lines.iter().filter(|line| line["replay.status"].is_string()).collect();
    let messages: Vec<_> = told.iter().map(|line| line["message"].as_str().unwrap()).collect();
    assert_eq!(messages, ["replay counted: dry run", "replay settling", "replay running", "replay done"]);
    assert!(lines.iter().all(|line| line["request_id"] == "req-1"), "{}", log.text());
}

/// If a scheduler meets an operator's replay, nobody is called at night.
#[tokio::test(start_paused = true)]
async fn another_replay_under_way_is_no_error() {
    let world = ArchiveWorld::with_letters(2000);
    let slow = wish(json!({ "ramp": [100], "rate": 5 }));
    let (replay, operator) = (world.replay_by(&Caller::new("slow")), TestObserver::default());
    let begin = begins(&slow);
    let running = replay.run(&begin, &ReplaySource::Archive, None, &operator);
    let function = function(&world, &ACTIVE);
    let event = json!({ "replay": { "all": true, "to": WORKER, "ramp": [100] } });
    let other = async {
        // It looks every five seconds, and not when the other pauses to judge a step, as after 80 seconds.
        tokio::time::sleep(Duration::from_secs(12)).await;
        let answer = invoke(&function, &world, 600, event).await.unwrap();
        operator.stopped.store(true, Ordering::Relaxed);
        answer
    };
    let (_, answer) = tokio::join!(running, other);
    let because = answer["because"].as_str().unwrap();
    assert_eq!((&answer["status"], &answer["next"]), (&json!("busy"), &json!("end")));
    assert!(
        because.ends_with("is working on letters of this selection: wait until it has finished, or stop it"),
        "{because}"
    );
}

/// Otherwise it would be unknown which replay to continue or to free.
#[tokio::test(start_paused = true)]
async fn the_line_of_a_letter_in_doubt_names_the_replay_that_may_have_sent_it() {
    let world = ArchiveWorld::with_letters(2);
    let request = wish(json!({ "ramp": [100] }));
    let is_send = |call: &SimCall| call.operation == "SendMessageBatch";
    let died = async |replay: ArchiveReplayer| {
        replay.run(&begins(&request), &ReplaySource::Archive, None, &TestObserver::default()).await
    };
    assert!(world.crash(is_send, 0, true, died).await.is_none());
    let id = world.replay().kept().all().await.unwrap()[0].id.clone();
    let (log, guard) = logged(LevelFilter::WARN);
    tokio::time::sleep(Duration::from_mins(2)).await;
    let event = json!({ "replay": { "all": true, "to": WORKER, "ramp": [100] } });
    let answer = invoke(&function(&world, &ACTIVE), &world, 60, event).await.unwrap();
    drop(guard);
    assert_eq!(answer["counts"], json!({ "notReplayable": { "inDoubt": 2 } }));
    let lines: Vec<Value> = log.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> = lines.iter().filter(|line| line["message"] == "letter left out of a replay").collect();
    let why = format!(
        "may have been sent by replay {id}, which was cut off: resume that replay, or free its letters"
    );
    for (line, number) in told.iter().zip(1..) {
        let expected = [json!(indexed("a", 2)), json!(number), json!(why)];
        assert_eq!([&line["archive.key"], &line["archive.line"], &line["detail"]], expected.each_ref());
    }
    assert_eq!(told.len(), 2);
}

/// Then letters that fail again may stop no step, and it is no letter that is left out.
#[tokio::test(start_paused = true)]
async fn a_queue_that_cannot_be_read_has_a_line_of_its_own() {
    let world = ArchiveWorld::with_letters(1);
    world.deny_its_dead_letter_queue();
    let (log, guard) = logged(LevelFilter::WARN);
    let event = json!({ "replay": { "all": true, "to": WORKER, "ramp": [100] } });
    invoke(&function(&world, &ACTIVE), &world, 60, event).await.unwrap();
    drop(guard);
    let lines: Vec<Value> = log.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = lines.iter().find(|line| line["queue.arn"] == DLQ).unwrap();
    let message = "queue not read: letters that wait there do not stop the replay";
    assert_eq!([&told["message"], &told["error.code"]], [message, "AccessDenied"]);
    assert!(!lines.iter().any(|line| line["message"] == "letter left out of a replay"), "{lines:?}");
}

#[test]
fn a_key_that_is_there_twice_in_a_request_and_a_number_that_would_be_rounded_are_faults() {
    let read = |request: &str| redrive_replay::EventRequest::from_text(request).unwrap_err();
    assert_eq!(
        read(r#"{"all":true,"select":{"reasons":["expiring"],"reasons":[]}}"#),
        ["select.reasons: is there twice, and only one can count: remove the other"]
    );
    assert_eq!(
        read(r#"{"select":{"match":{"message":{"id":[12345678901234567890123]}}}}"#),
        ["holds a number that would be rounded: write 15 digits at most"]
    );
}
