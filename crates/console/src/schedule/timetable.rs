//! The life of a letter under one rule, if every retry fails.

use redrive_core::batch::IN_FLIGHT_LIMIT;
use redrive_core::policy::{
    DeliverySpec, Jitter, RetryPhase, Rule, Schedule, VISIBILITY_CEILING, expiry_margin,
};

/// The retention of the queues in `template.yaml`, seconds.
pub const QUEUE_RETENTION_SECONDS: u64 = 1_209_600;

/// One retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimetableRow {
    /// The number of the retry, from 1.
    pub retry: u32,
    /// The phase that it belongs to.
    pub phase: RetryPhase,
    /// The wait before the retry, in whole seconds, without jitter.
    pub delay: u64,
    /// The sum of the waits so far, seconds.
    pub since: u64,
    /// How many times the letter is hidden for that wait. More than one means a wait with hops.
    pub hidings: u64,
    /// True if the queue keeps the letter that long.
    pub fits: bool,
}

/// All retries of a rule, and the letter's end.
#[derive(Debug, Clone, PartialEq)]
pub struct Timetable {
    /// The schedule of the rule.
    pub schedule: Schedule,
    /// The retries in their order.
    pub rows: Vec<TimetableRow>,
    /// The last retry that is made; 0 if none is.
    pub last: u32,
    /// The seconds from the letter's arrival to the beginning of its schedule: 0 without `SCHEDULE_FROM`.
    pub begins: u64,
    /// The queue's retention, seconds.
    pub retention: u64,
    /// The seconds from the letter's arrival to its archive: after its last retry, or before the queue would
    /// drop it.
    pub life: u64,
    /// The seconds for which a letter is hidden in its life, on average over many letters.
    pub hidden: f64,
    /// The length of the longest outage, in seconds, of which every letter is delivered, whatever the jitter: the
    /// time from a letter's arrival to its last retry.
    pub survives: u64,
}

impl Timetable {
    /// Returns the timetable of a rule. It assumes that attempts take no time.
    #[must_use]
    pub fn of(rule: &Rule, retention: u64) -> Self {
        Self::beginning(rule, retention, 0)
    }

    /// Returns the timetable of a letter whose schedule begins so many seconds after its arrival.
    #[must_use]
    pub fn beginning(rule: &Rule, retention: u64, begins: u64) -> Self {
        let schedule = match &rule.delivery {
            DeliverySpec::Inline(policy) => policy.schedule.clone(),
            // The function uses this schedule while it does not know the subscription's own policy.
            DeliverySpec::FromSubscription => Schedule::AWS_MANAGED,
        };
        let mut rows = Vec::new();
        let (mut since, mut end) = (0, None);
        for retry in 1..=schedule.retries {
            let (Some(phase), Some(delay)) = (schedule.phase(retry), schedule.wait(retry, &Jitter::NONE))
            else {
                break;
            };
            // A first retry without delay happens on arrival, so the retention cannot prevent it.
            let wait = if retry == 1 { begins + delay } else { delay };
            let first_at_once = retry == 1 && wait == 0;
            if end.is_none() && !first_at_once {
                end = expiry(since, wait, retention);
            }
            since += wait;
            let hidings = delay.div_ceil(VISIBILITY_CEILING);
            rows.push(TimetableRow { retry, phase, delay, since, hidings, fits: end.is_none() });
        }
        let last = rows.iter().rev().find(|row| row.fits).map_or(0, |row| row.retry);
        let life = end.unwrap_or(since);
        // On average, jitter shortens a delay by half of its share. It does not shorten the life of a letter
        // that is archived because its queue would drop it: such a letter makes more retries in the same
        // time.
        let hidden = (float(since) * (1.0 - rule.jitter / 2.0)).min(float(life));
        let survives = survives(&schedule, rule.jitter, retention);
        Self { schedule, rows, last, begins, retention, life, hidden, survives }
    }

    /// Returns the length of the whole schedule, seconds.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.rows.last().map_or(0, |row| row.since - self.begins)
    }

    /// Reports whether the letter makes every retry before the queue would drop it.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.last == self.schedule.retries
    }

    /// Returns the first and the last retry of a phase, if it has any.
    #[must_use]
    pub fn span(&self, phase: RetryPhase) -> Option<(u32, u32)> {
        let Schedule { no_delay, min_delay, max_delay, .. } = self.schedule;
        let sizes = [
            (RetryPhase::Immediate, no_delay),
            (RetryPhase::PreBackoff, min_delay),
            (RetryPhase::Backoff, self.schedule.in_backoff()),
            (RetryPhase::PostBackoff, max_delay),
        ];
        let before: u32 = sizes.iter().take_while(|(other, _)| *other != phase).map(|(_, size)| size).sum();
        let (_, size) = sizes.into_iter().find(|(other, _)| *other == phase)?;
        (size > 0).then_some((before + 1, before + size))
    }

    /// Returns how many letters a second may arrive and keep failing before the queue reaches its limit of
    /// messages in flight, by Little's law; `None` if letters are never hidden.
    #[must_use]
    pub fn max_rate(&self) -> Option<f64> {
        (self.hidden > 0.0).then(|| float(IN_FLIGHT_LIMIT) / self.hidden)
    }
}

/// Returns the time from the arrival of a letter to its last retry, in seconds, if jitter makes that as short as it can.
fn survives(schedule: &Schedule, jitter: f64, retention: u64) -> u64 {
    let end = retention - expiry_margin(retention);
    let mut shortest = u64::MAX;
    // The moment of the retry before the next one, with all the jitter that there can be, and without any.
    let (mut soonest, mut latest) = (0, 0);
    for next in 1.. {
        let (Some(least), Some(most)) =
            (schedule.shortest_wait(next, jitter), schedule.wait(next, &Jitter::NONE))
        else {
            // The schedule ends.
            return shortest.min(soonest);
        };
        latest += most;
        // If the next one would come too late, this one is the last, and less than that delay before the end.
        if latest > end {
            shortest = shortest.min(soonest.max(end.saturating_sub(most)));
        }
        soonest += least;
        if soonest > end {
            break;
        }
    }
    shortest
}

/// Returns when a letter that begins to wait at `since` is archived within that wait, if it is. As under the
/// policy, the letter is hidden for at most a ceiling at a time, and never beyond the margin before its queue
/// drops it.
fn expiry(since: u64, delay: u64, retention: u64) -> Option<u64> {
    let (mut at, until) = (since, since + delay);
    loop {
        let awake = until.min(at + VISIBILITY_CEILING);
        if awake + expiry_margin(retention) > retention {
            return Some(at);
        }
        if awake == until {
            return None;
        }
        at = awake;
    }
}

/// Returns a number of seconds or retries as a float.
#[must_use]
pub fn float(number: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let number = number as f64;
    number
}
