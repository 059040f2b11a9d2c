//! The options of the commands about an archive, and the letters of one.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use redrive_core::letter::Origin;
use redrive_core::policy::ArchiveReason;

use super::connection::ConnectionArgs;
use super::help::{ADVANCED, EXIT_CODES, examples};
use super::values::{TimeArg, target_name, when};

#[derive(Debug, Args)]
pub(crate) struct ArchiveArgs {
    #[command(subcommand)]
    pub(crate) command: ArchiveCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ArchiveCommand {
    /// Count letters by topic, reason and day, or by other fields
    #[command(
        before_help = examples!(
            "archive list --stack payments-redrive --since 36h",
            "archive list --stack payments-redrive --topic payments --by target,error"
        ),
        after_help = EXIT_CODES
    )]
    List(ArchiveList),
    /// Show letters one by one, without bodies and attribute values. --json writes whole records, one a line
    #[command(
        before_help = examples!(
            "archive show --stack payments-redrive --topic payments --since 36h",
            "archive show --stack payments-redrive --reason exhausted --queue payments-dlq --json"
        ),
        after_help = EXIT_CODES
    )]
    Show(ArchiveShow),
    /// Compare edited records of `archive show --json` with the archive, before you replay them
    #[command(
        before_help = examples!(
            "archive diff letters.jsonl --stack payments-redrive",
            "archive diff letters.jsonl --stack payments-redrive --mask tenant"
        ),
        after_help = EXIT_CODES
    )]
    Diff(ArchiveDiff),
}

#[derive(Debug, Args)]
pub(crate) struct ArchiveList {
    /// Count letters by these fields, in this order; separate them by commas
    #[arg(long, value_name = "FIELD", value_delimiter = ',', default_value = "topic,reason,day")]
    pub(crate) by: Vec<ArchiveField>,
    #[command(flatten)]
    pub(crate) letters: ArchiveLetters,
}

/// A field by which letters of an archive are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ArchiveField {
    Topic,
    Subscription,
    Target,
    Reason,
    Error,
    Rule,
    Queue,
    Day,
    Hour,
}

#[derive(Debug, Default, Args)]
pub(crate) struct ArchiveDiff {
    /// File of edited records of `archive show --json`, one a line; - for standard input
    pub(crate) file: PathBuf,
    /// Hide unsubscribe links and the values of attributes with this name; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) mask: Vec<String>,
    #[command(flatten)]
    pub(crate) place: ArchiveOption,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

#[derive(Debug, Default, Args)]
pub(crate) struct ArchiveShow {
    /// SQS message ids or letter ids [default: every letter of the selection]
    pub(crate) ids: Vec<String>,
    /// Also show the body, the attribute values and the message of the original error
    #[arg(long)]
    pub(crate) body: bool,
    #[command(flatten)]
    pub(crate) letters: ArchiveLetters,
}

/// Letters of an archive: where it is, which, and how it is reached.
#[derive(Debug, Default, Args)]
pub(crate) struct ArchiveLetters {
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
    #[command(flatten)]
    pub(crate) place: ReplayPlace,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

#[derive(Debug, Default, Args)]
#[command(next_help_heading = ADVANCED)]
pub(crate) struct ArchiveOption {
    /// The archive, s3://bucket/prefix [default: the stack's, else the variable ARCHIVE]
    #[arg(long, value_name = "PLACE")]
    pub(crate) archive: Option<String>,
}

/// The archive, and the place of what replays know of it.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = ADVANCED)]
pub(crate) struct ReplayPlace {
    #[command(flatten)]
    pub(crate) archive: ArchiveOption,
    /// The function's control prefix, s3://bucket/prefix, where replays record what they have sent [default:
    /// the stack's, else the variable CONTROL, else the archive's prefix followed by -control; none for another archive
    /// than the function's]
    #[arg(long, value_name = "PLACE")]
    pub(crate) control: Option<String>,
}

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Which letters")]
pub(crate) struct SelectionArgs {
    /// Letters archived at this time or later: 2026-11-01T12:00Z, 2026-11-01T12:00+01:00, 2026-11-01 for its midnight in
    /// UTC, or 36h for 36 hours ago
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub(crate) since: Option<TimeArg>,
    /// Letters archived before this time
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub(crate) until: Option<TimeArg>,
    /// Letters archived for this reason; may be repeated
    #[arg(long, value_name = "REASON", value_parser = reason_names())]
    pub(crate) reason: Vec<String>,
    /// Letters of this topic, by ARN or name; may be repeated
    #[arg(long, value_name = "TOPIC")]
    pub(crate) topic: Vec<String>,
    /// Letters of this origin; may be repeated
    #[arg(long, value_name = "ORIGIN", value_parser = Origin::NAMES)]
    pub(crate) origin: Vec<String>,
    /// Letters whose last retry failed with this error code; may be repeated
    #[arg(long, value_name = "CODE")]
    pub(crate) error: Vec<String>,
    /// Letters for this target, by ARN, URL or the URL's name; may be repeated
    #[arg(long, value_name = "TARGET", value_parser = target_name)]
    pub(crate) target: Vec<String>,
    /// Letters of this dead-letter queue, by ARN or name
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<String>,
    /// Letters that match this EventBridge pattern, as in rules of a redrive policy
    #[arg(long = "match", value_name = "PATTERN")]
    pub(crate) pattern: Option<String>,
    /// Letters that no replay has sent
    #[arg(long)]
    pub(crate) not_replayed: bool,
}

fn reason_names() -> [&'static str; ArchiveReason::ALL.len()] {
    ArchiveReason::ALL.map(ArchiveReason::name)
}
