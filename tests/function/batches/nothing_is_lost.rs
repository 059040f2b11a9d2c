//! P1: every record ends in exactly one outcome, and only letters that are safe elsewhere leave the queue.

use super::*;

const OUTCOMES: [&str; 7] = ["delivered", "archived", "requeued", "deferred", "held", "failed", "observed"];

/// Returns the ids of messages that a target, the archive or the requeue has accepted, by the journal.
fn taken(cloud: &TestAccount, event: &Value) -> [BTreeSet<String>; 3] {
    let mut of_body = BTreeMap::new();
    for letter in letters_of(event) {
        let id = letter.sqs.message_id.clone();
        let message =
            letter.notification.as_ref().map(|sns| [letter.message().into_owned(), sns.message_id.clone()]);
        let message: Vec<_> = message.into_iter().flatten().collect();
        for text in message.into_iter().chain([letter.sqs.body]) {
            assert_eq!(of_body.insert(text, id.clone()), None, "two letters with one body");
        }
    }
    // A function gets SNS's message inside an event.
    let message_of = |event: &str| {
        let event: Value = serde_json::from_str(event).ok()?;
        event.pointer("/Records/0/Sns/MessageId")?.as_str().map(str::to_owned)
    };
    let [mut delivered, mut archived, mut requeued] = [const { BTreeSet::new() }; 3];
    for (place, body) in cloud.taken() {
        let into = match place.as_str() {
            "payments-archive" | "payments-dlq" => &mut archived,
            "payments-requeue" | "payments-requeue.fifo" => &mut requeued,
            _ => &mut delivered,
        };
        let message = message_of(&body).filter(|id| of_body.contains_key(id));
        into.insert(of_body[&message.unwrap_or(body)].clone());
    }
    for object in cloud.objects().values() {
        for line in object.lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            archived.insert(record["message"]["messageId"].as_str().unwrap().to_owned());
        }
    }
    [delivered, archived, requeued]
}

fn assert_nothing_lost(world: &FunctionWorld, event: &Value, ran: &TestInvocation, what: &str) {
    let ids = ids(event);
    let kept: BTreeSet<_> = ran.kept.iter().cloned().collect();
    assert_eq!(kept.len(), ran.kept.len(), "an identifier is there twice: {what}");
    assert!(!kept.contains(""), "an empty identifier fails the whole batch: {what}");
    assert!(kept.iter().all(|id| ids.contains(id)), "an unknown identifier: {what}");

    let lines = ran.letters();
    let told: Vec<_> = lines.iter().map(|line| line["sqs.message_id"].as_str().unwrap()).collect();
    assert_eq!(told, ids, "one line per letter, in the order of the batch: {what}");
    let [delivered, archived, requeued] = taken(&world.cloud, event);
    let hidden = world.cloud.hidden();
    for (id, line) in ids.iter().zip(&lines) {
        let outcome = line["outcome"].as_str().unwrap();
        assert!(OUTCOMES.contains(&outcome));
        let safe = [&delivered, &archived, &requeued].iter().any(|taken| taken.contains(id));
        assert_eq!(!kept.contains(id), safe, "{id} {outcome} {what}");
        assert_eq!(delivered.contains(id), outcome == "delivered", "{id} {what}");
        assert_eq!(archived.contains(id), outcome == "archived", "{id} {what}");
        assert_eq!(requeued.contains(id), outcome == "requeued", "{id} {what}");
        if outcome == "deferred" {
            let record = event["Records"].as_array().unwrap().iter().find(|it| it["messageId"] == **id);
            let handle = record.unwrap()["receiptHandle"].as_str().unwrap();
            assert_eq!(hidden.get(handle), Some(&line["delay_s"].as_i64().unwrap()), "{id} {what}");
        }
    }
    let count = |name: &str| usize::try_from(ran.metric(name)).unwrap();
    assert_eq!(count("LettersReceived"), ids.len());
    for (outcome, name) in OUTCOMES.iter().zip([
        "LettersDelivered",
        "LettersArchived",
        "LettersRequeued",
        "LettersDeferred",
        "LettersHeld",
        "LettersFailed",
        "LettersObserved",
    ]) {
        let told = lines.iter().filter(|line| line["outcome"] == *outcome).count();
        assert_eq!(count(name), told, "{name} {what}");
    }
    assert_fifo(event, &kept, what);
}

/// Asserts what Lambda requires of FIFO batches: the answer lists the first failure of a group and all
/// letters after it.
fn assert_fifo(event: &Value, kept: &BTreeSet<String>, what: &str) {
    let mut blocked = BTreeSet::new();
    for record in event["Records"].as_array().unwrap() {
        if !arn(record["eventSourceARN"].as_str().unwrap()).is_fifo() {
            return;
        }
        let group = record["attributes"]["MessageGroupId"].as_str().unwrap().to_owned();
        if kept.contains(record["messageId"].as_str().unwrap()) {
            blocked.insert(group);
        } else {
            assert!(!blocked.contains(&group), "a letter overtook one of its group: {what}");
        }
    }
}

fn policies() -> Vec<Value> {
    vec![
        json!({}),
        default(&json!({ "target": "topic" })),
        default(&json!({ "target": BILLING })),
        default(&json!({ "target": FIFO_WORKER, "subscription": SUBSCRIPTION })),
        default(&json!({ "subscription": SUBSCRIPTION, "retryPermanent": true })),
        default(&json!({ "action": "hold" })),
        default(&json!({ "action": "archive" })),
    ]
}

/// Returns a function whose queues are full and whose failing heads step aside.
fn with_requeue(event: &Value, policy: &Value, archive: &str) -> FunctionWorld {
    let fifo = arn(event["Records"][0]["eventSourceARN"].as_str().unwrap()).is_fifo();
    let mut policy = policy.clone();
    let requeue = if fifo { FIFO_REQUEUE } else { REQUEUE };
    if fifo {
        policy["default"]["fifo"] = json!("step-aside");
    }
    let policy = policy.to_string();
    let settings = [
        ("REDRIVE_POLICY", policy.as_str()),
        ("ARCHIVE", archive),
        ("REQUEUE_ARN", requeue),
        ("IN_FLIGHT_LIMIT", "10"),
    ];
    let world = FunctionWorld::new(&settings);
    for name in ["payments-dlq", "payments-dlq.fifo", "payments-requeue", "payments-requeue.fifo"] {
        let full = [("MessageRetentionPeriod", "1209600"), ("ApproximateNumberOfMessagesNotVisible", "10")];
        world.cloud.queue(name, &full);
    }
    world
}

const CALLS: [&str; 7] = [
    "GetQueueAttributes",
    "GetSubscriptionAttributes",
    "SendMessageBatch",
    "PublishBatch",
    "Invoke",
    "ChangeMessageVisibilityBatch",
    "PutObject",
];

#[tokio::test]
async fn whichever_call_fails_in_whichever_way() {
    let every_second = (0..10).step_by(2);
    let missing = (0..10).map(|index| (index, EntryFault::Missing));
    for reply in [
        SimFault::refuse(403, "AccessDenied", "no"),
        SimFault::refuse(400, "Throttling", "slow"),
        SimFault::refuse(400, "InvalidParameterValue", "bad"),
        SimFault::refuse(500, "InternalError", "oh"),
        SimFault::Nonsense(503, "<html>".to_owned()),
        SimFault::ResetBefore,
        SimFault::Entries(
            every_second.map(|index| (index, EntryFault::service("InternalError", ""))).collect(),
        ),
        SimFault::Entries(missing.collect()),
    ] {
        for op in CALLS {
            for (name, policy, archive) in [("mixed", 0, "s3://my-bucket/x"), ("fifo", 1, ARCHIVE_QUEUE)] {
                let policy = policies()[policy].to_string();
                let world = FunctionWorld::new(&[("REDRIVE_POLICY", &policy), ("ARCHIVE", archive)]);
                world.cloud.reply(op, reply.clone());
                let event = sample(name);
                let ran = world.run_event(&event).await;
                assert_nothing_lost(&world, &event, &ran, &format!("{op} {reply:?} {policy} {name}"));
                let world = with_requeue(&event, &json!({}), archive);
                world.cloud.reply(op, reply.clone());
                let ran = world.run_event(&event).await;
                assert_nothing_lost(&world, &event, &ran, &format!("requeue, {op} {reply:?} {name}"));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whichever_call_hangs() {
    const INVOCATION_TIMEOUT: Duration = Duration::from_secs(3);
    for op in CALLS {
        for (name, policy) in [("mixed", json!({})), ("fifo", default(&json!({ "target": "topic" })))] {
            let event = sample(name);
            for world in
                [FunctionWorld::with_policy(&policy), with_requeue(&event, &policy, "s3://my-bucket/x")]
            {
                let world = world.with_time(INVOCATION_TIMEOUT);
                world.cloud.reply(op, SimFault::HangBefore);
                let began = tokio::time::Instant::now();
                let ran = world.run_event(&event).await;
                assert!(began.elapsed() < INVOCATION_TIMEOUT, "{op}: {:?}", began.elapsed());
                assert_nothing_lost(&world, &event, &ran, op);
            }
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

#[tokio::test]
async fn when_everything_fails() {
    for reply in [
        SimFault::ResetBefore,
        SimFault::refuse(403, "AccessDenied", "no"),
        SimFault::Nonsense(500, String::new()),
    ] {
        for (name, event) in samples() {
            let world = FunctionWorld::new(&[]);
            let all = reply.clone();
            world.cloud.script(move |_| all.clone());
            let ran = world.run_event(&event).await;
            assert_nothing_lost(&world, &event, &ran, &name);
            assert_eq!(ran.kept, ids(&event));
        }
    }
}

/// Returns the reply for a random number.
fn reply(dice: u16, call: &SimCall) -> SimFault {
    let some = |disposition: EntryFault| {
        let chosen = |index: &usize| (usize::from(dice) + index * 7).is_multiple_of(3);
        SimFault::Entries(
            (0..call.entries.len()).filter(chosen).map(|index| (index, disposition.clone())).collect(),
        )
    };
    match dice % 24 {
        0 => SimFault::refuse(403, "AccessDenied", "no"),
        1 => SimFault::refuse(400, "Throttling", "slow"),
        2 => SimFault::refuse(400, "InvalidParameterValue", "bad"),
        3 => SimFault::refuse(500, "InternalError", "oh"),
        // S3's 200 has no body that could be nonsense, and a function may answer anything.
        4 if !["PutObject", "Invoke"].contains(&call.operation.as_str()) => {
            SimFault::Nonsense(200, "<".to_owned())
        }
        5 => SimFault::Nonsense(502, String::new()),
        6 => SimFault::ResetBefore,
        7 => SimFault::ConnectTimeout,
        8 => some(EntryFault::Missing),
        9 => some(EntryFault::sender("InvalidMessageContents", "bad")),
        10 => some(EntryFault::service("InternalError", "oh")),
        11 => some(EntryFault::sender("KMSDisabled", "no key")),
        12 if call.operation == "Invoke" && call.parameters["type"] == "RequestResponse" => {
            SimFault::FunctionError
        }
        _ => SimFault::Pass,
    }
}

fn any_event() -> impl Strategy<Value = Value> {
    let mut records: Vec<Value> = Vec::new();
    for (name, event) in samples() {
        if name != "fifo" {
            records.extend(event["Records"].as_array().unwrap().clone());
        }
    }
    let count = records.len();
    let standard = proptest::sample::subsequence(records, 1..=count)
        .prop_shuffle()
        .prop_map(|records| json!({ "Records": records }));
    prop_oneof![3 => standard, 1 => Just(sample("fifo"))]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_fails_when(
        event in any_event(),
        dice in proptest::collection::vec(any::<u16>(), 1..40),
        policy in proptest::sample::select(policies()),
        archive in proptest::sample::select(vec!["s3://my-bucket/x", ARCHIVE_QUEUE, DLQ]),
        later in prop_oneof![Just(0), 0..900_000_i64],
        fails in 0..4,
        requeue in any::<bool>(),
    ) {
        runtime().block_on(async {
            let world = if requeue {
                with_requeue(&event, &policy, archive)
            } else {
                FunctionWorld::new(&[("REDRIVE_POLICY", &policy.to_string()), ("ARCHIVE", archive)])
            };
            world.pass(later);
            let thrown = AtomicUsize::new(0);
            let numbers = dice.clone();
            world.cloud.script(move |call| {
                let index = thrown.fetch_add(1, Ordering::Relaxed) % numbers.len();
                if fails == 0 { SimFault::Pass } else { reply(numbers[index], call) }
            });
            let ran = world.run_event(&event).await;
            assert_nothing_lost(&world, &event, &ran, &format!("{policy} {archive}"));
        });
    }
}
