//! The delivery of retries to their targets.
//!
//! A [`Payload`] is a letter packed for its endpoint. The [`Dispatcher`] sends payloads: many in few
//! requests, several requests at the same time, with a result for every payload. One file per kind of
//! endpoint knows the request of its service. This module knows nothing of policies and schedules.

mod answers;
mod dispatcher;
mod event;
mod function;
mod guard;
mod hiding;
mod http;
mod message;
mod payload;
mod queue;
mod stream;
mod topic;

pub use dispatcher::{Dispatcher, Gate, PendingDelivery, Time};
pub use event::Invoke;
pub use guard::Reach;
pub use hiding::{Hiding, hide};
pub use http::{HttpClient, Post, SimulatedNetwork};
pub use message::{DEFAULT_GROUP, MAX_MESSAGE_BYTES, Numbered, OutgoingMessage};
pub use payload::Payload;
pub use stream::Record;
