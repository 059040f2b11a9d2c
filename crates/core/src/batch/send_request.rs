//! A request to deliver letters, and its result.

use std::sync::Arc;
use std::time::Duration;

use super::send_result::SendResult;
use crate::endpoint::{Destination, Endpoint};
use crate::failure::Failure;
use crate::letter::Letter;
use crate::policy::Retry;

/// A request to deliver letters.
#[derive(Debug)]
pub struct SendRequest {
    /// The endpoint.
    pub to: Endpoint,
    /// The letters, in the order in which they go.
    pub deliveries: Vec<Arc<Delivery>>,
    /// The time at which the request is cut off.
    pub until: Duration,
}

/// A letter that is to be delivered.
#[derive(Debug)]
pub struct Delivery {
    /// The letter.
    pub letter: Arc<Letter>,
    /// The retry that this delivery is.
    pub retry: Retry,
    /// The destination.
    pub destination: Destination,
    /// True if it goes without its mark, for which there is no room.
    pub unmarked: bool,
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestResult {
    /// The way in which it ended.
    pub end: RequestEnd,
    /// The time that it took.
    pub took: Duration,
}

/// The way in which a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestEnd {
    /// The endpoint answered for each message, in the order of the request.
    Answered(Vec<SendResult>),
    /// The request was refused whole, or failed.
    Failed(Failure),
    /// It was cut off, because its time was over.
    CutOff,
}
