//! P11, tested at S3 and SQS: an endpoint goes down and comes back, and the letters on the list are woken.

use std::collections::BTreeSet;

use redrive_support::*;
use serde_json::{Value, json};

const RECOVERIES: &str = "my-bucket/control/recoveries.json";

fn world(settings: &[(&str, &str)]) -> FunctionWorld {
    let given = [("CONTROL", "s3://my-bucket/control")];
    FunctionWorld::new(&[&given, settings].concat())
}

/// Makes the subscriber refuse every letter from now on, or take it.
fn set_down(world: &FunctionWorld, is_down: bool) {
    world.cloud.script(move |call| match call.operation.as_str() {
        "SendMessageBatch" if is_down => SimFault::refuse(503, "ServiceUnavailable", "down"),
        _ => SimFault::Pass,
    });
}

/// Returns a letter whose retry is due, and the next one hours later.
fn late(id: &str) -> RecordBuilder {
    RecordBuilder::envelope(id).mark(&mark(8, id, NOW)).sent(NOW - 36_000_000)
}

/// Returns the handles of messages that were made visible.
fn woken(world: &FunctionWorld) -> Vec<String> {
    let entries = world.cloud.entries("ChangeMessageVisibilityBatch");
    let shown = entries.into_iter().filter(|entry| entry.visibility == Some(0));
    shown.filter_map(|entry| entry.handle).collect()
}

fn line<'a>(ran: &'a TestInvocation, message: &str) -> &'a Value {
    let line = ran.log.iter().find(|line| line["message"].as_str().unwrap().starts_with(message));
    line.unwrap_or_else(|| panic!("{message}: {}", ran.text))
}

/// Lives through an outage of four minutes with twelve letters and more.
async fn outage(world: &FunctionWorld) -> [TestInvocation; 3] {
    set_down(world, true);
    let many: Vec<_> = (0..12).map(|number| late(&format!("l{number}"))).collect();
    world.run(&many).await;
    world.pass(130);
    let down = world.run([&late("m")]).await;
    world.pass(60);
    let scout = world.run([&late("scout"), &late("n")]).await;
    set_down(world, false);
    world.pass(50);
    let back = world.run([&RecordBuilder::envelope("first")]).await;
    [down, scout, back]
}

#[tokio::test]
async fn letters_are_woken_once_each_when_their_endpoint_is_back() {
    let world = world(&[]);
    let [down, scout, back] = outage(&world).await;
    let said = line(&down, "outage: every attempt");
    assert_eq!(
        json!([said["target.arn"], said["error.code"], said["down_since"], down.metrics()["EndpointsDown"]]),
        json!([WORKER, "ServiceUnavailable", "2026-11-01T12:00:00Z", 1])
    );
    assert_eq!(scout.outcomes(), ["scout deferred failed", "n deferred failed"]);
    let hidden = world.cloud.hidden();
    assert_eq!(hidden["handle-scout"], 600, "one letter finds out whether it is back");
    assert!(hidden["handle-n"] > 3_600);

    assert_eq!(back.outcomes(), ["first delivered"]);
    line(&back, "outage over");
    assert_eq!(line(&back, "letters woken")["letters"], 10);
    assert_eq!(json!([back.metrics()["EndpointsRecovered"], back.metrics()["LettersWoken"]]), json!([1, 10]));
    let mut rest = Vec::new();
    for number in 0..4 {
        world.pass(1);
        rest.push(world.run([&RecordBuilder::envelope(&format!("next-{number}"))]).await);
    }
    let handles = woken(&world);
    let expected: BTreeSet<_> = (0..12).map(|number| format!("handle-l{number}")).collect();
    let expected = expected.into_iter().chain(["m", "n", "scout"].map(|id| format!("handle-{id}")));
    assert_eq!(handles.iter().cloned().collect::<BTreeSet<_>>(), expected.collect());
    assert_eq!(handles.len(), 15, "each once: {handles:?}");
    let logs = [down, scout, back].into_iter().chain(rest).map(|ran| ran.text + &ran.metrics);
    assert!(!logs.collect::<String>().contains("handle-"), "no receipt handle is in a log");
}

/// Other calls of S3 go on. A document that nobody can use is replaced.
#[tokio::test]
async fn letters_wait_for_their_schedules_where_the_recoveries_cannot_be_kept() {
    let off = world(&[("WAITING_LIST", "off")]);
    outage(&off).await;
    assert_eq!((woken(&off), off.cloud.objects().get(RECOVERIES)), (vec![], None));

    let broken = world(&[]);
    broken.cloud.put(RECOVERIES, "{");
    outage(&broken).await;
    assert_eq!(woken(&broken).len(), 10);

    let newer = world(&[]);
    newer.cloud.put(RECOVERIES, r#"{"version":2,"endpoints":[]}"#);
    let [down, _, back] = outage(&newer).await;
    assert_eq!((woken(&newer), back.outcomes()), (vec![], vec!["first delivered".to_owned()]));
    assert!(line(&down, "recoveries not read")["error.message"].as_str().unwrap().contains("version is 2"));
    assert_eq!(newer.cloud.objects()[RECOVERIES], r#"{"version":2,"endpoints":[]}"#);
}

/// Who can write there can have letters left unwoken, and nothing else.
#[tokio::test]
async fn a_forged_document_wakes_nothing_of_another_target_and_loops_for_nobody() {
    let entry = |more: Value| {
        let mut entry = json!({ "queue": "payments-dlq", "target": WORKER, "isDone": false });
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "version": 1, "endpoints": [entry] }).to_string()
    };
    for forged in [
        entry(json!({ "recoveredAt": "9999-01-01T00:00:00Z" })),
        entry(json!({ "recoveredAt": "2026-11-01T11:00:00Z", "place": "x\u{0}y" })),
        entry(json!({ "recoveredAt": "2026-11-01T11:00:00Z", "place": "hour=9999" })),
        entry(json!({ "downSince": "2026-10-01T11:00:00Z", "place": "../../../secrets" })),
    ] {
        let world = world(&[]);
        world.cloud.put(RECOVERIES, &forged);
        let [_, _, back] = outage(&world).await;
        assert_eq!(back.outcomes(), ["first delivered"], "{forged}");
        assert!(woken(&world).len() <= 10, "{forged}");
    }
}
