//! `redrivectl archive`: what lies in an archive.

mod list;
mod show;

use std::io::Write;

use super::text::{count, harmless, thousands};
use super::{Console, Failed, Finished, args};
use sns_redrive::archive::{Archived, Found, Pattern, Selection, Unread, Walk};
use sns_redrive::settings::{ArchiveAt, Settings};

pub(super) async fn run(
    args: &args::Archive,
    as_json: bool,
    console: &mut Console,
) -> Result<Finished, Failed> {
    match &args.command {
        args::ArchiveCommand::List(args) => list::run(args, as_json, console).await,
        args::ArchiveCommand::Show(args) => show::run(args, as_json, console).await,
    }
}

/// An archive in S3.
pub(super) struct Place {
    pub(super) bucket: String,
    pub(super) prefix: String,
}

/// The archive that is named on the command line, else by the function's own variable.
pub(super) fn place(args: &args::Place, console: &Console) -> Result<Place, Failed> {
    let given = args.archive.clone().or_else(|| (console.variable)("ARCHIVE"));
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

pub(super) fn selection(args: &args::Selection, console: &Console) -> Result<Selection, Failed> {
    let now = console.clock.now();
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
