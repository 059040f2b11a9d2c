//! The options of `doctor`.

use clap::Args;

use super::connection::Connection;

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Look at this function; without it at that of the stack
    #[arg(long, value_name = "NAME")]
    pub(crate) function: Option<String>,
    /// Also see whether the bucket keeps conditions: writes an object below the control prefix, and removes it
    #[arg(long)]
    pub(crate) write_test: bool,
    #[command(flatten)]
    pub(crate) connection: Connection,
}
