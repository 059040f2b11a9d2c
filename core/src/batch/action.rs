//! What the machine asks for, and what it is answered.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::health::Change;
use super::subscription::Subscription;
use super::time::Window;
use crate::arn::Arn;
use crate::endpoint::{Destination, Endpoint};
use crate::failure::{Failure, FailureClass};
use crate::letter::{Letter, MAX_ATTRIBUTES, Mark};
use crate::policy::{ArchiveReason, Retry};
use crate::waiting::WaitingLetter;

/// The present of an invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The time of day, by which letters are due.
    pub at: Timestamp,
    /// The time since the invocation began, by a clock that never goes back. Every `until` of an action counts so.
    pub elapsed: Duration,
}

/// Something that the machine wants done. Several actions may be under way at once.
#[derive(Debug)]
pub enum Action {
    /// Tells what these queues say of themselves. Answered by [`Answer::Queues`].
    LookUpQueues {
        /// The queues.
        queues: BTreeSet<Arn>,
        /// Whether an answer that is kept but not new will not do.
        again: bool,
        /// No call goes on after this.
        until: Duration,
    },
    /// Tells what SNS says of these subscriptions. Answered by [`Answer::Subscriptions`].
    LookUpSubscriptions {
        /// The subscriptions.
        subscriptions: BTreeSet<Arn>,
        /// No call begins after this.
        until: Duration,
    },
    /// Finds the only subscription that names a dead-letter queue, for letters that name none. Answered by
    /// [`Answer::Discovered`].
    Discover {
        /// The dead-letter queue of each letter, and when the letter arrived.
        searches: Vec<(Arn, Timestamp)>,
        /// No call goes on after this.
        until: Duration,
    },
    /// Tells which of these dead-letter queues a raw subscription shares with others, each once in the life of an
    /// instance. Answered by [`Answer::Shared`].
    LookUpSharing {
        /// The queues.
        queues: BTreeSet<Arn>,
    },
    /// Verifies the signatures of SNS. Answered by [`Answer::Verified`].
    Verify {
        /// The letters.
        letters: Vec<Arc<Letter>>,
        /// No call goes on after this.
        until: Duration,
    },
    /// Delivers letters. Answered by [`Answer::Delivered`].
    Deliver {
        /// The letters with their destinations.
        deliveries: Vec<Delivery>,
        /// The time for it.
        window: Window,
    },
    /// Sends letters to the requeue. Answered by [`Answer::Moved`].
    Move {
        /// The letters.
        moves: Vec<Move>,
        /// The requeue.
        requeue: Arn,
        /// No call goes on after this.
        until: Duration,
    },
    /// Archives letters. Answered by [`Answer::Archived`].
    Archive {
        /// The letters, and why each is archived.
        letters: Vec<(Arc<Letter>, ArchiveContext)>,
        /// When they are archived.
        at: Timestamp,
        /// `MaximumMessageSize` of an archive that is a queue, bytes, where it is known.
        limit: Option<usize>,
        /// No call goes on after this.
        until: Duration,
    },
    /// Reads the document of orders. Answered by [`Answer::Orders`].
    ReadOrders {
        /// The tag of the document that is known already: one that still has it need not be read.
        unless: Option<String>,
        /// No call goes on after this.
        until: Duration,
    },
    /// Writes the list of letters that are hidden for long. Answered by [`Answer::Listed`].
    ListWaiting {
        /// The lines.
        letters: Vec<WaitingLetter>,
        /// When they are written.
        at: Timestamp,
        /// No call goes on after this.
        until: Duration,
    },
    /// Hides letters. Answered by [`Answer::Hidden`].
    Hide {
        /// The letters with the seconds to hide them, counted from the call; 0 shows a letter at once.
        letters: Vec<(Arc<Letter>, u64)>,
        /// No call goes on after this.
        until: Duration,
    },
}

/// The answer to an action, with one element for each of the action's letters, in their order. What is missing in an
/// answer counts as not done.
#[derive(Debug)]
pub enum Answer {
    /// What is known of the queues, and why some could not be read now.
    Queues {
        /// The attributes; what a queue said before holds while it will not tell.
        known: HashMap<Arn, QueueAttributes>,
        /// The queues that were asked and did not tell.
        unread: Vec<(Arn, Failure)>,
    },
    /// The answers of SNS.
    Subscriptions(HashMap<Arn, Known>),
    /// The subscription of each letter; none where no queue or more than one is named.
    Discovered(Vec<Result<Option<Arn>, Failure>>),
    /// The queues that are shared, as far as it was not told before.
    Shared(Vec<Arn>),
    /// The result of each check.
    Verified(Vec<Verification>),
    /// The result of each delivery.
    Delivered(Vec<Attempt>),
    /// The result of each move; none for a letter that has no room for the mark.
    Moved(Vec<Option<Sent>>),
    /// Whether the archive has the letter.
    Archived(Vec<Result<(), Failure>>),
    /// Whether the letter is hidden.
    Hidden(Vec<Result<(), Failure>>),
    /// The document of orders, or why it cannot be read.
    Orders(Result<OrdersRead, Failure>),
    /// Whether the list is written.
    Listed(Result<(), Failure>),
}

/// What reading the document of orders came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrdersRead {
    /// The document.
    Document {
        /// Its bytes.
        json: Vec<u8>,
        /// Its tag.
        tag: Option<String>,
    },
    /// It is the one that is known already.
    NotModified,
    /// There is none, and so there are no orders.
    None,
}

/// A letter that is to be delivered.
#[derive(Debug)]
pub struct Delivery {
    /// The letter.
    pub letter: Arc<Letter>,
    /// The retry that this is.
    pub retry: Retry,
    /// The destination.
    pub destination: Destination,
    /// Whether an order asks for it.
    pub ordered: bool,
    /// The longest delay of its schedule.
    pub longest: Duration,
    /// Its turn, by the rule's throttle policy.
    pub not_before: Duration,
    /// How many letters may go in one request with it; the service's own limit holds as well.
    pub at_once: usize,
}

/// The result of a delivery.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// What became of the letter, or why it has no form for this destination.
    pub sent: Result<Sent, CannotPack>,
    /// The time that its request took, which it may have shared.
    pub took: Duration,
    /// Whether it went without its mark, which would have been the eleventh attribute.
    pub unmarked: bool,
}

/// A letter that is to go to the requeue.
#[derive(Debug)]
pub struct Move {
    /// The letter.
    pub letter: Arc<Letter>,
    /// Its mark.
    pub mark: Mark,
    /// `DelaySeconds`.
    pub delay: u64,
}

/// What became of one message that was to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// The service has taken it.
    Accepted,
    /// It was not taken, or nobody can say: a time-out may hide a success.
    Failed(Failure),
    /// It may not go there, as only the attempt showed; why, in words.
    Refused(&'static str),
    /// There was no time to begin.
    NotStarted,
    /// Its endpoint is down, and is tried again after so long.
    LeftOut(Duration),
    /// Other orders were read before it began.
    Withheld,
}

/// Why a letter has no form for its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CannotPack {
    /// The mark would be the eleventh attribute.
    #[error("carries {MAX_ATTRIBUTES} attributes already, so the mark does not fit")]
    Unmarkable,
    /// A function takes JSON only.
    #[error("holds no JSON, which the event of a function must be")]
    NotJson,
}

/// The result of checking a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verification {
    /// SNS has signed the letter's message, for the letter's topic.
    Genuine,
    /// It has not; why, in words.
    Refused(&'static str),
    /// Nobody could say: a failed attempt.
    Unknown(Sent),
}

/// What is known of a subscription: its attributes, `None` where it does not exist, or why nobody could say.
pub type Known = Result<Option<Subscription>, Sent>;

/// What a queue says of itself; empty where it will not tell.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_GetQueueAttributes.html>
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueAttributes {
    /// `MessageRetentionPeriod`, seconds.
    pub retention: Option<u64>,
    /// `maxReceiveCount` of its `RedrivePolicy`.
    pub max_receives: Option<u32>,
    /// `VisibilityTimeout`, seconds.
    pub visibility_timeout: Option<u64>,
    /// `MaximumMessageSize`, bytes.
    pub max_message_bytes: Option<usize>,
    /// `ApproximateNumberOfMessagesNotVisible`; 0 where it is not told.
    pub in_flight: u64,
    /// When the queue said so, if it ever did.
    pub read: Option<Timestamp>,
}

/// Why a letter is archived, with all that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveContext {
    /// The reason.
    pub reason: ArchiveReason,
    /// More about it, in words.
    pub detail: Option<String>,
    /// The rule that it fell under.
    pub rule: String,
    /// Where it was to go.
    pub target: Option<Endpoint>,
    /// The last retry that was made.
    pub retry: Option<Retry>,
    /// The failure of that retry.
    pub failure: Option<Failure>,
    /// The order that it fell under.
    pub order: Option<String>,
}

/// Something that is worth a line in the log, beside the letters' own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A queue does not tell its attributes; what it said last holds, or defaults do.
    QueueUnreadable {
        /// The queue.
        queue: Arn,
        /// Why.
        failure: Failure,
    },
    /// A queue is set up so that it costs retries or letters.
    BadlySetUp {
        /// The queue.
        queue: Arn,
        /// What is wrong, in words.
        finding: String,
    },
    /// Publishers of a raw subscription's topic can write letters of the queue's other subscriptions.
    SharedWithRaw {
        /// The queue.
        queue: Arn,
        /// What to do, in words.
        advice: &'static str,
    },
    /// A letter has ten attributes and went out without its mark.
    Unmarked(Arc<Letter>),
    /// Letters that should wait elsewhere stay in a queue that gets full.
    ManyInFlight {
        /// The queue.
        queue: Arn,
        /// Letters in flight.
        in_flight: u64,
        /// The most that SQS allows.
        limit: u64,
    },
    /// The health of an endpoint has changed.
    Endpoint {
        /// The endpoint.
        endpoint: Endpoint,
        /// The change.
        change: Change,
    },
    /// The requeue did not take letters.
    RequeueFailed {
        /// The requeue.
        requeue: Arn,
        /// How many.
        letters: usize,
        /// The first failure.
        failure: Failure,
    },
    /// The orders cannot be read, or not understood.
    OrdersUnread {
        /// Why.
        failure: Failure,
        /// When they were last read well.
        last_read: Option<Timestamp>,
        /// Whether letters are hidden until they are read.
        hides: bool,
    },
    /// The list of waiting letters was not written.
    WaitingListFailed {
        /// Why.
        failure: Failure,
    },
}

/// The results of archiving or hiding so many letters. What was not answered has failed.
pub(super) fn results(answer: Answer, count: usize) -> Vec<Result<(), Failure>> {
    let results = match answer {
        Answer::Archived(results) | Answer::Hidden(results) => results,
        _ => Vec::new(),
    };
    whole(results, count, || Err(no_answer()))
}

/// Completes the answers for so many letters: what is missing counts as not done.
pub(super) fn whole<T>(mut answers: Vec<T>, count: usize, missing: impl FnMut() -> T) -> Vec<T> {
    answers.resize_with(count, missing);
    answers
}

/// The failure of what was not answered.
pub(super) fn no_answer() -> Failure {
    Failure::ours(FailureClass::Transient, "NoAnswer")
}
