//! What an error means for a letter. Which error is which, only those know who make the calls.

/// What a failure means for the letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// Too many requests; later it will work.
    Throttling,
    /// The network or the service; later it will work.
    Transient,
    /// This letter will never be taken by this target.
    Permanent,
    /// Someone has to mend a permission, a key or a queue; then it will work.
    ActionRequired,
}

impl FailureClass {
    /// The name in logs and archived records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Throttling => "throttling",
            Self::Transient => "transient",
            Self::Permanent => "permanent",
            Self::ActionRequired => "action_required",
        }
    }
}
