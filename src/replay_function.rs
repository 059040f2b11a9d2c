//! The replay function of `operations.yaml`, around [`ArchiveReplayer`]: a whole replay in one invocation, or the
//! turns and lanes of a state machine that replays more. It takes no letters from a queue.
//!
//! | event | answer |
//! |---|---|
//! | `{"replay": {...}}`, as in [`EventRequest`] | the state of the replay when it ended or the time was over |
//! | `{"turn": {"begin": {...}, "workers": 100, "by": "..."}}` | the next action: a [`TurnAnswer`] |
//! | `{"turn": {"id": "...", "holder": "...", "workers": 100}}` | the same |
//! | `{"lane": {...}}`, a line that a turn has written | the result of the lane |
//!
//! Letters are sent only if the function of `REDRIVE_FUNCTION` works on them, and by its policy. A replay and
//! a turn read its configuration, a lane gets the policy from its turn.
//!
//! Another replay at work on the same letters is not an error, so it raises no alarm: the answer's `status` is
//! `busy`.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use redrive_aws::clients::AwsClients;
use redrive_aws::clock::InstanceClock;
use redrive_aws::log;
use redrive_aws::policy_object::read_policy;
use redrive_aws::settings::{ArchiveAt, PolicyAt, Settings};
use redrive_core::arn::Arn;
use redrive_core::batch::OperatingMode;
use redrive_core::failure::Failure;
use redrive_core::policy::Policy;
use redrive_replay::{
    ArchiveReplayer, EventRequest, PolicyOfLanes, RecordLocation, RedriverReader, RedriverState,
    ReplayControl, ReplayEnvironment, ReplayError, ReplayResumption, ReplaySource, ReplayState, RoundLane,
    TurnAnswer, TurnKind,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tracing::Instrument;

use crate::telemetry;

/// The author of a replay that the state machine does not name.
const DEFAULT_AUTHOR: &str = "the replay function";

/// The number of units worked on at the same time if one invocation does the whole replay.
const REPLAY_WORKERS: usize = 4;

/// The number of parts of a lane sent at the same time: while one waits for its ledger, another sends.
pub const LANE_WORKERS: usize = 2;

/// The greatest number of lanes in a round:
/// <https://docs.aws.amazon.com/step-functions/latest/dg/state-map-distributed.html>
const MAX_LANES: usize = 1000;

/// The time reserved for the last batch of a replay and the write of its ledger.
const TIME_TO_STOP: Duration = Duration::from_secs(20);

/// The replay function, ready to handle events.
pub struct ReplayFunction {
    parts: Result<ReplayEnvironment, &'static str>,
    redriver: Option<RedriverReader>,
    /// The mode and the policy from this function's own settings. They count if `REDRIVE_FUNCTION` names no
    /// other function.
    own: Arc<RedriverState>,
    /// Where that policy is, if it is in S3.
    own_policy_at: Option<PolicyAt>,
    clients: AwsClients,
    clock: InstanceClock,
}

/// The event that the function gets.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum ReplayEvent {
    /// A whole replay.
    Replay(Box<RawValue>),
    /// A turn of a state machine.
    Turn(TurnEvent),
    /// A lane of a round.
    Lane(RoundLane),
}

/// A turn of a state machine: the first one has `begin`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum TurnEvent {
    /// Begins or resumes a replay.
    First {
        /// The request.
        begin: Value,
        /// The greatest number of lanes in a round.
        workers: usize,
        /// The name of the person or program that begins it.
        by: String,
    },
    /// Continues after a round or a wait.
    Next {
        /// The replay and its holder.
        #[serde(flatten)]
        of: ReplayResumption,
        /// The greatest number of lanes in a round.
        workers: usize,
    },
}

/// The answer of the function.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum ReplayAnswer {
    /// The state of a replay.
    Replay(Box<ReplayState>),
    /// The next action of the state machine.
    Turn(Box<TurnAnswer>),
    /// The result of a lane.
    Lane {
        /// The number of letters sent. `None` if the round was over.
        sent: Option<u64>,
        /// The reason why the lane did not send all of its letters.
        trouble: Option<String>,
    },
    /// Another replay is at work on the same letters, or somebody else has taken this one up.
    Busy {
        /// Always `end`, which ends a state machine.
        next: TurnKind,
        /// Always `busy`.
        status: &'static str,
        /// The replay that is in the way, in words.
        because: String,
    },
}

impl ReplayFunction {
    /// Connects the parts.
    #[must_use]
    pub fn new(settings: Settings, clients: AwsClients, clock: InstanceClock) -> Self {
        let redriver = settings.redrive_function.clone();
        let redriver = redriver.map(|function| RedriverReader::new(&clients, function, clock.clone()));
        let parts = parts(&settings, clients.clone(), &clock);
        let idle = (settings.mode == OperatingMode::Observe).then(|| "REDRIVE_MODE is observe".to_owned());
        let own_policy_at = settings.policy_at;
        let policy = own_policy_at.is_none().then_some(settings.policy);
        let own = Arc::new(RedriverState { idle, policy, for_lanes: PolicyOfLanes::Unknown });
        Self { parts, redriver, own, own_policy_at, clients, clock }
    }

    /// Answers one event. `deadline_ms` is Lambda's, in milliseconds since 1970.
    ///
    /// # Errors
    ///
    /// [`ReplayError`]. A failure of single letters is never an error.
    pub async fn answer(
        &self,
        event: ReplayEvent,
        request_id: &str,
        deadline_ms: u64,
    ) -> Result<ReplayAnswer, ReplayError> {
        // Boxed, because futures nested in those of the runtime are too deep for the compiler.
        let answer = self.carry_out(event, deadline_ms).boxed_local();
        answer.instrument(log::invocation(request_id)).await
    }

    async fn carry_out(&self, event: ReplayEvent, deadline_ms: u64) -> Result<ReplayAnswer, ReplayError> {
        let left = self.clock.left(deadline_ms);
        let until = Instant::now() + left.saturating_sub(TIME_TO_STOP.min(left / 2));
        let control = DeadlineControl { until };
        let answer = match event {
            ReplayEvent::Replay(wish) => self.replay(&wish, &control).await,
            ReplayEvent::Turn(turn) => self.turn(turn, &control).await,
            ReplayEvent::Lane(lane) => Box::pin(self.lane(&lane, &control)).await,
        };
        match answer {
            Err(error @ (ReplayError::Busy(_) | ReplayError::TakenUp(_))) => {
                telemetry::replay_busy(&error);
                Ok(ReplayAnswer::Busy { next: TurnKind::End, status: "busy", because: error.to_string() })
            }
            answer => answer.inspect_err(telemetry::replay_failed),
        }
    }

    /// Runs a whole replay.
    async fn replay(&self, wish: &RawValue, control: &DeadlineControl) -> Result<ReplayAnswer, ReplayError> {
        let wish = EventRequest::from_text(wish.get()).map_err(ReplayError::Request)?;
        let (replay, redriving) = self.replay_by(DEFAULT_AUTHOR).await?;
        replay.check_requeue().await?;
        let state = replay.run(&wish, &ReplaySource::Archive, redriving.policy.as_ref(), control).await?;
        telemetry::replay(&state);
        Ok(ReplayAnswer::Replay(Box::new(state)))
    }

    /// Runs a turn of a state machine.
    async fn turn(&self, event: TurnEvent, control: &DeadlineControl) -> Result<ReplayAnswer, ReplayError> {
        let turn = match event {
            TurnEvent::First { begin, workers, by } => {
                let wish = EventRequest::from_json(begin).map_err(ReplayError::Request)?;
                let workers = lanes(workers)?;
                let (replay, redriving) = self.replay_by(&by).await?;
                replay.check_requeue().await?;
                replay.first_turn(&wish, workers, redriving.policy.as_ref(), control).await
            }
            TurnEvent::Next { of, workers } => {
                let workers = lanes(workers)?;
                let (replay, redriving) = self.replay_by(DEFAULT_AUTHOR).await?;
                replay.next_turn(&of, workers, redriving.policy.as_ref(), control).await
            }
        }?;
        telemetry::replay(&turn.replay);
        Ok(ReplayAnswer::Turn(Box::new(turn)))
    }

    /// Runs a lane of a round.
    async fn lane(&self, lane: &RoundLane, control: &DeadlineControl) -> Result<ReplayAnswer, ReplayError> {
        let parts = ReplayEnvironment { workers: LANE_WORKERS, ..self.parts()?.clone() };
        let told = lane.policy.as_deref().map(Policy::parse).transpose();
        let told = told.map_err(|bad| refused(&format!("policy: {bad}")))?;
        let told = match lane.policy_at.as_deref().map(PolicyAt::parse) {
            None => told,
            Some(Err(bad)) => return Err(refused(&format!("policyAt: {bad}"))),
            Some(Ok(place)) => Some(self.policy_in(&place).await?),
        };
        let own = if self.redriver.is_none() { Some(self.own().await?) } else { None };
        let own = own.as_ref().and_then(|own| own.policy.as_ref());
        let done = ArchiveReplayer::new(parts).lane(lane, told.as_ref().or(own), control).await?;
        let sent = done.as_ref().map(|done| done.units.iter().map(|unit| unit.sent).sum());
        let trouble = done.and_then(|done| done.failed.or(done.trouble));
        telemetry::replay_lane(lane, sent, trouble.as_deref());
        Ok(ReplayAnswer::Lane { sent, trouble })
    }

    /// Returns a replay run by `by`, and what the function does with its letters afterwards.
    async fn replay_by(&self, by: &str) -> Result<(ArchiveReplayer, Arc<RedriverState>), ReplayError> {
        let parts = ReplayEnvironment { by: by.to_owned(), ..self.parts()?.clone() };
        let redriving = match &self.redriver {
            Some(redriver) => redriver.ask(&parts.requeue).await?,
            None => self.own().await?,
        };
        if let (Some(redriver), None) = (&self.redriver, &redriving.policy) {
            telemetry::policy_in_file(redriver.function());
        }
        Ok((ArchiveReplayer::new(parts).beside(&redriving), redriving))
    }

    /// Returns the mode and the policy from this function's own settings.
    async fn own(&self) -> Result<Arc<RedriverState>, ReplayError> {
        let Some(place) = &self.own_policy_at else { return Ok(Arc::clone(&self.own)) };
        let policy = Some(self.policy_in(place).await?);
        let RedriverState { idle, for_lanes, .. } = &*self.own;
        Ok(Arc::new(RedriverState { idle: idle.clone(), policy, for_lanes: for_lanes.clone() }))
    }

    /// Reads a policy from S3.
    async fn policy_in(&self, place: &PolicyAt) -> Result<Policy, ReplayError> {
        Ok(read_policy(&self.clients.s3, place).await?.policy)
    }

    fn parts(&self) -> Result<&ReplayEnvironment, ReplayError> {
        self.parts.as_ref().map_err(|why| refused(why))
    }
}

fn refused(why: &str) -> ReplayError {
    ReplayError::Request(vec![why.to_owned()])
}

fn lanes(workers: usize) -> Result<usize, ReplayError> {
    if (1..=MAX_LANES).contains(&workers) {
        return Ok(workers);
    }
    Err(refused(&format!("workers: must be from 1 to {MAX_LANES}")))
}

/// Returns the parts of a replay, or the reason why nothing can be replayed.
fn parts(
    settings: &Settings,
    clients: AwsClients,
    clock: &InstanceClock,
) -> Result<ReplayEnvironment, &'static str> {
    let ArchiveAt::S3 { bucket, prefix } = settings.archive.clone() else {
        return Err("ARCHIVE is a queue, but only letters in S3 can be replayed");
    };
    let requeue = settings
        .requeue
        .clone()
        .ok_or("REQUEUE_ARN is not set: set it to the queue to which replays send letters")?;
    let control = settings.control.clone().ok_or(
        "CONTROL is off or not set: set it to s3://bucket/prefix, where replays record what they have sent",
    )?;
    Ok(ReplayEnvironment {
        clients,
        bucket,
        prefix,
        control_bucket: control.bucket,
        control_prefix: control.prefix,
        requeue,
        clock: clock.clone(),
        by: DEFAULT_AUTHOR.to_owned(),
        workers: REPLAY_WORKERS,
    })
}

/// A control that keeps a replay within the time of its invocation, and logs the letters that it leaves out.
struct DeadlineControl {
    /// The time after which no batch begins.
    until: Instant,
}

impl ReplayControl for DeadlineControl {
    fn stop(&self) -> bool {
        Instant::now() >= self.until
    }

    fn progress(&self, _: &ReplayState) {}

    fn left_out(&self, at: &RecordLocation, why: &str) {
        telemetry::left_out_of_replay(at, why);
    }

    fn not_watched(&self, queue: &Arn, failure: &Failure) {
        telemetry::queue_not_watched(queue, failure);
    }
}
