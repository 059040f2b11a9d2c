//! Packs many messages into few requests, and reads the answers in their order.

use crate::batch::Sent;
use crate::failure::{Failure, FailureClass};

/// SNS and SQS take ten entries a batch request.
/// <https://docs.aws.amazon.com/sns/latest/api/API_PublishBatch.html>
pub const MAX_ENTRIES: usize = 10;

/// Splits messages of the given sizes into runs of at most `max_entries` whose total respects
/// `max_bytes`. A message that is larger on its own gets a request of its own, since only the
/// service knows its real limit. Order is kept.
///
/// ```
/// use sns_redrive::delivery::runs;
/// let sizes = [60, 50, 40, 200, 10];
/// assert_eq!(runs(&sizes, 10, 100), [0..1, 1..3, 3..4, 4..5]);
/// ```
#[must_use]
pub fn runs(sizes: &[usize], max_entries: usize, max_bytes: usize) -> Vec<std::ops::Range<usize>> {
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

/// Puts the two lists of a batch answer in the order of the request. An entry that stands in
/// neither was not taken, as far as anybody can tell.
pub(super) fn in_order<'a>(
    count: usize,
    successful: impl Iterator<Item = &'a str>,
    failed: impl Iterator<Item = (&'a str, Failure)>,
) -> Vec<Sent> {
    let unanswered = Failure::ours(FailureClass::Transient, "NoAnswer");
    let mut sent = vec![Sent::Failed(unanswered); count];
    let mut put = |id: &str, answer| {
        if let Some(place) = id.parse::<usize>().ok().and_then(|index| sent.get_mut(index)) {
            *place = answer;
        }
    };
    successful.for_each(|id| put(id, Sent::Accepted));
    failed.for_each(|(id, failure)| put(id, Sent::Failed(failure)));
    sent
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
                prop_assert!(run.len() <= MAX_ENTRIES && (bytes <= 100 || run.len() == 1));
            }
        }
    }
}
