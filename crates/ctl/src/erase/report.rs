//! The preview of an erasing, and its record.

use std::collections::HashSet;

use jiff::Timestamp;
use redrive_archive::LetterIdentity;
use serde_json::{Value, json};

use super::documents::ControlTraces;
use super::letters::ErasedObject;
use super::queued::QueuedLetters;
use super::versions::VersionLock;
use crate::console::CommandEnd;
use crate::output::CommandResult;
use crate::overrides::{OverrideAuthor, signature};
use crate::tables::{TextStyle, count, harmless, table, utc};

/// What an erasing would do.
pub(super) struct ErasePreview<'a> {
    pub(super) which: &'a [String],
    pub(super) letters: u64,
    pub(super) records: u64,
    pub(super) older_records: u64,
    pub(super) objects: u64,
    /// Objects that only have other records of these letters.
    pub(super) other_objects: u64,
    pub(super) days: Vec<String>,
    pub(super) locked: (u64, Option<VersionLock>),
    pub(super) control: Option<&'a ControlTraces>,
    /// The letters in queues, in words.
    pub(super) queues: String,
    /// The preview of the override, in words.
    pub(super) override_: Option<String>,
    pub(super) unread: Vec<String>,
    pub(super) is_denied: bool,
    pub(super) author: &'a OverrideAuthor,
    pub(super) why: &'a str,
}

/// The record of an erasing.
pub(super) struct EraseResult {
    pub(super) at: Timestamp,
    pub(super) author: OverrideAuthor,
    pub(super) why: String,
    pub(super) objects: Vec<ErasedObject>,
    pub(super) control: Option<ControlTraces>,
    pub(super) queues: Option<QueuedLetters>,
    /// What was done about queues, in words.
    pub(super) queues_told: String,
    pub(super) unread: Vec<String>,
    /// What failed, in words.
    pub(super) failed: Vec<String>,
    pub(super) is_denied: bool,
    pub(super) interrupted: bool,
}

impl ErasePreview<'_> {
    pub(super) fn lines(&self) -> String {
        let mut rows = Vec::new();
        let mut say = |what: &str, text: String| rows.push(vec![format!("  {what}"), text]);
        say("which", harmless(&self.which.join("; ")));
        let found = format!(
            "{} in {} of {}",
            count(self.letters, "letter"),
            count(self.records, "record"),
            count(self.objects, "object")
        );
        say("archive", found);
        if let (Some(first), Some(last)) = (self.days.first(), self.days.last()) {
            let days = if first == last { first.clone() } else { format!("{first} to {last}") };
            say("archived", days);
        }
        if self.older_records > 0 {
            say("old versions", count(self.older_records, "record more"));
        }
        if self.other_objects > 0 {
            let objects = count(self.other_objects, "object");
            say("also", format!("other records of the same letters in {objects} more"));
        }
        if let (versions @ 1.., Some(lock)) = &self.locked {
            say("locked", locked_in_words(*versions, lock));
        }
        say("in queues", self.queues.clone());
        if let Some(control) = self.control {
            say("list", format!("{} of the list of waiting letters", count(control.lines, "line")));
            for document in &control.documents {
                say("document", format!("{} names the content", harmless(document)));
            }
            for what in &control.in_use {
                say("in use", harmless(what));
            }
        }
        for what in &self.unread {
            say("not read", what.clone());
        }
        say("by", signature(&self.author.by, self.author.checked));
        say("why", harmless(self.why));
        let mut lines = format!(
            "Erase: nothing of these letters stays, in no version. It cannot be undone.\n{}",
            table(&rows, &[])
        );
        if let Some(override_) = &self.override_ {
            lines.extend(["\nFirst an override, so that letters in queues are archived.\n", override_]);
        }
        lines
    }

    /// Reports whether there is nothing to erase.
    pub(super) fn is_empty(&self) -> bool {
        let of_control = self.control.is_none_or(|it| it.lines == 0 && it.documents.is_empty());
        self.objects + self.other_objects == 0 && of_control && self.override_.is_none()
    }

    fn to_json(&self) -> Value {
        let (versions, lock) = &self.locked;
        json!({
            "dryRun": true, "letters": self.letters, "records": self.records, "olderRecords": self.older_records,
            "objects": self.objects, "otherObjects": self.other_objects, "control": self.control,
            "locked": { "versions": versions, "latest": lock }, "inQueues": self.queues, "unread": self.unread,
        })
    }
}

impl CommandResult for ErasePreview<'_> {
    fn text(&self, _: TextStyle) -> String {
        format!("{}\nDry run: nothing was erased.\n", self.lines())
    }

    fn json(&self) -> Value {
        self.to_json()
    }

    fn finished(&self) -> CommandEnd {
        let is_in_use = self.control.is_some_and(|control| !control.in_use.is_empty());
        match CommandEnd::of(self.unread.len() as u64) {
            _ if self.is_denied => CommandEnd::Unseen,
            CommandEnd::Whole if is_in_use => CommandEnd::LeftOut,
            end => end,
        }
    }
}

impl EraseResult {
    fn letters(&self) -> u64 {
        let places: HashSet<&LetterIdentity> =
            self.objects.iter().flat_map(|object| &object.places).collect();
        places.len() as u64
    }

    fn versions(&self) -> u64 {
        self.objects.iter().map(|object| object.deleted.len() as u64).sum()
    }

    /// Returns the versions that locks keep, and the lock that ends last.
    fn kept(&self) -> (u64, Option<&VersionLock>) {
        let archived = self.objects.iter().flat_map(|object| &object.kept);
        let control = self.control.iter().flat_map(|control| &control.kept);
        let locks: Vec<_> = archived.chain(control).map(|(_, lock)| lock).collect();
        let latest = locks.iter().max_by_key(|lock| lock.until.unwrap_or(Timestamp::MAX));
        (locks.len() as u64, latest.copied())
    }

    fn in_use(&self) -> &[String] {
        self.control.as_ref().map_or(&[], |control| &control.in_use)
    }
}

impl CommandResult for EraseResult {
    fn text(&self, _: TextStyle) -> String {
        let mut lines = vec![format!(
            "Erased {} from {}; deleted {}.",
            count(self.letters(), "letter"),
            count(self.objects.len() as u64, "object"),
            count(self.versions(), "version")
        )];
        if let Some(control) = &self.control {
            lines.push(format!(
                "Erased {} of the list of waiting letters; redacted {}.",
                count(control.lines, "line"),
                count(control.documents.len() as u64, "document")
            ));
        }
        lines.push(format!(
            "{} UTC, by {}: {}",
            utc(self.at),
            signature(&self.author.by, self.author.checked),
            harmless(&self.why)
        ));
        if let (versions @ 1.., Some(lock)) = self.kept() {
            lines
                .push(format!("Left: {}. Then run the same command again.", locked_in_words(versions, lock)));
        }
        lines.extend(self.in_use().iter().map(|what| format!("Left: {}.", harmless(what))));
        lines.push(match &self.queues {
            Some(queues) => queues.text(),
            None => format!("Letters in queues: {}.", self.queues_told),
        });
        let unread = self.unread.iter().map(|what| format!("Could not be read, and may have more: {what}"));
        lines.extend(unread);
        lines.extend(
            self.failed.iter().map(|why| format!("Failed: {}. Run the same command again.", harmless(why))),
        );
        if self.interrupted {
            lines.push("Interrupted: run the same command again.".to_owned());
        }
        lines.join("\n") + "\n"
    }

    fn json(&self) -> Value {
        let objects = self.objects.iter().map(|object| {
            let kept = object.kept.iter().map(|(version, lock)| json!({ "version": version, "lock": lock }));
            let mut letters: Vec<_> = object.places.iter().collect();
            letters.sort_unstable();
            json!({
                "key": object.key, "letters": letters, "deleted": object.deleted, "kept": kept.collect::<Vec<_>>(),
            })
        });
        json!({
            "erased": self.letters(), "at": self.at, "by": self.author.by, "byChecked": self.author.checked,
            "why": self.why, "objects": objects.collect::<Vec<_>>(), "control": self.control, "queues": self.queues, "queuesTold": self.queues_told,
            "unread": self.unread, "failed": self.failed, "interrupted": self.interrupted,
        })
    }

    fn finished(&self) -> CommandEnd {
        let in_queues = self.queues.as_ref().is_some_and(|queues| !queues.none_left());
        if self.interrupted {
            CommandEnd::Stopped
        } else if self.is_denied {
            CommandEnd::Unseen
        } else if !self.unread.is_empty() || !self.failed.is_empty() {
            CommandEnd::Partly
        } else if self.kept().0 > 0 || in_queues || !self.in_use().is_empty() {
            CommandEnd::LeftOut
        } else {
            CommandEnd::Whole
        }
    }
}

fn locked_in_words(versions: u64, lock: &VersionLock) -> String {
    let until = match lock.until {
        Some(until) => format!("until {} UTC", utc(until)),
        None => "until somebody takes the lock back, or an end that could not be read".to_owned(),
    };
    let way = if lock.mode == "GOVERNANCE" { "; --bypass-governance deletes them now" } else { "" };
    format!("Object Lock ({}) keeps {} {until}{way}", harmless(&lock.mode), count(versions, "version"))
}
