//! Jobs: actions on their way from a form to their end, in the memory of this process.
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

use super::action::Action;
use super::preview::Preview;
use super::secret::Secret;
use crate::tool::Printed;

/// The time within which a preview can be confirmed.
const CONFIRMED_WITHIN: SignedDuration = SignedDuration::from_mins(10);

/// Jobs that are kept, the latest.
const KEPT: usize = 50;

/// Jobs that may be under way at once.
const UNDER_WAY: usize = 8;

/// All jobs.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    all: BTreeMap<u64, Job>,
    last: u64,
    /// The tasks that do the work.
    pub(super) tasks: JoinSet<()>,
}

/// One job.
pub(super) struct Job {
    pub(super) action: Action,
    pub(super) phase: Phase,
    pub(super) began: Timestamp,
    /// Becomes true when somebody stops it.
    pub(super) stop: Arc<AtomicBool>,
    pub(super) out: Printed,
    pub(super) err: Printed,
    /// Tells of each new phase.
    pub(super) moves: Rc<Notify>,
    task: Option<AbortHandle>,
}

/// The phase of a job.
#[derive(Debug)]
pub(super) enum Phase {
    /// It looks what it would do.
    Looks,
    /// It waits for an edit of this record.
    Edits(String),
    /// It waits to be confirmed.
    Asks(Asked),
    /// It looks whether something has changed since.
    Checks(Preview),
    /// The command runs.
    Runs { since: Timestamp },
    /// It is over.
    Ended(Ending),
}

/// A question that waits for its answer.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) preview: Preview,
    /// Changes since the previous confirmation of this action, after which nothing was done.
    pub(super) changed: Vec<String>,
    /// The secret that stands in the form of this very question.
    pub(super) nonce: Secret,
    pub(super) until: Timestamp,
}

/// The end of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ending {
    /// True if everything was done that was asked for.
    pub(super) is_whole: bool,
    /// The end in words.
    pub(super) says: String,
}

/// The reason for which a confirmation does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotConfirmed {
    /// It asks for nothing, or for something else by now.
    #[error("this preview was confirmed, stopped or replaced: look at the action again")]
    Used,
    /// It was shown too long ago.
    #[error("the preview is older than ten minutes: begin again")]
    TooLate,
}

impl Jobs {
    /// Begins a job; none where too many are under way.
    pub(super) fn begin(&mut self, action: Action, now: Timestamp) -> Option<u64> {
        if self.is_full() {
            return None;
        }
        while self.all.len() >= KEPT {
            let oldest = self.all.iter().find(|(_, job)| !job.is_under_way()).map(|(id, _)| *id)?;
            self.all.remove(&oldest);
        }
        self.last += 1;
        let job = Job {
            action,
            phase: Phase::Looks,
            began: now,
            stop: Arc::default(),
            out: Printed::bounded(),
            err: Printed::bounded(),
            moves: Rc::default(),
            task: None,
        };
        self.all.insert(self.last, job);
        Some(self.last)
    }

    /// Reports whether no further job may go on.
    pub(super) fn is_full(&self) -> bool {
        self.all.values().filter(|job| job.is_under_way()).count() >= UNDER_WAY
    }

    pub(super) fn get(&self, id: u64) -> Option<&Job> {
        self.all.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut Job> {
        self.all.get_mut(&id)
    }

    /// The jobs, the latest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Job)> {
        self.all.iter().rev().map(|(id, job)| (*id, job))
    }

    /// Does the work of a job in the background.
    pub(super) fn work(&mut self, id: u64, work: impl Future<Output = ()> + 'static) {
        // Those that are over.
        while self.tasks.try_join_next().is_some() {}
        let task = self.tasks.spawn_local(work);
        if let Some(job) = self.all.get_mut(&id) {
            job.task = Some(task);
        }
    }

    /// Stops all jobs, and returns the actions that were under way.
    pub(super) fn stop_all(&mut self) -> Vec<u64> {
        let running = self.all.iter().filter(|(_, job)| matches!(job.phase, Phase::Runs { .. }));
        let running = running.map(|(id, _)| *id).collect();
        self.all.values_mut().for_each(Job::stop);
        running
    }
}

impl Job {
    /// Reports whether it does something, or waits for AWS.
    pub(super) fn is_under_way(&self) -> bool {
        matches!(self.phase, Phase::Looks | Phase::Checks(_) | Phase::Runs { .. })
    }

    /// Moves on to a phase.
    pub(super) fn moves_to(&mut self, phase: Phase) {
        self.phase = phase;
        self.moves.notify_waiters();
    }

    /// Asks for a confirmation.
    pub(super) fn asks(&mut self, preview: Preview, changed: Vec<String>, nonce: Secret, now: Timestamp) {
        let until = now.saturating_add(CONFIRMED_WITHIN).unwrap_or(Timestamp::MAX);
        self.moves_to(Phase::Asks(Asked { preview, changed, nonce, until }));
    }

    /// Takes the confirmation of what was shown with this nonce. It counts once.
    pub(super) fn confirm(&mut self, nonce: &str, now: Timestamp) -> Result<(), NotConfirmed> {
        let Phase::Asks(asked) = &self.phase else { return Err(NotConfirmed::Used) };
        if !asked.nonce.is(nonce) {
            return Err(NotConfirmed::Used);
        }
        if now > asked.until {
            return Err(NotConfirmed::TooLate);
        }
        let preview = asked.preview.clone();
        self.moves_to(Phase::Checks(preview));
        Ok(())
    }

    /// Stops it: a running command as Ctrl-C does, every other phase at once.
    pub(super) fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if matches!(self.phase, Phase::Runs { .. } | Phase::Ended(_)) {
            return;
        }
        if let Some(task) = &self.task {
            task.abort();
        }
        self.ends(false, "It was stopped before anything was done.");
    }

    pub(super) fn ends(&mut self, is_whole: bool, says: impl Into<String>) {
        self.moves_to(Phase::Ended(Ending { is_whole, says: says.into() }));
    }
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("action", &self.action.act).finish_non_exhaustive()
    }
}
