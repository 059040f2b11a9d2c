//! Tests of endpoints that are down, and of those that ask to be left alone.

use std::sync::{Arc, Mutex};

use super::*;

const DOWN: &str = "endpoint down: its letters wait until it is tried again";

fn told_of_endpoints(ran: &TestInvocation) -> Vec<&str> {
    let messages = ran.log.iter().filter_map(|line| line["message"].as_str());
    messages.filter(|message| message.starts_with("endpoint ")).collect()
}

fn named(name: &str, count: usize) -> Vec<RecordBuilder> {
    (0..count).map(|number| RecordBuilder::envelope(&format!("{name}{number}"))).collect()
}

/// Returns a world in which the letters' queue hangs.
async fn hanging(policy: &Value) -> FunctionWorld {
    let world = FunctionWorld::with_policy(policy);
    world.cloud.script(|call| match call.operation.as_str() {
        "SendMessageBatch" if call.target.starts_with("payments-worker") => SimFault::HangBefore,
        _ => SimFault::Pass,
    });
    let ran = world.run(&named("first", 10)).await;
    assert!(ran.outcomes().iter().all(|told| told.ends_with(" deferred failed")), "{:?}", ran.outcomes());
    assert_eq!(told_of_endpoints(&ran), [DOWN]);
    assert_eq!(ran.metric("LettersShortCircuited"), 0);
    world
}

#[tokio::test(start_paused = true)]
async fn letters_for_an_endpoint_that_is_down_are_hidden_and_cost_no_time() {
    let world = hanging(&json!({})).await;
    let began = tokio::time::Instant::now();
    let mut posts = named("second", 10);
    posts.push(RecordBuilder::envelope("other").subscription(BILLING_SUBSCRIPTION));
    let ran = world.run(&posts).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(ran.outcomes()[0], "second0 deferred endpoint_down");
    assert_eq!(ran.outcomes()[10], "other delivered");
    assert_eq!((ran.kept.len(), world.cloud.calls("SendMessageBatch").len()), (10, 2));
    // Each letter waits for its own next retry.
    let line = ran.letter("second0");
    assert_eq!(line["target.arn"], WORKER);
    for field in ["retry.number", "error.code", "attempt_ms"] {
        assert_eq!(line[field], Value::Null, "{field}");
    }
    for number in 0..10 {
        let delay = ran.letter(&format!("second{number}"))["delay_s"].as_u64().unwrap();
        assert!((54..=60).contains(&delay), "{delay}");
    }
    assert_eq!(told_of_endpoints(&ran), [""; 0], "nothing has changed");
    let metrics = ran.metrics();
    assert_eq!([&metrics["LettersShortCircuited"], &metrics["LettersDeferred"]], [10, 10]);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_back_is_tried_with_one_request_and_then_has_all() {
    let world = hanging(&json!({})).await;
    tokio::time::advance(Duration::from_secs(41)).await;
    // The trial is short.
    let began = tokio::time::Instant::now();
    let ran = world.run(&named("second", 1)).await;
    assert_eq!(
        (ran.outcomes(), began.elapsed()),
        (vec!["second0 deferred failed".to_owned()], Duration::from_secs(3))
    );
    assert_eq!(
        [&ran.letter("second0")["error.code"], &ran.letter("second0")["retry.number"]],
        [&json!("CutShort"), &json!(1)]
    );
    assert_eq!(told_of_endpoints(&ran), [""; 0]);
    world.cloud.script(|_| SimFault::Pass);
    assert_eq!(world.run(&named("third", 1)).await.outcomes(), ["third0 deferred endpoint_down"]);
    tokio::time::advance(Duration::from_secs(41)).await;
    let ran = world.run(&named("fourth", 100)).await;
    assert!(ran.outcomes().iter().all(|told| told.ends_with(" delivered")));
    assert_eq!(
        told_of_endpoints(&ran),
        ["endpoint takes letters again: it gets a few at a time", "endpoint up again"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_last_retry_is_made_with_its_full_time_and_waits_while_nothing_is_left_for_it() {
    let once = json!({ "healthyRetryPolicy": { "numRetries": 1, "numNoDelayRetries": 1 } });
    let rule = json!({ "name": "once", "match": { "subject": ["once"] }, "deliveryPolicy": once });
    let world = hanging(&json!({ "rules": [rule] })).await;
    let last = |name: &str| RecordBuilder::envelope(name).subject("once");
    tokio::time::advance(Duration::from_secs(41)).await;
    let began = tokio::time::Instant::now();
    let ran = world.run([&last("a")]).await;
    assert_eq!((ran.outcomes(), began.elapsed().as_secs()), (vec!["a archived exhausted".to_owned()], 24));
    assert_eq!(ran.letter("a")["retry.number"], 1);
    // Both time-outs took 48 s, 30 of which were saved, and the time before has paid some: the others are paid after
    // five minutes.
    for minute in 1..=4 {
        tokio::time::advance(Duration::from_mins(1)).await;
        let ran = world.run([&last("b").received(minute)]).await;
        assert_eq!(ran.outcomes(), ["b deferred endpoint_down"]);
        assert_eq!(ran.letter("b")["delay_s"], 40, "its last delay, but not less");
    }
    tokio::time::advance(Duration::from_mins(1)).await;
    let ran = world.run([&last("b").received(5)]).await;
    assert_eq!(ran.outcomes(), ["b archived exhausted"]);
}

/// The message may have arrived, so the letter does not end by such an attempt.
#[tokio::test(start_paused = true)]
async fn a_last_retry_that_is_cut_short_is_made_again() {
    let once = json!({ "healthyRetryPolicy": { "numRetries": 1, "numNoDelayRetries": 1 } });
    let world = FunctionWorld::with_policy(&json!({ "default": { "deliveryPolicy": once } }));
    world.cloud.script(|call| match call.operation.as_str() {
        "SendMessageBatch" => SimFault::HangBefore,
        _ => SimFault::Pass,
    });
    assert_eq!(world.run([&RecordBuilder::envelope("a")]).await.outcomes(), ["a archived exhausted"]);
    tokio::time::advance(Duration::from_secs(41)).await;
    assert_eq!(world.run([&RecordBuilder::envelope("b")]).await.outcomes(), ["b archived exhausted"]);
    // Nothing is left, and this queue is not known to be down.
    let other = || RecordBuilder::envelope("c").subscription(BILLING_SUBSCRIPTION);
    let ran = world.run([&other()]).await;
    assert_eq!(ran.outcomes(), ["c deferred failed"]);
    let line = ran.letter("c");
    assert_eq!([&line["error.code"], &line["delay_s"]], [&json!("CutShort"), &json!(40)]);
    tokio::time::advance(Duration::from_mins(10)).await;
    assert_eq!(world.run([&other().received(2)]).await.outcomes(), ["c archived exhausted"]);
}

#[tokio::test(start_paused = true)]
async fn letters_wait_a_second_for_the_look_up_of_another_and_no_longer() {
    let world = FunctionWorld::with_policy(&json!({}));
    let sent = Arc::new(Mutex::new(tokio::time::Instant::now()));
    let note = Arc::clone(&sent);
    world.cloud.script(move |call| match call.operation.as_str() {
        "GetSubscriptionAttributes" if call.target == SUBSCRIPTION => SimFault::HangBefore,
        "SendMessageBatch" => {
            *note.lock().unwrap() = tokio::time::Instant::now();
            SimFault::Pass
        }
        _ => SimFault::Pass,
    });
    let run = async |hanging: &str, other: &str| {
        let posts = [
            RecordBuilder::envelope(hanging),
            RecordBuilder::envelope(other).subscription(BILLING_SUBSCRIPTION),
        ];
        let began = tokio::time::Instant::now();
        let ran = world.run(&posts).await;
        let sent = sent.lock().unwrap().duration_since(began);
        (ran, sent.as_secs(), began.elapsed().as_secs())
    };
    let (ran, sent, took) = run("a", "b").await;
    assert_eq!(ran.outcomes(), ["a deferred failed", "b delivered"]);
    assert_eq!(
        (sent, took),
        (1, 12),
        "the other waited for a second, and the look-up had half of the time after it"
    );
    // It hung, so nobody waits for it, and it is not asked.
    let (ran, sent, took) = run("c", "d").await;
    assert_eq!(
        (ran.outcomes(), sent, took),
        (vec!["c deferred endpoint_down".to_owned(), "d delivered".to_owned()], 0, 0)
    );
    // After its rest it is asked when the others have gone.
    for _ in 0..3 {
        tokio::time::advance(Duration::from_secs(41)).await;
        let (ran, sent, took) = run("e", "f").await;
        assert_eq!(
            (ran.outcomes(), sent, took),
            (vec!["e deferred failed".to_owned(), "f delivered".to_owned()], 0, 12)
        );
    }
    // Forty-eight seconds were spent.
    world.cloud.script(|_| SimFault::Pass);
    tokio::time::advance(Duration::from_secs(41)).await;
    assert_eq!(run("g", "h").await.0.outcomes(), ["g deferred endpoint_down", "h delivered"]);
    tokio::time::advance(Duration::from_secs(200)).await;
    assert_eq!(run("g", "h").await.0.outcomes(), ["g delivered", "h delivered"]);
}

/// What the second pass of a round has is what the first has left. No letter ends by an attempt in a part of the time.
#[tokio::test(start_paused = true)]
async fn a_last_retry_after_a_slow_look_up_is_not_exhausted_by_what_is_left_of_the_time() {
    let once = json!({ "healthyRetryPolicy": { "numRetries": 1, "numNoDelayRetries": 1 } });
    let slow_look_up = |call: &SimCall| match call.operation.as_str() {
        "GetSubscriptionAttributes" if call.target == SUBSCRIPTION => {
            Some(SimFault::Slow(Duration::from_millis(1_500), Box::new(SimFault::Pass)))
        }
        _ => None,
    };
    let last = || RecordBuilder::envelope("last");
    // Its own queue hangs.
    let world = FunctionWorld::with_policy(&json!({ "default": { "deliveryPolicy": once } }));
    world.cloud.script(move |call| match call.operation.as_str() {
        "SendMessageBatch" => SimFault::HangBefore,
        _ => slow_look_up(call).unwrap_or(SimFault::Pass),
    });
    let ran = world.run([&last()]).await;
    assert_eq!(ran.outcomes(), ["last deferred failed"]);
    assert_eq!(ran.letter("last")["error.code"], "CutShort");
    // That of another hangs, and takes all of the time.
    let world = FunctionWorld::with_policy(&json!({ "default": { "deliveryPolicy": once } }));
    world.cloud.script(move |call| match call.operation.as_str() {
        "SendMessageBatch" if call.target == "payments-billing" => SimFault::HangBefore,
        _ => slow_look_up(call).unwrap_or(SimFault::Pass),
    });
    let ran = world.run([&RecordBuilder::envelope("a").subscription(BILLING_SUBSCRIPTION), &last()]).await;
    assert_eq!(ran.outcomes(), ["a archived exhausted", "last failed out_of_time"]);
    assert_eq!(world.cloud.hidden()["handle-last"], 1, "it comes back with all of the time");
}

/// The letters of a batch wait for the attributes of their queues, which they know from before.
#[tokio::test(start_paused = true)]
async fn a_queue_that_hangs_keeps_letters_waiting_for_a_second_and_then_after_its_rest() {
    let world = FunctionWorld::with_policy(&json!({}));
    let run = async |id: &str| {
        let began = tokio::time::Instant::now();
        let posts =
            [RecordBuilder::raw(&format!("{id}-moved"), "x").moved_from(WORKER), RecordBuilder::envelope(id)];
        let ran = world.run(&posts).await;
        assert!(ran.outcomes().iter().all(|told| told.ends_with(" delivered")), "{:?}", ran.outcomes());
        began.elapsed().as_secs()
    };
    assert_eq!(run("a").await, 0);
    world.cloud.script(|call| match call.operation.as_str() {
        "GetQueueAttributes" if call.target == "payments-worker" => SimFault::HangBefore,
        _ => SimFault::Pass,
    });
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!(run("b").await, 1);
    // It is not asked for half a minute.
    assert_eq!(run("c").await, 0);
    tokio::time::advance(Duration::from_secs(31)).await;
    assert_eq!(run("d").await, 12);
    tokio::time::advance(Duration::from_secs(31)).await;
    assert_eq!(run("e").await, 0, "it rests for forty seconds");
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_left_out_holds_its_group() {
    let world = FunctionWorld::new(&[]);
    world.cloud.reply("SendMessageBatch", SimFault::HangBefore);
    let post = |id: &str, group: &str| {
        let post = RecordBuilder::envelope(id).topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION);
        post.queue(FIFO_DLQ).group(group)
    };
    assert_eq!(world.run([&post("a", "g")]).await.outcomes(), ["a deferred failed"]);
    world.cloud.script(|_| SimFault::Pass);
    let ran = world.run([&post("b", "g"), &post("c", "g"), &post("d", "h")]).await;
    assert_eq!(ran.outcomes(), ["b deferred endpoint_down", "c held", "d deferred endpoint_down"]);
    assert_eq!(world.cloud.hidden()["handle-c"], 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_left_out_near_its_end_is_archived() {
    let world = hanging(&json!({})).await;
    let old = |left: i64| RecordBuilder::envelope("old").sent(NOW - 1_209_600_000 + left);
    let ran = world.run([&old(3_620_000)]).await;
    assert_eq!(
        (ran.outcomes(), world.cloud.hidden()["handle-old"]),
        (vec!["old deferred endpoint_down".to_owned()], 20)
    );
    let ran = world.run([&old(3_600_500)]).await;
    assert_eq!(ran.outcomes(), ["old archived expiring"]);
}

/// The requeue and the archive are no subscribers.
#[tokio::test(start_paused = true)]
async fn the_requeue_is_asked_however_often_it_fails() {
    let world = FunctionWorld::new(&[("REQUEUE_ARN", REQUEUE), ("IN_FLIGHT_LIMIT", "10")]);
    world.cloud.queue("payments-requeue", &[("MessageRetentionPeriod", "1209600")]);
    world.cloud.reply("SendMessageBatch", SimFault::HangBefore);
    for round in 1..=2 {
        world.run(&named("letter", 10)).await;
        let to_requeue = world
            .cloud
            .calls("SendMessageBatch")
            .into_iter()
            .filter(|call| call.target == "payments-requeue");
        assert!(to_requeue.count() >= round);
        tokio::time::advance(Duration::from_secs(41)).await;
    }
}

mod retry_after {
    use super::*;

    /// Starts a server that is busy for the time in its `Retry-After`.
    fn busy(status: u16, until: &str) -> TestWebServer {
        let answer = WebAnswer::status(status).with("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        let answer = answer.with("retry-after", until);
        TestWebServer::scripted(move |_, _| answer.clone())
    }

    fn delays(most: u32) -> Value {
        let healthy =
            json!({ "minDelayTarget": 20, "maxDelayTarget": most, "numRetries": 9, "numNoDelayRetries": 1 });
        json!({ "default": { "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": healthy } } })
    }

    async fn delay(policy: &Value, server: &TestWebServer, post: &RecordBuilder) -> Value {
        let world = world_of(policy, "http", &server.url());
        let ran = world.run([post]).await;
        assert_eq!(ran.outcomes(), ["a deferred failed"], "{}", ran.text);
        ran.letter("a")["delay_s"].clone()
    }

    #[tokio::test]
    async fn a_letter_waits_for_its_schedule_or_as_long_as_the_server_asks() {
        let letter = RecordBuilder::envelope("a");
        for (status, until, expected) in [
            (429, "300", 300),
            (503, "300", 300),
            (503, "Sun, 06 Nov 1994 08:54:37 GMT", 300),
            (429, "5", 20),
            (429, "soon", 20),
            (500, "300", 20),
            // This is the longest delay of the policy.
            (429, "86400", 600),
        ] {
            assert_eq!(
                delay(&delays(600), &busy(status, until), &letter).await,
                expected,
                "{status} {until}"
            );
        }
    }

    #[tokio::test]
    async fn no_server_can_ask_a_letter_to_wait_beyond_its_end() {
        let old = RecordBuilder::envelope("a").sent(NOW - 1_209_600_000 + 3_600_000 + 100_000);
        assert_eq!(delay(&delays(600), &busy(503, "300"), &old).await, 20);
    }

    #[tokio::test]
    async fn each_letter_leaves_a_server_alone_for_its_own_longest_delay() {
        let server = busy(429, "300");
        let healthy =
            json!({ "minDelayTarget": 200, "maxDelayTarget": 200, "numRetries": 9, "numNoDelayRetries": 1 });
        let rule = json!({ "name": "short", "match": { "subject": ["short"] },
            "deliveryPolicy": { "healthyRetryPolicy": healthy } });
        let mut policy = delays(600);
        policy["rules"] = json!([rule]);
        let world = world_of(&policy, "http", &server.url());
        let short = |name: &str| RecordBuilder::envelope(name).subject("short");
        let ran = world.run([&short("a")]).await;
        assert_eq!(
            (ran.outcomes()[0].as_str(), &ran.letter("a")["delay_s"]),
            ("a deferred failed", &json!(200))
        );
        let ran = world.run([&short("b"), &RecordBuilder::envelope("c")]).await;
        assert_eq!(ran.outcomes(), ["b deferred endpoint_down", "c deferred endpoint_down"]);
        let left = ran.letter("b")["delay_s"].as_u64().unwrap();
        assert!((100..=200).contains(&left), "{left}");
        let left = ran.letter("c")["delay_s"].as_u64().unwrap();
        assert!((200..=300).contains(&left), "{left}");
        world.pass(250);
        let ran = world.run([&short("d"), &RecordBuilder::envelope("e")]).await;
        assert_eq!(ran.outcomes(), ["d deferred failed", "e deferred endpoint_down"]);
    }

    #[tokio::test]
    async fn a_server_that_takes_other_letters_is_not_left_alone() {
        let server = TestWebServer::scripted(|number, _| match number {
            1 => WebAnswer::status(429).retry_after(300),
            _ => WebAnswer::status(200),
        });
        let world = world_of(&delays(600), "http", &server.url());
        assert_eq!(world.run(&named("a", 1)).await.outcomes(), ["a0 delivered"]);
        let ran = world.run(&named("b", 1)).await;
        assert_eq!(
            (ran.outcomes()[0].as_str(), &ran.letter("b0")["delay_s"]),
            ("b0 deferred failed", &json!(300))
        );
        assert_eq!(told_of_endpoints(&ran), [""; 0]);
        assert_eq!(world.run(&named("c", 1)).await.outcomes(), ["c0 delivered"]);
    }

    #[tokio::test]
    async fn the_others_are_not_sent_meanwhile() {
        let server = busy(429, "300");
        let world = world_of(&delays(600), "http", &server.url());
        let ran = world.run(&named("a", 10)).await;
        // This many requests are under way at the same time while the server is unknown.
        assert_eq!(server.seen().len(), 4);
        assert_eq!(
            ran.outcomes()[4..],
            (4..10).map(|number| format!("a{number} deferred endpoint_down")).collect::<Vec<_>>()
        );
        let left = ran.letter("a4")["delay_s"].as_u64().unwrap();
        assert!((200..=300).contains(&left), "its own next retry would be sooner: {left}");
        let line = ran.log.iter().find(|line| line["message"] == DOWN).unwrap();
        assert_eq!(line["level"], "WARN");
        assert_eq!(
            [&line["target.url"], &line["error.code"], &line["delay_s"]],
            [&json!(TargetName::read(&server.url())), &json!("Http429"), &json!(300)]
        );
        assert_eq!(told_of_endpoints(&ran).len(), 1);
        assert_eq!(ran.metrics()["LettersShortCircuited"], 6);
        let ran = world.run(&named("b", 1)).await;
        assert_eq!(ran.outcomes(), ["b0 deferred endpoint_down"]);
        assert_eq!(server.seen().len(), 4);
    }
}
