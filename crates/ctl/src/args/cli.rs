//! The command line: its commands.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use super::archive::{ArchiveArgs, ArchiveCommand};
use super::attach::AttachArgs;
use super::connection::{ConnectionArgs, FurtherOptions};
use super::doctor::DoctorArgs;
use super::drill::DrillArgs;
use super::erase::EraseArgs;
use super::fleet::FleetArgs;
use super::help::{
    EXIT_CODES, EXIT_CODES_OF_ATTACH, EXIT_CODES_OF_DOCTOR, EXIT_CODES_OF_DRILL, EXIT_CODES_OF_ERASE,
    EXIT_CODES_OF_FLEET, EXIT_CODES_OF_LOOK, EXIT_CODES_OF_OVERRIDES, EXIT_CODES_OF_REPLAY,
    EXIT_CODES_OF_SERVE, EXIT_CODES_OF_STATUS, FIRST_PAGE, examples,
};
use super::look::LookArgs;
use super::overrides::{GiveArgs, GiveUp, OverridesArgs, OverridesTask, RetryArgs, WaitingArgs};
use super::plan::{ExplainArgs, PlanArgs};
use super::replay::{ReplayCommand, ReplayRecordTask, ReplayTask};
use super::serve::ServeArgs;
use super::status::StatusArgs;

/// The version, with the commit if known.
const VERSION: &str = env!("REDRIVECTL_VERSION");

/// Operates sns-redrive: plan retries, give overrides, look into the archive, replay letters.
#[derive(Debug, Parser)]
#[command(name = "redrivectl", version = VERSION, max_term_width = 100)]
#[command(help_template = FIRST_PAGE, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Write JSON instead of text, for scripts
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Show whole ARNs instead of short names
    #[arg(long, global = true)]
    pub(crate) wide: bool,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Show what fails, why and since when, how many letters wait or need a person, and what to type next
    ///
    /// It is the console's page Now in text. Without a command, with REDRIVE_STACK set, redrivectl shows it too.
    #[command(
        before_help = examples!("status --stack payments-redrive", "status --stack payments-redrive --range 14d"),
        after_help = EXIT_CODES_OF_STATUS
    )]
    Status(StatusArgs),
    /// Show when a redrive policy retries, as a table and a chart
    #[command(before_help = examples!("plan", "plan policy.json --rate 5"), after_help = EXIT_CODES)]
    Plan(PlanArgs),
    /// Show what the function would do with an event, and why, without any call to AWS
    #[command(
        before_help = examples!(
            "explain event.json",
            "explain event.json --policy policy.json"
        ),
        after_help = EXIT_CODES
    )]
    Explain(ExplainArgs),
    /// Look at the letters of a queue before anything is deployed: who failed, why, and what a policy would do
    ///
    /// It receives letters, hides them for a minute at most, and gives them back. It asks first, because each
    /// look is a receive. It refuses a queue from which a function receives.
    #[command(
        before_help = examples!(
            "look --queue payments-dlq",
            "look --queue payments-dlq --init payments.toml"
        ),
        after_help = EXIT_CODES_OF_LOOK
    )]
    Look(LookArgs),
    /// Hold letters: make no attempts until the override ends or is released
    ///
    /// The function obeys within 15 seconds. It still archives letters that are about to expire. The newest
    /// override wins over older overrides, and overrides win over rules.
    #[command(
        before_help = examples!(
            "hold --stack payments-redrive --topic payments --why 'the worker is down'",
            "hold --stack payments-redrive --target payments-worker --for 2h --why 'an update'"
        ),
        after_help = EXIT_CODES_OF_OVERRIDES
    )]
    Hold(Box<GiveArgs>),
    /// Retry letters now, regardless of their schedule
    ///
    /// While the override is in force, 15 minutes by default, the function tries each letter as soon as it
    /// receives it. The tool begins to wake hidden letters 20 seconds after it has written the override.
    #[command(
        before_help = examples!(
            "retry --stack payments-redrive --topic payments --why 'the worker is back'",
            "retry --stack payments-redrive --all --why 'all are back' --dry-run"
        ),
        after_help = EXIT_CODES_OF_OVERRIDES
    )]
    Retry(Box<RetryArgs>),
    /// Show the overrides in force, or take some back
    #[command(
        before_help = examples!(
            "overrides --stack payments-redrive",
            "overrides release 20261101T110500Z-7f3a51c2 --stack payments-redrive"
        ),
        after_help = EXIT_CODES
    )]
    Overrides(Box<OverridesArgs>),
    /// Count hidden letters, and show until when they wait
    #[command(
        before_help = examples!(
            "waiting --stack payments-redrive",
            "waiting --stack payments-redrive --topic payments --by error"
        ),
        after_help = EXIT_CODES
    )]
    Waiting(Box<WaitingArgs>),
    /// Give letters up: archive them instead of trying them again
    ///
    /// The override applies to letters that have arrived by now; with --future also to later ones. It is in
    /// force for 12 hours: in this time each letter comes back at least once. The tool begins to wake hidden
    /// letters 20 seconds after it has written the override.
    #[command(
        before_help = examples!(
            "give-up --stack payments-redrive --topic payments --why 'nobody needs them'",
            "give-up --stack payments-redrive --target payments-worker --future --for 2h --why gone"
        ),
        after_help = EXIT_CODES_OF_OVERRIDES
    )]
    GiveUp(Box<GiveUp>),
    /// Look into an archive in S3
    #[command(
        before_help = examples!(
            "archive list --stack payments-redrive --since 36h",
            "archive show --stack payments-redrive --topic payments --since 36h"
        ),
        after_help = EXIT_CODES
    )]
    Archive(Box<ArchiveArgs>),
    /// Send archived letters again, through the requeue
    ///
    /// It shows how many letters it would send, and asks. A script gives --yes.
    #[command(
        before_help = examples!(
            "replay --stack payments-redrive --topic payments --since 36h --dry-run",
            "replay --stack payments-redrive --topic payments --since 36h --why 'the worker is back'"
        ),
        after_help = EXIT_CODES_OF_REPLAY
    )]
    Replay(Box<ReplayCommand>),
    /// Erase letters: from the archive in all versions, from the list of waiting letters, and from documents that name them
    ///
    /// Letters that still lie in a queue are given up first, so that the function archives them. It shows what it found,
    /// and asks. An erased letter leaves a line without content, so that archive and replays still count it. To complete
    /// an erasing that was interrupted, run the same command again.
    #[command(
        before_help = examples!(
            "erase --stack payments-redrive --text ada@example.com --why 'ticket 812'",
            "erase --stack payments-redrive --topic payments --since 36h --why none --dry-run"
        ),
        after_help = EXIT_CODES_OF_ERASE
    )]
    Erase(Box<EraseArgs>),
    /// Name the queue as the dead-letter queue of subscriptions
    ///
    /// It shows what each subscription names now, with the lines for the AWS CLI, CloudFormation and Terraform,
    /// and asks. A script gives --yes. It writes what was there before to a file, which --undo takes.
    #[command(
        before_help = examples!(
            "attach --stack payments-redrive --topic payments",
            "attach --stack payments-redrive --topic payments --dry-run"
        ),
        after_help = EXIT_CODES_OF_ATTACH
    )]
    Attach(AttachArgs),
    /// Find what is wrong with a deployment, what it means and how to fix it, without changing anything
    ///
    /// It checks what is deployed: mappings, queues, subscriptions, the archive, the function and the
    /// permissions of its role. If it may not read something, or no call shows it, it reports "cannot tell"
    /// and never that all is well.
    #[command(
        before_help = examples!(
            "doctor --stack payments-redrive",
            "doctor --stack payments-redrive --write-test"
        ),
        after_help = EXIT_CODES_OF_DOCTOR
    )]
    Doctor(DoctorArgs),
    /// Show the stacks of several accounts and regions, one line each: waiting and archived letters, alarms, version
    ///
    /// It asks all at the same time. What it could not see stands on the line: denied, or no answer.
    #[command(
        before_help = examples!(
            "fleet --region eu-central-1 --region us-east-1",
            "fleet --file fleet.json"
        ),
        after_help = EXIT_CODES_OF_FLEET
    )]
    Fleet(FleetArgs),
    /// Test a deployment in your account with real letters, and remove everything again
    ///
    /// It creates a topic with two subscribers, breaks one and publishes two messages. SNS gives up on both.
    /// The function retries one until its subscriber is repaired, and archives the other, which is then
    /// replayed. The stack must have Drill=true.
    #[command(
        before_help = examples!(
            "drill --stack payments-redrive",
            "drill --stack payments-redrive --clean"
        ),
        after_help = EXIT_CODES_OF_DRILL
    )]
    Drill(DrillArgs),
    /// Show failing, waiting and archived letters as pages in the browser of this machine
    ///
    /// It prints an address that contains a secret. Only this machine can reach it. Anybody who has the
    /// address sees what you may see. With --operate the pages can also act, with your permissions. Ctrl-C
    /// ends it.
    #[command(
        before_help = examples!(
            "serve --stack payments-redrive",
            "serve --stack payments-redrive --operate"
        ),
        after_help = EXIT_CODES_OF_SERVE
    )]
    Serve(ServeArgs),
    /// Write the completion script of a shell
    #[command(before_help = examples!("completion bash", "completion zsh"), after_help = EXIT_CODES)]
    Completion {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Write manual pages into a folder: redrivectl.1 and one for each command
    #[command(before_help = examples!("man .", "man share/man/man1"), after_help = EXIT_CODES)]
    Man {
        /// The folder, which must exist
        folder: PathBuf,
    },
}

impl CliCommand {
    /// Reports whether the command has an exit code of its own for calls that AWS denies.
    pub(crate) fn tells_denials(&self) -> bool {
        matches!(
            self,
            Self::Attach(_)
                | Self::Doctor(_)
                | Self::Erase(_)
                | Self::Look(_)
                | Self::Replay(_)
                | Self::Status(_)
        )
    }

    /// Reports whether the command only shows something, line by line. Such a command may end when nobody
    /// reads its output. The doctor is not one of them: its exit code is its verdict.
    pub(crate) fn only_shows(&self) -> bool {
        match self {
            Self::Plan(args) => args.svg.is_none(),
            Self::Replay(args) => matches!(
                args.task(),
                ReplayTask::Record(ReplayRecordTask::List(_) | ReplayRecordTask::Show(_))
            ),
            Self::Overrides(args) => matches!(args.task(), OverridesTask::List(_)),
            Self::Explain(_) | Self::Waiting(_) | Self::Archive(_) | Self::Completion { .. } => true,
            Self::Hold(_)
            | Self::Retry(_)
            | Self::GiveUp(_)
            | Self::Attach(_)
            | Self::Erase(_)
            | Self::Doctor(_)
            | Self::Look(_)
            | Self::Fleet(_)
            | Self::Status(_)
            | Self::Drill(_)
            | Self::Serve(_)
            | Self::Man { .. } => false,
        }
    }

    /// Reports whether the command does its work even if nobody reads its output. A drill does not: it ends
    /// early, and removes what it created.
    pub(crate) fn goes_on(&self) -> bool {
        !self.only_shows() && !matches!(self, Self::Drill(_))
    }

    /// Returns the connection options for other commands, so that they find the same stack and places.
    pub(crate) fn further(&self) -> FurtherOptions {
        let Some(connection) = self.connection() else { return FurtherOptions::default() };
        let (place, requeue) = match self {
            Self::Hold(args) => (Some((&args.place.control, &args.place.archive)), None),
            Self::Retry(args) => (Some((&args.give.place.control, &args.give.place.archive)), None),
            Self::GiveUp(args) => (Some((&args.give.place.control, &args.give.place.archive)), None),
            Self::Overrides(args) => match args.task() {
                OverridesTask::List(_) => (None, None),
                OverridesTask::Release(args) => (Some((&args.place.control, &args.place.archive)), None),
            },
            Self::Replay(args) => {
                let (place, requeue) = match args.task() {
                    ReplayTask::Start(args) => (&args.place, args.requeue.as_ref()),
                    ReplayTask::Record(task) => (task.place(), None),
                };
                (Some((&place.control, &place.archive.archive)), requeue)
            }
            Self::Erase(args) => (Some((&args.place.control, &args.place.archive.archive)), None),
            _ => (None, None),
        };
        let (control, archive) =
            place.map_or((None, None), |(control, archive)| (control.as_ref(), archive.as_ref()));
        FurtherOptions::new(connection, control, archive, requeue)
    }

    /// Returns the connection of a command, or `None` if the command makes no calls, or connects to
    /// several accounts.
    pub(crate) fn connection(&self) -> Option<&ConnectionArgs> {
        Some(match self {
            Self::Plan(_)
            | Self::Explain(_)
            | Self::Fleet(_)
            | Self::Completion { .. }
            | Self::Man { .. } => return None,
            Self::Status(args) => &args.connection,
            Self::Attach(args) => &args.connection,
            Self::Erase(args) => &args.connection,
            Self::Doctor(args) => &args.connection,
            Self::Look(args) => &args.connection,
            Self::Drill(args) => &args.connection,
            Self::Serve(args) => &args.connection,
            Self::Hold(args) => &args.connection,
            Self::Retry(args) => &args.give.connection,
            Self::GiveUp(args) => &args.give.connection,
            Self::Overrides(args) => match args.task() {
                OverridesTask::List(args) => &args.connection,
                OverridesTask::Release(args) => &args.connection,
            },
            Self::Waiting(args) => &args.connection,
            Self::Archive(args) => match &args.command {
                ArchiveCommand::List(args) => &args.letters.connection,
                ArchiveCommand::Show(args) => &args.letters.connection,
                ArchiveCommand::Diff(args) => &args.connection,
            },
            Self::Replay(args) => match args.task() {
                ReplayTask::Start(args) => &args.connection,
                ReplayTask::Record(task) => task.connection(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
