//! Orders: when they are read, what a reading means, and for how long it counts. And the list of waiting letters.
//!
//! What cannot be read fails safe. A hold that was read stays until it ends or is read as gone. Orders to retry and to
//! archive lapse some minutes after the last good reading. An instance that never read the orders hides its letters for a
//! minute at a time, and after ten minutes goes by its rules alone.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::action::{Action, Answer, Notice, Now, OrdersRead, no_answer};
use super::case::{Case, Disposition};
use super::state::{ActionId, Batch, Chain};
use super::time::half_of;
use crate::endpoint::Endpoint;
use crate::failure::{Failure, FailureClass};
use crate::letter::Letter;
use crate::policy::{BadOrders, OrderAction, Ordered, Orders, plus};
use crate::waiting::{LISTED_ABOVE, WaitingLetter, WaitingRetry};

/// The time of an invocation that its control objects may take, reading and writing together.
pub(super) const CONTROL_TIME: Duration = Duration::from_secs(1);

/// How soon the orders are read again. A hold counts no later.
const READ_EVERY: SignedDuration = SignedDuration::from_secs(15);

/// How long orders to retry and to archive count after the last good reading, and how long an instance that has never
/// read the orders waits for them.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// Faults of a document that are told.
const MAX_FAULTS: usize = 3;

/// The orders, as far as an instance knows them.
#[derive(Debug, Default)]
pub(super) struct KnownOrders {
    orders: Orders,
    /// S3's tag of the document that was read last.
    tag: Option<String>,
    /// The last good reading.
    read: Option<Timestamp>,
    first_asked: Option<Timestamp>,
    asked: Option<Timestamp>,
    /// Whether the last reading failed.
    is_unread: bool,
}

impl KnownOrders {
    /// Whether it is time to read them.
    fn is_due(&self, now: Timestamp) -> bool {
        self.asked.is_none_or(|asked| now.duration_since(asked).abs() >= READ_EVERY)
    }

    /// Takes note that they are being read; returns the tag of the document that is known already.
    fn ask(&mut self, now: Timestamp) -> Option<String> {
        self.asked = Some(now);
        self.first_asked.get_or_insert(now);
        self.tag.clone()
    }

    /// Takes a reading over.
    fn take(&mut self, reading: Result<OrdersRead, Failure>, now: Timestamp) -> Result<(), Failure> {
        let taken = match reading {
            Ok(OrdersRead::Document { json, tag }) => Orders::parse(&json)
                .map(|orders| (self.orders, self.tag) = (orders, tag))
                .map_err(|bad| broken(&bad)),
            Ok(OrdersRead::None) => {
                (self.orders, self.tag) = <_>::default();
                Ok(())
            }
            Ok(OrdersRead::NotModified) => self.read.map(|_| ()).ok_or_else(no_answer),
            Err(failure) => Err(failure),
        };
        self.is_unread = taken.is_err();
        if taken.is_ok() {
            self.read = Some(now);
        }
        taken
    }

    /// Returns what is known to be ordered of a letter.
    fn on(&self, letter: &Letter, now: Timestamp) -> Ordered {
        let Some(read) = self.read else {
            return if self.waits(now) { Ordered::Unread } else { Ordered::Nothing };
        };
        let is_fresh = now.duration_since(read) <= PATIENCE;
        let first = self.orders.first(letter, now, |order| is_fresh || order.action == OrderAction::Hold);
        first.map_or(Ordered::Nothing, |order| Ordered::By(order.clone()))
    }

    /// Whether letters wait until the orders are read for the first time.
    fn waits(&self, now: Timestamp) -> bool {
        let asks = self.first_asked.is_some_and(|first| now.duration_since(first) < PATIENCE);
        self.read.is_none() && asks
    }
}

/// The failure of reading a document that is broken, or newer than this code.
fn broken(bad: &BadOrders) -> Failure {
    let told: Vec<_> = bad.0.iter().take(MAX_FAULTS).map(ToString::to_string).collect();
    let more = bad.0.len().saturating_sub(MAX_FAULTS);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let failure = Failure::ours(FailureClass::ActionRequired, "OrdersBroken");
    Failure { message: Some(told.join("; ") + &more), ..failure }
}

impl super::machine::Machine {
    /// Whether the orders could not be read when this was last tried.
    #[must_use]
    pub fn orders_are_unread(&self) -> bool {
        self.knowledge().orders.is_unread
    }
}

impl Batch<'_> {
    /// Reads the orders, where that is due and time is left for it.
    pub(super) fn read_orders(&mut self, now: Now) -> Option<Action> {
        let mut knowledge = self.machine.knowledge();
        let has_time = !self.control_time.is_zero();
        if !self.machine.config.orders || !has_time || !knowledge.orders.is_due(now.at) {
            return None;
        }
        self.control_asked = now.elapsed;
        let until = (now.elapsed + self.control_time).min(half_of(now.elapsed, self.time.deliver));
        Some(Action::ReadOrders { unless: knowledge.orders.ask(now.at), until })
    }

    /// Takes note of the orders.
    pub(super) fn orders_read(&mut self, answer: Answer, now: Now) {
        self.control_time = self.control_time.saturating_sub(now.elapsed.saturating_sub(self.control_asked));
        let reading = if let Answer::Orders(reading) = answer { reading } else { Err(no_answer()) };
        let orders = &mut self.machine.knowledge().orders;
        if let Err(failure) = orders.take(reading, now.at) {
            let (last_read, hides) = (orders.read, orders.waits(now.at));
            self.notices.push(Notice::OrdersUnread { failure, last_read, hides });
        }
    }

    /// Looks up what is ordered of the letters that nothing was decided about yet.
    pub(super) fn apply_orders(&mut self, now: Timestamp) {
        if !self.machine.config.orders {
            return;
        }
        let knowledge = self.machine.knowledge();
        for case in self.cases.iter_mut().filter(|case| case.is_undecided()) {
            case.facts.ordered = knowledge.orders.on(&case.letter, now);
        }
    }

    /// Lists the letters that are hidden for long, once, beside archiving and hiding.
    pub(super) fn list_waiting(&mut self, now: Now) -> Option<(ActionId, Action)> {
        if std::mem::replace(&mut self.listed, true) || !self.machine.config.waiting_list {
            return None;
        }
        let letters: Vec<_> = self.cases.iter().filter_map(|case| waiting(case, now.at)).collect();
        if letters.is_empty() {
            return None;
        }
        let until = (now.elapsed + self.control_time).min(self.time.finish);
        Some((ActionId(Chain::List), Action::ListWaiting { letters, at: now.at, until }))
    }

    /// Takes note of a list that was not written. Nothing depends on it.
    pub(super) fn waiting_listed(&mut self, answer: Answer) {
        let answer = if let Answer::Listed(answer) = answer { answer } else { Err(no_answer()) };
        self.notices.extend(answer.err().map(|failure| Notice::WaitingListFailed { failure }));
    }
}

/// The line of a letter that is hidden for long.
fn waiting(case: &Case<'_>, now: Timestamp) -> Option<WaitingLetter> {
    let Disposition::Defer(deferral) = &case.disposition else { return None };
    let hide = case.hiding(now).filter(|hide| *hide > LISTED_ABOVE)?;
    let letter = &case.letter;
    let target = case.target.as_ref();
    Some(WaitingLetter {
        letter_id: letter.id.as_str().to_owned(),
        message_id: letter.sqs.message_id.clone(),
        receipt_handle: letter.sqs.receipt_handle.clone(),
        queue_arn: letter.sqs.queue.clone(),
        dead_letter_queue_arn: Some(letter.dead_letter_queue())
            .filter(|queue| **queue != letter.sqs.queue)
            .cloned(),
        topic_arn: letter.topic().map(ToString::to_string),
        subscription_arn: letter.subscription().map(ToString::to_string),
        target: target
            .and_then(|target| target.arn().map(ToString::to_string).or_else(|| Endpoint::url(target))),
        rule: case.rule.name.clone(),
        error: case.failure.as_ref().map(|failure| failure.code.clone()),
        retry: WaitingRetry {
            number: deferral.retry,
            of: case.verdict.as_ref().map_or(0, |verdict| verdict.delivery.schedule.retries),
        },
        since: letter.first_arrival(),
        due: deferral.due.max(plus(now, hide)),
    })
}
