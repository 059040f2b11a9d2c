//! The times of a selection, and what an object's key and its time of storing say about them.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::object::ArchiveObject;

/// The time span in which a selection's letters were archived.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SelectionTimes {
    pub(super) from: Option<Timestamp>,
    /// The end, which is itself left out.
    pub(super) until: Option<Timestamp>,
    /// The cut-off, which is itself left out. It also holds by S3's own clock.
    pub(super) cut_off: Option<Timestamp>,
}

impl SelectionTimes {
    /// Returns the first and the last day whose objects may hold selected letters.
    pub(super) fn days(&self) -> (Option<Date>, Option<Date>) {
        let day = |at: Timestamp| at.to_zoned(TimeZone::UTC).date();
        (self.from.map(day), self.until.map(day))
    }

    /// Reports whether an object may hold selected letters, by the time at which S3 stored it. The letters were
    /// archived earlier, by a clock that may differ.
    pub(super) fn may_hold(&self, object: &ArchiveObject) -> bool {
        let Some(stored) = object.stored else { return true };
        let late = stored.saturating_add(CLOCK_SKEW).unwrap_or(stored);
        let is_in_time = !self.is_late(object.stored) || self.may_be_stored_anew(object);
        is_in_time && self.from.is_none_or(|from| late >= from)
    }

    /// Reports whether S3 stored something at the cut-off or later.
    pub(super) fn is_late(&self, stored: Option<Timestamp>) -> bool {
        self.cut_off.zip(stored).is_some_and(|(cut_off, stored)| stored >= cut_off)
    }

    /// Reports whether an object that S3 stored too late is perhaps a new version of an earlier one, in which letters
    /// were erased. The object itself tells.
    fn may_be_stored_anew(&self, object: &ArchiveObject) -> bool {
        self.cut_off.zip(object.named_time()).is_none_or(|(cut_off, named)| named < cut_off)
    }

    /// Reports whether all letters of an object were archived in the span (`true`) or none (`false`), as the
    /// key tells. Returns `None` if only each record can tell.
    pub(super) fn span(&self, object: &ArchiveObject) -> Option<bool> {
        if !self.may_hold(object) {
            return Some(false);
        }
        if self.from.is_none() && self.until.is_none() {
            return Some(true);
        }
        let is_late = self.is_late(object.stored);
        let begin = object.named_time()?;
        let end = begin.checked_add(PRECISION).ok()?;
        if self.from.is_some_and(|from| end <= from) || self.until.is_some_and(|until| begin >= until) {
            return Some(false);
        }
        let inside = !is_late
            && self.from.is_none_or(|from| begin >= from)
            && self.until.is_none_or(|until| end <= until);
        inside.then_some(true)
    }
}

/// The precision of times in keys with an index.
const PRECISION: SignedDuration = SignedDuration::from_millis(1);

/// The greatest expected difference between S3's clock and that of the function.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);
