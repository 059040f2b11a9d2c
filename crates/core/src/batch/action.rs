//! The actions that the machine asks for, and the answers to them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::health::HealthChange;
use super::moment::Moment;
pub use super::send_request::{Delivery, RequestEnd, RequestResult, SendRequest};
pub use super::send_result::SendResult;
use super::subscription::Subscription;
use crate::arn::Arn;
use crate::endpoint::{Endpoint, TargetName};
use crate::failure::{Failure, FailureClass};
use crate::letter::{Letter, MAX_ATTRIBUTES, Mark};
use crate::policy::{ArchiveReason, NOT_JSON, Retry};
use crate::waiting::WaitingLetter;

/// The present of an invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvocationNow {
    /// The time of day, by which letters are due.
    pub at: Timestamp,
    /// The age of the instance, by which it forgets.
    pub age: Duration,
    /// The time since the invocation began, by a clock that never goes back. Every `until` of an action is
    /// counted from the same beginning.
    pub elapsed: Duration,
}

impl InvocationNow {
    /// Returns the present of an invocation that began so long ago.
    #[must_use]
    pub fn of(moment: Moment, elapsed: Duration) -> Self {
        let Moment { at, age } = moment;
        Self { at, age, elapsed }
    }

    /// Returns the present by both clocks.
    pub(super) fn moment(self) -> Moment {
        Moment { at: self.at, age: self.age }
    }
}

/// An action that the machine wants done. Several actions may be under way at once.
#[derive(Debug)]
pub enum Action {
    /// Looks up the attributes of these queues. Answered by [`ActionAnswer::Queues`].
    LookUpQueues {
        /// The queues.
        queues: BTreeSet<Arn>,
        /// The answers that suffice.
        suffices: RequiredFreshness,
        /// The time after which no call goes on.
        until: Duration,
    },
    /// Looks up these subscriptions in SNS. Answered by [`ActionAnswer::Subscriptions`].
    LookUpSubscriptions {
        /// The subscriptions.
        subscriptions: BTreeSet<Arn>,
        /// The time after which no call goes on.
        until: Duration,
    },
    /// Finds the only subscription that names a dead-letter queue, for letters that name none. Answered by
    /// [`ActionAnswer::Discovered`].
    Discover {
        /// The dead-letter queue of each letter, and the time when the letter arrived.
        searches: Vec<(Arn, Timestamp)>,
        /// The time after which no call goes on.
        until: Duration,
    },
    /// Finds out which of these dead-letter queues a raw subscription shares with others, for each queue once
    /// in the life of an instance. Answered by [`ActionAnswer::Shared`].
    LookUpSharing {
        /// The queues.
        queues: BTreeSet<Arn>,
    },
    /// Verifies the signatures of SNS. Answered by [`ActionAnswer::Verified`].
    Verify {
        /// The letters.
        letters: Vec<Arc<Letter>>,
        /// The time after which no call goes on.
        until: Duration,
    },
    /// Makes one request. Answered by [`ActionAnswer::Sent`].
    Send(SendRequest),
    /// Sends letters to the requeue. Answered by [`ActionAnswer::Moved`].
    Move {
        /// The letters.
        moves: Vec<RequeueMove>,
        /// The requeue.
        requeue: Arn,
        /// The time after which no call goes on.
        until: Duration,
    },
    /// Archives letters. Answered by [`ActionAnswer::Archived`].
    Archive {
        /// The letters, and why each is archived.
        letters: Vec<(Arc<Letter>, ArchiveContext)>,
        /// The time when they are archived.
        at: Timestamp,
        /// `MaximumMessageSize` in bytes of an archive that is a queue, if it is known.
        limit: Option<usize>,
        /// The time after which no call goes on.
        until: Duration,
    },
    /// Reads the document of overrides. Answered by [`ActionAnswer::Overrides`].
    ReadOverrides {
        /// The tag of the document that is known already. A document that still has it need not be read.
        unless: Option<String>,
        /// The time after which no call goes on.
        until: Duration,
    },
    /// Reads the document of recoveries. Answered by [`ActionAnswer::Recoveries`].
    ReadRecoveries {
        /// The tag of the document that is known already.
        unless: Option<String>,
        /// The time after which no call goes on.
        until: Duration,
    },
    /// Writes the document of recoveries, unless another instance has written it meanwhile. Answered by
    /// [`ActionAnswer::Written`].
    WriteRecoveries {
        /// Its bytes.
        json: Vec<u8>,
        /// The tag of the document that it replaces, or `None` if there is none.
        replaces: Option<String>,
        /// The time after which no call goes on.
        until: Duration,
    },
    /// Lists the oldest keys of the list of waiting letters of the batch's queue. Answered by
    /// [`ActionAnswer::WaitingKeys`].
    ListWaitingKeys {
        /// The key after which the listing begins, without the queue's prefix.
        after: Option<String>,
        /// The time after which no call goes on.
        until: Duration,
    },
    /// Reads objects of that list. Answered by [`ActionAnswer::WaitingLines`].
    ReadWaitingLines {
        /// Their keys, without the queue's prefix.
        keys: Vec<String>,
        /// The time after which no call goes on.
        until: Duration,
    },
    /// Makes letters of the batch's queue visible that are hidden. Answered by [`ActionAnswer::Hidden`].
    Wake {
        /// Their lines in the list of waiting letters.
        letters: Vec<WaitingLetter>,
        /// The time after which no call goes on.
        until: Duration,
    },
    /// Writes the list of letters that are hidden for long. Answered by [`ActionAnswer::Listed`].
    ListWaiting {
        /// The lines.
        letters: Vec<WaitingLetter>,
        /// The time when they are written.
        at: Timestamp,
        /// The time after which no call goes on.
        until: Duration,
    },
    /// Hides letters. Answered by [`ActionAnswer::Hidden`].
    Hide {
        /// The letters with the seconds to hide them, counted from the call; 0 makes a letter visible at
        /// once.
        letters: Vec<(Arc<Letter>, u64)>,
        /// The time after which no call goes on.
        until: Duration,
    },
}

/// The answers about queues that suffice, of those that are kept for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredFreshness {
    /// A kept answer, or that the queue did not answer just now.
    Kept,
    /// A new answer, or that the queue did not answer just now.
    New,
    /// Nothing but a new answer.
    Answer,
}

/// The answer to an action, with one element for each of the action's letters, in their order. An element
/// that is missing counts as not done.
#[derive(Debug)]
pub enum ActionAnswer {
    /// The attributes of the queues, and why some could not be read now.
    Queues {
        /// The attributes. If a queue cannot be read now, its earlier ones hold.
        known: HashMap<Arn, QueueAttributes>,
        /// The queues that could not be read, and why.
        unread: Vec<(Arn, Failure)>,
    },
    /// The answers of SNS.
    Subscriptions(HashMap<Arn, SubscriptionLookup>),
    /// The subscription of each letter, or `None` if no subscription or more than one names the queue.
    Discovered(Vec<Result<Option<Arn>, Failure>>),
    /// The queues that are shared, without those that an earlier answer named.
    Shared(Vec<Arn>),
    /// The result of each check.
    Verified(Vec<SignatureResult>),
    /// The result of the request.
    Sent(RequestResult),
    /// The result of each move, or `None` for a letter that has no room for the mark.
    Moved(Vec<Option<SendResult>>),
    /// The result of archiving each letter.
    Archived(Vec<Result<(), Failure>>),
    /// The result of hiding each letter.
    Hidden(Vec<Result<(), Failure>>),
    /// The document of overrides, or the reason why it cannot be read.
    Overrides(Result<DocumentRead, Failure>),
    /// The document of recoveries, or the reason why it cannot be read.
    Recoveries(Result<DocumentRead, Failure>),
    /// The result of writing it.
    Written(Result<DocumentWrite, Failure>),
    /// Keys of the list, or the reason why they cannot be read.
    WaitingKeys(Result<WaitingKeys, Failure>),
    /// The lines of objects of the list, or the reason why they cannot be read. An object that is gone has none.
    WaitingLines(Result<Vec<WaitingLetter>, Failure>),
    /// The result of writing the list.
    Listed(Result<(), Failure>),
}

/// The result of reading a control document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentRead {
    /// The document.
    Document {
        /// Its bytes.
        json: Vec<u8>,
        /// Its tag.
        tag: Option<String>,
    },
    /// The document has not changed since it was read before.
    NotModified,
    /// There is no document.
    None,
}

/// The result of writing a control document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentWrite {
    /// It is written.
    Written {
        /// Its tag.
        tag: Option<String>,
    },
    /// It is not written, because another instance has written it meanwhile.
    Conflict,
}

/// The oldest keys of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingKeys {
    /// The keys, without the queue's prefix, in the order of time.
    pub keys: Vec<String>,
    /// The last key of the page, which may be none of the list. A later listing goes on behind it.
    pub last: Option<String>,
    /// True if there are more.
    pub is_cut: bool,
}

/// A letter that is to go to the requeue.
#[derive(Debug)]
pub struct RequeueMove {
    /// The letter.
    pub letter: Arc<Letter>,
    /// Its mark.
    pub mark: Mark,
    /// `DelaySeconds`.
    pub delay: u64,
}

/// The reason why a letter has no form for its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CannotPack {
    /// The mark would be the eleventh attribute.
    #[error("the letter has {MAX_ATTRIBUTES} attributes already, so the mark does not fit")]
    Unmarkable,
    /// A function accepts JSON only.
    #[error("{NOT_JSON}")]
    NotJson,
}

/// The result of checking a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureResult {
    /// SNS has signed the letter's message, for the letter's topic.
    Genuine,
    /// SNS has not signed it. The text says why.
    Refused(&'static str),
    /// It is unknown, which counts as a failed attempt.
    Unknown(SendResult),
}

/// The result of looking up a subscription: its attributes, or `None` if it does not exist, or the reason why
/// it is unknown.
pub type SubscriptionLookup = Result<Option<Subscription>, SendResult>;

/// The attributes of a queue; empty if they cannot be read.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_GetQueueAttributes.html>
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueAttributes {
    /// `MessageRetentionPeriod`, in seconds.
    pub retention: Option<u64>,
    /// `maxReceiveCount` of its `RedrivePolicy`.
    pub max_receives: Option<u32>,
    /// `deadLetterTargetArn` of its `RedrivePolicy`.
    pub dead_letters_to: Option<Arn>,
    /// `VisibilityTimeout`, in seconds.
    pub visibility_timeout: Option<u64>,
    /// `MaximumMessageSize`, in bytes.
    pub max_message_bytes: Option<usize>,
    /// `ApproximateNumberOfMessagesNotVisible`.
    pub in_flight: Option<u64>,
    /// The age of the instance when the attributes were read, if they ever were.
    pub read: Option<Duration>,
}

impl QueueAttributes {
    /// Reports whether the queue has ever told them. Every queue has a retention.
    pub(super) fn were_read(&self) -> bool {
        self.retention.is_some()
    }
}

/// The reason why a letter is archived, with all that is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveContext {
    /// The reason.
    pub reason: ArchiveReason,
    /// Details of the reason, in words.
    pub detail: Option<String>,
    /// The rule that it fell under.
    pub rule: String,
    /// The target that it was to go to, as far as it is known.
    pub target: Option<TargetName>,
    /// The last retry that was made.
    pub retry: Option<Retry>,
    /// The failure of that retry.
    pub failure: Option<Failure>,
    /// The override that it fell under.
    pub override_id: Option<String>,
}

/// An event that is worth a line in the log, beside the letters' own lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchNotice {
    /// The attributes of a queue cannot be read. Earlier ones hold. It is asked again, and the notice is not
    /// repeated until it has answered.
    QueueUnreadable {
        /// The queue.
        queue: Arn,
        /// The reason.
        failure: Failure,
    },
    /// The retention of a queue could not be read for so long that the default counts for archiving.
    RetentionAssumed {
        /// The queue.
        queue: Arn,
    },
    /// The delivery policy of a subscription that its rule uses cannot be read. It is asked for again, and
    /// the notice is not repeated until it was read.
    DeliveryPolicyUnread {
        /// The subscription.
        subscription: Arn,
        /// The reason, or `None` if no time was left to ask.
        failure: Option<Failure>,
    },
    /// A queue is set up so that it costs retries or letters.
    BadlySetUp {
        /// The queue.
        queue: Arn,
        /// The problem, in words.
        finding: String,
    },
    /// Publishers of a raw subscription's topic can write letters of the queue's other subscriptions.
    SharedWithRaw {
        /// The queue.
        queue: Arn,
        /// The advice to the operator, in words.
        advice: &'static str,
    },
    /// A letter was sent without its mark, for which there was no room.
    Unmarked(Arc<Letter>),
    /// Letters that should wait elsewhere stay in a queue that is filling up.
    ManyInFlight {
        /// The queue.
        queue: Arn,
        /// The number of letters in flight.
        in_flight: u64,
        /// The largest number that SQS allows.
        limit: u64,
    },
    /// The health of an endpoint has changed.
    Endpoint {
        /// The endpoint.
        endpoint: Endpoint,
        /// The change.
        change: HealthChange,
    },
    /// The requeue did not accept letters.
    RequeueFailed {
        /// The requeue.
        requeue: Arn,
        /// The number of letters.
        letters: usize,
        /// The first failure.
        failure: Failure,
    },
    /// The overrides cannot be read or understood.
    OverridesUnread {
        /// The reason.
        failure: Failure,
        /// The time when they were last read successfully.
        last_read: Option<Timestamp>,
        /// True if letters are hidden until the overrides are read.
        hides: bool,
    },
    /// Every attempt at an endpoint has failed for some time.
    EndpointDown {
        /// The endpoint.
        target: TargetName,
        /// The time of the first failure.
        since: Timestamp,
        /// The code of the last one.
        error: String,
    },
    /// An endpoint that was down has accepted a letter. Those that wait for it are woken.
    EndpointRecovered {
        /// The endpoint.
        target: TargetName,
        /// The time since which it was down.
        down_since: Timestamp,
    },
    /// Letters were woken that waited for an endpoint.
    LettersWoken {
        /// The endpoint.
        target: TargetName,
        /// The number of letters.
        letters: usize,
    },
    /// The document of recoveries, or the list, could not be read or written. Letters wait for their schedules.
    RecoveriesFailed {
        /// The reason.
        failure: Failure,
    },
    /// The list of waiting letters was not written.
    WaitingListFailed {
        /// The reason.
        failure: Failure,
    },
}

/// Returns the results of archiving or hiding so many letters. A missing answer counts as a failure.
pub(super) fn results(answer: ActionAnswer, count: usize) -> Vec<Result<(), Failure>> {
    let results = match answer {
        ActionAnswer::Archived(results) | ActionAnswer::Hidden(results) => results,
        _ => Vec::new(),
    };
    whole(results, count, || Err(no_answer()))
}

/// Completes the answers for so many letters. A missing answer counts as not done.
pub(super) fn whole<T>(mut answers: Vec<T>, count: usize, missing: impl FnMut() -> T) -> Vec<T> {
    answers.resize_with(count, missing);
    answers
}

/// Returns the failure of an action that was not answered.
pub(super) fn no_answer() -> Failure {
    Failure::ours(FailureClass::Transient, "NoAnswer")
}
