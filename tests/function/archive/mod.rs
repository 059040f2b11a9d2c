//! Tests of archives: no undeliverable letter is lost, and every archived letter can be rebuilt.

mod queue;
mod round_trip;
mod s3;
mod whole_function;

use std::collections::BTreeMap;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use proptest::prelude::*;
use redrive_archive::{Archive, ArchiveInvocation, ArchiveRecord};
use redrive_aws::clients::AwsClients;
use redrive_aws::clock::InstanceClock;
use redrive_aws::delivery::{AddressReach, Dispatcher};
use redrive_core::batch::ArchiveContext;
use redrive_core::endpoint::TargetName;
use redrive_core::failure::{Failure, FailureClass};
use redrive_core::letter::{Letter, TrustedOrigins};
use redrive_core::policy::{ArchiveReason, Retry, RetryPhase};
use redrive_support::*;
use serde_json::{Value, json};
use tokio::time::Instant;

const FIFO_ARCHIVE: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-archive.fifo";

fn in_s3(cloud: &TestAccount) -> Archive {
    Archive::S3 { s3: cloud.clients().s3, bucket: "my-bucket".to_owned(), prefix: "dead-letters".to_owned() }
}

fn in_queue(cloud: &TestAccount, queue: &str) -> Archive {
    let clients = cloud.clients();
    Archive::Queue {
        dispatcher: Dispatcher::new(&clients, AddressReach::Public, InstanceClock::system()),
        queue: arn(queue),
    }
}

async fn store(archive: &Archive, letters: &[Letter]) -> Vec<Result<(), Failure>> {
    store_until(archive, letters, Instant::now() + Duration::from_secs(10)).await
}

async fn store_until(archive: &Archive, letters: &[Letter], until: Instant) -> Vec<Result<(), Failure>> {
    let batch = ArchiveInvocation { request_id: "req-1", now: at(NOW), until };
    let context = context(ArchiveReason::Unrecognised);
    let to_archive: Vec<_> = letters.iter().map(|letter| (letter, &context)).collect();
    archive.store(&to_archive, batch, None).await
}

fn raws(count: usize) -> Vec<Letter> {
    (0..count).map(|n| letter(&RecordBuilder::raw(&format!("m{n}"), &format!("body of m{n}.")))).collect()
}

/// Returns the lines of the only object.
fn lines(cloud: &TestAccount) -> Vec<Value> {
    let mut objects = cloud.objects();
    objects.retain(|key, _| !key.ends_with("overrides.json"));
    assert_eq!(objects.len(), 1);
    let object = objects.into_values().next().unwrap();
    assert!(object.ends_with('\n'));
    object.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Puts the message of a record into an event again, and reads it.
fn rebuilt(line: &Value) -> Letter {
    let record: ArchiveRecord = serde_json::from_value(line.clone()).unwrap();
    let mut message = serde_json::to_value(&record.message).unwrap();
    assert_eq!(message, line["message"], "reading and writing a record changes nothing");
    message["receiptHandle"] = "another".into();
    letters_of(&json!({ "Records": [message] })).remove(0)
}
