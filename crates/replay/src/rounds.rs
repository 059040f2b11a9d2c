//! The turns of a replay. The letters of a stage are sent in rounds, each of several lanes. A state machine gives
//! each lane to a function, so that many work at the same time; one process alone takes one lane that has all.
//!
//! ```text
//!   begin ──> send: a line for each lane ──> lane, lane, lane ... ──> turn ──> send, wait or end
//!               ^                                                      │
//!               └──────────────────────────────────────────────────────┘
//! ```
//!
//! Nothing needs to be remembered between two turns, because all of it is stored. If an execution or a process
//! dies, another one continues the replay from its ledgers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use redrive_core::failure::{Failure, FailureClass};
use redrive_core::policy::Policy;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::assign::{letters_of_lanes, share, shares};
use super::control::{ReplayControl, SendPace};
use super::drive::{ActiveReplay, BegunReplay, InHand, NextAction, RoundEnd};
use super::error::ReplayError;
use super::lane::{LaneDone, RoundLane};
use super::letters::ReplaySource;
use super::progress::UnitResults;
use super::redriver::PolicyOfLanes;
use super::replay_state::{ReplayState, ReplayStatus, SendRound};
use super::replay_store::{CONCURRENT_DOCUMENTS, StoredDocument, WriteCondition};
use super::replayer::{ArchiveReplayer, ReplayInputs, token};
use super::request::EventRequest;
use super::worker::{UnitEnd, UnitWork};

/// The number of rounds in a row that may have no result.
const MAX_IDLE_ROUNDS: u32 = 3;

/// The number of tries if turns of one execution meet. There is a [`MEETING_PAUSE`] between tries.
const TURNS_THAT_MEET: u32 = 5;
const MEETING_PAUSE: Duration = Duration::from_secs(2);

/// The seconds after which a waiting replay checks whether somebody has stopped it.
const STOP_POLL_SECONDS: i64 = 60;

/// The seconds until the next turn if the time of this one is over.
const NEXT_TURN_SECONDS: u32 = 1;

/// More letters than any replay sends. Step Functions passes numbers on as JavaScript has them, which are
/// exact below 2^53.
const MOST_LETTERS: u64 = 1_000_000_000_000;

/// The number of units up to which a dry run counts at once. Each has at most a thousand letters, which takes
/// half a minute with 256 MB.
const FEW_UNITS: usize = 50;

/// The rate, in letters per second, that is worth a lane.
const RATE_OF_A_LANE: u32 = 200;

/// The next action of a state machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnAnswer {
    /// The kind of action.
    pub next: TurnKind,
    /// The replay's id.
    pub id: String,
    /// The token of the process or execution that has taken the replay up. Turns with another are over.
    pub holder: String,
    /// The bucket of the lanes.
    pub bucket: String,
    /// The key of the lanes, an object with one line of JSON for each. Empty if nothing is to be sent.
    pub key: String,
    /// The time to wait, in seconds.
    pub seconds: u32,
    /// The replay's state.
    pub replay: ReplayState,
}

/// The kind of a state machine's next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TurnKind {
    /// Gives each lane to a function. The next turn follows.
    Send,
    /// Waits. The next turn follows.
    Wait,
    /// Ends: the replay is done or stopped.
    End,
}

/// A resumption of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayResumption {
    /// The replay's id.
    pub id: String,
    /// The token of the process or execution that has taken the replay up.
    pub holder: String,
}

impl ArchiveReplayer {
    /// Begins or resumes a replay that runs in rounds of at most `workers` lanes. A dry run of few letters
    /// ends at once and writes nothing. The lanes of a larger dry run write their counts.
    ///
    /// # Errors
    ///
    /// [`ReplayError`].
    pub async fn first_turn(
        &self,
        wish: &EventRequest,
        workers: usize,
        policy: Option<&Policy>,
        control: &dyn ReplayControl,
    ) -> Result<TurnAnswer, ReplayError> {
        let job = ReplayInputs { source: &ReplaySource::Archive, policy, control };
        if let EventRequest::Begin(request) = wish
            && request.dry_run
        {
            let planned = Box::pin(self.planned(request, job, false)).await?;
            if planned.plan.units.len() <= FEW_UNITS {
                let state = Box::pin(self.count(planned, job)).await?;
                return Ok(self.turn(TurnKind::End, state));
            }
            let begun = self.begun_of(planned, job).await?;
            return Ok(Box::pin(self.first_turn_of(begun, workers)).await?.0);
        }
        Ok(Box::pin(self.begin(wish, workers, job)).await?.0)
    }

    /// Begins or resumes a replay. Returns the first turn, and what a process that does the whole replay keeps.
    pub(super) async fn begin(
        &self,
        wish: &EventRequest,
        workers: usize,
        job: ReplayInputs<'_>,
    ) -> Result<(TurnAnswer, InHand), ReplayError> {
        let begun = match wish {
            EventRequest::Begin(request) => self.begun(request, job).await?,
            EventRequest::Resume(resume) => self.gone_on(resume, job).await?,
        };
        Box::pin(self.first_turn_of(begun, workers)).await
    }

    async fn first_turn_of(
        &self,
        mut begun: BegunReplay<'_>,
        workers: usize,
    ) -> Result<(TurnAnswer, InHand), ReplayError> {
        let (given, pace) = (begun.given.take(), SendPace::new(begun.state.request.rate));
        let in_hand = InHand { units: Arc::clone(&begun.units), given, pace };
        let drive = ActiveReplay::take_up(self, begun).await?;
        let round = drive.with(|progress| progress.state.place.rounds);
        self.keep_known(&drive, round).await?;
        let next = drive.next().await?;
        Ok((Box::pin(self.turn_of(&drive, next, workers)).await?, in_hand))
    }

    /// Continues after a round or a wait.
    ///
    /// # Errors
    ///
    /// [`ReplayError`], such as [`ReplayError::TakenUp`] if somebody else has taken the replay up.
    pub async fn next_turn(
        &self,
        of: &ReplayResumption,
        workers: usize,
        policy: Option<&Policy>,
        control: &dyn ReplayControl,
    ) -> Result<TurnAnswer, ReplayError> {
        self.go_on(of, workers, ReplayInputs { source: &ReplaySource::Archive, policy, control }, None).await
    }

    /// Continues after a round or a wait. If `job.control` stops it, it only saves the results of the round, and
    /// the turn says so with [`TurnKind::Wait`].
    pub(super) async fn go_on(
        &self,
        of: &ReplayResumption,
        workers: usize,
        job: ReplayInputs<'_>,
        in_hand: Option<&InHand>,
    ) -> Result<TurnAnswer, ReplayError> {
        let mut begun = None;
        for _ in 0..TURNS_THAT_MEET {
            let turn = Box::pin(self.try_to_go_on(of, workers, job, in_hand, &mut begun)).await;
            let Err(ReplayError::TakenUp(_)) = turn else { return turn };
            // The same execution still holds the replay: its turn was retried while the first try, whose
            // answer is lost, is at work.
            if self.kept.found(&of.id).await?.document.holder != of.holder {
                return turn;
            }
            sleep(MEETING_PAUSE).await;
        }
        let met = Failure::ours(FailureClass::Transient, "TurnsMeet");
        Err(ReplayError::failed(format!("the next turn of {}", of.id), met))
    }

    /// Continues, unless somebody else writes the replay's state in the meantime. `begun` is the number of
    /// rounds begun before.
    async fn try_to_go_on(
        &self,
        of: &ReplayResumption,
        workers: usize,
        job: ReplayInputs<'_>,
        in_hand: Option<&InHand>,
        begun: &mut Option<u32>,
    ) -> Result<TurnAnswer, ReplayError> {
        let StoredDocument { document: state, etag, .. } = self.kept.found(&of.id).await?;
        if state.holder != of.holder {
            return Err(ReplayError::TakenUp(state.id));
        }
        let number = state.place.rounds;
        if number > *begun.get_or_insert(number) && state.round.as_ref().is_some_and(|round| round.lanes > 0)
        {
            // The other turn has begun a round, so both give the same answer.
            let key = lanes_key(&state.id, number);
            if self.kept.store.text(&key).await?.is_some() {
                return Ok(TurnAnswer { key: self.kept.store.key(&key), ..self.turn(TurnKind::Send, state) });
            }
        }
        if !state.is_unfinished() || state.status == ReplayStatus::Stopped {
            return Ok(self.turn(TurnKind::End, state));
        }
        let is_worked_on = self.check_is_worked_on(&state.request);
        let round = state.round.clone().filter(|round| round.lanes > 0);
        let units = match in_hand {
            Some(in_hand) => Arc::clone(&in_hand.units),
            None => self.units(&of.id).await?,
        };
        let known = self.known(&state).await?;
        let drive = ActiveReplay::new(self, BegunReplay { state, etag, units, known, job, given: None });
        let sent = match round {
            Some(round) => Some(self.collect(&drive, round).await?),
            None => None,
        };
        drive.look().await?;
        let is_stopped = drive.with(|progress| progress.state.status == ReplayStatus::Stopped);
        if let (Err(error), false) = (is_worked_on, is_stopped) {
            // A later resumption needs the result of the round.
            drive.save().await?;
            return Err(error);
        }
        if job.control.stop() && !is_stopped {
            drive.save().await?;
            return Ok(TurnAnswer { seconds: NEXT_TURN_SECONDS, ..self.turn(TurnKind::Wait, drive.shown()) });
        }
        let next = match sent {
            _ if is_stopped => NextAction::End,
            Some(RoundEnd::Interrupted) => NextAction::Send,
            Some(RoundEnd::Through) => drive.sent().await?,
            None => drive.next().await?,
        };
        Box::pin(self.turn_of(&drive, next, workers)).await
    }

    async fn turn_of(
        &self,
        drive: &ActiveReplay<'_>,
        mut next: NextAction,
        workers: usize,
    ) -> Result<TurnAnswer, ReplayError> {
        loop {
            next = match next {
                NextAction::End => {
                    drive.save().await?;
                    return Ok(self.turn(TurnKind::End, drive.shown()));
                }
                NextAction::Wait => {
                    let state = drive.shown();
                    let left = state.not_before.map_or(0, |then| {
                        (then.as_millisecond() - self.kept.clock.now().as_millisecond() + 999) / 1000
                    });
                    if left > 0 {
                        let seconds = u32::try_from(left.min(STOP_POLL_SECONDS)).unwrap_or_default();
                        drive.save().await?;
                        return Ok(TurnAnswer { seconds, ..self.turn(TurnKind::Wait, state) });
                    }
                    drive.judged().await?
                }
                NextAction::Send if !drive.may_send() || !drive.is_anything_left() => drive.sent().await?,
                NextAction::Send => {
                    let key = self.round(drive, workers, drive.shown().budget()).await?;
                    return Ok(TurnAnswer { key, ..self.turn(TurnKind::Send, drive.shown()) });
                }
            };
        }
    }

    /// Begins a round that may send `budget` letters. Returns the key of its lanes.
    async fn round(
        &self,
        drive: &ActiveReplay<'_>,
        workers: usize,
        budget: u64,
    ) -> Result<String, ReplayError> {
        let (state, parts) = (drive.shown(), drive.parts());
        let rate = state.request.rate;
        let small = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        // A lane costs money even while it waits for its share of the rate.
        let paid = if state.request.dry_run { workers } else { small(rate.div_ceil(RATE_OF_A_LANE).into()) };
        let lanes = workers.min(parts.len()).min(paid).min(small(budget).max(1));
        let letters = shares(budget.min(MOST_LETTERS), &letters_of_lanes(&drive.units, parts, lanes));
        let before = state.round.clone().unwrap_or_default();
        let number = state.place.rounds + 1;
        let (policy, policy_at) = match &self.policy_of_lanes {
            PolicyOfLanes::Unknown => (None, None),
            PolicyOfLanes::Json(json) => (Some(json.clone()), None),
            PolicyOfLanes::Object(place) => (None, Some(place.to_string())),
        };
        let line = |lane| {
            let lane = RoundLane {
                id: state.id.clone(),
                holder: state.holder.clone(),
                round: number,
                lane,
                lanes,
                rate: u32::try_from(share(rate.into(), lane, lanes)).unwrap_or(u32::MAX),
                letters: letters.get(lane).copied().unwrap_or_default(),
                policy: policy.clone(),
                policy_at: policy_at.clone(),
            };
            serde_json::to_string(&lane).map(|line| line + "\n")
        };
        let lines: Result<String, _> = (0..lanes).map(line).collect();
        let lines = lines.map_err(|_| ReplayError::Broken(state.id.clone()))?;
        // Only one turn can save this and continue.
        let now = self.kept.clock.now();
        drive.with(|progress| {
            let lately = progress.lately_by_ten_seconds(now);
            progress.state.place.rounds = number;
            progress.state.round = Some(SendRound { lanes, lately, ..before });
        });
        drive.save().await?;
        let key = lanes_key(&state.id, number);
        let written = self.kept.store.write_text(&key, lines, WriteCondition::Absent).await?;
        written.ok_or(ReplayError::TakenUp(state.id))?;
        Ok(self.kept.store.key(&key))
    }

    /// Records the results of a round.
    async fn collect(&self, drive: &ActiveReplay<'_>, round: SendRound) -> Result<RoundEnd, ReplayError> {
        let (id, number) = drive.with(|progress| (progress.state.id.clone(), progress.state.place.rounds));
        let keys = (0..round.lanes).map(|lane| LaneDone::key(&id, number, lane));
        let read = |key: String| async move { self.kept.store.read::<LaneDone>(&key).await };
        let mut read = stream::iter(keys).map(read).buffered(CONCURRENT_DOCUMENTS);
        let (mut is_through, mut is_paused, mut has_moved) = (true, false, false);
        let mut is_in_doubt = false;
        let (mut failed, mut trouble) = (None, None);
        while let Some(done) = read.next().await {
            // Its function has died, or did not finish in time.
            let Some(StoredDocument { document: done, .. }) = done? else {
                (is_through, is_in_doubt) = (false, true);
                continue;
            };
            is_through &= done.is_through;
            is_paused |= done.is_paused;
            failed = failed.or(done.failed);
            // Letters of a part that failed may have been sent. Only the ledger says so.
            is_in_doubt |= done.trouble.is_some();
            trouble = trouble.or(done.trouble);
            for unit in done.units {
                has_moved |= unit.sent > 0 || unit.done;
                let end = if unit.done { UnitEnd::Done } else { UnitEnd::Paused };
                let worked = UnitWork { counts: unit.counts, sent: unit.sent, end };
                drive.with(|progress| progress.note(unit.unit, worked, unit.at));
            }
        }
        drop(read);
        if is_in_doubt {
            let before = drive.shown().counts.sent;
            match drive.learn().await {
                // The ledger may be what the lane is in trouble with. A stop names it, if no round makes progress.
                Err(_) if trouble.is_some() => {}
                learned => learned?,
            }
            has_moved |= drive.shown().counts.sent > before;
        }
        has_moved |= is_through || is_paused;
        self.keep_known(drive, number).await?;
        let now = self.kept.clock.now();
        drive.with(|progress| {
            let idle = if has_moved { 0 } else { round.idle + 1 };
            if let Some(why) = failed {
                progress.state.stop(why);
            } else if idle >= MAX_IDLE_ROUNDS {
                let why = || {
                    format!("{MAX_IDLE_ROUNDS} rounds made no progress: see the log of the replay function")
                };
                progress.state.stop(trouble.unwrap_or_else(why));
            }
            let lately = progress.lately_by_ten_seconds(now);
            progress.state.round = Some(SendRound { lanes: 0, idle, lately });
        });
        Ok(if is_paused || is_through { RoundEnd::Through } else { RoundEnd::Interrupted })
    }

    /// Stores which units are finished, or partly done, ahead of others before them.
    async fn keep_known(&self, drive: &ActiveReplay<'_>, round: u32) -> Result<(), ReplayError> {
        let (id, units) = drive.with(|progress| (progress.state.id.clone(), progress.units().clone()));
        // Another turn, which may find out only later that it is over, writes a key of its own.
        let key = UnitResults::key(&id, round, &token());
        let written = self.kept.store.write(&key, &units, WriteCondition::Absent).await?;
        written.ok_or(ReplayError::TakenUp(id))?;
        drive.with(|progress| progress.state.place.known = Some(key));
        Ok(())
    }

    fn turn(&self, next: TurnKind, replay: ReplayState) -> TurnAnswer {
        let (id, holder) = (replay.id.clone(), replay.holder.clone());
        let bucket = self.kept.store.bucket().to_owned();
        TurnAnswer { next, id, holder, bucket, key: String::new(), seconds: 0, replay }
    }
}

/// Returns the key of the lanes of a round.
pub(super) fn lanes_key(id: &str, round: u32) -> String {
    format!("{id}/rounds/{round:06}.jsonl")
}
