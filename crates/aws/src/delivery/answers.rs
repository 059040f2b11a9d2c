//! The answers to the entries of a batch request, in the order of the request.

use redrive_core::batch::SendResult;
use redrive_core::failure::{Failure, FailureClass};

/// Puts the two lists of a batch answer in the order of the request. An entry that is in neither list counts
/// as failed.
pub(super) fn in_order<'a>(
    count: usize,
    successful: impl Iterator<Item = &'a str>,
    failed: impl Iterator<Item = (&'a str, Failure)>,
) -> Vec<SendResult> {
    let unanswered = Failure::ours(FailureClass::Transient, "NoAnswer");
    let mut sent = vec![SendResult::Failed(unanswered); count];
    let mut put = |id: &str, answer| {
        if let Some(place) = id.parse::<usize>().ok().and_then(|index| sent.get_mut(index)) {
            *place = answer;
        }
    };
    successful.for_each(|id| put(id, SendResult::Accepted));
    failed.for_each(|(id, failure)| put(id, SendResult::Failed(failure)));
    sent
}
