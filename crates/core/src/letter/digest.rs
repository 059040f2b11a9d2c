//! The digest that ties a mark to its message.
//!
//! A consumer that copies attributes onto a message of its own copies our mark too. The mark says how many
//! retries are behind a message, so it must not count for another message. The digest covers the message as
//! it was published, without what AWS wraps around it on the way: the same message has one digest in an
//! envelope, in an event for a function, in the record of a destination, and raw.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The number of bytes of the hash that are kept. A mark on the wrong message costs that message retries and
/// nothing else, and a collision is worth nothing: a sender that can write a mark can copy its digest as
/// well.
const BYTES: usize = 8;

/// A short digest of a message.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MessageDigest([u8; BYTES]);

/// The error of a text that is not a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a digest of {BYTES} bytes in base64url")]
pub struct NotADigest;

impl MessageDigest {
    /// Returns the digest of exactly this text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let hash = Sha256::digest(text);
        let mut bytes = [0; BYTES];
        bytes.iter_mut().zip(hash).for_each(|(byte, hashed)| *byte = hashed);
        Self(bytes)
    }
}

impl TryFrom<String> for MessageDigest {
    type Error = NotADigest;

    fn try_from(text: String) -> Result<Self, NotADigest> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| NotADigest)?;
        bytes.try_into().map(Self).map_err(|_| NotADigest)
    }
}

impl From<MessageDigest> for String {
    fn from(digest: MessageDigest) -> Self {
        URL_SAFE_NO_PAD.encode(digest.0)
    }
}

impl fmt::Debug for MessageDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_eleven_characters_and_reads_back() {
        let text = String::from(MessageDigest::of("message"));
        assert_eq!(text.len(), 11);
        assert_eq!(MessageDigest::try_from(text), Ok(MessageDigest::of("message")));
        for bad in ["", "AAAA", "?", "AAAAAAAAAAAAAAAA"] {
            assert_eq!(MessageDigest::try_from(bad.to_owned()), Err(NotADigest), "{bad:?}");
        }
    }
}
