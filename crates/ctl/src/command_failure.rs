//! How a command ends that did not succeed.

use redrive_replay::ReplayError;

/// The reason why a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandFailure {
    /// The input is invalid, with all its problems.
    #[error("{}", .0.join("\n"))]
    Input(Vec<String>),
    /// The work failed.
    #[error("{0}")]
    Work(String),
    /// It was stopped before anything was done.
    #[error("{0}")]
    Stopped(String),
    /// Another process works on the same.
    #[error("{0}")]
    Busy(String),
    /// AWS denied a call.
    #[error("{0}")]
    Denied(String),
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] std::io::Error),
}

impl CommandFailure {
    /// Returns the failure of a call to AWS, in words.
    pub(crate) fn of_call(why: String, is_denied: bool) -> Self {
        if is_denied { Self::Denied(why) } else { Self::Work(why) }
    }
}

impl From<ReplayError> for CommandFailure {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Request(faults) => Self::Input(faults),
            ReplayError::Busy(_) | ReplayError::TakenUp(_) => Self::Busy(error.to_string()),
            error => Self::of_call(error.to_string(), error.is_denied()),
        }
    }
}
