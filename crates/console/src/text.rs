//! Writes times, numbers and strangers' texts, for pages and for the operator's tool.

use jiff::Timestamp;
use jiff::tz::TimeZone;
pub use redrive_core::shell::{command_line, harmless, word};

/// Writes seconds as `0:05:41`, and from one day on as `1 d 02:05:41`.
#[must_use]
pub fn clock(seconds: u64) -> String {
    let (days, hours, rest) = (seconds / 86_400, seconds / 3600 % 24, seconds % 3600);
    let (minutes, seconds) = (rest / 60, rest % 60);
    if days == 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{} d {hours:02}:{minutes:02}:{seconds:02}", thousands(days))
    }
}

/// Writes seconds in the unit that keeps them short: `45 s`, `5.7 min`, `21.6 h`, `14 d`.
#[must_use]
pub fn brief(seconds: u64) -> String {
    let in_unit = |unit: u64, name| {
        // Tenths of the unit, rounded half up.
        let tenths = (seconds * 10 + unit / 2) / unit;
        match (tenths / 10, tenths % 10) {
            (whole, 0) => format!("{} {name}", thousands(whole)),
            (whole, tenth) => format!("{}.{tenth} {name}", thousands(whole)),
        }
    };
    match seconds {
        0..120 => format!("{seconds} s"),
        120..3600 => in_unit(60, "min"),
        3600..172_800 => in_unit(3600, "h"),
        _ => in_unit(86_400, "d"),
    }
}

/// Writes a point in time to the second, in UTC: `2026-11-01 12:00:00`.
#[must_use]
pub fn utc(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Writes `100015` as `100,015`.
#[must_use]
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes a number with its noun: `1 letter`, `2,000 letters`, `12 retries`, `3 replays`.
#[must_use]
pub fn count(number: u64, noun: &str) -> String {
    let stem = noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u']));
    let noun = match (number, stem) {
        (1, _) => noun.to_owned(),
        (_, Some(stem)) => format!("{stem}ies"),
        (_, None) => format!("{noun}s"),
    };
    format!("{} {noun}", thousands(number))
}

/// Returns a text as a literal of a `CloudWatch` Logs Insights query.
#[must_use]
pub fn literal(text: &str) -> String {
    format!("\"{}\"", harmless(text).replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_the_unit_that_suits_them() {
        for (seconds, as_clock, as_brief) in [
            (0, "0:00:00", "0 s"),
            (90, "0:01:30", "90 s"),
            (341, "0:05:41", "5.7 min"),
            (3600, "1:00:00", "1 h"),
            (77_843, "21:37:23", "21.6 h"),
            (90_000, "1 d 01:00:00", "25 h"),
            (1_209_600, "14 d 00:00:00", "14 d"),
        ] {
            assert_eq!((clock(seconds).as_str(), brief(seconds).as_str()), (as_clock, as_brief));
        }
    }

    #[test]
    fn numbers_are_grouped_and_nouns_agree() {
        assert_eq!(thousands(100_015), "100,015");
        assert_eq!(
            [count(0, "letter"), count(1, "letter"), count(1000, "letter")].join("; "),
            "0 letters; 1 letter; 1,000 letters"
        );
        assert_eq!([count(2, "retry"), count(2, "replay")], ["2 retries", "2 replays"]);
    }
}
