//! The syntax of option values.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SpanRelativeTo, Timestamp, Unit};

use sns_redrive::letter::ReplayTarget;

/// A point in time, or a number of seconds ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    At(Timestamp),
    Ago(u64),
}

impl When {
    pub(crate) fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(seconds) => {
                let ago = jiff::SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
                let then = now.saturating_sub(ago).unwrap_or(Timestamp::MIN);
                // Nanoseconds are never meant, and tedious to type.
                Timestamp::from_second(then.as_second()).unwrap_or(then)
            }
        }
    }
}

pub(super) fn when(text: &str) -> Result<When, String> {
    let date = || text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok();
    let at = text.parse::<Timestamp>().ok().or_else(|| Some(date()?.timestamp()));
    let ago = || seconds(text).filter(|_| text.parse::<u64>().is_err()).map(When::Ago);
    at.map(When::At).or_else(ago).ok_or_else(|| {
        "must be a time such as 2026-11-01T12:00:00Z or 2026-11-01, or a time ago such as 36h".to_owned()
    })
}

/// A retention that SQS allows.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
pub(super) fn retention(text: &str) -> Result<u64, String> {
    let limits = 60..=1_209_600;
    seconds(text)
        .filter(|seconds| limits.contains(seconds))
        .ok_or_else(|| "must be 60 seconds to 14 days, such as 1209600, 14d or 36h".to_owned())
}

pub(super) fn settle(text: &str) -> Result<u32, String> {
    let seconds = seconds(text).filter(|seconds| *seconds <= 3600).and_then(|it| u32::try_from(it).ok());
    seconds.ok_or_else(|| "must be 0 seconds to one hour, such as 60 or 5m".to_owned())
}

pub(super) fn lasts(text: &str) -> Result<u64, String> {
    let most = 366 * 86_400;
    let seconds = seconds(text).filter(|seconds| (1..=most).contains(seconds));
    seconds.ok_or_else(|| "must be 1 second to 366 days, such as 30m or 2h".to_owned())
}

pub(super) fn target(text: &str) -> Result<ReplayTarget, String> {
    ReplayTarget::try_from(text.to_owned()).map_err(|bad| bad.to_string())
}

/// A subscription and the one that has replaced it.
pub(super) fn successor(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').map(|(old, new)| (old.to_owned(), new.to_owned()));
    pair.ok_or_else(|| "must be OLD=NEW with the ARNs of two subscriptions".to_owned())
}

/// A number of seconds, or a time with units.
fn seconds(text: &str) -> Option<u64> {
    if let Ok(seconds) = text.parse() {
        return Some(seconds);
    }
    let span: jiff::Span = text.parse().ok()?;
    let total = span.total((Unit::Second, SpanRelativeTo::days_are_24_hours())).ok()?;
    let whole = total.is_finite() && total >= 0.0 && total.fract() == 0.0 && total <= f64::from(u32::MAX);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and within u32")]
    whole.then_some(total as u64)
}

pub(super) fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| "must be a number above 0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_in_time_may_be_a_day_or_so_long_ago() {
        let noon: Timestamp = "2026-11-01T12:00:00Z".parse().unwrap();
        let read = |text| when(text).ok().map(|when| when.at(noon).to_string());
        assert_eq!(read("2026-10-31T23:00:00+01:00").as_deref(), Some("2026-10-31T22:00:00Z"));
        assert_eq!(read("2026-10-31").as_deref(), Some("2026-10-31T00:00:00Z"));
        assert_eq!(read("36h").as_deref(), Some("2026-10-31T00:00:00Z"));
        for text in ["36", "yesterday", "2026-13-01", ""] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_retention_is_seconds_or_a_time_within_the_limits_of_sqs() {
        let read = |text| retention(text).ok();
        assert_eq!(read("1209600"), Some(1_209_600));
        assert_eq!(read("14d"), Some(1_209_600));
        assert_eq!(read("1d 12h"), Some(129_600));
        assert_eq!(read("60"), Some(60));
        for text in ["59", "15d", "1 month", "-1d", "0.5s", "soon", ""] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
