use super::*;

/// Every subscriber gets it once. From then on only the failing one gets it.
#[tokio::test]
async fn the_letters_topic() {
    for target in ["topic", TOPIC] {
        let policy = policy(&json!({ "target": target }), &json!([]));
        let world = world_of(&policy, &["payments-worker"], DLQ);
        let calls = goes_round(&world, first(), |call, id| match call.operation.as_str() {
            "PublishBatch" => copy_at(call, id, SUBSCRIPTION),
            _ => moved(call, id),
        })
        .await;
        assert_eq!(calls[0].operation, "PublishBatch");
        assert!(calls[1..].iter().all(|call| call.target == "payments-worker"));
    }
}

/// Only SNS can write to a phone, so the topic is the only way.
#[tokio::test]
async fn the_letters_topic_again_where_only_sns_reaches_the_subscriber() {
    let world = world_of(&policy(&json!({ "target": "topic" }), &json!([])), &[], DLQ);
    world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, "sms", "+49301234567", DLQ);
    let (mut post, mut now) = (first(), NOW);
    for round in 1..=RETRIES {
        now += 3_600_000;
        world.set_now(now);
        world.cloud.forget();
        let ran = world.run([&post]).await;
        assert_eq!(ran.letter(&post.id)["retry.number"], json!(round));
        let [call] = deliveries(&world.cloud).try_into().unwrap();
        assert_eq!(call.operation, "PublishBatch");
        post = copy_at(&call, &format!("m{round}"), SUBSCRIPTION).sent(now + 60_000);
    }
    world.set_now(now + 3_600_000);
    assert_eq!(world.run([&post]).await.outcomes(), [format!("m{RETRIES} archived exhausted")]);
}
