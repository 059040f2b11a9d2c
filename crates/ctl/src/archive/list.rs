//! `redrivectl archive list`: counts letters by topic, reason and day, or by other fields.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use redrive_archive::{ArchiveRecord, ArchiveWalk};
use serde_json::{Map, Value, json};

use super::counted_letters::CountedLetters;
use super::replayed::ReplayLookup;
use super::select::selection;
use super::walk::{WalkedLetter, walk};
use crate::args::{self, ArchiveField};
use crate::aws::AwsAccess;
use crate::console::{CommandEnd, CommandFailure, ToolEnvironment};
use crate::output::CommandResult;
use crate::s3_location::{self, BucketPrefix};
use crate::tables::{TableNames, TextStyle, count, harmless, thousands, utc};

/// Letters that are counted together.
struct ListGroup {
    letters: u64,
    /// The number of them that a replay sent.
    replayed: u64,
    first: Timestamp,
    last: Timestamp,
    /// The SQS message id of the first letter.
    example: String,
}

/// The letters of an archive in groups.
struct ArchiveCounts<'a> {
    by: &'a [ArchiveField],
    groups: BTreeMap<Vec<Option<String>>, ListGroup>,
    /// Records that are stored twice.
    doubles: u64,
    /// Letters of the selection that were erased, as far as their lines still tell what is selected.
    erased: u64,
    /// Objects and lines that could not be read.
    unread: u64,
    /// True if it is known which letters a replay has sent.
    is_known: bool,
}

pub(super) async fn run(
    args: &args::ArchiveList,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<CommandEnd, CommandFailure> {
    let counts = counted(args, console).await?;
    console.print(&counts, as_json)
}

/// Counts the letters that a command line selects.
async fn counted<'a>(
    args: &'a args::ArchiveList,
    console: &mut ToolEnvironment,
) -> Result<ArchiveCounts<'a>, CommandFailure> {
    let BucketPrefix { bucket, prefix } = s3_location::archive(&args.letters.place.archive, console)?;
    let selection = selection(&args.letters.selection, console)?;
    let clients = AwsAccess::connect(&args.letters.connection, console).await?.clients();

    let mut groups: BTreeMap<Vec<Option<String>>, ListGroup> = BTreeMap::new();
    let mut known = CountedLetters::default();
    let mut doubles = 0;
    let mut replayed = ReplayLookup::of(&args.letters, clients.s3.clone(), console)?;
    let letters = ArchiveWalk::new(clients.s3, &bucket, &prefix, &selection);
    let mut erased = 0;
    let unread = walk(letters, &mut replayed, console, |_, letter| {
        let (record, has_gone) = match letter {
            WalkedLetter::Record(letter, has_gone) => (letter.record, has_gone),
            WalkedLetter::Erased(letter) => {
                erased += u64::from(known.is_new(letter.record.erased.letter));
                return Ok(());
            }
        };
        if known.is_new(record.identity()) {
            let values = args.by.iter().map(|by| by.value(&record)).collect();
            groups.entry(values).or_insert_with(|| ListGroup::of(&record)).add(&record, has_gone);
        } else {
            doubles += 1;
        }
        Ok(())
    })
    .await?;
    Ok(ArchiveCounts { by: &args.by, groups, doubles, erased, unread, is_known: replayed.is_known() })
}

impl ArchiveCounts<'_> {
    fn letters(&self) -> u64 {
        self.groups.values().map(|group| group.letters).sum()
    }

    /// Returns the number of letters that no replay has sent, if it is known.
    fn not_replayed(&self) -> Option<u64> {
        self.is_known.then(|| self.groups.values().map(ListGroup::not_replayed).sum())
    }

    /// Returns the groups, the largest first. Groups of times alone stay in their order.
    fn largest_first(&self) -> Vec<(&Vec<Option<String>>, &ListGroup)> {
        let mut groups: Vec<_> = self.groups.iter().collect();
        if !self.by.iter().all(|by| matches!(by, ArchiveField::Day | ArchiveField::Hour)) {
            groups.sort_by_key(|(_, group)| Reverse(group.letters));
        }
        groups
    }

    fn sums(&self, letters: u64, not_replayed: Option<u64>) -> String {
        let mut sums = count(letters, "letter");
        if let Some(not_replayed) = not_replayed {
            sums = format!("{sums}, {} not replayed", thousands(not_replayed));
        }
        if self.erased > 0 {
            sums = format!("{sums}; {} more, erased", count(self.erased, "letter"));
        }
        if self.doubles > 0 {
            sums = format!("{sums}; {} more, stored twice after a crash", count(self.doubles, "record"));
        }
        if self.unread > 0 {
            sums = format!("{sums}; {} could not be read", thousands(self.unread));
        }
        sums
    }
}

impl CommandResult for ArchiveCounts<'_> {
    fn text(&self, style: TextStyle) -> String {
        let letters = self.letters();
        let not_replayed = self.not_replayed().filter(|_| letters > 0);
        let sums = self.sums(letters, not_replayed);
        if letters == 0 {
            return format!("{sums}.\n");
        }
        let names = TableNames::of(self.groups.keys().flatten().flatten().map(String::as_str), style);
        let groups = self.largest_first().into_iter();
        let rows = groups.map(|(values, group)| group.row(values, self.is_known, &names));
        let rows: Vec<_> = std::iter::once(header(self.by, self.is_known)).chain(rows).collect();
        let first = self.by.len();
        let right = [first, first + usize::from(self.is_known)];
        format!("{}\n{sums}.\n", style.table(&rows, &right, &[]))
    }

    fn json(&self) -> Value {
        let groups = self.groups.iter().map(|(values, group)| group.to_json(self.by, values, self.is_known));
        let groups: Vec<_> = groups.collect();
        let mut list = json!({
            "groups": groups, "letters": self.letters(), "doubles": self.doubles, "erased": self.erased,
            "unread": self.unread,
        });
        if let Some(not_replayed) = self.not_replayed() {
            list["notReplayed"] = not_replayed.into();
        }
        list
    }

    fn finished(&self) -> CommandEnd {
        CommandEnd::of(self.unread)
    }
}

fn header(by: &[ArchiveField], is_known: bool) -> Vec<String> {
    let columns = ["first (UTC)", "last (UTC)", "example"];
    let letters = ["letters", "not replayed"].into_iter().take(1 + usize::from(is_known));
    by.iter().map(|by| by.title()).chain(letters).chain(columns).map(str::to_owned).collect()
}

impl ListGroup {
    fn of(record: &ArchiveRecord) -> Self {
        let at = record.archived();
        Self { letters: 0, replayed: 0, first: at, last: at, example: record.message.message_id.clone() }
    }

    fn add(&mut self, record: &ArchiveRecord, is_replayed: bool) {
        let at = record.archived();
        self.letters += 1;
        self.replayed += u64::from(is_replayed);
        (self.first, self.last) = (self.first.min(at), self.last.max(at));
    }

    fn not_replayed(&self) -> u64 {
        self.letters - self.replayed
    }

    fn row(&self, values: &[Option<String>], is_known: bool, names: &TableNames) -> Vec<String> {
        let named =
            |value: &Option<String>| value.as_deref().map_or("(none)".to_owned(), |value| names.name(value));
        let values = values.iter().map(named);
        let not_replayed = is_known.then(|| thousands(self.not_replayed()));
        let columns = [utc(self.first), utc(self.last), harmless(&self.example)];
        values.chain([thousands(self.letters)]).chain(not_replayed).chain(columns).collect()
    }

    fn to_json(&self, by: &[ArchiveField], values: &[Option<String>], is_known: bool) -> Value {
        let mut fields: Map<String, Value> =
            by.iter().zip(values).map(|(by, value)| (by.field().to_owned(), json!(value))).collect();
        fields.insert("letters".to_owned(), self.letters.into());
        if is_known {
            fields.insert("notReplayed".to_owned(), self.not_replayed().into());
        }
        fields.insert("first".to_owned(), self.first.to_string().into());
        fields.insert("last".to_owned(), self.last.to_string().into());
        fields.insert("example".to_owned(), self.example.clone().into());
        fields.into()
    }
}

impl ArchiveField {
    /// Returns its name in JSON, which is that of the record's field if there is one.
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

    fn value(self, record: &ArchiveRecord) -> Option<String> {
        let time = |form: &str| record.archived().to_zoned(TimeZone::UTC).strftime(form).to_string();
        match self {
            Self::Topic => record.topic_arn.as_ref().map(ToString::to_string),
            Self::Subscription => record.subscription_arn.as_ref().map(ToString::to_string),
            Self::Target => record.target().map(str::to_owned),
            Self::Reason => Some(record.reason.clone()),
            Self::Error => record.error.as_ref().map(|error| error.code.clone()),
            Self::Rule => Some(record.rule.clone()),
            Self::Queue => Some(record.dead_letter_queue_arn.to_string()),
            Self::Day => Some(time("%Y-%m-%d")),
            Self::Hour => Some(time("%Y-%m-%d %H:00")),
        }
    }
}
