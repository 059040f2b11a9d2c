use std::ops::RangeInclusive;

use proptest::prelude::*;
use redrive_core::policy::{Backoff, Schedule};

/// Returns schedules of seconds, of minutes, and of the longest delays, which begin at `longest.0` seconds and
/// rise by `longest.1`. `retries` are those of the phases, in their order.
pub fn schedules(
    longest: (RangeInclusive<u32>, RangeInclusive<u32>),
    retries: [RangeInclusive<u32>; 4],
) -> impl Strategy<Value = Schedule> {
    let delays = prop_oneof![(1_u32..=5, 0_u32..=20), (1_u32..=600, 0_u32..=7_200), longest];
    let backoff = prop::sample::select(Backoff::ALL.to_vec());
    let [no_delay, min_delay, in_backoff, max_delay] = retries;
    (delays, (no_delay, min_delay, in_backoff, max_delay), backoff).prop_map(
        |((min, more), (no_delay, min_delay, in_backoff, max_delay), backoff)| Schedule {
            min,
            max: min + more,
            retries: (no_delay + min_delay + in_backoff + max_delay).max(1),
            no_delay,
            min_delay,
            max_delay,
            backoff,
        },
    )
}
