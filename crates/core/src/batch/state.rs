//! The state of a batch.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;

use super::action::{ActionAnswer, BatchNotice, InvocationNow, QueueAttributes, SubscriptionLookup};
use super::archiving::ArchivingState;
use super::config::{BatchConfig, OperatingMode};
use super::group_order::GroupOrder;
use super::health::FULL_BATCH;
use super::memory::InstanceMemory;
use super::outcome::LetterReport;
use super::outgoing::RoundSending;
use super::parking::DeferredLetters;
use super::pending_letter::PendingLetter;
use super::recovery::{EndpointChange, RecoveryTask};
use super::time::{CONTROL_TIME, InvocationBudget};
use super::unmarked_letters::UnmarkedLetters;
use crate::arn::Arn;
use crate::letter::Letter;
use crate::policy::{Retry, Route};

/// A batch on its way to its reports.
///
/// [`Batch::poll`] returns the actions that are to be done now, [`Batch::take`] takes an answer. `poll` is
/// called until it returns none, and again after each answer and at the time of [`Batch::next_poll`]. When it
/// returns none and [`Batch::is_under_way`] says no, the batch is at its end. A batch that is dropped before
/// leaves its letters in their queue.
#[derive(Debug)]
pub struct Batch<'m> {
    pub(super) config: &'m BatchConfig,
    pub(super) memory: &'m mut InstanceMemory,
    pub(super) time: InvocationBudget,
    pub(super) deadline: Duration,
    pub(super) cases: Vec<PendingLetter<'m>>,
    pub(super) stage: BatchStage,
    /// The order of the cases.
    pub(super) order: GroupOrder,
    pub(super) round: Vec<usize>,
    /// The pass of the round.
    pub(super) pass: RoundPass,
    /// The letters that the second pass has.
    pub(super) set_aside: Vec<usize>,
    /// The time when the questions that are under way were asked.
    pub(super) asked_at: Duration,
    /// The time that they have, if it is less than what the invocation has for them.
    pub(super) asked_for: Option<Duration>,
    /// The time when the first round of the invocation was sent.
    pub(super) begun: Option<Duration>,
    /// False once the requeue has failed in this invocation. Then it is left alone.
    pub(super) requeue_works: bool,
    pub(super) archiving: Option<ArchivingState>,
    /// The question that the archive is asked now.
    pub(super) archive_asked: Option<ArchiveCall>,
    /// The letters that are being hidden at the end.
    pub(super) hiding: Option<Vec<usize>>,
    pub(super) notices: Vec<BatchNotice>,
    /// The time that is left for the overrides and for the list of waiting letters.
    pub(super) control_time: Duration,
    /// The time when the overrides were last asked for in this invocation.
    pub(super) overrides_asked: Option<InvocationNow>,
    /// True while the overrides are being read beside deliveries.
    pub(super) rereading: bool,
    /// True if the default retention counts, because the queue has not told its own for long.
    pub(super) retention_assumed: bool,
    /// The number of actions whose answers the batch waits for.
    pub(super) awaited: usize,
    /// True if the waiting letters were listed already.
    pub(super) listed: bool,
    /// The work on endpoints that are down or back.
    pub(super) recovery: Option<RecoveryTask>,
    /// The endpoints of which the topic of notices is to be told.
    pub(super) changes: Vec<EndpointChange>,
    /// The time when the recoveries were asked for before sending.
    pub(super) recoveries_asked: Duration,
}

/// The id that ties an answer to its action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ActionId(pub(super) ActionChain);

/// The chains of actions that may be under way at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ActionChain {
    /// The stages one after the other.
    Stages,
    /// Archiving, at the end.
    Archive,
    /// Hiding, at the same time.
    Hide,
    /// Listing waiting letters, at the same time.
    List,
    /// Recoveries, at the same time.
    Recovery,
    /// Reading the overrides, beside deliveries.
    Overrides,
    /// The request of a round with this number.
    Request(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArchiveCall {
    Limit,
    Store,
}

/// The passes of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RoundPass {
    /// With the questions that never hung.
    First,
    /// With the others.
    Second,
}

/// The next step, or the answer that is awaited.
#[derive(Debug)]
pub(super) enum BatchStage {
    /// The letters, before the overrides are read.
    Open(Vec<Letter>),
    AwaitFirstOverrides(Vec<Letter>),
    /// The letters, before anything is known of their queues.
    Begin(Vec<Letter>),
    AwaitQueues(Vec<Letter>, QueueInquiry),
    AskQueuesAgain(Vec<Letter>, QueueInquiry, BTreeSet<Arn>),
    HideForInvocation,
    AwaitHiddenForInvocation(Vec<usize>, u64),
    Discover,
    AwaitDiscovered(Vec<usize>),
    DeliveryPolicies,
    AwaitDeliveryPolicies(Vec<Option<Route>>),
    NextRound,
    AwaitOverrides,
    Verify,
    AwaitVerified {
        passed: DueRetries,
        asked: DueRetries,
    },
    LookUp(DueRetries),
    AwaitSubscriptions(DueRetries),
    Send(DueRetries, HashMap<Arn, SubscriptionLookup>),
    AwaitOverridesToSend(DueRetries, HashMap<Arn, SubscriptionLookup>),
    SendByRecoveries(DueRetries, HashMap<Arn, SubscriptionLookup>),
    AwaitRecoveriesToSend(DueRetries, HashMap<Arn, SubscriptionLookup>),
    Sending(Box<RoundSending>),
    AskTargets(UnmarkedLetters),
    AwaitTargets(UnmarkedLetters),
    SendUnmarked(UnmarkedLetters, HashMap<Arn, QueueAttributes>),
    Place,
    AwaitReading(Duration),
    PlaceWithEstimate(Duration),
    AwaitRequeue(DeferredLetters, Duration),
    Move(DeferredLetters, Duration),
    AwaitMoved(DeferredLetters),
    EndRound,
    Share,
    AwaitShared,
    Finish,
    AwaitFinished,
    HideUnarchived,
    AwaitHiddenUnarchived(Vec<(usize, u64)>),
    Done,
}

/// The question about the queues of a batch, which is asked again while some that were never asked before do
/// not answer.
#[derive(Debug)]
pub(super) struct QueueInquiry {
    /// The answers so far.
    pub(super) known: HashMap<Arn, QueueAttributes>,
    /// The queues that this instance asks for the first time.
    pub(super) first: BTreeSet<Arn>,
    /// The number of times that it may still ask.
    pub(super) tries: u32,
    /// The time after which it does not ask.
    pub(super) until: Duration,
}

/// Letters whose retry is due.
pub(super) type DueRetries = Vec<(usize, Retry)>;

impl<'m> Batch<'m> {
    /// Begins a batch of letters of one queue, for an instance that remembers so much. `deadline` is the time
    /// when Lambda ends the invocation, counted from now.
    #[must_use]
    pub fn new(
        config: &'m BatchConfig,
        memory: &'m mut InstanceMemory,
        letters: Vec<Letter>,
        deadline: Duration,
    ) -> Self {
        memory.health.batch_begins(letters.len());
        Self {
            config,
            memory,
            time: InvocationBudget::until(deadline, letters.len()),
            deadline,
            cases: Vec::new(),
            stage: if letters.is_empty() { BatchStage::Done } else { BatchStage::Open(letters) },
            order: GroupOrder::default(),
            round: Vec::new(),
            pass: RoundPass::First,
            set_aside: Vec::new(),
            asked_at: Duration::ZERO,
            asked_for: None,
            begun: None,
            requeue_works: true,
            archiving: None,
            archive_asked: None,
            hiding: None,
            notices: Vec::new(),
            control_time: CONTROL_TIME,
            overrides_asked: None,
            rereading: false,
            retention_assumed: false,
            awaited: 0,
            listed: false,
            recovery: None,
            changes: Vec::new(),
            recoveries_asked: Duration::ZERO,
        }
    }

    /// Reports whether the batch is full, so that the function may have more to do than it can.
    pub(super) fn is_full(&self) -> bool {
        self.cases.len() >= FULL_BATCH
    }

    pub(super) fn is_active(&self) -> bool {
        self.config.mode == OperatingMode::Active
    }

    /// Reports whether letters are archived by the default retention, because their queue has not told its
    /// own for long.
    #[must_use]
    pub fn assumes_retention(&self) -> bool {
        self.retention_assumed
    }

    pub(super) fn queue(&self) -> Option<Arn> {
        self.cases.first().map(|case| case.letter.sqs.queue.clone())
    }

    /// Returns the report of each letter, in the order of the batch, and the memory of the instance.
    #[must_use]
    pub fn end(self, now: Timestamp) -> (Vec<LetterReport>, &'m mut InstanceMemory) {
        (self.cases.into_iter().map(|case| case.report(now)).collect(), self.memory)
    }

    /// Returns the report of each letter, in the order of the batch.
    #[must_use]
    pub fn into_reports(self, now: Timestamp) -> Vec<LetterReport> {
        self.end(now).0
    }

    /// Takes over the attributes of queues.
    pub(super) fn queues(&mut self, answer: ActionAnswer) -> HashMap<Arn, QueueAttributes> {
        let ActionAnswer::Queues { known, unread } = answer else { return HashMap::new() };
        let knowledge = &mut self.memory.knowledge;
        knowledge.read(self.config, &known);
        let notice = |(queue, failure)| {
            let last = known.get(&queue).and_then(|attributes| attributes.read);
            knowledge.unreadable(queue, last, failure)
        };
        self.notices.extend(unread.into_iter().filter_map(notice));
        known
    }
}
