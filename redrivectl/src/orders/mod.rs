//! Orders: an operator's word about letters, while the function runs.
//!
//! `hold`, `retry` and `archive` give an order, `release` takes orders back, `orders` shows them. Each says first what it
//! would touch, by the list of waiting letters, and asks; then it writes; then it wakes what waits.

mod give;
mod picks;
mod preview;
mod release;
mod show;
mod wake;

pub(crate) use give::{archive, hold, reach, retry};
pub(crate) use preview::ends;
pub(crate) use release::run as release;
pub(crate) use show::run as list;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::args;
use crate::aws::{self, Aws};
use crate::console::{Console, Failed, check_interrupt};
use crate::control::{Change, Control};
use crate::place;

/// Letters with a retry that is due so soon wake by themselves, seconds.
const SOON: i64 = 60;

/// The prefix that a command works on, and its clients.
struct Connected {
    control: Control,
    sqs: aws_sdk_sqs::Client,
    sts: aws_sdk_sts::Client,
}

async fn connect(
    place_args: &args::ControlPlace,
    connection: &args::Connection,
    console: &Console,
) -> Result<Connected, Failed> {
    let place = place::control(place_args, console)?;
    let aws = Aws::connect(connection, console).await?;
    let clients = aws.clients();
    Ok(Connected { control: Control::new(clients.s3, place), sqs: clients.sqs, sts: aws.sts() })
}

/// The author of an order.
struct Signed {
    by: String,
    /// Whether AWS says so; else it is what the caller claims.
    checked: bool,
}

/// The name of the command line, else the ARN that AWS knows the caller by.
async fn signed(args: &args::Sign, sts: &aws_sdk_sts::Client) -> Result<Signed, Failed> {
    if let Some(by) = &args.by {
        return Ok(Signed { by: by.clone(), checked: false });
    }
    let by = aws::caller(sts).await;
    let failed = |why: &str| Failed::Work(format!("cannot ask AWS who you are: {why}; give --by NAME"));
    let by = by.map_err(|failure| failed(&failure.code))?;
    Ok(Signed { by, checked: true })
}

/// Begins to watch for Ctrl-C before anything is read, where nothing will be asked. A command that asks is ended by Ctrl-C, and
/// so is one that only shows.
fn watch_from_the_start(args: &args::Sign, console: &Console) -> Result<Option<Arc<AtomicBool>>, Failed> {
    let watches = args.yes && !args.dry_run;
    Ok(watches.then(|| (console.interrupts)()).transpose()?)
}

/// Writes a change, unless somebody has interrupted. Returns the flag by which the rest of the command is interrupted.
async fn write(
    control: &Control,
    change: &Change<'_>,
    stop: Option<Arc<AtomicBool>>,
    console: &Console,
) -> Result<Arc<AtomicBool>, Failed> {
    let stop = stop.map_or_else(|| (console.interrupts)(), Ok)?;
    check_interrupt(&stop)?;
    control.change(change).await?;
    Ok(stop)
}

/// Asks whether to go on, unless the command line has answered already.
fn confirm(args: &args::Sign, question: &str, console: &mut Console) -> Result<(), Failed> {
    let refused = |why: &str| Err(Failed::Input(vec![why.to_owned()]));
    if args.yes {
        return Ok(());
    }
    if !console.answers {
        return refused("there is no terminal to ask at: give --yes to go on without a question");
    }
    if console.confirms(question)? { Ok(()) } else { refused("not confirmed: nothing was done") }
}
