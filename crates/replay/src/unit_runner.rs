//! The work on a part of a stage, unit after unit.

use std::sync::atomic::Ordering;

use super::assign::{UnitTask, WorkerTasks};
use super::error::ReplayError;
use super::unit::Unit;
use super::worker::{UnitEnd, UnitWork};
use super::worker_context::WorkerContext;

/// The number of times that a unit is read again because another replay has changed it.
const TRIES: u32 = 5;

impl WorkerContext<'_> {
    /// Goes through a part. Returns whether all of it is finished. Each unit is read while the one before is
    /// sent, and none if no letters may be sent. `note` takes the result of each unit.
    pub(super) async fn part(
        &self,
        units: &[Unit],
        part: WorkerTasks,
        note: impl AsyncFn(UnitTask, UnitWork) -> Result<(), ReplayError>,
    ) -> Result<bool, ReplayError> {
        let mut tasks = part.into_iter();
        let Some(mut task) = tasks.next() else { return Ok(true) };
        if self.control.stop() || !self.may_send(task) {
            return Ok(false);
        }
        let mut met = self.met_near(&units[task.unit]).await?;
        let mut read = self.read(&units[task.unit]).await?;
        loop {
            let Some(unit_read) = read else { return Ok(false) };
            let unit = &units[task.unit];
            let next = tasks.next();
            let ahead = async {
                match next {
                    Some(next) if !self.control.stop() && self.may_send(next) => {
                        self.read(&units[next.unit]).await
                    }
                    _ => Ok(None),
                }
            };
            let (worked, next_read) = tokio::join!(self.work(unit, unit_read, &mut met), ahead);
            let mut worked = worked?;
            let mut changes = 0;
            while worked.end == UnitEnd::Changed {
                changes += 1;
                if changes > TRIES {
                    return Err(ReplayError::Busy("another replay".to_owned()));
                }
                let Some(again) = self.read(unit).await? else { return Ok(false) };
                worked = self.work(unit, again, &mut met).await?;
            }
            let end = worked.end.clone();
            note(task, worked).await?;
            if matches!(end, UnitEnd::Interrupted | UnitEnd::Paused | UnitEnd::Failed(_))
                || (next.is_some() && self.control.stop())
            {
                return Ok(false);
            }
            let Some(next) = next else { return Ok(true) };
            if !units[next.unit].is_near(unit) {
                met = self.met_near(&units[next.unit]).await?;
            }
            (task, read) = (next, next_read?);
        }
    }

    /// Reports whether letters of a unit may be sent before the next judgement.
    fn may_send(&self, task: UnitTask) -> bool {
        task.is_doubtful || self.request.dry_run || self.budget.load(Ordering::Relaxed) > 0
    }
}
