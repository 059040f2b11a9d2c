//! Whether letters of an archive were replayed, as far as replays can be asked.

use sns_redrive::archive::Archived;
use sns_redrive::replay::{Replays, Sent};

use crate::args;
use crate::console::{Console, Failed};
use crate::place::{self, Place};
use crate::screen::Screen;
use crate::text::harmless;

/// Tells of letters whether a replay has sent them.
pub(super) struct Replayed {
    /// None where nobody can say.
    sent: Option<Sent>,
    /// Whether only letters are meant that no replay has sent.
    pub(super) leaves_out: bool,
}

impl Replayed {
    /// Who can say it of these letters. Where that is no more than a column of a table, it may be nobody.
    pub(super) fn of(
        letters: &args::Letters,
        s3: aws_sdk_s3::Client,
        console: &Console,
    ) -> Result<Self, Failed> {
        let leaves_out = letters.selection.not_replayed;
        let place = match place::replays(&letters.place, console) {
            Err(failed) if leaves_out => return Err(failed),
            place => place.ok(),
        };
        let sent = place.map(|Place { bucket, prefix }| {
            Sent::new(Replays::new(s3, &bucket, &prefix, console.clock.clone(), String::new()))
        });
        Ok(Self { sent, leaves_out })
    }

    /// Nobody is asked.
    pub(super) fn nobody() -> Self {
        Self { sent: None, leaves_out: false }
    }

    /// Whether it is known of every letter that was asked about.
    pub(super) fn is_known(&self) -> bool {
        self.sent.is_some()
    }

    /// Whether a replay has sent a letter. Where that cannot be read it is said once.
    pub(super) async fn has(&mut self, letter: &Archived, screen: &mut Screen<'_>) -> Result<bool, Failed> {
        let Some(sent) = &mut self.sent else { return Ok(false) };
        match sent.has(letter).await {
            Ok(has) => Ok(has),
            Err(error) if self.leaves_out => Err(Failed::Work(error.to_string())),
            Err(error) => {
                self.sent = None;
                let error = harmless(&error.to_string());
                screen.say(&format!("nobody can say which letters were replayed: {error}"))?;
                Ok(false)
            }
        }
    }
}
