//! How a command ends that was carried out.

/// How a command ended that was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandEnd {
    /// All was done.
    Whole,
    /// A part could not be read or done.
    Partly,
    /// Letters were left out.
    LeftOut,
    /// It was stopped, and can be continued.
    Stopped,
    /// A person is needed: an alarm is on.
    NeedsPerson,
    /// Something could not be read, so nobody can say that all is well.
    Unseen,
}

impl CommandEnd {
    /// Returns the end of work with this number of things that could not be read.
    pub(crate) fn of(unread: u64) -> Self {
        if unread == 0 { Self::Whole } else { Self::Partly }
    }
}
