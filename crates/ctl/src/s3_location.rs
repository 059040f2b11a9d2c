//! The places in S3 that a command line names: the archive, and the control prefix.

use crate::args;
use crate::console::{CommandFailure, ToolEnvironment};
use redrive_aws::settings::{ArchiveAt, Settings};
pub(crate) use redrive_console::BucketPrefix;
use redrive_core::arn::{Arn, ArnKind};

/// Returns the archive of the command line, else of the stack, else of the function's own variable.
pub(crate) fn archive(
    args: &args::ArchiveOption,
    console: &ToolEnvironment,
) -> Result<BucketPrefix, CommandFailure> {
    let stack = &console.stack;
    let given = match &args.archive {
        Some(archive) => Some(archive.clone()),
        None => stack.required("ArchiveLocation", "--archive")?.or_else(|| variable("ARCHIVE", console)),
    };
    let whose = "--archive (or ARCHIVE)";
    if given.is_none() {
        let problem = "which stack? Give --stack NAME (or REDRIVE_STACK), or --archive (or ARCHIVE)";
        return Err(CommandFailure::Input(vec![problem.to_owned()]));
    }
    match archive_at(given.as_deref(), whose)? {
        ArchiveAt::S3 { bucket, prefix } => Ok(BucketPrefix { bucket, prefix }),
        ArchiveAt::Queue(_) => {
            let problem =
                "the archive is a queue, which this command cannot read; receive from that queue instead";
            Err(CommandFailure::Input(vec![problem.to_owned()]))
        }
    }
}

/// Returns the place of overrides and of the list: from `--control`, else from `--archive`, else from the stack,
/// else from the variable `CONTROL`, else from `ARCHIVE`. Options win over variables.
pub(crate) fn control(
    args: &args::ControlPlace,
    console: &ToolEnvironment,
) -> Result<BucketPrefix, CommandFailure> {
    let control = match (&args.control, &args.archive) {
        (None, None) => known_control(console)?,
        (control, _) => control.clone(),
    };
    let off = "the function reads no overrides and lists no waiting letters. Deploy it with Overrides=on to use them";
    found(control, args.archive.as_deref(), off, console)
}

/// Returns the place of the records of replays: from `--control`, else from the stack, else from the variable
/// `CONTROL`, else from the archive. Two replays of an archive must know of each other, so another archive than the
/// function's needs `--control`.
pub(crate) fn replays(
    args: &args::ReplayPlace,
    console: &ToolEnvironment,
) -> Result<BucketPrefix, CommandFailure> {
    let control = match &args.control {
        Some(control) => Some(control.clone()),
        None => known_control(console)?,
    };
    if let (None, Some(_), Some(given)) = (&args.control, &control, &args.archive.archive) {
        refuse_another_archive(given, console)?;
    }
    found(
        control,
        args.archive.archive.as_deref(),
        "replays record there which letters they have sent; give --control",
        console,
    )
}

fn refuse_another_archive(given: &str, console: &ToolEnvironment) -> Result<(), CommandFailure> {
    let own = args::ArchiveOption { archive: None };
    let given = s3_place(given, "--archive (or ARCHIVE)")?;
    // If the function's archive is unknown there is nothing to compare.
    let Ok(own) = archive(&own, console) else { return Ok(()) };
    if (&own.bucket, &own.prefix) == (&given.bucket, &given.prefix) {
        return Ok(());
    }
    let BucketPrefix { bucket, prefix } = given;
    let usual = if prefix.is_empty() {
        String::new()
    } else {
        format!(", by default s3://{bucket}/{prefix}-control")
    };
    Err(CommandFailure::Input(vec![format!(
        "--archive is not the archive of the function: what was replayed from it is recorded below its own control \
         prefix{usual}. Give that as --control"
    )]))
}

/// Returns the requeue of the command line, else of the stack, else of the function's own variable.
pub(crate) fn requeue(given: Option<&str>, console: &ToolEnvironment) -> Result<Arn, CommandFailure> {
    let text = if let Some(given) = given {
        Some(given.to_owned())
    } else {
        let of_stack = console.stack.required("RequeueArn", "--requeue")?;
        of_stack.or_else(|| variable("REQUEUE_ARN", console))
    };
    let arn = text.and_then(|text| text.parse::<Arn>().ok()).filter(|arn| arn.kind() == ArnKind::Queue);
    let bad = "--requeue (or REQUEUE_ARN) must be the ARN of the function's requeue";
    arn.ok_or_else(|| CommandFailure::Input(vec![bad.to_owned()]))
}

/// Returns the control prefix of the stack, else of the function's own variable.
fn known_control(console: &ToolEnvironment) -> Result<Option<String>, CommandFailure> {
    let of_stack = console.stack.required("ControlLocation", "--control")?;
    Ok(of_stack.or_else(|| variable("CONTROL", console)))
}

fn variable(name: &str, console: &ToolEnvironment) -> Option<String> {
    (console.variable)(name).filter(|value| !value.is_empty())
}

/// Returns the given control prefix, or else the one that follows from the archive. `off` says what is
/// missing if the function has no control prefix.
fn found(
    control: Option<String>,
    archive: Option<&str>,
    off: &str,
    console: &ToolEnvironment,
) -> Result<BucketPrefix, CommandFailure> {
    let bad = |problem: &str| Err(CommandFailure::Input(vec![problem.to_owned()]));
    if let Some(control) = control {
        if control == "off" {
            return bad(&format!("CONTROL is off: {off}"));
        }
        return s3_place(&control, "--control (or CONTROL)");
    }
    let Some(archive) = archive.map(str::to_owned).or_else(|| variable("ARCHIVE", console)) else {
        return bad(
            "which stack? Give --stack NAME (or REDRIVE_STACK), or --control (or CONTROL) with the function's own value, \
             s3://bucket/prefix; if the function has no CONTROL, give --archive (or ARCHIVE)",
        );
    };
    let BucketPrefix { bucket, prefix } = s3_place(&archive, "--archive (or ARCHIVE)")?;
    // The function has the same requirement.
    if prefix.is_empty() {
        return bad("the archive has no prefix, so no place for overrides follows from it: give --control");
    }
    Ok(BucketPrefix { bucket, prefix: format!("{prefix}-control") })
}

/// Reads a place in S3.
fn s3_place(text: &str, whose: &str) -> Result<BucketPrefix, CommandFailure> {
    match archive_at(Some(text), whose)? {
        ArchiveAt::S3 { bucket, prefix } => Ok(BucketPrefix { bucket, prefix }),
        ArchiveAt::Queue(_) => {
            Err(CommandFailure::Input(vec![format!("{whose} must be s3://bucket/prefix; overrides need S3")]))
        }
    }
}

/// Reads an archive with the function's own parser.
fn archive_at(text: Option<&str>, whose: &str) -> Result<ArchiveAt, CommandFailure> {
    let archive = |name: &str| text.filter(|_| name == "ARCHIVE").map(str::to_owned);
    Settings::read(archive).map(|settings| settings.archive).map_err(|bad| {
        CommandFailure::Input(bad.0.into_iter().map(|fault| format!("{whose} {}", fault.problem)).collect())
    })
}
