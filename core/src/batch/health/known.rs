//! The health of one endpoint.

use std::time::Duration;

use super::trials::{PAUSE_FACTOR, Trials};
use crate::batch::purpose::CONCURRENT_SINGLES;
use crate::failure::Failure;

/// The time that failures of an endpoint may cost before it is left alone. When a call of AWS fails once, the
/// SDK has tried it three times, which takes up to 2 s.
const BUDGET: Duration = Duration::from_secs(3);

/// The same limit while the endpoint is tried again.
const TRIAL_BUDGET: Duration = Duration::from_secs(1);

/// The longest time that an endpoint is left alone: after a recovery its letters come back within a minute.
const LONGEST_PAUSE: Duration = Duration::from_secs(40);

/// The time between the returns of letters that are left out. An endpoint that is down for long has many
/// letters, and if all came back with each trial, the instance would do nothing else. No letter waits longer
/// after the trial than the outage has lasted, so that a short outage costs little.
const APART: Duration = Duration::from_secs(1);

/// The longest time that a letter waits after a trial. Then it asks again, which costs a receive.
const LONGEST_AFTER_TRIAL: Duration = Duration::from_mins(5);

/// The same time for letters that an override sends, since an operator waits for them.
const APART_ON_OVERRIDE: Duration = Duration::from_millis(30);

/// The longest time that such a letter waits after a trial. If there are more letters than fit into it, the
/// later ones come back between the earlier ones: if they all came at once, they would keep all other letters
/// waiting.
const LONGEST_ON_OVERRIDE: Duration = Duration::from_mins(1);

/// The time after an endpoint accepted a message in which its wish to be left alone may be about one letter
/// only: a server of many tenants throttles one of them.
const LIVES_ON: Duration = Duration::from_mins(1);

/// The number of requests in a row that must ask for a pause until the endpoint is believed to mean all
/// letters.
pub(super) const ASKS_IN_A_ROW: usize = CONCURRENT_SINGLES;

/// A change of an endpoint's health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is left alone.
    Down {
        /// The failure that led to it.
        failure: Failure,
        /// The pause, at first.
        pause: Duration,
    },
    /// It has accepted a message again, and gets some at a time.
    Trying,
    /// It gets as many messages as any other again.
    Up,
}

/// The facts that are known about one endpoint.
#[derive(Debug)]
pub(super) struct Known {
    /// The time when it was last used.
    used: Duration,
    state: State,
    /// The time when it last accepted a message.
    lived: Option<Duration>,
    /// The time that its failures have cost since it was last left alone.
    cost: Duration,
    /// The time up to which the cost is counted.
    counted: Duration,
    /// The pause that it has asked for since it last accepted a message.
    asked: Option<Asked>,
    /// The number of requests that have asked for a pause since then.
    asks: usize,
    trials: Trials,
    /// The time when the next letter that is left out comes back.
    back: Duration,
    /// The time after the trial at which the next letter that an override sends comes back.
    after_trial: Duration,
    /// The beginning of the outage that was last reported.
    outage: Duration,
    /// The state that was last reported.
    reported: Reported,
}

/// The wish of an endpoint to be left alone. Each letter grants it for the longest delay of its own schedule
/// at most.
#[derive(Debug, Clone, Copy)]
struct Asked {
    at: Duration,
    pause: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Up,
    /// The number of requests that may be under way.
    Trying(usize),
    Down {
        since: Duration,
        until: Duration,
    },
}

/// The state of an endpoint that the log reported last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reported {
    Up,
    Trying,
    Down,
}

/// The answer whether a request begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::batch) enum Admission {
    /// It begins and may take this long, or its full time if this is `None`.
    Begins(Option<Duration>),
    /// It waits for the end of other requests.
    Waits,
    /// It is left out, because the endpoint is down.
    LeftOut,
}

/// A request that has ended.
#[derive(Debug, Clone, Copy)]
pub(in crate::batch) struct Made {
    pub(in crate::batch) began: Duration,
    /// True if it had its full time.
    pub(in crate::batch) full: bool,
}

impl Known {
    /// Creates an endpoint of which nothing is known yet.
    pub(super) fn new(now: Duration) -> Self {
        Self {
            used: now,
            state: State::Up,
            lived: None,
            cost: Duration::ZERO,
            counted: Duration::ZERO,
            asked: None,
            asks: 0,
            trials: Trials::default(),
            back: Duration::ZERO,
            after_trial: Duration::ZERO,
            outage: Duration::ZERO,
            reported: Reported::Up,
        }
    }

    /// Reports whether it works as far as is known.
    pub(super) fn is_up(&self) -> bool {
        self.state == State::Up
    }

    /// Returns the time when it was last used.
    pub(super) fn used(&self) -> Duration {
        self.used
    }

    /// Decides whether a request begins: see [`super::Health::admit`].
    pub(super) fn admit(
        &self,
        last: bool,
        longest: Duration,
        under_way: usize,
        slots: usize,
        now: Duration,
    ) -> Admission {
        if now < self.left_alone_until(longest) {
            return Admission::LeftOut;
        }
        // An endpoint that may hang leaves places for those that work.
        let some = slots / 4;
        let trial_time = || self.trials.time(self.outage, now);
        let below = |most, limit| {
            if under_way < most { Admission::Begins(limit) } else { Admission::Waits }
        };
        match self.state {
            State::Up => below(if self.lived.is_some() { slots } else { some }, None),
            State::Down { .. } | State::Trying(1) if last && now >= self.trials.full() => {
                below(slots - some, None)
            }
            State::Down { .. } | State::Trying(1) if last && under_way == 0 => Admission::LeftOut,
            State::Down { .. } => below(1, trial_time()),
            State::Trying(1) if last => Admission::Waits,
            State::Trying(most) => below(most, if last { None } else { trial_time() }),
        }
    }

    /// Takes note that a request begins.
    pub(super) fn begins(&mut self, now: Duration) {
        self.used = now;
        if let State::Down { .. } = self.state {
            self.state = State::Trying(1);
            (self.cost, self.counted, self.after_trial) = (Duration::ZERO, now, Duration::ZERO);
        }
    }

    /// Takes note of a request that has ended. Without a failure, it shows that the endpoint works.
    pub(super) fn ended(&mut self, made: Made, failure: Option<&Failure>, now: Duration) -> Option<Change> {
        self.used = now;
        match failure {
            Some(failure) => self.failed(made, failure, now),
            None => self.took(made, now),
        }
    }

    /// Returns how long a letter that is left out waits: see [`super::Health::wait`].
    pub(super) fn wait(&mut self, last: bool, longest: Duration, now: Duration) -> Duration {
        let until = self.left_alone_until(longest);
        let turn = match self.state {
            State::Down { .. } | State::Trying(1) if last => {
                until.max(self.trials.full().min(until.max(now) + LONGEST_AFTER_TRIAL))
            }
            State::Up | State::Trying(_) if now >= until => now,
            _ => {
                let lasted = now.saturating_sub(self.outage);
                let latest = until + lasted.min(LONGEST_AFTER_TRIAL);
                let turn = self.back.clamp(until, latest);
                self.back = turn + APART;
                turn
            }
        };
        turn.saturating_sub(now)
    }

    /// Returns how long a letter that an override sends waits if it is left out.
    pub(super) fn wait_on_override(&mut self, longest: Duration, now: Duration) -> Duration {
        let until = self.left_alone_until(longest);
        if matches!(self.state, State::Up | State::Trying(_)) && now >= until {
            return Duration::ZERO;
        }
        let next = self.after_trial + APART_ON_OVERRIDE;
        let next = if next > LONGEST_ON_OVERRIDE { Duration::ZERO } else { next };
        until.saturating_sub(now) + std::mem::replace(&mut self.after_trial, next)
    }

    /// Returns the time until which a letter whose schedule has this longest delay leaves the endpoint alone.
    pub(super) fn left_alone_until(&self, longest: Duration) -> Duration {
        let down = if let State::Down { until, .. } = self.state { until } else { Duration::ZERO };
        let asked = self.asked.map(|asked| asked.at + asked.pause.min(longest));
        down.max(asked.unwrap_or_default())
    }

    /// Takes note that the endpoint has accepted a message.
    fn took(&mut self, made: Made, now: Duration) -> Option<Change> {
        self.lived = Some(now);
        (self.asked, self.asks) = (None, 0);
        self.trials.saw(now.saturating_sub(made.began), now);
        // A request that began before the endpoint went down says nothing of it now.
        if matches!(self.state, State::Down { since, .. } if made.began <= since) {
            return None;
        }
        (self.cost, self.back, self.after_trial) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        self.trials.ended_well();
        self.state = match self.state {
            State::Up => State::Up,
            State::Down { .. } => State::Trying(2),
            State::Trying(most) if most * 2 >= CONCURRENT_SINGLES => State::Up,
            State::Trying(most) => State::Trying(most * 2),
        };
        match (self.state, self.reported) {
            (State::Up, Reported::Down | Reported::Trying) => {
                self.reported = Reported::Up;
                Some(Change::Up)
            }
            (State::Trying(_), Reported::Down) => {
                self.reported = Reported::Trying;
                Some(Change::Trying)
            }
            _ => None,
        }
    }

    /// Takes note that a request has failed, and has cost time.
    fn failed(&mut self, made: Made, failure: &Failure, now: Duration) -> Option<Change> {
        // Time in which nothing failed pays for the failures before it. Requests at the same time cost that
        // time once.
        let idle = made.began.saturating_sub(self.counted);
        self.cost = self.cost.saturating_sub(idle / PAUSE_FACTOR);
        self.cost += now.saturating_sub(made.began.max(self.counted));
        self.counted = now;
        let asked = self.asked(failure, now);
        let budget = if self.state == State::Up { BUDGET } else { TRIAL_BUDGET };
        if self.cost < budget && asked.is_none() {
            return None;
        }
        if made.full {
            self.trials.had_full_time(self.cost, now);
        }
        if let State::Trying(_) = self.state {
            self.trials.ended_badly();
        }
        // It accepted other messages meanwhile. Now it gets a few requests at a time, each for a short time.
        let lived = self.lived.is_some_and(|lived| lived > made.began);
        if lived && self.state == State::Up && asked.is_none() {
            self.state = State::Trying(2);
            self.cost = Duration::ZERO;
            return None;
        }
        let pause = (self.cost * PAUSE_FACTOR).min(LONGEST_PAUSE);
        let before = if let State::Down { until, .. } = self.state { until } else { Duration::ZERO };
        self.state = State::Down { since: now, until: before.max(now + pause) };
        let reported = std::mem::replace(&mut self.reported, Reported::Down);
        if reported != Reported::Down {
            self.outage = made.began;
        }
        let pause = asked.map_or(pause, |asked| pause.max(asked.pause));
        (reported != Reported::Down).then(|| Change::Down { failure: failure.clone(), pause })
    }

    /// Takes note that the endpoint asks to be left alone. Returns `None` if it may mean one letter only.
    fn asked(&mut self, failure: &Failure, now: Duration) -> Option<Asked> {
        let pause = Duration::from_secs(failure.retry_after.filter(|seconds| *seconds > 0)?);
        self.asks += 1;
        let lives = self.lived.is_some_and(|lived| now.saturating_sub(lived) < LIVES_ON);
        if lives && self.asks < ASKS_IN_A_ROW {
            return None;
        }
        // Another request that was under way may ask for a shorter pause.
        let ends = |asked: &Asked| asked.at.saturating_add(asked.pause);
        let asked = [self.asked, Some(Asked { at: now, pause })].into_iter().flatten().max_by_key(ends);
        self.asked = asked;
        asked
    }
}
