//! The command line: its commands, their options, and the syntax of values.
#![allow(clippy::doc_markdown, reason = "the comments on options are the help texts")]

mod archive;
mod attach;
mod cli;
mod connection;
mod doctor;
mod drill;
mod erase;
mod fleet;
mod help;
mod look;
mod overrides;
mod plan;
mod replay;
mod serve;
mod status;
mod values;

pub(crate) use archive::{
    ArchiveCommand, ArchiveDiff, ArchiveField, ArchiveLetters, ArchiveList, ArchiveOption, ArchiveShow,
    ReplayPlace, SelectionArgs,
};
pub(crate) use attach::{AttachArgs, WhichSubscriptions};
pub(crate) use cli::{Cli, CliCommand};
pub(crate) use connection::{ConnectionArgs, FurtherOptions};
pub(crate) use doctor::DoctorArgs;
pub(crate) use drill::DrillArgs;
pub(crate) use erase::EraseArgs;
pub(crate) use fleet::FleetArgs;
pub(crate) use look::{LookArgs, SetupFormat};
pub(crate) use overrides::{
    ArrivalArgs, AuthorArgs, ControlPlace, GiveArgs, GiveUp, OverridesTask, PatternArgs, ReleaseArgs,
    RetryArgs, ShowOverrides, WaitingArgs, WaitingBy, WakePace,
};
pub(crate) use plan::{ExplainArgs, PlanArgs};
pub(crate) use replay::{
    EndReplay, FreeReplay, OneReplay, PaceArgs, ReplayArgs, ReplayRecordTask, ReplayTask,
};
pub(crate) use serve::ServeArgs;
pub(crate) use status::StatusArgs;
pub(crate) use values::TimeArg;
