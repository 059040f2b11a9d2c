//! The ids of letters.

use std::fmt;

use super::message::SqsMessage;
use super::notification::Notification;

/// The longest id of a letter, in bytes. An id up to this length travels in a mark and is read back. A letter
/// with a longer id would start afresh each time it returns, and circulate for ever.
const MAX_ID_BYTES: usize = 512;

/// Reports whether a text can be a letter's id. Every log line contains the id, so a text that a stranger
/// wrote must not be able to contain anything else.
pub(super) fn is_id(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b":/._-".contains(&byte);
    (1..=MAX_ID_BYTES).contains(&text.len()) && text.bytes().all(allowed)
}

/// A letter's id: the id in our mark; without a mark, SNS's message id and the subscription (a shared
/// dead-letter queue holds one message once per subscription); without these, SQS's message id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LetterId(String);

impl LetterId {
    /// Returns the id of a message. `marked` is the id in its mark.
    pub(super) fn of(sqs: &SqsMessage, sns: Option<&Notification>, marked: Option<&str>) -> Self {
        if let Some(id) = marked {
            return Self(id.to_owned());
        }
        sns.and_then(|sns| Some([sns.message_id.as_str(), sns.subscription.as_ref()?.as_str()].join("/")))
            .filter(|id| is_id(id))
            .map_or_else(|| Self(sqs.message_id.clone()), Self)
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
