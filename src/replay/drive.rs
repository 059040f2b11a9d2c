//! A replay under way: stage by stage, several units at once.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use futures_util::stream::{self, StreamExt};
use jiff::Timestamp;
use tokio::time::{Duration, sleep};

use super::bench::{Bench, Limits};
use super::control::{Control, Pace};
use super::error::ReplayError;
use super::given::Given;
use super::kept::{Stop, key_of, stop_key};
use super::letter::At;
use super::parts::{Job, Replay, selection, token};
use super::plan::Unit;
use super::progress::Progress;
use super::ramp::{Stage, budget, stages};
use super::state::{State, Status};
use super::store::Condition;
use super::worker::{End, Worked};

/// Between two looks whether somebody has stopped it.
const LOOK: Duration = Duration::from_secs(2);

/// A replay under way.
pub(super) struct Drive<'r> {
    pub(super) replay: &'r Replay,
    job: Job<'r>,
    pub(super) units: Vec<Unit>,
    given: Option<Given>,
    progress: Mutex<Progress>,
    pace: Pace,
    /// One write of how it stands at a time: each needs the tag of the one before.
    saving: tokio::sync::Mutex<()>,
    /// Whether somebody has stopped it, or a worker came to its end.
    stopping: AtomicBool,
}

/// What one worker goes through, in order: units of one hour of a queue, or of a whole FIFO queue.
#[derive(Debug, Default)]
struct Part {
    units: Vec<Task>,
}

/// How the sending of a stage ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// All that it allows has gone.
    Through,
    /// As many letters went as may before it is looked at what came back.
    Paused,
    /// It was told to stop.
    Interrupted,
}

/// A unit, and how much of it the stage allows.
#[derive(Debug, Clone, Copy)]
struct Task {
    unit: usize,
    most: Option<u64>,
}

impl<'r> Drive<'r> {
    /// Goes on until all is sent, or it must stop.
    pub(super) async fn go(
        replay: &'r Replay,
        mut state: State,
        etag: String,
        units: Vec<Unit>,
        job: Job<'r>,
        given: Option<Given>,
    ) -> Result<State, ReplayError> {
        let was_stopped = state.status == Status::Stopped;
        let is_new = state.place.step_began == Timestamp::default();
        state.taken_up = replay.kept.now().await?;
        // Whoever stopped it while it waited to be judged did not judge it.
        let settles = state.not_before.is_some();
        if settles {
            (state.status, state.because) = (Status::Settling, None);
        } else {
            state.go_on();
        }
        let pace = Pace::new(state.request.rate);
        let progress = Progress::new(state, etag);
        let (progress, stopping) = (Mutex::new(progress), AtomicBool::new(false));
        let drive = Self {
            replay,
            job,
            units,
            given,
            progress,
            pace,
            saving: tokio::sync::Mutex::default(),
            stopping,
        };
        drive.save().await?;
        if is_new || (was_stopped && !settles) {
            // What waits now is no fault of what is sent from here on.
            drive.begin_step(is_new).await?;
        }
        job.control.progress(&drive.shown());
        let ended = drive.run().await;
        match ended {
            Ok(()) => drive.save().await?,
            // It is somebody else's now.
            Err(ReplayError::TakenUp(id)) => return Err(ReplayError::TakenUp(id)),
            Err(error) => {
                // What is not written is worked out from the ledgers.
                let _ = drive.save().await;
                return Err(error);
            }
        }
        let state = drive.shown();
        job.control.progress(&state);
        Ok(state)
    }

    async fn run(&self) -> Result<(), ReplayError> {
        let stages = self.with(|progress| stages(&progress.state.request.ramp, progress.state.letters));
        loop {
            let (status, number) = self.with(|progress| (progress.state.status, progress.state.place.stage));
            let Some(stage) = stages.get(number).copied() else {
                let came_back = self.came_back().await?;
                self.with(|progress| {
                    progress.state.came_back = came_back;
                    progress.state.status = Status::Done;
                });
                return Ok(());
            };
            if status == Status::Settling {
                if !self.settle().await? {
                    return Ok(());
                }
            } else {
                let sent = self.send(&stages, number).await?;
                if sent == Sent::Interrupted {
                    return Ok(());
                }
                // What was sent long ago, or is not sent, needs no time.
                if sent == Sent::Paused || (stage.settles && self.has_sent()) {
                    self.with(|progress| progress.state.settle(self.replay.kept.clock.now()));
                    self.save().await?;
                    self.job.control.progress(&self.shown());
                    continue;
                }
            }
            if !self.judge(stage, &stages).await? {
                return Ok(());
            }
            self.save().await?;
            self.job.control.progress(&self.shown());
        }
    }

    /// Whether the step has sent something.
    fn has_sent(&self) -> bool {
        self.with(|progress| progress.counts().sent > progress.state.place.sent_before)
    }

    /// Sends what a stage allows.
    async fn send(&self, stages: &[Stage], number: usize) -> Result<Sent, ReplayError> {
        let parts = self.parts(stages, number);
        let state = self.shown();
        let selection = selection(&state, &self.replay.requeue.arn)?;
        let token = token();
        let budget = AtomicU64::new(budget(state.exact, state.counts.sent));
        let watch = Stopping { drive: self };
        let job = Job { control: &watch, ..self.job };
        let given = self.given.as_ref().map(|given| &given.units);
        let limits = Limits { pace: &self.pace, budget: &budget };
        let bench = Bench::new(self.replay, &state, &selection, job, given, limits, &token);
        let work = |part: Part| self.work(part, &bench);
        let mut work = stream::iter(parts).map(work).buffer_unordered(self.replay.workers);
        let (mut failed, mut is_through) = (None, true);
        // A unit may take long, and whoever stops the replay need not wait for its end.
        let mut looking = pin!(self.keep_looking());
        loop {
            let worked = tokio::select! {
                worked = work.next() => worked,
                error = &mut looking, if failed.is_none() => Some(Err(error)),
            };
            let Some(worked) = worked else { break };
            match worked {
                Ok(part_is_through) => is_through &= part_is_through,
                // The others come to the end of their units.
                Err(error) => {
                    self.stopping.store(true, Ordering::Relaxed);
                    failed.get_or_insert(error);
                }
            }
        }
        drop(work);
        match failed {
            Some(error) => Err(error),
            None if self.is_stopped() => Ok(Sent::Interrupted),
            None if is_through => Ok(Sent::Through),
            None => Ok(Sent::Paused),
        }
    }

    /// What a stage has to do, divided among workers.
    fn parts(&self, stages: &[Stage], number: usize) -> Vec<Part> {
        let first = self.with(|progress| progress.state.place.units);
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        let is_last = number + 1 == stages.len();
        let end = stages[number].end;
        let is_fifo = self.replay.requeue.arn.is_fifo();
        let (mut parts, mut before): (Vec<Part>, u64) = (Vec::new(), 0);
        for (place, unit) in self.units.iter().enumerate() {
            let starts = before;
            before += unit.letters;
            if !is_last && starts >= end {
                break;
            }
            if place < first {
                continue;
            }
            let most = (!is_last && before > end).then_some(end - starts);
            let goes_on = parts.last().and_then(|part| part.units.last()).is_some_and(|last| {
                let last = &self.units[last.unit];
                if is_fifo { last.queue == unit.queue } else { last.is_near(unit) }
            });
            if !goes_on {
                parts.push(Part::default());
            }
            if let Some(part) = parts.last_mut() {
                part.units.push(Task { unit: place, most });
            }
        }
        parts
    }

    /// Goes through a part; whether all of it is through. A unit is read while the one before is sent.
    async fn work(&self, part: Part, bench: &Bench<'_>) -> Result<bool, ReplayError> {
        let mut tasks = part.units.into_iter();
        let Some(mut task) = tasks.next() else { return Ok(true) };
        if self.is_stopped() {
            return Ok(false);
        }
        let mut met = bench.met_in(&self.units[task.unit]).await?;
        let mut read = bench.read(&self.units[task.unit]).await?;
        loop {
            let Some(unit_read) = read else { return Ok(false) };
            let unit = &self.units[task.unit];
            let next = tasks.next();
            let ahead = async {
                match next {
                    Some(next) if !self.is_stopped() => bench.read(&self.units[next.unit]).await,
                    _ => Ok(None),
                }
            };
            let (worked, next_read) = tokio::join!(bench.work(unit, unit_read, task.most, &mut met), ahead);
            let mut worked = worked?;
            let mut changes = 0;
            while worked.end == End::Changed {
                changes += 1;
                if changes > 5 {
                    return Err(ReplayError::Busy("another replay".to_owned()));
                }
                let Some(again) = bench.read(unit).await? else { return Ok(false) };
                worked = bench.work(unit, again, task.most, &mut met).await?;
            }
            let end = worked.end.clone();
            self.worked(task, worked).await?;
            if matches!(end, End::Interrupted | End::Paused | End::Failed(_))
                || (next.is_some() && self.is_stopped())
            {
                return Ok(false);
            }
            let Some(next) = next else { return Ok(true) };
            if !self.units[next.unit].is_near(unit) {
                met = bench.met_in(&self.units[next.unit]).await?;
            }
            (task, read) = (next, next_read?);
        }
    }

    /// Notes what came of a unit.
    async fn worked(&self, task: Task, worked: Worked) -> Result<(), ReplayError> {
        if let End::Failed(why) = &worked.end {
            self.with(|progress| progress.state.stop(why.clone()));
            self.stopping.store(true, Ordering::Relaxed);
        }
        let is_time = self.with(|progress| {
            progress.note(task.unit as u64, worked);
            progress.is_time_to_save()
        });
        self.job.control.progress(&self.shown());
        if is_time { self.save().await } else { Ok(()) }
    }

    /// Looks again and again whether somebody has stopped it, until that fails.
    pub(super) async fn keep_looking(&self) -> ReplayError {
        loop {
            sleep(LOOK).await;
            if let Err(error) = self.look().await {
                return error;
            }
        }
    }

    /// Looks whether somebody has stopped it.
    async fn look(&self) -> Result<(), ReplayError> {
        let (id, taken_up) = self.with(|progress| (progress.state.id.clone(), progress.state.taken_up));
        let Some(found) = self.replay.kept.store.read::<Stop>(&stop_key(&id)).await? else { return Ok(()) };
        if found.document.began == taken_up {
            self.with(|progress| progress.state.stop(found.document.because()));
            self.stopping.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Writes how it stands, unless somebody else has written since.
    pub(super) async fn save(&self) -> Result<(), ReplayError> {
        let _one_at_a_time = self.saving.lock().await;
        let (state, etag) = self.with(|progress| (progress.shown(), progress.etag.clone()));
        let written = self.replay.kept.store.write(&key_of(&state.id), &state, Condition::Is(&etag)).await?;
        match written {
            Some(etag) => {
                self.with(|progress| progress.etag = etag);
                Ok(())
            }
            None => Err(ReplayError::TakenUp(state.id)),
        }
    }

    pub(super) fn shown(&self) -> State {
        self.with(|progress| progress.shown())
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopping.load(Ordering::Relaxed) || self.job.control.stop()
    }

    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Progress) -> T) -> T {
        act(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whoever watches, and whether the replay must stop.
struct Stopping<'d, 'r> {
    drive: &'d Drive<'r>,
}

impl Control for Stopping<'_, '_> {
    fn stop(&self) -> bool {
        self.drive.is_stopped()
    }

    fn progress(&self, state: &State) {
        self.drive.job.control.progress(state);
    }

    fn left_out(&self, at: &At, why: &str) {
        self.drive.job.control.left_out(at, why);
    }
}
