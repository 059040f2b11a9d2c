//! The orders in a batch: when they are read, and what they change; and the list of waiting letters.

use std::time::Duration;

use jiff::Timestamp;

use super::action::{Action, Answer, Notice, Now, no_answer};
use super::case::{Case, Disposition};
use super::moment::Moment;
use super::state::{ActionId, Batch, Chain, Due, Stage};
use super::time::{CONTROL_TIME, half_of};
use crate::endpoint::Endpoint;
use crate::policy::{DeferReason, Retry, plus};
use crate::waiting::{LISTED_ABOVE, WaitingLetter, WaitingRetry};

/// The part of the control time that is kept for the list when the orders are read beside deliveries.
const LIST_TIME: Duration = Duration::from_millis(500);

impl super::machine::Machine {
    /// Reports whether the orders cannot be read: the last attempt failed, and not only by something that may pass until
    /// the next one.
    #[must_use]
    pub fn orders_are_unread(&self) -> bool {
        self.known_orders().is_unread
    }
}

impl Batch<'_> {
    /// Reads the orders, if that is due and time is left for it.
    pub(super) fn read_orders(&mut self, now: Now) -> Option<Action> {
        let mut orders = self.machine.known_orders();
        let has_time = !self.control_time.is_zero();
        if !self.machine.config.orders || self.rereading || !has_time || !orders.is_due(now.age) {
            return None;
        }
        self.orders_asked = Some(now);
        let until = (now.elapsed + self.control_time).min(half_of(now.elapsed, self.time.deliver));
        Some(Action::ReadOrders { unless: orders.ask(now.age), until })
    }

    /// Takes over the orders.
    pub(super) fn orders_read(&mut self, answer: Answer, now: Now) {
        let asked = self.orders_asked.take().unwrap_or(now);
        self.control_time = self.control_time.saturating_sub(now.elapsed.saturating_sub(asked.elapsed));
        self.take_orders(answer, asked.age, now.moment());
    }

    fn take_orders(&mut self, answer: Answer, asked: Duration, now: Moment) {
        let reading = if let Answer::Orders(reading) = answer { reading } else { Err(no_answer()) };
        let mut orders = self.machine.known_orders();
        if let Err(failure) = orders.take(reading, asked, now) {
            let (last_read, hides) = (orders.read.map(|read| read.at), orders.waits(now.age));
            self.notices.push(Notice::OrdersUnread { failure, last_read, hides });
        }
        drop(orders);
        self.apply_orders(now);
    }

    /// Decides whether deliveries that begin later wait when the orders get old.
    pub(super) fn wait_for_orders(&mut self) {
        self.machine.known_orders().waits_no_more = self.control_time <= LIST_TIME;
    }

    /// Returns the time when [`Batch::poll`] asks for something new without an answer, counted as `elapsed`
    /// is.
    #[must_use]
    pub fn next_poll(&self, now: Now) -> Option<Duration> {
        let is_delivering = matches!(self.stage, Stage::AwaitDelivered(..));
        if !self.machine.config.orders || self.rereading || !is_delivering {
            return None;
        }
        Some(now.elapsed + self.machine.known_orders().due_in(now.age))
    }

    /// Reads the orders beside deliveries. Deliveries that have not begun wait for the answer while there is
    /// time for that. After that time they begin by the old orders, and new orders count as soon as they
    /// arrive.
    pub(super) fn reread_orders(&mut self, now: Now) -> Option<(ActionId, Action)> {
        if self.next_poll(now)? > now.elapsed {
            return None;
        }
        let time = self.control_time.saturating_sub(LIST_TIME);
        let mut orders = self.machine.known_orders();
        orders.waits_no_more = time.is_zero();
        self.rereading = true;
        self.orders_asked = Some(now);
        let until = now.elapsed + if time.is_zero() { CONTROL_TIME } else { time };
        Some((ActionId(Chain::Orders), Action::ReadOrders { unless: orders.ask(now.age), until }))
    }

    /// Takes over orders that were read beside deliveries.
    pub(super) fn orders_reread(&mut self, answer: Answer, now: Now) {
        self.rereading = false;
        let asked = self.orders_asked.take().unwrap_or(now);
        let orders = self.machine.known_orders();
        if !orders.waits_no_more {
            self.control_time = self.control_time.saturating_sub(now.elapsed.saturating_sub(asked.elapsed));
        }
        drop(orders);
        self.wait_for_orders();
        self.take_orders(answer, asked.age, now.moment());
    }

    /// Decides anew about letters that were due by earlier orders. Returns those that still are.
    pub(super) fn still_due(&mut self, due: Due, now: Moment) -> Due {
        let still = due.into_iter().filter_map(|(index, retry)| {
            let case = &self.cases[index];
            let goes = self.machine.known_orders().allow_attempt(&case.letter, case.is_sent_by_order(), now);
            if goes { Some((index, retry)) } else { Some((index, self.decide_anew(index, now)?)) }
        });
        still.collect()
    }

    /// Decides about a letter by the orders that are known now. Returns the retry that is due.
    fn decide_anew(&mut self, index: usize, now: Moment) -> Option<Retry> {
        let case = &mut self.cases[index];
        case.facts.ordered = self.machine.known_orders().on(&case.letter, now);
        case.open();
        if case.needs_discovery() && !case.searched {
            case.put_off();
            return None;
        }
        let decision = case.decide(now.at);
        if case.disposition == Disposition::Open {
            case.settle(&decision, now.at);
        }
        if let Disposition::Due(retry) = case.disposition { Some(retry) } else { None }
    }

    /// Decides anew about a letter that was not sent because other orders were read. If it is still due, it
    /// comes back soon.
    pub(super) fn withheld(&mut self, index: usize, now: Moment) {
        if self.decide_anew(index, now).is_some() {
            self.cases[index].put_off();
        }
    }

    /// Looks up the orders about the letters that are undecided.
    pub(super) fn apply_orders(&mut self, now: Moment) {
        if !self.machine.config.orders {
            return;
        }
        let orders = self.machine.known_orders();
        for case in self.cases.iter_mut().filter(|case| case.is_undecided()) {
            case.facts.ordered = orders.on(&case.letter, now);
        }
    }

    /// Decides anew about letters that an order holds or archives, if that order was taken back while the
    /// batch went on.
    pub(super) fn release_taken_back(&mut self, now: Moment) {
        for index in 0..self.cases.len() {
            let case = &mut self.cases[index];
            if case.disposition.ordered().is_some() {
                case.facts.ordered = self.machine.known_orders().on(&case.letter, now);
                if case.is_taken_back(&case.disposition) {
                    case.unarchived = None;
                    self.withheld(index, now);
                }
            }
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

    /// Takes note of a list that was not written. Nothing else depends on it.
    pub(super) fn waiting_listed(&mut self, answer: Answer) {
        let answer = if let Answer::Listed(answer) = answer { answer } else { Err(no_answer()) };
        self.notices.extend(answer.err().map(|failure| Notice::WaitingListFailed { failure }));
    }
}

/// Returns the line of a letter that is hidden for long.
fn waiting(case: &Case<'_>, now: Timestamp) -> Option<WaitingLetter> {
    let Disposition::Defer(deferral) = &case.disposition else { return None };
    let hide = case.hiding(now).filter(|hide| *hide > LISTED_ABOVE)?;
    let letter = &case.letter;
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
        target: case.target.as_ref().map(Endpoint::name),
        rule: case.rule.name.clone(),
        error: case.failure.as_ref().map(|failure| failure.code.clone()),
        held_by: held_by(case, deferral.why),
        retry: WaitingRetry {
            number: deferral.retry,
            of: case.verdict.as_ref().map_or(0, |verdict| verdict.delivery.schedule.retries),
        },
        since: letter.first_arrival(),
        due: deferral.due.max(plus(now, hide)),
    })
}

/// Returns what holds a letter.
fn held_by(case: &Case<'_>, why: DeferReason) -> Option<String> {
    match why {
        DeferReason::Ordered => case.facts.ordered.order().map(|order| format!("order {}", order.id)),
        DeferReason::Hold => Some(format!("rule {}", case.rule.name)),
        DeferReason::OrdersUnread => Some("orders".to_owned()),
        DeferReason::Failed
        | DeferReason::Early
        | DeferReason::Hop
        | DeferReason::Throttled
        | DeferReason::EndpointDown => None,
    }
}
