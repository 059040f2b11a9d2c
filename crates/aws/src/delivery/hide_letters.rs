//! Hiding: the timer of this software.
//!
//! A deferred letter stays in its queue and is hidden by `ChangeMessageVisibility` until its next retry is
//! due. There is no other state. If the call fails, the letter stays hidden for the queue's own visibility
//! timeout. It then comes back early or late, but it comes back.
//! <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html>

use aws_sdk_sqs::types::ChangeMessageVisibilityBatchRequestEntry;
use futures_util::stream::{self, StreamExt};
use redrive_core::arn::Arn;
use redrive_core::batch::{CONCURRENT_REQUESTS, MAX_ENTRIES};
use redrive_core::failure::{Failure, FailureClass, HANDLE_EXPIRED, MESSAGE_GONE};
use tokio::time::{Instant, timeout_at};

use crate::clients::{elsewhere, failure_of_call, too_late};

/// The text in SQS's answer if a message would be hidden for longer than 12 hours after its receive.
const BEYOND_LIMIT_TEXT: &str = "beyond the limit";

/// The text in SQS's answer about a message that it no longer has. Only a standard queue gives it.
const MESSAGE_GONE_TEXT: &str = "Message does not exist or is not available";

/// The text in SQS's answer to an old receipt handle. Only a FIFO queue gives it.
const HANDLE_EXPIRED_TEXT: &str = "receipt handle has expired";

/// The codes of SQS for the same in a batch, where the text may differ. They count on a standard queue too, since
/// nobody recorded what it says there of a message that is gone.
const HANDLE_OVER_CODES: [&str; 2] = ["ReceiptHandleIsInvalid", "MessageNotInflight"];

/// A message to hide, and for how long.
#[derive(Clone, Copy)]
pub struct HideRequest<'a> {
    /// The receipt handle of the receive that this invocation handles.
    pub receipt_handle: &'a str,
    /// The seconds to hide it for, counted from the call: 0 to 43,200. 0 shows it at once.
    pub seconds: u64,
}

/// Hides messages of one queue, ten per request. The answers are in the order of the messages.
pub async fn hide(
    sqs: &aws_sdk_sqs::Client,
    queue: &Arn,
    hidings: &[HideRequest<'_>],
    until: Instant,
) -> Vec<Result<(), Failure>> {
    let answers = stream::iter(hidings.chunks(MAX_ENTRIES))
        .map(|chunk| async move {
            let answers = timeout_at(until, hide_few(sqs, queue, chunk)).await;
            answers.unwrap_or_else(|_| vec![Err(too_late()); chunk.len()])
        })
        .buffered(CONCURRENT_REQUESTS)
        .collect::<Vec<_>>()
        .await;
    answers.into_iter().flatten().collect()
}

async fn hide_few(
    sqs: &aws_sdk_sqs::Client,
    queue: &Arn,
    hidings: &[HideRequest<'_>],
) -> Vec<Result<(), Failure>> {
    let entries: Result<Vec<_>, _> = hidings
        .iter()
        .enumerate()
        .map(|(index, hiding)| {
            ChangeMessageVisibilityBatchRequestEntry::builder()
                .id(index.to_string())
                .receipt_handle(hiding.receipt_handle)
                .visibility_timeout(i32::try_from(hiding.seconds).unwrap_or(i32::MAX))
                .build()
        })
        .collect();
    let whole = |failure| vec![Err(failure); hidings.len()];
    let Ok(entries) = entries else {
        return whole(Failure::ours(FailureClass::Permanent, "NotBuildable"));
    };
    let request =
        sqs.change_message_visibility_batch().queue_url(queue.queue_url()).set_entries(Some(entries));
    let answer = match elsewhere(queue, sqs.config().region()) {
        None => request.send().await,
        Some(region) => {
            let there = aws_sdk_sqs::config::Builder::new().region(region);
            request.customize().config_override(there).send().await
        }
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return whole(failure_of_call(&error)),
    };
    let mut answers = whole(Failure::ours(FailureClass::Transient, "NoAnswer"));
    let mut put = |id: &str, answer| {
        if let Some(place) = id.parse::<usize>().ok().and_then(|index| answers.get_mut(index)) {
            *place = answer;
        }
    };
    answer.successful().iter().for_each(|entry| put(entry.id(), Ok(())));
    for entry in answer.failed() {
        let failure = Failure::of_entry(entry.code(), entry.message(), entry.sender_fault());
        put(entry.id(), Err(told_apart(failure, entry.message())));
    }
    answers
}

/// Gives failures a code of their own whose code at SQS, `InvalidParameterValue`, has many meanings. Their text
/// tells them apart, which must not be logged.
fn told_apart(failure: Failure, text: Option<&str>) -> Failure {
    let says = |words| text.is_some_and(|text| text.contains(words));
    let code = failure.code.rsplit('.').next().unwrap_or_default();
    let ours = |code| Failure::ours(FailureClass::Permanent, code);
    if says(BEYOND_LIMIT_TEXT) {
        ours("BeyondTheLimit")
    } else if says(MESSAGE_GONE_TEXT) {
        ours(MESSAGE_GONE)
    } else if says(HANDLE_EXPIRED_TEXT) || HANDLE_OVER_CODES.contains(&code) {
        ours(HANDLE_EXPIRED)
    } else {
        failure
    }
}
