//! AWS in memory, and a function on top of it.
//!
//! [`TestAccount`] is an account in [`redrive_sim`], behind the HTTP connector of the real SDK clients, so tests see what
//! would have gone over the wire. [`FunctionWorld`] is the whole function on it, with a clock that a test controls.
#![allow(
    missing_docs,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::new_without_default,
    clippy::return_self_not_must_use,
    clippy::unwrap_used,
    clippy::panic,
    reason = "only tests use it"
)]

mod account;
pub mod stand_in;
mod web;
mod world;

pub use account::{CALLER, TestAccount};
pub use redrive_sim::lambda::SimInvocationResult as FunctionRan;
pub use redrive_sim::s3::SimVersion;
pub use redrive_sim::{
    EntryFault, SimAttribute, SimAttributeValue, SimCall, SimClock, SimEntry, SimFault, WebAnswer,
};
pub use redrive_testing::*;
pub use web::{ClosedPort, TestWebServer};
pub use world::{FunctionWorld, TestInvocation, TestLog};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_archive::ArchiveRecord;
use redrive_core::letter::Letter;
use redrive_core::policy::ArchiveReason;
use serde_json::Value;

/// Returns the names of the operations in a journal, in the order of the requests.
pub fn operations(cloud: &TestAccount) -> Vec<String> {
    cloud.journal().into_iter().map(|call| call.operation).collect()
}

/// Returns the body of a call as text.
pub fn body_text(call: &SimCall) -> &str {
    std::str::from_utf8(&call.body).unwrap()
}

/// Returns a message attribute. Bytes are in base64.
pub fn attribute(kind: &str, text: &str) -> SimAttribute {
    let bytes = kind.starts_with("Binary").then(|| STANDARD.decode(text).unwrap());
    SimAttribute {
        kind: kind.to_owned(),
        value: bytes.map_or_else(|| SimAttributeValue::Text(text.to_owned()), SimAttributeValue::Bytes),
    }
}

/// Returns the records in the archive, one per letter.
pub fn archived(cloud: &TestAccount) -> Vec<Value> {
    let objects = cloud.objects();
    let lines = objects.values().flat_map(|object| object.lines());
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the record of a letter whose retries have all failed, archived at this time.
pub fn record(letter: &Letter, archived: i64) -> ArchiveRecord {
    ArchiveRecord::of(letter, &context(ArchiveReason::Exhausted), at(archived))
}
