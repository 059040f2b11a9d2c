//! What the doctor finds: how bad it is, what it means, and the command that mends it.

use serde::Serialize;

use super::setup::Told;
use crate::args::Further;
use crate::text::{harmless, wrapped};

/// The columns that a finding may fill.
const WIDTH: usize = 110;

/// The column at which the text of a finding begins.
const INDENT: usize = 13;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Severity {
    /// Letters are lost, or do not get where they should.
    Error,
    /// They may be, under circumstances that are not rare.
    Warning,
    /// Nobody could say: a permission is missing, or the answer lies where no call looks.
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
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// The name of the check, for scripts.
    pub(crate) check: &'static str,
    /// The thing that it is about.
    pub(crate) about: String,
    /// What is so, and what it means.
    pub(crate) says: String,
    /// The command that mends it, or who can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mend: Option<String>,
}

impl Finding {
    /// The finding with these options behind its command, where that is one of the AWS CLI, or one of this tool.
    pub(super) fn with(mut self, options: &str, further: &Further) -> Self {
        self.mend = self.mend.map(|mend| match mend.strip_prefix("redrivectl ") {
            // It calls nobody, and has no such options.
            Some(words) if words.starts_with("plan ") => mend,
            Some(words) => further.command(words),
            None if mend.starts_with("aws ") => mend + options,
            None => mend,
        });
        self
    }
}

/// All findings, in the order in which they are found.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    /// Adds a finding; an empty `mend` is none.
    pub(super) fn add(
        &mut self,
        severity: Severity,
        check: &'static str,
        about: &str,
        says: impl Into<String>,
        mend: impl Into<String>,
    ) {
        let mend = Some(mend.into()).filter(|mend| !mend.is_empty());
        self.0.push(Finding { severity, check, about: about.to_owned(), says: says.into(), mend });
    }

    /// Returns what was told; else adds that nobody can tell `what`, and the permission that is missing.
    pub(super) fn told<'a, T>(
        &mut self,
        check: &'static str,
        about: &str,
        what: &str,
        told: &'a Told<T>,
    ) -> Option<&'a T> {
        let untold = match told {
            Ok(told) => return Some(told),
            Err(untold) => untold,
        };
        let finding = format!("Nobody can say {what}: {} failed ({}).", untold.call, untold.why);
        self.add(Severity::CannotTell, check, about, finding, untold.mend());
        None
    }

    /// The worst first.
    pub(super) fn sorted(mut self) -> Vec<Finding> {
        self.0.sort_by_key(|finding| finding.severity);
        self.0
    }
}

/// A finding in some lines.
pub(super) fn text(finding: &Finding) -> String {
    let Finding { severity, about, says, mend, .. } = finding;
    let head = format!("{:INDENT$}{}\n", severity.name(), harmless(about));
    let says = wrapped(&harmless(says), WIDTH - INDENT, 0);
    // A command is one line, so that it can be copied.
    let mend = mend.as_ref().map(|mend| format!("mend: {}", harmless(mend)));
    let lines = says.lines().chain(mend.as_deref());
    lines.fold(head, |text, line| format!("{text}{:INDENT$}{line}\n", ""))
}
