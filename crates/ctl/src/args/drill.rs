//! The options of `drill`.

use std::path::PathBuf;

use clap::Args;

use super::connection::ConnectionArgs;
use super::help::ADVANCED;
use super::values::{lasts, settle};

#[derive(Debug, Args)]
pub(crate) struct DrillArgs {
    /// Begin without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// Keep what the drill creates; --clean removes it later
    #[arg(long, conflicts_with = "clean")]
    pub(crate) keep: bool,
    /// Only remove what earlier drills of this stack left behind
    #[arg(long)]
    pub(crate) clean: bool,
    /// Also ask SQS and S3 about behaviour that is not recorded yet, and write the answers to this file,
    /// without names, ids or content
    #[arg(long, value_name = "FILE", conflicts_with = "clean")]
    pub(crate) record: Option<PathBuf>,
    /// Wait at most this long for each step
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = lasts, help_heading = "How fast")]
    pub(crate) within: u64,
    /// Watch this long at the end for messages that arrive twice
    #[arg(long, value_name = "TIME", default_value = "30", value_parser = settle, help_heading = "How fast")]
    pub(crate) watch: u32,
    /// Wait this long after the queue is deleted: SQS may accept messages for it for another minute
    #[arg(long, value_name = "TIME", default_value = "70", value_parser = settle, help_heading = ADVANCED)]
    pub(crate) settle: u32,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}
