//! A replay that one process does alone: the turns of a state machine and their lanes, one after the other.

use redrive_core::policy::Policy;
use tokio::time::{Duration, Instant, sleep};

use super::control::{ReplayControl, STOP_CHECK_INTERVAL, STOP_READ_INTERVAL, SwitchedControl};
use super::drive::InHand;
use super::error::ReplayError;
use super::lane::RoundLane;
use super::letters::ReplaySource;
use super::replay_state::ReplayState;
use super::replayer::{ArchiveReplayer, ReplayInputs};
use super::request::EventRequest;
use super::rounds::{ReplayResumption, TurnAnswer, TurnKind, lanes_key};

/// The number of lanes in a round. The one lane has the whole rate, and works on several units at the same time.
const LANES: usize = 1;

impl ArchiveReplayer {
    /// Carries out a request: begins a replay, continues one, or counts the letters that one would send.
    /// Returns when all letters are sent, when the replay must stop, or when `control` says so; the state tells
    /// which. If the redrive policy is known, letters without a target are left out.
    ///
    /// # Errors
    ///
    /// [`ReplayError`]. A failure of single letters is never an error.
    pub async fn run(
        &self,
        wish: &EventRequest,
        source: &ReplaySource,
        policy: Option<&Policy>,
        control: &dyn ReplayControl,
    ) -> Result<ReplayState, ReplayError> {
        match wish {
            EventRequest::Begin(request) if request.dry_run => {
                self.dry_run(request, source, policy, control).await
            }
            _ => Box::pin(self.turns(wish, ReplayInputs { source, policy, control })).await,
        }
    }

    /// Takes one turn after the other until the replay ends or `control` stops it.
    async fn turns(&self, wish: &EventRequest, job: ReplayInputs<'_>) -> Result<ReplayState, ReplayError> {
        let (mut turn, in_hand) = self.begin(wish, LANES, job).await?;
        loop {
            job.control.progress(&turn.replay);
            let switch = SwitchedControl::new(job.control);
            let done = match turn.next {
                TurnKind::End => return Ok(turn.replay),
                TurnKind::Wait => self.wait(&turn, job.control).await,
                TurnKind::Send => self.send(&turn, &in_hand, job).await,
            };
            if done.is_err() {
                // The next turn only saves what was sent.
                switch.turn_off();
            }
            let of = ReplayResumption { id: turn.id, holder: turn.holder };
            let job = ReplayInputs { control: &switch, ..job };
            let next = Box::pin(self.go_on(&of, LANES, job, Some(&in_hand))).await;
            done?;
            turn = next?;
            if switch.stop() {
                job.control.progress(&turn.replay);
                return Ok(turn.replay);
            }
        }
    }

    /// Sends the letters of a round.
    async fn send(
        &self,
        turn: &TurnAnswer,
        in_hand: &InHand,
        job: ReplayInputs<'_>,
    ) -> Result<(), ReplayError> {
        let key = lanes_key(&turn.id, turn.replay.place.rounds);
        let broken = || ReplayError::Broken(turn.key.clone());
        let lines = self.kept.store.text(&key).await?.ok_or_else(broken)?;
        for line in lines.lines() {
            let lane: RoundLane = serde_json::from_str(line).map_err(|_| broken())?;
            Box::pin(self.whole_round(&lane, job, in_hand)).await?;
        }
        Ok(())
    }

    /// Waits as long as a turn says, unless somebody stops the replay or takes it up.
    async fn wait(&self, turn: &TurnAnswer, control: &dyn ReplayControl) -> Result<(), ReplayError> {
        let until = Instant::now() + Duration::from_secs(turn.seconds.into());
        let mut look = Instant::now() + STOP_READ_INTERVAL;
        while Instant::now() < until && !control.stop() {
            sleep(STOP_CHECK_INTERVAL).await;
            if Instant::now() < look {
                continue;
            }
            let state = self.kept.found(&turn.id).await?.document;
            if state.holder != turn.holder || self.kept.stopped(&turn.id, state.taken_up).await?.is_some() {
                return Ok(());
            }
            look = Instant::now() + STOP_READ_INTERVAL;
        }
        Ok(())
    }
}
