//! Requests to the targets of letters.
//!
//! A [`DeliveryPayload`] is a letter packed for its endpoint. The [`Dispatcher`] makes a request with payloads. One
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

pub use dispatcher::{DeliveryWindow, Dispatcher, PendingDelivery};
pub use event::InvokePayload;
pub use guard::AddressReach;
pub use hiding::{HideRequest, hide};
pub use http::{HttpClient, HttpPost, SimulatedNetwork};
pub use message::{DEFAULT_GROUP, MAX_MESSAGE_BYTES, OutgoingMessage, RetryNumber};
pub use payload::DeliveryPayload;
pub use stream::StreamRecord;
