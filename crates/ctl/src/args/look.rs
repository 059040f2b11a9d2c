//! The options of `look`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::Timestamp;

use super::connection::ConnectionArgs;
use super::values::moment;

#[derive(Debug, Args)]
pub(crate) struct LookArgs {
    /// The dead-letter queue: its name, its URL or its ARN
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: String,
    /// Receive no more letters than this, 10,000 at most
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) letters: u32,
    /// File of the redrive policy, - for standard input [default: the built-in policy]
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// The function's SCHEDULE_FROM: letters that arrived before it begin their schedule then [default: none]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) schedule_from: Option<Timestamp>,
    /// Also ask the web servers of subscriptions for their status, with HEAD requests
    #[arg(long)]
    pub(crate) probe: bool,
    /// Write the parameters of a first deployment into this new file, and print the commands that come next
    #[arg(long, value_name = "FILE")]
    pub(crate) init: Option<PathBuf>,
    /// The form of that file
    #[arg(long, value_enum, default_value_t = SetupFormat::Sam, requires = "init")]
    pub(crate) format: SetupFormat,
    /// Look without asking
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

/// The form of a file of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SetupFormat {
    /// A samconfig.toml for the SAM CLI
    Sam,
    /// A JSON file for `aws cloudformation`
    Cloudformation,
}
