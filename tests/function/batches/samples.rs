use super::*;

/// The expected outcomes are those that `events/README.md` names for each file.
#[tokio::test]
async fn every_sample_ends_as_its_readme_says() {
    let unrecognised: &[&str] = &["archived unrecognised"; 10];
    let expected: BTreeMap<&str, &[&str]> = [
        ("envelope", &["delivered"][..]),
        ("event-bus", &["archived undeliverable_protocol"]),
        ("eventbridge", &["archived unrecognised"]),
        ("exhausted", &["archived exhausted"]),
        ("fifo", &["delivered"; 4]),
        ("garbage", unrecognised),
        ("lambda-async", &["archived unrecognised"]),
        ("lambda-destination", &["archived unrecognised"]),
        ("late-retry", &["delivered"]),
        ("raw", &["archived unrecognised"]),
        ("sqs-consumer", &["delivered"]),
        (
            "mixed",
            &[
                "delivered",
                "delivered",
                "archived unrecognised",
                "archived unrecognised",
                "archived unrecognised",
                "delivered",
                "archived unrecognised",
                "archived unrecognised",
                "deferred early",
                "archived exhausted",
            ],
        ),
    ]
    .into();
    assert_eq!(sample_names(), expected.keys().copied().collect::<Vec<_>>());
    for (name, event) in samples() {
        let ran = FunctionWorld::new(&[]).run_event(&event).await;
        let outcomes: Vec<_> = ids(&event)
            .iter()
            .zip(expected[name.as_str()])
            .map(|(id, outcome)| format!("{id} {outcome}"))
            .collect();
        assert_eq!(ran.outcomes(), outcomes, "{name}");
        let stays = |outcome: &&String| outcome.contains(" deferred ");
        let kept: Vec<_> = outcomes.iter().filter(stays).map(|it| it.split(' ').next().unwrap()).collect();
        assert_eq!(ran.kept, kept, "{name}");
    }
}

/// A claim that any sender can write is followed only if the policy lists it, and only in the queue that the
/// policy names.
#[tokio::test]
async fn what_a_sample_claims_is_followed_where_the_policy_lists_it() {
    let claims = ["lambda-async", "lambda-destination", "eventbridge"];
    for (name, claim) in [("eventbridge", "eventbridge"), ("lambda-destination", "lambda-destination")] {
        let others: Vec<_> = claims.into_iter().filter(|other| *other != claim).collect();
        for (origins, outcome) in [
            (json!({ "*": [claim] }), "delivered"),
            (json!({ DLQ: claims }), "delivered"),
            (json!({}), "archived unrecognised"),
            (json!({ "*": others }), "archived unrecognised"),
            (json!({ WORKER: claims }), "archived unrecognised"),
        ] {
            let world = FunctionWorld::with_policy(&json!({ "origins": origins }));
            let ran = world.run_event(&sample(name)).await;
            let id = &ids(&sample(name))[0];
            assert_eq!(ran.outcomes(), [format!("{id} {outcome}")], "{name}: {origins}");
            let line = ran.letter(id);
            if outcome == "delivered" {
                assert_eq!(
                    [&line["letter.origin"], &line["letter.unlisted_origin"]],
                    [&json!(claim), &json!(null)]
                );
            } else {
                assert_eq!([&line["letter.origin"], &line["letter.unlisted_origin"]], ["raw", claim]);
                let advice = format!("\"origins\": {{\"<ARN of its queue>\": [\"{claim}\"]}}");
                assert!(line["detail"].as_str().unwrap().contains(&advice), "{line}");
                assert_eq!(archived(&world.cloud)[0]["detail"], line["detail"]);
                assert_eq!(operations(&world.cloud), ["GetQueueAttributes", "PutObject"]);
            }
        }
    }
}

#[tokio::test]
async fn the_late_retry_is_number_nine() {
    let ran = FunctionWorld::new(&[]).run_event(&sample("late-retry")).await;
    let line = ran.letters()[0];
    assert_eq!([&line["retry.number"], &line["retry.of"]], [&json!(9), &json!(12)]);
}

#[tokio::test]
async fn a_mixed_batch_costs_seven_kinds_of_call_one_for_each_place() {
    let origins = json!({ "*": ["lambda-async", "lambda-destination", "eventbridge"] });
    let world = FunctionWorld::with_policy(&json!({ "origins": origins }));
    world.run_event(&sample("mixed")).await;
    assert_eq!(
        world.cloud.summary(),
        [
            "GetQueueAttributes payments-billing".to_owned(),
            "GetQueueAttributes payments-dlq".to_owned(),
            format!("GetSubscriptionAttributes {SUBSCRIPTION}"),
            "SendMessageBatch payments-billing 1".to_owned(),
            "SendMessageBatch payments-worker 2".to_owned(),
            "Invoke payments-notifier".to_owned(),
            "Invoke payments-projector".to_owned(),
            "ChangeMessageVisibilityBatch payments-dlq 1".to_owned(),
            "PutObject my-bucket/dead-letters/queue=payments-dlq/date=2026-11-01/\
             20261101T120000.000Z-req-1.2-n4-r0.exhausted.3zhK6Xx3.1.unrecognised.none.2.unrecognised.3zhK6Xx3.1.T.none.3.0413ea87415c.1.jsonl"
                .to_owned(),
        ]
    );
}
