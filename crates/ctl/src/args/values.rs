//! The syntax of option values.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SpanRelativeTo, Timestamp, Unit};
use redrive_core::endpoint::TargetName;
use redrive_core::letter::ReplayTarget;

/// A point in time, or a number of seconds ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeArg {
    At(Timestamp),
    Ago(u64),
}

impl TimeArg {
    pub(crate) fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(seconds) => {
                let ago = jiff::SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
                let then = now.saturating_sub(ago).unwrap_or(Timestamp::MIN);
                // Whole seconds: nobody means nanoseconds, or wants to type them.
                Timestamp::from_second(then.as_second()).unwrap_or(then)
            }
        }
    }
}

/// Reads a point in time, or a time ago.
pub(super) fn when(text: &str) -> Result<TimeArg, String> {
    let ago = || seconds(text).filter(|_| text.parse::<u64>().is_err()).map(TimeArg::Ago);
    moment(text)
        .map(TimeArg::At)
        .or_else(|problem| ago().ok_or(format!("{problem}, or a time ago such as 36h")))
}

/// Reads a point in time: a time with its offset from UTC, or a date, which means its midnight in UTC.
pub(super) fn moment(text: &str) -> Result<Timestamp, String> {
    // The parsers ignore what they do not know: the time behind a date, or the zone in brackets behind a
    // time.
    let date = || text.parse::<Date>().ok().filter(|_| text.len() == DATE.len());
    let date = || Some(date()?.to_zoned(TimeZone::UTC).ok()?.timestamp());
    let time = || text.parse::<Timestamp>().ok().filter(|_| !text.contains('['));
    date().or_else(time).ok_or_else(|| {
        let without_zone = text.parse::<DateTime>().is_ok() && text.len() > DATE.len() && !text.contains('[');
        let zone = if without_zone { "has no zone: it " } else { "" };
        format!(
            "{zone}must be a time with its zone such as 2026-11-01T12:00Z or 2026-11-01T12:00+01:00, a date such as {DATE} for \
             its midnight in UTC"
        )
    })
}

/// A date in the only form that is accepted.
const DATE: &str = "2026-11-01";

/// Reads a retention that SQS allows.
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

/// Reads the target of archived letters. The archive knows targets by digests of their whole names.
pub(super) fn target_name(text: &str) -> Result<String, String> {
    let name = TargetName::read(text);
    // Of any other text it keeps only a digest, which no letter has.
    let is_known = name.as_str() == text || name.as_str().contains("://");
    is_known.then(|| text.to_owned()).ok_or_else(|| {
        "must be an ARN, a URL or a URL's name, as `redrivectl status --wide` has it".to_owned()
    })
}

/// Reads a pair of subscriptions: an old one, and the one that replaced it.
pub(super) fn successor(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').map(|(old, new)| (old.to_owned(), new.to_owned()));
    pair.ok_or_else(|| "must be OLD=NEW with the ARNs of two subscriptions".to_owned())
}

/// Reads a number of seconds, or a time with units.
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
        for text in ["36", "yesterday", "2026-13-01", "", "20261031", "2026-W44-6", "36h ago"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_time_is_never_read_without_its_zone() {
        let noon: Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
        let read = |text| when(text).ok().map(|when| when.at(noon).to_string());
        for (text, moment) in [
            ("2026-11-26T23:59Z", "2026-11-26T23:59:00Z"),
            ("2026-11-26 23:59:00z", "2026-11-26T23:59:00Z"),
            ("2026-11-26T23:59+01:00", "2026-11-26T22:59:00Z"),
            ("2026-11-26T23:59:30-0530", "2026-11-27T05:29:30Z"),
        ] {
            assert_eq!(read(text).as_deref(), Some(moment), "{text}");
        }
        for text in [
            "2026-11-26T23:59",
            "2026-11-26 23:59:00",
            "2026-11-26T23:59[Europe/Berlin]",
            "2026-11-26T23:59+01:00[Europe/Berlin]",
            "2026-11-26[Europe/Berlin]",
            "2026-11-26T23:59 CET",
            "2026-11-26Z",
            "2026-11-26+01:00",
        ] {
            assert_eq!((read(text), moment(text).ok()), (None, None), "{text}");
        }
        assert!(
            when("2026-11-26T23:59").unwrap_err().starts_with("has no zone: it must be a time with its zone")
        );
        assert_eq!(moment("2026-11-26").unwrap().to_string(), "2026-11-26T00:00:00Z");
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
