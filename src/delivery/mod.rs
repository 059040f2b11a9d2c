//! Where retries go.
//!
//! [`Payload`] is what is sent, [`Dispatcher`] sends it: many payloads in few requests, several
//! requests at a time, and an answer for every single one. One file per kind of endpoint knows its
//! service's request; nothing here knows of policies or schedules.

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
