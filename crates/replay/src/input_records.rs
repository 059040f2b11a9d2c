//! Records that are given to a replay, by the units in which the archive holds them.
//!
//! The ledger of a letter's unit holds everything that replays know of the letter, whether it was found in
//! the archive or given, perhaps edited. So each record is looked up in the archive, by the second in which
//! it was archived. There it is also compared: an edit may change body, subject and attributes, and nothing
//! that names a queue, a topic, a subscription or a number.

use std::collections::{BTreeMap, HashMap};

use jiff::tz::TimeZone;
use redrive_archive::{ArchiveRecord, LetterIdentity, Selection, WalkItem};
use redrive_core::arn::Arn;
use redrive_core::letter::{
    BelievedClaims, Letter, MARK_ATTRIBUTE, MessageAttribute, Origin, TrustedOrigins,
};

use super::control::ReplayControl;
use super::error::ReplayError;
use super::letter::{NotReplayable, RecordLocation};
use super::letters::InputRecord;
use super::plan::{UnitPlan, UnitPlanner};
use super::replay_state::ReplayCounts;
use super::replayer::ArchiveReplayer;
use super::unit::Unit;

/// Records with their places, and whether each was edited.
pub(super) type PlacedRecords = Vec<(RecordLocation, ArchiveRecord, bool)>;

/// Records that were given, by unit.
#[derive(Debug, Default)]
pub(super) struct GivenRecords {
    /// The records by the key of their unit's ledger.
    pub(super) units: HashMap<String, PlacedRecords>,
    /// The units, in order.
    plan: BTreeMap<String, Unit>,
    /// The counts of records that could not be found or read.
    pub(super) counts: ReplayCounts,
    /// `true` if another replay has planned to send letters of the same hours.
    others: bool,
}

/// The parts of the archive that were searched so far.
struct SearchedHours<'r> {
    replay: &'r ArchiveReplayer,
    keep: bool,
    control: &'r dyn ReplayControl,
    /// The units of an hour of a queue, by folder and hour.
    hours: HashMap<String, Vec<Unit>>,
    /// The letters of a second of a queue, by folder and second. A crash can archive a letter twice.
    seconds: HashMap<String, HashMap<LetterIdentity, Vec<OriginalLetter>>>,
    /// `true` if another replay has planned to send letters of these hours.
    others: bool,
}

/// A letter as the archive has it.
struct OriginalLetter {
    unit: Unit,
    fixed: FixedParts,
}

/// The parts of a record that an edit must not change.
#[derive(PartialEq, Eq)]
struct FixedParts {
    /// The record without its body, and with no message attribute but our mark.
    record: ArchiveRecord,
    origin: Origin,
    /// The id, the topic and the subscription of the SNS message.
    sns: Option<(String, Arn, Option<Arn>)>,
    /// Our mark in the SNS message.
    mark: Option<MessageAttribute>,
}

impl FixedParts {
    /// Reads the fixed parts. Returns `None` of a record that is no letter.
    fn of(record: &ArchiveRecord) -> Option<Self> {
        let message = record.to_message().ok()?;
        // The function may believe each of these, so an edit must change none.
        let trust = BelievedClaims { requeue: Some(&record.queue_arn), origins: &TrustedOrigins::all() };
        let letter = Letter::received(message, trust);
        let mut record = record.clone();
        record.message.body.clear();
        record.message.message_attributes.retain(|name, _| name == MARK_ATTRIBUTE);
        let mark = letter.notification.as_ref().and_then(|sns| sns.attributes.get(MARK_ATTRIBUTE)).cloned();
        let sns = letter.notification.map(|sns| (sns.message_id, sns.topic, sns.subscription));
        Some(Self { record, origin: letter.origin, sns, mark })
    }
}

impl GivenRecords {
    /// Finds the units of records. It reports and leaves out inputs that are no record or are not in the
    /// archive.
    pub(super) async fn find(
        replay: &ArchiveReplayer,
        records: &[InputRecord],
        keep: bool,
        control: &dyn ReplayControl,
    ) -> Result<Self, ReplayError> {
        let (hours, seconds) = (HashMap::new(), HashMap::new());
        let mut searched = SearchedHours { replay, keep, control, hours, seconds, others: false };
        let mut given = Self::default();
        for (input, line) in records.iter().zip(1..) {
            let at = RecordLocation { key: String::new(), line: Some(line) };
            let (record, edited) = match input {
                Ok(record) => record,
                Err(problem) => {
                    given.counts.unreadable += 1;
                    control.left_out(&at, problem);
                    continue;
                }
            };
            if control.stop() {
                return Err(ReplayError::NotPlanned);
            }
            let unit = match searched.unit(record).await? {
                Ok(unit) => unit,
                Err(why) => {
                    *given.counts.not_replayable.entry(why.name().to_owned()).or_default() += 1;
                    control.left_out(&at, &why.why());
                    continue;
                }
            };
            let key = unit.key();
            let planned = given.plan.entry(key.clone()).or_insert(Unit { letters: 0, exact: true, ..unit });
            planned.letters += 1;
            given.units.entry(key).or_default().push((at, record.clone(), *edited));
        }
        given.others = searched.others;
        Ok(given)
    }

    /// Returns the plan of a replay of these records.
    pub(super) fn plan(&self) -> UnitPlan {
        UnitPlan { others: self.others, ..self.plan.values().cloned().collect::<Vec<_>>().into() }
    }
}

impl SearchedHours<'_> {
    /// Returns the unit that holds a record, or why the record cannot be sent.
    async fn unit(&mut self, record: &ArchiveRecord) -> Result<Result<Unit, NotReplayable>, ReplayError> {
        let mut queues = vec![record.dead_letter_queue_arn.resource().to_owned()];
        // An edit may have changed the dead-letter queue. The record is then found in the folder of the queue that
        // held it, and refused.
        queues.push(record.queue_arn.resource().to_owned());
        queues.dedup();
        let second = record.archived().to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%S").to_string();
        for queue in queues {
            let key = self.replay.keys(&queue, &second);
            if !self.seconds.contains_key(&key) {
                let letters = self.letters(&queue, &second).await?;
                self.seconds.insert(key.clone(), letters);
            }
            let Some(archived) = self.seconds.get(&key).and_then(|all| all.get(&record.identity())) else {
                continue;
            };
            if archived.is_empty() {
                return Ok(Err(NotReplayable::Erased));
            }
            // One that is no letter is left out later, with its fault.
            let fixed = FixedParts::of(record);
            let is_same =
                |archived: &&OriginalLetter| fixed.as_ref().is_none_or(|fixed| *fixed == archived.fixed);
            let same = archived.iter().find(is_same);
            return Ok(same.map(|archived| archived.unit.clone()).ok_or(NotReplayable::Changed));
        }
        Ok(Err(NotReplayable::NotArchived))
    }

    /// Returns the letters that were archived in a second, each with its unit. An erased letter has none.
    async fn letters(
        &mut self,
        queue: &str,
        second: &str,
    ) -> Result<HashMap<LetterIdentity, Vec<OriginalLetter>>, ReplayError> {
        let mut listing = self.replay.begin_so(&self.replay.keys(queue, second));
        let mut objects = Vec::new();
        while let Some(object) = listing.next().await {
            objects.push(object.map_err(ReplayError::unlisted)?);
        }
        let mut letters = HashMap::<_, Vec<_>>::new();
        if objects.is_empty() {
            return Ok(letters);
        }
        let hour = self.replay.keys(queue, second.get(..11).unwrap_or(second));
        if !self.hours.contains_key(&hour) {
            let all = Selection::default();
            let planner = UnitPlanner::new(self.replay, &all, self.keep, self.control);
            let units = Box::pin(planner.beginning(&hour)).await?;
            self.others |= planner.has_others();
            self.hours.insert(hour.clone(), units);
        }
        let units = self.hours.get(&hour).map(Vec::as_slice).unwrap_or_default();
        let by_key: HashMap<_, _> = objects
            .iter()
            .filter_map(|object| Some((object.key.clone(), units.iter().find(|unit| unit.holds(object))?)))
            .collect();
        let all = Selection::default();
        let mut walk = self.replay.walk(objects.clone(), &all);
        while let Some(found) = walk.next().await {
            match found {
                WalkItem::Letter(archived) => {
                    if let (Some(unit), Some(fixed)) =
                        (by_key.get(&archived.key), FixedParts::of(&archived.record))
                    {
                        let archived_as = OriginalLetter { unit: (*unit).clone(), fixed };
                        letters.entry(archived.record.identity()).or_default().push(archived_as);
                    }
                }
                WalkItem::Erased(erased) => {
                    letters.entry(erased.record.erased.letter).or_default();
                }
                // The unread part may hold a given record.
                WalkItem::Unread(failed) if !failed.why.is_gone() && !failed.why.is_lasting() => {
                    return Err(ReplayError::unread(failed));
                }
                WalkItem::Unread(_) => {}
            }
        }
        Ok(letters)
    }
}
