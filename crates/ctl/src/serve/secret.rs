//! Secrets: the token in the address, and the nonces of confirmations.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subtle::ConstantTimeEq;

use crate::console::CommandFailure;

/// The random bytes in a secret: 192 bits.
const SECRET_BYTES: usize = 24;

/// The length in characters: base64 turns three bytes into four characters.
const SECRET_LENGTH: usize = SECRET_BYTES / 3 * 4;

/// A text that nobody can guess.
#[derive(Clone)]
pub(super) struct Secret(String);

impl Secret {
    /// Creates a secret from the system's random numbers.
    ///
    /// # Errors
    ///
    /// The system has no random numbers.
    pub(super) fn new() -> Result<Self, CommandFailure> {
        let mut bytes = [0; SECRET_BYTES];
        getrandom::fill(&mut bytes)
            .map_err(|error| CommandFailure::Work(format!("the system has no random numbers: {error}")))?;
        Ok(Self(URL_SAFE_NO_PAD.encode(bytes)))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Compares the secret with a text. It takes the same time however much of the text is right, so the time
    /// reveals nothing.
    pub(super) fn is(&self, said: &str) -> bool {
        let padded = |text: &str| {
            let mut bytes = [0; SECRET_LENGTH];
            for (to, from) in bytes.iter_mut().zip(text.bytes()) {
                *to = from;
            }
            bytes
        };
        let same = padded(&self.0).ct_eq(&padded(said));
        let same_length = self.0.len().ct_eq(&said.len());
        (same & same_length).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_long_new_each_time_and_known_only_whole() {
        let (one, other) = (Secret::new().unwrap(), Secret::new().unwrap());
        assert_eq!((one.text().len(), SECRET_LENGTH), (32, 32));
        assert!(one.is(one.text()) && !one.is(other.text()));
        let text = one.text();
        for wrong in ["", &text[..31], &format!("{text}A"), &format!("{text}{text}"), &text.to_lowercase()] {
            assert!(!one.is(wrong), "{wrong}");
        }
        assert_eq!(format!("{one:?}"), "Secret");
    }
}
