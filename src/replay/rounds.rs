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
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::control::{Control, Pace};
use super::division::{letters_of_lanes, share, shares};
use super::drive::{Begun, Drive, InHand, Next, Sent};
use super::error::ReplayError;
use super::lane::{Lane, LaneDone};
use super::letters::Source;
use super::parts::{Job, Replay, token};
use super::progress::Units;
use super::request::Wish;
use super::state::{Round, State, Status};
use super::store::{AT_ONCE, Condition, Found};
use super::worker::{End, Worked};
use crate::failure::{Failure, FailureClass};
use crate::policy::Policy;

/// The number of rounds in a row that may have no result.
const PATIENCE: u32 = 3;

/// The number of tries if turns of one execution meet. There is a [`PAUSE`] between tries.
const TURNS_THAT_MEET: u32 = 5;
const PAUSE: Duration = Duration::from_secs(2);

/// The seconds after which a waiting replay checks whether somebody has stopped it.
const LOOK: i64 = 60;

/// The seconds until the next turn if the time of this one is over.
const SOON: u32 = 1;

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
pub struct Turn {
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
    pub replay: State,
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
pub struct Resumption {
    /// The replay's id.
    pub id: String,
    /// The token of the process or execution that has taken the replay up.
    pub holder: String,
}

impl Replay {
    /// Begins or resumes a replay that runs in rounds of at most `workers` lanes. A dry run of few letters
    /// ends at once and writes nothing. The lanes of a larger dry run write their counts.
    ///
    /// # Errors
    ///
    /// [`ReplayError`].
    pub async fn first_turn(
        &self,
        wish: &Wish,
        workers: usize,
        policy: Option<&Policy>,
        control: &dyn Control,
    ) -> Result<Turn, ReplayError> {
        let job = Job { source: &Source::Archive, policy, control };
        if let Wish::Begin(request) = wish
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
        wish: &Wish,
        workers: usize,
        job: Job<'_>,
    ) -> Result<(Turn, InHand), ReplayError> {
        let begun = match wish {
            Wish::Begin(request) => self.begun(request, job).await?,
            Wish::Resume(resume) => self.gone_on(resume, job).await?,
        };
        Box::pin(self.first_turn_of(begun, workers)).await
    }

    async fn first_turn_of(
        &self,
        mut begun: Begun<'_>,
        workers: usize,
    ) -> Result<(Turn, InHand), ReplayError> {
        let (given, pace) = (begun.given.take(), Pace::new(begun.state.request.rate));
        let in_hand = InHand { units: Arc::clone(&begun.units), given, pace };
        let drive = Drive::take_up(self, begun).await?;
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
        of: &Resumption,
        workers: usize,
        policy: Option<&Policy>,
        control: &dyn Control,
    ) -> Result<Turn, ReplayError> {
        self.go_on(of, workers, Job { source: &Source::Archive, policy, control }, None).await
    }

    /// Continues after a round or a wait. If `job.control` stops it, it only saves the results of the round, and
    /// the turn says so with [`TurnKind::Wait`].
    pub(super) async fn go_on(
        &self,
        of: &Resumption,
        workers: usize,
        job: Job<'_>,
        in_hand: Option<&InHand>,
    ) -> Result<Turn, ReplayError> {
        let mut begun = None;
        for _ in 0..TURNS_THAT_MEET {
            let turn = Box::pin(self.try_to_go_on(of, workers, job, in_hand, &mut begun)).await;
            let Err(ReplayError::TakenUp(_)) = turn else { return turn };
            // The same execution still holds the replay: its turn was retried while the first try, whose
            // answer is lost, is at work.
            if self.kept.found(&of.id).await?.document.holder != of.holder {
                return turn;
            }
            sleep(PAUSE).await;
        }
        let met = Failure::ours(FailureClass::Transient, "TurnsMeet");
        Err(ReplayError::failed(format!("the next turn of {}", of.id), met))
    }

    /// Continues, unless somebody else writes the replay's state in the meantime. `begun` is the number of
    /// rounds begun before.
    async fn try_to_go_on(
        &self,
        of: &Resumption,
        workers: usize,
        job: Job<'_>,
        in_hand: Option<&InHand>,
        begun: &mut Option<u32>,
    ) -> Result<Turn, ReplayError> {
        let Found { document: state, etag, .. } = self.kept.found(&of.id).await?;
        if state.holder != of.holder {
            return Err(ReplayError::TakenUp(state.id));
        }
        let number = state.place.rounds;
        if number > *begun.get_or_insert(number) && state.round.as_ref().is_some_and(|round| round.lanes > 0)
        {
            // The other turn has begun a round, so both give the same answer.
            let key = lanes_key(&state.id, number);
            if self.kept.store.text(&key).await?.is_some() {
                return Ok(Turn { key: self.kept.store.key(&key), ..self.turn(TurnKind::Send, state) });
            }
        }
        if !state.is_unfinished() || state.status == Status::Stopped {
            return Ok(self.turn(TurnKind::End, state));
        }
        let is_worked_on = self.check_is_worked_on(&state.request);
        let round = state.round.clone().filter(|round| round.lanes > 0);
        let units = match in_hand {
            Some(in_hand) => Arc::clone(&in_hand.units),
            None => self.units(&of.id).await?,
        };
        let known = self.known(&state).await?;
        let drive = Drive::new(self, Begun { state, etag, units, known, job, given: None });
        let sent = match round {
            Some(round) => Some(self.collect(&drive, round).await?),
            None => None,
        };
        drive.look().await?;
        let is_stopped = drive.with(|progress| progress.state.status == Status::Stopped);
        if let (Err(error), false) = (is_worked_on, is_stopped) {
            // A later resumption needs the result of the round.
            drive.save().await?;
            return Err(error);
        }
        if job.control.stop() && !is_stopped {
            drive.save().await?;
            return Ok(Turn { seconds: SOON, ..self.turn(TurnKind::Wait, drive.shown()) });
        }
        let next = match sent {
            _ if is_stopped => Next::End,
            Some(Sent::Interrupted) => Next::Send,
            Some(Sent::Through) => drive.sent().await?,
            None => drive.next().await?,
        };
        Box::pin(self.turn_of(&drive, next, workers)).await
    }

    async fn turn_of(&self, drive: &Drive<'_>, mut next: Next, workers: usize) -> Result<Turn, ReplayError> {
        loop {
            next = match next {
                Next::End => {
                    drive.save().await?;
                    return Ok(self.turn(TurnKind::End, drive.shown()));
                }
                Next::Wait => {
                    let state = drive.shown();
                    let left = state.not_before.map_or(0, |then| {
                        (then.as_millisecond() - self.kept.clock.now().as_millisecond() + 999) / 1000
                    });
                    if left > 0 {
                        let seconds = u32::try_from(left.min(LOOK)).unwrap_or_default();
                        drive.save().await?;
                        return Ok(Turn { seconds, ..self.turn(TurnKind::Wait, state) });
                    }
                    drive.judged().await?
                }
                Next::Send if !drive.may_send() || !drive.is_anything_left() => drive.sent().await?,
                Next::Send => {
                    let key = self.round(drive, workers, drive.shown().budget()).await?;
                    return Ok(Turn { key, ..self.turn(TurnKind::Send, drive.shown()) });
                }
            };
        }
    }

    /// Begins a round that may send `budget` letters. Returns the key of its lanes.
    async fn round(&self, drive: &Drive<'_>, workers: usize, budget: u64) -> Result<String, ReplayError> {
        let (state, parts) = (drive.shown(), drive.parts());
        let rate = state.request.rate;
        let small = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        // A lane costs money even while it waits for its share of the rate.
        let paid = if state.request.dry_run { workers } else { small(rate.div_ceil(RATE_OF_A_LANE).into()) };
        let lanes = workers.min(parts.len()).min(paid).min(small(budget).max(1));
        let letters = shares(budget.min(MOST_LETTERS), &letters_of_lanes(&drive.units, parts, lanes));
        let before = state.round.clone().unwrap_or_default();
        let number = state.place.rounds + 1;
        let line = |lane| {
            let lane = Lane {
                id: state.id.clone(),
                holder: state.holder.clone(),
                round: number,
                lane,
                lanes,
                rate: u32::try_from(share(rate.into(), lane, lanes)).unwrap_or(u32::MAX),
                letters: letters.get(lane).copied().unwrap_or_default(),
                policy: self.policy_of_lanes.clone(),
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
            progress.state.round = Some(Round { lanes, lately, ..before });
        });
        drive.save().await?;
        let key = lanes_key(&state.id, number);
        let written = self.kept.store.write_text(&key, lines, Condition::Absent).await?;
        written.ok_or(ReplayError::TakenUp(state.id))?;
        Ok(self.kept.store.key(&key))
    }

    /// Records the results of a round.
    async fn collect(&self, drive: &Drive<'_>, round: Round) -> Result<Sent, ReplayError> {
        let (id, number) = drive.with(|progress| (progress.state.id.clone(), progress.state.place.rounds));
        let keys = (0..round.lanes).map(|lane| LaneDone::key(&id, number, lane));
        let read = |key: String| async move { self.kept.store.read::<LaneDone>(&key).await };
        let mut read = stream::iter(keys).map(read).buffered(AT_ONCE);
        let (mut is_through, mut is_paused, mut has_moved) = (true, false, false);
        let mut is_in_doubt = false;
        let (mut failed, mut trouble) = (None, None);
        while let Some(done) = read.next().await {
            // Its function has died, or did not finish in time.
            let Some(Found { document: done, .. }) = done? else {
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
                let end = if unit.done { End::Done } else { End::Paused };
                let worked = Worked { counts: unit.counts, sent: unit.sent, end };
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
            } else if idle >= PATIENCE {
                let why =
                    || format!("{PATIENCE} rounds made no progress: see the log of the replay function");
                progress.state.stop(trouble.unwrap_or_else(why));
            }
            let lately = progress.lately_by_ten_seconds(now);
            progress.state.round = Some(Round { lanes: 0, idle, lately });
        });
        Ok(if is_paused || is_through { Sent::Through } else { Sent::Interrupted })
    }

    /// Stores which units are finished, or partly done, ahead of others before them.
    async fn keep_known(&self, drive: &Drive<'_>, round: u32) -> Result<(), ReplayError> {
        let (id, units) = drive.with(|progress| (progress.state.id.clone(), progress.units().clone()));
        // Another turn, which may find out only later that it is over, writes a key of its own.
        let key = Units::key(&id, round, &token());
        let written = self.kept.store.write(&key, &units, Condition::Absent).await?;
        written.ok_or(ReplayError::TakenUp(id))?;
        drive.with(|progress| progress.state.place.known = Some(key));
        Ok(())
    }

    fn turn(&self, next: TurnKind, replay: State) -> Turn {
        let (id, holder) = (replay.id.clone(), replay.holder.clone());
        let bucket = self.kept.store.bucket().to_owned();
        Turn { next, id, holder, bucket, key: String::new(), seconds: 0, replay }
    }
}

/// Returns the key of the lanes of a round.
pub(super) fn lanes_key(id: &str, round: u32) -> String {
    format!("{id}/rounds/{round:06}.jsonl")
}
