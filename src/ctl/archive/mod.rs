//! `redrivectl archive`: what lies in an archive.

mod list;
mod show;

use std::io::Write;

use super::text::{count, harmless, thousands};
use super::{Desk, Failed, Finished, args};
use crate::archive::{Archived, Found, Pattern, Selection, Unread, Walk};
use crate::settings::{ArchiveAt, Settings};

pub(super) async fn run(args: &args::Archive, as_json: bool, desk: &mut Desk) -> Result<Finished, Failed> {
    match &args.command {
        args::ArchiveCommand::List(args) => list::run(args, as_json, desk).await,
        args::ArchiveCommand::Show(args) => show::run(args, as_json, desk).await,
    }
}

/// An archive in S3.
pub(super) struct Place {
    pub(super) bucket: String,
    pub(super) prefix: String,
}

/// The archive that is named on the command line, else by the function's own variable.
pub(super) fn place(args: &args::Place, desk: &Desk) -> Result<Place, Failed> {
    let given = args.archive.clone().or_else(|| (desk.variable)("ARCHIVE"));
    // The function's own reading of this setting; the others are left out.
    match Settings::read(|name| given.clone().filter(|_| name == "ARCHIVE")).map(|settings| settings.archive)
    {
        Ok(ArchiveAt::S3 { bucket, prefix }) => Ok(Place { bucket, prefix }),
        Ok(ArchiveAt::Queue(_)) => {
            let problem = "an archive in a queue cannot be looked into; read that queue instead";
            Err(Failed::Input(vec![problem.to_owned()]))
        }
        Err(bad) => {
            let faults = bad.0.into_iter();
            Err(Failed::Input(
                faults.map(|fault| format!("--archive (or ARCHIVE) {}", fault.problem)).collect(),
            ))
        }
    }
}

pub(super) fn selection(args: &args::Selection, desk: &Desk) -> Result<Selection, Failed> {
    let now = desk.clock.now();
    let pattern = args.pattern.as_deref().map(Pattern::parse).transpose().map_err(|problems| {
        Failed::Input(problems.into_iter().map(|problem| format!("--match {problem}")).collect())
    })?;
    Ok(Selection {
        queue: args.queue.clone(),
        from: args.since.map(|when| when.at(now)),
        to: args.until.map(|when| when.at(now)),
        cut_off: None,
        reasons: args.reason.clone(),
        topics: args.topic.clone(),
        origins: args.origin.clone(),
        pattern,
    })
}

/// Walks an archive; each letter is handed to `take`, and what could not be read is said as it comes.
/// The answer is how many things could not be read.
async fn walk(
    mut walk: Walk<'_>,
    desk: &mut Desk,
    mut take: impl FnMut(&mut Desk, Archived) -> Result<(), Failed>,
) -> Result<u64, Failed> {
    let mut unread = 0;
    let mut shown = Progress::default();
    while let Some(found) = walk.next().await {
        match found {
            Found::Letter(letter) => take(desk, *letter)?,
            Found::Unread(what) => {
                unread += 1;
                shown.clear(desk)?;
                say(&what, desk)?;
            }
        }
        shown.show(desk, walk.tally().records)?;
    }
    shown.clear(desk)?;
    let strangers = walk.tally().strangers;
    if strangers > 0 {
        let objects = count(strangers, "object");
        writeln!(desk.err, "redrivectl: passed over {objects} with keys that no archive has")?;
    }
    Ok(unread)
}

/// What could not be read: where, and why.
fn say(unread: &Unread, desk: &mut Desk) -> Result<(), Failed> {
    let key = harmless(&unread.key);
    let place = unread.line.map_or(key.clone(), |line| format!("{key}:{line}"));
    Ok(writeln!(desk.err, "redrivectl: {place}: {}", harmless(&unread.why.to_string()))?)
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
    fn show(&mut self, desk: &mut Desk, records: u64) -> Result<(), Failed> {
        if desk.progress && records >= self.shown + STEP {
            (self.shown, self.on_screen) = (records, true);
            write!(desk.err, "\r{} records read", thousands(records))?;
            desk.err.flush()?;
        }
        Ok(())
    }

    /// Makes room for a line of text.
    fn clear(&mut self, desk: &mut Desk) -> Result<(), Failed> {
        if std::mem::take(&mut self.on_screen) {
            write!(desk.err, "\r\x1b[K")?;
        }
        Ok(())
    }
}
