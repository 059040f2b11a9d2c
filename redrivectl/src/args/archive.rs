//! The options of the commands about an archive, and the letters of one.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::connection::Connection;
use super::help::EXIT_CODES;
use super::orders::ArchiveOrder;
use super::values::{When, when};
use sns_redrive::letter::Origin;
use sns_redrive::policy::ArchiveReason;

#[derive(Debug, Args)]
pub(crate) struct Archive {
    #[command(subcommand)]
    pub(crate) command: Option<ArchiveCommand>,
    #[command(flatten)]
    pub(crate) order: ArchiveOrder,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ArchiveCommand {
    /// Count letters, by topic, reason and day or whatever else
    #[command(after_help = EXIT_CODES)]
    List(ArchiveList),
    /// Show letters one by one, without what they say; with --json whole, one record a line
    #[command(after_help = EXIT_CODES)]
    Show(ArchiveShow),
    /// Show what was edited in records of `archive show --json`, before they are replayed
    #[command(after_help = EXIT_CODES)]
    Diff(ArchiveDiff),
}

#[derive(Debug, Args)]
pub(crate) struct ArchiveList {
    /// What letters are counted by, in this order; several with commas between them
    #[arg(long, value_name = "FIELD", value_delimiter = ',', default_value = "topic,reason,day")]
    pub(crate) by: Vec<By>,
    #[command(flatten)]
    pub(crate) letters: Letters,
}

/// What letters of an archive are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum By {
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

#[derive(Debug, Args)]
pub(crate) struct ArchiveDiff {
    /// Records of `archive show --json`, one a line, edited; - for standard input
    pub(crate) file: PathBuf,
    /// Hide links to unsubscribe, and the values of attributes of this name. May be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) mask: Vec<String>,
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Args)]
pub(crate) struct ArchiveShow {
    /// SQS message ids or letter ids; without any, every letter of the selection
    pub(crate) ids: Vec<String>,
    /// Also what they say: body, values of attributes, message of the original error
    #[arg(long)]
    pub(crate) body: bool,
    #[command(flatten)]
    pub(crate) letters: Letters,
}

/// Letters of an archive: where it is, which, and how it is reached.
#[derive(Debug, Args)]
pub(crate) struct Letters {
    #[command(flatten)]
    pub(crate) place: ReplayPlace,
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The archive, s3://bucket/prefix; without it that of the variable ARCHIVE
    #[arg(long, value_name = "PLACE")]
    pub(crate) archive: Option<String>,
}

/// The archive, and the place of what replays know of it.
#[derive(Debug, Args)]
pub(crate) struct ReplayPlace {
    #[command(flatten)]
    pub(crate) archive: Place,
    /// The function's control prefix, s3://bucket/prefix, below which replays keep what they have sent; without it that of
    /// the variable CONTROL, else the archive's prefix with -control at its end
    #[arg(long, value_name = "PLACE")]
    pub(crate) control: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Which letters")]
pub(crate) struct Selection {
    /// Archived at this time or later: 2026-11-01T12:00:00Z, 2026-11-01, or 36h for so long ago
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub(crate) since: Option<When>,
    /// Archived before this time
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub(crate) until: Option<When>,
    /// Archived for this reason; may be repeated
    #[arg(long, value_name = "REASON", value_parser = reason_names())]
    pub(crate) reason: Vec<String>,
    /// Of this topic: its ARN or its name; may be repeated
    #[arg(long, value_name = "TOPIC")]
    pub(crate) topic: Vec<String>,
    /// Of this origin; may be repeated
    #[arg(long, value_name = "ORIGIN", value_parser = Origin::NAMES)]
    pub(crate) origin: Vec<String>,
    /// Whose last retry failed with this error code; may be repeated
    #[arg(long, value_name = "CODE")]
    pub(crate) error: Vec<String>,
    /// That were to go to this target: its ARN or its URL; may be repeated
    #[arg(long, value_name = "TARGET")]
    pub(crate) target: Vec<String>,
    /// Of this dead-letter queue: its ARN or its name
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<String>,
    /// Matching this EventBridge pattern, as rules of a redrive policy have it
    #[arg(long = "match", value_name = "PATTERN")]
    pub(crate) pattern: Option<String>,
    /// That no replay has sent
    #[arg(long)]
    pub(crate) not_replayed: bool,
}

fn reason_names() -> [&'static str; ArchiveReason::ALL.len()] {
    ArchiveReason::ALL.map(ArchiveReason::name)
}
