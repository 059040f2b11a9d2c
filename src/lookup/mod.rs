//! Look-ups: ask once, keep the answer for a while, give up at a deadline.

mod queues;
mod sharing;
mod subscriptions;

pub use queues::Queues;
pub use subscriptions::Subscriptions;
