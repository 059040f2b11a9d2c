//! The doors: the two places where pages are shown.

use jiff::Timestamp;

/// The place where a page is shown. It determines how links and actions look.
#[derive(Debug, Clone)]
pub enum PageHost {
    /// A server on the operator's machine.
    Local(LocalConsole),
    /// A widget on a dashboard of `CloudWatch`.
    Widget(DashboardWidget),
}

/// A server on the operator's machine. A page is a whole document; the browser chooses light or dark.
#[derive(Debug, Clone, Default)]
pub struct LocalConsole {
    /// True if pages link to actions. Otherwise they show the commands.
    pub operates: bool,
    /// The doctor's findings, if the door runs the doctor.
    pub doctor: Option<DoctorProgress>,
}

/// A widget on a dashboard of `CloudWatch`. A page is a fragment that brings its style.
#[derive(Debug, Clone)]
pub struct DashboardWidget {
    /// The ARN of the widget's function, which its links call.
    pub endpoint: String,
    /// The dashboard's theme.
    pub theme: Theme,
}

/// A dashboard's theme.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Theme {
    /// Dark text on a light background.
    #[default]
    Light,
    /// Light text on a dark background.
    Dark,
}

/// The state of the doctor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DoctorProgress {
    /// The first examination is running.
    Looking,
    /// The examination failed.
    Failed {
        /// The moment of the failure.
        at: Timestamp,
        /// The reason.
        why: String,
    },
    /// The examination ended.
    Found {
        /// The moment of the examination.
        at: Timestamp,
        /// The findings, the worst first. Empty if all is well.
        findings: Vec<PageFinding>,
    },
}

/// One finding of the doctor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageFinding {
    /// The severity: `error`, `warning`, `cannot tell` or `note`.
    pub severity: String,
    /// The name of the check.
    pub check: String,
    /// The resource that the finding is about.
    pub about: String,
    /// The fact and what it means.
    pub says: String,
    /// The command that fixes it, or the person who can.
    pub fix: Option<String>,
}
