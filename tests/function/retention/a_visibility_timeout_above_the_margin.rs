use super::*;

/// Twelve hours, as an existing queue may have.
const TWELVE_HOURS: &str = "43200";

fn hidings(world: &FunctionWorld) -> Vec<(String, i64)> {
    let calls = world.cloud.calls("ChangeMessageVisibilityBatch").into_iter();
    let entries = calls.flat_map(|call| call.entries);
    entries.map(|entry| (entry.handle.unwrap(), entry.visibility.unwrap())).collect()
}

/// If hiding it later fails, it would not be shown again in time.
#[tokio::test]
async fn is_shortened_for_what_is_near_the_end_before_anything_else_is_done() {
    let world = failing(&policy(30, 9, &json!({})), "payments-dlq", WEEKS, TWELVE_HOURS);
    let near = RecordBuilder::envelope("near").sent(NOW - (1_209_600 - 6 * 3600) * 1000);
    let ran = world.run([&RecordBuilder::envelope("far").sent(NOW - 30_000), &near]).await;
    assert_eq!(ran.outcomes(), ["far deferred failed", "near deferred failed"]);
    let handle = |id: &str| format!("handle-{id}");
    // The invocation has 30 s, and its answer a little more.
    assert_eq!(hidings(&world), [(handle("near"), 40), (handle("far"), 30), (handle("near"), 30)]);
    let calls = operations(&world.cloud);
    assert_eq!(
        calls[..3],
        ["GetQueueAttributes", "ChangeMessageVisibilityBatch", "GetSubscriptionAttributes"]
    );
    let told = ran.log.iter().find(|line| line["message"] == "queue misconfigured").unwrap();
    let detail = told["detail"].as_str().unwrap();
    assert!(
        detail.starts_with("its visibility timeout of 43200 s is longer than the last 3600 s"),
        "{detail}"
    );
}

#[tokio::test]
async fn is_left_alone_in_observe_mode_and_where_it_is_short() {
    let near = RecordBuilder::envelope("near").sent(NOW - (1_209_600 - 3 * 3600) * 1000);
    let world = FunctionWorld::new(&[("REDRIVE_MODE", "observe")]);
    world
        .cloud
        .queue("payments-dlq", &[("MessageRetentionPeriod", WEEKS), ("VisibilityTimeout", TWELVE_HOURS)]);
    world.run([&near]).await;
    assert_eq!(hidings(&world), []);
    // The margin itself is not above it.
    for timeout in ["360", "3600"] {
        let world = failing(&policy(30, 9, &json!({})), "payments-dlq", WEEKS, timeout);
        let ran = world.run([&near]).await;
        assert_eq!(hidings(&world), [("handle-near".to_owned(), 30)]);
        let warned = |line: &Value| {
            line["detail"].as_str().is_some_and(|detail| detail.contains("visibility timeout"))
        };
        assert!(!ran.log.iter().any(warned), "{}", ran.text);
    }
}
