//! `redrivectl archive`: lists, shows and compares letters of an archive.

mod counted_letters;
mod diff;
mod list;
mod replayed;
mod select;
mod show;
mod shown_records;
mod walk;

use crate::args;
use crate::console::{CommandEnd, CommandFailure, ToolEnvironment};

pub(crate) use diff::compare;
pub(crate) use select::{select, selection};
pub(crate) use show::{NO_SUCH_LETTER, letters};
pub(crate) use shown_records::{PrintedRecord, read as read_shown, shown};

pub(super) async fn run(
    command: &args::ArchiveCommand,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<CommandEnd, CommandFailure> {
    match command {
        args::ArchiveCommand::List(args) => list::run(args, as_json, console).await,
        args::ArchiveCommand::Show(args) => show::run(args, as_json, console).await,
        args::ArchiveCommand::Diff(args) => diff::run(args, as_json, console).await,
    }
}
