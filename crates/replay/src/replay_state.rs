//! The state of a replay, as it is stored and shown.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use redrive_core::arn::Arn;
use serde::{Deserialize, Serialize};

use super::error::ReplayError;
use super::replay_stages::{RampStage, stages};
use super::request::ReplayRequest;
use super::version::{self, VersionedDocument};

/// The state of a replay: the object `replays/<id>/replay.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayState {
    /// The version of this format: 1.
    pub version: u8,
    /// The replay's id, which is also the folder of its objects below `replays/`.
    pub id: String,
    /// The request.
    pub request: ReplayRequest,
    /// A digest that tells given records from others. `None` if the archive is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<String>,
    /// The name of the person or program that began it.
    pub by: String,
    /// The time at which it began, by S3's clock.
    pub began: Timestamp,
    /// The time at which it was begun or last continued.
    pub taken_up: Timestamp,
    /// The unique token of the process or execution that did. S3's times are whole seconds, so they are not
    /// unique.
    pub holder: String,
    /// The cut-off: letters archived later are left out.
    pub cut_off: Timestamp,
    /// The status.
    pub status: ReplayStatus,
    /// The reason why it stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// The number of letters in the selection, by the index of the archive. The true number may be lower.
    pub letters: u64,
    /// `true` if this number of records is exact.
    pub exact: bool,
    /// `true` in a dry run whose number of letters to send is only a bound: nobody has checked that each of them has
    /// a target.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_most: bool,
    /// `true` if the replay was cut off: it has not ended, and there was no sign of it for too long. This is
    /// found out when the replay is read, and never stored.
    #[serde(skip_deserializing, skip_serializing_if = "std::ops::Not::not")]
    pub abandoned: bool,
    /// The number of units that hold them.
    pub units: u64,
    /// The counts of its letters so far.
    pub counts: ReplayCounts,
    /// The number of letters that were replayed and archived again since the current step began.
    #[serde(default)]
    pub came_back: u64,
    /// The current step, from 1.
    pub step: usize,
    /// The number of steps.
    pub steps: usize,
    /// The dead-letter queues to which its letters may return, as far as they can be read.
    #[serde(default)]
    pub queues: Vec<Arn>,
    /// The time at which the step is judged, while it settles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// The latest continuation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<OperatorNote>,
    /// The release of its letters in doubt to other replays. The replay is then over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freed: Option<OperatorNote>,
    /// The current round, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<SendRound>,
    /// The position of the replay.
    pub place: ReplayPosition,
}

/// A round of a replay: the sending of letters from one turn to the next.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendRound {
    /// The number of lanes. 0 if the round is over.
    pub lanes: usize,
    /// The number of rounds in a row, up to this one, that had no result.
    pub idle: u32,
    /// The numbers of letters that were sent in the last hour, with times.
    pub lately: Vec<(Timestamp, u64)>,
}

/// A note of what somebody did to a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorNote {
    /// The time, by S3's clock.
    pub at: Timestamp,
    /// The name of the person or program that did it.
    pub by: String,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The position of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayPosition {
    /// The number of units that are finished in order, so that none before them is left.
    pub units: u64,
    /// The counts of these units.
    pub counts: ReplayCounts,
    /// The current stage, from 0.
    pub stage: usize,
    /// The time at which the current step began, by S3's clock.
    pub step_began: Timestamp,
    /// The number of letters that were sent before the current step.
    pub sent_before: u64,
    /// The number of letters that were refused before the current step.
    pub refused_before: u64,
    /// The number of letters in the requeue before the current step.
    pub waiting_before: u64,
    /// The number of letters in each of `queues` before the current step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues_before: Vec<u64>,
    /// The number of letters that had been sent or refused at the last judgement, or may have been sent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub judged: u64,
    /// `true` if another replay has planned to send letters of the same hours, so that fewer than the selected
    /// ones may be left to send.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub others: bool,
    /// The number of rounds that were begun.
    #[serde(default, skip_serializing_if = "is_no_round")]
    pub rounds: u32,
    /// The key, below `replays/`, of the object about units that are finished but not among `units`. `None`
    /// before the first turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<String>,
}

/// The status of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReplayStatus {
    /// The letters were counted, and nothing was or will be sent.
    DryRun,
    /// The replay sends letters, or was interrupted while it did.
    Running,
    /// A step was sent, and is judged after a while.
    Settling,
    /// Too many letters came back, the requeue takes no letters, or somebody stopped the replay. See
    /// `because`.
    Stopped,
    /// All letters were sent.
    Done,
}

/// The numbers of letters by result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplayCounts {
    /// Letters that the requeue has accepted. In a dry run, letters that would be sent.
    #[serde(skip_serializing_if = "is_zero")]
    pub sent: u64,
    /// Letters that SQS has refused, each for a reason of its own.
    #[serde(skip_serializing_if = "is_zero")]
    pub refused: u64,
    /// Letters that were sent again, because a crash came before they were recorded or SQS did not say
    /// whether it has them.
    #[serde(skip_serializing_if = "is_zero")]
    pub repeated: u64,
    /// Letters that SQS may have accepted. The replay sends them again when it continues.
    #[serde(skip_serializing_if = "is_zero")]
    pub in_doubt: u64,
    /// Letters that were deleted from the archive after the replay was planned and before it sent them. At most this
    /// many, if the index knows only an upper bound, or if another replay has sent some of them meanwhile.
    #[serde(skip_serializing_if = "is_zero")]
    pub gone: u64,
    /// Repeated records of letters that are in the archive twice.
    #[serde(skip_serializing_if = "is_zero")]
    pub doubles: u64,
    /// Letters that a replay had sent before.
    #[serde(skip_serializing_if = "is_zero")]
    pub already_replayed: u64,
    /// Lines that cannot be read.
    #[serde(skip_serializing_if = "is_zero")]
    pub unreadable: u64,
    /// Letters that cannot be replayed, by reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub not_replayable: BTreeMap<String, u64>,
}

/// Reports whether a text has the form of an id. One that begins with a dash would be an option in a command.
pub(super) fn is_id(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !text.is_empty() && !text.starts_with('-') && text.bytes().all(is_part)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_no_round(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl VersionedDocument for ReplayState {
    const VERSION: u8 = 1;

    fn version(&self) -> u8 {
        self.version
    }
}

impl ReplayStatus {
    /// Returns the name in logs and states.
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

impl ReplayState {
    /// Reads a state that a state machine passes on. `whose` names it in errors.
    ///
    /// # Errors
    ///
    /// [`ReplayError::Newer`] if a newer version wrote it, [`ReplayError::Broken`] if it is no state, or if its id has not
    /// the form of one.
    pub fn from_json(json: &serde_json::Value, whose: &str) -> Result<Self, ReplayError> {
        let state = version::read(&json.to_string()).map_err(|unusable| unusable.of(whose.to_owned()));
        state.and_then(
            |state: Self| {
                if is_id(&state.id) { Ok(state) } else { Err(ReplayError::Broken(whose.to_owned())) }
            },
        )
    }

    /// Reports whether the replay may still have letters to send.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.freed.is_none() && !matches!(self.status, ReplayStatus::DryRun | ReplayStatus::Done)
    }

    /// Returns up to how many letters were not sent or passed over yet. Those in doubt are among them.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.letters.saturating_sub(self.counts.handled() + self.counts.passed_over())
    }

    /// Returns its stages. A dry run needs no steps.
    pub(super) fn stages(&self) -> Vec<RampStage> {
        match self.letters {
            0 => Vec::new(),
            end if self.request.dry_run => vec![RampStage { step: 1, end, settles: false }],
            letters => stages(&self.request.ramp, letters),
        }
    }

    /// Returns how many letters may still be sent before the next judgement, besides those that may have been
    /// sent already.
    pub(super) fn budget(&self) -> u64 {
        if self.request.dry_run {
            return u64::MAX;
        }
        let stages = self.stages();
        let Some(stage) = stages.get(self.place.stage) else { return 0 };
        let is_last = self.place.stage + 1 == stages.len();
        // Where most letters are passed over, the index says little of how many can be sent.
        let mostly_sent = self.counts.passed_over() <= self.counts.begun();
        let is_known = self.exact && !self.place.others && mostly_sent;
        stage.limit(is_last, is_known, self.place.judged).saturating_sub(self.counts.begun())
    }

    /// Returns up to how many letters of the index the work now reaches. It reaches the further the more
    /// letters turned out not to be sent.
    pub(super) fn reach(&self) -> u64 {
        self.budget().saturating_add(self.counts.passed_over())
    }

    pub(super) fn stop(&mut self, because: String) {
        (self.status, self.because) = (ReplayStatus::Stopped, Some(because));
    }

    /// Begins to wait for the results of a step.
    pub(super) fn settle(&mut self, now: Timestamp) {
        let wait = SignedDuration::from_secs(self.request.settle_seconds.into());
        self.status = ReplayStatus::Settling;
        self.not_before = Some(now.saturating_add(wait).unwrap_or(Timestamp::MAX));
    }

    pub(super) fn go_on(&mut self) {
        (self.status, self.not_before, self.because) = (ReplayStatus::Running, None, None);
    }
}

impl ReplayCounts {
    /// Returns the number of letters that were sent or refused.
    #[must_use]
    pub fn handled(&self) -> u64 {
        self.sent + self.refused
    }

    /// Returns the number of letters that were sent or refused, or may have been sent.
    pub(super) fn begun(&self) -> u64 {
        self.handled() + self.in_doubt
    }

    /// Returns the number of letters that were found not to be sent.
    fn passed_over(&self) -> u64 {
        let not_replayable = self.not_replayable.values().sum::<u64>();
        self.doubles + self.already_replayed + self.unreadable + self.gone + not_replayable
    }

    /// Adds the counts of other letters.
    pub fn add(&mut self, other: &Self) {
        let Self {
            sent,
            refused,
            repeated,
            in_doubt,
            gone,
            doubles,
            already_replayed,
            unreadable,
            not_replayable,
        } = other;
        self.sent += sent;
        self.refused += refused;
        self.repeated += repeated;
        self.in_doubt += in_doubt;
        self.gone += gone;
        self.doubles += doubles;
        self.already_replayed += already_replayed;
        self.unreadable += unreadable;
        for (why, count) in not_replayable {
            *self.not_replayable.entry(why.clone()).or_default() += count;
        }
    }

    /// Returns these counts minus others.
    pub(super) fn without(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        for (count, less) in [
            (&mut rest.sent, other.sent),
            (&mut rest.refused, other.refused),
            (&mut rest.repeated, other.repeated),
            (&mut rest.in_doubt, other.in_doubt),
            (&mut rest.gone, other.gone),
            (&mut rest.doubles, other.doubles),
            (&mut rest.already_replayed, other.already_replayed),
            (&mut rest.unreadable, other.unreadable),
        ] {
            *count = count.saturating_sub(less);
        }
        for (why, count) in &mut rest.not_replayable {
            *count = count.saturating_sub(other.not_replayable.get(why).copied().unwrap_or_default());
        }
        rest.not_replayable.retain(|_, count| *count > 0);
        rest
    }

    /// Reports whether every letter of the selection was sent by some replay.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let is_settled = self.refused == 0 && self.gone == 0 && self.in_doubt == 0;
        is_settled && self.unreadable == 0 && self.not_replayable.is_empty()
    }
}
