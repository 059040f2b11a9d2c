//! The health of one endpoint.

use std::time::Duration;

use super::health_change::HealthChange;
use super::slow::EndpointSlowness;
use super::trials::EndpointTrials;
use crate::batch::purpose::CONCURRENT_SINGLES;
use crate::failure::Failure;

/// The time from which on a failure is costly: one that comes at once costs the letters of other endpoints little.
pub(super) const COSTLY_FAILURE_TIME: Duration = Duration::from_secs(1);

/// The factor from the time that a costly failure took to the time that the endpoint is left alone.
pub(super) const REST_FACTOR: u32 = 20;

/// The longest time that an endpoint is left alone by itself.
pub(super) const LONGEST_REST: Duration = Duration::from_secs(40);

/// The shortest time that an endpoint gets which is not known to be down, while nothing is left of the allowance.
pub(super) const MIN_REQUEST_TIME: Duration = Duration::from_secs(3);

/// The time after an endpoint accepted a message in which a failure may be about one letter only: a server of many
/// tenants throttles one of them, or one letter is bad.
const RECENT_SUCCESS_TIME: Duration = Duration::from_mins(1);

/// The number of requests in a row that must ask for a pause until the endpoint is believed to mean all
/// letters.
pub(super) const ASKS_IN_A_ROW: usize = CONCURRENT_SINGLES;

/// The facts that are known about one endpoint.
#[derive(Debug)]
pub(super) struct EndpointHealth {
    /// The time when it was last used.
    used: Duration,
    state: HealthState,
    /// The time when it last accepted a message.
    lived: Option<Duration>,
    /// The pause that it has asked for since it last accepted a message.
    asked: Option<RequestedPause>,
    /// The number of requests that have asked for a pause since then.
    asks: usize,
    trials: EndpointTrials,
    slow: EndpointSlowness,
    /// The beginning of the outage that was last reported.
    outage: Duration,
    /// The state that was last reported.
    reported: LoggedHealth,
}

/// The wish of an endpoint to be left alone. Each letter grants it for the longest delay of its own schedule
/// at most.
#[derive(Debug, Clone, Copy)]
struct RequestedPause {
    at: Duration,
    pause: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HealthState {
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
enum LoggedHealth {
    Up,
    Trying,
    Down,
}

/// The answer whether a request begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::batch) enum RequestAdmission {
    /// It begins and may take this long, or its full time if this is `None`.
    Begins(Option<Duration>),
    /// It waits for the end of other requests.
    Waits,
    /// It is left out, because the endpoint is left alone, for this time at least.
    LeftOut(Duration),
    /// It is put off, because the endpoint is slow.
    PutOff,
}

/// A request that may begin.
#[derive(Debug, Clone, Copy)]
pub(in crate::batch) struct RequestCandidate {
    /// True if a letter in it has no further retry.
    pub(in crate::batch) last: bool,
    /// The longest pause that it grants to an endpoint that asks for one.
    pub(in crate::batch) longest: Duration,
    /// The number of requests to the endpoint that are under way.
    pub(in crate::batch) under_way: usize,
    /// The number of requests that there may be at once to all endpoints of its kind.
    pub(in crate::batch) slots: usize,
}

impl EndpointHealth {
    /// Creates an endpoint of which nothing is known yet.
    pub(super) fn new(now: Duration) -> Self {
        Self {
            used: now,
            state: HealthState::Up,
            lived: None,
            asked: None,
            asks: 0,
            trials: EndpointTrials::default(),
            slow: EndpointSlowness::default(),
            outage: Duration::ZERO,
            reported: LoggedHealth::Up,
        }
    }

    /// Reports whether it works as far as is known.
    pub(super) fn is_up(&self) -> bool {
        self.state == HealthState::Up
    }

    /// Returns the time when it was last used.
    pub(super) fn used(&self) -> Duration {
        self.used
    }

    /// Decides whether a request begins: see [`super::Health::admit`]. `can_spend` is true if something is left of
    /// the allowance for endpoints that do not work.
    pub(super) fn admit(
        &self,
        attempt: RequestCandidate,
        can_spend: bool,
        now: Duration,
    ) -> RequestAdmission {
        let RequestCandidate { last, longest, under_way, slots } = attempt;
        let until = self.left_alone_until(longest);
        if now < until {
            return RequestAdmission::LeftOut(until.saturating_sub(now));
        }
        // An endpoint that may hang leaves places for those that work.
        let some = slots / 4;
        let trial_time = self.trials.time(self.outage, now);
        let below = |most, limit| {
            if under_way < most { RequestAdmission::Begins(limit) } else { RequestAdmission::Waits }
        };
        let short = (!can_spend).then_some(trial_time.max(MIN_REQUEST_TIME));
        match self.state {
            HealthState::Up => below(if self.lived.is_some() { slots } else { some }, short),
            HealthState::Down { .. } | HealthState::Trying(1) if !can_spend => {
                RequestAdmission::LeftOut(Duration::ZERO)
            }
            HealthState::Down { .. } | HealthState::Trying(1) if last => below(slots - some, None),
            HealthState::Down { .. } => below(1, Some(trial_time)),
            HealthState::Trying(most) => below(most, if last { short } else { Some(trial_time) }),
        }
    }

    /// Reports whether it works, but slowly.
    pub(super) fn is_slow(&self) -> bool {
        self.is_up() && self.slow.is_slow()
    }

    /// Reports whether it has accepted a message within so much time.
    pub(super) fn lived_within(&self, time: Duration, now: Duration) -> bool {
        self.lived.is_some_and(|lived| now.saturating_sub(lived) < time)
    }

    /// Puts off one more letter: see [`EndpointSlowness::put_off`].
    pub(super) fn put_off(&mut self, now: Duration) -> u32 {
        self.slow.put_off(now)
    }

    /// Takes note that a request begins.
    pub(super) fn begins(&mut self, now: Duration) {
        self.used = now;
        if let HealthState::Down { .. } = self.state {
            self.state = HealthState::Trying(1);
        }
    }

    /// Returns the time until which a letter whose schedule has this longest delay leaves the endpoint alone.
    pub(super) fn left_alone_until(&self, longest: Duration) -> Duration {
        let down = if let HealthState::Down { until, .. } = self.state { until } else { Duration::ZERO };
        let asked = self.asked.map(|asked| asked.at + asked.pause.min(longest));
        down.max(asked.unwrap_or_default())
    }

    /// Takes note that the endpoint has accepted a message of a request that began then.
    pub(super) fn took(&mut self, began: Duration, now: Duration) -> Option<HealthChange> {
        self.used = now;
        self.lived = Some(now);
        (self.asked, self.asks) = (None, 0);
        let took = now.saturating_sub(began);
        self.trials.saw(took, now);
        self.slow.saw(took);
        // A request that began before the endpoint went down says nothing of it now.
        if matches!(self.state, HealthState::Down { since, .. } if began <= since) {
            return None;
        }
        self.trials.ended_well();
        self.state = match self.state {
            HealthState::Up => HealthState::Up,
            HealthState::Down { .. } => HealthState::Trying(2),
            HealthState::Trying(most) if most * 2 >= CONCURRENT_SINGLES => HealthState::Up,
            HealthState::Trying(most) => HealthState::Trying(most * 2),
        };
        match (self.state, self.reported) {
            (HealthState::Up, LoggedHealth::Down | LoggedHealth::Trying) => {
                self.reported = LoggedHealth::Up;
                Some(HealthChange::Up)
            }
            (HealthState::Trying(_), LoggedHealth::Down) => {
                self.reported = LoggedHealth::Trying;
                Some(HealthChange::Trying)
            }
            _ => None,
        }
    }

    /// Takes note that it has accepted a letter of another instance then. It is no longer left alone, unless it has failed
    /// since.
    pub(super) fn is_back(&mut self, at: Duration) {
        if let HealthState::Down { since, .. } = self.state
            && since <= at
        {
            self.state = HealthState::Trying(2);
            (self.asked, self.asks) = (None, 0);
            self.trials.ended_well();
        }
    }

    /// Takes note that a request has failed that began then. `can_spend` is true if something is left of the
    /// allowance after it.
    pub(super) fn failed(
        &mut self,
        began: Duration,
        failure: &Failure,
        can_spend: bool,
        now: Duration,
    ) -> Option<HealthChange> {
        self.used = now;
        let took = now.saturating_sub(began);
        let asked = self.asked(failure, now);
        // One that has just worked may hiccup: when a call of AWS fails, the SDK has tried it for up to 2 s.
        let lives = self.lived_within(RECENT_SUCCESS_TIME, now) && self.is_up();
        let goes_on = if lives { took < MIN_REQUEST_TIME } else { took < COSTLY_FAILURE_TIME && can_spend };
        if goes_on && asked.is_none() {
            return None;
        }
        if let HealthState::Trying(_) = self.state {
            self.trials.ended_badly();
        }
        // It accepted other messages meanwhile. Now it gets a few requests at a time, each for a short time.
        let lived = self.lived.is_some_and(|lived| lived > began);
        if lived && self.state == HealthState::Up && asked.is_none() {
            self.state = HealthState::Trying(2);
            return None;
        }
        let rest = (took * REST_FACTOR).min(LONGEST_REST);
        let before = if let HealthState::Down { until, .. } = self.state { until } else { Duration::ZERO };
        self.state = HealthState::Down { since: now, until: before.max(now + rest) };
        let reported = std::mem::replace(&mut self.reported, LoggedHealth::Down);
        if reported == LoggedHealth::Down {
            return None;
        }
        self.outage = began;
        let pause = asked.map_or(rest, |asked| rest.max(asked.pause));
        Some(HealthChange::Down { failure: failure.clone(), pause })
    }

    /// Takes note that the endpoint asks to be left alone. Returns `None` if it may mean one letter only.
    fn asked(&mut self, failure: &Failure, now: Duration) -> Option<RequestedPause> {
        let pause = Duration::from_secs(failure.retry_after.filter(|seconds| *seconds > 0)?);
        self.asks += 1;
        if self.lived_within(RECENT_SUCCESS_TIME, now) && self.asks < ASKS_IN_A_ROW {
            return None;
        }
        // Another request that was under way may ask for a shorter pause.
        let ends = |asked: &RequestedPause| asked.at.saturating_add(asked.pause);
        let asked =
            [self.asked, Some(RequestedPause { at: now, pause })].into_iter().flatten().max_by_key(ends);
        self.asked = asked;
        asked
    }
}
