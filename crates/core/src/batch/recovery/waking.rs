//! The calls at the end of a batch: the document of recoveries, and the letters that are woken.
//!
//! ```text
//!   read the document ──> write what the batch has shown ──> if an endpoint is to be told of: count the letters that wait for it
//!                                                        ──> for each endpoint that is back: wake what was claimed
//!                                                              or claim: list keys ──> move the place ──> read lines
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;

use super::claiming::SHOWS_SOON;
use super::endpoint_tally::tally;
use super::known_recoveries::{is_over, recover};
use super::recovery_task::{RecoveryStage, RecoveryTask};
use super::telling::claim_change;
use crate::batch::action::{
    Action, ActionAnswer, BatchNotice, DocumentRead, DocumentWrite, InvocationNow, no_answer,
};
use crate::batch::state::{ActionChain, ActionId, Batch, DueRetries};
use crate::batch::time::{half_of, later};
use crate::endpoint::TargetName;
use crate::failure::Failure;
use crate::policy::{LetterTarget, Retry};
use crate::waiting::Recoveries;

/// The time without a wake after which any batch wakes some letters anew, and their number.
const STILL_TIME: Duration = Duration::from_secs(30);
const WAKES_ANEW: u64 = 10;

/// The number of objects whose lines are read at once, all at the same time. A batch reads no more of what it has claimed than
/// it wakes.
const KEYS_AT_ONCE: usize = 8;

/// The time after which a call is made again that failed.
const REST_AFTER_FAILURE: Duration = Duration::from_mins(1);

impl Batch<'_> {
    /// Takes note of the endpoints that are back, for letters that wait in the requeue.
    pub(in crate::batch) fn apply_recoveries(&mut self, now: Timestamp) {
        let known = &self.memory.recovery.known;
        for case in self.cases.iter_mut().filter(|case| case.letter.mark.is_some()) {
            if let LetterTarget::Known(endpoint) = case.leads_to(&self.memory.targets) {
                case.facts.recovered = known.recovered_at(&endpoint, now);
            }
        }
    }

    /// Asks whether endpoints are back that this instance leaves alone, and whose letters have come before their time: another
    /// instance may have woken them.
    pub(in crate::batch) fn read_recoveries_for(
        &mut self,
        due: &DueRetries,
        now: InvocationNow,
    ) -> Option<Action> {
        let memory = &self.memory.recovery;
        let rests = now.age < memory.rests_until || self.memory.overrides.failed;
        let may_ask = self.config.waiting_list && !rests && !self.control_time.is_zero();
        if !may_ask || !memory.known.is_old(now.age) {
            return None;
        }
        let is_left_alone = |(index, retry): &(usize, Retry)| {
            let endpoint = self.cases[*index].leads_to(&self.memory.targets);
            let is_down = |endpoint: &TargetName| !self.memory.health.is_up_by_name(endpoint);
            let verdict = self.cases[*index].verdict.as_ref();
            verdict.is_some_and(|verdict| verdict.comes_early(*retry))
                && matches!(&endpoint, LetterTarget::Known(endpoint) if is_down(endpoint))
        };
        if !due.iter().any(is_left_alone) {
            return None;
        }
        let until = (now.elapsed + self.control_time).min(half_of(now.elapsed, self.time.deliver));
        let unless = memory.known.tag.clone();
        self.recoveries_asked = now.elapsed;
        Some(Action::ReadRecoveries { unless, until })
    }

    /// Takes the answer to that question.
    pub(in crate::batch) fn recoveries_read_for(&mut self, answer: ActionAnswer, now: InvocationNow) {
        let took = now.elapsed.saturating_sub(self.recoveries_asked);
        self.control_time = self.control_time.saturating_sub(took);
        if let Err(failure) = self.recoveries_read(answer, now) {
            self.memory.recovery.rests_until = now.age + REST_AFTER_FAILURE;
            self.notices.push(BatchNotice::RecoveriesFailed { failure });
        }
    }

    /// Begins the work on recoveries, now that the fate of every letter is known.
    pub(in crate::batch) fn begin_recovery(&mut self, now: InvocationNow) {
        if !self.config.waiting_list || !self.is_active() || self.recovery.is_some() {
            return;
        }
        let tallies = tally(&self.cases, self.config.notice_topic.as_ref());
        let memory = &mut self.memory.recovery;
        memory.failing.set_right(now.moment());
        for (target, tally) in &tallies {
            match &tally.error {
                // One that is down is forgotten once its recovery is written.
                _ if tally.delivered > 0 && memory.failing.down_since(target).is_some() => {}
                _ if tally.delivered > 0 => memory.failing.worked(target, now.at),
                Some(error) => {
                    let was_back = memory.known.was_back(target, now.at);
                    let failures = (error.as_str(), tally.failed);
                    memory.failing.failed(target, failures, &tally.topics, was_back, now.moment());
                }
                None => {}
            }
        }
        // If the overrides could not be read just now, nothing else can be, and it would take its time.
        let rests = now.age < memory.rests_until || self.memory.overrides.failed;
        let until = (now.elapsed + self.control_time).min(self.time.finish);
        let stage = if rests { RecoveryStage::Done } else { RecoveryStage::Read };
        self.recovery = Some(RecoveryTask {
            stage,
            until,
            asked: now.elapsed,
            slowest: Duration::ZERO,
            tallies,
            wakes: VecDeque::new(),
            is_planned: false,
            is_again: false,
        });
    }

    /// Asks for the next call, unless one is under way.
    pub(in crate::batch) fn recover(&mut self, now: InvocationNow) -> Option<(ActionId, Action)> {
        let mut task = self.recovery.take()?;
        let action = loop {
            if !task.has_time_for(1, now) {
                self.put_off_claim(&mut task, now);
                break None;
            }
            let stage = std::mem::replace(&mut task.stage, RecoveryStage::Done);
            let (next, action) = match stage {
                RecoveryStage::Read => self.read_recoveries(&task, now),
                RecoveryStage::Write => self.write_recoveries(&task, now),
                RecoveryStage::Plan if task.is_planned => (RecoveryStage::Wake, None),
                RecoveryStage::Plan => {
                    task.is_planned = true;
                    task.wakes = self.plan_wakes(&task, now);
                    (RecoveryStage::Count, None)
                }
                RecoveryStage::Wake => self.wake_next(&mut task, now),
                RecoveryStage::Count => self.count_waiting(&task),
                RecoveryStage::Claim(target, document, keys) => {
                    let action = write(&document, self.memory.recovery.known.tag.clone(), task.until);
                    (RecoveryStage::AwaitClaimed(target, document, keys), Some(action))
                }
                other => {
                    task.stage = other;
                    break None;
                }
            };
            task.stage = next;
            if action.is_some() {
                task.asked = now.elapsed;
                break action;
            }
        };
        self.recovery = Some(task);
        Some((ActionId(ActionChain::Recovery), action?))
    }

    fn read_recoveries(&self, task: &RecoveryTask, now: InvocationNow) -> (RecoveryStage, Option<Action>) {
        let known = &self.memory.recovery.known;
        if !known.is_due(now.age) {
            return (RecoveryStage::Write, None);
        }
        let action = Action::ReadRecoveries { unless: known.tag.clone(), until: task.until };
        (RecoveryStage::AwaitRead, Some(action))
    }

    /// Writes into the document what this batch has shown: endpoints that are down, and endpoints that are back.
    fn write_recoveries(
        &mut self,
        task: &RecoveryTask,
        now: InvocationNow,
    ) -> (RecoveryStage, Option<Action>) {
        let Some(queue) = self.queue() else { return (RecoveryStage::Done, None) };
        let memory = &mut self.memory.recovery;
        let mut document = memory.known.document.clone();
        let (mut notices, mut changes) = (Vec::new(), Vec::new());
        document.retain(|known| !is_over(known, now.at));
        for (target, tally) in &task.tallies {
            let down = memory.failing.down_since(target);
            let mut is_back = None;
            if tally.delivered > 0 {
                if let Some((since, error)) = down {
                    let known = document.add(queue.resource(), target);
                    known.down_since.get_or_insert(since);
                    known.error.get_or_insert_with(|| error.to_owned());
                }
                for known in document.iter_mut().filter(|known| known.target == *target) {
                    let since = known.down_since;
                    if recover(known, now.at) {
                        is_back = is_back.max(since);
                        memory.scouts.forget(target, now.age);
                    }
                }
                notices.extend(
                    is_back.map(|down_since| BatchNotice::EndpointRecovered {
                        target: target.clone(),
                        down_since,
                    }),
                );
            } else if let Some((since, error)) = down {
                let is_new = document.of(queue.resource(), target).is_none_or(|it| it.down_since.is_none());
                if is_new {
                    let known = document.add(queue.resource(), target);
                    (known.down_since, known.error) = (Some(since), Some(error.to_owned()));
                    notices.push(BatchNotice::EndpointDown {
                        target: target.clone(),
                        since,
                        error: error.to_owned(),
                    });
                }
            }
            if self.config.notice_topic.is_some() {
                let failing = &memory.failing;
                changes.extend(claim_change(
                    &mut document,
                    (&queue, target),
                    tally,
                    failing,
                    is_back,
                    now.at,
                ));
            }
        }
        if document == memory.known.document {
            // It was back a moment before, and that is written already.
            for (target, _) in task.tallies.iter().filter(|(_, tally)| tally.delivered > 0) {
                memory.failing.worked(target, now.at);
            }
            return (RecoveryStage::Plan, None);
        }
        let action = write(&document, memory.known.tag.clone(), task.until);
        (RecoveryStage::AwaitWritten(document, notices, changes), Some(action))
    }

    /// Decides how many letters are woken for each endpoint that is back.
    fn plan_wakes(&mut self, task: &RecoveryTask, now: InvocationNow) -> VecDeque<(TargetName, u64)> {
        let Some(queue) = self.queue() else { return VecDeque::new() };
        let (is_full, instances) = (self.is_full(), self.config.deliverers());
        let memory = &mut self.memory.recovery;
        let mut wakes = VecDeque::new();
        let back: Vec<_> =
            memory.known.document.iter().filter(|it| it.queue == queue.resource()).cloned().collect();
        for known in back {
            let (target, recovered_at) = (&known.target, known.recovered_at);
            let is_finished = known.is_done && !memory.holds_claims(queue.resource(), target);
            if recovered_at.is_none() || is_finished {
                continue;
            }
            let claims = memory.claims(queue.resource(), target, recovered_at, now.age);
            let Some(tally) = task.tallies.get(target) else {
                // No letter of it came for a while: those that were woken last were gone, or went to another instance.
                let waits = !known.is_done || !claims.lines.is_empty() || !claims.keys.is_empty();
                let is_still = now.age.saturating_sub(claims.woken) >= STILL_TIME;
                if waits && is_still && known.down_since.is_none() {
                    wakes.push_back((target.clone(), WAKES_ANEW));
                }
                continue;
            };
            let pace = memory.pace(target, now.age);
            let by_themselves = (tally.delivered + tally.failed).saturating_sub(tally.early);
            pace.sent(by_themselves, tally.rate, instances, now.age);
            let letters = pace.wakes(tally, is_full, instances, now.age);
            if letters > 0 {
                wakes.push_back((target.clone(), letters));
            }
        }
        wakes
    }

    /// Wakes letters of the next endpoint, or claims some first.
    fn wake_next(&mut self, task: &mut RecoveryTask, now: InvocationNow) -> (RecoveryStage, Option<Action>) {
        let Some(queue) = self.queue() else { return (RecoveryStage::Done, None) };
        let instances = self.config.deliverers();
        let memory = &mut self.memory.recovery;
        while let Some((target, letters)) = task.wakes.pop_front() {
            let Some(known) = memory.known.document.of(queue.resource(), &target).cloned() else { continue };
            let claims = memory.claims(queue.resource(), &target, known.recovered_at, now.age);
            claims.lines.retain(|line| line.shows() > later(now.at, SHOWS_SOON));
            let has_none = claims.lines.is_empty();
            // Those that are known are woken in any case, so time for that is left.
            let needs_more = has_none || (claims.lines.len() as u64) < letters && task.has_time_for(2, now);
            if needs_more && !claims.keys.is_empty() {
                let keys: Vec<_> = claims.keys.iter().take(KEYS_AT_ONCE).cloned().collect();
                task.wakes.push_front((target.clone(), letters));
                let stage = RecoveryStage::AwaitLines(target, keys.len());
                return (stage, Some(Action::ReadWaitingLines { keys, until: task.until }));
            }
            if !has_none {
                let few = usize::try_from(letters).unwrap_or(usize::MAX).min(claims.lines.len());
                if letters > few as u64 {
                    task.wakes.push_front((target.clone(), letters - few as u64));
                }
                let letters: Vec<_> = claims.lines.drain(..few).collect();
                claims.woken = now.age;
                let rate = task.tallies.get(&target).and_then(|tally| tally.rate);
                memory.pace(&target, now.age).sent(few as u64, rate, instances, now.age);
                return (
                    RecoveryStage::AwaitWoken(target, few),
                    Some(Action::Wake { letters, until: task.until }),
                );
            }
            if known.recovered_at.is_none() || known.is_done || now.age < claims.rests_until {
                continue;
            }
            let action = Action::ListWaitingKeys { after: known.place.clone(), until: task.until };
            task.wakes.push_front((target.clone(), letters));
            return (RecoveryStage::AwaitKeys(target), Some(action));
        }
        (RecoveryStage::Done, None)
    }

    /// Takes the answer to the call that is under way.
    pub(in crate::batch) fn recovery_answered(&mut self, answer: ActionAnswer, now: InvocationNow) {
        let Some(mut task) = self.recovery.take() else { return };
        task.slowest = task.slowest.max(now.elapsed.saturating_sub(task.asked));
        let stage = std::mem::replace(&mut task.stage, RecoveryStage::Done);
        let next = match stage {
            RecoveryStage::AwaitRead => self.recoveries_read(answer, now),
            RecoveryStage::AwaitWritten(document, notices, changes) => {
                let written = self.written(answer, document, &task);
                if let Ok(RecoveryStage::Plan) = written {
                    self.notices.extend(notices);
                    for change in &changes {
                        self.memory.recovery.failing.told(&change.target);
                    }
                    self.changes.extend(changes);
                    for (target, _) in task.tallies.iter().filter(|(_, tally)| tally.delivered > 0) {
                        self.memory.recovery.failing.worked(target, now.at);
                    }
                }
                written
            }
            RecoveryStage::AwaitKeys(target) => return self.keys_listed(task, target, answer, now),
            RecoveryStage::AwaitClaimed(target, document, keys) => {
                let written = self.written(answer, document, &task);
                if let Ok(RecoveryStage::Plan) = written {
                    return self.claimed(task, &target, keys, now);
                }
                written
            }
            RecoveryStage::AwaitLines(target, keys) => {
                return self.lines_read(task, (&target, keys), answer, now);
            }
            RecoveryStage::AwaitWoken(target, count) => {
                let woken =
                    crate::batch::action::results(answer, count).iter().filter(|one| one.is_ok()).count();
                self.woken_for(&target, woken);
                self.notices.push(BatchNotice::LettersWoken { target, letters: woken });
                Ok(RecoveryStage::Wake)
            }
            RecoveryStage::AwaitCounted => Ok(self.waiting_counted(answer, now)),
            other => Ok(other),
        };
        task.is_again |= matches!(next, Ok(RecoveryStage::Read));
        self.recovery = Some(task);
        self.recovery_goes_on(next, now);
    }

    /// Goes on, or lets it rest after a failure.
    pub(super) fn recovery_goes_on(&mut self, next: Result<RecoveryStage, Failure>, now: InvocationNow) {
        let stage = next.unwrap_or_else(|failure| {
            self.memory.recovery.rests_until = now.age + REST_AFTER_FAILURE;
            self.notices.push(BatchNotice::RecoveriesFailed { failure });
            RecoveryStage::Done
        });
        if let Some(task) = &mut self.recovery {
            task.stage = stage;
        }
    }

    fn recoveries_read(
        &mut self,
        answer: ActionAnswer,
        now: InvocationNow,
    ) -> Result<RecoveryStage, Failure> {
        let read = if let ActionAnswer::Recoveries(read) = answer { read } else { Err(no_answer()) };
        let memory = &mut self.memory.recovery;
        let read = read?;
        let is_new = read != DocumentRead::NotModified;
        memory.known.take(read, now.moment())?;
        if !is_new {
            return Ok(RecoveryStage::Write);
        }
        for known in memory.known.document.iter() {
            if let Some(at) = known.recovered_at.filter(|_| known.down_since.is_none()) {
                memory.failing.worked(&known.target, at);
                let back = now.age.saturating_sub(now.at.duration_since(at).unsigned_abs());
                memory.scouts.forget(&known.target, back);
                self.memory.health.is_back(&known.target, back);
            }
        }
        Ok(RecoveryStage::Write)
    }

    /// Takes the result of a write. If another instance was faster, its document is read, and then this one's part is
    /// written once more.
    fn written(
        &mut self,
        answer: ActionAnswer,
        document: Recoveries,
        task: &RecoveryTask,
    ) -> Result<RecoveryStage, Failure> {
        let written = if let ActionAnswer::Written(written) = answer { written } else { Err(no_answer()) };
        let known = &mut self.memory.recovery.known;
        match written {
            Ok(DocumentWrite::Written { tag }) => {
                (known.document, known.tag) = (document, tag);
                Ok(RecoveryStage::Plan)
            }
            Ok(DocumentWrite::Conflict) => {
                known.forget_reading();
                Ok(if task.is_again { RecoveryStage::Done } else { RecoveryStage::Read })
            }
            Err(failure) => {
                known.forget_reading();
                Err(failure)
            }
        }
    }
}

fn write(document: &Recoveries, replaces: Option<String>, until: Duration) -> Action {
    Action::WriteRecoveries { json: document.to_json(), replaces, until }
}
