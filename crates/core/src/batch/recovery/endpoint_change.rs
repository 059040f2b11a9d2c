//! An endpoint that went down or came back, for the topic of notices.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::arn::Arn;
use crate::endpoint::TargetName;

/// An endpoint that went down or came back, of which the topic of notices is to be told by this instance alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointChange {
    /// The endpoint.
    pub target: TargetName,
    /// The queue of the batch. Letters that wait in it are counted.
    pub queue: Arn,
    /// The topics of the letters by which this instance knows of it. The topic of notices is not among them.
    pub topics: BTreeSet<Arn>,
    /// The time since which it is or was down.
    pub down_since: Timestamp,
    /// The time when this was seen.
    pub at: Timestamp,
    /// The largest number of letters that wait for it in the queue for more than two minutes, of those that were hidden since a
    /// quarter of an hour before it went down. `None` if it is unknown.
    pub waiting: Option<u64>,
    /// The change.
    pub kind: ChangeKind,
}

/// The change of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is down.
    Down {
        /// The code of the last failure.
        error: String,
    },
    /// It takes letters again.
    Recovered {
        /// The number of letters that were woken at once.
        woken: u64,
    },
}
