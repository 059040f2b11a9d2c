//! What each override does to the letters that it is about.

use super::*;

#[tokio::test]
async fn a_hold_hides_a_letter_until_its_end_and_says_so() {
    let world = world(&[]);
    give(&world, &[override_("hold", &json!({}))]);
    let ran = world.run([&due()]).await;
    assert_eq!(ran.outcomes(), ["a deferred overridden"]);
    assert_eq!(world.cloud.hidden()["handle-a"], 7_200);
    assert_eq!(ran.letter("a")["override.id"], "override-1");
    assert_eq!(world.cloud.calls("SendMessageBatch").len(), 0);
    assert_eq!(ran.metrics()["LettersOverridden"], 1);
}

#[tokio::test]
async fn a_retry_is_made_at_once_and_a_failure_keeps_the_plan() {
    let world = world(&[]);
    let planned = world.run([&early()]).await.letter("early")["due"].clone();
    give(&world, &[override_("retry", &json!({}))]);
    world.pass(20);
    let ran = world.run([&early()]).await;
    let line = ran.letter("early");
    assert_eq!(
        [&line["outcome"], &line["reason"], &line["due"]],
        [&json!("deferred"), &json!("failed"), &planned]
    );
    let said = json!([line["retry.number"], line["retry.early"], line["override.id"]]);
    assert_eq!(said, json!([1, true, "override-1"]));
    let sent = &world.cloud.entries("SendMessageBatch")[0];
    let mark: Value = serde_json::from_str(&sent.attributes["sns-redrive"].value.text()).unwrap();
    assert_eq!(json!([mark["spent"], mark["early"]]), json!([1, true]));
}

/// The mark says that it was sent ahead of its time, and SQS when it came back.
#[tokio::test]
async fn a_letter_that_came_back_is_attempted_again_for_a_later_override_only() {
    let world = world(&[]);
    let mut mark = mark(6, "letter", NOW - 3_600_000);
    mark["early"] = json!(true);
    let back = RecordBuilder::envelope("a").mark(&mark).sent(NOW - 30_000).received(1);
    let first = override_("retry", &json!({}));
    give(&world, std::slice::from_ref(&first));
    assert_eq!(world.run([&back]).await.outcomes(), ["a deferred early"]);
    let second = override_("retry", &json!({ "id": "override-2", "at": "2026-11-01T11:59:45Z" }));
    give(&world, &[first, second]);
    world.pass(20);
    let ran = world.run([&back]).await;
    assert_eq!(ran.outcomes(), ["a deferred failed"]);
    assert_eq!(ran.letter("a")["override.id"], "override-2");
}

#[tokio::test]
async fn a_letter_id_picks_that_letter_alone_also_when_it_comes_back() {
    let world = world(&[]);
    give(&world, &[override_("give-up", &json!({ "match": { "letterId": ["letter-1"] } }))]);
    let marked = |id: &str, letter: &str| RecordBuilder::envelope(id).mark(&mark(6, letter, NOW + 3_600_000));
    let ran = world.run([&marked("a", "letter-1"), &marked("b", "letter-10")]).await;
    assert_eq!(ran.outcomes(), ["a archived given-up", "b deferred early"]);
}

#[tokio::test]
async fn an_archive_says_who_and_why() {
    let world = world(&[]);
    give(&world, &[override_("give-up", &json!({}))]);
    let ran = world.run([&due()]).await;
    assert_eq!(ran.outcomes(), ["a archived given-up"]);
    assert_eq!(ran.metrics()["ArchivedGivenUp"], 1);
    let record = archived_by(&world);
    assert_eq!(
        json!([record["reason"], record["override"], record["detail"]]),
        json!(["given-up", "override-1", "by ada: the database is down"])
    );
}

#[tokio::test]
async fn an_attempt_that_ends_for_good_is_recorded_as_overridden() {
    let world = world(&[]);
    give(&world, &[override_("retry", &json!({}))]);
    world.cloud.script(|call| match call.operation.as_str() {
        "SendMessageBatch" => SimFault::refuse(400, "InvalidMessageContents", "no"),
        _ => SimFault::Pass,
    });
    assert_eq!(world.run([&early()]).await.outcomes(), ["early archived permanent"]);
    let record = archived_by(&world);
    assert_eq!(record["retry"], json!({ "number": 1, "of": 12, "early": true }));
    assert_eq!(record["override"], "override-1");
}

#[tokio::test]
async fn in_observe_mode_it_is_said_what_an_override_would_do() {
    let world = world(&[("REDRIVE_MODE", "observe")]);
    give(&world, &[override_("give-up", &json!({}))]);
    let ran = world.run([&due()]).await;
    let line = ran.letter("a");
    assert_eq!(
        json!([line["decision"], line["reason"], line["override.id"]]),
        json!(["archive", "given-up", "override-1"])
    );
    assert_eq!(world.cloud.calls("PutObject").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn letters_that_an_override_sends_to_an_endpoint_that_is_down_come_back_within_a_minute() {
    let world = world(&[]);
    let hang = |call: &SimCall| {
        if call.operation == "SendMessageBatch" { SimFault::HangBefore } else { SimFault::Pass }
    };
    world.cloud.script(hang);
    world.run([&due()]).await;
    give(&world, &[override_("retry", &json!({}))]);
    world.pass(20);
    let posts: Vec<_> = (0..5).map(|number| RecordBuilder::envelope(&format!("b{number}"))).collect();
    let ran = world.run(&posts).await;
    for number in 0..5 {
        let line = ran.letter(&format!("b{number}"));
        assert_eq!(line["reason"], "endpoint_down", "{number}");
        assert!((54..=60).contains(&line["delay_s"].as_i64().unwrap()), "{line}");
    }
}
