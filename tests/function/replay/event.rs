use super::*;

const ACTIVE: [(&str, &str); 2] = [("REQUEUE_ARN", REQUEUE), ("ARCHIVE", "s3://graveyard/dead-letters")];

fn function(console: &Console, settings: &[(&str, &str)]) -> Function {
    let variable = |name: &str| {
        let given = settings.iter().find(|(variable, _)| *variable == name);
        given.map(|(_, value)| (*value).to_owned())
    };
    let now = Arc::clone(&console.now);
    let clock = Clock::from_fn(move || at(now.load(Ordering::Relaxed)));
    Function::new(Settings::read(variable).unwrap(), console.cloud.clients(), clock, Arc::new(|_| {}))
}

/// The answer of an invocation that has so many seconds, or the error.
async fn invoke(function: &Function, console: &Console, seconds: i64, event: Value) -> Result<Value, String> {
    let deadline = console.now.load(Ordering::Relaxed) + seconds * 1000;
    let event = serde_json::from_value(event).unwrap();
    let answer = function.answer(event, "req-1", deadline.try_into().unwrap()).await;
    let answer = answer.map_err(|error| error.to_string())?;
    assert!(matches!(answer, Answer::Replay(_)));
    Ok(serde_json::to_value(answer).unwrap())
}

async fn with(settings: &[(&str, &str)], event: Value) -> (Result<Value, String>, usize) {
    let console = Console::with_letters(3);
    let answer = invoke(&function(&console, settings), &console, 60, event).await;
    (answer, console.sent().len())
}

#[tokio::test]
async fn the_answer_is_the_manifest_and_the_same_lies_in_the_archive() {
    let console = Console::new();
    let policy = json!({ "default": { "target": BILLING } }).to_string();
    let settings = [ACTIVE[0], ACTIVE[1], ("REDRIVE_POLICY", policy.as_str())];
    console.archive("a", &posts(3));
    let request = json!({ "select": { "queue": "orders-dlq" }, "ramp": [100], "rate": 9000 });
    let answer =
        invoke(&function(&console, &settings), &console, 60, json!({ "replay": request })).await.unwrap();
    let (key, manifest) = console.kept("manifest.json").remove(0);
    assert_eq!(serde_json::from_str::<Value>(&manifest).unwrap(), answer);
    let id = answer["id"].as_str().unwrap().to_owned();
    assert_eq!(key, format!("graveyard/dead-letters/replays/{id}/manifest.json"));
    let expected = json!({
        "version": 1,
        "id": id,
        "request": { "select": { "queue": "orders-dlq" }, "dryRun": false, "rate": 9000, "ramp": [100],
            "threshold": 10, "settleSeconds": 60, "again": false, "resume": false },
        "cutOff": "2026-11-01T12:59:55Z",
        "status": "done",
        "counts": { "selected": 3, "doubles": 0, "alreadyReplayed": 0, "unreadable": 0, "notReplayable": {} },
        "sent": 3, "refused": 0, "repeated": 0,
        "step": 0, "stepBegan": "2026-11-01T13:00:00Z", "batchesBeforeStep": 0, "waitingBeforeStep": 0,
        "queues": [DLQ],
        "batches": 1,
    });
    assert_eq!(answer, expected);
}

#[tokio::test]
async fn a_dry_run_counts_by_the_functions_own_policy() {
    let (answer, sent) = with(&ACTIVE, json!({ "replay": { "dryRun": true } })).await;
    let answer = answer.unwrap();
    assert_eq!((&answer["status"], sent), (&json!("dryRun"), 0));
    assert_eq!(
        answer["counts"]["notReplayable"],
        json!({ "noTarget": 3 }),
        "raw letters have no target by default"
    );
    let (answer, sent) = with(&ACTIVE, json!({ "replay": { "to": WORKER, "ramp": [100] } })).await;
    assert_eq!((&answer.unwrap()["sent"], sent), (&json!(3), 3));
}

#[tokio::test]
async fn what_cannot_be_is_refused_and_says_why() {
    let observe = [ACTIVE[0], ACTIVE[1], ("REDRIVE_MODE", "observe")];
    let queue = [ACTIVE[0], ("ARCHIVE", BILLING)];
    let go = json!({ "to": WORKER, "ramp": [100] });
    for (settings, request, why) in [
        (&observe[..], &go, "REDRIVE_MODE is observe: only dryRun is possible"),
        (&queue, &go, "ARCHIVE is a queue; letters are replayed from S3 only"),
        (&ACTIVE[1..], &go, "REQUEUE_ARN is not set, and replayed letters go there"),
        (&ACTIVE, &json!({ "deliverTo": WORKER }), "unknown field `deliverTo`, expected one of"),
        (&ACTIVE, &json!({ "select": { "reason": ["expired"] } }), "unknown field `reason`, expected one of"),
        // An empty selection is the whole archive: nobody gets it by a slip.
        (&ACTIVE, &json!([]), "replay: must be an object"),
        (&ACTIVE, &json!({ "select": [] }), "select: must be an object"),
        (&ACTIVE, &json!({ "select": { "reasons": ["tired"] } }), "select.reasons: \"tired\" is none of"),
        (&ACTIVE, &json!({ "select": { "match": { "x": 1 } } }), "select.match: "),
        (
            &ACTIVE,
            &json!({ "rate": 0, "threshold": 101 }),
            "rate: must be from 1 to 10000; threshold: must be from 0 to 100",
        ),
        (&ACTIVE, &json!({ "ramp": [5, 5, 100] }), "ramp: must be rising per cents, the last of them 100"),
        (&ACTIVE, &json!({ "cutOff": at(START + 1).to_string() }), "cutOff: must not lie in the future"),
        (&ACTIVE, &json!({ "to": "nowhere" }), "must be topic, or the ARN of a topic, queue or function"),
    ] {
        let (answer, sent) = with(settings, json!({ "replay": request })).await;
        let error = answer.unwrap_err();
        assert!(error.starts_with(&format!("bad request: {why}")), "{request}: {error}");
        assert_eq!(sent, 0);
    }
    let (answer, _) = with(&observe, json!({ "replay": { "dryRun": true, "to": WORKER } })).await;
    assert_eq!(answer.unwrap()["counts"]["selected"], 3);
    for event in [json!({}), json!({ "replay": {}, "Records": [] })] {
        let (answer, sent) = with(&ACTIVE, event).await;
        assert_eq!((answer.unwrap_err().as_str(), sent), ("the event must have either Records or replay", 0));
    }
}

#[tokio::test]
async fn out_of_time_it_answers_how_it_stands_and_the_next_call_goes_on() {
    let console = Console::with_letters(30);
    let function = function(&console, &ACTIVE);
    let event = json!({ "replay": { "to": WORKER, "ramp": [10, 100], "rate": 10 } });
    // Half of this is kept back for the end of the batch.
    let settling = invoke(&function, &console, 1, event.clone()).await.unwrap();
    assert_eq!((&settling["status"], &settling["sent"]), (&json!("settling"), &json!(3)));
    assert_eq!(settling["notBefore"], at(START + 60_000).to_string());
    console.pass(60);
    let running = invoke(&function, &console, 2, event.clone()).await.unwrap();
    assert_eq!((&running["status"], &running["sent"]), (&json!("running"), &json!(13)));
    let done = invoke(&function, &console, 60, event).await.unwrap();
    assert_eq!((&done["status"], &done["sent"], &done["id"]), (&json!("done"), &json!(30), &running["id"]));
    assert_eq!(console.bodies(), numbers(0..30));
}
