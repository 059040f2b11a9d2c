//! P11, tested at S3 and SQS: an endpoint goes down and comes back, and the letters on the list are woken.

use std::collections::BTreeSet;

use redrive_core::endpoint::TargetName;
use redrive_support::*;
use serde_json::{Value, json};

const RECOVERIES: &str = "my-bucket/control/recoveries.json";

fn world(settings: &[(&str, &str)]) -> FunctionWorld {
    let given = [("CONTROL", "s3://my-bucket/control")];
    FunctionWorld::new(&[&given, settings].concat())
}

/// Makes the subscriber refuse every letter from now on, or take it.
pub(crate) fn set_down(world: &FunctionWorld, is_down: bool) {
    world.cloud.script(move |call| match call.operation.as_str() {
        "SendMessageBatch" if is_down => SimFault::refuse(503, "ServiceUnavailable", "down"),
        _ => SimFault::Pass,
    });
}

/// Returns a letter whose retry is due, and the next one hours later.
pub(crate) fn late(id: &str) -> RecordBuilder {
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
pub(crate) async fn outage(world: &FunctionWorld) -> [TestInvocation; 3] {
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
    assert!((481..=600).contains(&hidden["handle-scout"]), "one letter finds out whether it is back");
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

/// Puts an endpoint into the document that was back ten seconds ago.
fn put_recovery(world: &FunctionWorld) {
    let endpoint = json!({ "queue": "payments-dlq", "target": WORKER, "recoveredAt": "2026-11-01T11:59:50Z",
        "place": "hour=2026-11-01T11/20261101T110000.000Z", "isDone": false });
    world.cloud.put(RECOVERIES, &json!({ "version": 1, "endpoints": [endpoint] }).to_string());
}

/// Returns a line of the list: a letter that was hidden at 11:30 and waits for the worker until six. A field that is null is
/// left out.
fn listed(id: &str, more: &Value) -> Value {
    let mut line = json!({ "letterId": id, "messageId": id, "receiptHandle": format!("handle-{id}"), "queueArn": DLQ,
        "target": WORKER, "rule": "default", "error": "ServiceUnavailable", "retry": { "number": 9, "of": 12 },
        "since": "2026-11-01T10:00:00Z", "hidden": "2026-11-01T11:30:00Z", "due": "2026-11-01T18:00:00Z",
        "recovers": true });
    line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    line.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    line
}

/// Puts these lines into an object that was written at this minute and second before noon.
fn put_list(world: &FunctionWorld, time: &str, lines: &[Value]) {
    let key = format!(
        "hour=2026-11-01T11/20261101T11{time}.000Z-other.{}-1.jsonl",
        TargetName::read(WORKER).digest()
    );
    let lines: Vec<_> = lines.iter().map(Value::to_string).collect();
    let place = format!("my-bucket/control/waiting/queue=payments-dlq/{key}");
    world.cloud.put(&place, &(lines.join("\n") + "\n"));
}

#[tokio::test]
async fn only_those_are_woken_that_waited_for_the_endpoint_when_it_came_back() {
    let world = world(&[]);
    put_recovery(&world);
    let since = "2026-11-01T11:59:55Z";
    put_list(
        &world,
        "5955",
        &[
            listed("waits", &json!({})),
            listed("left-out", &json!({ "error": "EndpointDown", "hidden": since })),
            listed("failed-since", &json!({ "hidden": since })),
            listed("held", &json!({ "heldBy": "rule r", "recovers": null })),
            listed("elsewhere", &json!({ "target": BILLING })),
            listed("of-another-queue", &json!({ "queueArn": REQUEUE })),
            listed("shows-soon", &json!({ "visible": "2026-11-01T12:00:59Z" })),
            listed("due-soon", &json!({ "due": "2026-11-01T12:00:59Z" })),
            listed("twice", &json!({ "receiptHandle": "handle-old", "hidden": "2026-11-01T11:00:00Z" })),
            listed("twice", &json!({})),
            listed("here", &json!({})),
            json!({ "letterId": "no line" }),
        ],
    );
    world.run([&RecordBuilder::envelope("here")]).await;
    assert_eq!(woken(&world), ["handle-waits", "handle-left-out", "handle-twice"]);
    // Nobody looks before the place again. So those that still wait for it are listed anew, behind all that was looked at.
    world.pass(60);
    world.run([&RecordBuilder::envelope("next")]).await;
    assert_eq!(woken(&world).len(), 3);
    let objects = world.cloud.objects();
    let anew: Vec<_> =
        objects.iter().filter(|(key, _)| key.contains("/waiting/") && key.contains("req-1")).collect();
    let [(key, lines)] = anew.as_slice() else { panic!("{anew:?}") };
    assert!(key.contains("20261101T120100.000Z"), "{key}");
    let ids: Vec<_> =
        lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["letterId"].clone()).collect();
    assert_eq!(ids, ["failed-since", "held"]);
}

/// S3 may do so, even to those who may list the key.
#[tokio::test]
async fn an_outage_is_lived_through_where_s3_denies_access_to_what_does_not_exist() {
    let world = world(&[]);
    world.cloud.deny_missing_objects();
    for ran in outage(&world).await {
        // What is zero is left out.
        assert_eq!(ran.metrics().get("OverridesUnread"), None, "{}", ran.text);
        assert!(!ran.text.contains("not read"), "{}", ran.text);
    }
    assert_eq!(woken(&world).len(), 10);
}

#[tokio::test]
async fn an_object_of_the_list_that_is_gone_keeps_no_other_letter_waiting() {
    for denies in [false, true] {
        let world = world(&[]);
        if denies {
            world.cloud.deny_missing_objects();
        }
        put_recovery(&world);
        put_list(&world, "3000", &[listed("gone", &json!({}))]);
        put_list(&world, "3100", &[listed("there", &json!({}))]);
        world.cloud.delete_when_read("T113000");
        world.run([&RecordBuilder::envelope("first")]).await;
        assert_eq!(woken(&world), ["handle-there"], "denies: {denies}");
    }
}

/// By then its letters wait for hours, and nobody might see it fail for two minutes.
#[tokio::test]
async fn an_endpoint_that_fails_again_once_it_is_back_gets_a_scout_soon() {
    let world = world(&[]);
    outage(&world).await;
    set_down(&world, true);
    world.pass(5);
    world.run([&late("x")]).await;
    world.run([&late("y"), &late("z")]).await;
    let ran = world.run([&late("another"), &late("last")]).await;
    assert_eq!(ran.outcomes(), ["another deferred failed", "last deferred failed"]);
    let hidden = world.cloud.hidden();
    let are_scouts = ["x", "y", "z", "another", "last"].map(|id| hidden[&format!("handle-{id}")] <= 600);
    assert_eq!(are_scouts, [false, false, false, true, false]);
}

/// The letters that were woken last may have gone to another instance, or be gone.
#[tokio::test]
async fn a_chain_that_has_ended_is_begun_anew_by_any_batch() {
    let world = world(&[]);
    world.cloud.subscribe_endpoint(OTHER_SUBSCRIPTION, TOPIC, "sqs", BILLING, DLQ);
    put_recovery(&world);
    put_list(&world, "3000", &[listed("a", &json!({})), listed("b", &json!({}))]);
    let elsewhere = |id: &str| RecordBuilder::envelope(id).subscription(OTHER_SUBSCRIPTION);
    world.run([&elsewhere("one")]).await;
    world.pass(29);
    world.run([&elsewhere("two")]).await;
    assert_eq!(woken(&world), [] as [&str; 0]);
    world.pass(2);
    let ran = world.run([&elsewhere("three")]).await;
    assert_eq!((ran.outcomes(), woken(&world).len()), (vec!["three delivered".to_owned()], 2));
}

/// Else one instance would have all of a few letters, and the letters that it wakes could all go to another.
#[tokio::test]
async fn an_instance_claims_few_letters_at_first_and_few_of_the_last() {
    for (letters, first, most) in [(300, 20, 60), (59, 14, 40)] {
        let world = world(&[]);
        put_recovery(&world);
        for number in 0..letters {
            let at = format!("{:02}{:02}", number / 60, number % 60);
            put_list(&world, &at, &[listed(&format!("l{number}"), &json!({}))]);
        }
        let claimed = |world: &FunctionWorld| {
            let document: Value = serde_json::from_str(&world.cloud.objects()[RECOVERIES]).unwrap();
            let place = document["endpoints"][0]["place"].as_str().unwrap().to_owned();
            let is_before = |key: &&String| {
                key.split_once("queue=payments-dlq/").is_some_and(|(_, key)| key <= place.as_str())
            };
            world.cloud.objects().keys().filter(is_before).count()
        };
        let read = |world: &FunctionWorld| {
            world.cloud.calls("GetObject").iter().filter(|call| call.target.contains("/waiting/")).count()
        };
        world.run([&RecordBuilder::envelope("first")]).await;
        assert_eq!((claimed(&world), woken(&world).len()), (first, 10));
        assert!(read(&world) <= 16, "no more than it wakes, eight at a time");
        for number in 0..3 {
            world.run([&RecordBuilder::envelope(&format!("next-{number}"))]).await;
        }
        assert_eq!((claimed(&world), woken(&world).len()), (most, 40), "of {letters}");
        assert!(read(&world) <= 48, "{}", read(&world));
    }
}

/// The second instance has not seen the endpoint fail. The third is as fast as the second, and both claim something else.
#[tokio::test]
async fn instances_wake_different_letters() {
    let first = world(&[]);
    outage(&first).await;
    let mut all = woken(&first);
    assert_eq!(all.len(), 10);
    let documents = first.cloud.objects();
    let second = world(&[]);
    for (key, object) in documents.iter().filter(|(key, _)| key.contains("/control/")) {
        second.cloud.put(key, object);
    }
    second.pass(241);
    second.run([&RecordBuilder::envelope("other")]).await;
    all.extend(woken(&second));
    let distinct: BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "none twice: {all:?}");
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
