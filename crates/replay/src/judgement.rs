//! The judgement of a step: what happened to its letters, and whether the replay continues.

use std::collections::{BTreeSet, HashSet};

use futures_util::stream::{self, StreamExt};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use redrive_archive::{ArchiveObject, LetterIdentity, Selection, WalkItem as Walked};
use redrive_core::arn::Arn;
use tokio::time::Duration;

use super::drive::ActiveReplay;
use super::error::ReplayError;
use super::ledger::UnitLedger;
use super::replay_stages::{RampStage, StageResult};
use super::replay_state::{ReplayCounts, ReplayStatus};
use super::replay_store::{CONCURRENT_DOCUMENTS, StoredDocument};

/// The least time that letters of the last step may wait before they count as failed, even if
/// `settle_seconds` is shorter.
const LEAST_SETTLE: Duration = Duration::from_mins(1);

/// The greatest expected difference between S3's clock and those of functions that archive.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// The numbers of letters that wait.
struct BacklogCounts {
    requeue: u64,
    /// The number in each dead-letter queue.
    queues: Vec<u64>,
}

impl ActiveReplay<'_> {
    /// Judges a stage and begins the next one. Returns whether the replay continues.
    pub(super) async fn judge(&self, stage: RampStage, stages: &[RampStage]) -> Result<bool, ReplayError> {
        let next = stages.get(self.with(|progress| progress.state.place.stage) + 1);
        let came_back = self.came_back().await?;
        let BacklogCounts { requeue, queues } = self.waiting().await?;
        let now = self.replay.kept.clock.now();
        let failed = self.with(|progress| {
            let counts = progress.counts();
            let place = progress.state.place.clone();
            let grown = queues.iter().zip(&place.queues_before);
            let settle = Duration::from_secs(progress.state.request.settle_seconds.into()).max(LEAST_SETTLE);
            // Letters that were sent just now may still wait, unless the replay has waited for them.
            let has_settled = stage.settles || progress.state.not_before.is_some();
            let lately = if has_settled { 0 } else { progress.lately(settle, now) };
            let result = StageResult {
                sent: counts.sent.saturating_sub(place.sent_before),
                refused: counts.refused.saturating_sub(place.refused_before),
                came_back,
                waiting: requeue.saturating_sub(place.waiting_before).saturating_sub(lately),
                fallen: grown.map(|(now, before)| now.saturating_sub(*before)).sum(),
            };
            progress.state.came_back = came_back;
            result.failed(stage.step, progress.state.request.threshold)
        });
        if self.with(|progress| progress.state.status == ReplayStatus::Stopped) {
            // A stop that came in the meantime has precedence here too.
            return Ok(false);
        }
        if let Some(why) = failed {
            self.with(|progress| {
                progress.state.not_before = None;
                progress.state.stop(why);
            });
            return Ok(false);
        }
        // The last stage continues until nothing is left.
        let next = self.with(|progress| {
            let counts = progress.counts();
            progress.state.go_on();
            progress.state.place.judged = counts.begun();
            let next = next.filter(|_| counts.begun() >= stage.end)?;
            progress.state.place.stage += 1;
            progress.state.step = next.step;
            Some(next)
        });
        if next.is_some_and(|next| next.step != stage.step) {
            self.begin_step(false).await?;
        }
        Ok(true)
    }

    /// Begins a step, or the rest of it. Failures from before do not count against it.
    pub(super) async fn begin_step(&self, is_first: bool) -> Result<(), ReplayError> {
        let BacklogCounts { requeue, queues } = self.waiting().await?;
        let now = self.replay.kept.now().await?;
        self.with(|progress| {
            let counts = if is_first { ReplayCounts::default() } else { progress.counts() };
            let place = &mut progress.state.place;
            (place.step_began, place.waiting_before, place.queues_before) = (now, requeue, queues);
            (place.sent_before, place.refused_before) = (counts.sent, counts.refused);
            progress.state.came_back = 0;
        });
        self.save().await
    }

    /// Returns the numbers of letters that wait in the requeue and in the dead-letter queues.
    async fn waiting(&self) -> Result<BacklogCounts, ReplayError> {
        let waiting = async |queue: &Arn| {
            let failed = |failure| ReplayError::failed(format!("reading {queue}"), failure);
            self.replay.requeue.waiting(queue).await.map_err(failed)
        };
        let requeue = waiting(&self.replay.requeue.arn).await?;
        let mut queues = Vec::new();
        for queue in self.with(|progress| progress.state.queues.clone()) {
            queues.push(waiting(&queue).await?);
        }
        Ok(BacklogCounts { requeue, queues })
    }

    /// Returns the number of letters of this replay that were archived again since the step began. Those of
    /// earlier steps count too: they cannot be told apart, and counting them is the safe side.
    pub(super) async fn came_back(&self) -> Result<u64, ReplayError> {
        let mut archived = self.archived_again().await?;
        if archived.is_empty() {
            return Ok(0);
        }
        // Anybody can write a mark. Only the ledgers say which letters this replay has sent.
        let id = self.with(|progress| progress.state.id.clone());
        let store = &self.replay.kept.store;
        let units = self.with(|progress| {
            let is_begun = |unit: &u64| {
                let units = progress.units();
                *unit < progress.state.place.units
                    || units.ahead.contains_key(unit)
                    || units.partly.contains_key(unit)
            };
            (0..)
                .zip(self.units.iter())
                .filter(|(number, _)| is_begun(number))
                .map(|(_, unit)| unit.key())
                .collect::<Vec<_>>()
        });
        let read = |key: String| async move { store.read::<UnitLedger>(&key).await };
        let mut ledgers = stream::iter(units).map(read).buffer_unordered(CONCURRENT_DOCUMENTS);
        let mut came_back = 0;
        while !archived.is_empty()
            && let Some(ledger) = ledgers.next().await
        {
            let Some(StoredDocument { document: ledger, .. }) = ledger? else { continue };
            let sent = ledger.entry(&id).into_iter().flat_map(|entry| &entry.ids);
            came_back += sent.filter(|letter| archived.remove(letter)).count() as u64;
        }
        Ok(came_back)
    }

    /// Returns the letters that were archived since the step began and had been replayed, as their marks say.
    async fn archived_again(&self) -> Result<HashSet<LetterIdentity>, ReplayError> {
        let began = self.with(|progress| progress.state.place.step_began);
        let named_from = began.saturating_sub(CLOCK_SKEW).unwrap_or(began);
        let since = named_from.to_zoned(TimeZone::UTC);
        let since = since.strftime("%Y%m%dT%H").to_string();
        // A listing has only whole seconds.
        let began = Timestamp::from_second(began.as_second()).unwrap_or(began);
        let queues: BTreeSet<_> = self.units.iter().map(|unit| unit.queue.as_str()).collect();
        let mut again = HashSet::new();
        for queue in queues {
            let mut listing = self.replay.listing(&self.replay.keys(queue, &since), None);
            let mut objects: Vec<ArchiveObject> = Vec::new();
            while let Some(object) = listing.next().await {
                let object = object.map_err(ReplayError::unlisted)?;
                // An object in which letters were erased is stored anew, but its name keeps the time.
                let is_before = object.index.is_some() && object.time() < named_from;
                if is_before || object.stored.is_some_and(|stored| stored < began) {
                    continue;
                }
                if object.index.as_ref().is_none_or(|index| index.replayed > 0) {
                    objects.push(object);
                }
            }
            let all = Selection::default();
            let mut walk = self.replay.walk(objects, &all);
            while let Some(found) = walk.next().await {
                match found {
                    Walked::Letter(archived) => {
                        let letter = archived.record.to_letter().ok();
                        let letter = letter.filter(|letter| letter.generation() > 0);
                        again.extend(letter.map(|letter| LetterIdentity::of_letter(letter.id.as_str())));
                    }
                    Walked::Erased(_) => {}
                    Walked::Unread(unread) if unread.why.is_gone() || unread.why.is_lasting() => {}
                    // Objects that cannot be read now may hold letters that came back.
                    Walked::Unread(unread) => return Err(ReplayError::unread(unread)),
                }
            }
        }
        Ok(again)
    }
}
