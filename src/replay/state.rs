//! How a replay stands, as it is kept and shown.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::error::ReplayError;
use super::ramp::{Stage, budget, stages};
use super::request::Request;
use super::version::{self, Versioned};
use crate::arn::Arn;

/// How a replay stands: the object `replays/<id>/replay.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// Of this format: 1.
    pub version: u8,
    /// Its name; the folder of its objects below `replays/`.
    pub id: String,
    /// What was asked for.
    pub request: Request,
    /// Tells records that were given from others; none where the archive is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<String>,
    /// Who began it.
    pub by: String,
    /// When it began, by the clock of S3.
    pub began: Timestamp,
    /// When it was begun or gone on with the last time.
    pub taken_up: Timestamp,
    /// A name that nobody else has, of whoever did: S3 tells whole seconds.
    pub holder: String,
    /// Letters archived later are left out.
    pub cut_off: Timestamp,
    /// How it stands.
    pub status: Status,
    /// Why it stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// Letters of the selection, by the index of the archive: at most so many.
    pub letters: u64,
    /// Whether it is exactly so many records.
    pub exact: bool,
    /// The units that hold them.
    pub units: u64,
    /// What came of its letters so far.
    pub counts: Counts,
    /// Letters that were replayed and lie in the archive again, since the step under way began.
    #[serde(default)]
    pub came_back: u64,
    /// The step under way, from 1, and how many there are.
    pub step: usize,
    /// How many steps there are.
    pub steps: usize,
    /// The dead-letter queues to which its letters may fall back, as far as they can be read.
    #[serde(default)]
    pub queues: Vec<Arn>,
    /// While it settles: when it is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Letters in doubt of it are sent by other replays; it is over then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freed: Option<Freed>,
    /// The round under way or the last one, where a state machine has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<Round>,
    /// Where it is.
    pub place: Place,
}

/// A round of a replay by a state machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// Its lanes; 0 when it is over.
    pub lanes: usize,
    /// Rounds in a row, up to this one, of which nothing came.
    pub idle: u32,
    /// Letters that were sent in the last hour, so many until each time.
    pub lately: Vec<(Timestamp, u64)>,
}

/// Who freed the letters in doubt of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freed {
    /// When, by the clock of S3.
    pub at: Timestamp,
    /// Who.
    pub by: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Where a replay is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// Units that are wholly behind it, and nothing before them is left.
    pub units: u64,
    /// What came of these.
    pub counts: Counts,
    /// The stage under way, from 0.
    pub stage: usize,
    /// When its step began, by the clock of S3.
    pub step_began: Timestamp,
    /// Letters that were sent and refused before its step.
    pub sent_before: u64,
    /// The same for letters that were refused.
    pub refused_before: u64,
    /// Letters in the requeue and in `queues` before its step.
    pub waiting_before: u64,
    /// Letters that were sent when it was looked the last time at what came back.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub judged: u64,
    /// Rounds that a state machine has begun.
    #[serde(default, skip_serializing_if = "is_no_round")]
    pub rounds: u32,
    /// The key, below `replays/`, of what tells of units that are behind it but not in `units`; none after it went on in one
    /// process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<String>,
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
    /// Too much came back, the requeue takes no letters, or somebody stopped it; see `because`.
    Stopped,
    /// Everything was sent.
    Done,
}

/// What came of letters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Counts {
    /// Letters that the requeue has taken; in a dry run those that would be sent.
    #[serde(skip_serializing_if = "is_zero")]
    pub sent: u64,
    /// Letters that SQS would not have, each for a reason of its own.
    #[serde(skip_serializing_if = "is_zero")]
    pub refused: u64,
    /// Letters that were sent once more, since a crash came before their record, or SQS did not say whether it has them.
    /// A request that the SDK repeats by itself is not counted.
    #[serde(skip_serializing_if = "is_zero")]
    pub repeated: u64,
    /// Records of letters that stand in the archive twice.
    #[serde(skip_serializing_if = "is_zero")]
    pub doubles: u64,
    /// Letters that a replay has sent already.
    #[serde(skip_serializing_if = "is_zero")]
    pub already_replayed: u64,
    /// Lines that cannot be read.
    #[serde(skip_serializing_if = "is_zero")]
    pub unreadable: u64,
    /// Letters that cannot be replayed, by the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub not_replayable: BTreeMap<String, u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_no_round(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Versioned for State {
    const VERSION: u8 = 1;

    fn version(&self) -> u8 {
        self.version
    }
}

impl Status {
    /// The name in logs and states.
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

impl State {
    /// Reads one as a state machine hands it on; `whose` is what it says it of.
    ///
    /// # Errors
    ///
    /// [`ReplayError::Newer`] where a newer version wrote it, [`ReplayError::Broken`] where it is none.
    pub fn from_json(json: &serde_json::Value, whose: &str) -> Result<Self, ReplayError> {
        version::read(&json.to_string()).map_err(|unusable| unusable.of(whose.to_owned()))
    }

    /// Whether letters are left that it would send.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.freed.is_none() && !matches!(self.status, Status::DryRun | Status::Done)
    }

    /// Its stages. What is only counted needs no steps.
    pub(super) fn stages(&self) -> Vec<Stage> {
        match self.letters {
            0 => Vec::new(),
            end if self.request.dry_run => vec![Stage { step: 1, end, settles: false }],
            letters => stages(&self.request.ramp, letters),
        }
    }

    /// How many letters may go before it is looked at what came back.
    pub(super) fn budget(&self) -> u64 {
        let is_exact = self.exact || self.request.dry_run;
        budget(is_exact, self.place.judged, self.counts.sent)
    }

    pub(super) fn stop(&mut self, because: String) {
        (self.status, self.because) = (Status::Stopped, Some(because));
    }

    /// Begins to wait for what becomes of a step.
    pub(super) fn settle(&mut self, now: Timestamp) {
        let wait = SignedDuration::from_secs(self.request.settle_seconds.into());
        self.status = Status::Settling;
        self.not_before = Some(now.saturating_add(wait).unwrap_or(Timestamp::MAX));
    }

    pub(super) fn go_on(&mut self) {
        (self.status, self.not_before, self.because) = (Status::Running, None, None);
    }
}

impl Counts {
    /// Letters that are behind it.
    #[must_use]
    pub fn handled(&self) -> u64 {
        self.sent + self.refused
    }

    /// Adds what came of other letters.
    pub fn add(&mut self, other: &Self) {
        let Self { sent, refused, repeated, doubles, already_replayed, unreadable, not_replayable } = other;
        self.sent += sent;
        self.refused += refused;
        self.repeated += repeated;
        self.doubles += doubles;
        self.already_replayed += already_replayed;
        self.unreadable += unreadable;
        for (why, count) in not_replayable {
            *self.not_replayable.entry(why.clone()).or_default() += count;
        }
    }

    /// What is in it beyond another.
    pub(super) fn without(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        for (count, less) in [
            (&mut rest.sent, other.sent),
            (&mut rest.refused, other.refused),
            (&mut rest.repeated, other.repeated),
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

    /// Whether every letter of the selection was sent by some replay.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.refused == 0 && self.unreadable == 0 && self.not_replayable.is_empty()
    }
}
