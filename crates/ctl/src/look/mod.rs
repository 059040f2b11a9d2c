//! `redrivectl look`: shows the letters of a queue before anything is deployed.
//!
//! | file | subject |
//! |---|---|
//! | `looked_queue` | the queue, and the reasons not to look at it |
//! | `take_letters` | receives letters, and gives them back |
//! | `letter_groups` | the letters in groups, with what the policy would do |
//! | `group_causes` | why SNS may have given up |
//! | `setup_file` | the file of parameters of `--init` |
//! | `report` | the result as text and JSON |

mod group_causes;
mod letter_groups;
mod looked_queue;
mod report;
mod setup_file;
mod take_letters;

use std::collections::HashMap;
use std::io::Write;

use redrive_aws::clients::AwsClients;
use redrive_core::arn::Arn;
use redrive_core::failure::Failure;
use redrive_core::policy::Policy;
use serde_json::Value;

use crate::args;
use crate::aws::AwsAccess;
use crate::console::{CommandEnd, CommandFailure, ToolEnvironment, read_policy_text, unless_interrupted};
use crate::doctor::read_queue;
use crate::endpoint_state::{EndpointReader, WebProber};
use crate::tables::{count, harmless, wrapped};
use group_causes::GroupCauses;
use letter_groups::LetterGroups;
use looked_queue::LookedQueue;
use report::LookReport;
use setup_file::{SetupAnswers, SetupFile};
use take_letters::{TakeEnd, TakenLetters};

/// The columns that a text may fill.
const WIDTH: usize = 100;

pub(super) async fn run(
    args: &args::LookArgs,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<CommandEnd, CommandFailure> {
    console.can_confirm(args.yes)?;
    let (policy, policy_text) = match args.policy.as_deref() {
        Some(file) => read_policy_text(file, console).map(|(policy, text)| (policy, Some(text)))?,
        None => (Policy::built_in(), None),
    };
    // Before anything is received: each look counts.
    if let Some(file) = args.init.as_deref().filter(|file| file.exists()) {
        let problem =
            format!("{} exists: name another file for --init", harmless(&file.display().to_string()));
        return Err(CommandFailure::Input(vec![problem]));
    }
    let aws = AwsAccess::connect(&args.connection, console).await?;
    let clients = aws.clients();
    let looked = LookedQueue::of(&args.queue, &aws).await?;
    if !args.yes {
        writeln!(console.err, "{}", wrapped(&says(&looked, args), WIDTH, 0))?;
        console.confirm(false, "Look at them?")?;
    }
    // Before Ctrl-C is watched for, which would not end a question.
    let answers = SetupAnswers::ask(args, &aws, &looked.queue.arn, console).await?;
    let stop = (console.interrupts)()?;
    let (arn, now) = (&looked.queue.arn, console.clock.now());
    let mut groups = LetterGroups::new(&policy, looked.retention, args.schedule_from, now);
    let mut sources = SourceQueues::default();
    let taken = TakenLetters::receive(&clients.sqs, arn, args.letters, &stop, async |message| {
        let most = match message.source_queue() {
            Some(source) => sources.max_receives(&clients, source).await,
            None => None,
        };
        groups.add(message, most);
    })
    .await;
    let (number, unreadable, end) = (taken.number(), taken.unreadable, taken.end.clone());
    let returned = taken.give_back(&clients.sqs, arn).await;
    if let Some(why) = &returned.why {
        let stay = count(returned.failed, "letter");
        writeln!(
            console.err,
            "redrivectl: {stay} could not be given back ({}), and will be visible again within a minute",
            harmless(&why.told())
        )?;
    }
    match end {
        TakeEnd::Interrupted if returned.failed == 0 => {
            return Err(CommandFailure::Stopped("interrupted: all letters are given back".to_owned()));
        }
        TakeEnd::Interrupted => return Ok(CommandEnd::Partly),
        TakeEnd::Failed(failure) if number == 0 => return Err(refused(arn, &failure)),
        _ => {}
    }
    let groups = groups.sorted();
    let reader = EndpointReader::new(&aws, args.probe.then(|| WebProber::new(console)));
    let causes = GroupCauses::read(&aws, &reader, arn, &groups, console);
    let causes = Box::pin(unless_interrupted(Some(&stop), async { Ok(Box::pin(causes).await) })).await?;
    let given = policy_text.as_deref().map(|text| (&policy, text));
    let setup_file = SetupFile::write(args, &aws, &looked, &groups, given, &answers, console).await?;
    let report = LookReport {
        setup_file,
        looked,
        groups,
        causes,
        letters: u64::from(number),
        unreadable,
        end,
        has_failed: returned.failed > 0,
        policy: &policy,
    };
    console.print(&report, as_json)
}

/// Says what looking does, before it is done.
fn says(looked: &LookedQueue, args: &args::LookArgs) -> String {
    let LookedQueue { queue, visible, hidden, .. } = looked;
    format!(
        "{} has about {} to receive, and about {hidden} hidden. Looking receives up to {}, hides them for a minute at \
         most, and gives them back. Each look is a receive: receive counts grow by one, and other readers of the queue do \
         not get these letters meanwhile.",
        queue.arn,
        count(*visible, "letter"),
        count(args.letters.into(), "letter"),
    )
}

fn refused(queue: &Arn, failure: &Failure) -> CommandFailure {
    let why = format!("cannot receive from {queue}: sqs:ReceiveMessage failed ({})", failure.told());
    CommandFailure::of_call(why, failure.is_denied())
}

/// The source queues of letters that SQS moved, with their `maxReceiveCount`.
#[derive(Default)]
struct SourceQueues(HashMap<Arn, Option<u32>>);

impl SourceQueues {
    async fn max_receives(&mut self, clients: &AwsClients, source: Arn) -> Option<u32> {
        if let Some(known) = self.0.get(&source) {
            return *known;
        }
        let queue = read_queue(&clients.sqs, source.clone()).await;
        let policy: Value =
            serde_json::from_str(queue.attribute("RedrivePolicy").unwrap_or_default()).unwrap_or_default();
        // SQS also takes the number as text, and returns it as it got it.
        let most = &policy["maxReceiveCount"];
        let most = most.as_u64().or_else(|| most.as_str()?.parse().ok()).and_then(|it| it.try_into().ok());
        self.0.insert(source, most);
        most
    }
}
