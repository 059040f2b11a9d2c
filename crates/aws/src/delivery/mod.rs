//! Requests to the targets of letters.
//!
//! A [`DeliveryPayload`] is a letter packed for its endpoint. The [`Dispatcher`] makes a request with payloads. One
//! file per kind of endpoint knows the request of its service. The batch machine decides which letters share
//! a request and when it begins; this module decides nothing.

mod address_guard;
mod answers;
mod dispatcher;
mod function;
mod function_event;
mod hide_letters;
mod http;
mod message;
mod payload;
mod queue;
mod stream;
mod topic;

pub use address_guard::AddressReach;
pub use dispatcher::{DeliveryWindow, Dispatcher, PendingDelivery};
pub use function_event::InvokePayload;
pub use hide_letters::{HideRequest, hide};
pub use http::{HttpClient, HttpPost, SimulatedNetwork};
pub use message::{DEFAULT_GROUP, MAX_MESSAGE_BYTES, OutgoingMessage, RetryNumber};
pub use payload::DeliveryPayload;
pub use stream::StreamRecord;
