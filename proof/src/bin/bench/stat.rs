//! Middle values.

use std::time::Duration;

/// The middle one.
pub(crate) fn median<T: Ord + Copy>(values: &mut [T]) -> T {
    values.sort_unstable();
    values[values.len() / 2]
}

pub(crate) fn per_second(count: usize, time: Duration) -> f64 {
    f64::from(u32::try_from(count).expect("fewer than billions")) / time.as_secs_f64()
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

pub(crate) fn mebibytes(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes / 1024).expect("fewer than terabytes")) / 1024.0
}
