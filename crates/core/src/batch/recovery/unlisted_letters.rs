//! The lines that an instance has not listed yet.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::waiting::WaitingLetter;

/// The largest number of lines that are kept to be listed anew. More are left to their schedules.
const MOST_LEFT: usize = 2_000;

/// The number of lines in an object beyond those of the invocation. The function reads no object of several thousand.
const MOST_OLD_LINES: usize = 1_000;

/// The number of invocations whose lines go into one object, and the longest time for which lines wait for it.
const MOST_JOINED: u32 = 10;
const JOINED_FOR: Duration = Duration::from_secs(10);

/// The number of lines that wait for no more.
const MOST_LINES: usize = 500;

/// The time without an invocation after which an instance is quiet, and the time without quiet after which it is busy. A burst of
/// letters is listed at once: nobody knows when the next invocation comes.
const QUIET_AFTER: Duration = Duration::from_secs(1);
const BUSY_AFTER: Duration = Duration::from_mins(1);

/// The lines of one queue.
#[derive(Debug, Default)]
struct QueueLines {
    /// Those of the last invocations, which go into one object.
    joined: Vec<WaitingLetter>,
    /// The number of these invocations, and the age of the instance at the first.
    invocations: u32,
    since: Duration,
    /// The age of the instance at the end of its last invocation for the queue, and since when there was one each second.
    ended: Option<Duration>,
    busy_since: Duration,
    /// Those that were claimed and not woken, and the time from which on they may be listed anew.
    left: Vec<WaitingLetter>,
    left_until: Timestamp,
}

/// The lines of all queues.
#[derive(Debug, Default)]
pub(in crate::batch) struct UnlistedLetters(HashMap<String, QueueLines>);

/// The invocation that hides letters.
#[derive(Debug, Clone, Copy)]
pub(in crate::batch) struct ListingInvocation {
    /// The age of the instance at its beginning, and now.
    pub(in crate::batch) began: Duration,
    pub(in crate::batch) age: Duration,
    pub(in crate::batch) at: Timestamp,
    /// True if letters of this queue are being woken: then all instances are to find them.
    pub(in crate::batch) wakes: bool,
}

impl UnlistedLetters {
    /// Adds the lines of an invocation, and returns those that are to be listed now. A busy instance lists those of several
    /// invocations at once.
    pub(in crate::batch) fn add(
        &mut self,
        queue: &str,
        lines: Vec<WaitingLetter>,
        now: ListingInvocation,
    ) -> Vec<WaitingLetter> {
        let known = self.0.entry(queue.to_owned()).or_default();
        let ended = known.ended.replace(now.age);
        if ended.is_none_or(|ended| now.began.saturating_sub(ended) >= QUIET_AFTER) {
            known.busy_since = now.began;
        }
        let is_busy = now.began.saturating_sub(known.busy_since) >= BUSY_AFTER;
        if known.joined.is_empty() {
            (known.invocations, known.since) = (0, now.began);
        }
        known.invocations += u32::from(!lines.is_empty());
        known.joined.extend(lines);
        let is_full = known.invocations >= MOST_JOINED
            || known.joined.len() >= MOST_LINES
            || now.age.saturating_sub(known.since) >= JOINED_FOR;
        let mut listed = Vec::new();
        if now.at > known.left_until {
            let room = MOST_OLD_LINES.saturating_sub(known.joined.len());
            listed.extend(known.left.drain(..room.min(known.left.len())));
        }
        // The newest lines come last: a letter may have several.
        if !is_busy || is_full || now.wakes {
            listed.append(&mut known.joined);
        }
        // What has shown meanwhile waits no more.
        listed.retain(|line| line.shows() > now.at);
        listed
    }

    /// Keeps lines that were claimed and not woken, to list them anew after that time. Before it, they would be claimed again
    /// at once.
    pub(super) fn leave(&mut self, queue: &str, lines: Vec<WaitingLetter>, after: Timestamp) {
        let known = self.0.entry(queue.to_owned()).or_default();
        known.left_until = if known.left.is_empty() { after } else { after.max(known.left_until) };
        known.left.extend(lines);
        known.left.truncate(MOST_LEFT);
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;

    fn line(number: usize) -> WaitingLetter {
        let line = json!({ "letterId": number.to_string(), "messageId": number.to_string(), "receiptHandle": "h",
            "rule": "default", "queueArn": "arn:aws:sqs:eu-central-1:123456789012:dlq",
            "retry": { "number": 1, "of": 2 }, "since": "2026-11-01T12:00:00Z", "due": "2026-11-01T13:00:00Z" });
        serde_json::from_value(line).unwrap()
    }

    /// Returns an invocation that begins so many milliseconds after noon and takes a tenth of a second.
    fn invocation(millis: u64) -> ListingInvocation {
        let noon: Timestamp = "2026-11-01T12:00:00Z".parse().unwrap();
        let (began, age) = (Duration::from_millis(millis), Duration::from_millis(millis + 100));
        ListingInvocation { began, age, at: noon + SignedDuration::try_from(age).unwrap(), wakes: false }
    }

    /// Returns what an instance remembers that has been busy with these queues for a minute.
    fn busy(queues: &[&str]) -> UnlistedLetters {
        let mut unlisted = UnlistedLetters::default();
        for number in 0..150 {
            for queue in queues {
                assert_eq!(unlisted.add(queue, vec![], invocation(number * 500)), []);
            }
        }
        unlisted
    }

    /// The beginning of the next invocation of such an instance.
    const NEXT: u64 = 75_000;

    #[test]
    fn an_instance_lists_at_once_unless_it_has_been_busy_for_a_minute() {
        let mut unlisted = UnlistedLetters::default();
        for number in 0..100 {
            assert_eq!(unlisted.add("dlq", vec![line(0)], invocation(number * 500)), [line(0)]);
        }
        let mut unlisted = busy(&["dlq"]);
        assert_eq!(unlisted.add("dlq", vec![line(0)], invocation(NEXT + 1_100)), [line(0)], "it was quiet");
    }

    #[test]
    fn a_busy_instance_lists_the_lines_of_ten_invocations_or_ten_seconds() {
        let mut unlisted = busy(&["dlq"]);
        let mut add = |at, lines| unlisted.add("dlq", lines, invocation(NEXT + at)).len();
        let listed: Vec<_> = (0..20).map(|number| add(number * 200, vec![line(0)])).collect();
        assert_eq!(listed.iter().filter(|lines| **lines > 0).count(), 2, "{listed:?}");
        assert_eq!((listed[9], listed[19]), (10, 10));
        assert_eq!(add(4_000, vec![line(0), line(1)]), 0);
        let later: Vec<_> = (1..=20).map(|number| add(4_000 + number * 500, vec![])).collect();
        assert_eq!(
            later.iter().position(|lines| *lines == 2),
            Some(19),
            "an invocation that hides nothing lists them"
        );
        assert_eq!(add(14_500, vec![line(2)]), 0);
        assert_eq!(add(16_000, vec![]), 1, "it was quiet");
    }

    #[test]
    fn the_lines_of_large_batches_are_not_joined() {
        let mut unlisted = busy(&["dlq"]);
        let mut add = |at, letters| unlisted.add("dlq", vec![line(0); letters], invocation(NEXT + at)).len();
        assert_eq!([add(0, 400), add(200, 100), add(400, 1_000), add(600, 10)], [0, 500, 1_000, 0]);
    }

    #[test]
    fn what_shows_meanwhile_is_not_listed() {
        let mut unlisted = busy(&["dlq"]);
        assert_eq!(unlisted.add("dlq", vec![line(0)], invocation(NEXT)), []);
        assert_eq!(unlisted.add("dlq", vec![], invocation(3_600_000)), []);
    }

    #[test]
    fn lines_are_listed_at_once_while_letters_are_woken() {
        let mut unlisted = busy(&["dlq"]);
        assert_eq!(unlisted.add("dlq", vec![line(0)], invocation(NEXT)), []);
        let wakes = ListingInvocation { wakes: true, ..invocation(NEXT + 200) };
        assert_eq!(unlisted.add("dlq", vec![line(1)], wakes).len(), 2);
    }

    /// An instance has the letters of a queue and its requeue.
    #[test]
    fn each_queue_has_objects_of_its_own() {
        let mut unlisted = busy(&["dlq", "requeue"]);
        assert_eq!(unlisted.add("dlq", vec![line(0)], invocation(NEXT)), []);
        assert_eq!(unlisted.add("requeue", vec![line(1)], invocation(NEXT + 200)), []);
        assert_eq!(unlisted.add("requeue", vec![], invocation(NEXT + 1_000)), []);
        assert_eq!(unlisted.add("requeue", vec![], invocation(NEXT + 2_200)), [line(1)]);
        assert_eq!(
            unlisted.add("dlq", vec![line(2)], invocation(NEXT + 2_400)).len(),
            2,
            "none came for the queue"
        );
    }

    #[test]
    fn lines_to_be_listed_anew_make_no_large_object() {
        let mut unlisted = UnlistedLetters::default();
        unlisted.leave("dlq", vec![line(0); 1_500], invocation(0).at);
        let mut add = |at, letters| unlisted.add("dlq", vec![line(1); letters], invocation(at)).len();
        assert_eq!([add(2_000, 100), add(4_000, 0), add(6_000, 0)], [1_000, 600, 0]);
    }

    #[test]
    fn lines_that_were_claimed_and_not_woken_are_listed_anew_later() {
        let mut unlisted = UnlistedLetters::default();
        let at = |millis| invocation(millis).at;
        unlisted.leave("dlq", vec![line(0)], at(5_000));
        unlisted.leave("dlq", vec![line(1)], at(7_000));
        assert_eq!(unlisted.add("dlq", vec![], invocation(7_000)), []);
        assert_eq!(unlisted.add("dlq", vec![], invocation(7_100)), [line(0), line(1)]);
        assert_eq!(unlisted.add("dlq", vec![], invocation(7_200)), []);
    }
}
