//! The present by both clocks, and the age by which an instance forgets.
//!
//! Lambda freezes a process between invocations, for minutes or hours. The monotonic clock does not reliably
//! run on meanwhile, the wall clock does. The wall clock in turn can be set, forwards or back. So an instance
//! counts its own [`InstanceAge`], which goes on by whichever of the two goes further. Everything that it remembers
//! for a while (the health of endpoints, answers, overrides, turns, connections) ends by that age.

use std::time::Duration;

use jiff::Timestamp;

/// The time by which the wall clock may fall behind before it counts as set back. Clocks that are adjusted
/// slowly fall behind by less.
const MAX_CLOCK_LAG: Duration = Duration::from_secs(1);

/// The present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The time of day, by which letters are due.
    pub at: Timestamp,
    /// The age of the instance, by which it forgets.
    pub age: Duration,
}

/// The age of an instance, from the readings of both clocks. It never goes back, and between two readings it
/// goes on by as much as the clock that went further.
#[derive(Debug, Clone, Default)]
pub struct InstanceAge {
    /// The time that only the wall clock saw pass.
    slept: Duration,
    /// A time of day, and the age that the instance had then.
    anchor: Option<(Timestamp, Duration)>,
}

impl InstanceAge {
    /// Returns the age at this time of day, when the monotonic clock shows that so much time has passed since
    /// the beginning.
    pub fn at(&mut self, wall: Timestamp, monotonic: Duration) -> Duration {
        let age = monotonic.saturating_add(self.slept);
        let (then, age_then) = *self.anchor.get_or_insert((wall, age));
        let passed = wall.duration_since(then);
        // An anchor of the future is one from before the wall clock was set back.
        let expected =
            if passed.is_negative() { None } else { Some(age_then.saturating_add(passed.unsigned_abs())) };
        let behind = expected.map_or(Duration::MAX, |expected| age.saturating_sub(expected));
        if behind > MAX_CLOCK_LAG {
            self.anchor = Some((wall, age));
            return age;
        }
        let age = expected.map_or(age, |expected| expected.max(age));
        self.slept = age.saturating_sub(monotonic);
        age
    }

    /// Returns how much time only the wall clock saw pass, until the last reading.
    #[must_use]
    pub fn slept(&self) -> Duration {
        self.slept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the ages at these seconds of the wall clock and the monotonic clock.
    fn ages<const N: usize>(readings: [(i64, u64); N]) -> [u64; N] {
        let mut age = InstanceAge::default();
        readings.map(|(wall, monotonic)| {
            age.at(Timestamp::from_second(wall).unwrap(), Duration::from_secs(monotonic)).as_secs()
        })
    }

    #[test]
    fn the_age_follows_clocks_that_agree() {
        assert_eq!(ages([(1_000, 7), (1_010, 17), (1_060, 67)]), [7, 17, 67]);
    }

    #[test]
    fn it_goes_on_while_the_monotonic_clock_stands_still() {
        assert_eq!(ages([(0, 0), (60, 0), (61, 1), (7_261, 1), (7_262, 2)]), [0, 60, 61, 7_261, 7_262]);
    }

    #[test]
    fn it_goes_on_while_the_wall_clock_stands_still_or_is_set_back() {
        assert_eq!(ages([(3_600, 0), (3_600, 60), (0, 70), (10, 80)]), [0, 60, 70, 80]);
    }

    #[test]
    fn a_freeze_counts_after_the_wall_clock_was_set_back() {
        assert_eq!(ages([(3_600, 0), (0, 1), (600, 1), (601, 2)]), [0, 1, 601, 602]);
    }

    #[test]
    fn a_wall_clock_that_is_set_forward_ends_what_is_remembered_and_no_more() {
        assert_eq!(ages([(0, 0), (3_600, 1), (3_601, 2), (1, 2), (2, 3)]), [0, 3_600, 3_601, 3_601, 3_602]);
    }

    #[test]
    fn readings_of_different_grain_add_nothing() {
        let mut age = InstanceAge::default();
        let mut last = Duration::ZERO;
        for micros in 0..10_000_u64 {
            // The wall clock shows whole milliseconds.
            let wall = Timestamp::from_millisecond(i64::try_from(micros / 1_000).unwrap()).unwrap();
            last = age.at(wall, Duration::from_micros(micros));
        }
        assert_eq!((last, age.slept()), (Duration::from_micros(9_999), Duration::ZERO));
    }

    #[test]
    fn what_only_the_wall_clock_saw_is_sleep() {
        let mut age = InstanceAge::default();
        let mut read = |wall: i64, monotonic: u64| {
            age.at(Timestamp::from_second(wall).unwrap(), Duration::from_secs(monotonic));
            age.slept().as_secs()
        };
        assert_eq!([read(0, 0), read(10, 10), read(40, 11), read(41, 12), read(20, 13)], [0, 0, 29, 29, 29]);
    }
}
