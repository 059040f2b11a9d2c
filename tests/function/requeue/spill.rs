use super::*;

#[tokio::test]
async fn a_long_wait_is_moved_where_half_of_the_limit_is_in_flight() {
    let world = world("60000");
    let post = RecordBuilder::envelope("a")
        .subject("S")
        .attribute("note", "Binary", "AAH/")
        .system("AWSTraceHeader", "Root=1-2-3");
    let ran = world.run([&post]).await;
    let due = NOW + 6 * HOUR * 1000;
    assert_eq!(outcome(&ran, "a"), json!(["requeued", "failed", 1, 900, at(due).to_string()]));
    assert_eq!(ran.kept, [""; 0], "Lambda may delete it");
    assert_eq!(world.cloud.calls("ChangeMessageVisibilityBatch"), []);
    let [entry] = &sent_to_requeue(&world)[..] else { panic!("one message") };
    let mark = format!(
        r#"{{"v":2,"spent":1,"id":"{}","first":{NOW},"gen":0,"msg":"{}","passes":0,"dlq":"{DLQ}","due":{due}}}"#,
        letter_id("a"),
        digest("message of a"),
    );
    assert_eq!(
        *entry,
        SimEntry {
            body: post.body(),
            attributes: BTreeMap::from([
                ("note".to_owned(), attribute("Binary", "AAH/")),
                (MARK_ATTRIBUTE.to_owned(), attribute("String", &mark)),
            ]),
            trace: Some("Root=1-2-3".to_owned()),
            delay: Some(900),
            ..SimEntry::new("0", "")
        }
    );
    assert_eq!(
        (ran.metrics()["LettersRequeued"].clone(), ran.metrics()["LettersInFlight"].clone()),
        (json!(1), json!(60_000))
    );
}

#[tokio::test]
async fn below_half_of_the_limit_it_is_hidden_and_the_requeue_is_not_even_asked() {
    let world = world("59999");
    let ran = world.run([&RecordBuilder::envelope("a")]).await;
    assert_eq!(ran.letter("a")["outcome"], "deferred");
    assert_eq!(sent_to_requeue(&world), []);
    assert_eq!(world.cloud.calls("GetQueueAttributes").len(), 1);
    assert_eq!(warnings(&ran), [""; 0]);
}

/// Letters that are hidden in this batch fill the queue too, and other instances do the same.
#[tokio::test]
async fn what_was_hidden_since_the_reading_counts_for_every_instance() {
    let settings = [("IN_FLIGHT_LIMIT", "40"), ("MAX_CONCURRENCY", "2")];
    let world = world_with(&six_hours(), REQUEUE, "10", &settings);
    let posts: Vec<_> = (0..10).map(|index| RecordBuilder::envelope(&format!("l{index}"))).collect();
    let ran = world.run(&posts).await;
    // Two mappings with two instances each: every letter that is hidden here counts as four.
    assert_eq!(ran.kept.len(), 3);
    assert_eq!(sent_to_requeue(&world).len(), 7);
    assert_eq!(ran.metrics()["LettersInFlight"], 22);
}

/// They are hidden instead, so they fill the queue.
#[tokio::test]
async fn what_the_requeue_refused_counts_as_hidden() {
    let settings = [("IN_FLIGHT_LIMIT", "40"), ("MAX_CONCURRENCY", "2")];
    let world = world_with(&six_hours(), REQUEUE, "20", &settings);
    world.cloud.script(|call| match call.operation.as_str() {
        "SendMessageBatch" => SimFault::refuse(503, "ServiceUnavailable", "oh"),
        _ => SimFault::Pass,
    });
    let posts: Vec<_> = (0..5).map(|index| RecordBuilder::envelope(&format!("l{index}"))).collect();
    let ran = world.run(&posts).await;
    assert_eq!(warnings(&ran)[0], REFUSED);
    assert_eq!(ran.metrics()["LettersInFlight"], 40, "{}", ran.text);
}

#[tokio::test]
async fn the_number_in_flight_is_read_once_a_minute_and_sooner_only_where_it_is_tight() {
    let readings = |world: &FunctionWorld| {
        world.cloud.calls("GetQueueAttributes").iter().filter(|call| call.target == "payments-dlq").count()
    };
    for (in_flight, expected) in [("0", [1, 1, 1, 2]), ("60000", [1, 1, 2, 3])] {
        let world = world(in_flight);
        let mut seen = Vec::new();
        for pass in [0, 5, 10, 50] {
            world.pass(pass);
            world.run([&RecordBuilder::envelope("a").sent(NOW)]).await;
            seen.push(readings(&world));
        }
        assert_eq!(seen, expected, "{in_flight} in flight");
    }
}

#[tokio::test]
async fn nothing_is_said_of_a_crowd_while_no_letter_has_to_move() {
    let world = world_with(&six_hours(), "", "119000", &[]);
    up(&world);
    let ran = world.run([&RecordBuilder::envelope("a")]).await;
    assert_eq!((ran.outcomes(), warnings(&ran)), (vec!["a delivered".to_owned()], Vec::new()));
    down(&world);
    assert_eq!(warnings(&world.run([&RecordBuilder::envelope("a")]).await), [CROWDED]);
}

/// Over its whole wait a letter is moved every 15 minutes, without an attempt in between, and is retried at
/// its time.
#[tokio::test]
async fn moving_on_costs_no_attempt_and_shifts_no_point() {
    let world = world("119000");
    world.run([&RecordBuilder::envelope("a")]).await;
    let mut entry = sent_to_requeue(&world).remove(0);
    let first_mark = mark_of(&entry);
    let due = NOW + 6 * HOUR * 1000;
    let mut now = NOW;
    for move_on in 1..24 {
        let post = from_requeue(&entry, now);
        now += 900_000;
        world.set_now(now);
        world.cloud.forget();
        let ran = world.run([&post]).await;
        let expected = json!(["requeued", "early", null, 900, at(due).to_string()]);
        assert_eq!(outcome(&ran, "moved"), expected, "move {move_on}");
        assert_eq!(world.cloud.calls("SendMessageBatch").len(), 1, "only the move");
        entry = sent_to_requeue(&world).remove(0);
        assert_eq!(mark_of(&entry), first_mark);
    }
    let post = from_requeue(&entry, now);
    world.set_now(now + 900_000);
    assert_eq!(now + 900_000, due);
    up(&world);
    world.cloud.forget();
    let ran = world.run([&post]).await;
    assert_eq!(outcome(&ran, "moved"), json!(["delivered", null, 2, null, null]));
    let [delivered] = &world.cloud.calls("SendMessageBatch")[..] else { panic!("one") };
    assert_eq!(
        (delivered.target.as_str(), delivered.entries[0].body.as_str()),
        ("payments-worker", &*RecordBuilder::envelope("a").body())
    );
    let mark = mark_of(&delivered.entries[0]);
    let sent = json!({ "v": 2, "spent": 2, "id": letter_id("a"), "first": NOW, "gen": 0, "passes": 1 });
    assert_eq!(mark, made_for("message of a", sent));
}

#[tokio::test]
async fn in_a_requeue_with_room_it_is_hidden_for_the_rest_of_its_wait() {
    let world = world("60000");
    world.run([&RecordBuilder::envelope("a")]).await;
    let post = from_requeue(&sent_to_requeue(&world)[0], NOW);
    world.cloud.queue("payments-requeue", &[("MessageRetentionPeriod", TWO_WEEKS)]);
    world.pass(900);
    let ran = world.run([&post]).await;
    let due = at(NOW + 6 * HOUR * 1000).to_string();
    assert_eq!(outcome(&ran, "moved"), json!(["deferred", "early", null, 20_700, due]));
    assert_eq!(world.cloud.hidden()["handle-moved"], 20_700);
}

#[tokio::test]
async fn a_letter_that_its_rule_holds_moves_without_a_due_time_or_a_retry() {
    let world = world_with(&json!({ "default": { "action": "hold" } }), REQUEUE, "60000", &[]);
    let ran = world.run([&RecordBuilder::envelope("a")]).await;
    assert_eq!(ran.outcomes(), ["a requeued hold"]);
    let mark = mark_of(&sent_to_requeue(&world)[0]);
    assert_eq!(
        mark,
        made_for(
            "message of a",
            json!({ "v": 2, "spent": 0, "id": letter_id("a"), "first": NOW, "gen": 0, "passes": 0, "dlq": DLQ })
        )
    );
}

/// A letter that its rule held was not tried, and earlier tries still count.
#[tokio::test]
async fn a_held_letter_keeps_the_retries_that_it_has_behind_it_when_it_moves() {
    let world = world_with(&json!({ "default": { "action": "hold" } }), REQUEUE, "60000", &[]);
    // Retries 1 to 4 of the built-in schedule, at 0, 60, 120 and 180 s, are behind it.
    let post = RecordBuilder::envelope("a").sent(NOW - 200_000).received(5);
    world.run([&post]).await;
    assert_eq!(mark_of(&sent_to_requeue(&world)[0])["spent"], 4);
}

#[tokio::test]
async fn a_rule_sees_the_letter_as_before_it_moved() {
    let mut policy = six_hours();
    policy["rules"] = json!([
        { "name": "again", "match": { "retry": [{ "numeric": [">", 0] }] }, "action": "archive" },
    ]);
    for post in [RecordBuilder::envelope("a"), RecordBuilder::raw("a", "x").attribute("n", "String", "v")] {
        let mut policy = policy.clone();
        policy["default"]["subscription"] = json!(SUBSCRIPTION);
        let world = world_with(&policy, REQUEUE, "60000", &[]);
        assert_eq!(world.run([&post]).await.outcomes(), ["a requeued failed"]);
        let entry = &sent_to_requeue(&world)[0];
        assert_eq!(mark_of(entry)["spent"], 1);
        let ran = world.run([&from_requeue(entry, NOW)]).await;
        assert_eq!(ran.letter("moved")["rule"], "default");
    }
    // The letter was sent before and came back. That is an earlier pass, and stays one.
    let mark = json!({ "v": 2, "spent": 1, "id": letter_id("a"), "first": NOW, "gen": 0 });
    policy["rules"][0]["action"] = json!("redrive");
    let world = world_with(&policy, REQUEUE, "60000", &[]);
    assert_eq!(world.run([&RecordBuilder::envelope("a").mark(&mark)]).await.outcomes(), ["a requeued early"]);
    let entry = &sent_to_requeue(&world)[0];
    assert_eq!(mark_of(entry)["earlier"], 1);
    assert_eq!(world.run([&from_requeue(entry, NOW)]).await.letter("moved")["rule"], "again");
}

#[tokio::test]
async fn observe_mode_moves_nothing() {
    let world = world_with(&six_hours(), REQUEUE, "119000", &[("REDRIVE_MODE", "observe")]);
    assert_eq!(world.run([&RecordBuilder::envelope("a")]).await.outcomes(), ["a observed"]);
    assert_eq!(sent_to_requeue(&world), []);
}
