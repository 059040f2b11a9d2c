use super::*;

#[tokio::test]
async fn a_letter_that_the_archive_did_not_take_stays_in_its_queue() {
    let world = FunctionWorld::new(&[]);
    world.cloud.reply("PutObject", SimFault::refuse(403, "AccessDenied", "no s3:PutObject"));
    let ran = world
        .run([&RecordBuilder::raw("r", "x"), &RecordBuilder::envelope("a"), &RecordBuilder::raw("s", "y")])
        .await;
    assert_eq!(ran.outcomes(), ["r failed archive", "a delivered", "s failed archive"]);
    assert_eq!(ran.kept, ["r", "s"]);
    let line = ran.letter("r");
    assert_eq!(
        [&line["level"], &line["undone.code"], &line["undone.class"], &line["undone.message"]],
        [&json!("ERROR"), &json!("AccessDenied"), &json!("action_required"), &json!("no s3:PutObject")]
    );
    let hidden = [("handle-r".to_owned(), 1), ("handle-s".to_owned(), 1)];
    assert_eq!(world.cloud.hidden(), hidden.into());
    assert_eq!([&line["reason"], &line["delay_s"]], [&json!("archive"), &json!(1)]);
}

#[tokio::test]
async fn one_letter_that_an_archive_queue_did_not_take_stays_and_the_others_go() {
    let world = FunctionWorld::new(&[("ARCHIVE", ARCHIVE_QUEUE)]);
    world
        .cloud
        .script(|call| SimFault::except(call, "poison", EntryFault::sender("InvalidMessageContents", "")));
    let ran = world
        .run([
            &RecordBuilder::raw("r", "x"),
            &RecordBuilder::raw("p", "poison"),
            &RecordBuilder::raw("s", "y"),
        ])
        .await;
    assert_eq!(ran.outcomes(), ["r archived unrecognised", "p failed archive", "s archived unrecognised"]);
    assert_eq!(ran.kept, ["p"]);
}

/// Letters would circulate in it for ever, and Lambda would delete each once it is "archived".
#[tokio::test]
async fn an_archive_that_is_the_dead_letter_queue_itself_is_refused_and_letters_stay() {
    let world = FunctionWorld::new(&[("ARCHIVE", DLQ)]);
    let ran = world.run([&RecordBuilder::raw("r", "x"), &RecordBuilder::envelope("a")]).await;
    assert_eq!(ran.outcomes(), ["r failed archive", "a delivered"]);
    assert_eq!(ran.kept, ["r"]);
    let line = ran.letter("r");
    assert_eq!(
        [&line["undone.code"], &line["undone.class"]],
        [&json!("ArchiveIsDeadLetterQueue"), &json!("action_required")]
    );
    let sent: Vec<_> = world.cloud.calls("SendMessageBatch").iter().map(SimCall::summary).collect();
    assert_eq!(sent, ["SendMessageBatch payments-worker 1"]);
}

#[tokio::test]
async fn each_reason_is_in_its_record() {
    let policy = json!({
        "default": {},
        "rules": [
            { "name": "never", "match": { "messageAttributes": { "audit": ["yes"] } }, "action": "archive" },
            { "name": "topic", "match": { "messageAttributes": { "to": ["topic"] } }, "target": "topic" },
            { "name": "closed", "match": { "messageAttributes": { "to": ["closed"] } },
              "target": "topic", "allowTargets": [BILLING] },
            { "name": "any", "match": { "messageAttributes": { "to": ["any"] } }, "target": TOPIC },
        ],
    });
    let settings = [
        ("REDRIVE_POLICY", policy.to_string()),
        ("CONTROL", "s3://payments".to_owned()),
        ("WAITING_LIST", "off".to_owned()),
    ];
    let world = FunctionWorld::new(&settings.each_ref().map(|(name, value)| (*name, value.as_str())));
    let override_ = json!({ "id": "o", "do": "give-up", "match": { "messageAttributes": { "override": ["archive"] } },
        "at": "2026-11-01T12:00:00Z", "by": "ada", "why": "w" });
    world
        .cloud
        .put("payments/overrides.json", &json!({ "version": 1, "overrides": [override_] }).to_string());
    let full = (0..10).fold(RecordBuilder::envelope("unmarkable"), |post, number| {
        post.sns_attribute(&format!("a{number}"), "String", "x")
    });
    let full = full.sns_attribute("to", "String", "topic");
    let posts = [
        RecordBuilder::envelope("exhausted").mark(&mark(12, "x", NOW)),
        // 13 days and 23 hours of 14 days are over, and the next retry is in an hour.
        RecordBuilder::envelope("expiring").mark(&mark(7, "x", NOW)).sent(NOW - (14 * 24 - 1) * 3_600_000),
        RecordBuilder::envelope("rule").sns_attribute("audit", "String", "yes"),
        RecordBuilder::envelope("given-up").sns_attribute("override", "String", "archive"),
        RecordBuilder::raw("unrecognised", "x"),
        RecordBuilder::envelope("undeliverable_protocol").subscription(OTHER_SUBSCRIPTION),
        RecordBuilder::envelope("refused").sns_attribute("to", "String", "closed"),
        RecordBuilder::envelope("permanent"),
        full,
        RecordBuilder::raw("returned", "x")
            .attribute("to", "String", "any")
            .mark(&json!({ "v": 2, "spent": 1, "id": "x", "first": NOW, "passes": 1, "pub": 1 })),
        RecordBuilder::envelope("loop").mark(&made_for(
            "another",
            json!({ "v": 2, "spent": 1, "id": "x", "first": NOW, "passes": 100 }),
        )),
    ];
    world.cloud.subscribe_endpoint(OTHER_SUBSCRIPTION, TOPIC, "email", "payments@example.com", DLQ);
    world.cloud.script(|call| match call.operation.as_str() {
        "SendMessageBatch" => {
            let mut fates: Vec<_> = Vec::new();
            for index in call.entries_with("message of permanent") {
                fates.push((index, EntryFault::sender("InvalidMessageContents", "")));
            }
            for index in call.entries_with("message of expiring") {
                fates.push((index, EntryFault::service("InternalError", "")));
            }
            SimFault::Entries(fates)
        }
        _ => SimFault::Pass,
    });
    let ran = world.run(&posts).await;
    assert_eq!(ran.kept, [""; 0]);
    let lines = lines(&world.cloud);
    let told: Vec<_> = lines.iter().map(|line| (&line["message"]["messageId"], &line["reason"])).collect();
    assert!(told.iter().all(|(id, reason)| id == reason), "{told:?}");
    assert_eq!(lines.len(), ArchiveReason::ALL.len());
    assert_eq!(world.cloud.calls("PutObject").len(), 1);
    let line = |reason: &str| lines.iter().find(|line| line["reason"] == reason).unwrap();
    assert_eq!(line("permanent")["retry"], json!({ "number": 1, "of": 12 }));
    assert_eq!(line("permanent")["error"], json!({ "code": "InvalidMessageContents", "class": "permanent" }));
    assert_eq!(line("permanent")["targetArn"], WORKER);
    assert_eq!(line("refused")["rule"], "closed");
    assert_eq!(
        line("refused")["detail"],
        "the target is not in the rule's allowTargets: add it there, or set another target"
    );
}
