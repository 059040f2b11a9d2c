//! The options of `drill`.

use clap::Args;

use super::connection::Connection;
use super::values::{lasts, settle};

#[derive(Debug, Args)]
pub(crate) struct Drill {
    /// Do not ask before it begins
    #[arg(long)]
    pub(crate) yes: bool,
    /// Leave what was made, to look at it; --clean takes it away later
    #[arg(long, conflicts_with = "clean")]
    pub(crate) keep: bool,
    /// Take away what earlier drills of this stack have left, and do nothing else
    #[arg(long)]
    pub(crate) clean: bool,
    /// How long to wait after the queue is deleted: SQS may take messages for it for a minute
    #[arg(long, value_name = "TIME", default_value = "70", value_parser = settle, help_heading = "How fast")]
    pub(crate) settle: u32,
    /// How long to wait for anything that must be seen
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = lasts, help_heading = "How fast")]
    pub(crate) within: u64,
    /// How long to look in the end whether a message comes once more
    #[arg(long, value_name = "TIME", default_value = "30", value_parser = settle, help_heading = "How fast")]
    pub(crate) watch: u32,
    #[command(flatten)]
    pub(crate) connection: Connection,
}
