//! The prefix in S3 that operators and the function share: orders, and the list of waiting letters.

mod document;
mod list;

use aws_sdk_s3::Client;

use crate::archive::s3_place;
use crate::args;
use crate::console::{Console, Failed};
use sns_redrive::clients::{ServerTime, failure_of_call};

pub(crate) use document::{Change, Release};
pub(crate) use list::{Line, List};

/// The prefix, and the client that reaches it.
#[derive(Debug, Clone)]
pub(crate) struct Control {
    s3: Client,
    bucket: String,
    prefix: String,
    /// The time of S3 when it last answered a read.
    time: ServerTime,
}

impl Control {
    pub(crate) fn new(s3: Client, (bucket, prefix): (String, String)) -> Self {
        Self { s3, bucket, prefix, time: ServerTime::default() }
    }
}

/// The place of orders and of the list: that of `--control`, else the one that follows from `--archive`, else that of the
/// variable `CONTROL`, else the one that follows from `ARCHIVE`. What is written on the command line goes before any variable.
pub(crate) fn place(args: &args::ControlPlace, console: &Console) -> Result<(String, String), Failed> {
    let of_variable = || variable("CONTROL", console).filter(|_| args.archive.is_none());
    let control = args.control.clone().or_else(of_variable);
    let off = "the function reads no orders and lists no waiting letters";
    found(control, args.archive.as_deref(), off, console)
}

/// The place of what replays keep: that of `--control`, else that of the variable `CONTROL`, else the one that follows from
/// the archive. Whoever names the archive does not name another place, or two replays would know nothing of each other.
pub(crate) fn place_of_replays(
    args: &args::ReplayPlace,
    console: &Console,
) -> Result<(String, String), Failed> {
    let control = args.control.clone().or_else(|| variable("CONTROL", console));
    found(
        control,
        args.archive.archive.as_deref(),
        "replays keep there what they have sent; give --control",
        console,
    )
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
) -> Result<(String, String), Failed> {
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
    let (bucket, prefix) = s3_place(&archive, "--archive (or ARCHIVE)")?;
    // As the function has it.
    if prefix.is_empty() {
        return bad("an archive without a prefix leaves no place for orders beside it: give --control");
    }
    Ok((bucket, format!("{prefix}-control")))
}

/// The error of a call to S3, in words.
fn failed<E>(what: &str, error: &aws_sdk_s3::error::SdkError<E>) -> Failed
where
    E: aws_sdk_s3::error::ProvideErrorMetadata,
{
    let failure = failure_of_call(error);
    let message = failure.message.map_or(String::new(), |message| format!(": {message}"));
    Failed::Work(format!("{what}: {}{message}", failure.code))
}
