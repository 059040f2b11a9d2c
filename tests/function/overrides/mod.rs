//! P10, tested at S3: overrides are read from it, waiting letters are listed there, and a failing S3 costs a
//! second and no letter.

mod actions;
mod archive_that_fails;
mod begun;
mod reading;
mod targets;
mod waiting_list;

use redrive_support::*;
use serde_json::{Value, json};

const OVERRIDES: &str = "my-bucket/control/overrides.json";

/// Returns a function with a place for overrides, whose subscribers are down.
fn world(settings: &[(&str, &str)]) -> FunctionWorld {
    let given = [("CONTROL", "s3://my-bucket/control")];
    let world = FunctionWorld::new(&[&given, settings].concat());
    with_s3(&world, |_| SimFault::Pass);
    world
}

/// Makes S3 answer this from now on, and keeps subscribers down.
fn with_s3(world: &FunctionWorld, s3: impl Fn(&SimCall) -> SimFault + Send + Sync + 'static) {
    world.cloud.script(move |call| match call.operation.as_str() {
        "GetObject" | "ListObjectsV2" | "PutObject" => s3(call),
        "SendMessageBatch" => SimFault::refuse(503, "ServiceUnavailable", "down"),
        _ => SimFault::Pass,
    });
}

/// Makes S3 answer reads with this from now on, and with the same listings if it forbids reads.
fn with_get(world: &FunctionWorld, reply: SimFault) {
    let forbids = reply == forbidden();
    with_s3(world, move |call| match call.operation.as_str() {
        "GetObject" => reply.clone(),
        "ListObjectsV2" if forbids => reply.clone(),
        _ => SimFault::Pass,
    });
}

/// Returns the calls of one operation that are about the overrides.
fn calls(world: &FunctionWorld, operation: &str) -> Vec<SimCall> {
    world.cloud.calls(operation).into_iter().filter(|call| call.target.contains("overrides.json")).collect()
}

fn forbidden() -> SimFault {
    SimFault::refuse(403, "AccessDenied", "no")
}

fn override_(action: &str, more: &Value) -> Value {
    let mut override_ = json!({ "id": "override-1", "do": action, "match": { "topicArn": [TOPIC] },
        "at": "2026-11-01T11:59:00Z", "until": "2026-11-01T14:00:00Z", "by": "ada", "why": "the database is down" });
    override_.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    override_
}

fn give(world: &FunctionWorld, overrides: &[Value]) {
    world.cloud.put(OVERRIDES, &json!({ "version": 1, "overrides": overrides }).to_string());
}

/// Returns a letter, received now, whose second retry is due in nearly a minute.
fn early() -> RecordBuilder {
    RecordBuilder::envelope("early").mark(&mark(1, "early", NOW - 60_000)).received(1)
}

/// Returns a letter whose first retry is due.
fn due() -> RecordBuilder {
    RecordBuilder::envelope("a")
}

fn is_warned(ran: &TestInvocation, text: &str) -> bool {
    ran.log.iter().any(|line| line["level"] == "WARN" && line["message"].as_str().unwrap().contains(text))
}

fn archived_by(world: &FunctionWorld) -> Value {
    let objects = world.cloud.objects();
    let (_, object) = objects.iter().find(|(key, _)| key.contains("/dead-letters/")).unwrap();
    serde_json::from_str(object.trim()).unwrap()
}
