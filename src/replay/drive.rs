//! A replay under way: stage by stage, several units at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use futures_util::stream::{self, StreamExt};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use tokio::time::{Duration, Instant, sleep};

use super::control::{Control, NAP, Pace};
use super::error::ReplayError;
use super::given::Given;
use super::kept::{Stop, key_of, stop_key};
use super::letter::At;
use super::plan::Unit;
use super::ramp::{Stage, StageResult, budget, stages};
use super::run::{Job, Replay, selection, token};
use super::state::{Counts, State, Status};
use super::store::Condition;
use super::worker::{Bench, End, Worked, unread};
use crate::archive::{Found as Walked, Listing, Object, Selection, Walk};

/// Between two writes of how the replay stands.
const SAVE: Duration = Duration::from_secs(2);

/// Between two looks whether somebody has stopped it.
const LOOK: Duration = Duration::from_secs(2);

/// How long letters may wait at least that were sent in the last step, also where steps do not settle.
const LEAST_SETTLE: Duration = Duration::from_mins(1);

/// By how much S3's clock and those of whoever archives can differ.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// A replay under way.
pub(super) struct Drive<'r> {
    replay: &'r Replay,
    job: Job<'r>,
    units: Vec<Unit>,
    given: Option<Given>,
    state: Mutex<Progress>,
    pace: Pace,
    /// One write of how it stands at a time: each needs the tag of the one before.
    saving: tokio::sync::Mutex<()>,
    /// Whether somebody has stopped it, or a worker came to its end.
    stopping: AtomicBool,
}

/// How it stands.
struct Progress {
    state: State,
    etag: String,
    /// Units that are wholly behind it, but not all before them are.
    ahead: BTreeMap<u64, Counts>,
    /// Units of which a part is behind it.
    partly: BTreeMap<u64, Counts>,
    saved: Instant,
    looked: Instant,
    /// When letters went out lately.
    lately: VecDeque<(Instant, u64)>,
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

impl Progress {
    /// Everything so far.
    fn counts(&self) -> Counts {
        let mut counts = self.state.place.counts.clone();
        self.ahead.values().chain(self.partly.values()).for_each(|unit| counts.add(unit));
        counts
    }

    /// How it stands, as it is shown.
    fn shown(&self) -> State {
        State { counts: self.counts(), ..self.state.clone() }
    }
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
        let now = Instant::now();
        let pace = Pace::new(state.request.rate);
        // What is behind a replay beyond its whole units is of the unit that a step ended in.
        let partly = state.counts.without(&state.place.counts);
        // It may have ended just now.
        let lately = state.counts.sent.saturating_sub(state.place.sent_before);
        let progress = Progress {
            etag,
            ahead: BTreeMap::new(),
            partly: BTreeMap::from([(state.place.units, partly)]),
            state,
            saved: now,
            looked: now,
            lately: VecDeque::from([(now, lately)]),
        };
        let (state, stopping) = (Mutex::new(progress), AtomicBool::new(false));
        let mut drive =
            Self { replay, job, units, given, state, pace, saving: tokio::sync::Mutex::default(), stopping };
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

    async fn run(&mut self) -> Result<(), ReplayError> {
        let stages = {
            let progress = self.progress();
            stages(&progress.state.request.ramp, progress.state.letters)
        };
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
        let bench = self.replay.bench(&state, &selection, job, given, (&self.pace, &budget), &token);
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
                    return Err(ReplayError::Busy("(of another selection)".to_owned()));
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
        let Worked { counts, sent, end } = worked;
        let place = task.unit as u64;
        let is_time = {
            let mut progress = self.progress();
            progress.partly.remove(&place);
            let now = Instant::now();
            progress.lately.push_back((now, sent));
            if end == End::Done {
                progress.ahead.insert(place, counts);
                while let Some(counts) = {
                    let next = progress.state.place.units;
                    progress.ahead.remove(&next)
                } {
                    progress.state.place.counts.add(&counts);
                    progress.state.place.units += 1;
                }
            } else {
                progress.partly.insert(place, counts);
            }
            if let End::Failed(why) = end {
                progress.state.stop(why.clone());
                self.stopping.store(true, Ordering::Relaxed);
            }
            let is_time = progress.saved.elapsed() >= SAVE;
            if is_time {
                progress.saved = now;
            }
            is_time
        };
        self.job.control.progress(&self.shown());
        if is_time {
            self.save().await?;
        }
        Ok(())
    }

    /// Looks again and again whether somebody has stopped it, until that fails.
    async fn keep_looking(&self) -> ReplayError {
        loop {
            sleep(LOOK).await;
            if let Err(error) = self.look().await {
                return error;
            }
        }
    }

    /// Looks whether somebody has stopped it.
    async fn look(&self) -> Result<(), ReplayError> {
        let is_time = self.with(|progress| {
            let is_time = progress.looked.elapsed() >= LOOK;
            if is_time {
                progress.looked = Instant::now();
            }
            is_time
        });
        if !is_time {
            return Ok(());
        }
        let (id, taken_up) = self.with(|progress| (progress.state.id.clone(), progress.state.taken_up));
        let Some(found) = self.replay.kept.store.read::<Stop>(&stop_key(&id)).await? else { return Ok(()) };
        if found.document.began == taken_up {
            self.with(|progress| progress.state.stop(found.document.because()));
            self.stopping.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Waits until a step can be judged; whether it came to that.
    async fn settle(&self) -> Result<bool, ReplayError> {
        loop {
            // Whoever stops it has the last word: it is judged when it goes on.
            self.look().await?;
            if self.is_stopped() {
                return Ok(false);
            }
            let not_before = self.with(|progress| progress.state.not_before);
            if not_before.is_none_or(|then| self.replay.kept.clock.now() >= then) {
                return Ok(true);
            }
            sleep(NAP).await;
        }
    }

    /// Judges a stage, and begins the next; whether the replay goes on.
    async fn judge(&self, stage: Stage, stages: &[Stage]) -> Result<bool, ReplayError> {
        // The last stage goes on until nothing is left. What is left of another goes with the next one.
        let number = self.with(|progress| progress.state.place.stage);
        let is_last = number + 1 >= stages.len();
        let is_over = is_last && self.with(|progress| progress.state.place.units) >= self.units.len() as u64;
        let next = stages.get(number + 1).or(stages.get(number)).filter(|_| !is_over);
        let came_back = self.came_back().await?;
        let waiting = self.waiting().await?;
        let failed = self.with(|progress| {
            let counts = progress.counts();
            let place = progress.state.place.clone();
            let settle = Duration::from_secs(progress.state.request.settle_seconds.into()).max(LEAST_SETTLE);
            while progress.lately.front().is_some_and(|(at, _)| at.elapsed() > settle) {
                progress.lately.pop_front();
            }
            // Letters that were sent just now may wait.
            let lately: u64 =
                if stage.settles { 0 } else { progress.lately.iter().map(|(_, letters)| letters).sum() };
            let result = StageResult {
                sent: counts.sent.saturating_sub(place.sent_before),
                refused: counts.refused.saturating_sub(place.refused_before),
                came_back,
                waiting: waiting.saturating_sub(place.waiting_before).saturating_sub(lately),
            };
            progress.state.came_back = came_back;
            // Nothing is left to be kept back after the last.
            next.and_then(|_| result.failed(stage.step, progress.state.request.threshold))
        });
        if let Some(why) = failed {
            self.with(|progress| {
                progress.state.not_before = None;
                progress.state.stop(why);
            });
            return Ok(false);
        }
        let is_new_step = next.is_some_and(|next| next.step != stage.step);
        self.with(|progress| {
            progress.state.go_on();
            progress.state.place.stage += usize::from(!is_last || is_over);
            progress.state.step = next.map_or(stage.step, |next| next.step);
        });
        if is_new_step {
            self.begin_step(false).await?;
        }
        Ok(true)
    }

    /// Begins a step, or what is left of it: what came before is no fault of it.
    async fn begin_step(&self, is_first: bool) -> Result<(), ReplayError> {
        let waiting = self.waiting().await?;
        let now = self.replay.kept.now().await?;
        self.with(|progress| {
            let counts = if is_first { Counts::default() } else { progress.counts() };
            let place = &mut progress.state.place;
            (place.step_began, place.waiting_before) = (now, waiting);
            (place.sent_before, place.refused_before) = (counts.sent, counts.refused);
            progress.state.came_back = 0;
        });
        self.save().await
    }

    /// Letters that wait in the requeue and in the dead-letter queues.
    async fn waiting(&self) -> Result<u64, ReplayError> {
        let queues = self.with(|progress| progress.state.queues.clone());
        let mut waiting = 0;
        for queue in std::iter::once(&self.replay.requeue.arn).chain(&queues) {
            let failed = |failure| ReplayError::failed(format!("reading {queue}"), failure);
            waiting += self.replay.requeue.waiting(queue).await.map_err(failed)?;
        }
        Ok(waiting)
    }

    /// Letters that had been replayed and were archived again since the step began, by the index of the archive. Those
    /// of other replays and of earlier steps count too: nobody can tell, and it errs on the safe side.
    async fn came_back(&self) -> Result<u64, ReplayError> {
        let began = self.with(|progress| progress.state.place.step_began);
        let since = began.saturating_sub(CLOCK_SKEW).unwrap_or(began).to_zoned(TimeZone::UTC);
        let since = since.strftime("date=%Y-%m-%d/%Y%m%dT%H").to_string();
        // A listing tells whole seconds.
        let began = Timestamp::from_second(began.as_second()).unwrap_or(began);
        let queues: BTreeSet<_> = self.units.iter().map(|unit| unit.queue.as_str()).collect();
        let Replay { s3, bucket, prefix, .. } = self.replay;
        let mut came_back = 0;
        for queue in queues {
            let first = format!("{}queue={queue}/{since}", self.replay.folder());
            let mut listing = Listing::between(s3.clone(), bucket, prefix, &first, None);
            let mut unknown: Vec<Object> = Vec::new();
            while let Some(object) = listing.next().await {
                let object = object.map_err(unread)?;
                if object.stored.is_some_and(|stored| stored < began) {
                    continue;
                }
                match &object.index {
                    Some(index) => came_back += index.replayed,
                    None => unknown.push(object),
                }
            }
            let all = Selection::default();
            let mut walk = Walk::over(s3.clone(), bucket, unknown, &all);
            while let Some(found) = walk.next().await {
                if let Walked::Letter(archived) = found {
                    let letter = archived.record.to_letter();
                    came_back += u64::from(letter.is_ok_and(|letter| letter.generation() > 0));
                }
            }
        }
        Ok(came_back)
    }

    /// Writes how it stands, unless somebody else has written since.
    async fn save(&self) -> Result<(), ReplayError> {
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

    fn shown(&self) -> State {
        self.with(|progress| progress.shown())
    }

    fn is_stopped(&self) -> bool {
        self.stopping.load(Ordering::Relaxed) || self.job.control.stop()
    }

    fn progress(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Progress) -> T) -> T {
        act(&mut self.progress())
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
