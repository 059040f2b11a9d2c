//! The health of endpoints: what an instance has learnt of each from answers and time-outs.
//!
//! What counts is the time that failures cost, since it is time that one endpoint takes from the letters of all others.
//! An endpoint that fails at once goes on being tried along each letter's own schedule. One that hangs is left alone:
//!
//! ```text
//!         a time-out, or 3 s of failures                  the pause is over
//!   up ─────────────────────────────────────────> down ──────────────────────> trial: one request
//!    ^                                             ^                              │        │
//!    │                                             └──────── it costs a second ───┘        │ it is taken
//!    └── 16 <── 8 <── 4 <── 2 requests under way, each time that one is taken <────────────┘
//! ```
//!
//! A pause is twenty times as long as what led to it took, 40 s at most, so that trials cost a twentieth of the time, and
//! letters come back within a minute once the endpoint works again; it is longer where the endpoint asks for that. A trial is
//! short for that. Every second one is twice as long, every fourth four times, so that an endpoint is found that answers
//! slower than it did. A request that may take all the time that an endpoint has is made once in twenty times what it
//! costs. Last retries wait for that one.

use std::collections::HashMap;
use std::time::Duration;

use super::action::Sent;
use super::calls::{CallTimes, Ended, Longest};
use super::dispatch::CONCURRENT_SINGLES;
use crate::endpoint::Endpoint;
use crate::failure::{FUNCTION_ERROR, Failure, FailureClass};

/// Endpoints remembered at most; those that were used longest ago are forgotten first.
const MAX_KEPT: usize = 1_000;

/// The time that failures of an endpoint may cost before it is left alone. A call of AWS that fails once has been tried
/// three times by the SDK, which takes up to 2 s.
const BUDGET: Duration = Duration::from_secs(3);

/// The same while it is tried again.
const TRIAL_BUDGET: Duration = Duration::from_secs(1);

/// How many times as long as its failures took an endpoint is left alone.
const PAUSE_FACTOR: u32 = 20;

/// The longest that an endpoint is left alone: after a recovery its letters come back within a minute.
const LONGEST_PAUSE: Duration = Duration::from_secs(40);

/// The time that a trial gets where no request was ever taken, and the least where some were.
const TRIAL_TIME: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(1));

/// How many times as long as the slowest request that was taken a trial gets.
const TRIAL_FACTOR: u32 = 3;

/// How many times its time each trial after another gets, while all are cut off: twice as long goes half as often. So an
/// endpoint that got slower is found after a few trials, and all of them cost a ninth of the time at most.
const TRIAL_STEPS: [u32; 4] = [1, 2, 1, 4];

/// The longest that these steps make a trial.
const LONGEST_STEP: Duration = Duration::from_secs(8);

/// How long a trial of full length is kept for last retries alone, which wait for it.
const KEPT_FOR_LAST: Duration = Duration::from_secs(40);

/// How far the returns of letters lie apart that are left out: an endpoint that is down for long has many letters, and
/// if all came back with each trial, the instance would do nothing else. None of them waits longer after the trial than
/// the outage has lasted, so that a short one costs little.
const APART: Duration = Duration::from_secs(1);

/// How long after it took a message an endpoint that asks to be left alone may mean the letter alone: a server that serves
/// many tenants throttles one of them.
const LIVES_ON: Duration = Duration::from_mins(1);

/// How many requests in a row ask for it until the endpoint is believed to mean all letters.
const ASKS_IN_A_ROW: usize = CONCURRENT_SINGLES;

/// The longest that a letter waits after a trial: it asks again then, which costs a receive.
const LONGEST_AFTER_TRIAL: Duration = Duration::from_mins(5);

/// What is known of every endpoint. Moments are counted from any one point in the life of an instance.
#[derive(Debug, Default)]
pub struct Health {
    endpoints: HashMap<Endpoint, Known>,
    changes: Vec<(Endpoint, Change)>,
    /// How long the calls of functions took.
    pub calls: CallTimes,
}

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
struct Known {
    /// When it was last used.
    used: Duration,
    state: State,
    /// When it last took a message.
    lived: Option<Duration>,
    /// The slowest of the requests that it took.
    slowest: Option<Longest>,
    /// The time that its failures have cost since it was last left alone.
    cost: Duration,
    /// Until when that is counted.
    counted: Duration,
    /// Trials that failed since it last took a message.
    failed_trials: usize,
    /// What it has asked for since it last took a message.
    asked: Option<Asked>,
    /// How many requests have asked for it since then.
    asks: usize,
    /// When a request may take its full time again.
    full: Duration,
    /// When the next letter that is left out comes back.
    back: Duration,
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
pub(super) enum Admission {
    /// It begins, and may take so long; nothing says how long where it may take its full time.
    Begins(Option<Duration>),
    /// It waits for the end of others.
    Waits,
    /// It is left out: the endpoint is down.
    LeftOut,
}

/// A request that has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Made {
    pub(super) began: Duration,
    /// Whether it had its full time.
    pub(super) full: bool,
}

impl Health {
    /// Whether a request to this endpoint begins, of which so many are under way. It waits for the endpoint for `longest` if
    /// that asks for it. `slots` is how many there may be at once to all endpoints of its kind.
    pub(super) fn admit(
        &self,
        to: &Endpoint,
        last: bool,
        longest: Duration,
        under_way: usize,
        slots: usize,
        now: Duration,
    ) -> Admission {
        // An endpoint that may hang leaves places for those that work.
        let some = slots / 4;
        let below = |most, limit| {
            if under_way < most { Admission::Begins(limit) } else { Admission::Waits }
        };
        let Some(known) = self.endpoints.get(to) else { return below(some, None) };
        if now < known.left_alone_until(longest) {
            return Admission::LeftOut;
        }
        match known.state {
            State::Up => below(if known.lived.is_some() { slots } else { some }, None),
            State::Down { .. } | State::Trying(1) if last && now >= known.full => below(slots - some, None),
            State::Down { .. } | State::Trying(1) if last && under_way == 0 => Admission::LeftOut,
            State::Down { .. } => below(1, known.trial_time(now)),
            State::Trying(1) if last => Admission::Waits,
            State::Trying(most) => below(most, if last { None } else { known.trial_time(now) }),
        }
    }

    /// Takes note that a request begins.
    pub(super) fn begins(&mut self, to: &Endpoint, now: Duration) {
        if let Some(known) = self.endpoints.get_mut(to) {
            known.used = now;
            if let State::Down { .. } = known.state {
                known.state = State::Trying(1);
                (known.cost, known.counted) = (Duration::ZERO, now);
            }
        }
    }

    /// Takes note of the answers to a request that has ended now.
    pub(super) fn ended(&mut self, to: &Endpoint, made: Made, answers: &[Sent], now: Duration) {
        let refused =
            |failure: &Failure| failure.class == FailureClass::Permanent || failure.code == FUNCTION_ERROR;
        let mut failures = answers.iter().filter_map(|answer| match answer {
            Sent::Failed(failure) => Some(failure),
            _ => None,
        });
        // A failure that is for good is about the letter: the endpoint has looked at it. So has a function that fails.
        let lives = answers.contains(&Sent::Accepted) || failures.clone().any(refused);
        let failure = failures.next();
        if !lives && failure.is_none() {
            return;
        }
        let known = self.known(to, now);
        known.used = now;
        let change = match failure.filter(|_| !lives) {
            Some(failure) => known.failed(made, failure, now),
            None => known.took(made, now),
        };
        self.changes.extend(change.map(|change| (to.clone(), change)));
    }

    /// Returns how long a letter that is left out waits for the endpoint, `longest` if that asks for it.
    pub fn wait(&mut self, to: &Endpoint, last: bool, longest: Duration, now: Duration) -> Duration {
        let Some(known) = self.endpoints.get_mut(to) else { return Duration::ZERO };
        let until = known.left_alone_until(longest);
        let turn = match known.state {
            State::Down { .. } | State::Trying(1) if last => {
                until.max(known.full.min(until.max(now) + LONGEST_AFTER_TRIAL))
            }
            State::Up | State::Trying(_) if now >= until => now,
            _ => {
                let lasted = now.saturating_sub(known.outage);
                let latest = until + lasted.min(LONGEST_AFTER_TRIAL);
                let turn = known.back.clamp(until, latest);
                known.back = turn + APART;
                turn
            }
        };
        turn.saturating_sub(now)
    }

    /// Returns how long it is until the endpoint is tried again, for a letter that an order sends there. It waits `longest`
    /// if the endpoint asks for it.
    #[must_use]
    pub fn until_trial(&self, to: &Endpoint, longest: Duration, now: Duration) -> Duration {
        let until = self.endpoints.get(to).map(|known| known.left_alone_until(longest));
        until.unwrap_or_default().saturating_sub(now)
    }

    /// Whether an endpoint works as far as is known, so that nothing about it has to be told apart.
    #[must_use]
    pub fn is_up(&self, to: &Endpoint) -> bool {
        self.endpoints.get(to).is_none_or(|known| known.state == State::Up)
    }

    /// Returns what has changed since it was asked last.
    pub(super) fn changes(&mut self) -> Vec<(Endpoint, Change)> {
        std::mem::take(&mut self.changes)
    }

    fn known(&mut self, to: &Endpoint, now: Duration) -> &mut Known {
        let all = &mut self.endpoints;
        if !all.contains_key(to) && all.len() >= MAX_KEPT {
            let oldest = all.iter().min_by_key(|(_, known)| known.used).map(|(to, _)| to.clone());
            oldest.map(|to| all.remove(&to));
        }
        all.entry(to.clone()).or_insert_with(|| Known::new(now))
    }
}

impl Known {
    fn new(now: Duration) -> Self {
        Self {
            used: now,
            state: State::Up,
            lived: None,
            slowest: None,
            cost: Duration::ZERO,
            counted: Duration::ZERO,
            failed_trials: 0,
            asked: None,
            asks: 0,
            full: Duration::ZERO,
            back: Duration::ZERO,
            outage: Duration::ZERO,
            told: Told::Up,
        }
    }

    /// Until when a letter leaves it alone, whose schedule has this longest delay.
    fn left_alone_until(&self, longest: Duration) -> Duration {
        let down = if let State::Down { until, .. } = self.state { until } else { Duration::ZERO };
        let asked = self.asked.map(|asked| asked.at + asked.pause.min(longest));
        down.max(asked.unwrap_or_default())
    }

    /// How long a trial may take; nothing where it may take its full time.
    fn trial_time(&self, now: Duration) -> Option<Duration> {
        if now >= self.full + KEPT_FOR_LAST {
            return None;
        }
        let (unknown, least) = TRIAL_TIME;
        // What was known at the beginning of the outage is not forgotten while it lasts.
        let slowest = self.slowest.and_then(|slowest| slowest.lately(self.outage.min(now)));
        let usual = slowest.map_or(unknown, |slowest| (slowest * TRIAL_FACTOR).max(least));
        let step = TRIAL_STEPS[self.failed_trials % TRIAL_STEPS.len()];
        Some(usual.max((usual * step).min(LONGEST_STEP)))
    }

    /// The endpoint has taken a message.
    fn took(&mut self, made: Made, now: Duration) -> Option<Change> {
        self.lived = Some(now);
        (self.asked, self.asks) = (None, 0);
        self.slowest = Longest::with(self.slowest, now.saturating_sub(made.began), Ended::Ran, now);
        // One that began before the endpoint went down says nothing of it now.
        if matches!(self.state, State::Down { since, .. } if made.began <= since) {
            return None;
        }
        (self.cost, self.back, self.failed_trials) = (Duration::ZERO, Duration::ZERO, 0);
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
            self.full = now + self.cost * PAUSE_FACTOR;
        }
        if let State::Trying(_) = self.state {
            self.failed_trials += 1;
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const LONGEST: Duration = Duration::from_mins(10);
    const SLOTS: usize = CONCURRENT_SINGLES;

    fn server(number: usize) -> Endpoint {
        let url = format!("https://server-{number}.example/");
        Endpoint::Http(crate::endpoint::HttpUrl::parse(&url).unwrap())
    }

    fn failure() -> Sent {
        Sent::Failed(Failure::ours(FailureClass::Transient, "Timeout"))
    }

    /// One server, and the requests that are made to it.
    #[derive(Default)]
    struct Story {
        health: Health,
        now: Duration,
    }

    impl Story {
        fn at(mut self, seconds: u64) -> Self {
            self.now = Duration::from_secs(seconds);
            self
        }

        fn asks(&self, last: bool, under_way: usize) -> Admission {
            self.health.admit(&server(0), last, LONGEST, under_way, SLOTS, self.now)
        }

        /// Makes a request that takes so long; it must be let in.
        fn makes(mut self, took: Duration, answer: &Sent) -> Self {
            let Admission::Begins(limit) = self.asks(false, 0) else { panic!("{:?}", self.asks(false, 0)) };
            self.health.begins(&server(0), self.now);
            let made = Made { began: self.now, full: limit.is_none() };
            self.now += limit.map_or(took, |limit| limit.min(took));
            self.health.ended(&server(0), made, std::slice::from_ref(answer), self.now);
            self
        }

        fn takes(self, took: Duration) -> Self {
            self.makes(took, &Sent::Accepted)
        }

        fn hangs(self) -> Self {
            self.makes(SECOND * 15, &failure())
        }

        fn changes(&mut self) -> Vec<Change> {
            self.health.changes().into_iter().map(|(_, change)| change).collect()
        }
    }

    #[test]
    fn an_endpoint_that_nobody_knows_gets_a_quarter_of_the_places() {
        let story = Story::default();
        assert_eq!((story.asks(false, 3), story.asks(false, 4)), (Admission::Begins(None), Admission::Waits));
        let story = story.takes(SECOND);
        assert_eq!(
            (story.asks(false, 15), story.asks(false, 16)),
            (Admission::Begins(None), Admission::Waits)
        );
    }

    #[test]
    fn one_time_out_is_paid_and_then_the_endpoint_is_left_alone_for_forty_seconds() {
        let mut story = Story::default().hangs();
        let Sent::Failed(failure) = failure() else { unreachable!() };
        assert_eq!(story.changes(), [Change::Down { failure, pause: SECOND * 40 }]);
        for last in [false, true] {
            assert_eq!(story.asks(last, 0), Admission::LeftOut);
        }
        assert_eq!(story.health.wait(&server(0), false, LONGEST, story.now), SECOND * 40);
        assert_eq!(story.health.wait(&server(1), false, LONGEST, story.now), Duration::ZERO);
        let story = story.at(54);
        assert_eq!(story.asks(false, 0), Admission::LeftOut);
        let story = story.at(55);
        assert_eq!(story.asks(false, 0), Admission::Begins(Some(SECOND * 2)));
        assert_eq!(story.asks(false, 1), Admission::Waits);
    }

    #[test]
    fn failures_at_once_are_gone_on_with_until_they_have_cost_three_seconds() {
        let fails = |mut story: Story, times| {
            for _ in 0..times {
                story = story.makes(SECOND / 10, &failure());
            }
            story
        };
        let story = fails(Story::default(), 29);
        assert_eq!(story.asks(false, 0), Admission::Begins(None));
        let mut story = fails(story, 1);
        assert_eq!(story.asks(false, 0), Admission::LeftOut);
        assert_eq!(story.health.wait(&server(0), false, LONGEST, story.now), SECOND * 40);
        // Then each trial may cost a second.
        let mut story = fails(story.at(44), 10);
        assert_eq!(story.health.wait(&server(0), false, LONGEST, story.now), SECOND * 20);
    }

    #[test]
    fn a_function_that_fails_by_itself_works() {
        let own = Sent::Failed(Failure::ours(FailureClass::Transient, FUNCTION_ERROR));
        let mut story = Story::default();
        for _ in 0..10 {
            story = story.makes(SECOND * 5, &own);
        }
        assert_eq!(story.asks(false, 15), Admission::Begins(None));
    }

    #[test]
    fn time_without_failures_pays_for_those_before() {
        let mut story = Story::default();
        for minute in 0..60 {
            story = story.at(60 * minute).makes(SECOND * 9 / 10, &failure());
        }
        assert_eq!(story.asks(false, 0), Admission::Begins(None));
    }

    #[test]
    fn requests_at_the_same_time_cost_it_once() {
        let mut story = Story::default().at(100);
        for _ in 0..4 {
            let made = Made { began: story.now, full: true };
            story.health.ended(&server(0), made, &[failure()], story.now + SECOND * 9 / 10);
        }
        assert!(story.health.is_up(&server(0)));
    }

    #[test]
    fn trials_of_an_endpoint_that_is_down_cost_a_ninth_of_the_time() {
        let (mut story, mut cost) = (Story::default().hangs(), Duration::ZERO);
        let began = story.now;
        while story.now < began + SECOND * 3_600 {
            story.now += story.health.wait(&server(0), false, LONGEST, story.now);
            let before = story.now;
            story = story.hangs();
            cost += story.now.saturating_sub(before);
        }
        let share = cost.div_duration_f64(story.now.saturating_sub(began));
        assert!((0.05..0.115).contains(&share), "{share}");
    }

    #[test]
    fn an_endpoint_that_answers_slowly_is_found_by_the_next_trial_that_is_long_enough() {
        // The trials of a server that nobody has seen alive, and how long each may take.
        let (mut story, mut trials) = (Story::default().hangs(), Vec::new());
        while story.now < SECOND * 3_600 {
            story.now += story.health.wait(&server(0), false, LONGEST, story.now);
            let Admission::Begins(limit) = story.asks(false, 0) else { panic!("{:?}", story.now) };
            trials.push((story.now, limit.unwrap_or(SECOND * 15)));
            story = story.hangs();
        }
        // It recovers just after a trial has begun.
        let longest = |takes| {
            let long_enough = trials.iter().filter(|(_, limit)| takes < *limit).map(|(began, _)| *began);
            let waits = trials.iter().filter_map(|(recovers, _)| {
                let found = long_enough.clone().find(|began| began > recovers)? + takes;
                Some(found.saturating_sub(*recovers))
            });
            waits.max().unwrap()
        };
        for (tenths, most) in [(1, 60), (19, 60), (30, 105), (39, 105), (79, 200), (80, 380), (140, 380)] {
            let longest = longest(SECOND * tenths / 10);
            assert!(longest <= SECOND * most, "{tenths}: {longest:?}");
        }
    }

    #[test]
    fn the_trials_after_one_that_is_taken_are_short_again() {
        let mut story = Story::default().hangs();
        for limit in [2, 4, 2, 8, 2] {
            story.now += SECOND * 40;
            assert_eq!(story.asks(false, 0), Admission::Begins(Some(SECOND * limit)));
            story = story.hangs();
        }
        story.now += SECOND * 40;
        let mut story = story.takes(SECOND / 10).hangs();
        story.now += SECOND * 40;
        let Admission::Begins(Some(limit)) = story.asks(false, 0) else { panic!() };
        assert!(limit <= SECOND * 2, "{limit:?}");
    }

    #[test]
    fn after_a_trial_that_is_taken_twice_as_many_go_each_time() {
        let mut story = Story::default().hangs().at(60);
        story.changes();
        for most in [1, 2, 4, 8] {
            assert_eq!(story.asks(false, most), Admission::Waits, "{most}");
            assert!(matches!(story.asks(false, most - 1), Admission::Begins(Some(_))), "{most}");
            story = story.takes(SECOND / 10);
        }
        assert_eq!(story.asks(false, 15), Admission::Begins(None));
        assert_eq!(story.changes(), [Change::Trying, Change::Up]);
    }

    #[test]
    fn trials_that_fail_are_not_told() {
        let mut story = Story::default().hangs();
        story.changes();
        let mut story = story.at(60).hangs().at(110).hangs();
        assert_eq!(story.changes(), []);
    }

    #[test]
    fn a_trial_takes_three_times_as_long_as_the_slowest_that_was_taken() {
        for (slowest, expected) in [(0, 1.0), (1, 3.0), (4, 12.0)] {
            let story = Story::default().takes(SECOND * slowest).hangs();
            let then = story.now.as_secs() + 41;
            let Admission::Begins(Some(limit)) = story.at(then).asks(false, 0) else { panic!() };
            // Less by what is forgotten in a minute.
            assert!((expected * 0.9..=expected).contains(&limit.as_secs_f64()), "{limit:?}");
        }
    }

    #[test]
    fn last_retries_wait_for_a_trial_that_may_take_its_full_time_and_share_it() {
        let story = Story::default().hangs().at(60);
        assert_eq!(story.asks(true, 0), Admission::LeftOut);
        let mut story = story.hangs();
        assert_eq!(story.health.wait(&server(0), true, LONGEST, story.now), SECOND * (315 - 62));
        let story = story.at(316);
        assert_eq!(
            (story.asks(true, 0), story.asks(true, 11)),
            (Admission::Begins(None), Admission::Begins(None))
        );
        assert_eq!(story.asks(true, 12), Admission::Waits);
        // The others leave it to them for a while.
        assert_eq!(story.asks(false, 0), Admission::Begins(Some(SECOND * 4)));
        assert_eq!(story.at(361).asks(false, 0), Admission::Begins(None));
    }

    #[test]
    fn last_retries_go_as_soon_as_the_endpoint_takes_messages() {
        let mut story = Story::default().hangs().at(60);
        story.health.begins(&server(0), story.now);
        assert_eq!(story.asks(true, 1), Admission::Waits);
        let story = story.takes(SECOND);
        assert_eq!(story.asks(true, 0), Admission::Begins(None));
    }

    #[test]
    fn a_time_out_among_messages_that_are_taken_slows_an_endpoint_and_no_more() {
        let mut story = Story::default().takes(SECOND / 10).at(100).takes(SECOND / 10);
        let made = Made { began: SECOND * 90, full: true };
        story.health.ended(&server(0), made, &[failure()], SECOND * 105);
        let story = story.at(105);
        assert!(matches!(story.asks(false, 1), Admission::Begins(Some(_))));
        assert_eq!(story.asks(false, 2), Admission::Waits);
        let mut story = story.takes(SECOND / 10).takes(SECOND / 10).takes(SECOND / 10);
        assert_eq!(story.asks(false, 15), Admission::Begins(None));
        assert_eq!(story.changes(), []);
    }

    #[test]
    fn a_message_that_is_refused_for_good_shows_that_the_endpoint_lives() {
        let refused = Sent::Failed(Failure::ours(FailureClass::Permanent, "Http400"));
        let mut story = Story::default().hangs().at(60).makes(SECOND / 10, &refused);
        assert_eq!(story.changes().last(), Some(&Change::Trying));
        // And so does any entry of a batch.
        let mut other = Story::default().hangs().at(60);
        other.health.begins(&server(0), other.now);
        let made = Made { began: other.now, full: false };
        other.health.ended(&server(0), made, &[failure(), Sent::Accepted], other.now + SECOND);
        assert_eq!(other.changes().last(), Some(&Change::Trying));
    }

    fn busy(seconds: u64) -> Sent {
        let throttled = Failure::ours(FailureClass::Throttling, "Http429");
        Sent::Failed(Failure { retry_after: Some(seconds), ..throttled })
    }

    #[test]
    fn an_endpoint_that_asks_for_it_is_left_alone_for_the_longest_delay_of_each_letter_at_most() {
        for (asked, waits) in [(0, 0), (7, 7), (300, 300), (100_000, 600), (u64::MAX, 600)] {
            let mut story = Story::default().makes(SECOND / 100, &busy(asked));
            let wait = |story: &mut Story, longest| {
                story.health.wait(&server(0), false, SECOND * longest, story.now).as_secs()
            };
            assert_eq!(wait(&mut story, 600), waits, "{asked}");
            for longest in [5, 20] {
                let until = story.health.until_trial(&server(0), SECOND * longest, story.now);
                assert_eq!(until, SECOND * u32::try_from(waits).unwrap().min(longest));
            }
            // Another that was under way does not change that.
            let made = Made { began: Duration::ZERO, full: true };
            story.health.ended(&server(0), made, &[failure()], story.now + SECOND);
            assert!(wait(&mut story, 600) >= waits);
        }
    }

    #[test]
    fn a_letter_of_a_short_schedule_tries_an_endpoint_that_others_still_leave_alone() {
        let story = Story::default().makes(SECOND / 100, &busy(300)).at(21);
        let admits = |story: &Story, longest| {
            story.health.admit(&server(0), false, SECOND * longest, 0, SLOTS, story.now)
        };
        assert_eq!(admits(&story, 300), Admission::LeftOut);
        assert_eq!(admits(&story, 20), Admission::Begins(Some(SECOND * 2)));
        let mut story = story;
        story.health.begins(&server(0), story.now);
        assert_eq!(admits(&story, 300), Admission::LeftOut);
        let made = Made { began: story.now, full: false };
        story.health.ended(&server(0), made, &[Sent::Accepted], story.now + SECOND);
        assert!(matches!(admits(&story, 300), Admission::Begins(_)), "it takes letters");
    }

    #[test]
    fn an_endpoint_that_takes_letters_and_asks_one_of_them_to_wait_is_not_left_alone() {
        let mut story = Story::default();
        for _ in 0..100 {
            story = story.takes(SECOND / 100).makes(SECOND / 100, &busy(300)).makes(SECOND / 100, &busy(300));
        }
        assert_eq!((story.asks(false, 15), story.changes()), (Admission::Begins(None), Vec::new()));
        // It means all of them where it says so to one after the other, or long after it took any.
        let mut all = story;
        for _ in 2..ASKS_IN_A_ROW {
            assert_eq!(all.asks(false, 15), Admission::Begins(None));
            all = all.makes(SECOND / 100, &busy(300));
        }
        assert_eq!(all.asks(false, 0), Admission::LeftOut);
        let later = Story::default().takes(SECOND).at(61).makes(SECOND / 100, &busy(300));
        assert_eq!(later.asks(false, 0), Admission::LeftOut);
    }

    #[test]
    fn an_endpoint_that_takes_a_letter_after_it_asked_to_be_left_alone_is_tried() {
        let mut story = Story::default().makes(SECOND, &busy(300));
        assert_eq!(story.asks(false, 0), Admission::LeftOut);
        let made = Made { began: Duration::ZERO, full: true };
        story.health.ended(&server(0), made, &[Sent::Accepted], story.now);
        let story = story.at(25);
        assert!(matches!(story.asks(false, 0), Admission::Begins(Some(_))));
        assert_eq!(story.asks(false, 1), Admission::Waits);
    }

    #[test]
    fn what_began_before_an_endpoint_went_down_does_not_bring_it_back() {
        let mut story = Story::default().hangs();
        let made = Made { began: Duration::ZERO, full: true };
        story.health.ended(&server(0), made, &[Sent::Accepted], story.now);
        assert_eq!(story.asks(false, 0), Admission::LeftOut);
    }

    #[test]
    fn letters_that_are_left_out_come_back_one_a_second_and_no_later_than_the_outage_has_lasted() {
        let waits = |story: &mut Story, letters| -> Vec<_> {
            (0..letters).map(|_| story.health.wait(&server(0), false, LONGEST, story.now).as_secs()).collect()
        };
        let mut story = Story::default().hangs();
        assert_eq!(waits(&mut story, 20), (40..=55).chain([55; 4]).collect::<Vec<_>>());
        let mut story = story.at(600).hangs();
        assert_eq!(waits(&mut story, 400), (40..=340).chain([340; 99]).collect::<Vec<_>>());
        assert_eq!(story.health.until_trial(&server(0), LONGEST, story.now), SECOND * 40, "on an order");
        assert_eq!(story.health.until_trial(&server(1), LONGEST, story.now), Duration::ZERO);
        // Another outage begins afresh.
        let mut story = story.at(700).takes(SECOND).at(1_000).takes(SECOND).hangs();
        assert_eq!(waits(&mut story, 1_000).into_iter().max(), Some(40 + 15));
    }

    #[test]
    fn so_many_endpoints_are_remembered_and_no_more() {
        let mut health = Health::default();
        for number in 0..=MAX_KEPT {
            let now = SECOND * u32::try_from(number).unwrap();
            health.ended(&server(number), Made { began: now, full: true }, &[Sent::Accepted], now);
        }
        assert_eq!((health.endpoints.len(), health.endpoints.contains_key(&server(0))), (MAX_KEPT, false));
    }
}
