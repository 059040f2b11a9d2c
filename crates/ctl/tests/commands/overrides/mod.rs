//! `hold`, `retry`, `give-up` and `overrides`: overrides to the running function.

mod document;
mod give;
mod release;
mod show;
mod wake;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redrive_support::stand_in::{self, StandInRequest};
use redrive_support::{TOPIC, TestAccount};
use serde_json::{Value, json};

use super::{CommandRun, CommandWorld, redrivectl_in};

const CONTROL: [&str; 2] = ["--control", "s3://my-bucket/dead-letters-control"];
const DOCUMENT: &str = "my-bucket/dead-letters-control/overrides.json";

async fn run(cloud: &TestAccount, args: &[&str]) -> CommandRun {
    run_in(CommandWorld::on(cloud), args).await
}

async fn run_in(world: CommandWorld, args: &[&str]) -> CommandRun {
    redrivectl_in(world, &[args, &CONTROL].concat()).await
}

/// Returns an override as the tool writes it.
pub(crate) fn override_(id: &str, action: &str, until: Option<&str>) -> Value {
    let mut override_ = json!({
        "id": id, "do": action, "match": { "topicArn": [TOPIC] }, "at": "2026-11-01T11:00:00Z", "by": "ada", "why": "down",
    });
    if let Some(until) = until {
        override_["until"] = until.into();
    }
    override_
}

pub(crate) fn put_overrides(cloud: &TestAccount, overrides: &[Value]) {
    cloud.put(DOCUMENT, &json!({ "version": 1, "overrides": overrides }).to_string());
}

pub(crate) fn overrides(cloud: &TestAccount) -> Vec<Value> {
    let document: Value = serde_json::from_str(&cloud.objects()[DOCUMENT]).unwrap();
    assert_eq!(document["version"], 1);
    document["overrides"].as_array().unwrap().clone()
}

/// Reports whether there is a document of overrides.
pub(crate) fn has_document(cloud: &TestAccount) -> bool {
    cloud.objects().contains_key(DOCUMENT)
}

fn ids(cloud: &TestAccount) -> Vec<String> {
    overrides(cloud).iter().map(|override_| override_["id"].as_str().unwrap().to_owned()).collect()
}

fn ended(cloud: &TestAccount, id: &str) -> Value {
    let key = format!("my-bucket/dead-letters-control/overrides/{id}.json");
    serde_json::from_str(&cloud.objects()[&key]).unwrap()
}

/// Returns the handles that SQS was asked to show.
fn shown(cloud: &TestAccount) -> Vec<String> {
    let calls = cloud.calls("ChangeMessageVisibilityBatch");
    assert!(calls.iter().all(|call| call.entries.len() <= 10));
    let mut handles: Vec<_> = calls
        .into_iter()
        .flat_map(|call| call.entries)
        .map(|entry| {
            assert_eq!(entry.visibility, Some(0));
            entry.handle.unwrap()
        })
        .collect();
    handles.sort();
    handles
}

/// Returns a world that interrupts the tool as soon as a request has this text in its address.
fn interrupted_at(cloud: &TestAccount, request: &'static str) -> CommandWorld {
    let interrupted = Arc::new(AtomicBool::new(false));
    let presses = Arc::clone(&interrupted);
    let config = stand_in::before(cloud, move |asked: &StandInRequest<'_>| {
        if asked.uri.contains(request) {
            presses.store(true, Ordering::Relaxed);
        }
        None::<(u16, String)>
    });
    CommandWorld { config: Some(config), interrupted, ..CommandWorld::default() }
}

fn retry_topic() -> [&'static str; 6] {
    ["retry", "--topic", TOPIC, "--why", "mended", "--yes"]
}
