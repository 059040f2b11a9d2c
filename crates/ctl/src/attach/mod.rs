//! `redrivectl attach`: names a queue as the dead-letter queue of subscriptions, and takes that back.
//!
//! | file | subject |
//! |---|---|
//! | `select` | the subscriptions of the command line |
//! | `step` | what is to be done with each, without calls |
//! | `row` | a subscription, what it names, and what became of it |
//! | `failure` | the failures that end the command |
//! | `owner` | the stacks and tools that may own a subscription |
//! | `change` | the calls that change subscriptions |
//! | `record_file` | the file with what was there before |
//! | `result` | the text and the JSON of the command |

mod change;
mod failure;
mod owner;
mod record_file;
mod result;
mod row;
mod select;
mod step;

use std::path::PathBuf;

use jiff::tz::TimeZone;
use redrive_core::arn::Arn;

use change::change;
use failure::{bad, needed};
use owner::owners;
use record_file::ChangeRecord;
use result::AttachResult;
use row::{RowStep, SubscriptionRow};
use select::SelectedSubscriptions;

use crate::args;
use crate::aws::AwsAccess;
use crate::console::{CommandEnd, CommandFailure, ToolEnvironment};
use crate::doctor::{DeployedQueue, MANAGED_KEY, QueueKey, ResourcePolicy, key_of, own_key};
use crate::named_queue::arn_of;
use crate::overrides::show_lines;
use crate::tables::count;

/// The outputs of a stack that name its queues.
const DEAD_LETTERS_OUTPUT: &str = "DeadLetterQueueArn";
const REQUEUE_OUTPUT: &str = "RequeueArn";

pub(super) async fn run(
    args: &args::AttachArgs,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<CommandEnd, CommandFailure> {
    let Some(file) = &args.which.undo else {
        let named = queue_name(args, console)?;
        let aws = AwsAccess::connect(&args.connection, console).await?;
        let queue = arn_of(&named, &aws).await?;
        check(&queue, &aws, console)?;
        return attach(queue, &aws, args, as_json, console).await;
    };
    let record = ChangeRecord::read(file)?;
    let aws = AwsAccess::connect(&args.connection, console).await?;
    in_region(&record.queue, &aws)?;
    let selected = select::of_record(&aws, &record, console).await;
    let rows = selected.rows(|it| step::back(it, &record));
    let result = AttachResult::new(rows, &selected, record.queue.clone(), true);
    carry_out(result, &aws, None, args, as_json, console).await
}

/// Returns the queue that the command line or the stack names: its name, URL or ARN.
fn queue_name(args: &args::AttachArgs, console: &ToolEnvironment) -> Result<String, CommandFailure> {
    match &args.queue {
        Some(named) => Ok(named.clone()),
        None => console.stack.required(DEAD_LETTERS_OUTPUT, "--queue")?.ok_or_else(|| {
            bad("no queue is named: give --stack NAME (or REDRIVE_STACK) or --queue NAME".to_owned())
        }),
    }
}

fn check(queue: &Arn, aws: &AwsAccess, console: &ToolEnvironment) -> Result<(), CommandFailure> {
    if console.stack.output(REQUEUE_OUTPUT)?.as_deref() == Some(queue.as_str()) {
        return Err(bad(format!(
            "{queue} is the requeue, where only the function and replays may write: name the dead-letter queue"
        )));
    }
    in_region(queue, aws)
}

/// Checks that the queue is in the region of the connection.
fn in_region(queue: &Arn, aws: &AwsAccess) -> Result<(), CommandFailure> {
    let (here, there) = (aws.region(), queue.region());
    if here == there {
        return Ok(());
    }
    Err(bad(format!(
        "{queue} is in {there}, and this command asks SNS in {here}: give --region {there}. A dead-letter queue is in \
         the region of its subscriptions"
    )))
}

async fn attach(
    queue: Arn,
    aws: &AwsAccess,
    args: &args::AttachArgs,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<CommandEnd, CommandFailure> {
    let clients = aws.clients();
    let queue = crate::doctor::read_queue(&clients.sqs, queue).await;
    if let Err(error) = &queue.attributes {
        return Err(needed(&format!("the queue {}", queue.arn), error));
    }
    if matches!(key_of(&queue), QueueKey::Managed) {
        return Err(bad(format!(
            "{} {MANAGED_KEY}. Nothing was done; redrivectl doctor has the command that mends it",
            queue.arn
        )));
    }
    let selected = SelectedSubscriptions::of(&clients.sns, &args.which, &queue.arn, console).await?;
    let policy = ResourcePolicy::of(queue.attribute("Policy").unwrap_or_default());
    let mut rows = selected.rows(|it| step::forward(it, &queue, &policy, args.replace));
    step::one_of_each_topic(&mut rows, &queue.arn);
    let mut notes = notes_of_queue(&queue, &policy, &rows);
    notes.extend(owners(&aws.formation(), &clients.sns, &mut rows, console).await);
    let mut result = AttachResult::new(rows, &selected, queue.arn, false);
    result.notes = notes;
    result.cli_options = args.connection.of_aws_cli();
    let now = console.clock.now();
    let file = args.record.clone().unwrap_or_else(|| {
        let time = now.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%S%.3fZ");
        PathBuf::from(format!("redrivectl-attach-{time}.json"))
    });
    let record = ChangeRecord::new(now, &result.queue, &result.rows);
    carry_out(result, aws, Some((record, file)), args, as_json, console).await
}

/// Returns what nobody can see of the queue, or what does not let SNS write there.
fn notes_of_queue(queue: &DeployedQueue, policy: &ResourcePolicy, rows: &[SubscriptionRow]) -> Vec<String> {
    let mut notes = Vec::new();
    if let QueueKey::Own(key) = key_of(queue) {
        notes.push(format!("The queue {}", own_key(key)));
    }
    let topics = rows.iter().filter(|row| row.step == RowStep::Change).map(|row| row.topic.as_str());
    let topics: std::collections::BTreeSet<_> = topics.collect();
    for topic in topics.into_iter().filter(|topic| step::is_unclear(policy, topic, queue)) {
        notes.push(format!(
            "Cannot tell whether SNS may write for {topic}: the queue's policy has conditions that this tool does not \
             know."
        ));
    }
    notes
}

/// Shows what is to be done, asks, and does it. `record` is what to write down before.
async fn carry_out(
    mut result: AttachResult,
    aws: &AwsAccess,
    record: Option<(ChangeRecord, PathBuf)>,
    args: &args::AttachArgs,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<CommandEnd, CommandFailure> {
    let number = result.number(|row| row.step == RowStep::Change);
    if args.dry_run || number == 0 {
        result.shows_rows = true;
        return console.print(&result, as_json);
    }
    show_lines(&result.preview(), args.yes, as_json, console)?;
    let what = if result.is_undo { "Give back" } else { "Change" };
    console.confirm(args.yes, &format!("{what} the redrive policy of {}?", count(number, "subscription")))?;
    let stop = (console.interrupts)()?;
    if let Some((record, file)) = record {
        record.write(&file)?;
        result.record = Some(file);
    }
    result.is_stopped = change(&aws.clients().sns, &mut result.rows, &stop, console).await;
    if let Some(file) = &result.record {
        let undo = file.to_string_lossy();
        result.undo = Some(console.stack.further().command(&["attach", "--undo", undo.as_ref()]));
    }
    console.print(&result, as_json)
}
