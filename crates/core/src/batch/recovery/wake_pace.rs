//! How many letters are woken for an endpoint that is back.
//!
//! Each batch that it takes wakes the next: while there is room, twice as many as it took, and once batches are full as many
//! as came early, so that letters of other endpoints are not kept waiting. A failure halves the number, which then grows by one
//! a second. Where a rule limits the rate of an endpoint, an instance wakes no more than its share of that.

use std::time::Duration;

use super::endpoint_tally::EndpointTally;

/// The least and the largest number of letters that a batch wakes that was not full: a batch, and two.
const WAKES_WITH_ROOM: (u64, u64) = (10, 20);

/// The window from which on it limits nothing.
const OPEN_WINDOW: u64 = 1_000;

/// The time whose share of an endpoint's rate may be used at once.
const BURST_TIME: Duration = Duration::from_millis(1_500);

/// The pace for one endpoint.
#[derive(Debug, Clone, Default)]
pub(super) struct WakePace {
    /// The largest number of letters at once, since a failure, and the age of the instance when it last grew.
    window: Option<(u64, Duration)>,
    /// The age from which on the next letter fits into the rate.
    next: Duration,
}

impl WakePace {
    /// Returns how many letters may be woken after a batch. `instances` share the rate of the endpoint.
    pub(super) fn wakes(
        &mut self,
        tally: &EndpointTally,
        is_full: bool,
        instances: u32,
        age: Duration,
    ) -> u64 {
        self.grow(age);
        let wanted = if tally.failed > 0 {
            let open = tally.delivered.saturating_add(tally.failed);
            let window = self.window.map_or(open, |(window, _)| window);
            self.window = Some(((window / 2).max(1), age));
            tally.delivered.saturating_sub(tally.failed)
        } else if tally.delivered == 0 {
            0
        } else if is_full {
            tally.early
        } else {
            (tally.delivered * 2).clamp(WAKES_WITH_ROOM.0, WAKES_WITH_ROOM.1)
        };
        let wanted = self.window.map_or(wanted, |(window, _)| wanted.min(window));
        let Some(rate) = tally.rate else { return wanted };
        // One at least, since nothing else wakes the next. If it comes too soon, it waits for its turn.
        wanted.min(self.room(rate, instances, age).max(1))
    }

    /// Takes note that letters were woken, or came by themselves.
    pub(super) fn sent(&mut self, letters: u64, rate: Option<u32>, instances: u32, age: Duration) {
        if let Some(rate) = rate {
            let apart = apart(rate, instances);
            let letters = u32::try_from(letters).unwrap_or(u32::MAX);
            self.next = self.next.max(age.saturating_sub(burst(apart))) + apart.saturating_mul(letters);
        }
    }

    fn grow(&mut self, age: Duration) {
        if let Some((window, grown)) = &mut self.window {
            let passed = age.saturating_sub(*grown).as_secs();
            *window = window.saturating_add(passed);
            *grown += Duration::from_secs(passed);
        }
        self.window = self.window.filter(|(window, _)| *window < OPEN_WINDOW);
    }

    fn room(&self, rate: u32, instances: u32, age: Duration) -> u64 {
        let apart = apart(rate, instances);
        let next = self.next.max(age.saturating_sub(burst(apart)));
        u64::try_from(age.saturating_sub(next).as_nanos() / apart.as_nanos().max(1)).unwrap_or(u64::MAX)
    }
}

/// Returns the time between two letters of an instance.
fn apart(rate: u32, instances: u32) -> Duration {
    Duration::from_secs(instances.max(1).into()) / rate.max(1)
}

/// Returns the time for which an instance may save its share: long enough for one letter.
fn burst(apart: Duration) -> Duration {
    BURST_TIME.max(apart)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn tally(delivered: u64, early: u64, failed: u64) -> EndpointTally {
        EndpointTally { delivered, early, failed, ..EndpointTally::default() }
    }

    #[test]
    fn a_batch_with_room_wakes_twice_what_was_taken_and_a_full_one_what_came_early() {
        let mut pace = WakePace::default();
        let mut wakes = |tally: EndpointTally, is_full| pace.wakes(&tally, is_full, 2, SECOND);
        assert_eq!([0, 1, 5, 7, 30].map(|taken| wakes(tally(taken, 1, 0), false)), [0, 10, 10, 14, 20]);
        assert_eq!(
            [(10, 0), (10, 3), (50, 50)].map(|(taken, early)| wakes(tally(taken, early, 0), true)),
            [0, 3, 50]
        );
    }

    #[test]
    fn failures_halve_the_window_which_grows_by_one_a_second() {
        let mut pace = WakePace::default();
        let mut wakes = |tally: EndpointTally, at: u32| pace.wakes(&tally, false, 1, SECOND * at);
        assert_eq!(wakes(tally(0, 0, 8), 10), 0);
        assert_eq!(wakes(tally(9, 9, 0), 10), 4, "half of eight");
        assert_eq!(wakes(tally(9, 9, 0), 12), 6);
        assert_eq!(wakes(tally(6, 6, 2), 12), 3, "less than were taken, and half of the window");
        assert_eq!(wakes(tally(9, 9, 0), 2_000), 18, "it is open again");
    }

    #[test]
    fn no_more_are_woken_than_the_share_of_the_endpoints_rate() {
        let mut pace = WakePace::default();
        let limited = EndpointTally { rate: Some(4), ..tally(10, 10, 0) };
        let mut wakes = |at: u32| {
            let letters = pace.wakes(&limited, false, 2, SECOND * at);
            pace.sent(letters, limited.rate, 2, SECOND * at);
            letters
        };
        assert_eq!([10, 10, 11, 14, 20].map(&mut wakes), [3, 1, 1, 3, 3]);
        let mut slow = WakePace::default();
        let one = EndpointTally { rate: Some(1), ..tally(1, 1, 0) };
        assert_eq!(slow.wakes(&one, false, 100, SECOND * 1_000), 1, "else it would never be woken");
    }
}
