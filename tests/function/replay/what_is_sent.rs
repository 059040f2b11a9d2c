use super::*;

#[tokio::test]
async fn a_letter_goes_whole_with_a_fresh_budget_and_the_next_generation() {
    let console = Console::new();
    let post = Post::envelope("a")
        .attribute("note", "Binary", "AAH/")
        .system("AWSTraceHeader", "Root=1-2-3")
        .group("tenant-1")
        .sqs_mark(&json!({ "v": 1, "spent": 12, "id": letter_id("a"), "first": 5, "gen": 0 }));
    console.archive("a", std::slice::from_ref(&post));
    let done = console.run(json!({})).await.unwrap();
    assert_eq!((done.status, done.sent, done.counts.selected), (Status::Done, 1, 1));
    let mark = format!(
        r#"{{"v":2,"spent":0,"id":"{}","first":{START},"gen":1,"msg":"{}","passes":0,"dlq":"{DLQ}"}}"#,
        letter_id("a"),
        digest("message of a"),
    );
    let expected = Entry {
        body: post.body(),
        attributes: BTreeMap::from([
            ("note".to_owned(), attribute("Binary", "AAH/")),
            (MARK_ATTRIBUTE.to_owned(), attribute("String", &mark)),
        ]),
        group: Some("tenant-1".to_owned()),
        trace: Some("Root=1-2-3".to_owned()),
        ..Entry::new("0", "")
    };
    assert_eq!(console.sent(), [expected]);
}

#[tokio::test]
async fn a_letter_that_sqs_had_moved_keeps_its_source() {
    let console = Console::new();
    console.archive("a", &[plain("a").moved_from(BILLING)]);
    console.run(json!({})).await.unwrap();
    assert_eq!(mark_of(&console.sent()[0])["source"], BILLING);
}

/// What is archived out of the requeue lay in another queue before, and its mark says in which.
#[tokio::test]
async fn a_letter_that_comes_back_from_the_requeue_keeps_where_it_came_from_but_not_where_it_was_sent() {
    let console = Console::new();
    let mark = json!({ "v": 1, "spent": 3, "id": "life-long", "first": 7, "gen": 4, "dlq": DLQ,
        "source": BILLING, "due": 9, "to": "topic", "edited": true });
    console.archive("a", &[plain("a").queue(REQUEUE).sqs_mark(&mark)]);
    console.run(json!({})).await.unwrap();
    let expected = json!({ "v": 2, "spent": 0, "id": "life-long", "first": START, "gen": 5, "passes": 0,
        "dlq": DLQ, "source": BILLING, "edited": true });
    assert_eq!(mark_of(&console.sent()[0]), made_for("a", expected));
}

#[tokio::test]
async fn a_replay_can_name_the_target() {
    let console = Console::with_letters(1);
    console.run(json!({ "to": WORKER })).await.unwrap();
    assert_eq!(mark_of(&console.sent()[0])["to"], WORKER);
}

#[tokio::test]
async fn a_letter_that_a_crash_has_archived_twice_goes_once() {
    let console = Console::with_letters(2);
    console.archive("b", &[plain("1"), plain("2")]);
    let done = console.run(json!({})).await.unwrap();
    assert_eq!((done.counts.selected, done.counts.doubles, done.sent), (3, 1, 3));
    assert_eq!(console.bodies(), ["0", "1", "2"]);
    // The same message id in another queue is another message.
    console.archive("c", &[plain("1").queue(BILLING)]);
    console.pass(1);
    assert_eq!(console.run(json!({})).await.unwrap().sent, 1);
}

#[tokio::test]
async fn only_what_is_selected_and_not_what_is_archived_or_stored_after_the_cut_off() {
    let console = Console::new();
    console.archive("a", &[plain("raw"), Post::envelope("sns")]);
    let late = record_at(&plain("archived later"), START - 1000).to_line().unwrap();
    console.archive_lines("b", &late);
    console.cloud.put_at(&object("c"), &line(&plain("stored later")), "2026-11-01T13:00:00.000Z");
    let done = console.run(json!({ "select": { "origins": ["raw"] } })).await.unwrap();
    assert_eq!(console.bodies(), ["raw"]);
    assert_eq!((done.counts.selected, done.cut_off), (1, at(START - 5000)));
}

/// Somebody named the dead-letter queue as the requeue. Nothing is ever sent there.
#[tokio::test]
async fn nothing_goes_back_to_the_dead_letter_queue_that_it_lay_in() {
    let console = Console { requeue: DLQ, ..Console::with_letters(3) };
    let done = console.run(json!({})).await.unwrap();
    assert_eq!((done.sent, done.counts.not_replayable), (0, [("notMoved".to_owned(), 3)].into()));
    assert_eq!(console.cloud.calls("SendMessageBatch"), []);
}

#[tokio::test]
async fn letters_that_cannot_be_put_back_are_counted_and_told_with_their_place_and_do_not_stop_the_rest() {
    let console = Console::new();
    let mut full = plain("full");
    for number in 0..10 {
        full = full.attribute(&format!("a{number}"), "String", "x");
    }
    // It would fit without the mark.
    let large = Post::raw("large", &"x".repeat(1024 * 1024 - 50));
    let fifo = plain("fifo").queue(FIFO_DLQ).group("g");
    let lines = [full, large, fifo, plain("good")].iter().map(line).collect::<String>();
    console.archive_lines("a", &format!("{lines}no json\n"));
    let operator = console.operator();
    let done = console.run_by(&operator, json!({})).await.unwrap();
    assert_eq!(console.bodies(), ["good"]);
    assert_eq!((done.status, done.sent, done.counts.unreadable), (Status::Done, 1, 1));
    let not_replayable = [("otherKind", 1), ("tooLarge", 1), ("unmarkable", 1)];
    assert_eq!(
        done.counts.not_replayable,
        not_replayable.map(|(name, count)| (name.to_owned(), count)).into()
    );
    let key = "dead-letters/queue=orders-dlq/date=2026-11-01/a.jsonl";
    assert_eq!(
        operator.left_out.into_inner().unwrap(),
        [
            format!("{key}:1 carries ten attributes already, so the mark does not fit"),
            format!("{key}:2 is too large with the mark"),
            format!("{key}:3 lay in a FIFO queue and the requeue is none, or the other way round"),
            format!("{key}:5 is not JSON (column 2)"),
        ]
    );
}

#[tokio::test]
async fn letters_without_a_target_are_left_out_where_the_policy_is_known() {
    let policy = json!({ "rules": [
        { "name": "to-billing", "match": { "message": [{ "prefix": "b" }] }, "target": BILLING },
        { "name": "kept", "match": { "message": [{ "prefix": "k" }] }, "action": "archive" },
    ] });
    let policy = Policy::parse(&policy.to_string()).unwrap();
    for (to, sent, without_target) in [
        (Value::Null, &["billing", "kept", "sns"][..], 1),
        // Only an SNS message has a topic. A rule that archives has the last word, but in the requeue.
        (json!("topic"), &["kept", "sns"], 2),
        (json!(WORKER), &["billing", "kept", "raw", "sns"], 0),
    ] {
        let console = Console::new();
        let posts = [plain("billing"), plain("kept"), plain("raw"), Post::envelope("sns")];
        console.archive("a", &posts);
        let request = wish(json!({ "to": to }));
        let replay = console.replay();
        let done = replay.run(&request, &Source::Archive, Some(&policy), &console.operator()).await.unwrap();
        let bodies = console.bodies();
        let sent_ids: Vec<_> =
            posts.iter().filter(|post| bodies.contains(&post.body())).map(|post| post.id.as_str()).collect();
        let mut expected = sent.to_vec();
        expected.sort_unstable();
        assert_eq!(sent_ids, expected, "to {to}");
        assert_eq!(done.counts.not_replayable.values().sum::<u64>(), without_target, "to {to}");
    }
}
