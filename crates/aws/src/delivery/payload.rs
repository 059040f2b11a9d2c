//! The form of a letter that its destination takes.

use redrive_core::batch::CannotPack;
use redrive_core::endpoint::{Destination, Endpoint};
use redrive_core::letter::{Letter, Mark};

use super::function_event::{InvokePayload, invoke};
use super::http::HttpPost;
use super::message::{OutgoingMessage, RetryNumber};
use super::stream::StreamRecord;

/// A letter, packed for one kind of endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryPayload<'a> {
    /// A message for a topic or a queue.
    Message(OutgoingMessage<'a>),
    /// An event for a function.
    Event(InvokePayload<'a>),
    /// A post for a web server.
    Post(HttpPost<'a>),
    /// A record for a stream.
    Record(StreamRecord<'a>),
}

impl<'a> DeliveryPayload<'a> {
    /// Packs a letter for a retry, which is `unmarked` if it is to go without its mark.
    ///
    /// # Errors
    ///
    /// [`CannotPack`] if the destination has no form for this letter.
    pub fn pack(
        letter: &'a Letter,
        to: &'a Destination,
        unmarked: bool,
        retry: impl Into<RetryNumber>,
    ) -> Result<Self, CannotPack> {
        let retry = retry.into();
        match &to.endpoint {
            Endpoint::Topic(arn) | Endpoint::Queue(arn) => {
                Ok(Self::Message(OutgoingMessage::pack(letter, arn, unmarked, retry)?))
            }
            Endpoint::Function(_) => {
                let subscription = to.subscription.as_ref().map(|through| &through.subscription);
                let mark = Mark { early: retry.early, ..letter.mark(retry.spent) };
                let event = invoke(letter, subscription, &mark);
                event.map(Self::Event).ok_or(CannotPack::NotJson)
            }
            Endpoint::Stream(_) => Ok(Self::Record(StreamRecord::pack(letter, to.subscription.as_ref()))),
            Endpoint::Http(_) => Ok(Self::Post(HttpPost::pack(letter, to.subscription.as_ref()))),
        }
    }

    /// Returns the bytes by which it counts in the size limit of its request.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Message(message) => message.size(),
            Self::Event(event) => event.payload.len(),
            Self::Post(post) => post.body.len(),
            Self::Record(record) => record.size(),
        }
    }

    /// Reports whether the call waits until the function has ended.
    #[must_use]
    pub fn waits(&self) -> bool {
        matches!(self, Self::Event(event) if event.synchronous)
    }
}
