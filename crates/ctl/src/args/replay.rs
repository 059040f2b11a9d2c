//! The options of `replay` and of its verbs.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use redrive_core::letter::ReplayTarget;

use super::archive::{ReplayPlace, SelectionArgs};
use super::connection::ConnectionArgs;
use super::help::{ADVANCED, EXIT_CODES_OF_REPLAY, EXIT_CODES_OF_REPLAY_RECORDS, examples};
use super::values::{TimeArg, settle, successor, target, when};

#[derive(Debug, Default, Args)]
pub(crate) struct ReplayArgs {
    /// Count the letters that would be sent, and send nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Send the letters here instead of where their rules say: "topic", or the ARN of a topic, queue or function
    #[arg(long, value_name = "TARGET", value_parser = target, conflicts_with = "subscription")]
    pub(crate) to: Option<ReplayTarget>,
    /// File of the function's redrive policy: letters without a target by this policy are left out
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// File of records of `archive show --json`, which may be edited, one a line, - for standard input;
    /// replaces a selection
    #[arg(long, value_name = "FILE", conflicts_with_all = ["SelectionArgs", "cut_off", "all"])]
    pub(crate) from: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
    /// Letters on which SNS gave up for the subscription OLD, which was deleted and made again as NEW (two
    /// ARNs): send them to NEW. May be repeated
    #[arg(long, value_name = "OLD=NEW", value_parser = successor, help_heading = "Which letters")]
    pub(crate) subscription: Vec<(String, String)>,
    /// The whole archive
    #[arg(long, conflicts_with_all = ["SelectionArgs", "subscription"], help_heading = "Which letters")]
    pub(crate) all: bool,
    /// Leave out letters archived after this time [default: five seconds ago]
    #[arg(long, value_name = "TIME", value_parser = when, help_heading = "Which letters")]
    pub(crate) cut_off: Option<TimeArg>,
    /// Also send letters that a replay has sent already
    #[arg(long, conflicts_with = "not_replayed", help_heading = "Which letters")]
    pub(crate) again: bool,
    /// Continue the replay with this id, which `replay list` shows; its selection does not change
    #[arg(
        long,
        value_name = "ID",
        conflicts_with_all = [
            "SelectionArgs", "subscription", "cut_off", "all", "again", "to", "dry_run", "new", "ramp",
        ]
    )]
    pub(crate) resume: Option<String>,
    /// Begin a new replay, even if one of the same letters is unfinished
    #[arg(long)]
    pub(crate) new: bool,
    /// Send without asking: begin a new replay, or with --resume continue that one
    #[arg(long)]
    pub(crate) yes: bool,
    /// Start a replay by the state machine of --stack, and exit as soon as it has an id
    #[arg(long)]
    pub(crate) detach: bool,
    /// The reason, which is kept with the replay
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
    /// The author of the replay [default: who you are, according to AWS]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) pace: PaceArgs,
    #[command(flatten)]
    pub(crate) place: ReplayPlace,
    /// The function's requeue [default: the stack's, else the variable REQUEUE_ARN]
    #[arg(long, value_name = "ARN", help_heading = ADVANCED)]
    pub(crate) requeue: Option<String>,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

impl ReplayArgs {
    /// Reports whether it asks before letters are sent.
    pub(crate) fn asks(&self) -> bool {
        !self.yes && !self.dry_run
    }

    /// Reports whether this terminal must do the replay itself. The state machine of a stack has its own
    /// archive, policy and workers, so it cannot use these options.
    pub(crate) fn is_for_terminal(&self) -> bool {
        let Self { place, requeue, dry_run, policy, from, by, pace, .. } = self;
        let places = [place.archive.archive.is_some(), place.control.is_some(), requeue.is_some()];
        let ways = [policy.is_some(), from.is_some(), by.is_some(), pace.workers.is_some(), *dry_run];
        places.into_iter().chain(ways).any(|is_given| is_given)
    }
}

/// `replay` and its verbs; without a verb it starts a replay.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ReplayCommand {
    #[command(subcommand)]
    verb: Option<ReplayVerb>,
    #[command(flatten)]
    start: ReplayArgs,
}

#[derive(Debug, Subcommand)]
enum ReplayVerb {
    /// Send archived letters again, as `replay` alone does
    ///
    /// It shows how many letters it would send, and asks. A script gives --yes.
    #[command(
        before_help = examples!(
            "replay start --stack payments-redrive --topic payments --since 36h --dry-run",
            "replay start --stack payments-redrive --from letters.jsonl --why 'amounts corrected'"
        ),
        after_help = EXIT_CODES_OF_REPLAY
    )]
    Start(Box<ReplayArgs>),
    /// List all replays
    #[command(
        before_help = examples!(
            "replay list --stack payments-redrive",
            "replay list --stack payments-redrive --json"
        ),
        after_help = EXIT_CODES_OF_REPLAY_RECORDS
    )]
    List(ListReplays),
    /// Show the state of a replay
    #[command(
        before_help = examples!(
            "replay show 20261102T093105Z-81c0d4 --stack payments-redrive",
            "replay show 20261102T093105Z-81c0d4 --stack payments-redrive --json"
        ),
        after_help = EXIT_CODES_OF_REPLAY_RECORDS
    )]
    Show(OneReplay),
    /// Stop a replay, wherever it runs; `replay --resume` continues it
    #[command(
        before_help = examples!(
            "replay stop 20261102T093105Z-81c0d4 --stack payments-redrive",
            "replay stop 20261102T093105Z-81c0d4 --stack payments-redrive --why 'too early'"
        ),
        after_help = EXIT_CODES_OF_REPLAY_RECORDS
    )]
    Stop(EndReplay),
    /// End a replay that will not continue: letters that it may have sent count as not sent
    ///
    /// If a replay is cut off, it is unknown whether its last letters were sent, and other replays do not
    /// touch them. After `free` the next replay that selects them sends them: subscribers can get them twice.
    #[command(
        before_help = examples!(
            "replay free 20261102T093105Z-81c0d4 --stack payments-redrive",
            "replay free 20261102T093105Z-81c0d4 --stack payments-redrive --why 'laptop gone'"
        ),
        after_help = EXIT_CODES_OF_REPLAY_RECORDS
    )]
    Free(FreeReplay),
}

/// What is to be done with replays.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReplayTask<'a> {
    Start(&'a ReplayArgs),
    /// A replay is shown or ended, or all are listed.
    Record(ReplayRecordTask<'a>),
}

/// What is to be done with the records of replays.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReplayRecordTask<'a> {
    List(&'a ListReplays),
    Show(&'a OneReplay),
    Stop(&'a EndReplay),
    Free(&'a FreeReplay),
}

impl ReplayCommand {
    /// Returns the options of a replay that is to be started.
    pub(crate) fn into_start(self) -> Option<ReplayArgs> {
        match self.verb {
            None => Some(self.start),
            Some(ReplayVerb::Start(start)) => Some(*start),
            Some(_) => None,
        }
    }

    pub(crate) fn task(&self) -> ReplayTask<'_> {
        let record = match &self.verb {
            None => return ReplayTask::Start(&self.start),
            Some(ReplayVerb::Start(start)) => return ReplayTask::Start(start),
            Some(ReplayVerb::List(list)) => ReplayRecordTask::List(list),
            Some(ReplayVerb::Show(one)) => ReplayRecordTask::Show(one),
            Some(ReplayVerb::Stop(end)) => ReplayRecordTask::Stop(end),
            Some(ReplayVerb::Free(free)) => ReplayRecordTask::Free(free),
        };
        ReplayTask::Record(record)
    }
}

impl<'a> ReplayRecordTask<'a> {
    /// Returns the place of the replays.
    pub(crate) fn place(self) -> &'a ReplayPlace {
        match self {
            Self::List(list) => &list.place,
            Self::Show(one) => &one.place,
            Self::Stop(end) | Self::Free(FreeReplay { end, .. }) => &end.one.place,
        }
    }

    pub(crate) fn connection(self) -> &'a ConnectionArgs {
        match self {
            Self::List(list) => &list.connection,
            Self::Show(one) => &one.connection,
            Self::Stop(end) | Self::Free(FreeReplay { end, .. }) => &end.one.connection,
        }
    }
}

#[derive(Debug, Default, Args)]
pub(crate) struct ListReplays {
    #[command(flatten)]
    pub(crate) place: ReplayPlace,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

#[derive(Debug, Default, Args)]
pub(crate) struct OneReplay {
    /// The id of the replay, which `replay list` shows
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) place: ReplayPlace,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

#[derive(Debug, Args)]
pub(crate) struct EndReplay {
    #[command(flatten)]
    pub(crate) one: OneReplay,
    /// The reason, which is kept with the replay
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
    /// The author of this request [default: who you are, according to AWS]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct FreeReplay {
    #[command(flatten)]
    pub(crate) end: EndReplay,
    /// Free it without asking
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "How fast")]
pub(crate) struct PaceArgs {
    /// Letters a second, 1 to 1000000 [default: 100]
    #[arg(long, value_name = "LETTERS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rate: Option<u32>,
    /// Steps: the percentage of the letters that is sent by the end of each [default: 1,5,20,100]
    #[arg(long, value_name = "PERCENTS", value_delimiter = ',')]
    pub(crate) ramp: Option<Vec<u32>>,
    /// Stop the replay if more than this percentage of a step's letters fail [default: 10]
    #[arg(long, help_heading = ADVANCED, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(..=100))]
    pub(crate) threshold: Option<u32>,
    /// Wait this long after a step before judging it, at most one hour: 60, 5m [default: 60]
    #[arg(long, help_heading = ADVANCED, value_name = "TIME", value_parser = settle)]
    pub(crate) settle: Option<u32>,
    /// Work on this many parts of the archive at once, 1 to 64 [default: 4]
    #[arg(long, help_heading = ADVANCED, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) workers: Option<u8>,
}
