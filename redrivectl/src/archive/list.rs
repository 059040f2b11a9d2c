//! `redrivectl archive list`: how many letters, by topic, reason and day.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;

use jiff::tz::TimeZone;
use serde_json::json;

use super::place::{Place, place, selection};
use super::walk::walk;
use crate::console::{Console, Failed, Finished};
use crate::text::{count, harmless, table, thousands};
use crate::{args, aws};
use sns_redrive::archive::{Record, Walk};

/// What letters are counted by: topic, reason, day.
type Group = (Option<String>, String, String);

pub(super) async fn run(
    args: &args::ArchiveList,
    as_json: bool,
    console: &mut Console,
) -> Result<Finished, Failed> {
    let Place { bucket, prefix } = place(&args.letters.place, console)?;
    let selection = selection(&args.letters.selection, console)?;
    let clients = aws::clients(&args.letters.connection, console).await?;

    let mut groups: BTreeMap<Group, u64> = BTreeMap::new();
    let mut known = HashSet::new();
    let mut doubles = 0;
    let letters = Walk::new(clients.s3, &bucket, &prefix, &selection);
    let unread = walk(letters, console, |_, letter| {
        if known.insert(letter.record.identity()) {
            *groups.entry(group(&letter.record)).or_default() += 1;
        } else {
            doubles += 1;
        }
        Ok(())
    })
    .await?;

    let letters: u64 = groups.values().sum();
    if as_json {
        let groups: Vec<_> = groups
            .iter()
            .map(|((topic, reason, day), letters)| {
                json!({ "topicArn": topic, "reason": reason, "day": day, "letters": letters })
            })
            .collect();
        let list = json!({ "groups": groups, "letters": letters, "doubles": doubles, "unread": unread });
        writeln!(console.out, "{list}")?;
    } else {
        let mut rows = vec![["topic", "reason", "day (UTC)", "letters"].map(str::to_owned).to_vec()];
        rows.extend(groups.iter().map(|((topic, reason, day), letters)| {
            let topic = topic.as_deref().map_or("(none)".to_owned(), harmless);
            vec![topic, harmless(reason), day.clone(), thousands(*letters)]
        }));
        if letters > 0 {
            writeln!(console.out, "{}", table(&rows, &[3]))?;
        }
        writeln!(console.out, "{}.", sums(letters, doubles, unread))?;
    }
    Ok(Finished::of(unread))
}

fn sums(letters: u64, doubles: u64, unread: u64) -> String {
    let mut sums = count(letters, "letter");
    if doubles > 0 {
        sums = format!("{sums}; {} more stored twice, after a crash", count(doubles, "record"));
    }
    if unread > 0 {
        sums = format!("{sums}; {} could not be read", thousands(unread));
    }
    sums
}

fn group(record: &Record) -> Group {
    let day = record.archived().to_zoned(TimeZone::UTC).date().to_string();
    (record.topic_arn.as_ref().map(ToString::to_string), record.reason.clone(), day)
}
