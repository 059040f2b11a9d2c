//! The options of `replay` and of `replays`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::archive::{ReplayPlace, Selection};
use super::connection::Connection;
use super::help::EXIT_CODES_OF_REPLAYS;
use super::values::{When, settle, successor, target, when};
use sns_redrive::letter::ReplayTarget;

#[derive(Debug, Args)]
pub(crate) struct Replay {
    #[command(flatten)]
    pub(crate) place: ReplayPlace,
    /// The function's requeue; without it that of the variable REQUEUE_ARN
    #[arg(long, value_name = "ARN")]
    pub(crate) requeue: Option<String>,
    /// Count what would be sent, and send nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Where the letters go, whatever their rules say: "topic", or the ARN of a topic, queue or function
    #[arg(long, value_name = "TARGET", value_parser = target, conflicts_with = "subscription")]
    pub(crate) to: Option<ReplayTarget>,
    /// Redrive policy of the function: letters that have no target by it are left out
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Records of `archive show --json`, one a line, - for standard input, in place of a selection; they may be edited
    #[arg(long, value_name = "FILE", conflicts_with_all = ["Selection", "cut_off", "all"])]
    pub(crate) from: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// That SNS gave up on for the subscription OLD, which was deleted and made again as NEW, two ARNs: they go to NEW. May be
    /// repeated
    #[arg(long, value_name = "OLD=NEW", value_parser = successor, help_heading = "Which letters")]
    pub(crate) subscription: Vec<(String, String)>,
    /// The whole archive
    #[arg(long, conflicts_with_all = ["Selection", "subscription"], help_heading = "Which letters")]
    pub(crate) all: bool,
    /// Letters archived later are left out; without it the present
    #[arg(long, value_name = "TIME", value_parser = when, help_heading = "Which letters")]
    pub(crate) cut_off: Option<When>,
    /// Also letters that a replay has sent already
    #[arg(long, conflicts_with = "not_replayed", help_heading = "Which letters")]
    pub(crate) again: bool,
    /// Go on with the replay of this id, which `replays` shows; what it selects stays as it was
    #[arg(
        long,
        value_name = "ID",
        conflicts_with_all = [
            "Selection", "subscription", "cut_off", "all", "again", "to", "dry_run", "why", "new", "ramp",
        ]
    )]
    pub(crate) resume: Option<String>,
    /// Begin a new replay without asking, also where one of the same letters is not at its end
    #[arg(long)]
    pub(crate) new: bool,
    /// Have the state machine of --stack replay, and end as soon as the replay has an id
    #[arg(long)]
    pub(crate) detach: bool,
    /// The reason, which is kept with the replay
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
    /// Who replays; without it AWS is asked who you are
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) pace: Pace,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

impl Replay {
    /// Whether it is one for this terminal: the state machine of a stack has an archive, a policy and workers of its own.
    pub(crate) fn is_for_terminal(&self) -> bool {
        let Self { place, requeue, dry_run, policy, from, by, pace, .. } = self;
        let places = [place.archive.archive.is_some(), place.control.is_some(), requeue.is_some()];
        let ways = [policy.is_some(), from.is_some(), by.is_some(), pace.workers.is_some(), *dry_run];
        places.into_iter().chain(ways).any(|is_given| is_given)
    }
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Replays {
    #[command(subcommand)]
    pub(crate) command: Option<ReplaysCommand>,
    #[command(flatten)]
    pub(crate) place: ReplayPlace,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ReplaysCommand {
    /// Show how a replay stands
    #[command(after_help = EXIT_CODES_OF_REPLAYS)]
    Show(OneReplay),
    /// Have a replay stop, wherever it runs; it can go on with `replay --resume`
    #[command(after_help = EXIT_CODES_OF_REPLAYS)]
    Stop(EndReplay),
    /// End a replay that will not go on: letters that it may have sent count as not sent
    ///
    /// A replay that was cut off leaves letters behind of which nobody knows whether they were sent. Others leave them alone.
    /// Once they are freed, the next replay that selects them sends them, so subscribers can get them twice.
    #[command(after_help = EXIT_CODES_OF_REPLAYS)]
    Free(EndReplay),
}

#[derive(Debug, Args)]
pub(crate) struct OneReplay {
    /// Its id, as `replays` shows it
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) place: ReplayPlace,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Args)]
pub(crate) struct EndReplay {
    #[command(flatten)]
    pub(crate) one: OneReplay,
    /// The reason, which is kept
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
    /// Who asks; without it AWS is asked who you are
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "How fast")]
pub(crate) struct Pace {
    /// Letters a second, 1 to 1000000 [default: 100]
    #[arg(long, value_name = "LETTERS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rate: Option<u32>,
    /// Steps: per cents of the letters that are sent when each ends [default: 1,5,20,100]
    #[arg(long, value_name = "PERCENTS", value_delimiter = ',')]
    pub(crate) ramp: Option<Vec<u32>>,
    /// Per cent of a step's letters that may fail; if more do, the replay stops [default: 10]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(..=100))]
    pub(crate) threshold: Option<u32>,
    /// How long to wait after a step before it is judged, up to an hour: 60, 5m [default: 60]
    #[arg(long, value_name = "TIME", value_parser = settle)]
    pub(crate) settle: Option<u32>,
    /// Units of the archive that are worked on at once, 1 to 64 [default: 4]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) workers: Option<u8>,
}
