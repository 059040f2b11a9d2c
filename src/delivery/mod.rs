//! Requests to the targets of letters.
//!
//! A [`Payload`] is a letter packed for its endpoint. The [`Dispatcher`] makes a request with payloads. One
//! file per kind of endpoint knows the request of its service. The batch machine decides which letters share
//! a request and when it begins; this module decides nothing.

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

pub use dispatcher::{Dispatcher, PendingDelivery, Time};
pub use event::Invoke;
pub use guard::Reach;
pub use hiding::{Hiding, hide};
pub use http::{HttpClient, Post, SimulatedNetwork};
pub use message::{DEFAULT_GROUP, MAX_MESSAGE_BYTES, Numbered, OutgoingMessage};
pub use payload::Payload;
pub use stream::Record;
