//! The books of a replay find what they are there to find: worlds that are wrong on purpose.
#![allow(clippy::unwrap_used, reason = "tests")]

use proof::loss::replay::{Books, Objects, SELECTED, Verdict};
use serde_json::json;

const MANIFEST: &str = "graveyard/dead-letters/replays/r/manifest.json";

/// A replay, told in short.
struct Story {
    books: Books,
    bucket: Objects,
    batches: usize,
}

/// Returns the id of a letter's message.
fn id(who: usize) -> String {
    format!("message-{who}")
}

impl Story {
    /// A replay in which all went well but for these letters, which nothing happened to yet.
    fn without(left_out: &[usize]) -> Self {
        let ids = (0..=SELECTED).map(|who| (id(who), who)).collect();
        let mut story = Self { books: Books::new(ids), bucket: Objects::new(), batches: 0 };
        story.bucket.insert(MANIFEST.to_owned(), json!({ "status": "done" }).to_string());
        for who in (0..SELECTED).filter(|who| !left_out.contains(who)) {
            story.sent(who, 1, true);
            story.recorded(who, "sent");
        }
        story
    }

    fn sent(&mut self, who: usize, run: usize, heard: bool) {
        self.books.arrived(who, run, heard, &self.bucket);
    }

    fn recorded(&mut self, who: usize, state: &str) {
        self.batches += 1;
        let key = format!("graveyard/dead-letters/replays/r/batches/{:08}.jsonl", self.batches);
        self.bucket.insert(key, json!({ "messageId": id(who), "state": state }).to_string());
    }

    fn judge(&self) -> Verdict {
        self.books.judge(&self.bucket)
    }

    fn violations(&self) -> Vec<String> {
        self.judge().violations
    }
}

#[test]
fn a_replay_that_sent_and_recorded_every_letter_is_good() {
    let good = Verdict { arrived: SELECTED, ..Verdict::default() };
    assert_eq!(Story::without(&[]).judge(), good);
}

#[test]
fn a_requeue_that_drops_a_letter_loses_it_whatever_the_ledger_says() {
    let mut story = Story::without(&[3]);
    story.recorded(3, "sent");
    let verdict = story.judge();
    assert_eq!((verdict.arrived, verdict.lost), (SELECTED - 1, 1));
    assert_eq!(verdict.violations, ["letter 3 is lost"]);
}

#[test]
fn a_bucket_that_forgets_a_ledger_is_found() {
    let mut story = Story::without(&[3]);
    story.sent(3, 1, true);
    assert_eq!(story.violations(), ["no ledger says that letter 3 was sent"]);
    story.recorded(3, "sending");
    assert_eq!(story.violations(), ["no ledger says that letter 3 was sent"], "that says less");
}

#[test]
fn a_duplicate_needs_a_cause_in_the_sending_before_it() {
    let twice = |heard: bool, cause: fn(&mut Books)| {
        let mut story = Story::without(&[3]);
        story.sent(3, 1, heard);
        cause(&mut story.books);
        story.sent(3, 2, true);
        story.recorded(3, "sent");
        assert_eq!(story.judge().duplicates, 1);
        story.violations()
    };
    let none: [&str; 0] = [];
    assert_eq!(twice(false, |_| ()), none);
    assert_eq!(twice(true, |books| books.killed(1)), none);
    assert_eq!(twice(true, |books| books.unwritten(1)), none);
    let broken = ["letter 3 is sent again without a cause"];
    assert_eq!(twice(true, |_| ()), broken);
    assert_eq!(twice(true, |books| books.killed(2)), broken, "that came later");
    assert_eq!(twice(true, |books| books.unwritten(2)), broken, "that came later");
}

#[test]
fn what_a_ledger_calls_sent_is_not_sent_again_not_even_after_a_kill() {
    let mut story = Story::without(&[]);
    story.books.killed(1);
    story.sent(3, 2, true);
    assert_eq!(story.violations(), ["letter 3 is sent again, and a ledger says that it was sent"]);
}

#[test]
fn a_letter_that_was_not_selected_is_found() {
    let mut story = Story::without(&[]);
    story.sent(SELECTED, 1, true);
    assert_eq!(story.violations(), [format!("letter {SELECTED} was not selected")]);
}

#[test]
fn a_replay_that_does_not_end_as_done_is_found() {
    let mut story = Story::without(&[]);
    story.bucket.insert(MANIFEST.to_owned(), json!({ "status": "settling" }).to_string());
    assert_eq!(story.violations(), [format!("{MANIFEST} ends as \"settling\"")]);
}
