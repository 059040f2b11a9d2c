//! The walk through an archive, with its progress.

use std::io::Write;

use crate::console::{Console, Failed};
use crate::text::{count, harmless, thousands};
use sns_redrive::archive::{Archived, Found, Unread, Walk};

/// Walks an archive; each letter is handed to `take`, and what could not be read is said as it comes.
/// The answer is how many things could not be read.
pub(super) async fn walk(
    mut walk: Walk<'_>,
    console: &mut Console,
    mut take: impl FnMut(&mut Console, Archived) -> Result<(), Failed>,
) -> Result<u64, Failed> {
    let mut unread = 0;
    let mut shown = Progress::default();
    while let Some(found) = walk.next().await {
        match found {
            Found::Letter(letter) => take(console, *letter)?,
            Found::Unread(what) => {
                unread += 1;
                shown.clear(console)?;
                say(&what, console)?;
            }
        }
        shown.show(console, walk.tally().records)?;
    }
    shown.clear(console)?;
    let strangers = walk.tally().strangers;
    if strangers > 0 {
        let objects = count(strangers, "object");
        writeln!(console.err, "redrivectl: passed over {objects} with keys that no archive has")?;
    }
    Ok(unread)
}

/// What could not be read: where, and why.
fn say(unread: &Unread, console: &mut Console) -> Result<(), Failed> {
    let key = harmless(&unread.key);
    let place = unread.line.map_or(key.clone(), |line| format!("{key}:{line}"));
    Ok(writeln!(console.err, "redrivectl: {place}: {}", harmless(&unread.why.to_string()))?)
}

/// How far a long walk is; on a terminal only.
#[derive(Default)]
struct Progress {
    shown: u64,
    on_screen: bool,
}

/// Records between two changes of the line.
const STEP: u64 = 500;

impl Progress {
    fn show(&mut self, console: &mut Console, records: u64) -> Result<(), Failed> {
        if console.progress && records >= self.shown + STEP {
            (self.shown, self.on_screen) = (records, true);
            write!(console.err, "\r{} records read", thousands(records))?;
            console.err.flush()?;
        }
        Ok(())
    }

    /// Makes room for a line of text.
    fn clear(&mut self, console: &mut Console) -> Result<(), Failed> {
        if std::mem::take(&mut self.on_screen) {
            write!(console.err, "\r\x1b[K")?;
        }
        Ok(())
    }
}
