//! The session: the state that all requests share.

use std::cell::RefCell;
use std::rc::Rc;

use jiff::{SignedDuration, Timestamp};
use redrive_console::read::Mask;
use redrive_console::{Account, Bodies, Doctor, Door, Finding, Local};

use super::guard::Guard;
use super::jobs::{Job, Jobs};
use crate::args::{self, Further};
use crate::doctor;
use crate::tool::{Printed, Tool};

/// The greatest age of the doctor's findings before it runs again.
const FRESH: SignedDuration = SignedDuration::from_mins(10);

/// The state that all requests share. The server has one thread. No borrow may last across an await, or
/// another request's borrow would panic.
pub(super) struct Session {
    pub(super) guard: Guard,
    pub(super) account: Account,
    /// True if pages may act.
    pub(super) operates: bool,
    pub(super) tool: Tool,
    pub(super) further: Further,
    pub(super) jobs: RefCell<Jobs>,
    pub(super) doctor: RefCell<Examined>,
}

/// The latest findings of the doctor.
#[derive(Debug, Default)]
pub(super) struct Examined {
    said: Option<Doctor>,
    /// When the doctor was last started.
    asked: Option<Timestamp>,
}

impl Session {
    /// Returns the door that pages are shown through.
    pub(super) fn door(&self) -> Door {
        Door::Local(Local { operates: self.operates, doctor: self.doctor.borrow().said.clone() })
    }

    /// Calls a function with a job; `None` if there is no such job.
    pub(super) fn job<T>(&self, id: u64, what: impl FnOnce(&mut Job) -> T) -> Option<T> {
        self.jobs.borrow_mut().get_mut(id).map(what)
    }

    /// Returns the mask for the values that pages hide.
    pub(super) fn mask(&self) -> Mask<'_> {
        match &self.account.bodies {
            Bodies::Shown { masked } => Mask::new(masked),
            Bodies::Hidden => Mask::new(&[]),
        }
    }

    /// Reports whether pages show the content of letters.
    pub(super) fn shows_bodies(&self) -> bool {
        self.account.bodies != Bodies::Hidden
    }

    /// Runs the doctor in the background if its findings are old. The doctor only reads.
    pub(super) fn examine(self: &Rc<Self>) {
        let now = self.account.clock.now();
        let is_fresh = |asked: Timestamp| now.duration_since(asked) < FRESH;
        if self.doctor.borrow().asked.is_some_and(is_fresh) {
            return;
        }
        let mut examined = self.doctor.borrow_mut();
        // Noted before the doctor runs, so that a second page does not start another one.
        examined.asked = Some(now);
        examined.said.get_or_insert(Doctor::Looking);
        drop(examined);
        let session = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let tool = &session.tool;
            let args = args::Doctor { connection: tool.connection(), ..Default::default() };
            let mut console = tool.console("", &Printed::default(), &Printed::default());
            let examined = doctor::examine(&args, &mut console).await;
            let at = session.account.clock.now();
            session.doctor.borrow_mut().said = Some(match examined {
                Ok(examined) => {
                    Doctor::Found { at, findings: examined.findings.into_iter().map(finding).collect() }
                }
                Err(why) => Doctor::Failed { at, why: why.to_string() },
            });
        });
    }
}

fn finding(found: doctor::Finding) -> Finding {
    let doctor::Finding { severity, check, about, says, fix, .. } = found;
    Finding { severity: severity.name().to_owned(), check: check.to_owned(), about, says, fix }
}
