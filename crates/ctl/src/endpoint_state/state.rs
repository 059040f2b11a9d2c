//! What AWS shows of an endpoint.

use serde::Serialize;

use crate::doctor::ReadError;

/// The service that delivers.
pub(super) const SNS: &str = "sns.amazonaws.com";

/// What is wrong with an endpoint, as far as AWS shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointState {
    pub(crate) finding: EndpointFinding,
    /// The fact, in words.
    pub(crate) says: String,
    /// True if a call was denied, or failed.
    #[serde(skip)]
    pub(crate) is_unseen: bool,
}

/// Whether something is wrong with an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum EndpointFinding {
    /// SNS cannot deliver to it.
    Broken,
    /// Nothing wrong is seen now.
    Works,
    /// It is unknown: a call was denied or failed, or no call shows it.
    CannotTell,
}

impl EndpointState {
    pub(crate) fn broken(says: impl Into<String>) -> Self {
        Self { finding: EndpointFinding::Broken, says: says.into(), is_unseen: false }
    }

    pub(super) fn works(says: impl Into<String>) -> Self {
        Self { finding: EndpointFinding::Works, says: says.into(), is_unseen: false }
    }

    pub(crate) fn cannot_tell(says: impl Into<String>) -> Self {
        Self { finding: EndpointFinding::CannotTell, says: says.into(), is_unseen: false }
    }

    /// Returns the state of an endpoint that a call did not tell.
    pub(crate) fn unseen(error: &ReadError) -> Self {
        let says = format!("{} failed ({})", error.call, error.reason());
        Self { is_unseen: true, ..Self::cannot_tell(says) }
    }
}
