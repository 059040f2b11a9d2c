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

#[tokio::test]
async fn a_letter_that_takes_too_long_to_match_is_not_touched_either() {
    let rule = json!({ "name": "lists", "action": "archive", "match": { "message": { "a": [{ "exists": true }] } } });
    let policy = json!({ "rules": [rule] }).to_string();
    let world = World::new(&[("REDRIVE_MODE", "observe"), ("REDRIVE_POLICY", &policy)]);
    let message = json!({ "a": vec![1; 3_000] }).to_string();
    let posts: Vec<_> = (0..5).map(|number| Post::envelope(&number.to_string()).message(&message)).collect();
    let ran = world.run(&posts).await;
    assert_eq!(ran.metrics()["LettersObserved"], 3);
    assert_eq!(ran.letters().iter().filter(|line| line["reason"] == "out_of_time").count(), 2);
    assert!(world.cloud.hidden().is_empty());
}
