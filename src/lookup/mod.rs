//! Look-ups: ask once, keep the answer for a while, stop at a deadline.

mod cache;
mod queues;
mod search;
mod sharing;
mod subscriptions;

pub(crate) use cache::{Cache, Keeping};
pub use queues::Queues;
pub use subscriptions::Subscriptions;
