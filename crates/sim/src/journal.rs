//! The append-only journal of everything that happens. Other code judges the laws by it.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::call::SimCall;
use crate::clock::SimMillis;
use crate::faults::SimFault;
use crate::message::{SimAttributes, attributes_size, hex};

/// The journal.
#[derive(Debug, Default)]
pub struct SimJournal {
    entries: Vec<SimRecord>,
}

/// One line of the journal.
#[derive(Debug, Clone)]
pub struct SimRecord {
    /// The time.
    pub at: SimMillis,
    /// The caller that did it, or the service that acted by itself: `sqs`, `sns`, `lambda`.
    pub by: Arc<str>,
    /// The event.
    pub event: SimEvent,
}

/// The content of a message, which never changes once it is sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimPayload {
    /// The body.
    pub body: String,
    /// The message attributes.
    pub attributes: SimAttributes,
    /// `MessageGroupId`.
    pub group: Option<String>,
    /// `MessageDeduplicationId`.
    pub deduplication: Option<String>,
    /// `AWSTraceHeader`.
    pub trace: Option<String>,
}

impl SimPayload {
    /// Returns the bytes that SQS counts.
    pub(crate) fn size(&self) -> usize {
        self.body.len() + attributes_size(&self.attributes)
    }
}

/// An event. Queues, topics, functions and streams are given by name, subscriptions by ARN.
#[derive(Debug, Clone)]
pub enum SimEvent {
    /// A request came, whatever its result.
    Called(Arc<SimCall>),
    /// A request has a fault, which shows when it ends. Requests of services that act by themselves have this
    /// event only.
    Faulty {
        /// The request.
        call: Arc<SimCall>,
        /// The fault.
        fault: SimFault,
    },
    /// A request ended.
    Answered {
        /// The request.
        call: Arc<SimCall>,
        /// The fault of the request.
        fault: SimFault,
        /// The status of the answer, even if the caller does not get it, or `None` if the service did not get
        /// the request.
        status: Option<u16>,
        /// The number of events right before this one that are its effects. A function and a web server write
        /// theirs themselves.
        effects: usize,
    },
    /// A queue accepted a message.
    Sent {
        /// The queue.
        queue: Arc<str>,
        /// The message's id.
        id: Arc<str>,
        /// Its content.
        payload: Arc<SimPayload>,
        /// The seconds until it becomes visible.
        delay: i64,
    },
    /// A FIFO queue or topic answered a repetition within five minutes like the first message, and dropped
    /// it.
    Swallowed {
        /// The queue or topic.
        name: Arc<str>,
        /// The id of the first message.
        id: Arc<str>,
        /// The body that was dropped.
        body: String,
    },
    /// A queue handed out a message.
    Received {
        /// The queue.
        queue: Arc<str>,
        /// The message's id.
        id: Arc<str>,
        /// The receive's number, from 1.
        count: u32,
        /// The receipt handle.
        handle: Arc<str>,
    },
    /// A queue changed the time for which it hides a message.
    Hidden {
        /// The queue.
        queue: Arc<str>,
        /// The message's id.
        id: Arc<str>,
        /// The receipt handle.
        handle: String,
        /// The seconds.
        seconds: i64,
    },
    /// A queue answered 200 to a receipt handle that was no longer valid.
    Stale {
        /// The queue.
        queue: Arc<str>,
        /// The operation.
        operation: &'static str,
        /// The receipt handle.
        handle: String,
    },
    /// A queue deleted a message on request.
    Deleted {
        /// The queue.
        queue: Arc<str>,
        /// The message's id.
        id: Arc<str>,
    },
    /// A standard queue will hand out a message once more than it should.
    Duplicated {
        /// The queue.
        queue: Arc<str>,
        /// The message's id.
        id: Arc<str>,
    },
    /// A message's retention ended.
    Expired {
        /// The queue.
        queue: Arc<str>,
        /// The message's id.
        id: Arc<str>,
    },
    /// SQS moved a message that was received too often.
    Moved {
        /// The queue that it left.
        from: Arc<str>,
        /// The dead-letter queue.
        to: Arc<str>,
        /// The message's id, which it keeps.
        id: Arc<str>,
    },
    /// A topic accepted a message.
    Published {
        /// The topic.
        topic: Arc<str>,
        /// The message's id.
        id: Arc<str>,
        /// The message.
        message: String,
    },
    /// SNS delivered a message to an endpoint.
    Delivered {
        /// The subscription.
        subscription: Arc<str>,
        /// The message's id.
        id: Arc<str>,
    },
    /// SNS gave up a delivery.
    GivenUp {
        /// The subscription.
        subscription: Arc<str>,
        /// The message's id.
        id: Arc<str>,
        /// The dead-letter queue that accepted it, or `None` if none did.
        queue: Option<Arc<str>>,
    },
    /// S3 stored an object.
    Stored {
        /// Bucket and key.
        object: String,
        /// The entity tag.
        etag: String,
        /// The bytes.
        bytes: usize,
    },
    /// A function ran.
    Invoked {
        /// The function.
        function: Arc<str>,
        /// The event.
        payload: String,
        /// True if the function's code succeeded.
        ok: bool,
    },
    /// Lambda stopped an event that went round in a loop.
    LoopStopped {
        /// The function.
        function: Arc<str>,
    },
    /// A mapping handed a batch to its function.
    Batch {
        /// The queue.
        queue: Arc<str>,
        /// The messages' ids.
        ids: Vec<Arc<str>>,
    },
    /// A mapping got the result of a batch.
    BatchEnded {
        /// The queue.
        queue: Arc<str>,
        /// The messages that stay in the queue.
        kept: Vec<Arc<str>>,
        /// The reason why the whole batch counts as failed.
        failed: Option<String>,
    },
    /// A stream accepted a record.
    Streamed {
        /// The stream.
        stream: Arc<str>,
        /// The record.
        data: Vec<u8>,
    },
    /// A web server answered a request.
    Posted {
        /// The server's name.
        host: Arc<str>,
        /// Path and query.
        path: String,
        /// The request's body.
        body: Vec<u8>,
        /// The status of the answer.
        status: u16,
    },
}

impl SimJournal {
    /// Appends an event.
    pub(crate) fn push(&mut self, at: SimMillis, by: &Arc<str>, event: SimEvent) {
        self.entries.push(SimRecord { at, by: Arc::clone(by), event });
    }

    /// Reports whether something happened since the journal had so many entries. The fault and the end of a request
    /// alone do not count.
    pub(crate) fn has_news(&self, since: usize) -> bool {
        let is_news =
            |record: &SimRecord| !matches!(record.event, SimEvent::Answered { .. } | SimEvent::Faulty { .. });
        self.entries[since..].iter().any(is_news)
    }

    /// Returns the journal so far.
    #[must_use]
    pub fn records(&self) -> &[SimRecord] {
        &self.entries
    }

    /// Removes the journal so far and returns it.
    pub(crate) fn take(&mut self) -> Vec<SimRecord> {
        std::mem::take(&mut self.entries)
    }
}

/// Returns a hash of a journal. Two runs with the same seed have the same hash.
#[must_use]
pub fn digest(records: &[SimRecord]) -> String {
    let mut hash = Sha256::new();
    for record in records {
        match &record.event {
            // The hash already contains the request.
            SimEvent::Answered { call, fault, status, .. } => {
                hash.update(format!("{} {} {fault:?} {status:?}\n", record.at, call.summary()));
            }
            _ => hash.update(format!("{record:?}\n")),
        }
    }
    hex(&hash.finalize())
}
