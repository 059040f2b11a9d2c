use super::*;

const DENIED: EntryFault = EntryFault::service("InternalFailure", "S3CR3T");
const SLOW: EntryFault = EntryFault::service("ServiceUnavailableException", "Slow down.");

/// Returns the records of the only request.
fn records(world: &FunctionWorld) -> Vec<String> {
    let calls = world.cloud.calls("PutRecordBatch");
    assert_eq!(calls.len(), 1);
    calls[0].entries.iter().map(|entry| entry.body.clone()).collect()
}

#[tokio::test]
async fn a_stream_gets_each_stored_body_as_a_line_all_in_one_request() {
    let world = world_of(&json!({}), "firehose", STREAM);
    let posts = [
        RecordBuilder::raw("envelope", &body_of("envelope")),
        RecordBuilder::envelope("a").sns_attribute("tenant", "String", "gold"),
        RecordBuilder::envelope("b").message("Grüße & <thanks>\n"),
    ];
    let ran = world.run(&posts).await;
    assert_eq!(ran.outcomes(), ["envelope delivered", "a delivered", "b delivered"]);
    assert_eq!(ran.letter("a")["target.arn"], STREAM);
    let calls = world.cloud.calls("PutRecordBatch");
    assert_eq!(calls.len(), 1);
    assert_eq!(
        (calls[0].target.as_str(), calls[0].host.as_str()),
        ("payments", "firehose.eu-central-1.amazonaws.com")
    );
    assert_eq!(records(&world), posts.map(|post| post.body() + "\n"));
}

#[tokio::test]
async fn a_body_that_ends_with_a_line_break_gets_no_second_one() {
    let world = world_of(&default(&json!({ "subscription": SUBSCRIPTION })), "firehose", STREAM);
    let posts = [("a", "unix\n"), ("b", "windows\r\n"), ("c", "two lines\n\n"), ("d", "one\ntwo")];
    world.run(&posts.map(|(id, body)| RecordBuilder::raw(id, body))).await;
    assert_eq!(records(&world), ["unix\n", "windows\r\n", "two lines\n\n", "one\ntwo\n"]);
}

#[tokio::test]
async fn a_rule_decides_whether_its_records_end_with_a_line_break() {
    let gold = json!({ "messageAttributes": { "tenant": ["gold"] } });
    let rule = json!({ "name": "gold", "match": gold, "recordDelimiter": "newline" });
    let policy = json!({ "default": { "recordDelimiter": "none" }, "rules": [rule] });
    let world = world_of(&policy, "firehose", STREAM);
    let posts = [
        RecordBuilder::envelope("a"),
        RecordBuilder::envelope("b").sns_attribute("tenant", "String", "gold"),
    ];
    world.run(&posts).await;
    let [a, b] = posts.map(|post| post.body());
    assert_eq!(records(&world), [a, b + "\n"]);
}

/// Five records fill a request to its last byte. With a line break each they are too large for one request.
#[tokio::test]
async fn a_line_break_counts_for_the_size_of_a_request() {
    const MAX_REQUEST_BYTES: usize = 4 * 1024 * 1024;
    let around = RecordBuilder::envelope("a").message("").body().len();
    let sized = |id: &str, bytes: usize| RecordBuilder::envelope(id).message(&"x".repeat(bytes - around));
    for (delimiter, requests) in [("none", vec![5]), ("newline", vec![4, 1])] {
        let world = world_of(&default(&json!({ "recordDelimiter": delimiter })), "firehose", STREAM);
        let full = ["a", "b", "c", "d"].map(|id| sized(id, 1_000_000));
        let rest = sized("e", MAX_REQUEST_BYTES - 4_000_000);
        let ran = world.run(full.iter().chain([&rest])).await;
        assert_eq!(ran.kept, [""; 0]);
        let calls = world.cloud.calls("PutRecordBatch");
        assert_eq!(calls.iter().map(|call| call.entries.len()).collect::<Vec<_>>(), requests);
    }
}

/// Firehose answers 200, with a result for each record.
#[tokio::test]
async fn records_that_a_200_did_not_take_fail_alone() {
    let world = world_of(&json!({}), "firehose", STREAM);
    world.cloud.script(|call| match call.operation.as_str() {
        "PutRecordBatch" => SimFault::Entries(vec![(1, DENIED), (3, SLOW)]),
        _ => SimFault::Pass,
    });
    let posts = ["a", "b", "c", "d"].map(RecordBuilder::envelope);
    let ran = world.run(&posts).await;
    assert_eq!(ran.outcomes(), ["a delivered", "b deferred failed", "c delivered", "d deferred failed"]);
    assert_eq!(ran.kept, ["b", "d"]);
    assert_eq!(
        [&told(&ran, "b")[3..], &told(&ran, "d")[3..]],
        [
            [json!("InternalFailure"), json!("transient")],
            [json!("ServiceUnavailableException"), json!("transient")],
        ]
    );
    assert_eq!(world.cloud.calls("PutRecordBatch").len(), 1);
    assert!(!ran.text.contains("S3CR3T"));
}

/// SNS retries a stream that throttles like an endpoint of a customer.
#[tokio::test]
async fn a_stream_that_throttles_is_retried_by_the_policy_for_customers_under_the_preset() {
    let own = json!({ "healthyRetryPolicy": { "numRetries": 60, "numNoDelayRetries": 60 } });
    for (delivery, retry, told) in [
        (json!("aws-managed"), 1, json!([["deferred", 10], ["deferred", 0]])),
        (json!("from-subscription"), 1, json!([["deferred", 10], ["deferred", 0]])),
        (json!("aws-managed"), 49, json!([["deferred", 600], ["deferred", 20]])),
        (json!("aws-managed"), 50, json!([["deferred", 600], ["deferred", 20]])),
        (json!("aws-managed"), 1_000, json!([["deferred", 600], ["deferred", 20]])),
        (json!("aws-managed"), 100_014, json!([["deferred", 600], ["deferred", 20]])),
        (json!("aws-managed"), 100_015, json!([["archived", null], ["archived", null]])),
        (own, 50, json!([["deferred", 0], ["deferred", 0]])),
    ] {
        let policy = default(&json!({ "deliveryPolicy": delivery, "jitter": 0 }));
        let world = world_of(&policy, "firehose", STREAM);
        world.cloud.script(|call| match call.operation.as_str() {
            "PutRecordBatch" => SimFault::Entries(vec![(0, SLOW), (1, DENIED)]),
            _ => SimFault::Pass,
        });
        let posts = ["slow", "broken"].map(|id| {
            RecordBuilder::envelope(id).mark(&mark(retry - 1, id, NOW - 60_000)).sent(NOW - 1_200_000)
        });
        let ran = world.run(&posts).await;
        let line = |id: &str| json!([ran.letter(id)["outcome"], ran.letter(id)["delay_s"]]);
        assert_eq!(json!([line("slow"), line("broken")]), told, "{delivery}, retry {retry}");
        assert_eq!(ran.letter("slow")["retry.number"], retry);
    }
}

/// An answer that is shorter than the request says nothing about the rest.
#[tokio::test]
async fn records_without_an_answer_are_not_delivered() {
    let world = world_of(&json!({}), "firehose", STREAM);
    world.cloud.reply("PutRecordBatch", SimFault::Entries(vec![(1, EntryFault::Missing)]));
    let ran = world.run(&["a", "b", "c"].map(RecordBuilder::envelope)).await;
    assert_eq!(ran.outcomes(), ["a delivered", "b deferred failed", "c deferred failed"]);
}

#[tokio::test]
async fn one_bad_record_does_not_take_its_neighbours_along() {
    let world = world_of(&json!({}), "firehose", STREAM);
    world.cloud.script(|call| {
        let bad = call.operation == "PutRecordBatch" && !call.entries_with("message of b").is_empty();
        if bad { SimFault::refuse(400, "InvalidArgumentException", "too large") } else { SimFault::Pass }
    });
    let ran = world.run(&["a", "b", "c"].map(RecordBuilder::envelope)).await;
    let outcomes = ran.outcomes();
    assert_eq!([&outcomes[0], &outcomes[2]], ["a delivered", "c delivered"]);
    assert!(!outcomes[1].contains("delivered"), "{}", outcomes[1]);
}

#[tokio::test]
async fn a_request_holds_at_most_500_records() {
    let world = world_of(&json!({}), "firehose", STREAM);
    let posts: Vec<_> = (0..501).map(|number| RecordBuilder::envelope(&format!("m{number}"))).collect();
    let ran = world.run(&posts).await;
    assert_eq!(ran.kept, [""; 0]);
    let sizes: Vec<_> = world.cloud.calls("PutRecordBatch").iter().map(|call| call.entries.len()).collect();
    assert_eq!(sizes, [500, 1]);
}
