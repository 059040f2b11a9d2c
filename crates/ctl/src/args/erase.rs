//! The options of the command that erases letters.

use clap::Args;

use super::archive::{ReplayPlace, SelectionArgs};
use super::connection::ConnectionArgs;
use super::overrides::{AuthorArgs, WakePace};
use super::values::settle;

#[derive(Debug, Default, Args)]
pub(crate) struct EraseArgs {
    /// SQS message ids or letter ids [default: every letter of the selection]
    pub(crate) ids: Vec<String>,
    /// Letters whose body, attributes or errors contain this text; may be repeated, then any of the texts
    #[arg(long, value_name = "TEXT", help_heading = "Which letters")]
    pub(crate) text: Vec<String>,
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
    /// The reason, which is kept with the override and printed in the record
    #[arg(long, value_name = "REASON", required = true, help_heading = "The erasing")]
    pub(crate) why: Option<String>,
    /// Only erase archived letters; leave the queues and the control prefix alone
    #[arg(long, help_heading = "The erasing")]
    pub(crate) archive_only: bool,
    /// Also delete versions that Object Lock keeps in mode GOVERNANCE
    #[arg(long, help_heading = "The erasing")]
    pub(crate) bypass_governance: bool,
    /// Wait this long for letters that were woken in queues: 0 to 1h
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = settle, help_heading = "The erasing")]
    pub(crate) wait: u32,
    #[command(flatten)]
    pub(crate) sign: AuthorArgs,
    #[command(flatten)]
    pub(crate) pace: WakePace,
    #[command(flatten)]
    pub(crate) place: ReplayPlace,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}
