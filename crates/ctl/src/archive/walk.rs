//! The walk through an archive, with its progress.

use redrive_archive::{ArchiveWalk, LocatedErasure, LocatedRecord, UnreadItem, WalkItem};

use super::replayed::ReplayLookup;
use crate::console::{CommandFailure, ToolEnvironment};
use crate::progress_line::ProgressOutput;
use crate::tables::{count, harmless, thousands};

/// The number of records between two updates of the progress line.
const PROGRESS_STEP: u64 = 500;

/// A letter of a selection.
pub(super) enum WalkedLetter {
    /// A record, and whether a replay has sent it.
    Record(Box<LocatedRecord>, bool),
    /// A letter that was erased.
    Erased(Box<LocatedErasure>),
}

/// Walks an archive, and passes each selected letter to `take`. Prints what could not be read, and returns its number.
pub(super) async fn walk(
    mut walk: ArchiveWalk<'_>,
    replayed: &mut ReplayLookup,
    console: &mut ToolEnvironment,
    mut take: impl FnMut(&mut ProgressOutput<'_>, WalkedLetter) -> Result<(), CommandFailure>,
) -> Result<u64, CommandFailure> {
    let mut page = ProgressOutput::new(console);
    let (mut unread, mut shown) = (0, 0);
    while let Some(found) = walk.next().await {
        match found {
            WalkItem::Letter(letter) => {
                let has_gone = replayed.has(&letter, &mut page.screen).await?;
                if !(has_gone && replayed.leaves_out) {
                    take(&mut page, WalkedLetter::Record(letter, has_gone))?;
                }
            }
            WalkItem::Erased(erased) => take(&mut page, WalkedLetter::Erased(erased))?,
            WalkItem::Unread(what) => {
                unread += 1;
                page.screen.say(&text(&what))?;
            }
        }
        let records = walk.tally().records;
        if records >= shown + PROGRESS_STEP {
            shown = records;
            page.screen.show(&format!("{} records read", thousands(records)));
        }
    }
    let strangers = walk.tally().strangers;
    if strangers > 0 {
        let objects = count(strangers, "object");
        page.screen.say(&format!("skipped {objects} whose keys are not those of an archive"))?;
    }
    Ok(unread)
}

/// Returns the place and the reason of something that could not be read.
fn text(unread: &UnreadItem) -> String {
    let key = harmless(&unread.key);
    let place = unread.line.map_or(key.clone(), |line| format!("{key}:{line}"));
    format!("{place}: {}", harmless(&unread.why.to_string()))
}
