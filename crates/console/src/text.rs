//! Writes times, numbers and strangers' texts, for pages and for the operator's tool.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use redrive_core::arn::{Arn, ArnKind};
use redrive_core::endpoint::TargetName;
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

/// Writes seconds as people say them, without fractions: `45 s`, `38 min`, `5 h 40 min`, `13 d`.
#[must_use]
pub fn span(seconds: u64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{minutes} min"),
        7200..172_800 if minutes % 60 == 0 => format!("{hours} h"),
        7200..172_800 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} d", thousands(hours / 24)),
    }
}

/// Says how long ago a time was, or how far ahead it is: `2 min ago`, `in 4 min`, `now`.
#[must_use]
pub fn distance(at: Timestamp, now: Timestamp) -> String {
    let seconds = at.duration_since(now).as_secs();
    match seconds {
        0 => "now".to_owned(),
        1.. => format!("in {}", span(seconds.unsigned_abs())),
        _ => format!("{} ago", span(seconds.unsigned_abs())),
    }
}

/// Writes the time of a day as one writes it down: `17:36 UTC`, of another day `2026-10-30 17:36 UTC`.
#[must_use]
pub fn clock_time(at: Timestamp, now: Timestamp) -> String {
    let at = at.to_zoned(TimeZone::UTC);
    let is_today = at.date() == now.to_zoned(TimeZone::UTC).date();
    at.strftime(if is_today { "%H:%M UTC" } else { "%Y-%m-%d %H:%M UTC" }).to_string()
}

/// The longest id that is written whole.
const MAX_WHOLE_ID: usize = 20;

/// Writes an id by its ends: `1931b4ce…9d6fb6`. Of the id of SNS's letters, which also has the subscription, it is SNS's
/// message id.
#[must_use]
pub fn ends(id: &str) -> String {
    let id = id.split_once("/arn:").map_or(id, |(of_sns, _)| of_sns.strip_prefix("sns-").unwrap_or(of_sns));
    let chars: Vec<_> = id.chars().collect();
    if chars.len() <= MAX_WHOLE_ID {
        return harmless(id);
    }
    let part = |chars: &[char]| harmless(&chars.iter().collect::<String>());
    format!("{}…{}", part(&chars[..8]), part(&chars[chars.len() - 6..]))
}

/// What people call something on AWS.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShortName {
    /// The last part of an ARN, or the host of a URL's name. Of a subscription the topic and the first digits of its id.
    pub name: String,
    /// What it is, such as `SQS queue`. Of a URL also the digest, since a host may have many. Empty for other texts.
    pub kind: String,
}

impl ShortName {
    /// Returns the short name of an ARN or of a target's name. Another text is its own name.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let new = |name: &str, kind: String| Self { name: harmless(name), kind };
        if let Ok(arn) = text.parse::<Arn>() {
            let resource = arn.resource();
            let rest = |prefix| resource.strip_prefix(prefix).unwrap_or(resource);
            return match arn.kind() {
                ArnKind::Queue => new(resource, "SQS queue".to_owned()),
                ArnKind::Topic => new(resource, "SNS topic".to_owned()),
                ArnKind::Function => new(rest("function:"), "Lambda function".to_owned()),
                ArnKind::Stream => new(rest("deliverystream/"), "Firehose stream".to_owned()),
                ArnKind::Subscription => {
                    let (topic, id) = resource.split_once(':').unwrap_or((resource, ""));
                    new(
                        &format!("{topic}:{}", id.chars().take(8).collect::<String>()),
                        "SNS subscription".to_owned(),
                    )
                }
                ArnKind::Other => new(text, String::new()),
            };
        }
        let of_url = text.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.split_once('#')?)));
        match of_url {
            Some((scheme, (host, digest))) if TargetName::is_of_url(text) => {
                new(host, format!("{} endpoint #{digest}", scheme.to_uppercase()))
            }
            _ => new(text, String::new()),
        }
    }
}

/// The longest name that a page writes whole, and how much of a longer one it writes.
const MAX_WHOLE_NAME: usize = 40;
const NAME_ENDS: (usize, usize) = (27, 10);

/// Writes what people call something on AWS, of a long name only its ends: a topic's name may have 256 characters.
#[must_use]
pub fn label(text: &str) -> String {
    let name = ShortName::of(text).name;
    let chars: Vec<_> = name.chars().collect();
    if chars.len() <= MAX_WHOLE_NAME {
        return name;
    }
    let part = |chars: &[char]| chars.iter().collect::<String>();
    format!("{}…{}", part(&chars[..NAME_ENDS.0]), part(&chars[chars.len() - NAME_ENDS.1..]))
}

/// Returns the last part of the ARN of a caller: a user's name, or a role's session. Another text is its own name.
#[must_use]
pub fn who(by: &str) -> String {
    let is_arn = by.starts_with("arn:");
    harmless(by.rsplit_once('/').filter(|_| is_arn).map_or(by, |(_, name)| name))
}

/// Writes a point in time to the second, in UTC: `2026-11-01 12:00:00`.
#[must_use]
pub fn utc(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Writes the day of a time in UTC: `2026-11-01`.
#[must_use]
pub fn utc_day(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d").to_string()
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
    fn times_are_said_as_people_say_them() {
        let said = [0, 45, 119, 120, 2_279, 7_199, 7_200, 20_400, 172_799, 172_800, 1_209_600].map(span);
        assert_eq!(
            said,
            [
                "0 s",
                "45 s",
                "119 s",
                "2 min",
                "37 min",
                "119 min",
                "2 h",
                "5 h 40 min",
                "47 h 59 min",
                "2 d",
                "14 d"
            ]
        );
        let now: Timestamp = "2026-11-01T12:00:00Z".parse().unwrap();
        let at = |seconds: i64| now + jiff::SignedDuration::from_secs(seconds);
        assert_eq!(
            [-130, 0, 240].map(|seconds| distance(at(seconds), now)),
            ["2 min ago", "now", "in 4 min"]
        );
    }

    #[test]
    fn the_day_is_said_of_a_time_on_another_one() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = at("2026-11-01T12:00:00Z");
        assert_eq!(clock_time(at("2026-11-01T00:01:30Z"), now), "00:01 UTC");
        assert_eq!(clock_time(at("2026-10-31T23:59:59Z"), now), "2026-10-31 23:59 UTC");
    }

    #[test]
    fn long_names_are_written_by_their_ends() {
        let arn = |name: &str| format!("arn:aws:sns:eu-central-1:123456789012:{name}");
        let whole = "a".repeat(40);
        assert_eq!(label(&arn(&whole)), whole);
        let long = format!("payments-{}-of-the-end", "é".repeat(30));
        assert_eq!(label(&long), format!("payments-{}…of-the-end", "é".repeat(18)));
        assert_eq!(label(&arn(&"b".repeat(256))).chars().count(), 38);
    }

    #[test]
    fn names_are_short_and_say_what_they_name() {
        let name = |text: &str| {
            let ShortName { name, kind } = ShortName::of(text);
            [name, kind]
        };
        let arn = |rest: &str| format!("arn:aws:{rest}");
        for (text, expected) in [
            (arn("sqs:eu-central-1:123456789012:billing"), ["billing", "SQS queue"]),
            (arn("sns:eu-central-1:123456789012:payments"), ["payments", "SNS topic"]),
            (
                arn("lambda:eu-central-1:123456789012:function:notify:live"),
                ["notify:live", "Lambda function"],
            ),
            (arn("firehose:eu-central-1:123456789012:deliverystream/all"), ["all", "Firehose stream"]),
            (
                arn("sns:eu-central-1:123456789012:payments:43fe80b0-b10c-4081-9e18-5bdb8f9824e6"),
                ["payments:43fe80b0", "SNS subscription"],
            ),
            (
                "https://a.example:8443#8a5edab28263".to_owned(),
                ["a.example:8443", "HTTPS endpoint #8a5edab28263"],
            ),
            ("default".to_owned(), ["default", ""]),
            ("https://a.example/S3CR3T".to_owned(), ["https://a.example/S3CR3T", ""]),
        ] {
            assert_eq!(name(&text), expected, "{text}");
        }
        assert_eq!(
            ["arn:aws:iam::123456789012:user/ada", "arn:aws:sts::123456789012:assumed-role/ops/bob", "a/b"]
                .map(who),
            ["ada", "bob", "a/b"]
        );
        assert_eq!(ends("1931b4ce-2e28-4882-ae5e-a5d23c9d6fb6"), "1931b4ce…9d6fb6");
        let of_sns = "sns-1931b4ce-2e28-4882-ae5e-a5d23c9d6fb6/arn:aws:sns:eu-central-1:1:payments:43fe80b0";
        assert_eq!([ends("short"), ends(of_sns)], ["short", "1931b4ce…9d6fb6"]);
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
