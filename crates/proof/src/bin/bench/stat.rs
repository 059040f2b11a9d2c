//! Statistics of measured values.

use std::time::Duration;

/// Returns the middle value.
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

/// Returns the least and the most.
pub(crate) fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let mut values = values.peekable();
    assert!(values.peek().is_some(), "something was measured");
    values
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)))
}

/// Returns the slope of the least-squares line, and its value at zero.
pub(crate) fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let sum = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let count = sum(|_| 1.0);
    let (x, y) = (sum(|(x, _)| *x), sum(|(_, y)| *y));
    let slope = (count * sum(|(x, y)| x * y) - x * y) / (count * sum(|(x, _)| x * x) - x * x);
    (slope, (y - slope * x) / count)
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_line_goes_between_its_points() {
        let (slope, zero) = line(&[(1.0, 6.0), (2.0, 8.0), (3.0, 10.0)]);
        assert!((slope - 2.0).abs() < 1e-9 && (zero - 4.0).abs() < 1e-9, "{slope} {zero}");
        let (slope, zero) = line(&[(0.0, 0.0), (1.0, 3.0), (2.0, 3.0)]);
        assert!((slope - 1.5).abs() < 1e-9 && (zero - 0.5).abs() < 1e-9, "{slope} {zero}");
    }
}
