//! The command line: its commands.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use super::archive::{Archive, ArchiveCommand};
use super::connection::{Connection, Further};
use super::doctor::Doctor;
use super::drill::Drill;
use super::help::{
    EXIT_CODES, EXIT_CODES_OF_DOCTOR, EXIT_CODES_OF_DRILL, EXIT_CODES_OF_ORDERS, EXIT_CODES_OF_REPLAY,
    EXIT_CODES_OF_REPLAYS, EXIT_CODES_OF_SERVE,
};
use super::orders::{Give, Release, Retry, ShowOrders, Waiting};
use super::plan::{Explain, Plan};
use super::replay::{Replay, Replays, ReplaysCommand};
use super::serve::Serve;

/// The version, with the commit where that is known.
const VERSION: &str = env!("REDRIVECTL_VERSION");

/// Plans, explains and looks after redriven letters of SNS.
#[derive(Debug, Parser)]
#[command(name = "redrivectl", version = VERSION, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Cli {
    /// Write JSON for scripts in place of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show when a redrive policy retries: as a table, a picture, a chart
    #[command(after_help = EXIT_CODES)]
    Plan(Plan),
    /// Say what the function would do with an event, and why; nothing is called
    #[command(after_help = EXIT_CODES)]
    Explain(Explain),
    /// Hold letters: no attempts until the order ends or is released
    ///
    /// The function obeys within 15 seconds. Letters that expire meanwhile are archived as ever. The newest order goes
    /// before all others, and orders go before rules.
    #[command(after_help = EXIT_CODES_OF_ORDERS)]
    Hold(Box<Give>),
    /// Retry letters now, whatever their schedule says
    ///
    /// Each letter that is received while the order is in force, 15 minutes by default, is attempted at once. Letters that
    /// wait hidden are asked to wake, beginning 20 seconds after the order is written.
    #[command(after_help = EXIT_CODES_OF_ORDERS)]
    Retry(Box<Retry>),
    /// Take orders back: held letters go on
    ///
    /// Letters that a hold kept back are asked to wake, beginning 20 seconds after the order is taken back.
    #[command(after_help = EXIT_CODES_OF_ORDERS)]
    Release(Box<Release>),
    /// Show the orders in force
    #[command(after_help = EXIT_CODES)]
    Orders(ShowOrders),
    /// Count the letters that wait hidden: how many, until when
    #[command(after_help = EXIT_CODES)]
    Waiting(Box<Waiting>),
    /// Archive letters by an order; or look into an archive in S3: list, show, diff
    ///
    /// The order is about letters that have arrived by now, unless --future is given. It is in force for 12 hours, in which
    /// each of them comes back at least once. Letters that wait hidden are asked to wake, beginning 20 seconds after the
    /// order is written.
    #[command(after_help = EXIT_CODES_OF_ORDERS, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
    Archive(Box<Archive>),
    /// Send letters of an archive on their way once more, by way of the requeue
    #[command(after_help = EXIT_CODES_OF_REPLAY)]
    Replay(Box<Replay>),
    /// Show the replays, and stop or free one
    #[command(after_help = EXIT_CODES_OF_REPLAYS)]
    Replays(Box<Replays>),
    /// Say what is wrong with a deployment, what it means, and what mends it; nothing is changed
    ///
    /// It looks at what is really there: mappings, queues, subscriptions, the archive, the function and what its role may do.
    /// What it may not read, and what no call tells, it cannot tell; it never says that this is fine.
    #[command(after_help = EXIT_CODES_OF_DOCTOR)]
    Doctor(Doctor),
    /// Show the whole way of a letter in your account, and take everything away again
    ///
    /// It makes a topic with two subscribers, breaks one, publishes, and watches: SNS gives up, the function retries, the
    /// subscriber is mended and gets its message once, another one is archived and replayed. The stack must have Drill=true.
    #[command(after_help = EXIT_CODES_OF_DRILL)]
    Drill(Drill),
    /// Show what fails, what waits and what was given up, as pages in the browser of this machine
    ///
    /// It prints an address, which only this machine reaches, and which has a secret in it: whoever has that address sees, and
    /// with --operate does, what you may. Pages only read, unless --operate is given. Ctrl-C ends it.
    #[command(after_help = EXIT_CODES_OF_SERVE)]
    Serve(Serve),
    /// Write what completes commands in a shell
    #[command(after_help = EXIT_CODES)]
    Completion {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Write manual pages into a folder: redrivectl.1, and one for each command
    #[command(after_help = EXIT_CODES)]
    Man {
        /// The folder, which must be there
        folder: PathBuf,
    },
}

impl Command {
    /// Whether it tells by its exit code what AWS denies from what fails.
    pub(crate) fn is_of_replays(&self) -> bool {
        matches!(self, Self::Replay(_) | Self::Replays(_))
    }

    /// The options that a further command needs to find what this one has found.
    pub(crate) fn further(&self) -> Further {
        let Some(connection) = self.connection() else { return Further::default() };
        let (place, requeue) = match self {
            Self::Hold(args) => (Some((&args.place.control, &args.place.archive)), None),
            Self::Retry(args) => (Some((&args.give.place.control, &args.give.place.archive)), None),
            Self::Release(args) => (Some((&args.place.control, &args.place.archive)), None),
            Self::Archive(args) => {
                let place = &args.order.give.place;
                (Some((&place.control, &place.archive)), None)
            }
            Self::Replay(args) => {
                (Some((&args.place.control, &args.place.archive.archive)), args.requeue.as_ref())
            }
            Self::Replays(args) => {
                let place = match &args.command {
                    None => &args.place,
                    Some(ReplaysCommand::Show(one)) => &one.place,
                    Some(ReplaysCommand::Stop(end) | ReplaysCommand::Free(end)) => &end.one.place,
                };
                (Some((&place.control, &place.archive.archive)), None)
            }
            _ => (None, None),
        };
        let (control, archive) =
            place.map_or((None, None), |(control, archive)| (control.as_ref(), archive.as_ref()));
        Further::new(connection, control, archive, requeue)
    }

    /// The connection of a command; none where it calls nobody.
    pub(crate) fn connection(&self) -> Option<&Connection> {
        Some(match self {
            Self::Plan(_) | Self::Explain(_) | Self::Completion { .. } | Self::Man { .. } => return None,
            Self::Doctor(args) => &args.connection,
            Self::Drill(args) => &args.connection,
            Self::Serve(args) => &args.connection,
            Self::Hold(args) => &args.connection,
            Self::Retry(args) => &args.give.connection,
            Self::Release(args) => &args.connection,
            Self::Orders(args) => &args.connection,
            Self::Waiting(args) => &args.connection,
            Self::Archive(args) => match &args.command {
                None => &args.order.give.connection,
                Some(ArchiveCommand::List(args)) => &args.letters.connection,
                Some(ArchiveCommand::Show(args)) => &args.letters.connection,
                Some(ArchiveCommand::Diff(args)) => &args.connection,
            },
            Self::Replay(args) => &args.connection,
            Self::Replays(args) => match &args.command {
                None => &args.connection,
                Some(ReplaysCommand::Show(one)) => &one.connection,
                Some(ReplaysCommand::Stop(end) | ReplaysCommand::Free(end)) => &end.one.connection,
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
