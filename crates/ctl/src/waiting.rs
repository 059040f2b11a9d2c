//! `redrivectl waiting`: counts hidden letters, and shows until when they wait.
//!
//! The list of waiting letters gives an upper bound: a delivered letter stays on it until it would have been
//! due, unless the function claimed it to wake it. The number for a whole queue comes from SQS, which gives approximate numbers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_sqs::types::QueueAttributeName;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use redrive_aws::clients::failure_of_call;
use redrive_aws::control::WaitingList;
use redrive_core::arn::Arn;
use redrive_core::policy::{OverrideReach, ReachAnswer};
use redrive_core::waiting::WaitingLetter;
use serde_json::{Value, json};

use crate::args::{self, WaitingBy};
use crate::aws::AwsAccess;
use crate::console::{CommandEnd, CommandFailure, ToolEnvironment};
use crate::control::ControlAccess;
use crate::output::CommandResult;
use crate::overrides::reach;
use crate::s3_location;
use crate::tables::{TableNames, TextStyle, count, harmless, thousands, utc};

/// Waiting letters in groups, and the totals of their queues.
struct WaitingCounts {
    by: WaitingBy,
    groups: BTreeMap<Option<String>, DueCount>,
    /// The numbers of letters that each override or rule holds.
    held: BTreeMap<String, u64>,
    /// The totals of the queues, or why SQS gave none.
    queues: Vec<(Arn, Result<QueueTotal, String>)>,
    /// The number of letters whose endpoint is back, and which the function has claimed to wake them.
    claimed: u64,
    /// Lines and objects of the list that could not be read.
    unread: u64,
}

/// A number of waiting letters, and when the first and the last of them are due.
struct DueCount {
    letters: u64,
    first: Timestamp,
    last: Timestamp,
}

pub(super) async fn run(
    args: &args::WaitingArgs,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<CommandEnd, CommandFailure> {
    let counts = counted(args, console).await?;
    console.print(&counts, as_json)
}

/// Counts the waiting letters that a command line selects.
async fn counted(
    args: &args::WaitingArgs,
    console: &ToolEnvironment,
) -> Result<WaitingCounts, CommandFailure> {
    let reach = reach(&args.picks, &args.arrived, console)?;
    let place = s3_location::control(&args.place, console)?;
    let clients = AwsAccess::connect(&args.connection, console).await?.clients();
    let now = console.clock.now();
    let mut list = WaitingList::default();
    let keep = |_, letter: WaitingLetter| {
        let touches = reach.as_ref().map_or(ReachAnswer::Yes, |reach| reach.touches(&letter));
        let held = letter.held_by.clone();
        let queue = letter.queue_arn.clone();
        (touches > ReachAnswer::No).then(|| (name(&letter, args.by), held, queue))
    };
    let targets = reach.as_ref().and_then(OverrideReach::targets);
    let control = ControlAccess::new(clients.s3, place);
    control.read_waiting(&mut list, now, targets.as_deref(), keep, |_| ()).await?;

    let mut groups: BTreeMap<Option<String>, DueCount> = BTreeMap::new();
    let (mut held, mut queues, mut claimed) = (BTreeMap::new(), BTreeSet::new(), 0);
    for line in list.due_after(now) {
        let Some((name, by, queue)) = &line.kept else { continue };
        if line.claimed {
            claimed += 1;
            continue;
        }
        if let Some(by) = by {
            *held.entry(by.clone()).or_default() += 1;
        }
        queues.insert(queue.clone());
        let new = || DueCount { letters: 0, first: line.due, last: line.due };
        let group = groups.entry(name.clone()).or_insert_with(new);
        group.letters += 1;
        (group.first, group.last) = (group.first.min(line.due), group.last.max(line.due));
    }
    let mut totals = Vec::new();
    for queue in queues {
        let total = total(&clients.sqs, &queue).await;
        totals.push((queue, total));
    }
    Ok(WaitingCounts { by: args.by, groups, held, queues: totals, claimed, unread: list.unread() })
}

impl WaitingCounts {
    fn letters(&self) -> u64 {
        self.groups.values().map(|group| group.letters).sum()
    }

    /// Returns the groups as a table, the largest first. Hours stay in their order.
    fn table(&self, style: TextStyle) -> String {
        let header = [self.by.name(), "letters", "first due (UTC)", "last due (UTC)"];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        let names = TableNames::of(self.groups.keys().flatten().map(String::as_str), style);
        let mut groups: Vec<_> = self.groups.iter().collect();
        if self.by != WaitingBy::Due {
            groups.sort_by_key(|(_, group)| Reverse(group.letters));
        }
        // Every letter has a target. The function does not look it up for each that it hides.
        let unnamed = if self.by == WaitingBy::Target { "(not known)" } else { "(none)" };
        rows.extend(groups.into_iter().map(|(name, group)| {
            let name = name.as_deref().map_or(unnamed.to_owned(), |name| names.name(name));
            vec![name, thousands(group.letters), utc(group.first), utc(group.last)]
        }));
        style.table(&rows, &[1], &[])
    }
}

impl CommandResult for WaitingCounts {
    fn text(&self, style: TextStyle) -> String {
        let letters = self.letters();
        let mut lines = Vec::new();
        if letters > 0 {
            lines.push(self.table(style));
        }
        let listed = count(letters, "letter");
        let wait = if letters == 1 { "waits" } else { "wait" };
        lines.push(match self.unread {
            0 => {
                format!("At most {listed} {wait}, by the list of those hidden for more than two minutes.")
            }
            // A part of the list is no bound.
            unread => format!(
                "{listed} listed, of a list that was read in part: {} could not be read. It has letters hidden for more than two \
                 minutes.",
                thousands(unread)
            ),
        });
        if self.claimed > 0 {
            lines.push(format!(
                "Not counted: {} whose endpoint is back. The function has claimed them: most are delivered by now, some may wait.",
                count(self.claimed, "letter")
            ));
        }
        if !self.held.is_empty() {
            let held = self.held.iter();
            let by = held.map(|(by, letters)| format!("{} by {}", thousands(*letters), harmless(by)));
            let most = if self.unread == 0 { "at most" } else { "of those listed" };
            lines.push(format!("Held, {most}: {}.", by.collect::<Vec<_>>().join(", ")));
        }
        for (queue, total) in &self.queues {
            let says = match total {
                Ok(QueueTotal { hidden, visible }) => {
                    format!("about {} hidden, {} visible", count(*hidden, "letter"), thousands(*visible))
                }
                Err(why) => format!("not known: {}", harmless(why)),
            };
            lines.push(format!("SQS, for all of {}: {says}.", harmless(queue.resource())));
        }
        lines.join("\n") + "\n"
    }

    fn json(&self) -> Value {
        let groups = self.groups.iter().map(|(name, group)| {
            json!({
                self.by.name(): name, "letters": group.letters, "firstDue": group.first, "lastDue": group.last,
            })
        });
        let queues = self.queues.iter().map(|(queue, total)| {
            json!({ "queue": queue, "hidden": total.as_ref().ok().map(|it| it.hidden),
                    "visible": total.as_ref().ok().map(|it| it.visible) })
        });
        json!({
            "groups": groups.collect::<Vec<_>>(), "letters": self.letters(), "atMost": self.unread == 0,
            "held": self.held, "claimed": self.claimed, "unread": self.unread, "queues": queues.collect::<Vec<_>>(),
        })
    }

    fn finished(&self) -> CommandEnd {
        CommandEnd::of(self.unread)
    }
}

/// The approximate number of letters in a queue, from SQS.
struct QueueTotal {
    hidden: u64,
    visible: u64,
}

/// Asks SQS for the number of letters in a queue. The error says in words why SQS gave none.
async fn total(sqs: &aws_sdk_sqs::Client, queue: &Arn) -> Result<QueueTotal, String> {
    let [hidden, visible] = [
        QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        QueueAttributeName::ApproximateNumberOfMessages,
    ];
    let call = sqs.get_queue_attributes().queue_url(queue.queue_url());
    let call = call.attribute_names(hidden.clone()).attribute_names(visible.clone());
    let answer = call.send().await.map_err(|error| {
        let failure = failure_of_call(&error);
        let said = failure.message.map_or(String::new(), |said| format!(": {said}"));
        format!("sqs:GetQueueAttributes failed ({}{said})", failure.code)
    })?;
    let number = |name| answer.attributes().and_then(|all| all.get(name)?.parse().ok()).unwrap_or_default();
    Ok(QueueTotal { hidden: number(&hidden), visible: number(&visible) })
}

/// Returns the name of the group that a letter counts for.
fn name(letter: &WaitingLetter, by: WaitingBy) -> Option<String> {
    match by {
        WaitingBy::Target => letter.target.as_ref().map(ToString::to_string),
        WaitingBy::Error => letter.error.clone(),
        WaitingBy::Due => Some(letter.due.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:00").to_string()),
        WaitingBy::Queue => Some(letter.queue_arn.to_string()),
        WaitingBy::Topic => letter.topic_arn.clone(),
        WaitingBy::Subscription => letter.subscription_arn.clone(),
        WaitingBy::Rule => Some(letter.rule.clone()),
        WaitingBy::Held => letter.held_by.clone(),
    }
}
