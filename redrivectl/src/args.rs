//! The command line: its commands, their options, and how values are written.
#![allow(clippy::doc_markdown, reason = "the comments on options are the help texts")]

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SpanRelativeTo, Timestamp, Unit};

use sns_redrive::letter::{Origin, ReplayTarget};
use sns_redrive::policy::ArchiveReason;

/// Shown at the end of every help text.
const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  something failed or could not be read; what was done is printed all the same
  2  bad usage or bad input: nothing was done";

const EXIT_CODES_OF_REPLAY: &str = "\
A replay that was interrupted, or killed, goes on when the same command is given again.

Exit codes:
  0  every letter that was asked for is sent; in a dry run, could be
  1  it stopped, was interrupted or failed, or letters were left out
  2  bad usage or bad input: nothing was done";

const EXIT_CODES_OF_ORDERS: &str = "\
Exit codes:
  0  done: the orders are written, and the letters that wait are asked to wake
  1  something failed, was interrupted or could not be read; what was done is printed
  2  bad usage or bad input, or not confirmed: nothing was done";

/// Plans, explains and looks after redriven letters of SNS.
#[derive(Debug, Parser)]
#[command(name = "redrivectl", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(super) struct Cli {
    /// Write JSON for scripts in place of text
    #[arg(long, global = true)]
    pub(super) json: bool,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Show when a redrive policy retries: as a table, a picture, a chart
    #[command(after_help = EXIT_CODES)]
    Plan(Plan),
    /// Say what the function would do with an event, and why; nothing is called
    #[command(after_help = EXIT_CODES)]
    Explain(Explain),
    /// Hold letters: no attempts until the order ends or is released
    ///
    /// The function obeys within 15 seconds. Letters that expire meanwhile are archived as ever. The newest order goes
    /// before all others, and orders go before rules.
    #[command(after_help = EXIT_CODES_OF_ORDERS)]
    Hold(Box<Hold>),
    /// Retry letters now, whatever their schedule says
    ///
    /// Each letter that is received while the order is in force, 15 minutes by default, is attempted at once. Letters that
    /// wait hidden are asked to wake, beginning 20 seconds after the order is written.
    #[command(after_help = EXIT_CODES_OF_ORDERS)]
    Retry(Box<Retry>),
    /// Take orders back: held letters go on
    ///
    /// Letters that a hold kept back are asked to wake, beginning 20 seconds after the order is taken back.
    #[command(after_help = EXIT_CODES_OF_ORDERS)]
    Release(Box<Release>),
    /// Show the orders in force
    #[command(after_help = EXIT_CODES)]
    Orders(ShowOrders),
    /// Count the letters that wait hidden: how many, until when
    #[command(after_help = EXIT_CODES)]
    Waiting(Box<Waiting>),
    /// Archive letters by an order; or look into an archive in S3: list, show
    ///
    /// The order is about letters that have arrived by now, unless --future is given. It is in force for 12 hours, in which
    /// each of them comes back at least once. Letters that wait hidden are asked to wake, beginning 20 seconds after the
    /// order is written.
    #[command(after_help = EXIT_CODES_OF_ORDERS, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
    Archive(Box<Archive>),
    /// Send letters of an archive on their way once more, by way of the requeue
    #[command(after_help = EXIT_CODES_OF_REPLAY)]
    Replay(Box<Replay>),
}

#[derive(Debug, Args)]
pub(super) struct Plan {
    /// File of the redrive policy, - for standard input; without it the built-in policy
    pub(super) policy: Option<PathBuf>,
    /// Only this rule; "default" is the default
    #[arg(long, value_name = "NAME")]
    pub(super) rule: Option<String>,
    /// How long the queue keeps a message: 1209600, 14d, 36h
    #[arg(long, value_name = "TIME", default_value = "14d", value_parser = retention)]
    pub(super) retention: u64,
    /// When the letter arrives, for clock times: 2026-11-01T12:00:00Z; without it now
    #[arg(long, value_name = "TIME")]
    pub(super) at: Option<Timestamp>,
    /// Letters a second that arrive and keep failing, against the limit of letters in flight
    #[arg(long, value_name = "LETTERS", value_parser = rate)]
    pub(super) rate: Option<f64>,
    /// File of orders, as the function reads them: those that are in force then are shown
    #[arg(long, value_name = "FILE")]
    pub(super) orders: Option<PathBuf>,
    /// Show every retry of a long schedule
    #[arg(long)]
    pub(super) all: bool,
    /// Also write a chart to this file
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct Explain {
    /// File of a Lambda event of SQS, - for standard input
    pub(super) event: PathBuf,
    /// File of the redrive policy; without it the built-in policy
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Option<PathBuf>,
    /// File of orders, as the function reads them; without it there are none
    #[arg(long, value_name = "FILE")]
    pub(super) orders: Option<PathBuf>,
    /// The present: 2026-11-01T12:00:00Z; without it the machine's
    #[arg(long, value_name = "TIME")]
    pub(super) at: Option<Timestamp>,
    /// How long the queue keeps a message: 1209600, 14d, 36h
    #[arg(long, value_name = "TIME", default_value = "14d", value_parser = retention)]
    pub(super) retention: u64,
    /// maxReceiveCount of the queue from which SQS moved letters; without it not known
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) source_max_receives: Option<u32>,
    /// The function's requeue: what marks say there is believed
    #[arg(long, value_name = "ARN")]
    pub(super) requeue: Option<sns_redrive::arn::Arn>,
    /// The subscription that a rule with "subscription": "discover" would find
    #[arg(long, value_name = "ARN")]
    pub(super) discovered: Option<sns_redrive::arn::Arn>,
}

#[derive(Debug, Args)]
pub(super) struct Hold {
    #[command(flatten)]
    pub(super) give: Give,
}

#[derive(Debug, Args)]
pub(super) struct Retry {
    #[command(flatten)]
    pub(super) give: Give,
    #[command(flatten)]
    pub(super) pace: WakePace,
}

#[derive(Debug, Args)]
pub(super) struct Archive {
    #[command(subcommand)]
    pub(super) command: Option<ArchiveCommand>,
    #[command(flatten)]
    pub(super) order: ArchiveOrder,
}

#[derive(Debug, Args)]
pub(super) struct ArchiveOrder {
    #[command(flatten)]
    pub(super) give: Give,
    /// Also letters that arrive after now; needs --for or --until
    #[arg(long, conflicts_with = "arrived_before", help_heading = "Which letters")]
    pub(super) future: bool,
    #[command(flatten)]
    pub(super) pace: WakePace,
}

/// An order that is given.
#[derive(Debug, Args)]
pub(super) struct Give {
    #[command(flatten)]
    pub(super) picks: Picks,
    #[command(flatten)]
    pub(super) arrived: Arrived,
    /// When the order ends: 2026-11-01T12:00:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "lasts", help_heading = "The order")]
    pub(super) until: Option<Timestamp>,
    /// How long it is in force: 30m, 2h
    #[arg(long = "for", id = "lasts", value_name = "TIME", value_parser = lasts, help_heading = "The order")]
    pub(super) lasts: Option<u64>,
    /// The reason, which is kept with the order
    // Optional for the one command that has subcommands, too.
    #[arg(long, value_name = "TEXT", required = true, help_heading = "The order")]
    pub(super) why: Option<String>,
    #[command(flatten)]
    pub(super) sign: Sign,
    #[command(flatten)]
    pub(super) place: ControlPlace,
    #[command(flatten)]
    pub(super) connection: Connection,
}

/// The author of an order, and whether a question comes before it is written.
#[derive(Debug, Args)]
#[command(next_help_heading = "The order")]
pub(super) struct Sign {
    /// Who gives the order; without it AWS is asked who you are
    #[arg(long, value_name = "NAME")]
    pub(super) by: Option<String>,
    /// Do not ask before the order is written
    #[arg(long)]
    pub(super) yes: bool,
    /// Say what the order would touch, and write nothing
    #[arg(long)]
    pub(super) dry_run: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "How fast")]
pub(super) struct WakePace {
    /// Letters a second that are asked to wake, 1 to 10000
    #[arg(long, value_name = "LETTERS", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) rate: u32,
}

#[derive(Debug, Args)]
pub(super) struct Release {
    /// Ids of orders, as `orders` shows them
    #[arg(required_unless_present = "Picks", conflicts_with = "Picks")]
    pub(super) ids: Vec<String>,
    #[command(flatten)]
    pub(super) picks: Picks,
    /// The reason, which is kept with the order
    #[arg(long, value_name = "TEXT", help_heading = "The order")]
    pub(super) why: Option<String>,
    #[command(flatten)]
    pub(super) sign: Sign,
    #[command(flatten)]
    pub(super) pace: WakePace,
    #[command(flatten)]
    pub(super) place: ControlPlace,
    #[command(flatten)]
    pub(super) connection: Connection,
}

#[derive(Debug, Args)]
pub(super) struct ShowOrders {
    /// The orders that have ended
    #[arg(long)]
    pub(super) ended: bool,
    #[command(flatten)]
    pub(super) place: ControlPlace,
    #[command(flatten)]
    pub(super) connection: Connection,
}

#[derive(Debug, Args)]
pub(super) struct Waiting {
    /// What they are counted by
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = WaitingBy::Target)]
    pub(super) by: WaitingBy,
    #[command(flatten)]
    pub(super) picks: Picks,
    #[command(flatten)]
    pub(super) arrived: Arrived,
    #[command(flatten)]
    pub(super) place: ControlPlace,
    #[command(flatten)]
    pub(super) connection: Connection,
}

/// The property that waiting letters are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum WaitingBy {
    /// Where their next retry goes
    Target,
    /// The failure that they wait after
    Error,
    /// The hour in which they are due
    Due,
    /// The queue that they lie in
    Queue,
    /// Their topic
    Topic,
    /// Their subscription
    Subscription,
    /// The rule that they fall under
    Rule,
}

impl WaitingBy {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::Error => "error",
            Self::Due => "due",
            Self::Queue => "queue",
            Self::Topic => "topic",
            Self::Subscription => "subscription",
            Self::Rule => "rule",
        }
    }
}

/// The place of orders and of the list of waiting letters.
#[derive(Debug, Args)]
pub(super) struct ControlPlace {
    /// The function's control prefix, s3://bucket/prefix; without it that of the variable CONTROL
    #[arg(long, value_name = "PLACE", help_heading = "AWS")]
    pub(super) control: Option<String>,
    /// The archive, s3://bucket/prefix, where the function has no CONTROL of its own; without it that of the variable ARCHIVE
    #[arg(long, value_name = "PLACE", help_heading = "AWS")]
    pub(super) archive: Option<String>,
}

/// The letters that an order is about.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Which letters")]
pub(super) struct Picks {
    /// Matching this EventBridge pattern, as rules of a redrive policy have it
    #[arg(long = "match", value_name = "PATTERN")]
    pub(super) pattern: Option<String>,
    /// Of this topic: its ARN or its name
    #[arg(long, value_name = "TOPIC")]
    pub(super) topic: Option<String>,
    /// Of this subscription: its ARN
    #[arg(long, value_name = "ARN")]
    pub(super) subscription: Option<String>,
    /// Of this dead-letter queue: its ARN or its name
    #[arg(long, value_name = "QUEUE")]
    pub(super) queue: Option<String>,
    /// Every letter
    #[arg(long, conflicts_with_all = ["pattern", "topic", "subscription", "queue"])]
    pub(super) all: bool,
}

/// When the letters arrived that an order is about.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Which letters")]
pub(super) struct Arrived {
    /// Arrived before this time: 2026-11-01T12:00:00Z, 2026-11-01, or 36h for so long ago
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub(super) arrived_before: Option<When>,
    /// Arrived at this time or later
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub(super) arrived_after: Option<When>,
}

#[derive(Debug, Subcommand)]
pub(super) enum ArchiveCommand {
    /// Count letters by topic, reason and day
    #[command(after_help = EXIT_CODES)]
    List(ArchiveList),
    /// Show letters one by one, without what they say; with --json whole, one record a line
    #[command(after_help = EXIT_CODES)]
    Show(ArchiveShow),
}

#[derive(Debug, Args)]
pub(super) struct ArchiveList {
    #[command(flatten)]
    pub(super) letters: Letters,
}

#[derive(Debug, Args)]
pub(super) struct ArchiveShow {
    /// SQS message ids or letter ids; without any, every letter of the selection
    pub(super) ids: Vec<String>,
    /// Also what they say: body, values of attributes, message of the original error
    #[arg(long)]
    pub(super) body: bool,
    #[command(flatten)]
    pub(super) letters: Letters,
}

/// Letters of an archive: where it is, which, and how it is reached.
#[derive(Debug, Args)]
pub(super) struct Letters {
    #[command(flatten)]
    pub(super) place: Place,
    #[command(flatten)]
    pub(super) selection: Selection,
    #[command(flatten)]
    pub(super) connection: Connection,
}

#[derive(Debug, Args)]
pub(super) struct Replay {
    #[command(flatten)]
    pub(super) place: Place,
    /// The function's requeue; without it that of the variable REQUEUE_ARN
    #[arg(long, value_name = "ARN")]
    pub(super) requeue: Option<String>,
    /// Count what would be sent, and send nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Where the letters go, whatever their rules say: "topic", or the ARN of a topic, queue or function
    #[arg(long, value_name = "TARGET", value_parser = target)]
    pub(super) to: Option<ReplayTarget>,
    /// Redrive policy of the function: letters that have no target by it are left out
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Option<PathBuf>,
    /// Records of `archive show --json`, one a line, - for standard input, in place of a selection; they may be edited
    #[arg(long, value_name = "FILE", conflicts_with_all = ["Selection", "cut_off"])]
    pub(super) from: Option<PathBuf>,
    #[command(flatten)]
    pub(super) selection: Selection,
    /// Letters archived later are left out; without it the present. A replay that goes on keeps its own
    #[arg(long, value_name = "TIME", value_parser = when, help_heading = "Which letters")]
    pub(super) cut_off: Option<When>,
    /// Also letters that a replay has sent already
    #[arg(long, help_heading = "Which letters")]
    pub(super) again: bool,
    #[command(flatten)]
    pub(super) pace: Pace,
    #[command(flatten)]
    pub(super) connection: Connection,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "How fast")]
pub(super) struct Pace {
    /// Letters a second, 1 to 10000
    #[arg(long, value_name = "LETTERS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) rate: u32,
    /// Steps: per cents of the letters that are sent when each ends
    #[arg(long, value_name = "PERCENTS", value_delimiter = ',', default_value = "1,5,20,100")]
    pub(super) ramp: Vec<u32>,
    /// Per cent of a step's letters that may fail; if more do, the replay stops
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(..=100))]
    pub(super) threshold: u32,
    /// How long to wait after a step before it is judged, up to an hour: 60, 5m
    #[arg(long, value_name = "TIME", default_value = "60", value_parser = settle)]
    pub(super) settle: u32,
    /// Go on with a replay that has stopped since a step failed
    #[arg(long)]
    pub(super) resume: bool,
}

#[derive(Debug, Args)]
pub(super) struct Place {
    /// The archive, s3://bucket/prefix; without it that of the variable ARCHIVE
    #[arg(long, value_name = "PLACE")]
    pub(super) archive: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Which letters")]
pub(super) struct Selection {
    /// Archived at this time or later: 2026-11-01T12:00:00Z, 2026-11-01, or 36h for so long ago
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub(super) since: Option<When>,
    /// Archived before this time
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub(super) until: Option<When>,
    /// Archived for this reason; may be repeated
    #[arg(long, value_name = "REASON", value_parser = reason_names())]
    pub(super) reason: Vec<String>,
    /// Of this topic: its ARN or its name; may be repeated
    #[arg(long, value_name = "TOPIC")]
    pub(super) topic: Vec<String>,
    /// Of this origin; may be repeated
    #[arg(long, value_name = "ORIGIN", value_parser = Origin::NAMES)]
    pub(super) origin: Vec<String>,
    /// From this queue: its ARN or its name
    #[arg(long, value_name = "QUEUE")]
    pub(super) queue: Option<String>,
    /// Matching this EventBridge pattern, as rules of a redrive policy have it
    #[arg(long = "match", value_name = "PATTERN")]
    pub(super) pattern: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "AWS")]
pub(super) struct Connection {
    /// Use this endpoint in the place of AWS's own; buckets are then a part of the path
    #[arg(long, value_name = "URL")]
    pub(super) endpoint_url: Option<String>,
    /// Use this profile of the AWS configuration files
    #[arg(long, value_name = "NAME")]
    pub(super) profile: Option<String>,
    /// Use this region
    #[arg(long, value_name = "REGION")]
    pub(super) region: Option<String>,
}

/// A point in time, or so many seconds ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    At(Timestamp),
    Ago(u64),
}

impl When {
    pub(super) fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(seconds) => {
                let ago = jiff::SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
                let then = now.saturating_sub(ago).unwrap_or(Timestamp::MIN);
                // Nobody means, or wants to type, nanoseconds.
                Timestamp::from_second(then.as_second()).unwrap_or(then)
            }
        }
    }
}

fn when(text: &str) -> Result<When, String> {
    let date = || text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok();
    let at = text.parse::<Timestamp>().ok().or_else(|| Some(date()?.timestamp()));
    let ago = || seconds(text).filter(|_| text.parse::<u64>().is_err()).map(When::Ago);
    at.map(When::At).or_else(ago).ok_or_else(|| "must be 2026-11-01T12:00:00Z, 2026-11-01 or 36h".to_owned())
}

fn reason_names() -> [&'static str; ArchiveReason::ALL.len()] {
    ArchiveReason::ALL.map(ArchiveReason::name)
}

/// A retention that SQS allows.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
fn retention(text: &str) -> Result<u64, String> {
    let limits = 60..=1_209_600;
    seconds(text)
        .filter(|seconds| limits.contains(seconds))
        .ok_or_else(|| "must be 60 s to 14 days, such as 1209600, 14d or 36h".to_owned())
}

fn settle(text: &str) -> Result<u32, String> {
    let seconds = seconds(text).filter(|seconds| *seconds <= 3600).and_then(|it| u32::try_from(it).ok());
    seconds.ok_or_else(|| "must be 0 s to one hour, such as 60 or 5m".to_owned())
}

fn lasts(text: &str) -> Result<u64, String> {
    let most = 366 * 86_400;
    let seconds = seconds(text).filter(|seconds| (1..=most).contains(seconds));
    seconds.ok_or_else(|| "must be 1 s to 366 days, such as 30m or 2h".to_owned())
}

fn target(text: &str) -> Result<ReplayTarget, String> {
    ReplayTarget::try_from(text.to_owned()).map_err(|bad| bad.to_string())
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

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| "must be a number above 0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

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
