//! The findings of the doctor: how severe each is, what it means, and the command that fixes it.

use serde::Serialize;

use super::setup::{ReadError, ReadResult};
use crate::args::FurtherOptions;
use crate::tables::{TextStyle, command_line, harmless, wrapped};

/// The columns that a finding may fill.
const WIDTH: usize = 110;

/// The column at which the text of a finding begins.
const INDENT: usize = 13;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Severity {
    /// Letters are lost, or do not get where they should.
    Error,
    /// Letters may be lost or misdirected, under circumstances that are not rare.
    Warning,
    /// The answer is unknown: a permission is missing, or no call shows it.
    CannotTell,
    /// Good to know.
    Note,
}

impl Severity {
    pub(crate) const ALL: [Self; 4] = [Self::Error, Self::Warning, Self::CannotTell, Self::Note];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::CannotTell => "cannot tell",
            Self::Note => "note",
        }
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CheckFinding {
    pub(crate) severity: Severity,
    /// The name of the check, for scripts.
    pub(crate) check: &'static str,
    /// The resource that the finding is about.
    pub(crate) about: String,
    /// The fact, and what it means.
    pub(crate) says: String,
    /// The command that fixes it, or other advice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
    /// The call that failed, if the answer is unknown for that reason.
    #[serde(skip)]
    pub(crate) unseen: Option<ReadError>,
}

impl CheckFinding {
    /// Adds the connection's options to the command of the finding, if that is one of the AWS CLI or of this tool.
    pub(super) fn with(mut self, options: &str, further: &FurtherOptions) -> Self {
        self.fix = self.fix.map(|fix| match fix.split_once(' ') {
            // `plan` makes no calls and has no such options.
            Some(("redrivectl", words)) if words.starts_with("plan ") => fix,
            Some(("redrivectl", _)) => fix + further.options(),
            Some(("aws", _)) => fix + options,
            _ => fix,
        });
        self
    }
}

/// All findings, in the order in which they are found.
#[derive(Debug, Default)]
pub(crate) struct CheckFindings(Vec<CheckFinding>);

impl CheckFindings {
    /// Adds a finding. An empty `fix` means that there is none. A fix that is a command was made by [`aws`]
    /// or [`command_line`].
    pub(super) fn add(
        &mut self,
        severity: Severity,
        check: &'static str,
        about: &str,
        says: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let fix = Some(fix.into()).filter(|fix| !fix.is_empty());
        self.0.push(CheckFinding {
            severity,
            check,
            about: about.to_owned(),
            says: says.into(),
            fix,
            unseen: None,
        });
    }

    /// Adds a finding whose answer is unknown, because a call failed.
    pub(super) fn add_unseen(
        &mut self,
        check: &'static str,
        about: &str,
        says: impl Into<String>,
        error: &ReadError,
    ) {
        self.add(Severity::CannotTell, check, about, says, error.fix());
        self.0
            .iter_mut()
            .last()
            .into_iter()
            .for_each(|it| it.unseen = Some(error.clone()).filter(ReadError::is_made));
    }

    /// Returns the value that was read. If the read failed, adds a finding that `what` is unknown, with the
    /// missing permission.
    pub(super) fn known<'a, T>(
        &mut self,
        check: &'static str,
        about: &str,
        what: &str,
        read: &'a ReadResult<T>,
    ) -> Option<&'a T> {
        let error = match read {
            Ok(read) => return Some(read),
            Err(error) => error,
        };
        let finding = format!("Cannot tell {what}: {} failed ({}).", error.call, error.reason());
        self.add_unseen(check, about, finding, error);
        None
    }

    /// Returns the findings, the most severe first.
    pub(super) fn sorted(mut self) -> Vec<CheckFinding> {
        self.0.sort_by_key(|finding| finding.severity);
        self.0
    }
}

/// Returns a command of the AWS CLI, as a line that can be pasted.
pub(super) fn aws<W: AsRef<str>>(words: &[W]) -> String {
    command_line(["aws"].into_iter().chain(words.iter().map(AsRef::as_ref)))
}

/// Returns a finding as lines of text.
pub(super) fn text(finding: &CheckFinding, style: TextStyle) -> String {
    let CheckFinding { severity, about, says, fix, .. } = finding;
    let name = format!("{:INDENT$}", severity.name());
    let name = if *severity == Severity::Error { style.red(&name) } else { style.head(&name) };
    let head = format!("{name}{}\n", harmless(about));
    let says = wrapped(&harmless(says), WIDTH - INDENT, 0);
    // A command stays on one line, so that it can be copied.
    let fix = fix.as_ref().map(|fix| format!("fix: {}", harmless(fix)));
    let lines = says.lines().chain(fix.as_deref());
    lines.fold(head, |text, line| format!("{text}{:INDENT$}{line}\n", ""))
}
