//! The facts about a packed letter that decide about its request.
//!
//! The code that makes the request packs the letter. The machine only needs to know whether that can be done,
//! and how large the result is.

use serde::de::IgnoredAny;

use super::action::CannotPack;
use crate::endpoint::{Destination, Endpoint};
use crate::letter::{Letter, MAX_ATTRIBUTES, Mark, original_event};
use crate::policy::Retry;

/// A letter as it is packed for its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedFacts {
    /// The bytes by which it counts in the size limit of its request. Requests of a single letter have no
    /// such limit, and count none.
    pub bytes: usize,
    /// True if the call waits until the function has ended.
    pub waits: bool,
}

impl PackedFacts {
    /// Returns the facts about a letter for a retry, which is `unmarked` if it goes without its mark.
    ///
    /// # Errors
    ///
    /// [`CannotPack`] if the destination has no form for this letter.
    pub fn new(letter: &Letter, to: &Destination, retry: Retry, unmarked: bool) -> Result<Self, CannotPack> {
        let bytes = match &to.endpoint {
            Endpoint::Topic(_) | Endpoint::Queue(_) => message_bytes(letter, &to.endpoint, retry, unmarked)?,
            Endpoint::Stream(_) => {
                let delimiter = to.subscription.as_ref().map_or("\n", |through| through.record_delimiter);
                let body = letter.sqs.body.as_str();
                body.len() + if body.ends_with(delimiter) { 0 } else { delimiter.len() }
            }
            Endpoint::Function(_) => {
                serde_json::from_str::<IgnoredAny>(original_event(letter))
                    .map_err(|_| CannotPack::NotJson)?;
                0
            }
            Endpoint::Http(_) => 0,
        };
        // An event of SNS has a place for the mark, so nobody has to wait for the function.
        let waits = matches!(to.endpoint, Endpoint::Function(_)) && letter.notification.is_none();
        Ok(Self { bytes, waits })
    }
}

/// Returns the bytes of a message for a topic or a queue.
fn message_bytes(letter: &Letter, to: &Endpoint, retry: Retry, unmarked: bool) -> Result<usize, CannotPack> {
    let to_topic = matches!(to, Endpoint::Topic(_));
    let bytes = letter.carried_bytes(to_topic);
    if unmarked {
        return Ok(bytes);
    }
    if letter.carried_attributes(to_topic).count() >= MAX_ATTRIBUTES {
        return Err(CannotPack::Unmarkable);
    }
    let mark = if to_topic { letter.mark_for_topic(retry.number) } else { letter.mark(retry.number) };
    Ok(bytes + Mark { early: retry.is_early(), ..mark }.bytes())
}

/// Returns the trace of this header that a request to a topic carries, if the trace is recorded. SNS knows no
/// system attributes: it takes the trace from a header of the request, and passes it on.
/// <https://docs.aws.amazon.com/sns/latest/dg/sns-active-tracing.html>
///
/// All messages of a request have the same trace. So messages of a recorded trace share requests only with
/// messages of that trace. Other messages share them freely.
#[must_use]
pub fn recorded_trace(header: Option<&str>) -> Option<&str> {
    header.filter(|header| !header.contains("Sampled=0"))
}
