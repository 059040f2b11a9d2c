//! The file with what subscriptions had before they were changed.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;

use jiff::Timestamp;
use redrive_core::arn::{Arn, ArnKind};
use serde::{Deserialize, Serialize};

use super::failure::bad;
use super::row::{RowStep, SubscriptionRow};
use crate::console::CommandFailure;

/// The version of the file's form.
const VERSION: u32 = 1;

/// The changes of one command. Written before the first of them, so that it also has those that a crash prevented.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeRecord {
    version: u32,
    at: Timestamp,
    /// The queue that the subscriptions name since then.
    #[serde(deserialize_with = "queue")]
    pub(super) queue: Arn,
    pub(super) changes: Vec<RecordedChange>,
}

/// The change of one subscription.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordedChange {
    pub(super) subscription: String,
    /// The redrive policy before, as SNS returned it; `null` if there was none.
    before: Option<String>,
}

fn queue<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Arn, D::Error> {
    let text = String::deserialize(deserializer)?;
    let arn = text.parse::<Arn>().ok().filter(|arn| arn.kind() == ArnKind::Queue);
    arn.ok_or_else(|| serde::de::Error::custom("queue is not the ARN of a queue"))
}

impl ChangeRecord {
    pub(super) fn new(at: Timestamp, queue: &Arn, rows: &[SubscriptionRow]) -> Self {
        let changes = rows.iter().filter(|row| row.step == RowStep::Change);
        let changes = changes
            .map(|row| RecordedChange { subscription: row.arn.clone(), before: row.before.clone() })
            .collect();
        Self { version: VERSION, at, queue: queue.clone(), changes }
    }

    /// Returns the redrive policy that a subscription had before.
    pub(super) fn before(&self, subscription: &str) -> Option<&str> {
        self.changes.iter().find(|it| it.subscription == subscription)?.before.as_deref()
    }

    /// Writes the file, and waits until the disk has it.
    ///
    /// # Errors
    ///
    /// It exists, or cannot be written. Nothing was changed.
    pub(super) fn write(&self, file: &Path) -> Result<(), CommandFailure> {
        let failed = |error: std::io::Error| {
            let name = file.display();
            if error.kind() == ErrorKind::AlreadyExists {
                return bad(format!("{name} exists: give another file by --record. Nothing was done"));
            }
            CommandFailure::Work(format!("cannot write {name}: {error}. Nothing was done"))
        };
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        let mut written = OpenOptions::new().write(true).create_new(true).open(file).map_err(failed)?;
        written.write_all(text.as_bytes()).map_err(failed)?;
        written.write_all(b"\n").map_err(failed)?;
        written.sync_all().map_err(failed)
    }

    /// Reads a file that [`Self::write`] wrote.
    ///
    /// # Errors
    ///
    /// It cannot be read, or has another form.
    pub(super) fn read(file: &Path) -> Result<Self, CommandFailure> {
        let name = file.display();
        let text =
            std::fs::read_to_string(file).map_err(|error| bad(format!("cannot read {name}: {error}")))?;
        let record: Self = serde_json::from_str(&text)
            .map_err(|error| bad(format!("{name} is not a file of redrivectl attach --record: {error}")))?;
        if record.version != VERSION {
            let version = record.version;
            return Err(bad(format!("{name} has version {version}, and this tool reads version {VERSION}")));
        }
        Ok(record)
    }
}
