//! The others around a replay: those who work off its queues, and a publisher who writes marks of his own.

use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use redrive_laws::replays::BucketObjects;
use redrive_sim::{SimAws, SimFault, SimMillis};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The number of letters in a dead-letter queue at the beginning, and how many leave it in a second.
const QUEUED_AT_START: SimMillis = 100_000;
const DRAINED_PER_SECOND: SimMillis = 60;

/// The number of letters that a publisher archives in the course of a replay.
const MAX_FORGED_LETTERS: u64 = 20;

/// The others around a replay.
#[derive(Debug)]
pub(super) struct OutsideTraffic {
    aws: SimAws,
    began: SimMillis,
    /// An archived letter that no replay selects: its bucket and key, and its record.
    raw: Option<(String, Value)>,
    lies: AtomicU64,
}

impl OutsideTraffic {
    pub(super) fn new(aws: &SimAws, objects: &BucketObjects) -> Self {
        let raw = objects.iter().find_map(|(key, text)| {
            let mut records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            Some((key.clone(), records.find(|record| record["origin"] == "raw")?))
        });
        Self { aws: aws.clone(), began: aws.clock().millis(), raw, lies: AtomicU64::new(0) }
    }

    /// Returns what a queue says that somebody works off: a dead-letter queue drains, and in the requeue
    /// nothing waits.
    pub(super) fn take(&self, queue: &str) -> SimFault {
        let passed = (self.aws.clock().millis() - self.began) / 1000;
        let left = if queue.contains("-requeue") {
            0
        } else {
            (QUEUED_AT_START - DRAINED_PER_SECOND * passed).max(0)
        };
        let answer = json!({ "Attributes": { "ApproximateNumberOfMessages": left.to_string() } });
        SimFault::Nonsense(200, answer.to_string())
    }

    /// Archives a letter whose publisher has written into its mark that it was replayed.
    pub(super) fn lie(&self) {
        let number = self.lies.fetch_add(1, Ordering::Relaxed);
        let Some((place, record)) = self.raw.as_ref().filter(|_| number < MAX_FORGED_LETTERS) else { return };
        let (now, millis) = (self.aws.clock().now(), self.aws.clock().millis());
        let mut record = record.clone();
        let body = record["message"]["body"].as_str().unwrap_or_default();
        // As a mark has it of a raw message: 8 bytes of the hash.
        let digest = URL_SAFE_NO_PAD.encode(&Sha256::digest(body)[..8]);
        let mark = json!({ "v": 2, "spent": 0, "id": format!("lie-{number}"), "first": 0, "gen": 1,
            "msg": digest, "passes": 0 })
        .to_string();
        record["archivedAt"] = now.to_string().into();
        record["message"]["messageId"] = format!("lie-{number}").into();
        record["message"]["messageAttributes"]["sns-redrive"] =
            json!({ "stringValue": mark, "dataType": "String" });
        let (bucket, key) = place.split_once('/').unwrap_or_default();
        let queue = key.split("/date=").next().unwrap_or_default();
        let name = now.strftime("date=%Y-%m-%d/%Y%m%dT%H%M%S%.3fZ");
        let key = format!("{queue}/{name}-lie{number}.2-n1-r1.jsonl");
        let text = format!("{record}\n");
        self.aws.act("publisher", |it, _| it.s3.place((bucket, &key), text.as_bytes(), millis));
    }
}
