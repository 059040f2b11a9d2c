//! The document of recoveries, as this instance knows it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::batch::action::DocumentRead;
use crate::batch::moment::Moment;
use crate::endpoint::TargetName;
use crate::failure::{Failure, FailureClass};
use crate::policy::VISIBILITY_CEILING;
use crate::waiting::{BadRecoveries, EndpointRecovery, Recoveries, waiting_from};

/// The time after which the document is read again, as the overrides are.
const READ_EVERY: Duration = Duration::from_secs(15);

/// The time after which a reading is repeated for letters that came before their time.
const NEW_FOR: Duration = Duration::from_secs(1);

/// The shortest time between two recoveries of one endpoint: a letter that fails whenever it is woken is woken no more often.
const BETWEEN_RECOVERIES: SignedDuration = SignedDuration::from_mins(15);

/// The longest time for which SQS hides a letter. As long it is kept that an endpoint was back: lines of letters that were woken
/// look as if they waited.
const LONGEST_HIDDEN: SignedDuration = SignedDuration::from_secs(VISIBILITY_CEILING.cast_signed());

/// The document, and when it was read.
#[derive(Debug, Default)]
pub(super) struct KnownRecoveries {
    pub(super) document: Recoveries,
    /// S3's tag of the document.
    pub(super) tag: Option<String>,
    /// The age of the instance when it asked for it.
    asked: Option<Duration>,
}

impl KnownRecoveries {
    /// Reports whether it is time to read the document.
    pub(super) fn is_due(&self, age: Duration) -> bool {
        self.asked.is_none_or(|asked| age.saturating_sub(asked) >= READ_EVERY)
    }

    /// Reports whether the last reading may not know what another instance has just written.
    pub(super) fn is_old(&self, age: Duration) -> bool {
        self.asked.is_none_or(|asked| age.saturating_sub(asked) >= NEW_FOR)
    }

    /// Takes over a reading.
    pub(super) fn take(&mut self, read: DocumentRead, now: Moment) -> Result<(), Failure> {
        self.asked = Some(now.age);
        match read {
            DocumentRead::Document { json, tag } => {
                // It is advice: one that is broken counts as none, and is replaced. One of a newer version is left alone.
                let document = match Recoveries::parse(&json) {
                    Ok(document) => document,
                    Err(BadRecoveries::Broken(..)) => Recoveries::default(),
                    Err(bad) => {
                        let failure = Failure::ours(FailureClass::ActionRequired, "RecoveriesUnreadable");
                        return Err(Failure { message: Some(bad.to_string()), ..failure });
                    }
                };
                (self.document, self.tag) = (document, tag);
            }
            DocumentRead::None => (self.document, self.tag) = <_>::default(),
            DocumentRead::NotModified => {}
        }
        // One that is not modified, too: the wall clock may have been set back since it was read.
        self.document.retain_possible(now.at);
        Ok(())
    }

    /// Takes note that the document was written by another instance meanwhile.
    pub(super) fn forget_reading(&mut self) {
        self.asked = None;
    }

    /// Reports whether an endpoint is down, for the letters of any queue.
    pub(super) fn is_down(&self, target: &TargetName) -> bool {
        self.document.iter().any(|known| known.target == *target && known.down_since.is_some())
    }

    /// Returns the time when an endpoint was back, while that counts or it has been up since. Letters that moved before all
    /// instances knew of it may come much later.
    pub(super) fn recovered_at(&self, target: &TargetName, now: Timestamp) -> Option<Timestamp> {
        // An endpoint may be down by the entry of one queue alone.
        let is_up = !self.is_down(target);
        let of_target = self.document.iter().filter(|known| known.target == *target);
        let back = of_target.filter(|known| is_up || counts(known, now));
        back.filter_map(|known| known.recovered_at).max()
    }

    /// Reports whether an endpoint was back a short while ago, or not all its letters are woken yet.
    pub(super) fn was_back(&self, target: &TargetName, now: Timestamp) -> bool {
        self.document.iter().any(|known| known.target == *target && counts(known, now))
    }
}

/// Reports whether a recovery counts: not all letters are woken yet, or it is not long ago.
fn counts(known: &EndpointRecovery, now: Timestamp) -> bool {
    known.recovered_at.is_some_and(|at| !known.is_done || now.duration_since(at) < BETWEEN_RECOVERIES)
}

/// Reports whether an entry says nothing any more.
pub(super) fn is_over(known: &EndpointRecovery, now: Timestamp) -> bool {
    known.down_since.is_none()
        && !counts(known, now)
        && known.recovered_at.is_none_or(|at| now.duration_since(at) >= LONGEST_HIDDEN)
}

/// Takes note that an endpoint that was down has accepted a letter. Returns whether that is a recovery.
pub(super) fn recover(known: &mut EndpointRecovery, now: Timestamp) -> bool {
    let is_soon = known.recovered_at.is_some_and(|at| now.duration_since(at) < BETWEEN_RECOVERIES);
    if known.down_since.is_none() || is_soon {
        return false;
    }
    // Another instance may have seen it fail before.
    let first = known.down_since.take().and_then(|since| since.checked_sub(BETWEEN_RECOVERIES).ok());
    let first = first.map(waiting_from);
    let place = known.place.take().filter(|place| *place <= waiting_from(now));
    // If not all are woken that waited before, those are woken as well.
    let place = if counts(known, now) { place.or(first) } else { place.max(first) };
    // What was hidden earlier than SQS can hide shows by now.
    known.place = place.max(now.checked_sub(LONGEST_HIDDEN).ok().map(waiting_from));
    (known.recovered_at, known.is_done) = (Some(now), false);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute)
    }

    /// Returns an endpoint that is down since this minute.
    fn down(minute: i64) -> EndpointRecovery {
        let mut document = Recoveries::default();
        document.add("dlq", &TargetName::read("#8a5edab28263")).down_since = Some(at(minute));
        document.iter().next().unwrap().clone()
    }

    #[test]
    fn letters_are_woken_from_a_quarter_of_an_hour_before_the_outage_on() {
        let mut known = down(100);
        assert!(recover(&mut known, at(200)));
        assert_eq!(known.place, Some(waiting_from(at(85))));
        assert!(!recover(&mut known, at(201)), "it is not down");
        let mut long = down(100);
        assert!(recover(&mut long, at(2_000)));
        assert_eq!(long.place, Some(waiting_from(at(2_000 - 690))), "earlier ones show by now");
    }

    #[test]
    fn a_recovery_goes_on_where_the_one_before_it_was() {
        for (minute, is_done, place) in
            [(230, false, 199), (230, true, 205), (214, true, 199), (216, true, 201)]
        {
            let mut known = down(100);
            recover(&mut known, at(200));
            (known.place, known.is_done) = (Some(waiting_from(at(199))), is_done);
            known.down_since = Some(at(220.min(minute)));
            assert_eq!(
                recover(&mut known, at(minute)),
                minute >= 215,
                "a quarter of an hour later at the earliest"
            );
            assert_eq!(known.place, Some(waiting_from(at(place))), "{minute} {is_done}");
        }
    }

    /// Until then lines of letters that were woken look as if they waited.
    #[test]
    fn an_endpoint_that_was_back_is_kept_for_as_long_as_letters_are_hidden() {
        let mut known = down(0);
        recover(&mut known, at(10));
        assert!(!is_over(&known, at(10_000)), "not all are woken");
        known.is_done = true;
        assert_eq!([20, 10 + 689, 10 + 690].map(|minute| is_over(&known, at(minute))), [false, false, true]);
        known.down_since = Some(at(700));
        assert!(!is_over(&known, at(800)), "it is down");
    }

    /// A letter that moved comes a quarter of an hour later, or later still if many wait before it.
    #[test]
    fn letters_hear_of_a_recovery_for_as_long_as_the_endpoint_is_up() {
        let mut known = KnownRecoveries::default();
        let one = known.document.add("dlq", &TargetName::read("#8a5edab28263"));
        (one.recovered_at, one.is_done) = (Some(at(10)), true);
        let target = one.target.clone();
        let hears = |known: &KnownRecoveries, minute| known.recovered_at(&target, at(minute)).is_some();
        assert_eq!([24, 26, 600].map(|minute| hears(&known, minute)), [true; 3]);
        assert_eq!([24, 26].map(|minute| known.was_back(&target, at(minute))), [true, false]);
        for queue in ["dlq", "requeue"] {
            let mut down = KnownRecoveries { document: known.document.clone(), ..KnownRecoveries::default() };
            down.document.add(queue, &target).down_since = Some(at(20));
            let heard = [24, 26].map(|minute| hears(&down, minute));
            assert_eq!(heard, [true, false], "it is down again, by letters of the {queue}");
        }
    }

    #[test]
    fn a_time_that_lies_ahead_since_the_wall_clock_was_set_back_counts_no_more() {
        let target = TargetName::read("#8a5edab28263");
        let moment = |wall: i64, age: u64| Moment {
            at: Timestamp::UNIX_EPOCH + SignedDuration::from_secs(wall),
            age: Duration::from_secs(age),
        };
        let mut known = KnownRecoveries::default();
        known.document.add("dlq", &target).down_since = Some(moment(3_600, 0).at);
        known.take(DocumentRead::NotModified, moment(3_700, 100)).unwrap();
        assert!(known.is_down(&target));
        known.take(DocumentRead::NotModified, moment(110, 110)).unwrap();
        assert!(!known.is_down(&target), "others do not see it either");
    }
}
