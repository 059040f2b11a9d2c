//! Numbers of any length, compared exactly.

use std::cmp::Ordering;

/// A decimal number: 0.`digits` times ten to the power of `exponent`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decimal {
    is_negative: bool,
    /// The digits without zeros at either end; empty for zero.
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Reads a number of JSON.
    pub(super) fn of(number: &str) -> Self {
        let (is_negative, number) = number.strip_prefix('-').map_or((false, number), |rest| (true, rest));
        let (number, power) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        // A power that is too long for 64 bits is as good as any other such power.
        let too_long = if power.starts_with('-') { i64::MIN } else { i64::MAX };
        let power = power.parse().unwrap_or(too_long);
        let all = [whole, fraction].concat();
        let digits = all.trim_start_matches('0');
        let zeros = length(&all) - length(digits);
        let digits = digits.trim_end_matches('0');
        if digits.is_empty() {
            return Self { is_negative: false, digits: String::new(), exponent: 0 };
        }
        let exponent = (length(whole) - zeros).saturating_add(power);
        Self { is_negative, digits: digits.to_owned(), exponent }
    }

    /// Reports whether it has no fraction.
    pub(super) fn is_whole(&self) -> bool {
        self.exponent >= length(&self.digits)
    }

    /// Returns the whole number below it, or itself, if that is zero or more and fits.
    pub(super) fn floor(&self) -> Option<u64> {
        let places = usize::try_from(self.exponent.max(0)).ok().filter(|places| *places <= 18)?;
        let digits = self.digits.chars().chain(std::iter::repeat('0')).take(places).collect::<String>();
        let floor = if digits.is_empty() { 0 } else { digits.parse().ok()? };
        (!self.is_negative).then_some(floor)
    }

    fn cmp_size(&self, other: &Self) -> Ordering {
        let size = |number: &Self| (!number.digits.is_empty(), number.exponent);
        size(self).cmp(&size(other)).then_with(|| self.digits.cmp(&other.digits))
    }
}

fn length(text: &str) -> i64 {
    i64::try_from(text.len()).unwrap_or(i64::MAX)
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.is_negative, other.is_negative) {
            (false, false) => self.cmp_size(other),
            (true, true) => other.cmp_size(self),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_overridden_by_their_value() {
        let rising = [
            "-1e400",
            "-12345678901234567891",
            "-12345678901234567890",
            "-10",
            "-9.99",
            "-1",
            "-0.1",
            "-1e-400",
            "0",
            "1e-400",
            "0.00099",
            "0.001",
            "0.1",
            "0.12",
            "1",
            "1.000000000000000000001",
            "9",
            "10",
            "99.9",
            "9007199254740992",
            "9007199254740993",
            "1e16",
            "123456789012345678901234",
            "1e400",
            "1e99999999999999999999",
        ];
        for (n, one) in rising.iter().enumerate() {
            for (m, other) in rising.iter().enumerate() {
                assert_eq!(Decimal::of(one).cmp(&Decimal::of(other)), n.cmp(&m), "{one} {other}");
            }
        }
    }

    #[test]
    fn a_number_may_be_written_in_many_ways() {
        for same in [
            &["0", "-0", "0.0", "0e5", "-0.00e-3"][..],
            &["300", "300.0", "3e2", "3.0E+2", "30000e-2", "0.3e3"],
            &["-0.012", "-12e-3", "-1.20E-2"],
            &["1e2", "1000000e-4"],
        ] {
            for number in same {
                assert_eq!(Decimal::of(number), Decimal::of(same[0]), "{number}");
            }
        }
    }

    #[test]
    fn a_whole_number_has_no_fraction() {
        for (number, is_whole, floor) in [
            ("0", true, Some(0)),
            ("10", true, Some(10)),
            ("1.5e1", true, Some(15)),
            ("1.5", false, Some(1)),
            ("1e-1", false, Some(0)),
            ("-1", true, None),
            ("1e19", true, None),
        ] {
            assert_eq!(
                (Decimal::of(number).is_whole(), Decimal::of(number).floor()),
                (is_whole, floor),
                "{number}"
            );
        }
    }
}
