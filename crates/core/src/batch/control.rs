//! The overrides in a batch: when they are read, and what they change; and the list of waiting letters.

use std::time::Duration;

use jiff::Timestamp;

use super::action::{Action, ActionAnswer, BatchNotice, InvocationNow, no_answer};
use super::known_targets::KnownTargets;
use super::moment::Moment;
use super::pending_letter::{Disposition, PendingLetter};
use super::recovery::ListingInvocation;
use super::state::{ActionChain, ActionId, Batch, BatchStage, DueRetries};
use super::time::{CONTROL_TIME, half_of};
use crate::failure::FailureClass;
use crate::policy::{DeferReason, LetterTarget, Retry, plus};
use crate::waiting::{ENDPOINT_DOWN, LISTED_ABOVE, WaitingLetter, WaitingRetry};

/// The part of the control time that is kept for the list when the overrides are read beside deliveries.
const LIST_TIME: Duration = Duration::from_millis(500);

impl Batch<'_> {
    /// Reads the overrides, if that is due and time is left for it.
    pub(super) fn read_overrides(&mut self, now: InvocationNow) -> Option<Action> {
        let overrides = &mut self.memory.overrides;
        let has_time = !self.control_time.is_zero();
        if !self.config.overrides || self.rereading || !has_time || !overrides.is_due(now.age) {
            return None;
        }
        self.overrides_asked = Some(now);
        let until = (now.elapsed + self.control_time).min(half_of(now.elapsed, self.time.deliver));
        Some(Action::ReadOverrides { unless: overrides.ask(now.age), until })
    }

    /// Takes over the overrides.
    pub(super) fn overrides_read(&mut self, answer: ActionAnswer, now: InvocationNow) {
        let asked = self.overrides_asked.take().unwrap_or(now);
        self.control_time = self.control_time.saturating_sub(now.elapsed.saturating_sub(asked.elapsed));
        self.take_overrides(answer, asked.age, now.moment());
    }

    fn take_overrides(&mut self, answer: ActionAnswer, asked: Duration, now: Moment) {
        let reading = if let ActionAnswer::Overrides(reading) = answer { reading } else { Err(no_answer()) };
        let overrides = &mut self.memory.overrides;
        if let Err(failure) = overrides.take(reading, asked, now) {
            let (last_read, hides) = (overrides.read.map(|read| read.at), overrides.waits(now.age));
            self.notices.push(BatchNotice::OverridesUnread { failure, last_read, hides });
        }
        self.apply_overrides(now);
    }

    /// Decides whether deliveries that begin later wait when the overrides get old.
    pub(super) fn wait_for_overrides(&mut self) {
        self.memory.overrides.waits_no_more = self.control_time <= LIST_TIME;
    }

    /// Returns the time when [`Batch::poll`] asks for something new without an answer, counted as `elapsed`
    /// is.
    #[must_use]
    pub fn next_poll(&self, now: InvocationNow) -> Option<Duration> {
        let BatchStage::Sending(round) = &self.stage else { return None };
        let rereads = self.rereads_in(now).map(|due_in| now.elapsed + due_in);
        rereads.into_iter().chain(round.next_turn(now)).min()
    }

    /// Returns the time after which the overrides are read beside deliveries, if they are.
    fn rereads_in(&self, now: InvocationNow) -> Option<Duration> {
        let is_sending = matches!(self.stage, BatchStage::Sending(_));
        let rereads = self.config.overrides && !self.rereading && is_sending;
        rereads.then(|| self.memory.overrides.due_in(now.age))
    }

    /// Reads the overrides beside deliveries. Deliveries that have not begun wait for the answer while there is
    /// time for that. After that time they begin by the old overrides, and new overrides count as soon as they
    /// arrive.
    pub(super) fn reread_overrides(&mut self, now: InvocationNow) -> Option<(ActionId, Action)> {
        if self.rereads_in(now)? > Duration::ZERO {
            return None;
        }
        let time = self.control_time.saturating_sub(LIST_TIME);
        let overrides = &mut self.memory.overrides;
        overrides.waits_no_more = time.is_zero();
        self.rereading = true;
        self.overrides_asked = Some(now);
        let until = now.elapsed + if time.is_zero() { CONTROL_TIME } else { time };
        Some((
            ActionId(ActionChain::Overrides),
            Action::ReadOverrides { unless: overrides.ask(now.age), until },
        ))
    }

    /// Takes over overrides that were read beside deliveries.
    pub(super) fn overrides_reread(&mut self, answer: ActionAnswer, now: InvocationNow) {
        self.rereading = false;
        let asked = self.overrides_asked.take().unwrap_or(now);
        let overrides = &self.memory.overrides;
        if !overrides.waits_no_more {
            self.control_time = self.control_time.saturating_sub(now.elapsed.saturating_sub(asked.elapsed));
        }
        self.wait_for_overrides();
        self.take_overrides(answer, asked.age, now.moment());
    }

    /// Decides anew about letters that were due by earlier overrides. Returns those that still are.
    pub(super) fn still_due(&mut self, due: DueRetries, now: Moment) -> DueRetries {
        let still = due.into_iter().filter_map(|(index, retry)| {
            let (case, memory) = (&self.cases[index], &self.memory);
            let (target, overridden) = (|| case.leads_to(&memory.targets), case.is_sent_by_override());
            let goes = memory.overrides.allow_attempt(&case.letter, target, overridden, now);
            if goes { Some((index, retry)) } else { Some((index, self.decide_anew(index, now)?)) }
        });
        still.collect()
    }

    /// Decides about a letter by the overrides that are known now. Returns the retry that is due.
    fn decide_anew(&mut self, index: usize, now: Moment) -> Option<Retry> {
        let case = &mut self.cases[index];
        if self.config.overrides {
            let target = || case.leads_to(&self.memory.targets);
            case.facts.overridden = self.memory.overrides.on(&case.letter, target, now);
        }
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

    /// Decides anew about a letter that was not sent because other overrides were read, or because its next planned moment
    /// has come. If it is still due, it comes back soon.
    pub(super) fn withheld(&mut self, index: usize, now: Moment) {
        if self.decide_anew(index, now).is_some() {
            self.cases[index].put_off();
        }
    }

    /// Looks up the overrides about the letters that are undecided.
    pub(super) fn apply_overrides(&mut self, now: Moment) {
        if !self.config.overrides {
            return;
        }
        let memory = &self.memory;
        for case in self.cases.iter_mut().filter(|case| case.is_undecided()) {
            let target = || case.leads_to(&memory.targets);
            case.facts.overridden = memory.overrides.on(&case.letter, target, now);
        }
    }

    /// Decides anew about letters that an override holds or archives, if that override was taken back while the
    /// batch went on.
    pub(super) fn release_taken_back(&mut self, now: Moment) {
        for index in 0..self.cases.len() {
            let case = &mut self.cases[index];
            if case.disposition.overridden().is_some() {
                let target = || case.leads_to(&self.memory.targets);
                case.facts.overridden = self.memory.overrides.on(&case.letter, target, now);
                if case.is_taken_back(&case.disposition) {
                    case.unarchived = None;
                    self.withheld(index, now);
                }
            }
        }
    }

    /// Lists the letters that are hidden for long, once, beside archiving and hiding, or keeps them for a later batch to list.
    pub(super) fn list_waiting(&mut self, now: InvocationNow) -> Option<(ActionId, Action)> {
        if std::mem::replace(&mut self.listed, true) || !self.config.waiting_list {
            return None;
        }
        let queue = self.queue()?;
        let targets = &self.memory.targets;
        let lines = self.cases.iter().filter_map(|case| waiting(case, targets, now.at)).collect();
        let recovery = &mut self.memory.recovery;
        let invocation = ListingInvocation {
            began: now.age.saturating_sub(now.elapsed),
            age: now.age,
            at: now.at,
            wakes: recovery.wakes(queue.resource()),
        };
        let letters = recovery.unlisted.add(queue.resource(), lines, invocation);
        if letters.is_empty() {
            return None;
        }
        let until = (now.elapsed + self.control_time).min(self.time.finish);
        Some((ActionId(ActionChain::List), Action::ListWaiting { letters, at: now.at, until }))
    }

    /// Takes note of a list that was not written. Nothing else depends on it.
    pub(super) fn waiting_listed(&mut self, answer: ActionAnswer) {
        let answer = if let ActionAnswer::Listed(answer) = answer { answer } else { Err(no_answer()) };
        self.notices.extend(answer.err().map(|failure| BatchNotice::WaitingListFailed { failure }));
    }
}

/// Returns the line of a letter that is hidden for long.
fn waiting(case: &PendingLetter<'_>, targets: &KnownTargets, now: Timestamp) -> Option<WaitingLetter> {
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
        target: if let LetterTarget::Known(target) = case.leads_to(targets) { Some(target) } else { None },
        rule: case.rule.name.clone(),
        error: error(case, deferral.why),
        held_by: held_by(case, deferral.why),
        retry: WaitingRetry {
            number: deferral.retry,
            of: case.verdict.as_ref().map_or(0, |verdict| verdict.delivery.schedule.retries),
        },
        since: letter.first_arrival(),
        due: deferral.due.max(plus(now, hide)),
        hidden: Some(now),
        visible: Some(plus(now, hide)).filter(|visible| *visible < deferral.due),
        recovers: recovers(case, deferral.why),
    })
}

/// Returns the failure that a letter waits after.
fn error(case: &PendingLetter<'_>, why: DeferReason) -> Option<String> {
    let failure = case.failure.as_ref().map(|failure| failure.code.clone());
    failure.or_else(|| (why == DeferReason::EndpointDown).then(|| ENDPOINT_DOWN.to_owned()))
}

/// Reports whether a letter waits for its endpoint alone: it is woken when that is back. One that has come so often before
/// its time fails by itself. One that moved to the requeue before its time failed in another batch.
fn recovers(case: &PendingLetter<'_>, why: DeferReason) -> bool {
    let is_its_own = case.failure.as_ref().is_some_and(|failure| failure.class == FailureClass::Permanent);
    let waits = match why {
        DeferReason::Failed | DeferReason::EndpointDown => case.target.is_some(),
        DeferReason::Early => case.rule.may_go_early(&case.letter),
        _ => false,
    };
    waits && !is_its_own && !case.comes_in_vain()
}

/// Returns what holds a letter.
fn held_by(case: &PendingLetter<'_>, why: DeferReason) -> Option<String> {
    match why {
        DeferReason::Overridden => {
            case.facts.overridden.by().map(|override_| format!("override {}", override_.id))
        }
        DeferReason::Hold => Some(format!("rule {}", case.rule.name)),
        DeferReason::OverridesUnread | DeferReason::TargetUnknown => Some("overrides".to_owned()),
        DeferReason::Failed
        | DeferReason::Early
        | DeferReason::Hop
        | DeferReason::Throttled
        | DeferReason::EndpointDown
        | DeferReason::EndpointSlow => None,
    }
}
