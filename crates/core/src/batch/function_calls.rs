//! The time that calls of functions take, and whether one more would end in time.
//!
//! A call that waits for its function lasts as long as the function works, and cannot be taken back. If it is
//! cut off at the end of the time for deliveries, the function works on, and it works once more at the next
//! retry. So a call begins only if the longest call to this function that was seen lately still fits. If none
//! was seen, the call's share of the time must fit. The first call to a function in an invocation always
//! begins. Otherwise a function that needs more than the whole time would never be called.

use std::collections::HashMap;
use std::time::Duration;

use super::time::RoundWindow;
use crate::arn::Arn;

/// The time after which a long call counts for half as long, so that one exception does not slow deliveries
/// for ever.
const HALF_LIFE: Duration = Duration::from_mins(10);

/// The time after which a call is forgotten: six half-lives, after which the rest of a long call says nothing
/// about the next.
const FORGOTTEN_AFTER: Duration = Duration::from_hours(1);

/// The largest number of functions that are remembered. The functions that were called longest ago are
/// forgotten first.
const MAX_KEPT: usize = 1_000;

/// The time that the calls of each function took lately. Times are counted from any fixed point in the life
/// of an instance.
#[derive(Debug, Clone, Default)]
pub struct CallTimes(HashMap<Arn, CalledFunction>);

/// A function that was called.
#[derive(Debug, Clone, Copy)]
struct CalledFunction {
    /// The time when the last call to it began.
    begun: Duration,
    longest: Option<LongestCall>,
}

/// The longest of some calls. Later calls count for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LongestCall {
    took: Duration,
    /// The time when the last of the calls ended.
    at: Duration,
    /// True if the last of the calls was cut off.
    cut_off: bool,
}

/// The way in which a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEnd {
    /// The function has ended, with or without an error.
    Ran,
    /// The time was over while the function worked.
    CutOff,
    /// It is unknown whether the function ran.
    Unknown,
}

impl CallTimes {
    /// Reports whether a call to this function begins now, and takes note of it if so. `share` is the time
    /// that it may take as long as nothing is known of the function.
    pub(super) fn begin(
        &mut self,
        function: &Arn,
        now: Duration,
        window: RoundWindow,
        share: Duration,
    ) -> bool {
        let RoundWindow { since, end, .. } = window;
        let all = &mut self.0;
        let known = all.get(function).copied();
        let first = known.is_none_or(|called| called.begun < since);
        let longest = known.and_then(|called| called.longest?.lately(now));
        let begins = first || longest.unwrap_or(share) <= end.saturating_sub(now);
        if begins {
            if known.is_none() && all.len() >= MAX_KEPT {
                let oldest = all.iter().min_by_key(|(_, called)| called.begun).map(|(arn, _)| arn.clone());
                oldest.map(|arn| all.remove(&arn));
            }
            let longest = known.and_then(|called| called.longest);
            all.insert(function.clone(), CalledFunction { begun: now, longest });
        }
        begins
    }

    /// Takes note of a call that has ended now.
    pub fn ended(&mut self, function: &Arn, took: Duration, how: CallEnd, now: Duration) {
        if let Some(called) = self.0.get_mut(function) {
            called.longest = LongestCall::with(called.longest, took, how, now);
        }
    }
}

impl LongestCall {
    /// Returns the longest of the calls so far and one that has ended now.
    pub(super) fn with(so_far: Option<Self>, took: Duration, how: CallEnd, now: Duration) -> Option<Self> {
        let cut_off = match how {
            CallEnd::Ran => false,
            CallEnd::CutOff => true,
            CallEnd::Unknown => return so_far,
        };
        let before = so_far.map_or(Duration::ZERO, |longest| longest.decayed(now));
        Some(Self { took: took.max(before), at: now, cut_off })
    }

    /// Returns how long a call may take, by the calls that were seen lately, or `None` if there were none. A
    /// call that was cut off would have taken longer than it ran. It is unknown how much longer, so it counts
    /// twice until a call comes back.
    pub(super) fn lately(self, now: Duration) -> Option<Duration> {
        let known = now.saturating_sub(self.at) < FORGOTTEN_AFTER;
        let took = self.decayed(now);
        known.then(|| if self.cut_off { took.saturating_mul(2) } else { took })
    }

    fn decayed(self, now: Duration) -> Duration {
        let half_lives = now.saturating_sub(self.at).div_duration_f64(HALF_LIFE);
        self.took.mul_f64(0.5_f64.powf(half_lives))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A time after the point that times are counted from.
    const BEGAN: Duration = Duration::from_hours(1);

    fn window(since: Duration, end: Duration) -> RoundWindow {
        RoundWindow { since, start: since, end }
    }

    fn function(number: usize) -> Arn {
        format!("arn:aws:lambda:eu-central-1:123456789012:function:f{number}").parse().unwrap()
    }

    /// Returns the longest of calls given as seconds, ending, and the second of that ending, counted from
    /// `first`.
    fn after(calls: &[(u64, CallEnd, u64)], first: Duration) -> Option<LongestCall> {
        calls.iter().fold(None, |so_far, (took, how, at)| {
            LongestCall::with(
                so_far,
                SECOND * u32::try_from(*took).unwrap(),
                *how,
                first + SECOND * u32::try_from(*at).unwrap(),
            )
        })
    }

    #[test]
    fn the_longest_call_counts_for_half_as_long_every_ten_minutes() {
        let began = BEGAN;
        let longest =
            after(&[(3, CallEnd::Ran, 0), (8, CallEnd::Ran, 0), (1, CallEnd::Ran, 0)], began).unwrap();
        for (seconds, expected) in
            [(0, Some(8)), (600, Some(4)), (1_200, Some(2)), (1_800, Some(1)), (3_600, None)]
        {
            let lately = longest.lately(began + Duration::from_secs(seconds));
            assert_eq!(lately, expected.map(Duration::from_secs), "after {seconds} s");
        }
    }

    #[test]
    fn a_later_call_counts_as_it_is_where_the_longer_one_has_faded() {
        let began = BEGAN;
        for (second, expected) in [(3, 4), (5, 5)] {
            let longest = after(&[(8, CallEnd::Ran, 0), (second, CallEnd::Ran, 600)], began).unwrap();
            assert_eq!(longest.lately(began + SECOND * 600), Some(SECOND * expected));
        }
    }

    #[test]
    fn a_call_that_was_cut_off_counts_twice_until_one_comes_back() {
        let began = BEGAN;
        let longest = |calls| after(calls, began).and_then(|longest| longest.lately(began));
        assert_eq!(longest(&[(8, CallEnd::CutOff, 0)]), Some(SECOND * 16));
        assert_eq!(longest(&[(8, CallEnd::CutOff, 0), (1, CallEnd::Ran, 0)]), Some(SECOND * 8));
        assert_eq!(longest(&[(8, CallEnd::Ran, 0), (1, CallEnd::CutOff, 0)]), Some(SECOND * 16));
    }

    #[test]
    fn a_call_that_may_not_have_run_says_nothing() {
        let began = BEGAN;
        assert_eq!(after(&[(8, CallEnd::Unknown, 0)], began), None);
        let seen = after(&[(2, CallEnd::Ran, 0)], began);
        assert_eq!(after(&[(2, CallEnd::Ran, 0), (8, CallEnd::Unknown, 5)], began), seen);
    }

    #[test]
    fn a_call_begins_if_the_longest_lately_or_else_its_share_still_fits() {
        let began = BEGAN;
        let time = window(began, began + SECOND * 24);
        for (seen, second, begins) in [
            (Some(10), 14, true),
            (Some(10), 15, false),
            (Some(30), 1, false),
            (None, 12, true),
            (None, 13, false),
        ] {
            let mut calls = CallTimes::default();
            assert!(calls.begin(&function(1), began, time, SECOND * 12), "the first one");
            if let Some(seen) = seen {
                calls.ended(&function(1), SECOND * seen, CallEnd::Ran, began);
            }
            let later = began + SECOND * second;
            let answer = calls.begin(&function(1), later, time, SECOND * 12);
            assert_eq!(answer, begins, "{seen:?} {second}");
            assert!(calls.begin(&function(2), later, time, SECOND * 12), "the first one of another function");
        }
    }

    #[test]
    fn the_first_call_of_an_invocation_begins_whatever_is_known() {
        let began = BEGAN;
        let mut calls = CallTimes::default();
        for invocation in 0..3 {
            let since = began + SECOND * (100 * invocation);
            let time = window(since, since + SECOND * 24);
            let late = since + SECOND * 20;
            assert!(calls.begin(&function(1), late, time, SECOND * 12));
            calls.ended(&function(1), SECOND * 24, CallEnd::CutOff, since + SECOND * 24);
            assert!(!calls.begin(&function(1), late, time, SECOND * 12));
        }
    }

    #[test]
    fn so_many_functions_are_remembered_and_no_more() {
        let began = BEGAN;
        let mut calls = CallTimes::default();
        for number in 0..=MAX_KEPT {
            let now = began + SECOND * u32::try_from(number).unwrap();
            assert!(calls.begin(&function(number), now, window(began, now), SECOND));
        }
        let kept = &calls.0;
        assert_eq!((kept.len(), kept.contains_key(&function(0))), (MAX_KEPT, false));
    }
}
