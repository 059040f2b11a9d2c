//! The options of `attach`.

use std::path::PathBuf;

use clap::Args;

use super::connection::ConnectionArgs;

#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    pub(crate) which: WhichSubscriptions,
    /// Attach them to this queue [default: the stack's dead-letter queue]
    #[arg(long, value_name = "ARN", conflicts_with = "undo")]
    pub(crate) queue: Option<String>,
    /// Also change subscriptions that name another dead-letter queue
    #[arg(long, conflicts_with = "undo")]
    pub(crate) replace: bool,
    /// Change them without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// Only show them; change nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Write what was there before to this new file, for --undo [default: redrivectl-attach-<time>.json]
    #[arg(long, value_name = "FILE", conflicts_with = "undo")]
    pub(crate) record: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
#[command(next_help_heading = "Which subscriptions")]
pub(crate) struct WhichSubscriptions {
    /// Those of this topic, by ARN or name; may be repeated
    #[arg(long, value_name = "TOPIC", conflicts_with_all = ["all", "undo"])]
    pub(crate) topic: Vec<String>,
    /// This subscription; may be repeated
    #[arg(long, value_name = "ARN", conflicts_with_all = ["all", "undo"])]
    pub(crate) subscription: Vec<String>,
    /// All of this account in this region
    #[arg(long, conflicts_with = "undo")]
    pub(crate) all: bool,
    /// Those of a file that --record wrote: give each what it had before
    #[arg(long, value_name = "FILE")]
    pub(crate) undo: Option<PathBuf>,
}
