//! AWS in memory, and a function on top of it.
//!
//! [`Account`] is an account in [`redrive_sim`], behind the HTTP connector of the real SDK clients, so tests see what
//! would have gone over the wire. [`World`] is the whole function on it, with a clock that a test controls.
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

pub use account::{Account, CALLER};
pub use redrive_sim::lambda::Ran as FunctionRan;
pub use redrive_sim::{Attribute, Call, Clock, Data, Entry, EntryFault, Fault, WebAnswer};
pub use redrive_testing::*;
pub use web::Server;
pub use world::{Log, Ran, World};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sns_redrive::archive::Record;
use sns_redrive::letter::Letter;
use sns_redrive::policy::ArchiveReason;

/// Returns the names of the operations in a journal, in the order of the requests.
pub fn operations(cloud: &Account) -> Vec<String> {
    cloud.journal().into_iter().map(|call| call.operation).collect()
}

/// Returns the body of a call as text.
pub fn body_text(call: &Call) -> &str {
    std::str::from_utf8(&call.body).unwrap()
}

/// Returns a message attribute. Bytes are in base64.
pub fn attribute(kind: &str, text: &str) -> Attribute {
    let bytes = kind.starts_with("Binary").then(|| STANDARD.decode(text).unwrap());
    Attribute { kind: kind.to_owned(), value: bytes.map_or_else(|| Data::Text(text.to_owned()), Data::Bytes) }
}

/// Returns the records in the archive, one per letter.
pub fn archived(cloud: &Account) -> Vec<Value> {
    let objects = cloud.objects();
    let lines = objects.values().flat_map(|object| object.lines());
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the record of a letter whose retries have all failed, archived at this time.
pub fn record(letter: &Letter, archived: i64) -> Record {
    Record::of(letter, &context(ArchiveReason::Exhausted), at(archived))
}
