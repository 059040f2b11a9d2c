//! The command line: its commands, their options, and the syntax of values.
#![allow(clippy::doc_markdown, reason = "the comments on options are the help texts")]

mod archive;
mod cli;
mod connection;
mod doctor;
mod drill;
mod help;
mod overrides;
mod plan;
mod replay;
mod serve;
mod values;

pub(crate) use archive::{
    ArchiveCommand, ArchiveDiff, ArchiveList, ArchiveShow, By, Letters, Place, ReplayPlace, Selection,
};
pub(crate) use cli::{Cli, Command};
pub(crate) use connection::{Connection, Further};
pub(crate) use doctor::Doctor;
pub(crate) use drill::Drill;
pub(crate) use overrides::{
    Arrived, ControlPlace, Give, GiveUp, Picks, Release, Retry, ShowOverrides, Sign, Waiting, WaitingBy,
    WakePace,
};
pub(crate) use plan::{Explain, Plan};
pub(crate) use replay::{EndReplay, FreeReplay, OneReplay, Pace, Replay, Replays, ReplaysCommand};
pub(crate) use serve::Serve;
pub(crate) use values::When;
