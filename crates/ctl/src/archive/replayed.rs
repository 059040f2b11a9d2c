//! Tells which letters of an archive were replayed, as far as the records of replays can be read.

use redrive_archive::LocatedRecord;
use redrive_replay::{SentLetters, StoredReplays};

use crate::args;
use crate::console::{CommandFailure, ToolEnvironment};
use crate::progress_line::ProgressLine;
use crate::s3_location::{self, BucketPrefix};
use crate::tables::harmless;

/// Tells whether a replay has sent a letter.
pub(super) struct ReplayLookup {
    /// The letters that replays have sent; `None` if unknown.
    sent: Option<SentLetters>,
    /// True if letters that a replay has sent are left out.
    pub(super) leaves_out: bool,
}

impl ReplayLookup {
    /// Returns the source for these letters. If it only fills a column of a table, it may be unknown.
    pub(super) fn of(
        letters: &args::ArchiveLetters,
        s3: aws_sdk_s3::Client,
        console: &ToolEnvironment,
    ) -> Result<Self, CommandFailure> {
        let leaves_out = letters.selection.not_replayed;
        let place = match s3_location::replays(&letters.place, console) {
            Err(failed) if leaves_out => return Err(failed),
            place => place.ok(),
        };
        let sent = place.map(|BucketPrefix { bucket, prefix }| {
            SentLetters::new(StoredReplays::new(s3, &bucket, &prefix, console.clock.clone(), String::new()))
        });
        Ok(Self { sent, leaves_out })
    }

    /// Returns a source that knows of no replays.
    pub(super) fn nobody() -> Self {
        Self { sent: None, leaves_out: false }
    }

    /// Reports whether the answer was known for every letter so far.
    pub(super) fn is_known(&self) -> bool {
        self.sent.is_some()
    }

    /// Reports whether a replay has sent a letter. Prints the first error if that cannot be read.
    pub(super) async fn has(
        &mut self,
        letter: &LocatedRecord,
        screen: &mut ProgressLine<'_>,
    ) -> Result<bool, CommandFailure> {
        let Some(sent) = &mut self.sent else { return Ok(false) };
        match sent.has(letter).await {
            Ok(has) => Ok(has),
            Err(error) if self.leaves_out => Err(CommandFailure::Work(error.to_string())),
            Err(error) => {
                self.sent = None;
                let error = harmless(&error.to_string());
                screen.say(&format!("cannot tell which letters were replayed: {error}"))?;
                Ok(false)
            }
        }
    }
}
