//! `redrivectl waiting`: counts hidden letters, and shows until when they wait.
//!
//! The list of waiting letters gives an upper bound: a delivered letter stays on it until it would have been
//! due. The number for a whole queue comes from SQS, which gives approximate numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use aws_sdk_sqs::types::QueueAttributeName;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use crate::args::{self, WaitingBy};
use crate::aws::Aws;
use crate::console::{Console, Failed, Finished};
use crate::control::Control;
use crate::overrides::reach;
use crate::place;
use crate::text::{count, harmless, table, thousands, utc};
use sns_redrive::arn::Arn;
use sns_redrive::clients::failure_of_call;
use sns_redrive::control::WaitingList;
use sns_redrive::policy::Touches;
use sns_redrive::waiting::WaitingLetter;

/// A number of waiting letters, and when the first and the last of them are due.
struct Group {
    letters: u64,
    first: Timestamp,
    last: Timestamp,
}

pub(super) async fn run(
    args: &args::Waiting,
    as_json: bool,
    console: &mut Console,
) -> Result<Finished, Failed> {
    let reach = reach(&args.picks, &args.arrived, console)?;
    let place = place::control(&args.place, console)?;
    let clients = Aws::connect(&args.connection, console).await?.clients();
    let now = console.clock.now();
    let mut list = WaitingList::default();
    let keep = |_, letter: WaitingLetter| {
        let touches = reach.as_ref().map_or(Touches::Yes, |reach| reach.touches(&letter));
        let held = letter.held_by.clone();
        let queue = letter.queue_arn.clone();
        (touches > Touches::No).then(|| (name(&letter, args.by), held, queue))
    };
    Control::new(clients.s3, place).read_waiting(&mut list, now, keep, |_| ()).await?;

    let mut groups: BTreeMap<Option<String>, Group> = BTreeMap::new();
    let (mut held, mut queues) = (BTreeMap::<&str, u64>::new(), BTreeSet::new());
    for line in list.due_after(now) {
        let Some((name, by, queue)) = &line.kept else { continue };
        held.extend(by.as_deref().map(|by| (by, held.get(by).copied().unwrap_or_default() + 1)));
        queues.insert(queue);
        let new = || Group { letters: 0, first: line.due, last: line.due };
        let group = groups.entry(name.clone()).or_insert_with(new);
        group.letters += 1;
        (group.first, group.last) = (group.first.min(line.due), group.last.max(line.due));
    }
    let letters: u64 = groups.values().map(|group| group.letters).sum();
    let what = args.by.name();
    let mut totals = Vec::new();
    for queue in queues {
        totals.push((queue, total(&clients.sqs, queue).await));
    }
    if as_json {
        let groups = groups.iter().map(|(name, group)| {
            json!({ what: name, "letters": group.letters, "firstDue": group.first, "lastDue": group.last })
        });
        let groups: Vec<_> = groups.collect();
        writeln!(
            console.out,
            "{}",
            json!({
                "groups": groups, "letters": letters, "atMost": list.unread() == 0, "held": held, "unread": list.unread(),
                "queues": totals.iter().map(|(queue, total)| {
                    json!({ "queue": queue, "hidden": total.as_ref().ok().map(|it| it.hidden),
                            "visible": total.as_ref().ok().map(|it| it.visible) })
                }).collect::<Vec<_>>(),
            })
        )?;
        return Ok(Finished::of(list.unread()));
    }
    if letters > 0 {
        let mut rows =
            vec![[what, "letters", "first due (UTC)", "last due (UTC)"].map(str::to_owned).to_vec()];
        rows.extend(groups.iter().map(|(name, group)| {
            let name = name.as_deref().map_or("(none)".to_owned(), harmless);
            vec![name, thousands(group.letters), utc(group.first), utc(group.last)]
        }));
        writeln!(console.out, "{}", table(&rows, &[1]))?;
    }
    let listed = count(letters, "letter");
    let wait = if letters == 1 { "waits" } else { "wait" };
    match list.unread() {
        0 => writeln!(
            console.out,
            "At most {listed} {wait}, by the list of those hidden for more than two minutes."
        )?,
        // A part of the list is no bound.
        unread => writeln!(
            console.out,
            "{listed} listed, of a list that was read in part: {} could not be read. It has letters hidden for more than two \
             minutes.",
            thousands(unread)
        )?,
    }
    if !held.is_empty() {
        let by = held.iter().map(|(by, letters)| format!("{} by {}", thousands(*letters), harmless(by)));
        let most = if list.unread() == 0 { "at most" } else { "of those listed" };
        writeln!(console.out, "Held, {most}: {}.", by.collect::<Vec<_>>().join(", "))?;
    }
    for (queue, total) in &totals {
        let says = match total {
            Ok(Total { hidden, visible }) => {
                format!("about {} hidden, {} visible", count(*hidden, "letter"), thousands(*visible))
            }
            Err(why) => format!("not known: {}", harmless(why)),
        };
        writeln!(console.out, "SQS, for all of {}: {says}.", harmless(queue.resource()))?;
    }
    Ok(Finished::of(list.unread()))
}

/// The approximate number of letters in a queue, from SQS.
struct Total {
    hidden: u64,
    visible: u64,
}

/// Asks SQS for the number of letters in a queue. The error says in words why SQS gave none.
async fn total(sqs: &aws_sdk_sqs::Client, queue: &Arn) -> Result<Total, String> {
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
    Ok(Total { hidden: number(&hidden), visible: number(&visible) })
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
