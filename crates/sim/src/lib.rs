//! One AWS account in memory, with AWS's own limits, for every test and proof. It knows nothing of the
//! software that it tests.
//!
//! ```text
//!        SDK clients                 real processes
//!             |                            |
//!  door::SimConnector (tokio)   socket::SocketServer (loopback)   doors: wait, hang, break off
//!             |                            |
//!             +-------- protocol ----------+                      bytes <-> SimCall, answer
//!                          |
//!                      FaultHook                                  what goes wrong with this SimCall?
//!                          |
//!  SimMapping -->  Sqs  Sns  S3  Lambda  Firehose  Web            services: limits, state
//!                          |
//!                      SimJournal                                 everything that happened, with a digest
//!
//!   SimClock: tokio's (paused or not), the machine's own, or moved by hand
//! ```
//!
//! A queue's messages live in the crate `redrive-sim-queue`, which has no part of the SDK, the protocols or the
//! journal.
//!
//! [`SimAws`] holds it all. A test creates queues and topics with [`SimAws::act`], hands [`SimAws::connector`] to the SDK or
//! [`SimAws::listen`]'s address to a process, lets [`FaultHook`] decide what goes wrong, and reads [`SimAws::journal`].
//!
//! Behaviour that was recorded on AWS is the default, and `tests/recorded` proves it. What AWS does not specify
//! and nobody recorded is a setting: how old a reading is, whether a FIFO group is blocked as a whole, whether a
//! message that is moved keeps its first receive, how often a message is handed out twice, what an old receipt
//! handle does.
//! Features that no caller here uses are left out: filters, policies, encryption,
//! multipart uploads, queues' creation by request. A record for Firehose is text.
//!
//! All random numbers come from the seed. With a clock that the test moves, two runs with the same seed have
//! the same journal.

#![allow(clippy::missing_errors_doc, reason = "an operation fails as the API of its service says")]

mod call;
mod call_context;
mod caller;
mod clock;
mod door;
mod error;
mod faults;
mod firehose;
mod journal;
pub mod lambda;
pub mod mapping;
mod message;
mod names;
mod protocol;
pub mod s3;
mod services;
pub mod sns;
mod socket;
pub mod sqs;
#[cfg(test)]
mod tests;
mod web;
mod world;

pub use call::{AwsService, SimCall};
pub use call_context::SimContext;
pub use caller::Caller;
pub use clock::{SandboxClock, SimClock, SimMillis};
pub use door::SimConnector;
pub use error::{BatchAnswer, Error};
pub use faults::{EntryFault, FaultHook, SimFault};
pub use firehose::{Firehose, MAX_BATCH_BYTES, MAX_RECORD_BYTES, MAX_RECORDS};
pub use journal::{SimEvent, SimJournal, SimPayload, SimRecord, digest};
pub use message::{SimAttribute, SimAttributeValue, SimAttributes, SimEntry};
pub use names::{ACCOUNT, REGION, arn};
pub use protocol::{WireRequest, WireResponse};
pub use services::Services;
pub use socket::SocketServer;
pub use web::{WebAnswer, WebServers};
pub use world::SimAws;
