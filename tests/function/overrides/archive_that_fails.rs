//! Overrides about letters that neither the archive nor the target takes.

use super::*;

/// Neither the archive nor the target takes a letter.
fn neither_archived_nor_sent(call: &SimCall) -> SimFault {
    match call.operation.as_str() {
        "PutObject" => SimFault::refuse(503, "SlowDown", "slow"),
        "SendMessageBatch" => SimFault::refuse(400, "InvalidMessageContents", "bad"),
        _ => SimFault::Pass,
    }
}

/// An override goes before everything, also before what an instance remembers.
#[tokio::test]
async fn a_letter_that_the_archive_did_not_take_hears_overrides() {
    for (action, outcome) in [("retry", "a delivered"), ("hold", "a deferred overridden")] {
        let world = world(&[]);
        give(&world, &[]);
        world.cloud.script(neither_archived_nor_sent);
        assert_eq!(world.run([&due()]).await.outcomes(), ["a failed archive"]);
        world.cloud.script(|_| SimFault::Pass);
        give(&world, &[override_(action, &json!({ "at": "2026-11-01T12:00:10Z" }))]);
        world.pass(15);
        assert_eq!(world.run([&due()]).await.outcomes(), [outcome]);
    }
}

/// Else it would be attempted every second for as long as the override is in force.
#[tokio::test]
async fn an_override_asks_for_one_attempt_also_where_the_archive_takes_nothing() {
    let world = world(&[]);
    give(&world, &[override_("retry", &json!({}))]);
    world.cloud.script(neither_archived_nor_sent);
    for hidden in [1, 2, 4] {
        assert_eq!(world.run([&due()]).await.outcomes(), ["a failed archive"]);
        assert_eq!(world.cloud.hidden().into_values().collect::<Vec<_>>(), [hidden]);
        world.pass(hidden);
    }
    assert_eq!(world.cloud.calls("SendMessageBatch").len(), 1);
}

#[tokio::test]
async fn a_letter_that_the_archive_did_not_take_is_attempted_once_its_override_is_taken_back() {
    let world = world(&[]);
    give(&world, &[override_("give-up", &json!({}))]);
    let store = |call: &SimCall| call.operation == "PutObject" && call.target.contains("dead-letters");
    with_s3(
        &world,
        move |call| if store(call) { SimFault::refuse(503, "SlowDown", "slow") } else { SimFault::Pass },
    );
    assert_eq!(world.run([&due()]).await.outcomes(), ["a failed archive"]);
    with_s3(&world, |_| SimFault::Pass);
    give(&world, &[override_("give-up", &json!({ "id": "other", "match": { "subject": ["another"] } }))]);
    world.pass(15);
    assert_eq!(world.run([&due()]).await.outcomes(), ["a deferred failed"]);
    give(&world, &[override_("give-up", &json!({ "id": "override-2" }))]);
    world.pass(15);
    let ran = world.run([&due()]).await;
    assert_eq!(ran.outcomes(), ["a archived given-up"]);
    assert_eq!(archived_by(&world)["override"], "override-2");
}
