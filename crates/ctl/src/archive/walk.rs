//! The walk through an archive, with its progress.

use super::replayed::Replayed;
use crate::console::{Console, Failed};
use crate::screen::Page;
use crate::text::{count, harmless, thousands};
use sns_redrive::archive::{Archived, Found, Unread, Walk};

/// The number of records between two updates of the progress line.
const STEP: u64 = 500;

/// Walks an archive, and passes each selected letter to `take`, with whether a replay has sent it. Prints
/// what could not be read, and returns its number.
pub(super) async fn walk(
    mut walk: Walk<'_>,
    replayed: &mut Replayed,
    console: &mut Console,
    mut take: impl FnMut(&mut Page<'_>, Archived, bool) -> Result<(), Failed>,
) -> Result<u64, Failed> {
    let mut page = Page::new(console);
    let (mut unread, mut shown) = (0, 0);
    while let Some(found) = walk.next().await {
        match found {
            Found::Letter(letter) => {
                let has_gone = replayed.has(&letter, &mut page.screen).await?;
                if !(has_gone && replayed.leaves_out) {
                    take(&mut page, *letter, has_gone)?;
                }
            }
            Found::Unread(what) => {
                unread += 1;
                page.screen.say(&text(&what))?;
            }
        }
        let records = walk.tally().records;
        if records >= shown + STEP {
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
fn text(unread: &Unread) -> String {
    let key = harmless(&unread.key);
    let place = unread.line.map_or(key.clone(), |line| format!("{key}:{line}"));
    format!("{place}: {}", harmless(&unread.why.to_string()))
}
