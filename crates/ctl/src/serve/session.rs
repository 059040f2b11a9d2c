//! The session: the state that all requests share.

use std::cell::RefCell;
use std::rc::Rc;

use jiff::{SignedDuration, Timestamp};
use redrive_console::read::ContentMask;
use redrive_console::{BodyVisibility, ConsoleAccount, DoctorProgress, LocalConsole, PageFinding, PageHost};

use super::guard::ServeGuard;
use super::jobs::{JobTable, ServeJob};
use crate::args::{self, FurtherOptions};
use crate::command_tool::{CommandOutput, CommandRunner};
use crate::doctor;

/// The greatest age of the doctor's findings before it runs again.
const FINDINGS_MAX_AGE: SignedDuration = SignedDuration::from_mins(10);

/// The state that all requests share. The server has one thread. No borrow may last across an await, or
/// another request's borrow would panic.
pub(super) struct ServeSession {
    pub(super) guard: ServeGuard,
    pub(super) account: ConsoleAccount,
    /// True if pages may act.
    pub(super) operates: bool,
    pub(super) tool: CommandRunner,
    pub(super) further: FurtherOptions,
    pub(super) jobs: RefCell<JobTable>,
    pub(super) doctor: RefCell<LatestFindings>,
}

/// The latest findings of the doctor.
#[derive(Debug, Default)]
pub(super) struct LatestFindings {
    said: Option<DoctorProgress>,
    /// When the doctor was last started.
    asked: Option<Timestamp>,
}

impl ServeSession {
    /// Returns the door that pages are shown through.
    pub(super) fn door(&self) -> PageHost {
        PageHost::Local(LocalConsole { operates: self.operates, doctor: self.doctor.borrow().said.clone() })
    }

    /// Calls a function with a job; `None` if there is no such job.
    pub(super) fn job<T>(&self, id: u64, what: impl FnOnce(&mut ServeJob) -> T) -> Option<T> {
        self.jobs.borrow_mut().get_mut(id).map(what)
    }

    /// Returns the mask for the values that pages hide.
    pub(super) fn mask(&self) -> ContentMask<'_> {
        match &self.account.bodies {
            BodyVisibility::Shown { masked } => ContentMask::new(masked),
            BodyVisibility::Hidden => ContentMask::new(&[]),
        }
    }

    /// Reports whether pages show the content of letters.
    pub(super) fn shows_bodies(&self) -> bool {
        self.account.bodies != BodyVisibility::Hidden
    }

    /// Runs the doctor in the background if its findings are old. The doctor only reads.
    pub(super) fn examine(self: &Rc<Self>) {
        let now = self.account.clock.now();
        let is_fresh = |asked: Timestamp| now.duration_since(asked) < FINDINGS_MAX_AGE;
        if self.doctor.borrow().asked.is_some_and(is_fresh) {
            return;
        }
        let mut examined = self.doctor.borrow_mut();
        // Noted before the doctor runs, so that a second page does not start another one.
        examined.asked = Some(now);
        examined.said.get_or_insert(DoctorProgress::Looking);
        drop(examined);
        let session = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let tool = &session.tool;
            let args = args::DoctorArgs { connection: tool.connection(), ..Default::default() };
            let mut console = tool.console("", &CommandOutput::default(), &CommandOutput::default());
            let examined = doctor::examine(&args, &mut console).await;
            let at = session.account.clock.now();
            session.doctor.borrow_mut().said = Some(match examined {
                Ok(examined) => DoctorProgress::Found {
                    at,
                    findings: examined.findings.into_iter().map(finding).collect(),
                },
                Err(why) => DoctorProgress::Failed { at, why: why.to_string() },
            });
        });
    }
}

fn finding(found: doctor::CheckFinding) -> PageFinding {
    let doctor::CheckFinding { severity, check, about, says, fix, .. } = found;
    PageFinding { severity: severity.name().to_owned(), check: check.to_owned(), about, says, fix }
}
