//! Look-ups: ask once, keep the answer for a while, stop at a deadline.

mod cache;
mod queues;
mod search;
mod sharing;
mod subscriptions;

pub(crate) use cache::{CacheLimits, LookupCache};
pub use queues::QueueReader;
pub use subscriptions::SubscriptionReader;
