//! The archive and the letters in it that a command line names.

use serde_json::Value;

use crate::args;
use crate::console::{Console, Failed};
use sns_redrive::archive::{Pattern, Selection};
use sns_redrive::replay::Select;
use sns_redrive::settings::{ArchiveAt, Settings};

/// An archive in S3.
pub(crate) struct Place {
    pub(crate) bucket: String,
    pub(crate) prefix: String,
}

/// The archive that is named on the command line, else by the function's own variable.
pub(crate) fn place(args: &args::Place, console: &Console) -> Result<Place, Failed> {
    let given = args.archive.clone().or_else(|| (console.variable)("ARCHIVE"));
    let whose = "--archive (or ARCHIVE)";
    match archive_at(given.as_deref(), whose)? {
        ArchiveAt::S3 { bucket, prefix } => Ok(Place { bucket, prefix }),
        ArchiveAt::Queue(_) => {
            let problem = "an archive in a queue cannot be looked into; read that queue instead";
            Err(Failed::Input(vec![problem.to_owned()]))
        }
    }
}

/// The bucket and the prefix of a place in S3.
pub(crate) fn s3_place(text: &str, whose: &str) -> Result<(String, String), Failed> {
    match archive_at(Some(text), whose)? {
        ArchiveAt::S3 { bucket, prefix } => Ok((bucket, prefix)),
        ArchiveAt::Queue(_) => {
            Err(Failed::Input(vec![format!("{whose} must be s3://bucket/prefix; orders need S3")]))
        }
    }
}

/// The function's own reading of this setting; the others are left out.
fn archive_at(text: Option<&str>, whose: &str) -> Result<ArchiveAt, Failed> {
    let archive = |name: &str| text.filter(|_| name == "ARCHIVE").map(str::to_owned);
    Settings::read(archive).map(|settings| settings.archive).map_err(|bad| {
        Failed::Input(bad.0.into_iter().map(|fault| format!("{whose} {}", fault.problem)).collect())
    })
}

/// The archived letters that the command line asks for, in the form in which replays keep them.
pub(crate) fn select(args: &args::Selection, console: &Console) -> Result<Select, Failed> {
    let now = console.clock.now();
    let (from, to) = (args.since.map(|when| when.at(now)), args.until.map(|when| when.at(now)));
    if from.zip(to).is_some_and(|(since, until)| since >= until) {
        return Err(Failed::Input(vec!["--until must be later than --since".to_owned()]));
    }
    Ok(Select {
        queue: args.queue.clone(),
        from,
        to,
        reasons: args.reason.clone(),
        topics: args.topic.clone(),
        origins: args.origin.clone(),
        errors: args.error.clone(),
        targets: args.target.clone(),
        pattern: args.pattern.as_deref().map(pattern).transpose()?,
    })
}

/// A pattern that can be used; what is wrong with another names the option.
fn pattern(json: &str) -> Result<Value, Failed> {
    Pattern::parse(json).map_err(|problems| {
        Failed::Input(problems.into_iter().map(|problem| format!("--match {problem}")).collect())
    })?;
    serde_json::from_str(json).map_err(|error| Failed::Input(vec![format!("--match is not JSON: {error}")]))
}

/// The selection of archived letters that the command line asks for.
pub(super) fn selection(args: &args::Selection, console: &Console) -> Result<Selection, Failed> {
    let selection = select(args, console)?.selection(None).map_err(Failed::Input)?;
    Ok(Selection { requeue: (console.variable)("REQUEUE_ARN"), ..selection })
}
