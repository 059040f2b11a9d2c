//! What a replay remembers between its batches: one small JSON object in the archive.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::Request;

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
    /// Letters that may have been sent twice, since a crash left a batch without its record.
    pub repeated: u64,
    /// The step under way, from 0.
    pub step: usize,
    /// When it began.
    pub step_began: Timestamp,
    /// What had been sent before it.
    pub sent_before_step: u64,
    /// Letters in the requeue before it.
    pub waiting_before_step: u64,
    /// While it settles: when it is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// The batch that is being sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
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
    /// The last step came back, or the requeue takes no more; see `why`.
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
    pub unfit: BTreeMap<String, u64>,
}

/// A batch on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Its number, which names its ledger.
    pub number: u64,
    /// How many letters it has.
    pub letters: u64,
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

impl Manifest {
    /// A replay that begins.
    #[must_use]
    pub fn new(id: String, request: Request, cut_off: Timestamp, counts: Counts, now: Timestamp) -> Self {
        Self {
            version: MANIFEST_VERSION,
            id,
            request,
            cut_off,
            status: Status::Running,
            why: None,
            counts,
            sent: 0,
            repeated: 0,
            step: 0,
            step_began: now,
            sent_before_step: 0,
            waiting_before_step: 0,
            not_before: None,
            batch: None,
            batches: 0,
        }
    }

    /// Letters that may have been sent when this step ends: its per cents of the selection, rounded up.
    #[must_use]
    pub fn step_end(&self) -> u64 {
        let percent = self.request.ramp.get(self.step).copied().unwrap_or(100);
        (self.counts.selected * u64::from(percent)).div_ceil(100)
    }

    /// Whether this is the last step.
    #[must_use]
    pub fn is_last_step(&self) -> bool {
        self.step + 1 >= self.request.ramp.len()
    }

    /// Begins to wait for what becomes of a step.
    pub(super) fn settle(&mut self, now: Timestamp) {
        let wait = SignedDuration::from_secs(i64::from(self.request.settle_seconds));
        self.status = Status::Settling;
        self.not_before = Some(now.saturating_add(wait).unwrap_or(Timestamp::MAX));
    }

    /// Goes on to the next step.
    pub(super) fn next_step(&mut self, now: Timestamp) {
        self.step += 1;
        self.begin_step(now);
    }

    pub(super) fn begin_step(&mut self, now: Timestamp) {
        (self.status, self.not_before, self.why) = (Status::Running, None, None);
        (self.step_began, self.sent_before_step) = (now, self.sent);
    }

    /// Whether too many letters of a step came back to the archive, or still wait in the requeue.
    #[must_use]
    pub fn failed_step(&self, came_back: u64, waiting: u64) -> Option<String> {
        let sent = self.sent - self.sent_before_step;
        let failing = came_back + waiting.saturating_sub(self.waiting_before_step);
        (failing * 100 > sent * u64::from(self.request.threshold)).then(|| {
            format!(
                "of {sent} letters of step {} {came_back} came back to the archive and {} still wait in the requeue",
                self.step + 1,
                failing - came_back
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

    #[test]
    fn steps_end_at_their_per_cents_rounded_up() {
        let mut manifest = manifest(250, &[1, 5, 20, 100]);
        let mut ends = Vec::new();
        loop {
            ends.push(manifest.step_end());
            if manifest.is_last_step() {
                break;
            }
            manifest.next_step(Timestamp::UNIX_EPOCH);
        }
        assert_eq!(ends, [3, 13, 50, 250]);
    }

    #[test]
    fn a_step_fails_where_more_than_the_threshold_came_back_or_waits() {
        let mut manifest = manifest(100, &[20, 100]);
        (manifest.sent, manifest.waiting_before_step) = (20, 5);
        assert_eq!(manifest.failed_step(2, 5), None, "10 per cent are allowed");
        assert_eq!(manifest.failed_step(0, 7), None);
        let why = "of 20 letters of step 1 2 came back to the archive and 1 still wait in the requeue";
        assert_eq!(manifest.failed_step(2, 6).as_deref(), Some(why));
        assert!(manifest.failed_step(0, 8).is_some());
        assert_eq!(manifest.failed_step(0, 0), None, "others may have left the requeue meanwhile");
    }
}
