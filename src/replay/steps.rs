//! A replay under way: step by step, batch by batch.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use jiff::SignedDuration;
use tokio::time::sleep;

use super::control::{NAP, Pace, watching};
use super::error::{ReplayError, failed};
use super::letter::Replayable;
use super::letters::{Found, Letters};
use super::lock::Lock;
use super::manifest::{Manifest, Status, StepResult};
use super::requeue::Answers;
use super::resources::{Job, Resources};
use super::store::{Condition, Entry, State};
use crate::archive::{Found as Walked, Identity, Selection, Unread, WhyUnread};
use crate::failure::Failure;

/// Letters of a batch: what one ledger names, and what a crash can repeat.
const MAX_BATCH: u64 = 500;

/// The same towards a FIFO queue, where a group's letters go one after the other.
const MAX_FIFO_BATCH: u64 = 100;

/// Bytes of a batch.
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// How far the clocks of this machine and of the function can be apart.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(1);

/// Batches in a row that the requeue may not take whole.
const TRIES: u32 = 3;

/// A replay that is under way.
pub(super) struct Run<'r, 'l> {
    pub(super) resources: &'r Resources,
    pub(super) job: Job<'r>,
    pub(super) lock: &'r mut Lock<'l>,
    pub(super) manifest: Manifest,
    /// The manifest's in the bucket; none before it is written.
    pub(super) etag: Option<String>,
    /// Letters that the requeue has not taken, first to be sent next.
    pub(super) backlog: VecDeque<Replayable>,
    /// Batches in a row that the requeue has not taken whole.
    pub(super) trouble: u32,
    /// A part of the archive that could not be read.
    pub(super) unread: Option<Failure>,
    pub(super) pace: Pace,
}

impl Run<'_, '_> {
    /// Goes on until all is sent, or it must stop.
    pub(super) async fn go(&mut self) -> Result<(), ReplayError> {
        let request = self.manifest.request.clone();
        let mut selection =
            request.select.selection(Some(self.manifest.cut_off)).map_err(ReplayError::Request)?;
        selection.requeue = Some(self.resources.requeue.arn.to_string());
        let own = Some(self.manifest.id.as_str());
        let mut letters = self.resources.letters(&request, own, self.job, &selection).await?;
        loop {
            let goes_on = match self.manifest.status {
                Status::Running => self.step(&mut letters).await?,
                Status::Settling => self.settle().await?,
                Status::DryRun | Status::Stopped | Status::Done => false,
            };
            if !goes_on {
                return Ok(());
            }
            self.job.control.progress(&self.manifest);
        }
    }

    /// Sends a batch, or ends the step; false where the replay pauses.
    async fn step(&mut self, letters: &mut Letters<'_>) -> Result<bool, ReplayError> {
        let left = self.manifest.left_in_step();
        if left == Some(0) {
            self.end_step().await?;
            return Ok(true);
        }
        let most = if self.resources.requeue.arn.is_fifo() { MAX_FIFO_BATCH } else { MAX_BATCH };
        let most = most.min(left.unwrap_or(most)).min(u64::from(self.manifest.request.rate));
        let batch = self.next_batch(letters, most).await?;
        self.pace.turn(batch.len() as u64, self.job.control).await;
        if self.job.control.stop() {
            return Ok(false);
        }
        if !batch.is_empty() {
            self.send(batch).await?;
            return Ok(true);
        }
        // What was counted and is not there now may only be out of sight.
        if let Some(failure) = self.unread.take()
            && self.manifest.handled() < self.manifest.counts.selected
        {
            return Err(failed("reading the archive")(failure));
        }
        self.manifest.status = Status::Done;
        Ok(true)
    }

    async fn next_batch(
        &mut self,
        letters: &mut Letters<'_>,
        most: u64,
    ) -> Result<Vec<Replayable>, ReplayError> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while (batch.len() as u64) < most && bytes < MAX_BATCH_BYTES && !self.job.control.stop() {
            let replayable = if let Some(replayable) = self.backlog.pop_front() {
                replayable
            } else {
                let found =
                    watching(Box::pin(letters.next()), Some(&mut *self.lock), self.job.control).await?;
                let Some(found) = found else { break };
                match found {
                    Some(Found::Replayable(replayable)) => *replayable,
                    Some(Found::Unread(_, failure)) => {
                        self.unread = Some(failure);
                        continue;
                    }
                    // These were counted when the replay began.
                    Some(
                        Found::NotReplayable(..) | Found::Bad(..) | Found::Double | Found::AlreadyReplayed,
                    ) => {
                        self.lock.keep().await?;
                        continue;
                    }
                    None => break,
                }
            };
            bytes += replayable.letter.sqs.body.len();
            batch.push(replayable);
        }
        Ok(batch)
    }

    /// Sends a batch. Its ledger says before that its letters are being sent, and after it what became of them.
    async fn send(&mut self, batch: Vec<Replayable>) -> Result<(), ReplayError> {
        self.manifest.batches += 1;
        let sending: Vec<_> = batch.iter().map(|replayable| entry(replayable, State::Sending)).collect();
        let etag = self.record(&sending, Condition::Absent).await?;
        self.lock.keep().await?;
        let answers = self.resources.requeue.send(batch, &self.manifest, self.resources.clock.now()).await;
        let Answers { sent, refused, left, failure } = answers;
        let mut entries: Vec<_> = sent.iter().map(|replayable| entry(replayable, State::Sent)).collect();
        for (replayable, failure) in &refused {
            self.job.control.left_out(&replayable.at, &format!("refused by SQS: {}", failure.code));
            entries.push(entry(replayable, State::Refused));
        }
        let doubtful = left.iter().filter(|(_, doubtful)| *doubtful);
        entries.extend(doubtful.map(|(replayable, _)| entry(replayable, State::Sending)));
        self.record(&entries, Condition::Is(&etag)).await?;
        self.manifest.sent += sent.len() as u64;
        self.manifest.refused += refused.len() as u64;
        self.manifest.repeated += (entries.len() - sent.len() - refused.len()) as u64;
        for (replayable, _) in left.into_iter().rev() {
            self.backlog.push_front(replayable);
        }
        self.save().await?;
        self.after(failure).await;
        Ok(())
    }

    /// Writes the ledger of the present batch.
    async fn record(&self, entries: &[Entry], condition: Condition<'_>) -> Result<String, ReplayError> {
        let Manifest { id, batches, .. } = &self.manifest;
        let recorded = self.resources.store.record(id, *batches, entries, condition).await;
        recorded.map_err(failed("writing the ledger"))?.ok_or(ReplayError::LockLost)
    }

    /// Waits a while before letters go once more that the requeue did not take, and in the end gives up.
    async fn after(&mut self, failure: Option<Failure>) {
        let Some(failure) = failure else {
            self.trouble = 0;
            return;
        };
        self.trouble += 1;
        if self.trouble < TRIES {
            sleep(Duration::from_secs(u64::from(self.trouble))).await;
            return;
        }
        let (code, class) = (&failure.code, failure.class.name());
        self.manifest.stop(format!("the requeue does not take letters: {code} ({class})"));
    }

    /// What was sent is judged after a while, unless it was all.
    async fn end_step(&mut self) -> Result<(), ReplayError> {
        let now = self.resources.clock.now();
        if self.manifest.handled() < self.manifest.counts.selected {
            self.manifest.settle(now);
            return self.save().await;
        }
        self.manifest.begin_step(now, 0);
        Ok(())
    }

    /// Waits until the step can be judged, and judges it; false where it must stop before.
    async fn settle(&mut self) -> Result<bool, ReplayError> {
        while self.manifest.not_before.is_some_and(|then| self.resources.clock.now() < then) {
            if self.job.control.stop() {
                return Ok(false);
            }
            self.lock.keep().await?;
            sleep(NAP).await;
        }
        let Some(result) = self.result().await? else { return Ok(false) };
        match self.manifest.failed_step(result) {
            Some(why) => self.manifest.stop(why),
            None => self.manifest.begin_step(self.resources.clock.now(), result.waiting),
        }
        Ok(true)
    }

    /// What became of the step; none where it must stop before it knows.
    async fn result(&mut self) -> Result<Option<StepResult>, ReplayError> {
        let Manifest { id, step_began, batches_before_step, .. } = &self.manifest;
        let recorded = self.resources.store.recorded(id, *batches_before_step).await;
        let (entries, _) = recorded.map_err(failed("reading the ledgers"))?;
        let own: HashSet<_> = entries.iter().map(Entry::identity).collect();
        let refused = entries.iter().filter(|entry| entry.state == State::Refused).count() as u64;
        let sent = entries.iter().filter(|entry| entry.state == State::Sent);
        let ids: HashSet<_> = sent.clone().map(|entry| entry.letter_id.as_str()).collect();
        let sent = sent.count() as u64;
        // Letters come back from the requeue, or by way of their own dead-letter queue.
        let since = step_began.saturating_sub(CLOCK_SKEW).unwrap_or(*step_began);
        let since = Selection { from: Some(since), ..Selection::default() };
        let mut walk = self.resources.walk(&since);
        let mut came_back: HashSet<Identity> = HashSet::new();
        loop {
            let found = watching(Box::pin(walk.next()), Some(&mut *self.lock), self.job.control).await?;
            let Some(found) = found else { return Ok(None) };
            let Some(found) = found else { break };
            self.lock.keep().await?;
            if self.job.control.stop() {
                return Ok(None);
            }
            match found {
                Walked::Letter(archived) if ids.contains(archived.record.letter_id.as_str()) => {
                    let identity = archived.record.identity();
                    if !own.contains(&identity) {
                        came_back.insert(identity);
                    }
                }
                // A list that breaks off could hide them all. What single objects hold was told before.
                Walked::Unread(Unread { key, why: WhyUnread::Call(failure), .. })
                    if !key.ends_with(".jsonl") =>
                {
                    return Err(failed("listing the archive")(failure));
                }
                Walked::Letter(_) | Walked::Unread(_) => {}
            }
        }
        let waiting = self.resources.waiting(&self.manifest.queues).await?;
        Ok(Some(StepResult { sent, refused, came_back: came_back.len() as u64, waiting }))
    }

    /// Writes the manifest, unless somebody else has written it since.
    pub(super) async fn save(&mut self) -> Result<(), ReplayError> {
        let saved = self.resources.store.save(&self.manifest, self.etag.as_deref()).await;
        self.etag = Some(saved.map_err(failed("writing the manifest"))?.ok_or(ReplayError::LockLost)?);
        Ok(())
    }
}

fn entry(replayable: &Replayable, state: State) -> Entry {
    Entry {
        queue_arn: replayable.record.queue_arn.as_str().to_owned(),
        message_id: replayable.record.message.message_id.clone(),
        letter_id: replayable.letter.id.as_str().to_owned(),
        edited: replayable.edited,
        state,
    }
}
