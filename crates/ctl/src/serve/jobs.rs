//! Jobs: actions between their form and their end. They live in this process's memory.
//!
//! ```text
//!  form ──> looks ──> asks ──(nonce)──> checks ──> runs ──> ended
//!             │        ▲                  │
//!             └─ edits ┘                  └── something has changed: asks anew
//! ```

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};

use super::action::ServeAction;
use super::preview::ActionPreview;
use super::secret::Secret;
use crate::command_tool::CommandOutput;

/// How long a preview can be confirmed.
const CONFIRMED_WITHIN: SignedDuration = SignedDuration::from_mins(10);

/// The most jobs that are kept. The oldest go first.
const MAX_JOBS: usize = 50;

/// The most jobs that may work at once.
const MAX_WORKING_JOBS: usize = 8;

/// All jobs.
#[derive(Debug, Default)]
pub(super) struct JobTable {
    all: BTreeMap<u64, ServeJob>,
    last: u64,
    /// The tasks that do the jobs' work.
    pub(super) tasks: JoinSet<()>,
}

/// One job.
pub(super) struct ServeJob {
    pub(super) action: ServeAction,
    pub(super) phase: JobPhase,
    pub(super) began: Timestamp,
    /// Becomes true when the operator stops the job.
    pub(super) stop: Arc<AtomicBool>,
    pub(super) out: CommandOutput,
    pub(super) err: CommandOutput,
    /// Notified at each new phase.
    pub(super) moves: Rc<Notify>,
    task: Option<AbortHandle>,
}

/// The phase of a job.
#[derive(Debug)]
pub(super) enum JobPhase {
    /// Prepares the preview.
    Looks,
    /// Waits for the operator to edit this record.
    Edits(String),
    /// Waits for the confirmation.
    Asks(JobQuestion),
    /// Checks whether anything has changed since the preview.
    Checks(ActionPreview),
    /// Runs the command.
    Runs { since: Timestamp },
    /// Has ended.
    Ended(JobEnding),
}

/// A question that waits for its answer.
#[derive(Debug)]
pub(super) struct JobQuestion {
    pub(super) preview: ActionPreview,
    /// Changes since the operator confirmed the previous preview. Because of them that confirmation did
    /// nothing.
    pub(super) changed: Vec<String>,
    /// The secret in this question's form.
    pub(super) nonce: Secret,
    pub(super) until: Timestamp,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JobEnding {
    /// True if everything was done.
    pub(super) is_whole: bool,
    /// The end, in words.
    pub(super) says: String,
}

/// The reason why a confirmation does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotConfirmed {
    /// The question was answered already, or has been replaced.
    #[error("this preview was confirmed, stopped or replaced: look at the action again")]
    Used,
    /// The question is too old.
    #[error("the preview is older than ten minutes: begin again")]
    TooLate,
}

impl JobTable {
    /// Begins a job; `None` if too many are at work.
    pub(super) fn begin(&mut self, action: ServeAction, now: Timestamp) -> Option<u64> {
        if self.is_full() {
            return None;
        }
        // A job at work is never dropped, since its page must be able to stop it.
        while self.all.len() >= MAX_JOBS {
            let oldest = self.all.iter().find(|(_, job)| !job.is_under_way()).map(|(id, _)| *id)?;
            self.all.remove(&oldest);
        }
        self.last += 1;
        let job = ServeJob {
            action,
            phase: JobPhase::Looks,
            began: now,
            stop: Arc::default(),
            out: CommandOutput::bounded(),
            err: CommandOutput::bounded(),
            moves: Rc::default(),
            task: None,
        };
        self.all.insert(self.last, job);
        Some(self.last)
    }

    /// Reports whether no more jobs may work.
    pub(super) fn is_full(&self) -> bool {
        self.all.values().filter(|job| job.is_under_way()).count() >= MAX_WORKING_JOBS
    }

    pub(super) fn get(&self, id: u64) -> Option<&ServeJob> {
        self.all.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut ServeJob> {
        self.all.get_mut(&id)
    }

    /// Returns the jobs, the latest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &ServeJob)> {
        self.all.iter().rev().map(|(id, job)| (*id, job))
    }

    /// Does the work of a job in the background.
    pub(super) fn work(&mut self, id: u64, work: impl Future<Output = ()> + 'static) {
        // Takes away the tasks that have ended.
        while self.tasks.try_join_next().is_some() {}
        let task = self.tasks.spawn_local(work);
        if let Some(job) = self.all.get_mut(&id) {
            job.task = Some(task);
        }
    }

    /// Stops all jobs, and returns the ids of those whose commands ran.
    pub(super) fn stop_all(&mut self) -> Vec<u64> {
        let running = self.all.iter().filter(|(_, job)| matches!(job.phase, JobPhase::Runs { .. }));
        let running = running.map(|(id, _)| *id).collect();
        self.all.values_mut().for_each(ServeJob::stop);
        running
    }
}

impl ServeJob {
    /// Reports whether the job is at work, which includes waiting for AWS.
    pub(super) fn is_under_way(&self) -> bool {
        matches!(self.phase, JobPhase::Looks | JobPhase::Checks(_) | JobPhase::Runs { .. })
    }

    /// Starts a new phase.
    pub(super) fn moves_to(&mut self, phase: JobPhase) {
        self.phase = phase;
        self.moves.notify_waiters();
    }

    /// Asks for a confirmation.
    pub(super) fn asks(
        &mut self,
        preview: ActionPreview,
        changed: Vec<String>,
        nonce: Secret,
        now: Timestamp,
    ) {
        let until = now.saturating_add(CONFIRMED_WITHIN).unwrap_or(Timestamp::MAX);
        self.moves_to(JobPhase::Asks(JobQuestion { preview, changed, nonce, until }));
    }

    /// Confirms the preview that was shown with this nonce. Each nonce counts once.
    pub(super) fn confirm(&mut self, nonce: &str, now: Timestamp) -> Result<(), NotConfirmed> {
        let JobPhase::Asks(asked) = &self.phase else { return Err(NotConfirmed::Used) };
        if !asked.nonce.is(nonce) {
            return Err(NotConfirmed::Used);
        }
        if now > asked.until {
            return Err(NotConfirmed::TooLate);
        }
        let preview = asked.preview.clone();
        self.moves_to(JobPhase::Checks(preview));
        Ok(())
    }

    /// Stops the job. A running command stops as with Ctrl-C; every other phase ends at once.
    pub(super) fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if matches!(self.phase, JobPhase::Runs { .. } | JobPhase::Ended(_)) {
            return;
        }
        if let Some(task) = &self.task {
            task.abort();
        }
        self.ends(false, "It was stopped before anything was done.");
    }

    pub(super) fn ends(&mut self, is_whole: bool, says: impl Into<String>) {
        self.moves_to(JobPhase::Ended(JobEnding { is_whole, says: says.into() }));
    }
}

impl std::fmt::Debug for ServeJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServeJob").field("action", &self.action.act).finish_non_exhaustive()
    }
}
