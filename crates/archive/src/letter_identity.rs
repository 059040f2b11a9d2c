//! The identity of a letter, by which ledgers know it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The identity of a letter's place in its queue: a hash of the queue's ARN and the SQS message id. A crash
/// can archive the same place twice. It is a hash because an archive may hold millions of letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LetterIdentity([u8; 16]);

/// The error for a text that is no [`LetterIdentity`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not the identity of a letter")]
pub struct BadIdentity;

impl TryFrom<String> for LetterIdentity {
    type Error = BadIdentity;

    fn try_from(text: String) -> Result<Self, BadIdentity> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| BadIdentity)?;
        bytes.try_into().map(Self).map_err(|_| BadIdentity)
    }
}

impl From<LetterIdentity> for String {
    fn from(identity: LetterIdentity) -> Self {
        URL_SAFE_NO_PAD.encode(identity.0)
    }
}

impl LetterIdentity {
    /// Builds the identity from a queue's ARN and an SQS message id.
    #[must_use]
    pub fn of(queue_arn: &str, message_id: &str) -> Self {
        let hash =
            Sha256::new().chain_update(queue_arn).chain_update([0]).chain_update(message_id).finalize();
        let mut identity = [0; 16];
        identity.copy_from_slice(&hash[..16]);
        Self(identity)
    }

    /// Builds the identity of a letter wherever it lies, from its [`LetterId`](redrive_core::letter::LetterId). It has no
    /// queue.
    #[must_use]
    pub fn of_letter(letter_id: &str) -> Self {
        Self::of("", letter_id)
    }
}
