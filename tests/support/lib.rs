//! AWS in memory, and a function on top of it.
//!
//! [`Cloud`] stands in for the network: it is the HTTP connector of the real SDK clients, so what
//! the tests see is what would have gone over the wire. It takes everything unless a script says
//! otherwise, and keeps a journal. [`World`] is the whole function with a clock that a test moves.
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

mod cloud;
mod http;
mod world;

pub use cloud::{CALLER, Cloud, Reply};
pub use http::{Answer, Request, Server};
pub use protocol::{self, Call, Entry, EntryFate, wire};
pub use redrive_testing::*;
pub use world::{Ran, World};

use serde_json::Value;
use sns_redrive::batch::ArchiveContext;
use sns_redrive::policy::ArchiveReason;

/// The names of the operations in a journal, in the order of the requests.
pub fn operations(cloud: &Cloud) -> Vec<String> {
    cloud.journal().into_iter().map(|call| call.op).collect()
}

/// What lies in the archive, one record per letter.
pub fn archived(cloud: &Cloud) -> Vec<Value> {
    let objects = cloud.objects();
    let lines = objects.values().flat_map(|object| object.lines());
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Of a letter that nobody knows what to do with.
pub fn unrecognised() -> ArchiveContext {
    ArchiveContext {
        reason: ArchiveReason::Unrecognised,
        detail: None,
        rule: "default".to_owned(),
        target: None,
        retry: None,
        failure: None,
        order: None,
    }
}
