//! The plan of a replay: the units that may hold letters of its selection, in order.
//!
//! A plan is made from listings alone: what an object holds stands in its key. An hour of a queue is held in memory at a
//! time, and of that only its cut.

use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::control::Control;
use super::cut::Cutter;
use super::cuts::KeptCuts;
use super::error::ReplayError;
use super::store::Store;
use super::unit::Unit;
use crate::archive::{Holds, Listing, Object, Selection};

/// How often a cut is written anew, since another replay has written it meanwhile.
const TRIES: u32 = 5;

/// The units of a replay.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) units: Vec<Unit>,
    pub(super) queues: BTreeSet<String>,
    pub(super) letters: u64,
    pub(super) exact: bool,
}

/// An hour of a queue whose objects are being listed.
struct Open {
    queue: String,
    hour: String,
    etag: Option<String>,
    cutter: Cutter,
    /// Letters of the selection by unit, and whether their number is exact.
    units: BTreeMap<usize, (u64, bool)>,
}

/// Returns the whole days of a selection: an hour must be cut with all its objects, whichever of them are selected.
pub(super) fn whole_days(selection: &Selection) -> Selection {
    let day = |at: Timestamp| at.to_zoned(TimeZone::UTC).start_of_day().ok();
    let from = selection.from.and_then(|from| Some(day(from)?.timestamp()));
    let until = selection.until().and_then(day);
    let to = until.and_then(|until| Some(until.tomorrow().ok()?.timestamp()));
    // The day after begins with the last moment of this one.
    let to = to.and_then(|to| to.checked_sub(SignedDuration::from_millis(1)).ok());
    let Selection { queue, requeue, .. } = selection;
    Selection { queue: queue.clone(), requeue: requeue.clone(), from, to, ..Selection::default() }
}

/// Makes a plan. With `keep` the cut is written down, as it must be before anything is sent.
pub(super) async fn plan(
    store: &Store,
    listing: impl Fn() -> Listing,
    selection: &Selection,
    keep: bool,
    control: &dyn Control,
) -> Result<Plan, ReplayError> {
    for _ in 0..TRIES {
        if let Some(plan) = Box::pin(plan_once(store, listing(), selection, keep, control)).await? {
            return Ok(plan);
        }
    }
    Err(ReplayError::Busy("another replay".to_owned()))
}

/// The same; none where another replay has cut the archive meanwhile.
async fn plan_once(
    store: &Store,
    mut listing: Listing,
    selection: &Selection,
    keep: bool,
    control: &dyn Control,
) -> Result<Option<Plan>, ReplayError> {
    let mut plan = Plan { exact: true, ..Plan::default() };
    let (mut hours, mut cuts): (Vec<Open>, _) = (Vec::new(), KeptCuts::new(store));
    let name_of = |at: Timestamp| at.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H").to_string();
    let first = selection.from.map(name_of);
    let last = selection.until().map(name_of);
    while let Some(object) = listing.next().await {
        let object = object.map_err(ReplayError::unlisted)?;
        let (queue, hour) = (object.queue(), object.hour());
        // A day of names without a time may hold letters of any hour.
        let is_before = first.as_ref().is_some_and(|first| hour < *first && !first.starts_with(&hour));
        if is_before || last.as_ref().is_some_and(|last| hour > *last) {
            continue;
        }
        if control.stop() {
            return Err(ReplayError::NotPlanned);
        }
        if !hours.iter().any(|open| open.queue == queue && open.hour == hour) {
            for over in hours.extract_if(.., |open| open.is_over(queue, &hour)).collect::<Vec<_>>() {
                if !over.end(&mut cuts, keep, &mut plan).await? {
                    return Ok(None);
                }
            }
            hours.push(Open::begin(&mut cuts, queue, &hour).await?);
        }
        let open = hours.iter_mut().find(|open| open.queue == queue && open.hour == hour);
        if let Some(open) = open {
            open.take(&object, selection);
        }
    }
    for over in hours {
        if !over.end(&mut cuts, keep, &mut plan).await? {
            return Ok(None);
        }
    }
    if !cuts.all_written().await? {
        return Ok(None);
    }
    plan.letters = plan.units.iter().map(|unit| unit.letters).sum();
    plan.exact = plan.units.iter().all(|unit| unit.exact);
    plan.queues = plan.units.iter().map(|unit| unit.queue.clone()).collect();
    Ok(Some(plan))
}

impl Open {
    async fn begin(cuts: &mut KeptCuts<'_>, queue: &str, hour: &str) -> Result<Self, ReplayError> {
        let found = cuts.read(queue, hour).await?;
        let (cuts, etag) = found.map_or((None, None), |found| (Some(found.document), Some(found.etag)));
        let (queue, hour) = (queue.to_owned(), hour.to_owned());
        Ok(Self { queue, hour, etag, cutter: Cutter::new(cuts), units: BTreeMap::new() })
    }

    fn take(&mut self, object: &Object, selection: &Selection) {
        let all = object.index.as_ref().map_or(1 + object.bytes / 1024, |index| index.letters);
        let unit = self.cutter.push(object.name(), object.bytes, all);
        let (letters, exact) = match selection.holds(object) {
            Holds::None => return,
            Holds::AtMost(letters) => (letters, false),
            Holds::Exactly(letters) => (letters, true),
        };
        let (sum, all_exact) = self.units.entry(unit).or_insert((0, true));
        *sum += letters;
        *all_exact &= exact;
    }

    /// Whether nothing more comes of it when an object of this queue and hour comes. Names without a time may stand
    /// between those of the hours of their day.
    fn is_over(&self, queue: &str, hour: &str) -> bool {
        let day = &hour[..8];
        self.queue != queue || !self.hour.starts_with(day) || (self.hour != day && hour != day)
    }

    /// Adds its units to a plan, and writes its cut where it must be; false where another replay has cut the archive meanwhile.
    async fn end(self, cuts: &mut KeptCuts<'_>, keep: bool, plan: &mut Plan) -> Result<bool, ReplayError> {
        if self.units.is_empty() {
            return Ok(true);
        }
        let is_ours = match self.cutter.changed() {
            Some(cut) if keep => cuts.write((&self.queue, &self.hour), cut.clone(), self.etag).await?,
            _ => true,
        };
        for (number, (letters, exact)) in self.units {
            let (queue, hour) = (self.queue.clone(), self.hour.clone());
            plan.units.push(Unit { queue, hour, number, range: self.cutter.range(number), letters, exact });
        }
        Ok(is_ours)
    }
}
