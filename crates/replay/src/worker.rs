//! The work on one unit: choosing its letters, and sending them, with a write of the ledger before and after.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Duration;

use redrive_archive::LetterIdentity;
use redrive_aws::clients::too_late;
use redrive_core::failure::{Failure, FailureClass};
use tokio::time::{Instant, sleep};

use super::error::ReplayError;
use super::input_records::PlacedRecords;
use super::ledger::{KnownLetter, ReplayEntry, UnitLedger};
use super::letter::{NotReplayable, RecordLocation, ReplayableLetter};
use super::letters::{RecordVerdict, SendCriteria};
use super::reading::ReadUnit;
use super::recent_letters::RecentLetters;
use super::replay_state::ReplayCounts;
use super::replay_store::WriteCondition;
use super::requeue::{RequeueResults, SendingReplay};
use super::unit::Unit;
use super::worker_context::WorkerContext;

/// The greatest number of letters sent between two writes of a ledger. A crash can repeat them.
const MAX_BATCH: usize = 1000;

/// The greatest number for a FIFO queue, in which a group's letters are sent one after the other.
const MAX_FIFO_BATCH: usize = 100;

/// The greatest number of bytes sent between two writes of a ledger.
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// The greatest age of a claim when letters are sent under it, so that they are sent before it expires.
const MAX_CLAIM_AGE: Duration = Duration::from_secs(20);

/// The number of times in a row that the requeue may accept no letter of a batch, and that a claim is written.
const TRIES: u32 = 3;

/// The same if the requeue throttles or does not answer. Each pause is a second longer than the one before.
const PATIENT_TRIES: u32 = 6;

/// The result of the work on a unit.
#[derive(Debug, Clone)]
pub(super) struct UnitWork {
    /// The counts of the unit so far, in this replay.
    pub(super) counts: ReplayCounts,
    /// The number of its letters that were sent just now.
    pub(super) sent: u64,
    pub(super) end: UnitEnd,
}

/// The letters of a unit, sorted for a replay.
struct SortedLetters {
    to_send: VecDeque<ReplayableLetter>,
    counts: ReplayCounts,
    /// All of its letters.
    met: HashSet<LetterIdentity>,
    /// The letters that were sent from another unit of the hour.
    doubles: Vec<LetterIdentity>,
}

/// The end of the work on a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UnitEnd {
    /// The unit is finished.
    Done,
    /// No more letters may be sent before the next judgement.
    Paused,
    /// Another replay has worked on the unit since it was read.
    Changed,
    /// The replay was told to stop.
    Interrupted,
    /// The requeue takes no letters.
    Failed(String),
}

impl WorkerContext<'_> {
    /// Sends the rest of a unit, as far as letters may be sent before the next judgement. `met` has the letters
    /// of its hour that were met before.
    pub(super) async fn work(
        &self,
        unit: &Unit,
        read: ReadUnit,
        met: &mut RecentLetters,
    ) -> Result<UnitWork, ReplayError> {
        if self.request.dry_run {
            return Ok(UnitWork { counts: self.count(unit, read, met), sent: 0, end: UnitEnd::Done });
        }
        let ReadUnit { mut ledger, mut etag, freed, records, erased, counts, missing } = read;
        let own = ledger.entry(self.id).cloned().unwrap_or_default();
        let Some(records) = records else {
            self.remember(unit, &ledger, met);
            return Ok(UnitWork { counts: own.done.unwrap_or_default(), sent: 0, end: UnitEnd::Done });
        };
        let known = ledger.known(self.id, self.request.again, &freed);
        let counts = ReplayCounts { gone: missing, ..counts };
        let sorted = self.sort(unit, (records, erased), counts, &known, &own, met);
        let SortedLetters { to_send: mut waiting, mut counts, met: of_unit, doubles } = sorted;
        // Letters that may have been sent use up no budget: they count already. In a group they are first anyway.
        let mut doubtful: HashSet<_> = own.sending.iter().copied().collect();
        waiting.make_contiguous().sort_by_key(|replayable| !doubtful.contains(&replayable.identity));
        let mut end = UnitEnd::Done;

        let is_touched = !waiting.is_empty() || !doubles.is_empty() || own != ReplayEntry::default();
        let (mut trouble, mut is_ours) = (0, false);
        // Letters that SQS did not take use up the budget until the ledger is written: after a crash they count as
        // letters that may have been sent.
        let mut reserved = HashSet::new();
        while !waiting.is_empty() {
            let batch = self.next_batch(&mut waiting, &doubtful, &mut reserved);
            if batch.is_empty() {
                end = UnitEnd::Paused;
                break;
            }
            if !self.pace.turn(batch.len() as u64, || self.control.stop()).await {
                end = UnitEnd::Interrupted;
                break;
            }
            let identities: Vec<_> = batch.iter().map(|replayable| replayable.identity).collect();
            let new = identities.iter().filter(|identity| !doubtful.contains(identity)).count() as u64;
            let entry = ledger.entry_mut(self.id);
            entry.ids.extend(
                batch.iter().map(|replayable| LetterIdentity::of_letter(replayable.letter.id.as_str())),
            );
            entry.ids.sort_unstable();
            entry.ids.dedup();
            entry.begin(identities);
            etag = match self.claim(unit, &mut ledger, etag.as_deref()).await? {
                Some(written) => Some(written),
                None if is_ours => return Err(ReplayError::TakenUp(self.id.to_owned())),
                None => {
                    self.budget.fetch_add(new, Ordering::Relaxed);
                    return Ok(UnitWork { counts, sent: 0, end: UnitEnd::Changed });
                }
            };
            is_ours = true;
            let of = SendingReplay { id: self.id, request: self.request };
            let answers = self.replay.requeue.send(batch, of, self.replay.kept.clock.now()).await;
            let handled = ledger.entry_mut(self.id).handled();
            let entry = ledger.entry_mut(self.id);
            let failure = self.note(entry, answers, &mut waiting, &mut doubtful, &mut reserved);
            if ledger.entry_mut(self.id).handled() > handled {
                trouble = 0;
            }
            let Some(failure) = failure else { continue };
            trouble += 1;
            let may_pass = matches!(failure.class, FailureClass::Throttling | FailureClass::Transient);
            if trouble >= if may_pass { PATIENT_TRIES } else { TRIES } {
                let (told, class) = (failure.told(), failure.class.name());
                end = UnitEnd::Failed(format!("the requeue does not take letters: {told} ({class})"));
                break;
            }
            sleep(Duration::from_secs(u64::from(trouble))).await;
        }

        let entry = ledger.entry_mut(self.id);
        counts.sent = entry.sent.len() as u64;
        counts.refused = entry.refused.len() as u64;
        counts.repeated = entry.repeated;
        counts.in_doubt = entry.in_doubt();
        entry.doubles.extend(doubles);
        entry.doubles.sort_unstable();
        entry.doubles.dedup();
        if is_touched {
            entry.done = (end == UnitEnd::Done).then(|| counts.clone());
            ledger.claim = None;
            if self.write(unit, &ledger, etag.as_deref()).await?.is_none() {
                let taken_up = || ReplayError::TakenUp(self.id.to_owned());
                return if is_ours {
                    Err(taken_up())
                } else {
                    Ok(UnitWork { counts, sent: 0, end: UnitEnd::Changed })
                };
            }
        }
        self.budget.fetch_add(reserved.len() as u64, Ordering::Relaxed);
        met.add(unit.number, false, of_unit);
        self.remember(unit, &ledger, met);
        let sent = counts.sent.saturating_sub(own.sent.len() as u64);
        Ok(UnitWork { counts, sent, end })
    }

    /// Claims a unit by writing its ledger, which lists the letters being sent. Returns `None` if another
    /// worker was faster.
    async fn claim(
        &self,
        unit: &Unit,
        ledger: &mut UnitLedger,
        etag: Option<&str>,
    ) -> Result<Option<String>, ReplayError> {
        let clock = &self.replay.kept.clock;
        let mut etag = etag.map(str::to_owned);
        for _ in 0..TRIES {
            // Some clocks stop while a machine sleeps, and the claim may expire in that time. So two clocks
            // are compared.
            let (began, wall) = (Instant::now(), clock.now());
            ledger.claim(self.id, self.token);
            etag = self.write(unit, ledger, etag.as_deref()).await?;
            let took = clock.now().duration_since(wall).unsigned_abs().max(began.elapsed());
            if etag.is_none() || took <= MAX_CLAIM_AGE {
                return Ok(etag);
            }
        }
        Err(ReplayError::failed(format!("writing {}", unit.key()), too_late()))
    }

    /// Counts the letters of a unit that a replay would send.
    pub(super) fn count(&self, unit: &Unit, read: ReadUnit, met: &mut RecentLetters) -> ReplayCounts {
        let ReadUnit { ledger, freed, records, erased, counts, missing, .. } = read;
        let Some(records) = records else { return counts };
        let counts = ReplayCounts { gone: missing, ..counts };
        let known = ledger.known(self.id, self.request.again, &freed);
        let own = ledger.entry(self.id).cloned().unwrap_or_default();
        let sorted = self.sort(unit, (records, erased), counts, &known, &own, met);
        met.add(unit.number, false, sorted.met);
        self.remember(unit, &ledger, met);
        ReplayCounts { sent: sorted.to_send.len() as u64, ..sorted.counts }
    }

    /// Records which letters of a unit were sent.
    fn remember(&self, unit: &Unit, ledger: &UnitLedger, met: &mut RecentLetters) {
        met.add(unit.number, true, ledger.sent(self.own_only()).copied());
    }

    /// Chooses the letters of a unit that are to be sent. It counts the others, and reports them only the
    /// first time.
    fn sort(
        &self,
        unit: &Unit,
        (records, erased): (PlacedRecords, Vec<(RecordLocation, LetterIdentity)>),
        counts: ReplayCounts,
        known: &HashMap<LetterIdentity, KnownLetter<'_>>,
        own: &ReplayEntry,
        met: &RecentLetters,
    ) -> SortedLetters {
        let config =
            SendCriteria { request: self.request, requeue: &self.replay.requeue.arn, policy: self.policy };
        let is_first = *own == ReplayEntry::default();
        // Letters in doubt may have been sent: they are counted apart.
        let mut sent_and_gone: HashSet<_> =
            own.sent.iter().chain(&own.refused).chain(&own.sending).copied().collect();
        let own: HashSet<_> = own.sent.iter().chain(&own.refused).copied().collect();
        let mut sorted =
            SortedLetters { to_send: VecDeque::new(), counts, met: HashSet::new(), doubles: Vec::new() };
        for (at, identity) in erased {
            sent_and_gone.remove(&identity);
            if met.elsewhere(unit.number, &identity).is_some() || !sorted.met.insert(identity) {
                sorted.counts.doubles += 1;
                continue;
            }
            match known.get(&identity) {
                Some(KnownLetter::Done) => {
                    sorted.counts.already_replayed += u64::from(!own.contains(&identity));
                }
                // This replay may have sent it, and counts it so.
                Some(KnownLetter::Again) => {}
                Some(KnownLetter::InDoubt(_)) | None => {
                    let why = NotReplayable::Erased;
                    *sorted.counts.not_replayable.entry(why.name().to_owned()).or_default() += 1;
                    if is_first {
                        self.control.left_out(&at, &why.why());
                    }
                }
            }
        }
        for (at, record, edited) in records {
            let identity = record.identity();
            sent_and_gone.remove(&identity);
            let elsewhere = met.elsewhere(unit.number, &identity);
            if elsewhere.is_some() || !sorted.met.insert(identity) {
                sorted.counts.doubles += 1;
                if elsewhere == Some(true) {
                    sorted.doubles.push(identity);
                }
                continue;
            }
            let why = match known.get(&identity) {
                Some(KnownLetter::Done) => {
                    sorted.counts.already_replayed += u64::from(!own.contains(&identity));
                    continue;
                }
                Some(KnownLetter::InDoubt(replay)) => {
                    RecordVerdict::NotReplayable(NotReplayable::InDoubt((*replay).to_owned()))
                }
                Some(KnownLetter::Again) | None => config.judge(at.clone(), &record, edited),
            };
            let why = match why {
                RecordVerdict::Replayable(replayable) => {
                    sorted.to_send.push_back(*replayable);
                    continue;
                }
                RecordVerdict::NotReplayable(why) => {
                    *sorted.counts.not_replayable.entry(why.name().to_owned()).or_default() += 1;
                    why.why().into_owned()
                }
                RecordVerdict::Bad(bad) => {
                    sorted.counts.unreadable += 1;
                    bad.to_string()
                }
            };
            if is_first {
                self.control.left_out(&at, &why);
            }
        }
        // Letters that were deleted after this replay had sent them are no loss.
        sorted.counts.gone = sorted.counts.gone.saturating_sub(sent_and_gone.len() as u64);
        sorted
    }

    fn next_batch(
        &self,
        waiting: &mut VecDeque<ReplayableLetter>,
        doubtful: &HashSet<LetterIdentity>,
        reserved: &mut HashSet<LetterIdentity>,
    ) -> Vec<ReplayableLetter> {
        let most = if self.replay.requeue.arn.is_fifo() { MAX_FIFO_BATCH } else { MAX_BATCH };
        // A batch has at most the letters of one second, so that the replay can be stopped.
        let most = most.min(self.request.rate.try_into().unwrap_or(usize::MAX)).max(1);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        // No other task runs between the load and the store.
        let mut budget = self.budget.load(Ordering::Relaxed);
        while batch.len() < most
            && bytes < MAX_BATCH_BYTES
            && let Some(replayable) = waiting.pop_front()
        {
            if !doubtful.contains(&replayable.identity) && !reserved.remove(&replayable.identity) {
                if budget == 0 {
                    waiting.push_front(replayable);
                    break;
                }
                budget -= 1;
            }
            bytes += replayable.letter.sqs.body.len();
            batch.push(replayable);
        }
        self.budget.store(budget, Ordering::Relaxed);
        batch
    }

    /// Records the results of a batch. Returns the reason why some of it must be sent again, if any must.
    /// `doubtful` has the letters that may have been sent, `reserved` those that were not taken.
    fn note(
        &self,
        entry: &mut ReplayEntry,
        answers: RequeueResults,
        waiting: &mut VecDeque<ReplayableLetter>,
        doubtful: &mut HashSet<LetterIdentity>,
        reserved: &mut HashSet<LetterIdentity>,
    ) -> Option<Failure> {
        let RequeueResults { sent, refused, left, failure } = answers;
        for (replayable, failure) in &refused {
            self.control.left_out(&replayable.at, &format!("refused by SQS: {}", failure.code));
        }
        self.control.sent(sent.len() as u64);
        let sent: Vec<_> = sent.iter().map(|replayable| replayable.identity).collect();
        let refused: Vec<_> = refused.iter().map(|(replayable, _)| replayable.identity).collect();
        let mut not_sent = Vec::new();
        for (replayable, is_doubtful) in &left {
            if *is_doubtful {
                doubtful.insert(replayable.identity);
            } else if doubtful.contains(&replayable.identity) {
                // It is still in doubt from the time before, but this time it was not sent.
                entry.repeated = entry.repeated.saturating_sub(1);
            } else {
                not_sent.push(replayable.identity);
            }
        }
        entry.end(&sent, &refused, &not_sent);
        reserved.extend(not_sent);
        for (replayable, _) in left.into_iter().rev() {
            waiting.push_front(replayable);
        }
        failure
    }

    /// Writes a ledger over the one with this `ETag`. Returns the new `ETag`, or `None` if another worker was
    /// faster.
    async fn write(
        &self,
        unit: &Unit,
        ledger: &UnitLedger,
        etag: Option<&str>,
    ) -> Result<Option<String>, ReplayError> {
        self.replay.kept.store.write(&unit.key(), ledger, WriteCondition::of(etag)).await
    }
}
