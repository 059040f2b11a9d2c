//! The options of the commands about overrides and waiting letters.

use clap::{Args, Subcommand};
use jiff::Timestamp;

use super::connection::ConnectionArgs;
use super::help::{ADVANCED, EXIT_CODES, EXIT_CODES_OF_OVERRIDES, examples};
use super::values::{TimeArg, lasts, moment, when};

/// The default number of letters a second to wake.
const WAKE_RATE: u32 = 500;

#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    pub(crate) give: GiveArgs,
    #[command(flatten)]
    pub(crate) pace: WakePace,
}

#[derive(Debug, Args)]
pub(crate) struct GiveUp {
    #[command(flatten)]
    pub(crate) give: GiveArgs,
    /// Also give up letters that arrive from now on; needs --for or --until
    #[arg(long, conflicts_with = "arrived_before", help_heading = "Which letters")]
    pub(crate) future: bool,
    #[command(flatten)]
    pub(crate) pace: WakePace,
}

/// An override that is given.
#[derive(Debug, Default, Args)]
pub(crate) struct GiveArgs {
    #[command(flatten)]
    pub(crate) picks: PatternArgs,
    #[command(flatten)]
    pub(crate) arrived: ArrivalArgs,
    /// End the override at this time: 2026-11-01T12:00Z, or 2026-11-01T12:00+01:00
    #[arg(long, value_name = "TIME", value_parser = moment, conflicts_with = "lasts", help_heading = "The override")]
    pub(crate) until: Option<Timestamp>,
    /// Keep the override in force for this long: 30m, 2h
    #[arg(long = "for", id = "lasts", value_name = "TIME", value_parser = lasts, help_heading = "The override")]
    pub(crate) lasts: Option<u64>,
    /// The reason, which is kept with the override
    // Not a required field in the type, because `archive` has subcommands that need no reason.
    #[arg(long, value_name = "TEXT", required_unless_present = "dry_run", help_heading = "The override")]
    pub(crate) why: Option<String>,
    /// Also name a topic, queue or subscription that neither SNS, SQS nor the list of waiting letters knows
    #[arg(long, help_heading = "The override")]
    pub(crate) anyway: bool,
    #[command(flatten)]
    pub(crate) sign: AuthorArgs,
    #[command(flatten)]
    pub(crate) place: ControlPlace,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

/// The author of an override, and whether to ask before it is written.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "The override")]
pub(crate) struct AuthorArgs {
    /// The author of the override [default: who you are, according to AWS]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    /// Write the override without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// Only show which letters the override would affect; write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WakePace {
    /// Wake this many letters a second, 1 to 10000
    #[arg(long, value_name = "LETTERS", default_value_t = WAKE_RATE, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rate: u32,
}

impl Default for WakePace {
    fn default() -> Self {
        Self { rate: WAKE_RATE }
    }
}

/// `overrides` and its verbs; without a verb it lists.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct OverridesArgs {
    #[command(subcommand)]
    verb: Option<OverridesVerb>,
    #[command(flatten)]
    list: ShowOverrides,
}

#[derive(Debug, Subcommand)]
enum OverridesVerb {
    /// Show the overrides in force, as `overrides` alone does
    #[command(
        before_help = examples!(
            "overrides list --stack payments-redrive",
            "overrides list --stack payments-redrive --ended"
        ),
        after_help = EXIT_CODES
    )]
    List(ShowOverrides),
    /// Take overrides back, so that held letters continue
    ///
    /// The tool begins to wake the letters of a hold 20 seconds after it has taken the override back.
    #[command(
        before_help = examples!(
            "overrides release 20261101T110500Z-7f3a51c2 --stack payments-redrive",
            "overrides release --stack payments-redrive --all --why 'all are back'"
        ),
        after_help = EXIT_CODES_OF_OVERRIDES
    )]
    Release(Box<ReleaseArgs>),
}

/// What is to be done with overrides.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OverridesTask<'a> {
    List(&'a ShowOverrides),
    Release(&'a ReleaseArgs),
}

impl OverridesArgs {
    pub(crate) fn task(&self) -> OverridesTask<'_> {
        match &self.verb {
            None => OverridesTask::List(&self.list),
            Some(OverridesVerb::List(list)) => OverridesTask::List(list),
            Some(OverridesVerb::Release(release)) => OverridesTask::Release(release),
        }
    }
}

#[derive(Debug, Default, Args)]
pub(crate) struct ReleaseArgs {
    /// Ids of overrides, which `overrides` shows
    #[arg(required_unless_present = "PatternArgs", conflicts_with = "PatternArgs")]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) picks: PatternArgs,
    /// The reason, which is kept with the override
    #[arg(long, value_name = "TEXT", help_heading = "The override")]
    pub(crate) why: Option<String>,
    #[command(flatten)]
    pub(crate) sign: AuthorArgs,
    #[command(flatten)]
    pub(crate) pace: WakePace,
    #[command(flatten)]
    pub(crate) place: ControlPlace,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

#[derive(Debug, Default, Args)]
pub(crate) struct ShowOverrides {
    /// Show overrides that have ended
    #[arg(long)]
    pub(crate) ended: bool,
    #[command(flatten)]
    pub(crate) place: ControlPlace,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WaitingArgs {
    /// Count letters by this property
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = WaitingBy::Target)]
    pub(crate) by: WaitingBy,
    #[command(flatten)]
    pub(crate) picks: PatternArgs,
    #[command(flatten)]
    pub(crate) arrived: ArrivalArgs,
    #[command(flatten)]
    pub(crate) place: ControlPlace,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

/// The property that waiting letters are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum WaitingBy {
    /// The target of their next retry
    Target,
    /// The error of their last attempt
    Error,
    /// The hour of their next retry
    Due,
    /// The queue that holds them
    Queue,
    /// Their topic
    Topic,
    /// Their subscription
    Subscription,
    /// The rule that matches them
    Rule,
    /// The override or the rule that holds them
    Held,
}

impl WaitingBy {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::Error => "error",
            Self::Due => "due",
            Self::Queue => "queue",
            Self::Topic => "topic",
            Self::Subscription => "subscription",
            Self::Rule => "rule",
            Self::Held => "held",
        }
    }
}

/// The control prefix, which holds the overrides and the list of waiting letters.
#[derive(Debug, Default, Args)]
pub(crate) struct ControlPlace {
    /// The function's control prefix, s3://bucket/prefix [default: the stack's, else the variable CONTROL]
    #[arg(long, value_name = "PLACE", help_heading = ADVANCED)]
    pub(crate) control: Option<String>,
    /// The archive, s3://bucket/prefix, if the function has no CONTROL of its own [default: the variable ARCHIVE]
    #[arg(long, value_name = "PLACE", help_heading = ADVANCED)]
    pub(crate) archive: Option<String>,
}

/// The letters that an override matches.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Which letters")]
pub(crate) struct PatternArgs {
    /// Letters that match this EventBridge pattern, as in rules of a redrive policy
    #[arg(long = "match", value_name = "PATTERN")]
    pub(crate) pattern: Option<String>,
    /// Letters of this topic, by ARN or name
    #[arg(long, value_name = "TOPIC")]
    pub(crate) topic: Option<String>,
    /// Letters of this subscription, by ARN
    #[arg(long, value_name = "ARN")]
    pub(crate) subscription: Option<String>,
    /// Letters of this dead-letter queue, by ARN or name
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<String>,
    /// Letters that go to this target, by ARN, URL, the URL's name or the name of a queue, topic, function or stream
    #[arg(long, value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Every letter
    #[arg(long, conflicts_with_all = ["pattern", "topic", "subscription", "queue", "target"])]
    pub(crate) all: bool,
}

/// The time at which the letters of an override arrived.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Which letters")]
pub(crate) struct ArrivalArgs {
    /// Letters that arrived before this time: 2026-11-01T12:00Z, 2026-11-01T12:00+01:00, 2026-11-01 for its midnight in
    /// UTC, or 36h for 36 hours ago
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub(crate) arrived_before: Option<TimeArg>,
    /// Letters that arrived at this time or later
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub(crate) arrived_after: Option<TimeArg>,
}
