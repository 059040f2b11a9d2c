//! A letter's whole life under one rule, if every retry fails.

use sns_redrive::batch::IN_FLIGHT_LIMIT;
use sns_redrive::policy::{DeliverySpec, Jitter, Phase, Rule, Schedule, VISIBILITY_CEILING, expiry_margin};

/// One retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Its number, from 1.
    pub retry: u32,
    /// The phase that it belongs to.
    pub phase: Phase,
    /// The wait before it, whole seconds, without jitter.
    pub delay: u64,
    /// All waits up to it, seconds.
    pub since: u64,
    /// The number of hidings for that wait; more than one is a wait with hops.
    pub hidings: u64,
    /// True if the queue keeps the letter that long.
    pub fits: bool,
}

/// All retries of a rule, and the end.
#[derive(Debug, Clone, PartialEq)]
pub struct Timetable {
    /// The schedule.
    pub schedule: Schedule,
    /// Every retry.
    pub rows: Vec<Row>,
    /// The last retry that is made; 0 where none is.
    pub last: u32,
    /// The queue's retention, seconds.
    pub retention: u64,
    /// The seconds from the letter's arrival to its archive: after its last retry, or when the queue
    /// would drop it before the next.
    pub life: u64,
    /// The whole time for which a letter is hidden, seconds: the mean over many letters.
    pub hidden: f64,
}

impl Timetable {
    /// Returns the timetable of a rule that goes by a schedule. Attempts take no time in it.
    #[must_use]
    pub fn of(rule: &Rule, retention: u64) -> Self {
        let schedule = match &rule.delivery {
            DeliverySpec::Inline(policy) => policy.schedule.clone(),
            // As the function does while it does not know the subscription's own policy.
            DeliverySpec::FromSubscription => Schedule::AWS_MANAGED,
        };
        let mut rows = Vec::new();
        let (mut since, mut end) = (0, None);
        for retry in 1..=schedule.retries {
            let (Some(phase), Some(delay)) = (schedule.phase(retry), schedule.wait(retry, &Jitter::NONE))
            else {
                break;
            };
            let first_at_once = retry == 1 && delay == 0;
            if end.is_none() && !first_at_once {
                end = expiry(since, delay, retention);
            }
            since += delay;
            let hidings = delay.div_ceil(VISIBILITY_CEILING);
            rows.push(Row { retry, phase, delay, since, hidings, fits: end.is_none() });
        }
        let last = rows.iter().rev().find(|row| row.fits).map_or(0, |row| row.retry);
        let life = end.unwrap_or(since);
        // Jitter shortens delays by half of its share in the mean. A letter that is archived because its
        // queue would drop it lives as long with it as without: it makes more retries meanwhile.
        let hidden = (float(since) * (1.0 - rule.jitter / 2.0)).min(float(life));
        Self { schedule, rows, last, retention, life, hidden }
    }

    /// Returns the whole schedule's length, seconds.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.rows.last().map_or(0, |row| row.since)
    }

    /// Reports whether every retry is made before the queue would drop the letter.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.last == self.schedule.retries
    }

    /// Returns the retries of a phase: the first and the last, where there are any.
    #[must_use]
    pub fn span(&self, phase: Phase) -> Option<(u32, u32)> {
        let Schedule { no_delay, min_delay, max_delay, .. } = self.schedule;
        let sizes = [
            (Phase::Immediate, no_delay),
            (Phase::PreBackoff, min_delay),
            (Phase::Backoff, self.schedule.in_backoff()),
            (Phase::PostBackoff, max_delay),
        ];
        let before: u32 = sizes.iter().take_while(|(other, _)| *other != phase).map(|(_, size)| size).sum();
        let (_, size) = sizes.into_iter().find(|(other, _)| *other == phase)?;
        (size > 0).then_some((before + 1, before + size))
    }

    /// Returns how many letters a second may arrive and keep failing before the queue's limit is reached, by Little's
    /// law; `None` where a letter is never hidden.
    #[must_use]
    pub fn max_rate(&self) -> Option<f64> {
        (self.hidden > 0.0).then(|| float(IN_FLIGHT_LIMIT) / self.hidden)
    }
}

/// Returns when a letter that begins to wait at `since` is archived within that wait, if it is: it is hidden a
/// ceiling at a time, as the policy does, and never past the margin before its queue drops it.
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

/// Returns seconds and retries as a number to count with.
#[must_use]
pub fn float(number: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let number = number as f64;
    number
}
