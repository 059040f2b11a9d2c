//! `redrivectl waiting`: counts hidden letters, and shows until when they wait.

use std::collections::BTreeMap;
use std::io::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use crate::args::{self, WaitingBy};
use crate::aws::Aws;
use crate::console::{Console, Failed, Finished};
use crate::control::Control;
use crate::orders::reach;
use crate::place;
use crate::text::{count, harmless, table, thousands, utc};
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
    let s3 = Aws::connect(&args.connection, console).await?.clients().s3;
    let now = console.clock.now();
    let mut list = WaitingList::default();
    let keep = |_, letter: WaitingLetter| {
        let touches = reach.as_ref().map_or(Touches::Yes, |reach| reach.touches(&letter));
        (touches > Touches::No).then(|| name(&letter, args.by))
    };
    Control::new(s3, place).read_waiting(&mut list, now, keep, |_| ()).await?;

    let mut groups: BTreeMap<Option<String>, Group> = BTreeMap::new();
    for line in list.due_after(now) {
        let Some(name) = &line.kept else { continue };
        let new = || Group { letters: 0, first: line.due, last: line.due };
        let group = groups.entry(name.clone()).or_insert_with(new);
        group.letters += 1;
        (group.first, group.last) = (group.first.min(line.due), group.last.max(line.due));
    }
    let letters: u64 = groups.values().map(|group| group.letters).sum();
    let what = args.by.name();
    if as_json {
        let groups = groups.iter().map(|(name, group)| {
            json!({ what: name, "letters": group.letters, "firstDue": group.first, "lastDue": group.last })
        });
        let groups: Vec<_> = groups.collect();
        writeln!(
            console.out,
            "{}",
            json!({ "groups": groups, "letters": letters, "unread": list.unread() })
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
    let unread = match list.unread() {
        0 => String::new(),
        unread => format!("; {} could not be read", thousands(unread)),
    };
    let listed = count(letters, "letter");
    writeln!(console.out, "{listed} on the list, hidden for more than two minutes{unread}.")?;
    Ok(Finished::of(list.unread()))
}

/// Returns the name of the group in which a letter is counted.
fn name(letter: &WaitingLetter, by: WaitingBy) -> Option<String> {
    match by {
        WaitingBy::Target => letter.target.as_ref().map(ToString::to_string),
        WaitingBy::Error => letter.error.clone(),
        WaitingBy::Due => Some(letter.due.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:00").to_string()),
        WaitingBy::Queue => Some(letter.queue_arn.to_string()),
        WaitingBy::Topic => letter.topic_arn.clone(),
        WaitingBy::Subscription => letter.subscription_arn.clone(),
        WaitingBy::Rule => Some(letter.rule.clone()),
    }
}
