use super::*;

#[tokio::test]
async fn nothing_is_called_but_the_attributes_of_queues_and_every_letter_stays() {
    for policy in
        [json!({}), default(&json!({ "target": "topic" })), default(&json!({ "action": "archive" }))]
    {
        for (name, event) in samples() {
            let world = World::new(&[("REDRIVE_MODE", "observe"), ("REDRIVE_POLICY", &policy.to_string())]);
            let ran = world.run_event(&event).await;
            let called: BTreeSet<_> = world.cloud.journal().into_iter().map(|call| call.operation).collect();
            assert_eq!(called, ["GetQueueAttributes".to_owned()].into(), "{name}");
            assert_eq!(ran.kept, ids(&event), "{name}");
            let count = u64::try_from(ran.kept.len()).unwrap();
            assert_eq!(ran.metrics()["LettersObserved"], count);
            assert!(ran.letters().iter().all(|line| line["outcome"] == "observed"));
        }
    }
}

#[tokio::test]
async fn what_would_be_done_is_logged() {
    let world = World::new(&[("REDRIVE_MODE", "observe")]);
    let ran = world.run_event(&sample("mixed")).await;
    let told: Vec<_> = ran
        .letters()
        .into_iter()
        .map(|line| json!([line["decision"], line["reason"], line["retry.number"]]))
        .collect();
    assert_eq!(
        told,
        [
            json!(["deliver", null, 1]),
            json!(["deliver", null, 2]),
            json!(["archive", "unrecognised", null]),
            json!(["archive", "unrecognised", null]),
            json!(["archive", "unrecognised", null]),
            json!(["deliver", null, 1]),
            json!(["archive", "unrecognised", null]),
            json!(["archive", "unrecognised", null]),
            json!(["defer", "early", null]),
            json!(["archive", "exhausted", null]),
        ]
    );
}
