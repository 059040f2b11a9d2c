//! `redrivectl archive`: lists, shows and compares letters of an archive.

mod diff;
mod known;
mod list;
mod replayed;
mod select;
mod show;
mod shown;
mod walk;

use crate::args;
use crate::console::{Console, Failed, Finished};

pub(crate) use diff::compare;
pub(crate) use select::select;
pub(crate) use show::{NO_SUCH_LETTER, letters};
pub(crate) use shown::{Shown, read as read_shown, shown};

pub(super) async fn run(
    command: &args::ArchiveCommand,
    as_json: bool,
    console: &mut Console,
) -> Result<Finished, Failed> {
    match command {
        args::ArchiveCommand::List(args) => list::run(args, as_json, console).await,
        args::ArchiveCommand::Show(args) => show::run(args, as_json, console).await,
        args::ArchiveCommand::Diff(args) => diff::run(args, as_json, console).await,
    }
}
