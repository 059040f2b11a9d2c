//! Records that `archive show --json` writes, and that `archive diff` and `replay` read, possibly edited.

use std::sync::Arc;

use redrive_archive::{ArchiveRecord, BadRecord, LocatedRecord};
use serde::Deserialize;
use serde_json::Value;

use crate::console::CommandFailure;

/// A record that was shown.
pub(crate) struct PrintedRecord {
    pub(crate) record: ArchiveRecord,
    added: PrintedFields,
}

/// The fields that `archive show --json` adds to the record's own.
#[derive(Deserialize, Default)]
#[serde(default)]
struct PrintedFields {
    digest: Option<String>,
    key: Option<Arc<str>>,
    line: Option<u64>,
}

/// Returns a record with its place and its digest. The digest shows a replay whether the message was edited.
pub(crate) fn shown(letter: &LocatedRecord) -> Result<Value, CommandFailure> {
    let LocatedRecord { key, line, record } = letter;
    let bad =
        |error: serde_json::Error| CommandFailure::Work(format!("cannot write a record as JSON: {error}"));
    let mut value = serde_json::to_value(record).map_err(bad)?;
    let digest = record.message.digest().map_err(bad)?;
    if let Some(fields) = value.as_object_mut() {
        fields.insert("digest".to_owned(), digest.into());
        fields.insert("key".to_owned(), key.as_ref().into());
        fields.insert("line".to_owned(), (*line).into());
    }
    Ok(value)
}

/// Reads records, one a line.
pub(crate) fn read(
    text: &str,
) -> Result<impl Iterator<Item = Result<PrintedRecord, BadRecord>>, CommandFailure> {
    let text = text.trim_end();
    if matches!(text.lines().next().map(str::trim), Some("{" | "[")) {
        let problem = "give each record on one line, as jq -c writes them";
        return Err(CommandFailure::Input(vec![problem.to_owned()]));
    }
    Ok(text.lines().map(PrintedRecord::read))
}

impl PrintedRecord {
    fn read(line: &str) -> Result<Self, BadRecord> {
        let record = ArchiveRecord::from_line(line)?;
        Ok(Self { record, added: serde_json::from_str(line).unwrap_or_default() })
    }

    /// Reports whether the message differs from its digest. Without a digest it counts as edited.
    pub(crate) fn is_edited(&self) -> bool {
        self.added.digest.is_none() || self.added.digest != self.record.message.digest().ok()
    }

    /// Returns the key of its object, and its line there.
    pub(super) fn place(&self) -> Option<(Arc<str>, u64)> {
        Some((self.added.key.clone()?, self.added.line?))
    }
}
