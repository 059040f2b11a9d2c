//! The reading of a unit: its ledger and its letters.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use jiff::SignedDuration;
use redrive_archive::{LetterIdentity, SelectedCount, UnreadItem, WalkItem as Walked};
use tokio::time::{Instant, sleep};

use super::control::STOP_CHECK_INTERVAL;
use super::error::ReplayError;
use super::input_records::PlacedRecords;
use super::ledger::UnitLedger;
use super::letter::RecordLocation;
use super::recent_letters::RecentLetters;
use super::replay_state::ReplayCounts;
use super::replay_store::{CONCURRENT_DOCUMENTS, StoredDocument};
use super::unit::Unit;
use super::worker_context::WorkerContext;

/// The time for which a claim is valid without renewal.
const CLAIM_LEASE: SignedDuration = SignedDuration::from_secs(60);

/// The time that a worker waits for another that is alive.
const MAX_CLAIM_WAIT: Duration = Duration::from_mins(3);

/// The time between two checks of another worker's claim.
const CLAIM_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// A unit as it was read.
pub(super) struct ReadUnit {
    pub(super) ledger: UnitLedger,
    pub(super) etag: Option<String>,
    pub(super) freed: HashSet<String>,
    /// The unit's records. `None` if the replay has finished the unit, or only counts letters that the index
    /// knows.
    pub(super) records: Option<PlacedRecords>,
    /// Its erased letters that belong to the selection.
    pub(super) erased: Vec<(RecordLocation, LetterIdentity)>,
    pub(super) counts: ReplayCounts,
    /// The number of letters that have left the unit since the replay was planned, by the index.
    pub(super) missing: u64,
}

impl WorkerContext<'_> {
    /// Reads a unit: first its ledger, then its letters. Returns `None` if the replay must stop before.
    pub(super) async fn read(&self, unit: &Unit) -> Result<Option<ReadUnit>, ReplayError> {
        let Some((ledger, etag)) = self.ledger(unit).await? else { return Ok(None) };
        let freed = self.freed_of(&ledger).await?;
        let (counts, erased) = (ReplayCounts::default(), Vec::new());
        let mut read = ReadUnit { ledger, etag, freed, records: None, erased, counts, missing: 0 };
        if read.ledger.entry(self.id).is_some_and(|entry| entry.done.is_some()) {
            return Ok(Some(read));
        }
        if self.counts_by_index(unit) && read.etag.is_none() {
            read.counts.sent = unit.letters;
            return Ok(Some(read));
        }
        let is_first = read.ledger.entry(self.id).is_none();
        let records = match self.given {
            Some(given) => given.get(&unit.key()).cloned().unwrap_or_default(),
            None => self.records(unit, &mut read, is_first).await?,
        };
        read.records = Some(records);
        Ok(Some(read))
    }

    /// Waits until nobody else is at work on a unit, and returns its ledger. Returns `None` if the replay
    /// must stop before.
    async fn ledger(&self, unit: &Unit) -> Result<Option<(UnitLedger, Option<String>)>, ReplayError> {
        let began = Instant::now();
        loop {
            let found = self.replay.kept.store.read::<UnitLedger>(&unit.key()).await?;
            let Some(StoredDocument { document: ledger, etag, age }) = found else {
                return Ok(Some((UnitLedger::new(), None)));
            };
            let claim = ledger.claim.as_ref().filter(|claim| claim.worker != self.token && age < CLAIM_LEASE);
            // A dry run does not need to wait for claims.
            let claim = claim.filter(|_| !self.request.dry_run);
            let Some(claim) = claim else { return Ok(Some((ledger, Some(etag)))) };
            if began.elapsed() >= MAX_CLAIM_WAIT {
                return Err(ReplayError::Busy(format!("replay {}", claim.replay)));
            }
            let look = Instant::now() + CLAIM_POLL_INTERVAL;
            while Instant::now() < look {
                if self.control.stop() {
                    return Ok(None);
                }
                sleep(STOP_CHECK_INTERVAL).await;
            }
        }
    }

    /// Returns the other replays of a ledger whose letters in doubt were freed.
    async fn freed_of(&self, ledger: &UnitLedger) -> Result<HashSet<String>, ReplayError> {
        let mut all = HashSet::new();
        for other in ledger.in_doubt_of(self.id) {
            let mut known = self.freed.lock().await;
            let is_freed = if let Some(is_freed) = known.get(other) {
                *is_freed
            } else {
                let state = self.replay.kept.read(other).await?;
                let is_freed = state.is_some_and(|state| state.document.freed.is_some());
                known.insert(other.to_owned(), is_freed);
                is_freed
            };
            if is_freed {
                all.insert(other.to_owned());
            }
        }
        Ok(all)
    }

    /// Returns the records of a unit that belong to the selection. Unreadable ones are reported only the
    /// first time.
    async fn records(
        &self,
        unit: &Unit,
        read: &mut ReadUnit,
        is_first: bool,
    ) -> Result<PlacedRecords, ReplayError> {
        let (first, before) = unit.keys(&self.replay.prefix);
        let mut listing = self.replay.listing(&first, Some(&before));
        let (mut objects, mut letters) = (Vec::new(), HashMap::new());
        while let Some(object) = listing.next().await {
            let object = object.map_err(ReplayError::unlisted)?;
            if !unit.holds(&object) {
                continue;
            }
            let (SelectedCount::AtMost(count) | SelectedCount::Exactly(count)) =
                self.selection.holds(&object)
            else {
                continue;
            };
            letters.insert(Arc::clone(&object.key), count);
            objects.push(object);
        }
        let mut walk = self.replay.walk(objects, self.selection);
        let mut records = Vec::new();
        while let Some(found) = walk.next().await {
            match found {
                Walked::Letter(archived) => {
                    let at = RecordLocation { key: archived.key.to_string(), line: Some(archived.line) };
                    records.push((at, archived.record, false));
                }
                Walked::Erased(erased) => {
                    let at = RecordLocation { key: erased.key.to_string(), line: Some(erased.line) };
                    read.erased.push((at, erased.record.erased.letter));
                }
                // The object was deleted after it was listed, for example by a lifecycle rule.
                Walked::Unread(unread) if unread.why.is_gone() => {
                    letters.remove(&unread.key);
                }
                // It will not be readable in a minute either, and must not hold up the others.
                Walked::Unread(UnreadItem { key, line, why }) if why.is_lasting() => {
                    read.counts.unreadable += 1;
                    if is_first {
                        self.control
                            .left_out(&RecordLocation { key: key.to_string(), line }, &why.to_string());
                    }
                }
                Walked::Unread(unread) => return Err(ReplayError::unread(unread)),
            }
        }
        read.missing = unit.letters.saturating_sub(letters.values().sum());
        Ok(records)
    }

    /// Reads which letters of an hour were sent, by any replay, around a unit: a letter that was archived
    /// twice may have been sent from another unit. It reads the nearest units first, and no more letters than
    /// it remembers.
    pub(super) async fn met_near(&self, unit: &Unit) -> Result<RecentLetters, ReplayError> {
        let store = &self.replay.kept.store;
        let keys = store.list(&Unit::folder(&unit.queue, &unit.hour), None).await?.into_iter();
        let mut keys: Vec<_> = keys.filter_map(|key| Some((Unit::number_of(&key)?, key))).collect();
        keys.sort_unstable_by_key(|(number, _)| number.abs_diff(unit.number));
        let read = |(number, key): (_, String)| async move {
            Ok::<_, ReplayError>((number, store.read::<UnitLedger>(&key).await?))
        };
        let mut ledgers = stream::iter(keys).map(read).buffered(CONCURRENT_DOCUMENTS);
        let mut met = RecentLetters::new(self.replay.workers);
        let (mut nearest, mut letters) = (Vec::new(), 0);
        while letters < met.most()
            && let Some((number, found)) = ledgers.try_next().await?
        {
            let sent = found.iter().flat_map(|found| found.document.sent(self.own_only()));
            nearest.push((number, sent.copied().collect::<Vec<_>>()));
            letters += nearest.last().map_or(0, |(_, sent)| sent.len());
        }
        // The letters that are added last are remembered longest.
        for (number, sent) in nearest.into_iter().rev() {
            met.add(number, true, sent);
        }
        Ok(met)
    }

    /// Returns the only replay whose sent letters count, if there is one: with `again` it is this replay.
    pub(super) fn own_only(&self) -> Option<&str> {
        self.request.again.then_some(self.id)
    }
}
