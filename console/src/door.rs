//! The doors that pages are shown through.

use jiff::Timestamp;

/// The door that a page is shown through: how links and actions look there.
#[derive(Debug, Clone)]
pub enum Door {
    /// A server on the operator's machine.
    Local(Local),
    /// A widget on a dashboard of `CloudWatch`.
    Widget(Widget),
}

/// A server on the operator's machine. A page is a whole document, light or dark as the browser has it.
#[derive(Debug, Clone, Default)]
pub struct Local {
    /// True if pages link to actions; else they show the commands.
    pub operates: bool,
    /// The doctor, where the door has asked it.
    pub doctor: Option<Doctor>,
}

/// A widget on a dashboard of `CloudWatch`. A page is a fragment with a style of its own.
#[derive(Debug, Clone)]
pub struct Widget {
    /// The ARN of the function that is the widget: links call it.
    pub endpoint: String,
    /// The dashboard's theme.
    pub theme: Theme,
}

/// A dashboard's theme.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Theme {
    /// Dark on light.
    #[default]
    Light,
    /// Light on dark.
    Dark,
}

/// The doctor: its findings, or why there are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doctor {
    /// It looks for the first time.
    Looking,
    /// It could not look.
    Failed {
        /// The moment at which it failed.
        at: Timestamp,
        /// The reason.
        why: String,
    },
    /// It has looked.
    Found {
        /// The moment at which it looked.
        at: Timestamp,
        /// Its findings, the worst first; empty where all is well.
        findings: Vec<Finding>,
    },
}

/// One finding of the doctor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its severity: `error`, `warning`, `cannot tell` or `note`.
    pub severity: String,
    /// The name of the check.
    pub check: String,
    /// The thing that it is about.
    pub about: String,
    /// The fact, and its meaning.
    pub says: String,
    /// The command that fixes it, or who can.
    pub fix: Option<String>,
}
