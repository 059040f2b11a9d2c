//! `redrivectl archive list`: how many letters, by topic, reason and day or what else is asked for.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use super::place::{Place, place, selection};
use super::walk::walk;
use crate::args::By;
use crate::console::{Console, Failed, Finished};
use crate::text::{count, harmless, table, thousands, utc};
use crate::{args, aws};
use sns_redrive::archive::{Record, Walk};

/// Letters that are counted together.
struct Group {
    letters: u64,
    first: Timestamp,
    last: Timestamp,
    /// The SQS message id of the first one.
    example: String,
}

pub(super) async fn run(
    args: &args::ArchiveList,
    as_json: bool,
    console: &mut Console,
) -> Result<Finished, Failed> {
    let Place { bucket, prefix } = place(&args.letters.place, console)?;
    let selection = selection(&args.letters.selection, console)?;
    let clients = aws::clients(&args.letters.connection, console).await?;

    let mut groups: BTreeMap<Vec<Option<String>>, Group> = BTreeMap::new();
    let mut known = HashSet::new();
    let mut doubles = 0;
    let letters = Walk::new(clients.s3, &bucket, &prefix, &selection);
    let unread = walk(letters, console, |_, letter| {
        let record = letter.record;
        if known.insert(record.identity()) {
            let values = args.by.iter().map(|by| by.value(&record)).collect();
            groups.entry(values).and_modify(|group| group.add(&record)).or_insert_with(|| Group::of(&record));
        } else {
            doubles += 1;
        }
        Ok(())
    })
    .await?;

    let letters: u64 = groups.values().map(|group| group.letters).sum();
    if as_json {
        let groups: Vec<_> = groups.iter().map(|(values, group)| group.to_json(&args.by, values)).collect();
        let list = json!({ "groups": groups, "letters": letters, "doubles": doubles, "unread": unread });
        writeln!(console.out, "{list}")?;
    } else {
        if letters > 0 {
            let rows = groups.iter().map(|(values, group)| group.row(values));
            let rows: Vec<_> = std::iter::once(header(&args.by)).chain(rows).collect();
            writeln!(console.out, "{}", table(&rows, &[args.by.len()]))?;
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

fn header(by: &[By]) -> Vec<String> {
    let columns = ["letters", "first (UTC)", "last (UTC)", "example"];
    by.iter().map(|by| by.title()).chain(columns).map(str::to_owned).collect()
}

impl Group {
    fn of(record: &Record) -> Self {
        let at = record.archived();
        Self { letters: 1, first: at, last: at, example: record.message.message_id.clone() }
    }

    fn add(&mut self, record: &Record) {
        let at = record.archived();
        self.letters += 1;
        (self.first, self.last) = (self.first.min(at), self.last.max(at));
    }

    fn row(&self, values: &[Option<String>]) -> Vec<String> {
        let values = values.iter().map(|value| value.as_deref().map_or("(none)".to_owned(), harmless));
        let columns = [thousands(self.letters), utc(self.first), utc(self.last), harmless(&self.example)];
        values.chain(columns).collect()
    }

    fn to_json(&self, by: &[By], values: &[Option<String>]) -> Value {
        let mut fields: Map<String, Value> =
            by.iter().zip(values).map(|(by, value)| (by.field().to_owned(), json!(value))).collect();
        fields.insert("letters".to_owned(), self.letters.into());
        fields.insert("first".to_owned(), self.first.to_string().into());
        fields.insert("last".to_owned(), self.last.to_string().into());
        fields.insert("example".to_owned(), self.example.clone().into());
        fields.into()
    }
}

impl By {
    /// Its name in JSON: that of the record's field, where there is one.
    fn field(self) -> &'static str {
        match self {
            Self::Topic => "topicArn",
            Self::Subscription => "subscriptionArn",
            Self::Target => "target",
            Self::Reason => "reason",
            Self::Error => "error",
            Self::Rule => "rule",
            Self::Queue => "deadLetterQueueArn",
            Self::Day => "day",
            Self::Hour => "hour",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Topic => "topic",
            Self::Subscription => "subscription",
            Self::Target => "target",
            Self::Reason => "reason",
            Self::Error => "error",
            Self::Rule => "rule",
            Self::Queue => "dead-letter queue",
            Self::Day => "day (UTC)",
            Self::Hour => "hour (UTC)",
        }
    }

    fn value(self, record: &Record) -> Option<String> {
        let time = |form: &str| record.archived().to_zoned(TimeZone::UTC).strftime(form).to_string();
        match self {
            Self::Topic => record.topic_arn.as_ref().map(ToString::to_string),
            Self::Subscription => record.subscription_arn.as_ref().map(ToString::to_string),
            Self::Target => record.target().map(str::to_owned),
            Self::Reason => Some(record.reason.clone()),
            Self::Error => record.error.as_ref().map(|error| error.code.clone()),
            Self::Rule => Some(record.rule.clone()),
            Self::Queue => Some(record.dead_letter_queue().to_string()),
            Self::Day => Some(time("%Y-%m-%d")),
            Self::Hour => Some(time("%Y-%m-%d %H:00")),
        }
    }
}
