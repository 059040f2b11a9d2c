//! A replay that one process does alone: the turns of a state machine and their lanes, one after the other.

use tokio::time::{Duration, Instant, sleep};

use super::control::{Control, LOOK, NAP, Switch};
use super::drive::InHand;
use super::error::ReplayError;
use super::lane::Lane;
use super::letters::Source;
use super::parts::{Job, Replay};
use super::request::Wish;
use super::rounds::{Resumption, Turn, TurnKind, lanes_key};
use super::state::State;
use crate::policy::Policy;

/// The number of lanes in a round. The one lane has the whole rate, and works on several units at the same time.
const LANES: usize = 1;

impl Replay {
    /// Carries out a request: begins a replay, continues one, or counts the letters that one would send.
    /// Returns when all letters are sent, when the replay must stop, or when `control` says so; the state tells
    /// which. If the redrive policy is known, letters without a target are left out.
    ///
    /// # Errors
    ///
    /// [`ReplayError`]. A failure of single letters is never an error.
    pub async fn run(
        &self,
        wish: &Wish,
        source: &Source,
        policy: Option<&Policy>,
        control: &dyn Control,
    ) -> Result<State, ReplayError> {
        match wish {
            Wish::Begin(request) if request.dry_run => self.dry_run(request, source, policy, control).await,
            _ => Box::pin(self.turns(wish, Job { source, policy, control })).await,
        }
    }

    /// Takes one turn after the other until the replay ends or `control` stops it.
    async fn turns(&self, wish: &Wish, job: Job<'_>) -> Result<State, ReplayError> {
        let (mut turn, in_hand) = self.begin(wish, LANES, job).await?;
        loop {
            job.control.progress(&turn.replay);
            let switch = Switch::new(job.control);
            let done = match turn.next {
                TurnKind::End => return Ok(turn.replay),
                TurnKind::Wait => self.wait(&turn, job.control).await,
                TurnKind::Send => self.send(&turn, &in_hand, job).await,
            };
            if done.is_err() {
                // The next turn only saves what was sent.
                switch.turn_off();
            }
            let of = Resumption { id: turn.id, holder: turn.holder };
            let job = Job { control: &switch, ..job };
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
    async fn send(&self, turn: &Turn, in_hand: &InHand, job: Job<'_>) -> Result<(), ReplayError> {
        let key = lanes_key(&turn.id, turn.replay.place.rounds);
        let broken = || ReplayError::Broken(turn.key.clone());
        let lines = self.kept.store.text(&key).await?.ok_or_else(broken)?;
        for line in lines.lines() {
            let lane: Lane = serde_json::from_str(line).map_err(|_| broken())?;
            Box::pin(self.whole_round(&lane, job, in_hand)).await?;
        }
        Ok(())
    }

    /// Waits as long as a turn says, unless somebody stops the replay or takes it up.
    async fn wait(&self, turn: &Turn, control: &dyn Control) -> Result<(), ReplayError> {
        let until = Instant::now() + Duration::from_secs(turn.seconds.into());
        let mut look = Instant::now() + LOOK;
        while Instant::now() < until && !control.stop() {
            sleep(NAP).await;
            if Instant::now() < look {
                continue;
            }
            let state = self.kept.found(&turn.id).await?.document;
            if state.holder != turn.holder || self.kept.stopped(&turn.id, state.taken_up).await?.is_some() {
                return Ok(());
            }
            look = Instant::now() + LOOK;
        }
        Ok(())
    }
}
