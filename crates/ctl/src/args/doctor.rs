//! The options of `doctor`.

use clap::Args;

use super::connection::ConnectionArgs;

#[derive(Debug, Default, Args)]
pub(crate) struct DoctorArgs {
    /// Check this function [default: the stack's]
    #[arg(long, value_name = "NAME")]
    pub(crate) function: Option<String>,
    /// Also test conditional writes: write an object below the control prefix and remove it
    #[arg(long)]
    pub(crate) write_test: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}
