//! The health of one endpoint.

use std::time::Duration;

use super::trials::{PAUSE_FACTOR, Trials};
use crate::batch::purpose::CONCURRENT_SINGLES;
use crate::failure::Failure;

/// The time that failures of an endpoint may cost before it is left alone. A call of AWS that fails once has been tried
/// three times by the SDK, which takes up to 2 s.
const BUDGET: Duration = Duration::from_secs(3);

/// The same while it is tried again.
const TRIAL_BUDGET: Duration = Duration::from_secs(1);

/// The longest that an endpoint is left alone: after a recovery its letters come back within a minute.
const LONGEST_PAUSE: Duration = Duration::from_secs(40);

/// How far the returns of letters lie apart that are left out: an endpoint that is down for long has many letters, and
/// if all came back with each trial, the instance would do nothing else. None of them waits longer after the trial than
/// the outage has lasted, so that a short one costs little.
const APART: Duration = Duration::from_secs(1);

/// The longest that a letter waits after a trial: it asks again then, which costs a receive.
const LONGEST_AFTER_TRIAL: Duration = Duration::from_mins(5);

/// The same for letters that an order sends, since somebody waits for them.
const APART_ON_ORDER: Duration = Duration::from_millis(30);

/// The longest that such a letter waits after a trial. Where that is no room for all of them, the next ones come between
/// those before: a crowd that came at once would keep all others waiting.
const LONGEST_ON_ORDER: Duration = Duration::from_mins(1);

/// How long after it took a message an endpoint that asks to be left alone may mean the letter alone: a server that serves
/// many tenants throttles one of them.
const LIVES_ON: Duration = Duration::from_mins(1);

/// How many requests in a row ask for it until the endpoint is believed to mean all letters.
pub(super) const ASKS_IN_A_ROW: usize = CONCURRENT_SINGLES;

/// A change of an endpoint's health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is left alone.
    Down {
        /// The failure that led to it.
        failure: Failure,
        /// For how long, at first.
        pause: Duration,
    },
    /// It has taken a message again, and gets some at a time.
    Trying,
    /// It gets as many as any other again.
    Up,
}

/// What is known of one endpoint.
#[derive(Debug)]
pub(super) struct Known {
    /// When it was last used.
    used: Duration,
    state: State,
    /// When it last took a message.
    lived: Option<Duration>,
    /// The time that its failures have cost since it was last left alone.
    cost: Duration,
    /// Until when that is counted.
    counted: Duration,
    /// What it has asked for since it last took a message.
    asked: Option<Asked>,
    /// How many requests have asked for it since then.
    asks: usize,
    trials: Trials,
    /// When the next letter that is left out comes back.
    back: Duration,
    /// How long after the trial the next one comes back that an order sends.
    after_trial: Duration,
    /// When the outage began that was last told.
    outage: Duration,
    /// What was last told of it.
    told: Told,
}

/// The wish of an endpoint to be left alone. Each letter grants it for the longest delay of its own schedule at most.
#[derive(Debug, Clone, Copy)]
struct Asked {
    at: Duration,
    pause: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Up,
    /// So many requests may be under way.
    Trying(usize),
    Down {
        since: Duration,
        until: Duration,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Up,
    Trying,
    Down,
}

/// Whether a request begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::batch) enum Admission {
    /// It begins, and may take so long; nothing says how long where it may take its full time.
    Begins(Option<Duration>),
    /// It waits for the end of others.
    Waits,
    /// It is left out: the endpoint is down.
    LeftOut,
}

/// A request that has ended.
#[derive(Debug, Clone, Copy)]
pub(in crate::batch) struct Made {
    pub(in crate::batch) began: Duration,
    /// Whether it had its full time.
    pub(in crate::batch) full: bool,
}

impl Known {
    /// An endpoint of which nothing is known yet.
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
            told: Told::Up,
        }
    }

    /// Whether it works as far as is known.
    pub(super) fn is_up(&self) -> bool {
        self.state == State::Up
    }

    /// When it was last used.
    pub(super) fn used(&self) -> Duration {
        self.used
    }

    /// Whether a request begins: see [`super::Health::admit`].
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

    /// Takes note of a request that has ended, by which it works where there is no failure.
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

    /// The same for a letter that an order sends.
    pub(super) fn wait_on_order(&mut self, longest: Duration, now: Duration) -> Duration {
        let until = self.left_alone_until(longest);
        if matches!(self.state, State::Up | State::Trying(_)) && now >= until {
            return Duration::ZERO;
        }
        let next = self.after_trial + APART_ON_ORDER;
        let next = if next > LONGEST_ON_ORDER { Duration::ZERO } else { next };
        until.saturating_sub(now) + std::mem::replace(&mut self.after_trial, next)
    }

    /// Until when a letter leaves it alone, whose schedule has this longest delay.
    pub(super) fn left_alone_until(&self, longest: Duration) -> Duration {
        let down = if let State::Down { until, .. } = self.state { until } else { Duration::ZERO };
        let asked = self.asked.map(|asked| asked.at + asked.pause.min(longest));
        down.max(asked.unwrap_or_default())
    }

    /// The endpoint has taken a message.
    fn took(&mut self, made: Made, now: Duration) -> Option<Change> {
        self.lived = Some(now);
        (self.asked, self.asks) = (None, 0);
        self.trials.saw(now.saturating_sub(made.began), now);
        // One that began before the endpoint went down says nothing of it now.
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
        match (self.state, self.told) {
            (State::Up, Told::Down | Told::Trying) => {
                self.told = Told::Up;
                Some(Change::Up)
            }
            (State::Trying(_), Told::Down) => {
                self.told = Told::Trying;
                Some(Change::Trying)
            }
            _ => None,
        }
    }

    /// A request has failed, and has cost time.
    fn failed(&mut self, made: Made, failure: &Failure, now: Duration) -> Option<Change> {
        // Time in which nothing failed pays for the failures before it, and requests at the same time cost it once.
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
        // It took others meanwhile: it gets a few requests at a time now, each for a short time.
        let lived = self.lived.is_some_and(|lived| lived > made.began);
        if lived && self.state == State::Up && asked.is_none() {
            self.state = State::Trying(2);
            self.cost = Duration::ZERO;
            return None;
        }
        let pause = (self.cost * PAUSE_FACTOR).min(LONGEST_PAUSE);
        let before = if let State::Down { until, .. } = self.state { until } else { Duration::ZERO };
        self.state = State::Down { since: now, until: before.max(now + pause) };
        let told = std::mem::replace(&mut self.told, Told::Down);
        if told != Told::Down {
            self.outage = made.began;
        }
        let pause = asked.map_or(pause, |asked| pause.max(asked.pause));
        (told != Told::Down).then(|| Change::Down { failure: failure.clone(), pause })
    }

    /// Takes note that the endpoint asks to be left alone; returns nothing where it may mean the letter alone.
    fn asked(&mut self, failure: &Failure, now: Duration) -> Option<Asked> {
        let pause = Duration::from_secs(failure.retry_after.filter(|seconds| *seconds > 0)?);
        self.asks += 1;
        let lives = self.lived.is_some_and(|lived| now.saturating_sub(lived) < LIVES_ON);
        if lives && self.asks < ASKS_IN_A_ROW {
            return None;
        }
        // Another that was under way may ask for less.
        let ends = |asked: &Asked| asked.at.saturating_add(asked.pause);
        let asked = [self.asked, Some(Asked { at: now, pause })].into_iter().flatten().max_by_key(ends);
        self.asked = asked;
        asked
    }
}
