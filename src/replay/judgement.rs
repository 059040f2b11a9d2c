//! The judgement of a step: what happened to its letters, and whether the replay continues.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use tokio::time::{Duration, sleep};

use super::control::NAP;
use super::drive::Drive;
use super::error::ReplayError;
use super::ramp::{Stage, StageResult};
use super::state::{Counts, Status};
use crate::archive::{Found as Walked, Object, Selection};

/// The least time that letters of the last step may wait before they count as failed, even if
/// `settle_seconds` is shorter.
const LEAST_SETTLE: Duration = Duration::from_mins(1);

/// The greatest expected difference between S3's clock and those of functions that archive.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);

impl Drive<'_> {
    /// Waits until a step can be judged. Returns `false` if the replay was stopped before.
    pub(super) async fn settle(&self) -> bool {
        let time_is_over = || {
            let not_before = self.with(|progress| progress.state.not_before);
            not_before.is_none_or(|then| self.replay.kept.clock.now() >= then)
        };
        while !self.is_stopped() && !time_is_over() {
            sleep(NAP).await;
        }
        // A stop has precedence. The step is judged when the replay continues.
        !self.is_stopped()
    }

    /// Judges a stage and begins the next one. Returns whether the replay continues.
    pub(super) async fn judge(&self, stage: Stage, stages: &[Stage]) -> Result<bool, ReplayError> {
        // The last stage continues until nothing is left. Letters left of another stage go with the next one.
        let number = self.with(|progress| progress.state.place.stage);
        let is_last = number + 1 >= stages.len();
        let is_over = is_last && self.with(|progress| progress.state.place.units) >= self.units.len() as u64;
        let next = stages.get(number + 1).or(stages.get(number)).filter(|_| !is_over);
        let came_back = self.came_back().await?;
        let waiting = self.waiting().await?;
        let now = self.replay.kept.clock.now();
        let failed = self.with(|progress| {
            let counts = progress.counts();
            let place = progress.state.place.clone();
            let settle = Duration::from_secs(progress.state.request.settle_seconds.into()).max(LEAST_SETTLE);
            // Letters that were sent just now may still wait.
            let lately = if stage.settles { 0 } else { progress.lately(settle, now) };
            let result = StageResult {
                sent: counts.sent.saturating_sub(place.sent_before),
                refused: counts.refused.saturating_sub(place.refused_before),
                came_back,
                waiting: waiting.saturating_sub(place.waiting_before).saturating_sub(lately),
            };
            progress.state.came_back = came_back;
            // After the last stage no letters are left to hold back.
            next.and_then(|_| result.failed(stage.step, progress.state.request.threshold))
        });
        if self.with(|progress| progress.state.status == Status::Stopped) {
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
        self.with(|progress| progress.state.place.judged = progress.counts().sent);
        let is_new_step = next.is_some_and(|next| next.step != stage.step);
        self.with(|progress| {
            progress.state.go_on();
            progress.state.place.stage += usize::from(!is_last || is_over);
            progress.state.step = next.map_or(stage.step, |next| next.step);
        });
        if is_new_step {
            self.begin_step(false).await?;
        }
        Ok(true)
    }

    /// Begins a step, or the rest of it. Failures from before do not count against it.
    pub(super) async fn begin_step(&self, is_first: bool) -> Result<(), ReplayError> {
        let waiting = self.waiting().await?;
        let now = self.replay.kept.now().await?;
        self.with(|progress| {
            let counts = if is_first { Counts::default() } else { progress.counts() };
            let place = &mut progress.state.place;
            (place.step_began, place.waiting_before) = (now, waiting);
            (place.sent_before, place.refused_before) = (counts.sent, counts.refused);
            progress.state.came_back = 0;
        });
        self.save().await
    }

    /// Returns the number of letters that wait in the requeue and in the dead-letter queues.
    async fn waiting(&self) -> Result<u64, ReplayError> {
        let queues = self.with(|progress| progress.state.queues.clone());
        let mut waiting = 0;
        for queue in std::iter::once(&self.replay.requeue.arn).chain(&queues) {
            let failed = |failure| ReplayError::failed(format!("reading {queue}"), failure);
            waiting += self.replay.requeue.waiting(queue).await.map_err(failed)?;
        }
        Ok(waiting)
    }

    /// Returns the number of letters that had been replayed and were archived again since the step began, by
    /// the index of the archive. Letters of other replays and of earlier steps count too: they cannot be told
    /// apart, and counting them is the safe side.
    pub(super) async fn came_back(&self) -> Result<u64, ReplayError> {
        let began = self.with(|progress| progress.state.place.step_began);
        let since = began.saturating_sub(CLOCK_SKEW).unwrap_or(began).to_zoned(TimeZone::UTC);
        let since = since.strftime("%Y%m%dT%H").to_string();
        // A listing has only whole seconds.
        let began = Timestamp::from_second(began.as_second()).unwrap_or(began);
        let queues: BTreeSet<_> = self.units.iter().map(|unit| unit.queue.as_str()).collect();
        let mut came_back = 0;
        for queue in queues {
            let mut listing = self.replay.listing(&self.replay.keys(queue, &since), None);
            let mut unknown: Vec<Object> = Vec::new();
            while let Some(object) = listing.next().await {
                let object = object.map_err(ReplayError::unlisted)?;
                if object.stored.is_some_and(|stored| stored < began) {
                    continue;
                }
                match &object.index {
                    Some(index) => came_back += index.replayed,
                    None => unknown.push(object),
                }
            }
            let all = Selection::default();
            let mut walk = self.replay.walk(unknown, &all);
            while let Some(found) = walk.next().await {
                match found {
                    Walked::Letter(archived) => {
                        let letter = archived.record.to_letter();
                        came_back += u64::from(letter.is_ok_and(|letter| letter.generation() > 0));
                    }
                    Walked::Unread(unread) if unread.why.is_gone() || unread.why.is_lasting() => {}
                    // Objects that cannot be read now may hold letters that came back.
                    Walked::Unread(unread) => return Err(ReplayError::unread(unread)),
                }
            }
        }
        Ok(came_back)
    }
}
