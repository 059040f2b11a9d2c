//! The questions that hung.

use std::collections::HashMap;
use std::time::Duration;

use crate::arn::Arn;

/// A question whose answer decides whether, or where, a letter may go.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::batch) enum LookupQuestion {
    /// The attributes of a queue.
    Queue(Arn),
    /// The attributes of a subscription.
    Subscription(Arn),
    /// The signatures of a topic's letters, for which a certificate may have to be fetched.
    Signature(Arn),
    /// The subscription that names a queue.
    Search(Arn),
}

/// The questions that hung, each with the time until which it is not asked.
#[derive(Debug, Default)]
pub(in crate::batch) struct HungQuestions(pub(super) HashMap<LookupQuestion, Duration>);
