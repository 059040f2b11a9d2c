//! The letters that an instance claims of the list: which keys, what is in their objects, and what it lists anew.

use std::time::Duration;

use super::recovery_task::{RecoveryStage, RecoveryTask};
use crate::batch::action::{ActionAnswer, InvocationNow, no_answer};
use crate::batch::state::Batch;
use crate::batch::time::later;
use crate::endpoint::TargetName;
use crate::waiting::{ENDPOINT_DOWN, WaitingKey, WaitingLetter, written_at};

/// The number of letters of an instance's first claim for a recovery, by their keys. Each claim is twice as large as the one
/// before, up to the other number. It is more where one key has more.
const FIRST_CLAIM: u64 = 20;
const CLAIM_LETTERS: u64 = 500;

/// The largest number of keys of a claim.
const MOST_KEYS: usize = 64;

/// The time after which the list is looked at again that had nothing to claim.
const REST_AFTER_NOTHING: Duration = Duration::from_secs(5);

/// The time after which the list is looked at again of which a batch had no time left to claim anything.
const REST_WITHOUT_TIME: Duration = Duration::from_secs(15);

/// The time after a recovery within which others may still write what they hid before it, and leave letters out because they have
/// not heard of it.
const LATE_LISTS: Duration = Duration::from_secs(20);

/// The time after a recovery up to which keys are looked at: instances that are busy write what they hid before it that late.
const LATE_KEYS: Duration = Duration::from_mins(1);

/// The time before it becomes visible by itself within which a letter is not woken.
pub(super) const SHOWS_SOON: Duration = Duration::from_mins(1);

impl Batch<'_> {
    /// Claims the next letters of the list by moving the place behind them.
    pub(super) fn keys_listed(
        &mut self,
        mut task: RecoveryTask,
        target: TargetName,
        answer: ActionAnswer,
        now: InvocationNow,
    ) {
        let listed = if let ActionAnswer::WaitingKeys(listed) = answer { listed } else { Err(no_answer()) };
        let (Some(queue), Ok(mut page)) = (self.queue(), listed.clone()) else {
            self.recovery = Some(task);
            return self.recovery_goes_on(listed.map(|_| RecoveryStage::Done), now);
        };
        let instances = self.config.deliverers();
        let memory = &mut self.memory.recovery;
        let mut document = memory.known.document.clone();
        let known = document.add(queue.resource(), &target);
        let latest = later(known.recovered_at.unwrap_or(now.at), LATE_KEYS);
        let claims = memory.claims(queue.resource(), &target, known.recovered_at, now.age);
        let most = claims.next.max(FIRST_CLAIM);
        let (digest, mut letters, mut keys) = (target.digest(), 0_u64, Vec::new());
        // Of the last letters each instance claims few, in the end no more than it wakes at once. Otherwise it could keep some, and
        // get no batch any more to wake them.
        let of_target = |key: &String| WaitingKey::read(key).letters_of(&digest).unwrap_or(1);
        let rest = page.keys.iter().map(of_target).fold(0, u64::saturating_add);
        let rest = if page.is_cut { u64::MAX } else { rest };
        let now_woken = task.wakes.front().map_or(0, |(_, letters)| *letters);
        let most = most.min((rest / (4 * u64::from(instances))).max(now_woken));
        let (before, mut place, mut is_all) = (known.place.take(), None, !page.is_cut);
        for key in page.keys {
            if written_at(&key).is_none_or(|written| written > latest) {
                is_all = true;
                break;
            }
            if letters >= most || keys.len() >= MOST_KEYS {
                is_all = false;
                page.last = None;
                break;
            }
            let of_target = WaitingKey::read(&key).letters_of(&digest);
            letters = letters.saturating_add(of_target.unwrap_or(1));
            place = Some(key.clone());
            if of_target != Some(0) {
                keys.push(key);
            }
        }
        // Behind keys that are none of the list, too.
        let place = if is_all { place } else { page.last.or(place) };
        let has_moved = place.is_some() && place != before;
        known.place = place.or(before);
        known.is_done = is_all && now.at >= latest;
        if has_moved || known.is_done {
            claims.next = (most * 2).min(CLAIM_LETTERS);
            task.stage = RecoveryStage::Claim(target, document, keys);
        } else {
            claims.rests_until = now.age + REST_AFTER_NOTHING;
            task.wakes.pop_front();
            task.stage = RecoveryStage::Wake;
        }
        self.recovery = Some(task);
    }

    /// Lets a claim rest for which no time is left. Otherwise each batch would list the keys in vain.
    pub(super) fn put_off_claim(&mut self, task: &mut RecoveryTask, now: InvocationNow) {
        let (RecoveryStage::Claim(target, ..), Some(queue)) = (&task.stage, self.queue()) else { return };
        let memory = &mut self.memory.recovery;
        let recovered_at = memory.known.document.of(queue.resource(), target).and_then(|it| it.recovered_at);
        memory.claims(queue.resource(), target, recovered_at, now.age).rests_until =
            now.age + REST_WITHOUT_TIME;
        task.stage = RecoveryStage::Done;
    }

    /// Takes note of the keys that were claimed.
    pub(super) fn claimed(
        &mut self,
        mut task: RecoveryTask,
        target: &TargetName,
        keys: Vec<String>,
        now: InvocationNow,
    ) {
        if let Some(queue) = self.queue() {
            let memory = &mut self.memory.recovery;
            let recovered_at =
                memory.known.document.of(queue.resource(), target).and_then(|it| it.recovered_at);
            memory.claims(queue.resource(), target, recovered_at, now.age).keys = keys;
        }
        task.stage = RecoveryStage::Wake;
        self.recovery = Some(task);
    }

    /// Takes the lines of the first of the keys that were claimed. Those of the endpoint that are not woken now are listed anew,
    /// since nobody looks before the place again.
    pub(super) fn lines_read(
        &mut self,
        mut task: RecoveryTask,
        (target, keys): (&TargetName, usize),
        answer: ActionAnswer,
        now: InvocationNow,
    ) {
        let read = if let ActionAnswer::WaitingLines(read) = answer { read } else { Err(no_answer()) };
        let (Some(queue), Ok(lines)) = (self.queue(), &read) else {
            self.recovery = Some(task);
            return self.recovery_goes_on(read.map(|_| RecoveryStage::Done), now);
        };
        let memory = &mut self.memory.recovery;
        let recovered_at =
            memory.known.document.of(queue.resource(), target).and_then(|known| known.recovered_at);
        let is_here = |line: &WaitingLetter| {
            self.cases.iter().any(|case| case.letter.sqs.message_id == line.message_id)
        };
        let waits = |line: &&WaitingLetter| {
            line.target.as_ref() == Some(target) && line.shows() > later(now.at, SHOWS_SOON) && !is_here(line)
        };
        // Those that failed since are woken by the next recovery. An instance that had not heard of it may have left out others.
        let heard = recovered_at.map(|at| later(at, LATE_LISTS));
        let is_woken = |line: &WaitingLetter| {
            let is_left_out = line.error.as_deref() == Some(ENDPOINT_DOWN);
            line.recovers && line.hidden <= if is_left_out { heard } else { recovered_at }
        };
        let (woken, left): (Vec<_>, Vec<_>) = lines.iter().filter(waits).cloned().partition(is_woken);
        if !left.is_empty() {
            let until = recovered_at.map_or(now.at, |at| later(at, LATE_KEYS));
            memory.unlisted.leave(queue.resource(), left, until);
        }
        let claims = memory.claims(queue.resource(), target, recovered_at, now.age);
        claims.keys.drain(..keys.min(claims.keys.len()));
        claims.add(woken);
        task.stage = RecoveryStage::Wake;
        self.recovery = Some(task);
    }
}
