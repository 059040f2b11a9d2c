//! The grouping of messages into requests.
//!
//! Messages for one endpoint share requests if the service has batches, as many as it accepts by number and
//! by bytes, and keep their order within them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use super::health::Health;
use super::purpose::RequestPurpose;
use crate::endpoint::Endpoint;

/// The largest number of entries in a batch request of SNS and SQS.
/// <https://docs.aws.amazon.com/sns/latest/api/API_PublishBatch.html>
pub const MAX_ENTRIES: usize = 10;

/// The largest request to a topic, in bytes. A batch may be as large as one message; topics take 256 KiB
/// unless their `MaximumMessageSize` says otherwise.
/// <https://docs.aws.amazon.com/sns/latest/api/API_PublishBatch.html>
const MAX_TOPIC_BYTES: usize = 256 * 1024;

/// The largest request to a queue, in bytes. A batch may be as large as one message.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
const MAX_QUEUE_BYTES: usize = 1024 * 1024;

/// The largest number of records in a request to a stream.
/// <https://docs.aws.amazon.com/firehose/latest/APIReference/API_PutRecordBatch.html>
const MAX_RECORDS: usize = 500;

/// The largest request to a stream, in bytes.
/// <https://docs.aws.amazon.com/firehose/latest/APIReference/API_PutRecordBatch.html>
const MAX_STREAM_BYTES: usize = 4 * 1024 * 1024;

/// A message that is to be sent, with the properties that decide which request it shares.
#[derive(Debug, Clone, Copy)]
pub struct UnsentMessage<'a> {
    /// The endpoint.
    pub to: &'a Endpoint,
    /// The trace that its request carries, if any: a request has only one.
    pub trace: Option<&'a str>,
    /// The bytes for which it counts.
    pub bytes: usize,
    /// The number of messages that may go in one request with it. The service's own limit holds as well.
    pub at_once: usize,
    /// True if its request waits until the function that it calls has ended.
    pub waits: bool,
    /// Its turn, counted from the beginning of the invocation.
    pub turn: Duration,
    /// The purpose.
    pub purpose: RequestPurpose,
}

/// Groups messages, by their positions, into requests.
pub(super) fn requests(messages: &[UnsentMessage<'_>], health: &Health) -> Vec<Vec<usize>> {
    let mut together: BTreeMap<(&Endpoint, Option<&str>, bool), Vec<usize>> = BTreeMap::new();
    for (index, UnsentMessage { to, trace, purpose, .. }) in messages.iter().enumerate() {
        // Last retries wait for another trial than the others.
        let last = purpose.is_last() && !health.is_up(to);
        together.entry((to, *trace, last)).or_default().push(index);
    }
    let split = |((to, ..), indexes): ((&Endpoint, _, _), Vec<usize>)| {
        let sizes: Vec<_> = indexes.iter().map(|index| messages[*index].bytes).collect();
        let (entries, bytes) = limits(to);
        let at_once = indexes.iter().map(|index| messages[*index].at_once).min().unwrap_or(entries);
        let runs = runs(&sizes, entries.min(at_once), bytes);
        runs.into_iter().map(|run| indexes[run].to_vec()).collect::<Vec<_>>()
    };
    together.into_iter().flat_map(split).collect()
}

/// Returns the largest number of entries and of bytes of one request.
fn limits(to: &Endpoint) -> (usize, usize) {
    match to {
        Endpoint::Topic(_) => (MAX_ENTRIES, MAX_TOPIC_BYTES),
        Endpoint::Queue(_) => (MAX_ENTRIES, MAX_QUEUE_BYTES),
        Endpoint::Stream(_) => (MAX_RECORDS, MAX_STREAM_BYTES),
        Endpoint::Function(_) | Endpoint::Http(_) => (1, usize::MAX),
    }
}

/// Splits messages of the given sizes into runs of at most `max_entries` whose total respects `max_bytes`. A
/// message that is larger than this gets a request of its own, since only the service knows its real limit.
/// The order is kept.
///
/// ```
/// use redrive_core::batch::runs;
/// let sizes = [60, 50, 40, 200, 10];
/// assert_eq!(runs(&sizes, 10, 100), [0..1, 1..3, 3..4, 4..5]);
/// ```
#[must_use]
pub fn runs(sizes: &[usize], max_entries: usize, max_bytes: usize) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (index, size) in sizes.iter().enumerate() {
        let full = index - start == max_entries || bytes + size > max_bytes;
        if full && index > start {
            runs.push(start..index);
            (start, bytes) = (index, 0);
        }
        bytes += size;
    }
    if start < sizes.len() {
        runs.push(start..sizes.len());
    }
    runs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::action::SendResult;
    use super::*;
    use crate::failure::{Failure, FailureClass};

    fn endpoint(arn: &str) -> Endpoint {
        Endpoint::of_arn(format!("arn:aws:{arn}").parse().unwrap()).unwrap()
    }

    fn queue() -> Endpoint {
        endpoint("sqs:eu-central-1:123456789012:payments")
    }

    fn topic() -> Endpoint {
        endpoint("sns:eu-central-1:123456789012:payments")
    }

    fn function() -> Endpoint {
        endpoint("lambda:eu-central-1:123456789012:function:payments")
    }

    fn unsent(to: &Endpoint) -> UnsentMessage<'_> {
        let (turn, purpose) = (Duration::ZERO, RequestPurpose::Other);
        UnsentMessage { to, trace: None, bytes: 100, at_once: usize::MAX, waits: false, turn, purpose }
    }

    /// Returns the requests in the order of their first messages.
    fn of(messages: &[UnsentMessage<'_>], health: &Health) -> Vec<Vec<usize>> {
        let mut requests = requests(messages, health);
        requests.sort();
        requests
    }

    #[test]
    fn messages_share_requests_by_endpoint_and_by_the_limits_of_its_service() {
        let (queue, topic, function) = (queue(), topic(), function());
        let messages = [&queue, &topic, &function, &queue, &topic, &function].map(unsent);
        assert_eq!(of(&messages, &Health::default()), [vec![0, 3], vec![1, 4], vec![2], vec![5]]);

        let large = |to| UnsentMessage { bytes: 200 * 1024, ..unsent(to) };
        let messages = [&queue, &topic, &queue, &topic].map(large);
        assert_eq!(of(&messages, &Health::default()), [vec![0, 2], vec![1], vec![3]]);

        let mut messages = vec![unsent(&queue); 12];
        assert_eq!(requests(&messages, &Health::default()).len(), 2);
        messages[7].at_once = 3;
        assert_eq!(requests(&messages, &Health::default()).len(), 4);
    }

    #[test]
    fn messages_of_one_trace_go_apart_from_others() {
        let topic = topic();
        let traced = |trace| UnsentMessage { trace, ..unsent(&topic) };
        let messages = [Some("a"), None, Some("b"), Some("a"), None].map(traced);
        assert_eq!(of(&messages, &Health::default()), [vec![0, 3], vec![1, 4], vec![2]]);
    }

    #[test]
    fn last_retries_go_apart_while_their_endpoint_is_down() {
        let queue = queue();
        let longest = Duration::from_mins(10);
        let retry =
            |last| UnsentMessage { purpose: RequestPurpose::Retry { last, longest }, ..unsent(&queue) };
        let messages = [true, false, true, false].map(retry);
        let mut health = Health::default();
        assert_eq!(of(&messages, &health), [vec![0, 1, 2, 3]]);
        let late = SendResult::Failed(Failure::ours(FailureClass::Transient, "Timeout"));
        let (began, now) = (Duration::ZERO, Duration::from_secs(15));
        health.begins(&queue, began);
        health.ended(&queue, began, &[late], now);
        assert!(!health.is_up(&queue));
        assert_eq!(of(&messages, &health), [vec![0, 2], vec![1, 3]]);
    }

    #[test]
    fn ten_small_messages_make_one_request_and_eleven_make_two() {
        assert_eq!(runs(&[1; 10], 10, 100).len(), 1);
        assert_eq!(runs(&[1; 11], 10, 100), [0..10, 10..11]);
        assert_eq!(runs(&[], 10, 100), []);
    }

    proptest! {
        #[test]
        fn every_message_is_in_one_request_within_both_limits(
            sizes in proptest::collection::vec(0_usize..150, 0..60)
        ) {
            let runs = runs(&sizes, 10, 100);
            let covered: Vec<_> = runs.iter().cloned().flatten().collect();
            prop_assert_eq!(covered, (0..sizes.len()).collect::<Vec<_>>());
            for run in runs {
                let bytes: usize = sizes[run.clone()].iter().sum();
                prop_assert!(run.len() <= 10 && (bytes <= 100 || run.len() == 1));
            }
        }
    }
}
