//! The options of `plan` and `explain`.

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;

use super::help::ADVANCED;
use super::values::{moment, rate, retention};

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// File of the redrive policy, - for standard input [default: the built-in policy]
    pub(crate) policy: Option<PathBuf>,
    /// Show only this rule; "default" is the policy's default
    #[arg(long, value_name = "NAME")]
    pub(crate) rule: Option<String>,
    /// The queue's message retention: 1209600, 14d, 36h
    #[arg(long, value_name = "TIME", default_value = "14d", value_parser = retention)]
    pub(crate) retention: u64,
    /// Arrival of the letter, for clock times: 2026-11-01T12:00:00Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) at: Option<Timestamp>,
    /// The function's SCHEDULE_FROM: letters that arrive before it begin their schedule then [default: none]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) schedule_from: Option<Timestamp>,
    /// Letters a second that arrive and keep failing, to compare with the limit of letters in flight
    #[arg(long, value_name = "LETTERS", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// File of overrides (overrides.json): show those that have not ended at the arrival
    #[arg(long, help_heading = ADVANCED, value_name = "FILE")]
    pub(crate) overrides: Option<PathBuf>,
    /// Show every retry of a long schedule
    #[arg(long)]
    pub(crate) all: bool,
    /// Also write a chart to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// File of a Lambda event from SQS, - for standard input
    pub(crate) event: PathBuf,
    /// File of the redrive policy [default: the built-in policy]
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// File of overrides (overrides.json) [default: no overrides]
    #[arg(long, help_heading = ADVANCED, value_name = "FILE")]
    pub(crate) overrides: Option<PathBuf>,
    /// The current time to assume: 2026-11-01T12:00:00Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) at: Option<Timestamp>,
    /// The queue's message retention: 1209600, 14d, 36h
    #[arg(long, value_name = "TIME", default_value = "14d", value_parser = retention)]
    pub(crate) retention: u64,
    /// The function's SCHEDULE_FROM: letters that arrived before it begin their schedule then [default: none]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) schedule_from: Option<Timestamp>,
    /// maxReceiveCount of the source queue from which SQS moved letters [default: unknown]
    #[arg(long, help_heading = ADVANCED, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) source_max_receives: Option<u32>,
    /// The function's requeue: marks of letters in it are believed
    #[arg(long, help_heading = ADVANCED, value_name = "ARN")]
    pub(crate) requeue: Option<redrive_core::arn::Arn>,
    /// The subscription that a rule with "subscription": "discover" would find
    #[arg(long, help_heading = ADVANCED, value_name = "ARN")]
    pub(crate) discovered: Option<redrive_core::arn::Arn>,
}
