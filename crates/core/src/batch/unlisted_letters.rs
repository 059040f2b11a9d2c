//! The letters that were hidden and are not on the list of waiting letters yet.
//!
//! A write costs as much as ten receives, and during an outage each batch hides some letters. So an instance whose batches are
//! full writes the lines of several as one object. Any other writes at once: nobody knows when its next batch comes, if ever.

use std::collections::HashMap;
use std::time::Duration;

use crate::waiting::WaitingLetter;

/// The time within which a batch must follow another so that their lines may be joined.
const BUSY_TIME: Duration = Duration::from_secs(1);

/// The longest time for which lines wait, and the largest number of batches and of lines.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
const MOST_BATCHES: u32 = 10;
const MOST_LINES: usize = 1_000;

/// The lines of each queue.
#[derive(Debug, Default)]
pub(super) struct UnlistedLetters(HashMap<String, QueueLines>);

#[derive(Debug)]
struct QueueLines {
    lines: Vec<WaitingLetter>,
    /// The number of batches that they are of.
    batches: u32,
    /// The age of the instance when the first of them came.
    since: Duration,
    /// Its age at the end of the last batch.
    last: Duration,
}

impl UnlistedLetters {
    /// Adds the lines of a batch, and returns those that are to be written now.
    pub(super) fn take(
        &mut self,
        queue: &str,
        lines: Vec<WaitingLetter>,
        at_once: bool,
        age: Duration,
    ) -> Vec<WaitingLetter> {
        let is_first = !self.0.contains_key(queue);
        let known = self.0.entry(queue.to_owned()).or_insert_with(|| QueueLines {
            lines: Vec::new(),
            batches: 0,
            since: age,
            last: age,
        });
        let is_busy = !is_first && age.saturating_sub(known.last) < BUSY_TIME;
        known.last = age;
        if known.lines.is_empty() {
            (known.since, known.batches) = (age, 0);
        }
        known.batches += u32::from(!lines.is_empty());
        known.lines.extend(lines);
        let is_much = known.batches >= MOST_BATCHES || known.lines.len() >= MOST_LINES;
        let is_late = age.saturating_sub(known.since) >= LONGEST_WAIT;
        if at_once || !is_busy || is_much || is_late { std::mem::take(&mut known.lines) } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line() -> WaitingLetter {
        let line = json!({ "letterId": "a", "messageId": "a", "receiptHandle": "h", "rule": "default",
            "queueArn": "arn:aws:sqs:eu-central-1:123456789012:dlq", "retry": { "number": 1, "of": 2 },
            "since": "2026-11-01T12:00:00Z", "due": "2026-11-01T12:00:00Z" });
        serde_json::from_value(line).unwrap()
    }

    /// Returns how many lines are written after batches that end at these times, in milliseconds, with one line each.
    fn written<const N: usize>(ends: [u64; N]) -> [usize; N] {
        let mut unlisted = UnlistedLetters::default();
        ends.map(|at| unlisted.take("dlq", vec![line()], false, Duration::from_millis(at)).len())
    }

    #[test]
    fn a_quiet_instance_writes_at_once_and_a_busy_one_the_lines_of_ten_batches() {
        assert_eq!(written([0, 1_000, 2_000]), [1, 1, 1]);
        assert_eq!(written([0, 500, 900, 1_900]), [1, 0, 0, 3]);
        assert_eq!(written([0, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18]), [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10]);
    }

    #[test]
    fn lines_wait_for_ten_seconds_at_most_and_not_once_an_endpoint_is_back() {
        let mut unlisted = UnlistedLetters::default();
        let mut take = |lines, at_once, at: u32| {
            unlisted.take("dlq", lines, at_once, Duration::from_millis(900) * at).len()
        };
        take(vec![line()], false, 0);
        let waits: Vec<_> =
            (1..=13).map(|at| take(if at == 1 { vec![line()] } else { vec![] }, false, at)).collect();
        assert_eq!(waits.iter().position(|written| *written == 1), Some(12), "after 10.8 s: {waits:?}");
        assert_eq!((take(vec![line()], false, 14), take(vec![], true, 15)), (0, 1));
        assert_eq!(
            unlisted.take("other", vec![line()], false, Duration::from_secs(13)).len(),
            1,
            "each queue for itself"
        );
        assert_eq!(unlisted.take("other", vec![line(); 1_000], false, Duration::from_secs(13)).len(), 1_000);
    }
}
