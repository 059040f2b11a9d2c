//! Tests of endpoints that are down, and of those that ask to be left alone.

use super::*;

const DOWN: &str = "endpoint down: its letters wait until it is tried again";

fn told_of_endpoints(ran: &Ran) -> Vec<&str> {
    let messages = ran.log.iter().filter_map(|line| line["message"].as_str());
    messages.filter(|message| message.starts_with("endpoint ")).collect()
}

fn named(name: &str, count: usize) -> Vec<Post> {
    (0..count).map(|number| Post::envelope(&format!("{name}{number}"))).collect()
}

/// Returns a world in which the letters' queue hangs.
async fn hanging(policy: &Value) -> World {
    let world = World::with_policy(policy);
    world.cloud.script(|call| match call.operation.as_str() {
        "SendMessageBatch" if call.target.starts_with("payments-worker") => Fault::HangBefore,
        _ => Fault::Pass,
    });
    let ran = world.run(&named("first", 10)).await;
    assert!(ran.outcomes().iter().all(|told| told.ends_with(" deferred failed")), "{:?}", ran.outcomes());
    assert_eq!(told_of_endpoints(&ran), [DOWN]);
    assert_eq!(ran.metrics()["LettersShortCircuited"], 0);
    world
}

#[tokio::test(start_paused = true)]
async fn letters_for_an_endpoint_that_is_down_are_hidden_and_cost_no_time() {
    let world = hanging(&json!({})).await;
    let began = tokio::time::Instant::now();
    let mut posts = named("second", 10);
    posts.push(Post::envelope("other").subscription(BILLING_SUBSCRIPTION));
    let ran = world.run(&posts).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(ran.outcomes()[0], "second0 deferred endpoint_down");
    assert_eq!(ran.outcomes()[10], "other delivered");
    assert_eq!((ran.kept.len(), world.cloud.calls("SendMessageBatch").len()), (10, 2));
    // Each letter waits until a moment of its own, unless its own next retry is earlier.
    let line = ran.letter("second0");
    assert_eq!([&line["delay_s"], &line["target.arn"]], [&json!(40), &json!(WORKER)]);
    for field in ["retry.number", "error.code", "attempt_ms"] {
        assert_eq!(line[field], Value::Null, "{field}");
    }
    assert_eq!(ran.letter("second9")["delay_s"], 49);
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
        (vec!["second0 deferred failed".to_owned()], Duration::from_secs(2))
    );
    assert_eq!(
        [&ran.letter("second0")["error.code"], &ran.letter("second0")["retry.number"]],
        [&json!("Timeout"), &json!(1)]
    );
    assert_eq!(told_of_endpoints(&ran), [""; 0]);
    world.cloud.script(|_| Fault::Pass);
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
async fn a_last_retry_waits_for_a_trial_of_full_length_and_is_made() {
    let once = json!({ "healthyRetryPolicy": { "numRetries": 1, "numNoDelayRetries": 1 } });
    let rule = json!({ "name": "once", "match": { "subject": ["once"] }, "deliveryPolicy": once });
    let world = hanging(&json!({ "rules": [rule] })).await;
    let last = Post::envelope("last").subject("once");
    tokio::time::advance(Duration::from_secs(41)).await;
    let ran = world.run([&last]).await;
    assert_eq!(ran.outcomes(), ["last deferred endpoint_down"]);
    // A trial that took 24 s is repeated only after twenty times as long. The letter comes back after five
    // minutes.
    assert_eq!(ran.letter("last")["delay_s"], 300);
    tokio::time::advance(Duration::from_mins(5)).await;
    let ran = world.run([&last]).await;
    assert_eq!(ran.letter("last")["delay_s"], 480 - 41 - 300);
    tokio::time::advance(Duration::from_secs(140)).await;
    let began = tokio::time::Instant::now();
    let ran = world.run([&last.received(2)]).await;
    assert_eq!((ran.outcomes(), began.elapsed().as_secs()), (vec!["last archived exhausted".to_owned()], 24));
    assert_eq!(ran.letter("last")["retry.number"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_left_out_holds_its_group() {
    let world = World::new(&[]);
    world.cloud.reply("SendMessageBatch", Fault::HangBefore);
    let post = |id: &str, group: &str| {
        let post = Post::envelope(id).topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION);
        post.queue(FIFO_DLQ).group(group)
    };
    assert_eq!(world.run([&post("a", "g")]).await.outcomes(), ["a deferred failed"]);
    world.cloud.script(|_| Fault::Pass);
    let ran = world.run([&post("b", "g"), &post("c", "g"), &post("d", "h")]).await;
    assert_eq!(ran.outcomes(), ["b deferred endpoint_down", "c held", "d deferred endpoint_down"]);
    assert_eq!(world.cloud.hidden()["handle-c"], 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_left_out_near_its_end_is_archived() {
    let world = hanging(&json!({})).await;
    let old = |left: i64| Post::envelope("old").sent(NOW - 1_209_600_000 + left);
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
    let world = World::new(&[("REQUEUE_ARN", REQUEUE), ("IN_FLIGHT_LIMIT", "10")]);
    world.cloud.queue("payments-requeue", &[("MessageRetentionPeriod", "1209600")]);
    world.cloud.reply("SendMessageBatch", Fault::HangBefore);
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
    fn busy(status: u16, until: &str) -> Server {
        let answer = WebAnswer::status(status).with("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        let answer = answer.with("retry-after", until);
        Server::scripted(move |_, _| answer.clone())
    }

    fn delays(most: u32) -> Value {
        let healthy =
            json!({ "minDelayTarget": 20, "maxDelayTarget": most, "numRetries": 9, "numNoDelayRetries": 1 });
        json!({ "default": { "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": healthy } } })
    }

    async fn delay(policy: &Value, server: &Server, post: &Post) -> Value {
        let world = world_of(policy, "http", &server.url());
        let ran = world.run([post]).await;
        assert_eq!(ran.outcomes(), ["a deferred failed"], "{}", ran.text);
        ran.letter("a")["delay_s"].clone()
    }

    #[tokio::test]
    async fn a_letter_waits_for_its_schedule_or_as_long_as_the_server_asks() {
        let letter = Post::envelope("a");
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
        let old = Post::envelope("a").sent(NOW - 1_209_600_000 + 3_600_000 + 100_000);
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
        let short = |name: &str| Post::envelope(name).subject("short");
        let ran = world.run([&short("a")]).await;
        assert_eq!(
            (ran.outcomes()[0].as_str(), &ran.letter("a")["delay_s"]),
            ("a deferred failed", &json!(200))
        );
        let ran = world.run([&short("b"), &Post::envelope("c")]).await;
        assert_eq!(ran.outcomes(), ["b deferred endpoint_down", "c deferred endpoint_down"]);
        let left = ran.letter("b")["delay_s"].as_u64().unwrap();
        assert!((100..=200).contains(&left), "{left}");
        assert_eq!(ran.letter("c")["delay_s"], 40);
        world.pass(250);
        let ran = world.run([&short("d"), &Post::envelope("e")]).await;
        assert_eq!(ran.outcomes(), ["d deferred failed", "e deferred endpoint_down"]);
    }

    #[tokio::test]
    async fn a_server_that_takes_other_letters_is_not_left_alone() {
        let server = Server::scripted(|number, _| match number {
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
        assert_eq!(ran.letter("a4")["delay_s"], 40, "its own next retry would be sooner");
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
