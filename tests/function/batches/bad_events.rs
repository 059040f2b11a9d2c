use super::*;

async fn refused(change: impl Fn(&mut Value)) -> String {
    let mut event = event([&Post::envelope("a"), &Post::envelope("b")]);
    change(&mut event["Records"][1]);
    let world = World::new(&[]);
    let error = world.try_event(&event).await.unwrap_err();
    assert_eq!(world.cloud.journal(), [], "an event that nobody understands is left alone");
    error.to_string()
}

/// An answer with an empty id would fail the whole batch anyway, and silently.
#[tokio::test]
async fn a_record_that_lambda_would_not_send_fails_the_invocation_before_anything_is_done() {
    for field in ["messageId", "receiptHandle", "eventSourceARN"] {
        let expected = format!("Records[1].{field} is missing or has no usable value");
        assert_eq!(refused(|record| record[field] = json!(null)).await, expected);
        assert_eq!(refused(|record| record[field] = json!("")).await, expected);
    }
    let count = "ApproximateReceiveCount";
    let error = refused(|record| record["attributes"][count] = json!("0")).await;
    assert_eq!(error, "Records[1].ApproximateReceiveCount is missing or has no usable value");
    for field in ["SentTimestamp", "ApproximateFirstReceiveTimestamp", count] {
        let expected = format!("Records[1].{field} is missing or has no usable value");
        for value in ["", "soon", "-1e9", "99999999999999999999"] {
            let change = |record: &mut Value| record["attributes"][field] = json!(value);
            assert_eq!(refused(change).await, expected, "{value}");
        }
        let change = |record: &mut Value| {
            record["attributes"].as_object_mut().unwrap().remove(field);
        };
        assert_eq!(refused(change).await, expected);
    }
}

#[tokio::test]
async fn an_event_of_two_queues_fails_the_invocation_before_anything_is_done() {
    let error = refused(|record| record["eventSourceARN"] = json!(REQUEUE)).await;
    assert_eq!(error, format!("Records[1] is from {REQUEUE}, but the first record is from {DLQ}"));
}

#[tokio::test]
async fn an_event_without_records_is_nothing_to_do() {
    let world = World::new(&[]);
    let ran = world.run_event(&json!({ "Records": [] })).await;
    assert_eq!(ran, Ran { kept: vec![], log: vec![], text: String::new(), metrics: String::new() });
    assert_eq!(world.cloud.journal(), []);
}
