//! What a replay remembers between its batches: one small JSON object in the archive.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::request::Request;
use crate::arn::Arn;

/// The format that this version writes.
pub(super) const MANIFEST_VERSION: u8 = 1;

/// How a replay stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Of this format: 1.
    pub version: u8,
    /// Its name; the folder of its manifest and ledger below `replays/`.
    pub id: String,
    /// What was asked for.
    pub request: Request,
    /// Letters archived later are left out.
    pub cut_off: Timestamp,
    /// How it stands.
    pub status: Status,
    /// Why it stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What was found when it began.
    pub counts: Counts,
    /// Letters that the requeue has taken.
    pub sent: u64,
    /// Letters that SQS would not have, each for a reason of its own.
    pub refused: u64,
    /// Letters that may have been sent twice: a crash left their batch without its record, or no answer came.
    pub repeated: u64,
    /// The step under way, from 0.
    pub step: usize,
    /// When it began.
    pub step_began: Timestamp,
    /// Batches before it.
    pub batches_before_step: u64,
    /// Letters in the requeue and in `queues` before it.
    pub waiting_before_step: u64,
    /// The dead-letter queues to which its letters may fall back, as far as they can be read.
    #[serde(default)]
    pub queues: Vec<Arn>,
    /// While it settles: when it is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Batches so far.
    pub batches: u64,
}

/// How a replay stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Status {
    /// Letters were counted; nothing was or will be sent.
    DryRun,
    /// It sends, or was interrupted while it sent.
    Running,
    /// A step was sent, and is judged after a while.
    Settling,
    /// The last step came back, or the requeue takes no letters; see `why`.
    Stopped,
    /// Everything was sent.
    Done,
}

/// What a selection holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Letters to send.
    pub selected: u64,
    /// Records of letters that stand in the archive twice.
    pub doubles: u64,
    /// Letters that a replay has sent already.
    pub already_replayed: u64,
    /// Lines and objects that cannot be read.
    pub unreadable: u64,
    /// Letters that cannot be replayed, by the reason.
    pub not_replayable: BTreeMap<String, u64>,
}

impl Status {
    /// The name in logs and manifests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DryRun => "dryRun",
            Self::Running => "running",
            Self::Settling => "settling",
            Self::Stopped => "stopped",
            Self::Done => "done",
        }
    }
}

/// What became of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepResult {
    /// Letters that the requeue has taken.
    pub sent: u64,
    /// Letters that SQS would not have.
    pub refused: u64,
    /// Letters of them that were archived again.
    pub came_back: u64,
    /// All letters in the requeue and in their dead-letter queues now.
    pub waiting: u64,
}

impl Manifest {
    /// A replay that begins.
    #[must_use]
    pub fn new(id: String, request: Request, cut_off: Timestamp, counts: Counts, now: Timestamp) -> Self {
        let mut manifest = Self {
            version: MANIFEST_VERSION,
            id,
            request,
            cut_off,
            status: Status::Running,
            why: None,
            counts,
            sent: 0,
            refused: 0,
            repeated: 0,
            step: 0,
            step_began: now,
            batches_before_step: 0,
            waiting_before_step: 0,
            queues: Vec::new(),
            not_before: None,
            batches: 0,
        };
        manifest.begin_step(now, 0);
        manifest
    }

    /// Letters of the selection that are behind it.
    #[must_use]
    pub fn handled(&self) -> u64 {
        self.sent + self.refused
    }

    /// Letters that this step still has to send; none if it is the last, which ends with the selection.
    #[must_use]
    pub fn left_in_step(&self) -> Option<u64> {
        (!self.is_last_step()).then(|| self.step_end().saturating_sub(self.handled()))
    }

    /// Letters that are behind it when this step ends: its per cents of the selection, rounded up.
    fn step_end(&self) -> u64 {
        let percent = self.request.ramp.get(self.step).copied().unwrap_or(100);
        (self.counts.selected * u64::from(percent)).div_ceil(100)
    }

    fn is_last_step(&self) -> bool {
        self.step + 1 >= self.request.ramp.len()
    }

    /// Begins to wait for what becomes of a step.
    pub(super) fn settle(&mut self, now: Timestamp) {
        let wait = SignedDuration::from_secs(i64::from(self.request.settle_seconds));
        self.status = Status::Settling;
        self.not_before = Some(now.saturating_add(wait).unwrap_or(Timestamp::MAX));
    }

    /// Begins the first step that has something to send, or what is left of the present one. Small selections
    /// have steps without a letter.
    pub(super) fn begin_step(&mut self, now: Timestamp, waiting: u64) {
        while self.left_in_step() == Some(0) {
            self.step += 1;
        }
        (self.status, self.not_before, self.why) = (Status::Running, None, None);
        (self.step_began, self.batches_before_step, self.waiting_before_step) = (now, self.batches, waiting);
    }

    pub(super) fn stop(&mut self, why: String) {
        (self.status, self.not_before, self.why) = (Status::Stopped, None, Some(why));
    }

    /// Why a step failed, if it did: too many of its letters were refused, came back to the archive, or still
    /// wait in the queues. A threshold of 100 never stops.
    #[must_use]
    pub fn failed_step(&self, result: StepResult) -> Option<String> {
        let StepResult { sent, refused, came_back, waiting } = result;
        let waiting = waiting.saturating_sub(self.waiting_before_step);
        let (failing, all) = (refused + came_back + waiting, sent + refused);
        let threshold = u64::from(self.request.threshold);
        (threshold < 100 && failing * 100 > all * threshold).then(|| {
            format!(
                "of {all} letters of step {}: {refused} refused by SQS, {came_back} back in the archive, \
                 {waiting} more than before wait in the queues",
                self.step + 1,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(selected: u64, ramp: &[u32]) -> Manifest {
        let request = Request { ramp: ramp.to_vec(), ..Request::default() };
        let counts = Counts { selected, ..Counts::default() };
        Manifest::new("r".into(), request, Timestamp::UNIX_EPOCH, counts, Timestamp::UNIX_EPOCH)
    }

    /// Letters of each step that has some before the last, which takes what is left.
    fn steps(selected: u64, ramp: &[u32]) -> Vec<u64> {
        let mut manifest = manifest(selected, ramp);
        let mut sizes = Vec::new();
        while let Some(left) = manifest.left_in_step() {
            sizes.push(left);
            manifest.sent += left;
            manifest.begin_step(Timestamp::UNIX_EPOCH, 0);
        }
        sizes.push(selected - manifest.sent);
        sizes
    }

    #[test]
    fn steps_end_at_their_per_cents_rounded_up_and_empty_ones_are_passed_over() {
        assert_eq!(steps(250, &[1, 5, 20, 100]), [3, 10, 37, 200]);
        assert_eq!(steps(10_000, &[1, 5, 20, 100]), [100, 400, 1500, 8000]);
        assert_eq!(steps(10, &[1, 5, 20, 100]), [1, 1, 8]);
        assert_eq!(steps(3, &[1, 5, 20, 100]), [1, 2]);
        assert_eq!(steps(1, &[1, 5, 20, 100]), [1, 0]);
        assert_eq!(steps(0, &[1, 5, 20, 100]), [0]);
        assert_eq!(steps(7, &[100]), [7]);
    }

    #[test]
    fn what_sqs_refused_counts_as_behind_it_or_a_step_would_never_end() {
        let mut manifest = manifest(100, &[20, 100]);
        (manifest.sent, manifest.refused) = (15, 2);
        assert_eq!(manifest.left_in_step(), Some(3));
    }

    #[test]
    fn a_step_fails_where_more_than_the_threshold_was_refused_came_back_or_waits() {
        let mut manifest = manifest(100, &[20, 100]);
        manifest.waiting_before_step = 5;
        let result = StepResult { sent: 20, refused: 0, came_back: 0, waiting: 5 };
        assert_eq!(manifest.failed_step(result), None);
        assert_eq!(manifest.failed_step(StepResult { came_back: 2, ..result }), None, "10 per cent may");
        assert_eq!(manifest.failed_step(StepResult { waiting: 7, ..result }), None);
        assert_eq!(manifest.failed_step(StepResult { waiting: 0, ..result }), None, "others have left it");
        let why = "of 20 letters of step 1: 0 refused by SQS, 2 back in the archive, \
                   1 more than before wait in the queues";
        let result = StepResult { came_back: 2, waiting: 6, ..result };
        assert_eq!(manifest.failed_step(result).as_deref(), Some(why));
        for failing in [
            StepResult { came_back: 3, waiting: 0, ..result },
            StepResult { came_back: 0, waiting: 8, ..result },
            StepResult { sent: 17, refused: 3, came_back: 0, waiting: 5 },
            StepResult { sent: 0, refused: 1, came_back: 0, waiting: 0 },
        ] {
            assert!(manifest.failed_step(failing).is_some(), "{failing:?}");
        }
    }
}
