//! The places in S3 that a command line names: the archive, and the control prefix.

use crate::args;
use crate::console::{Console, Failed};
use sns_redrive::arn::{Arn, ArnKind};
use sns_redrive::settings::{ArchiveAt, Settings};

/// A bucket, and the prefix of every key in it.
pub(crate) struct Place {
    pub(crate) bucket: String,
    pub(crate) prefix: String,
}

/// The archive that is named on the command line, else by the function's own variable.
pub(crate) fn archive(args: &args::Place, console: &Console) -> Result<Place, Failed> {
    let stack = &console.stack;
    let given = match &args.archive {
        Some(archive) => Some(archive.clone()),
        None => stack.required("ArchiveLocation", "--archive")?.or_else(|| variable("ARCHIVE", console)),
    };
    let whose = "--archive (or ARCHIVE)";
    match archive_at(given.as_deref(), whose)? {
        ArchiveAt::S3 { bucket, prefix } => Ok(Place { bucket, prefix }),
        ArchiveAt::Queue(_) => {
            let problem = "an archive in a queue cannot be looked into; read that queue instead";
            Err(Failed::Input(vec![problem.to_owned()]))
        }
    }
}

/// The place of orders and of the list: that of `--control`, else the one that follows from `--archive`, else that of the
/// stack, else that of the variable `CONTROL`, else the one that follows from `ARCHIVE`. What is written on the command line
/// goes before any variable.
pub(crate) fn control(args: &args::ControlPlace, console: &Console) -> Result<Place, Failed> {
    let control = match (&args.control, &args.archive) {
        (None, None) => known_control(console)?,
        (control, _) => control.clone(),
    };
    let off = "the function reads no orders and lists no waiting letters";
    found(control, args.archive.as_deref(), off, console)
}

/// The place of what replays keep: that of `--control`, else that of the stack, else that of the variable `CONTROL`, else
/// the one that follows from the archive. Whoever names the archive does not name another place, or two replays would know
/// nothing of each other.
pub(crate) fn replays(args: &args::ReplayPlace, console: &Console) -> Result<Place, Failed> {
    let control = match &args.control {
        Some(control) => Some(control.clone()),
        None => known_control(console)?,
    };
    found(
        control,
        args.archive.archive.as_deref(),
        "replays keep there what they have sent; give --control",
        console,
    )
}

/// The requeue that is named on the command line, else by the stack, else by the function's own variable.
pub(crate) fn requeue(given: Option<&str>, console: &Console) -> Result<Arn, Failed> {
    let text = if let Some(given) = given {
        Some(given.to_owned())
    } else {
        let of_stack = console.stack.required("RequeueArn", "--requeue")?;
        of_stack.or_else(|| variable("REQUEUE_ARN", console))
    };
    let arn = text.and_then(|text| text.parse::<Arn>().ok()).filter(|arn| arn.kind() == ArnKind::Queue);
    let bad = "--requeue (or REQUEUE_ARN) must be the ARN of the function's requeue";
    arn.ok_or_else(|| Failed::Input(vec![bad.to_owned()]))
}

/// The control prefix of the stack, else of the function's own variable.
fn known_control(console: &Console) -> Result<Option<String>, Failed> {
    let of_stack = console.stack.required("ControlLocation", "--control")?;
    Ok(of_stack.or_else(|| variable("CONTROL", console)))
}

fn variable(name: &str, console: &Console) -> Option<String> {
    (console.variable)(name).filter(|value| !value.is_empty())
}

/// The bucket and the prefix of a control prefix, else those that follow from the archive. `off` says what is missing where
/// the function has no control prefix.
fn found(
    control: Option<String>,
    archive: Option<&str>,
    off: &str,
    console: &Console,
) -> Result<Place, Failed> {
    let bad = |problem: &str| Err(Failed::Input(vec![problem.to_owned()]));
    if let Some(control) = control {
        if control == "off" {
            return bad(&format!("CONTROL is off: {off}"));
        }
        return s3_place(&control, "--control (or CONTROL)");
    }
    let Some(archive) = archive.map(str::to_owned).or_else(|| variable("ARCHIVE", console)) else {
        return bad(
            "--control (or CONTROL) is missing: s3://bucket/prefix, as the function has it; --archive (or ARCHIVE) will do \
             where the function has no CONTROL of its own",
        );
    };
    let Place { bucket, prefix } = s3_place(&archive, "--archive (or ARCHIVE)")?;
    // As the function has it.
    if prefix.is_empty() {
        return bad("an archive without a prefix leaves no place for orders beside it: give --control");
    }
    Ok(Place { bucket, prefix: format!("{prefix}-control") })
}

/// A place in S3, as it is written.
fn s3_place(text: &str, whose: &str) -> Result<Place, Failed> {
    match archive_at(Some(text), whose)? {
        ArchiveAt::S3 { bucket, prefix } => Ok(Place { bucket, prefix }),
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
