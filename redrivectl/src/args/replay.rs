//! The options of `replay`.

use std::path::PathBuf;

use clap::Args;

use super::archive::{Place, Selection};
use super::connection::Connection;
use super::values::{When, settle, target, when};
use sns_redrive::letter::ReplayTarget;

#[derive(Debug, Args)]
pub(crate) struct Replay {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The function's requeue; without it that of the variable REQUEUE_ARN
    #[arg(long, value_name = "ARN")]
    pub(crate) requeue: Option<String>,
    /// Count what would be sent, and send nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Where the letters go, whatever their rules say: "topic", or the ARN of a topic, queue or function
    #[arg(long, value_name = "TARGET", value_parser = target)]
    pub(crate) to: Option<ReplayTarget>,
    /// Redrive policy of the function: letters that have no target by it are left out
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Records of `archive show --json`, one a line, - for standard input, in place of a selection; they may be edited
    #[arg(long, value_name = "FILE", conflicts_with_all = ["Selection", "cut_off"])]
    pub(crate) from: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Letters archived later are left out; without it the present. A replay that goes on keeps its own
    #[arg(long, value_name = "TIME", value_parser = when, help_heading = "Which letters")]
    pub(crate) cut_off: Option<When>,
    /// Also letters that a replay has sent already
    #[arg(long, help_heading = "Which letters")]
    pub(crate) again: bool,
    #[command(flatten)]
    pub(crate) pace: Pace,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "How fast")]
pub(crate) struct Pace {
    /// Letters a second, 1 to 10000
    #[arg(long, value_name = "LETTERS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rate: u32,
    /// Steps: per cents of the letters that are sent when each ends
    #[arg(long, value_name = "PERCENTS", value_delimiter = ',', default_value = "1,5,20,100")]
    pub(crate) ramp: Vec<u32>,
    /// Per cent of a step's letters that may fail; if more do, the replay stops
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(..=100))]
    pub(crate) threshold: u32,
    /// How long to wait after a step before it is judged, up to an hour: 60, 5m
    #[arg(long, value_name = "TIME", default_value = "60", value_parser = settle)]
    pub(crate) settle: u32,
    /// Go on with a replay that has stopped since a step failed
    #[arg(long)]
    pub(crate) resume: bool,
}
