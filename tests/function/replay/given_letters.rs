use super::*;

fn edited<const COUNT: usize>(ids: [&str; COUNT]) -> Vec<InputRecord> {
    let edit = |id: &str| {
        let mut record = record_at(&plain(id), NOW);
        record.message.body = format!("{id}, edited");
        Ok((record, true))
    };
    ids.map(edit).into()
}

async fn run_given(
    world: &ArchiveWorld,
    given: Vec<InputRecord>,
    operator: &TestObserver,
) -> Result<ReplayState, ReplayError> {
    let request = ReplayRequest { ramp: vec![100], rate: 10_000, ..ReplayRequest::default() };
    world.replay().run(&begins(&request), &ReplaySource::Input(given), None, operator).await
}

#[tokio::test(start_paused = true)]
async fn an_edited_letter_goes_as_it_is_now_and_its_mark_says_so() {
    let world = ArchiveWorld::new();
    world.archive("a", &["a", "b", "c"].map(plain));
    let mut given = edited(["a"]);
    given.push(Ok((record_at(&plain("b"), NOW), false)));
    given.push(Err("is not JSON".to_owned()));
    given.push(Ok((record_at(&plain("stranger"), NOW), false)));
    let operator = TestObserver::default();
    let done = run_given(&world, given, &operator).await.unwrap();
    assert_eq!((done.counts.sent, done.counts.unreadable), (2, 1));
    assert_eq!(done.counts.not_replayable, [("notArchived".to_owned(), 1)].into());
    assert_eq!(world.bodies(), ["a, edited", "b"]);
    let marks: Vec<_> = world.sent().iter().map(|entry| mark_of(entry)["edited"].clone()).collect();
    assert_eq!(marks, [json!(true), Value::Null]);
    let told = operator.left_out.into_inner().unwrap();
    assert_eq!(
        told,
        [
            "line 3 is not JSON",
            "line 4 was not found in the archive by its archivedAt, queues and messageId: give records of this archive, with these as they were"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_letter_with_ten_attributes_goes_without_the_one_that_an_edit_removed() {
    let world = ArchiveWorld::new();
    let full = (0..10).fold(plain("a"), |post, number| post.attribute(&format!("a{number}"), "String", "x"));
    world.archive("a", std::slice::from_ref(&full));
    assert_eq!(
        world.run(json!({})).await.unwrap().counts.not_replayable,
        [("unmarkable".to_owned(), 1)].into()
    );
    let mut record = record_at(&full, NOW);
    record.message.message_attributes.remove("a3");
    let done = run_given(&world, vec![Ok((record, true))], &TestObserver::default()).await.unwrap();
    assert_eq!(done.counts.sent, 1);
    let sent: Vec<_> = world.sent()[0].attributes.keys().cloned().collect();
    assert_eq!(sent, ["a0", "a1", "a2", "a4", "a5", "a6", "a7", "a8", "a9", MARK_ATTRIBUTE]);
}

#[tokio::test(start_paused = true)]
async fn never_both_in_either_order() {
    let world = ArchiveWorld::with_letters(2);
    run_given(&world, edited(["0"]), &TestObserver::default()).await.unwrap();
    let done = world.run(json!({})).await.unwrap();
    assert_eq!((done.counts.sent, done.counts.already_replayed), (1, 1));
    let world = ArchiveWorld::with_letters(2);
    world.run(json!({ "select": { "match": { "message": [0] } } })).await.unwrap();
    let done = run_given(&world, edited(["0", "1", "1"]), &TestObserver::default()).await.unwrap();
    assert_eq!((done.counts.sent, done.counts.already_replayed, done.counts.doubles), (1, 1, 1));
    assert_eq!(world.bodies(), ["0", "1, edited"]);
}

#[tokio::test(start_paused = true)]
async fn they_go_on_with_the_same_records_only() {
    let world = ArchiveWorld::with_letters(30);
    let ids: [String; 30] = std::array::from_fn(|id| id.to_string());
    let given = edited(std::array::from_fn::<_, 30, _>(|id| ids[id].as_str()));
    let operator = TestObserver { stop_at: Some(10), ..TestObserver::default() };
    let request = ReplayRequest { ramp: vec![100], rate: 10, ..ReplayRequest::default() };
    let source = ReplaySource::Input(given);
    let replay = world.replay();
    let paused = replay.run(&begins(&request), &source, None, &operator).await.unwrap();
    assert_eq!(paused.status, ReplayStatus::Running);
    let go_on = async |source: &ReplaySource| {
        replay.run(&resumes(&resume(&paused.id)), source, None, &TestObserver::default()).await
    };
    let why = "bad request: the records must be the same as when the replay began";
    assert_eq!(go_on(&ReplaySource::Archive).await.unwrap_err().to_string(), why);
    assert_eq!(go_on(&ReplaySource::Input(edited(["0"]))).await.unwrap_err().to_string(), why);
    let done = go_on(&source).await.unwrap();
    assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 30));
    assert!(world.bodies().iter().all(|body| body.ends_with(", edited")));
    assert_eq!(world.sent().len(), 30);
}

/// Records that S3 does not show now are not missing.
#[tokio::test(start_paused = true)]
async fn an_archive_that_is_out_of_sight_is_not_one_without_them() {
    for fault in [SimFault::Unavailable, SimFault::Denied] {
        let world = ArchiveWorld::with_letters(2);
        world.faults(move |call| if call.target.contains("Z-a.") { fault.clone() } else { SimFault::Pass });
        let failed = run_given(&world, edited(["0"]), &TestObserver::default()).await.unwrap_err();
        assert!(failed.to_string().starts_with("reading dead-letters/"), "{failed}");
        world.no_faults();
        assert_eq!(run_given(&world, edited(["0"]), &TestObserver::default()).await.unwrap().counts.sent, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn they_are_not_selected_from() {
    for request in [json!({ "select": { "origins": ["raw"] } }), json!({ "cutOff": "2026-11-01T12:00:00Z" })]
    {
        let world = ArchiveWorld::new();
        let request = ReplayRequest::from_json(request).unwrap();
        let source = ReplaySource::Input(edited(["a"]));
        let refused = world.replay().run(&begins(&request), &source, None, &TestObserver::default()).await;
        let expected = "bad request: select, cutOff: must not be given together with records";
        assert_eq!(refused.unwrap_err().to_string(), expected);
    }
}

const OTHER_TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:stock";

/// An edit of one of [`posts_to_edit`], by its number.
type RecordEdit = (usize, fn(&mut ArchiveRecord));

fn posts_to_edit() -> [RecordBuilder; 4] {
    let mark = json!({ "v": 2, "spent": 3, "id": "c", "first": 7, "gen": 0, "passes": 1, "dlq": DLQ });
    [
        RecordBuilder::envelope("a"),
        plain("b").attribute("tenant", "String", "gold"),
        plain("c").queue(REQUEUE).sqs_mark(&mark),
        plain("d"),
    ]
}

/// Edits the SNS envelope of a record.
fn edit_envelope(record: &mut ArchiveRecord, edit: impl FnOnce(&mut Value)) {
    let mut body = serde_json::from_str(&record.message.body).unwrap();
    edit(&mut body);
    record.message.body = format!("{body:#}");
}

/// Gives an edited letter to a replay, and returns whether it was sent, and why not.
async fn gives(
    world: &ArchiveWorld,
    (post, edit): RecordEdit,
) -> (usize, BTreeMap<String, u64>, Vec<String>) {
    let mut record = record_at(&posts_to_edit()[post], NOW);
    edit(&mut record);
    let request = ReplayRequest { ramp: vec![100], rate: 10_000, again: true, ..ReplayRequest::default() };
    let operator = TestObserver::default();
    let source = ReplaySource::Input(vec![Ok((record, true))]);
    let before = world.sent().len();
    let done = world.replay().run(&begins(&request), &source, None, &operator).await.unwrap();
    (world.sent().len() - before, done.counts.not_replayable, operator.left_out.into_inner().unwrap())
}

#[tokio::test(start_paused = true)]
async fn an_edit_changes_body_subject_and_attributes() {
    let world = ArchiveWorld::new();
    world.archive("a", &posts_to_edit());
    let edits: [RecordEdit; 2] = [
        (0, |record| {
            edit_envelope(record, |body| {
                body["Message"] = "mended".into();
                body["Subject"] = "another".into();
                body["MessageAttributes"] = json!({ "tenant": { "Type": "String", "Value": "silver" } });
            });
        }),
        (1, |record| {
            record.message.body = "mended".to_owned();
            let tenant = record.message.message_attributes.get_mut("tenant").unwrap();
            tenant.string_value = Some("silver".to_owned());
        }),
    ];
    for edit in edits {
        assert_eq!(gives(&world, edit).await, (1, BTreeMap::new(), Vec::new()));
    }
}

/// Anyone who writes the file would choose the queue, the sender or the number of a letter.
#[tokio::test(start_paused = true)]
async fn an_edit_changes_nothing_that_names_a_queue_a_topic_a_subscription_or_a_retry() {
    let world = ArchiveWorld::new();
    world.archive("a", &posts_to_edit());
    let edits: &[RecordEdit] = &[
        (0, |record| edit_envelope(record, |body| body["TopicArn"] = OTHER_TOPIC.into())),
        (0, |record| {
            edit_envelope(record, |body| {
                let link = body["UnsubscribeURL"].as_str().unwrap().replace("payments", "stock");
                body["UnsubscribeURL"] = link.into();
            });
        }),
        (0, |record| {
            edit_envelope(record, |body| {
                let forged = json!({ "v": 2, "spent": 0, "id": "x" }).to_string();
                body["MessageAttributes"] =
                    json!({ (MARK_ATTRIBUTE): { "Type": "String", "Value": forged } });
            });
        }),
        (1, |record| record.message.body = redrive_support::letter(&RecordBuilder::envelope("a")).sqs.body),
        (1, |record| {
            let function = WORKER.replace(":sqs:", ":lambda:");
            let context = json!({ "functionArn": function, "condition": "RetriesExhausted" });
            record.message.body = json!({ "requestContext": context, "requestPayload": {} }).to_string();
        }),
        (2, |record| {
            let forged =
                json!({ "v": 2, "spent": 0, "id": "c", "first": 7, "gen": 0, "passes": 1, "dlq": BILLING });
            let mark = record.message.message_attributes.get_mut(MARK_ATTRIBUTE).unwrap();
            mark.string_value = Some(forged.to_string());
        }),
        (3, |record| {
            record.message.attributes.insert("DeadLetterQueueSourceArn".to_owned(), BILLING.to_owned());
        }),
        (3, |record| {
            record.message.attributes.insert("SenderId".to_owned(), "somebody".to_owned());
        }),
        (3, |record| record.dead_letter_queue_arn = arn(BILLING)),
        (3, |record| record.message.event_source_arn = arn(BILLING)),
        (3, |record| record.letter_id = "another".to_owned()),
        (3, |record| record.subscription_arn = Some(arn(OTHER_TOPIC))),
        (3, |record| record.target_arn = Some(arn(BILLING))),
    ];
    for (number, edit) in edits.iter().enumerate() {
        let (sent, left_out, told) = gives(&world, *edit).await;
        assert_eq!(left_out, [("changed".to_owned(), 1)].into(), "{number}: {sent} sent");
        assert!(sent == 0 && told[0].starts_with("line 1 differs from the archive in"), "{number}: {told:?}");
    }
}
