use super::*;

#[tokio::test(start_paused = true)]
async fn a_letter_goes_whole_with_a_fresh_budget_and_the_next_generation() {
    let world = ArchiveWorld::new();
    let post = RecordBuilder::envelope("a")
        .attribute("note", "Binary", "AAH/")
        .attribute("photo", "Binary.png", "AAH/")
        .system("AWSTraceHeader", "Root=1-2-3")
        .group("tenant-1")
        .sqs_mark(&json!({ "v": 2, "spent": 12, "id": letter_id("a"), "first": 5, "gen": 0 }));
    world.archive("a", std::slice::from_ref(&post));
    let done = world.run(json!({})).await.unwrap();
    assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 1));
    let [sent] = &world.sent()[..] else { panic!("one letter") };
    let mut mark = mark_of(sent);
    let first = mark["first"].take();
    let expected = json!({ "v": 2, "spent": 0, "id": letter_id("a"), "first": null, "gen": 1,
        "msg": digest("message of a"), "passes": 0, "dlq": DLQ });
    assert_eq!(mark, expected);
    assert!(first.as_i64().unwrap() >= START, "it arrives anew: {first}");
    assert_eq!(sent.body, post.body());
    // A type may have a name of the sender's behind it: <https://docs.aws.amazon.com/sns/latest/dg/sns-message-attributes.html>
    for (name, kind) in [("note", "Binary"), ("photo", "Binary.png")] {
        let bytes = SimAttribute { kind: kind.to_owned(), value: SimAttributeValue::Bytes(vec![0, 1, 255]) };
        assert_eq!(sent.attributes[name], bytes);
    }
    assert_eq!(sent.attributes.len(), 3);
    assert_eq!(sent.group.as_deref(), Some("tenant-1"));
    assert_eq!(sent.trace.as_deref(), Some("Root=1-2-3"));
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_sqs_had_moved_keeps_its_source() {
    let world = ArchiveWorld::new();
    world.archive("a", &[plain("a").moved_from(BILLING)]);
    world.run(json!({})).await.unwrap();
    assert_eq!(mark_of(&world.sent()[0])["source"], BILLING);
}

/// A letter that is archived from the requeue was in another queue before, which its mark names.
#[tokio::test(start_paused = true)]
async fn a_letter_that_comes_back_from_the_requeue_keeps_where_it_came_from_but_not_where_it_was_sent() {
    let mark = json!({ "v": 2, "spent": 3, "id": "life-long", "first": 7, "gen": 4, "dlq": DLQ,
        "source": BILLING, "due": 9, "to": "topic", "edited": true });
    // The stack can have had another requeue then.
    for requeue in [REQUEUE, "arn:aws:sqs:eu-central-1:123456789012:an-older-requeue"] {
        let world = ArchiveWorld::new();
        world.archive("a", &[plain("a").queue(requeue).sqs_mark(&mark)]);
        world.run(json!({})).await.unwrap();
        let mut mark = mark_of(&world.sent()[0]);
        mark["first"] = 0.into();
        let expected = json!({ "v": 2, "spent": 0, "id": "life-long", "first": 0, "gen": 5, "passes": 0,
            "dlq": DLQ, "source": BILLING, "edited": true });
        assert_eq!(mark, made_for("a", expected), "{requeue}");
    }
}

/// Anybody who sends to a queue can write a mark.
#[tokio::test(start_paused = true)]
async fn a_letter_does_not_get_its_dead_letter_queue_from_a_forged_mark() {
    let world = ArchiveWorld::new();
    let mark =
        json!({ "v": 2, "spent": 3, "id": "a", "first": 7, "gen": 4, "dlq": BILLING, "source": BILLING });
    world.archive("a", &[plain("a").sqs_mark(&mark)]);
    world.run(json!({})).await.unwrap();
    let mark = mark_of(&world.sent()[0]);
    assert_eq!((&mark["dlq"], mark.get("source")), (&json!(DLQ), None));
}

#[tokio::test(start_paused = true)]
async fn a_replay_can_name_the_target() {
    let world = ArchiveWorld::with_letters(1);
    world.run(json!({ "to": WORKER })).await.unwrap();
    assert_eq!(mark_of(&world.sent()[0])["to"], WORKER);
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_a_crash_has_archived_twice_goes_once() {
    let world = ArchiveWorld::with_letters(2);
    world.archive("b", &[plain("1"), plain("2")]);
    let done = world.run(json!({})).await.unwrap();
    assert_eq!((done.letters, done.counts.doubles, done.counts.sent), (4, 1, 3));
    assert_eq!(world.bodies(), ["0", "1", "2"]);
    // The same message id in another queue is another message.
    world.archive("c", &[plain("1").queue(BILLING)]);
    assert_eq!(world.run(json!({})).await.unwrap().counts.sent, 1);
}

#[tokio::test(start_paused = true)]
async fn only_what_is_selected_and_not_what_is_archived_or_stored_after_the_cut_off() {
    let world = ArchiveWorld::new();
    world.archive("a", &[plain("raw"), RecordBuilder::envelope("sns")]);
    let late = record_at(&plain("archived later"), START - 1000).to_line().unwrap();
    world.archive_lines("b", &late);
    world.put(&object("c"), &line(&plain("stored later")), START);
    let done = world.run(json!({ "select": { "origins": ["raw"] } })).await.unwrap();
    assert_eq!(world.bodies(), ["raw"]);
    assert_eq!(done.cut_off, at(START - 5000));
}

/// Somebody named the dead-letter queue as the requeue. Letters are never sent there.
#[tokio::test(start_paused = true)]
async fn nothing_goes_back_to_the_dead_letter_queue_that_it_lay_in() {
    let world = ArchiveWorld { requeue: DLQ, ..ArchiveWorld::with_letters(3) };
    let done = world.run(json!({})).await.unwrap();
    assert_eq!((done.counts.sent, done.counts.not_replayable), (0, [("notMoved".to_owned(), 3)].into()));
    assert_eq!(world.calls("SendMessageBatch"), []);
}

#[tokio::test(start_paused = true)]
async fn a_queue_without_the_tag_of_a_requeue_is_refused() {
    let world = ArchiveWorld { requeue: BILLING, ..ArchiveWorld::new() };
    let said = world.replay().check_requeue().await.unwrap_err().to_string();
    let expected = "arn:aws:sqs:eu-central-1:123456789012:payments-billing has no tag sns-redrive=requeue, so it may not \
                    be the function's requeue. If it is, tag it: aws sqs tag-queue --queue-url";
    assert!(said.contains(expected), "{said}");
    assert_eq!(ArchiveWorld::new().replay().check_requeue().await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn letters_that_cannot_be_put_back_are_counted_and_told_with_their_place_and_do_not_stop_the_rest() {
    let world = ArchiveWorld::new();
    let mut full = plain("full");
    for number in 0..10 {
        full = full.attribute(&format!("a{number}"), "String", "x");
    }
    // Without the mark it would fit.
    let large = RecordBuilder::raw("large", &"x".repeat(1024 * 1024 - 50));
    let fifo = plain("fifo").queue(FIFO_DLQ).group("g");
    let lines = [full, large, fifo, plain("good")].iter().map(line).collect::<String>();
    world.archive_lines("a", &format!("{lines}no json\n"));
    let operator = TestObserver::default();
    let done = world.run_by(&operator, json!({})).await.unwrap();
    assert_eq!(world.bodies(), ["good"]);
    assert_eq!((done.status, done.counts.sent, done.counts.unreadable), (ReplayStatus::Done, 1, 1));
    assert!(!done.counts.is_whole());
    let not_replayable = [("otherKind", 1), ("tooLarge", 1), ("unmarkable", 1)];
    let not_replayable = not_replayable.map(|(name, count)| (name.to_owned(), count)).into();
    assert_eq!(done.counts.not_replayable, not_replayable);
    let key = object("a");
    let mut told = operator.left_out.into_inner().unwrap();
    told.sort();
    assert_eq!(
        told,
        [
            format!(
                "{key}:1 has ten attributes already, so the mark does not fit: edit the letter to remove one"
            ),
            format!("{key}:2 is larger than 1 MiB with the mark: edit the letter to shorten its body"),
            format!(
                "{key}:3 comes from a FIFO queue, but the requeue is a standard queue, or the other way round: replay it by a stack whose Requeue is of its kind"
            ),
            format!("{key}:5 is not JSON (column 2)"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn letters_without_a_target_are_left_out_where_the_policy_is_known() {
    let policy = json!({ "rules": [
        { "name": "to-billing", "match": { "message": [{ "prefix": "b" }] }, "target": BILLING },
        { "name": "kept", "match": { "message": [{ "prefix": "k" }] }, "action": "archive" },
    ] });
    let policy = Policy::parse(&policy.to_string()).unwrap();
    for (to, sent, without_target) in [
        (Value::Null, &["billing", "kept", "sns"][..], 1),
        // Only an SNS message has a topic. A rule that archives decides, except in the requeue.
        (json!("topic"), &["kept", "sns"], 2),
        (json!(WORKER), &["billing", "kept", "raw", "sns"], 0),
    ] {
        let world = ArchiveWorld::new();
        let posts = [plain("billing"), plain("kept"), plain("raw"), RecordBuilder::envelope("sns")];
        world.archive("a", &posts);
        let request = wish(json!({ "to": to }));
        let operator = TestObserver::default();
        let done = world
            .replay()
            .run(&begins(&request), &ReplaySource::Archive, Some(&policy), &operator)
            .await
            .unwrap();
        let bodies = world.bodies();
        let mut sent_ids: Vec<_> =
            posts.iter().filter(|post| bodies.contains(&post.body())).map(|post| post.id.as_str()).collect();
        sent_ids.sort_unstable();
        assert_eq!(sent_ids, sent, "to {to}");
        assert_eq!(done.counts.not_replayable.values().sum::<u64>(), without_target, "to {to}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_whole_archive_goes_only_where_that_is_said() {
    let world = ArchiveWorld::with_letters(2);
    let request = ReplayRequest::from_json(json!({ "dryRun": true })).unwrap();
    let refused =
        world.replay().dry_run(&request, &ReplaySource::Archive, None, &TestObserver::default()).await;
    let why = "select: is empty, which selects the whole archive: to confirm that, set all to true";
    assert_eq!(refused, Err(ReplayError::Request(vec![why.to_owned()])));
    let request = ReplayRequest::from_json(json!({ "dryRun": true, "all": true })).unwrap();
    let counted =
        world.replay().dry_run(&request, &ReplaySource::Archive, None, &TestObserver::default()).await;
    assert_eq!(counted.unwrap().counts.sent, 2);
}
