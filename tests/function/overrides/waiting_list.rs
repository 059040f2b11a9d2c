//! The list of waiting letters in S3.

use super::*;

#[tokio::test]
async fn letters_that_are_hidden_for_more_than_two_minutes_are_listed() {
    let world = world(&[]);
    // After the first retry the wait is a minute, after the sixth it is longer.
    let long = RecordBuilder::envelope("long").mark(&mark(6, "long", NOW));
    world.run([&due(), &long]).await;
    let objects = world.cloud.objects();
    let (key, object) = objects.iter().find(|(key, _)| key.contains("/waiting/")).unwrap();
    assert_eq!(
        key,
        "my-bucket/control/waiting/queue=payments-dlq/hour=2026-11-01T12/20261101T120000.000Z-req-1.0413ea87415c-1.jsonl"
    );
    let lines: Vec<Value> = object.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 1);
    let line = &lines[0];
    assert_eq!(
        json!([
            line["letterId"],
            line["messageId"],
            line["receiptHandle"],
            line["queueArn"],
            line["topicArn"]
        ]),
        json!(["long", "long", "handle-long", DLQ, TOPIC])
    );
    assert_eq!(
        json!([line["rule"], line["retry"]["number"], line["retry"]["of"]]),
        json!(["default", 7, 12])
    );
    assert_eq!(line.get("deadLetterQueueArn"), None, "it is queueArn");
}

#[tokio::test]
async fn what_holds_a_letter_is_on_the_list() {
    let listed = |world: &FunctionWorld| -> Value {
        let objects = world.cloud.objects();
        let (_, object) = objects.iter().find(|(key, _)| key.contains("/waiting/")).unwrap();
        serde_json::from_str(object.lines().next().unwrap()).unwrap()
    };
    let by_override = world(&[]);
    give(&by_override, &[override_("hold", &json!({ "id": "o1" }))]);
    by_override.run([&due()]).await;
    assert_eq!(listed(&by_override)["heldBy"], "override o1");
    assert_eq!(listed(&by_override).get("recovers"), None, "its endpoint alone does not wake it");
    let by_rule = world(&[("REDRIVE_POLICY", r#"{"default":{"action":"hold"}}"#)]);
    by_rule.run([&due()]).await;
    assert_eq!(listed(&by_rule)["heldBy"], "rule default");
    let nothing = world(&[]);
    nothing.run([&RecordBuilder::envelope("long").mark(&mark(6, "long", NOW))]).await;
    assert_eq!(listed(&nothing).get("heldBy"), None);
    assert_eq!(listed(&nothing).get("recovers"), None, "it has not failed here");
    let failed = world(&[]);
    failed.run([&RecordBuilder::envelope("late").mark(&mark(8, "late", NOW)).sent(NOW - 36_000_000)]).await;
    assert_eq!(listed(&failed)["recovers"], true);
}

#[tokio::test]
async fn a_list_that_is_off_or_has_no_lines_is_not_written() {
    let long = RecordBuilder::envelope("long").mark(&mark(6, "long", NOW));
    let off = world(&[("WAITING_LIST", "off")]);
    off.run([&long]).await;
    let short = world(&[]);
    short.run([&due()]).await;
    assert_eq!((off.cloud.calls("PutObject").len(), short.cloud.calls("PutObject").len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_cannot_be_written_is_counted_and_nothing_else() {
    let long = || RecordBuilder::envelope("long").mark(&mark(6, "long", NOW));
    for reply in
        [SimFault::HangBefore, SimFault::ResetBefore, SimFault::refuse(403, "AccessDenied", "handle-long")]
    {
        let world = world(&[]);
        with_s3(
            &world,
            move |call| if call.operation == "PutObject" { reply.clone() } else { SimFault::Pass },
        );
        let began = tokio::time::Instant::now();
        let ran = world.run([&long()]).await;
        assert!(began.elapsed() <= std::time::Duration::from_millis(1_100));
        assert_eq!(ran.outcomes(), ["long deferred early"]);
        assert_eq!((ran.kept.len(), world.cloud.hidden().len()), (1, 1));
        assert_eq!(ran.metrics()["WaitingListFailed"], 1);
    }
}

/// S3 answers 412 to a repeated call if only the answer to the first try was lost.
#[tokio::test]
async fn a_list_that_is_there_already_was_written() {
    let long = RecordBuilder::envelope("long").mark(&mark(6, "long", NOW));
    let world = world(&[]);
    let there = SimFault::refuse(412, "PreconditionFailed", "no");
    with_s3(&world, move |call| if call.operation == "PutObject" { there.clone() } else { SimFault::Pass });
    let ran = world.run([&long]).await;
    assert_eq!(world.cloud.calls("PutObject")[0].parameters["if-none-match"], "*");
    assert_eq!(ran.metric("WaitingListFailed"), 0);
}

#[tokio::test]
async fn no_handle_of_the_list_stands_in_a_log_or_a_metric() {
    for level in [tracing::level_filters::LevelFilter::TRACE, tracing::level_filters::LevelFilter::INFO] {
        for fails in [true, false] {
            let world = world(&[]).log_level(level);
            with_s3(&world, move |call| match (call.operation.as_str(), fails) {
                ("PutObject", true) => SimFault::refuse(500, "InternalError", "handle-long"),
                _ => SimFault::Pass,
            });
            let ran = world.run([&RecordBuilder::envelope("long").mark(&mark(6, "long", NOW))]).await;
            assert!(body_text(&world.cloud.calls("PutObject")[0]).contains("handle-long"));
            assert!(!ran.text.contains("handle-") && !ran.metrics.contains("handle-"), "{}", ran.text);
        }
    }
}
