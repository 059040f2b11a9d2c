//! The ids of letters.

use std::fmt;

use super::message::SqsMessage;
use super::notification::Notification;

/// Longer ids are none of ours. What is no longer than this travels in a mark and is read back; a
/// letter with a longer one would start afresh each time it returns, and circulate for ever.
const MAX_ID_BYTES: usize = 512;

/// Whether a text can be a letter's id: it stands in every log line, so what a stranger put there
/// must be no more than an id.
pub(super) fn is_id(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b":/._-".contains(&byte);
    (1..=MAX_ID_BYTES).contains(&text.len()) && text.bytes().all(allowed)
}

/// A letter's id: that of our mark, else SNS's message id and the subscription (a shared
/// dead-letter queue holds one message once per subscription), else SQS's message id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LetterId(String);

impl LetterId {
    /// The id of a message; `marked` is that of its mark.
    pub(super) fn of(sqs: &SqsMessage, sns: Option<&Notification>, marked: Option<&str>) -> Self {
        if let Some(id) = marked {
            return Self(id.to_owned());
        }
        sns.and_then(|sns| Some([sns.message_id.as_str(), sns.subscription.as_ref()?.as_str()].join("/")))
            .filter(|id| is_id(id))
            .map_or_else(|| Self(sqs.message_id.clone()), Self)
    }

    /// The id as text.
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
