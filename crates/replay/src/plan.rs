//! The plan of a replay: the units that may hold letters of its selection, in order.
//!
//! A plan is made from listings alone, because an object's key has a summary of its letters. Several days are
//! listed at the same time, and also the hours of a day with many objects. So neither a long archive nor a
//! dense day takes longer than a function may run. Memory holds one page of each listing and the cut of each
//! hour.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use redrive_archive::{ArchiveObject, KeyRange, SelectedCount, Selection, days, hours_of, is_day, keys_with};
use tokio::sync::Semaphore;

use super::control::ReplayControl;
use super::error::ReplayError;
use super::replay_store::WriteCondition;
use super::replayer::ArchiveReplayer;
use super::unit::Unit;
use super::unit_boundaries::{BoundaryBuilder, UnitBoundaries};

/// The number of listings at the same time.
const CONCURRENT_LISTINGS: usize = 32;

/// The greatest number of objects of a day that are listed one after the other: a page of S3. A day with more
/// is listed by hours.
const MAX_DAY_OBJECTS: usize = 1000;

/// The number of tries to write a cut, if another replay writes it at the same time.
const TRIES: u32 = 5;

/// The units of a replay.
#[derive(Debug, Default)]
pub(super) struct UnitPlan {
    pub(super) units: Vec<Unit>,
    pub(super) queues: BTreeSet<String>,
    pub(super) letters: u64,
    pub(super) exact: bool,
    /// `true` if another replay has planned to send letters of the same hours.
    pub(super) others: bool,
}

impl From<Vec<Unit>> for UnitPlan {
    fn from(units: Vec<Unit>) -> Self {
        Self {
            letters: units.iter().map(|unit| unit.letters).sum(),
            exact: units.iter().all(|unit| unit.exact),
            queues: units.iter().map(|unit| unit.queue.clone()).collect(),
            others: false,
            units,
        }
    }
}

/// A maker of plans.
pub(super) struct UnitPlanner<'r> {
    replay: &'r ArchiveReplayer,
    selection: &'r Selection,
    /// `true` if cuts are stored, as they must be before anything is sent.
    keep: bool,
    control: &'r dyn ReplayControl,
    /// The permits for listings: each listing takes one.
    turns: Semaphore,
    /// The hours with selected letters, by the keys of their cuts, and whether another replay had cut them before.
    /// An hour may be listed twice.
    cut_before: Mutex<BTreeMap<String, bool>>,
}

/// The limit on the listing of a range of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListLimit {
    All,
    /// At most [`MAX_DAY_OBJECTS`] objects.
    Few,
    /// Only objects with a time in their names.
    Named,
}

/// The result of listing a range.
enum ListedRange {
    Units(Vec<Unit>),
    /// The range has more than was allowed.
    More,
    /// Another replay has changed the cut in the meantime.
    Changed,
}

/// An hour of a queue whose objects are being listed.
struct OpenHour {
    queue: String,
    hour: String,
    etag: Option<String>,
    cutter: BoundaryBuilder,
    /// The number of selected letters by unit, and whether it is exact.
    units: BTreeMap<usize, (u64, bool)>,
}

impl<'r> UnitPlanner<'r> {
    pub(super) fn new(
        replay: &'r ArchiveReplayer,
        selection: &'r Selection,
        keep: bool,
        control: &'r dyn ReplayControl,
    ) -> Self {
        let (turns, cut_before) = (Semaphore::new(CONCURRENT_LISTINGS), Mutex::default());
        Self { replay, selection, keep, control, turns, cut_before }
    }

    /// Makes the plan of the selection. An hour is cut with all its objects, even if only some are selected.
    pub(super) async fn plan(&self) -> Result<UnitPlan, ReplayError> {
        let ArchiveReplayer { s3, bucket, prefix, .. } = self.replay;
        let days = days(s3, bucket, prefix, self.selection).await.map_err(ReplayError::unlisted)?;
        let days = stream::iter(days).map(|day| self.day(day)).buffered(CONCURRENT_LISTINGS);
        let units: Vec<_> = days.try_collect().await?;
        let plan = UnitPlan::from(units.into_iter().flatten().collect::<Vec<_>>());
        Ok(UnitPlan { others: self.has_others(), ..plan })
    }

    /// Reports whether another replay has planned to send letters of the hours that were listed.
    pub(super) fn has_others(&self) -> bool {
        self.cut_before.lock().unwrap_or_else(PoisonError::into_inner).values().any(|is_cut| *is_cut)
    }

    /// Returns the units of the objects whose keys begin with `keys`: those of an hour, or of a day without
    /// times.
    pub(super) async fn beginning(&self, keys: &str) -> Result<Vec<Unit>, ReplayError> {
        let units = self.range(&keys_with(keys), ListLimit::All).await?;
        Ok(units.unwrap_or_default())
    }

    /// Returns the units of a day, by its folder.
    async fn day(&self, day: String) -> Result<Vec<Unit>, ReplayError> {
        let whole = keys_with(&day);
        if let Some(units) = self.range(&whole, ListLimit::Few).await? {
            return Ok(units);
        }
        let asked = hours_of(&day).into_iter().filter(|(hour, _)| self.is_asked(hour));
        let parts: Vec<_> = asked.map(|(_, keys)| keys).collect();
        let listed =
            stream::iter(&parts).map(|part| self.range(part, ListLimit::Named)).buffered(CONCURRENT_LISTINGS);
        let units: Option<Vec<_>> = listed.try_collect::<Vec<_>>().await?.into_iter().collect();
        if let Some(units) = units {
            return Ok(units.into_iter().flatten().collect());
        }
        // Objects without a time in their names belong to units of the whole day, wherever their names are in
        // its order. So the whole day is listed in one go.
        Ok(self.range(&whole, ListLimit::All).await?.unwrap_or_default())
    }

    /// Returns the units of a range of keys of one queue, or `None` if the range has more than `most` allows.
    async fn range(&self, keys: &KeyRange, most: ListLimit) -> Result<Option<Vec<Unit>>, ReplayError> {
        let _turn = self.turns.acquire().await;
        for _ in 0..TRIES {
            match self.range_once(keys, most).await? {
                ListedRange::Units(units) => return Ok(Some(units)),
                ListedRange::More => return Ok(None),
                ListedRange::Changed => {}
            }
        }
        Err(ReplayError::Busy("another replay".to_owned()))
    }

    /// Reports whether an hour may hold letters of the selection's time. A day of names without a time may
    /// hold letters of any of its hours.
    fn is_asked(&self, hour: &str) -> bool {
        let name_of = |at: Timestamp| at.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H").to_string();
        let (from, until) = (self.selection.from.map(name_of), self.selection.until().map(name_of));
        from.is_none_or(|from| is_day(hour) || hour >= &*from) && until.is_none_or(|until| hour <= &*until)
    }

    async fn range_once(
        &self,
        (first, before): &KeyRange,
        most: ListLimit,
    ) -> Result<ListedRange, ReplayError> {
        let mut listing = self.replay.listing(first, Some(before));
        let (mut open, mut units, mut objects) = (Vec::<OpenHour>::new(), Vec::new(), 0);
        while let Some(object) = listing.next().await {
            let object = object.map_err(ReplayError::unlisted)?;
            if self.control.stop() {
                return Err(ReplayError::NotPlanned);
            }
            objects += 1;
            let (queue, hour) = (object.queue(), object.hour());
            let is_of_any = is_day(&hour);
            if (most == ListLimit::Few && objects > MAX_DAY_OBJECTS)
                || (most == ListLimit::Named && is_of_any)
            {
                return Ok(ListedRange::More);
            }
            if !self.is_asked(&hour) {
                continue;
            }
            if !open.iter().any(|open| open.hour == hour) {
                // Names without a time may be sorted between those of the hours.
                let is_over = |open: &mut OpenHour| !is_of_any && !is_day(&open.hour);
                for over in open.extract_if(.., is_over).collect::<Vec<_>>() {
                    let Some(of_hour) = self.end(over).await? else { return Ok(ListedRange::Changed) };
                    units.extend(of_hour);
                }
                open.push(self.begin(queue, &hour).await?);
            }
            if let Some(open) = open.iter_mut().find(|open| open.hour == hour) {
                open.take(&object, self.selection);
            }
        }
        for over in open {
            let Some(of_hour) = self.end(over).await? else { return Ok(ListedRange::Changed) };
            units.extend(of_hour);
        }
        Ok(ListedRange::Units(units))
    }

    async fn begin(&self, queue: &str, hour: &str) -> Result<OpenHour, ReplayError> {
        let found = self.replay.kept.store.read::<UnitBoundaries>(&Unit::key_of_cuts(queue, hour)).await?;
        let (cuts, etag) = found.map_or((None, None), |found| (Some(found.document), Some(found.etag)));
        let (queue, hour) = (queue.to_owned(), hour.to_owned());
        Ok(OpenHour { queue, hour, etag, cutter: BoundaryBuilder::new(cuts), units: BTreeMap::new() })
    }

    /// Returns the units of an hour, and writes its cut if it must be written. Returns `None` if another
    /// replay has changed the cut in the meantime.
    async fn end(&self, hour: OpenHour) -> Result<Option<Vec<Unit>>, ReplayError> {
        let OpenHour { queue, hour, etag, cutter, units } = hour;
        if !units.is_empty() {
            let mut cut_before = self.cut_before.lock().unwrap_or_else(PoisonError::into_inner);
            cut_before.entry(Unit::key_of_cuts(&queue, &hour)).or_insert(etag.is_some());
        }
        if !units.is_empty()
            && self.keep
            && let Some(cuts) = cutter.changed()
        {
            let (key, condition) = (Unit::key_of_cuts(&queue, &hour), WriteCondition::of(etag.as_deref()));
            if self.replay.kept.store.write(&key, cuts, condition).await?.is_none() {
                self.cut_before.lock().unwrap_or_else(PoisonError::into_inner).insert(key, true);
                return Ok(None);
            }
        }
        let unit = |(number, (letters, exact))| {
            let (queue, hour) = (queue.clone(), hour.clone());
            Unit { queue, hour, number, range: cutter.range(number), letters, exact }
        };
        Ok(Some(units.into_iter().map(unit).collect()))
    }
}

impl OpenHour {
    fn take(&mut self, object: &ArchiveObject, selection: &Selection) {
        let all = object.index.as_ref().map_or(1 + object.bytes / 1024, |index| index.letters);
        let unit = self.cutter.push(object.name(), object.bytes, all);
        let (letters, exact) = match selection.holds(object) {
            SelectedCount::None => return,
            SelectedCount::AtMost(letters) => (letters, false),
            SelectedCount::Exactly(letters) => (letters, true),
        };
        let (sum, all_exact) = self.units.entry(unit).or_insert((0, true));
        *sum += letters;
        *all_exact &= exact;
    }
}
