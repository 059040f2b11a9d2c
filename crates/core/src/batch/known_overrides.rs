//! The overrides that an instance knows: when they are read, what a reading means, and for how long it counts.
//!
//! A failure to read them is handled safely. A hold that was read stays until it ends or a reading shows that
//! it is gone. Overrides to retry and to give up lapse some minutes after the last good reading. An instance
//! that never read the overrides hides its letters for a minute at a time, and after ten minutes follows its
//! rules alone.

use std::time::Duration;

use jiff::Timestamp;

use super::action::{DocumentRead, no_answer};
use super::moment::Moment;
use crate::failure::{Failure, FailureClass};
use crate::letter::Letter;
use crate::policy::{BadOverrides, LetterTarget, Override, OverrideAction, OverrideAnswer, Overrides};

/// The time after which the overrides are read again. A new hold counts after this time at the latest.
const READ_EVERY: Duration = Duration::from_secs(15);

/// The time for which overrides to retry and to give up count after the last good reading. An instance that has
/// never read the overrides waits for them for the same time.
const MAX_OVERRIDES_AGE: Duration = Duration::from_mins(10);

/// The number of faults of a document that are reported.
const MAX_FAULTS: usize = 3;

/// The overrides that an instance knows.
#[derive(Debug, Default)]
pub(super) struct KnownOverrides {
    overrides: Overrides,
    /// S3's tag of the document that was read last.
    tag: Option<String>,
    /// The time of the last good reading.
    pub(super) read: Option<Moment>,
    /// The age of the instance when it first asked for them.
    first_asked: Option<Duration>,
    /// Its age when it last asked for them.
    asked: Option<Duration>,
    /// True if deliveries begin by an old reading, because no time is left to wait for a new one.
    pub(super) waits_no_more: bool,
    /// True if the last reading failed.
    pub(super) failed: bool,
    /// True if the last reading failed for a reason that somebody must mend, or the one before failed too.
    pub(super) is_unread: bool,
}

impl KnownOverrides {
    /// Reports whether deliveries must wait: the last reading is too old, and a new one is on its way.
    pub(super) fn are_old(&self, age: Duration) -> bool {
        !self.waits_no_more && self.is_due(age)
    }

    /// Reports whether an attempt that was decided by an earlier reading may still begin. `overridden` says
    /// whether an override asked for it.
    pub(super) fn allow_attempt(
        &self,
        letter: &Letter,
        target: impl FnOnce() -> LetterTarget,
        overridden: bool,
        now: Moment,
    ) -> bool {
        let answer = self.on(letter, target, now);
        match answer.action() {
            Some(OverrideAction::Hold | OverrideAction::GiveUp) => false,
            Some(OverrideAction::Retry) => true,
            None => !overridden && !matches!(answer, OverrideAnswer::MayHold(_)),
        }
    }

    /// Reports whether it is time to read the overrides.
    pub(super) fn is_due(&self, age: Duration) -> bool {
        self.due_in(age).is_zero()
    }

    /// Returns the time until the overrides are read again.
    pub(super) fn due_in(&self, age: Duration) -> Duration {
        let since = self.asked.map_or(READ_EVERY, |asked| age.saturating_sub(asked));
        READ_EVERY.saturating_sub(since)
    }

    /// Takes note that the overrides are being read. Returns the tag of the document that is known already.
    pub(super) fn ask(&mut self, age: Duration) -> Option<String> {
        self.first_asked.get_or_insert(age);
        self.tag.clone()
    }

    /// Takes over a reading that was asked for at that age.
    pub(super) fn take(
        &mut self,
        reading: Result<DocumentRead, Failure>,
        asked: Duration,
        now: Moment,
    ) -> Result<(), Failure> {
        self.asked = Some(asked);
        let taken = match reading {
            Ok(DocumentRead::Document { json, tag }) => Overrides::parse(&json)
                .map(|overrides| (self.overrides, self.tag) = (overrides, tag))
                .map_err(|bad| broken(&bad)),
            Ok(DocumentRead::None) => {
                (self.overrides, self.tag) = <_>::default();
                Ok(())
            }
            Ok(DocumentRead::NotModified) => self.read.map(|_| ()).ok_or_else(no_answer),
            Err(failure) => Err(failure),
        };
        let is_lasting = |failure: &Failure| self.failed || failure.class == FailureClass::ActionRequired;
        self.is_unread = taken.as_ref().is_err_and(is_lasting);
        self.failed = taken.is_err();
        if taken.is_ok() {
            self.read = Some(now);
        }
        taken
    }

    /// Reports whether an override asks for letters' targets.
    pub(super) fn ask_for_target(&self, now: Timestamp) -> bool {
        self.overrides.ask_for_target(now)
    }

    /// Returns the known override about a letter. Its target is asked for only if an override asks for that.
    pub(super) fn on(
        &self,
        letter: &Letter,
        target: impl FnOnce() -> LetterTarget,
        now: Moment,
    ) -> OverrideAnswer {
        let Some(read) = self.read else {
            return if self.waits(now.age) { OverrideAnswer::Unread } else { OverrideAnswer::Nothing };
        };
        let is_fresh = now.age.saturating_sub(read.age) <= MAX_OVERRIDES_AGE;
        let counts = |override_: &Override| is_fresh || override_.action == OverrideAction::Hold;
        let target = if self.ask_for_target(now.at) { target() } else { LetterTarget::Nowhere };
        self.overrides.first(letter, &target, now.at, counts)
    }

    /// Reports whether letters wait until the overrides are read for the first time.
    pub(super) fn waits(&self, age: Duration) -> bool {
        let asks = self.first_asked.is_some_and(|first| age.saturating_sub(first) < MAX_OVERRIDES_AGE);
        self.read.is_none() && asks
    }
}

/// Returns the failure of reading a document that is broken, or newer than this code.
fn broken(bad: &BadOverrides) -> Failure {
    let told: Vec<_> = bad.0.iter().take(MAX_FAULTS).map(ToString::to_string).collect();
    let more = bad.0.len().saturating_sub(MAX_FAULTS);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let failure = Failure::ours(FailureClass::ActionRequired, "OverridesBroken");
    Failure { message: Some(told.join("; ") + &more), ..failure }
}
