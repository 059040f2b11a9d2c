//! Tests that the laws of replays find what they must find, with stories that contain deliberate faults.
#![allow(clippy::unwrap_used, reason = "tests")]

use redrive_laws::replays::{BucketObjects, ReplayBooks, ReplayVerdict, identity};
use redrive_proof::loss::replay::SELECTED;
use serde_json::json;

const REPLAYS: &str = "my-bucket/dead-letters-control/replays";

/// A replay, in short. Each letter has a ledger of its own.
struct ReplayStory {
    books: ReplayBooks,
    bucket: BucketObjects,
}

/// Returns the identity of a letter.
fn id(who: usize) -> String {
    format!("letter-{who}")
}

fn ledger(who: usize) -> String {
    format!("{REPLAYS}/queues/queue=q/hour=20261101T12/{who:06}.json")
}

impl ReplayStory {
    /// Returns a replay in which all letters were sent, except these, which are untouched so far.
    fn without(left_out: &[usize]) -> Self {
        let ids = (0..=SELECTED).map(|who| (id(who), who)).collect();
        let mut story = Self { books: ReplayBooks::new(ids, SELECTED), bucket: BucketObjects::new() };
        story.bucket.insert(format!("{REPLAYS}/queues/queue=q/hour=20261101T12/cuts.json"), "{}".to_owned());
        story.tells("done", SELECTED, 0);
        for who in (0..SELECTED).filter(|who| !left_out.contains(who)) {
            story.sent(who, 1, true);
            story.recorded(who, "sent", 0);
        }
        story
    }

    fn tells(&mut self, status: &str, sent: usize, repeated: u64) {
        let counts = json!({ "sent": sent, "repeated": repeated });
        let state = json!({ "id": "r", "status": status, "counts": counts });
        self.bucket.insert(format!("{REPLAYS}/r/replay.json"), state.to_string());
    }

    fn sent(&mut self, who: usize, run: usize, heard: bool) {
        self.books.arrived(who, run, heard, 0, &self.bucket);
    }

    fn recorded(&mut self, who: usize, state: &str, repeated: u64) {
        let entry = json!({ "replay": "r", state: [id(who)], "repeated": repeated });
        self.bucket.insert(ledger(who), json!({ "version": 1, "entries": [entry] }).to_string());
    }

    fn judge(&self) -> ReplayVerdict {
        self.books.judge(&self.bucket)
    }

    fn violations(&self) -> Vec<String> {
        self.judge().violations
    }
}

#[test]
fn a_replay_that_sent_and_recorded_every_letter_is_good() {
    let good = ReplayVerdict { arrived: SELECTED, ..ReplayVerdict::default() };
    assert_eq!(ReplayStory::without(&[]).judge(), good);
}

#[test]
fn a_requeue_that_drops_a_letter_loses_it_whatever_the_ledger_says() {
    let mut story = ReplayStory::without(&[3]);
    story.recorded(3, "sent", 0);
    let verdict = story.judge();
    assert_eq!((verdict.arrived, verdict.lost), (SELECTED - 1, 1));
    assert_eq!(verdict.violations, ["letter 3 is lost"]);
}

#[test]
fn a_bucket_that_forgets_a_ledger_is_found() {
    let mut story = ReplayStory::without(&[3]);
    story.sent(3, 1, true);
    story.tells("done", SELECTED - 1, 0);
    assert_eq!(story.violations(), ["no ledger says that letter 3 was sent"]);
    story.recorded(3, "sending", 0);
    let in_doubt = format!("{} has letters in doubt", ledger(3));
    assert_eq!(story.violations(), ["no ledger says that letter 3 was sent", &in_doubt]);
}

#[test]
fn a_duplicate_needs_a_cause_in_the_sending_before_it() {
    let twice = |heard: bool, cause: fn(&mut ReplayBooks)| {
        let mut story = ReplayStory::without(&[3]);
        story.sent(3, 1, heard);
        cause(&mut story.books);
        story.sent(3, 2, true);
        story.recorded(3, "sent", 1);
        story.tells("done", SELECTED, 1);
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
fn every_duplicate_is_counted_also_within_an_invocation() {
    for run in [1, 2] {
        let mut story = ReplayStory::without(&[3]);
        story.sent(3, 1, false);
        story.sent(3, run, true);
        story.recorded(3, "sent", 0);
        assert_eq!(story.violations(), ["1 letters are sent again, and 0 are counted"]);
    }
}

#[test]
fn letters_that_are_deleted_unsent_are_told_to_be_gone() {
    let (queue, message) = (redrive_sim::arn("sqs", "q"), "m");
    let mut story = ReplayStory::without(&[3]);
    let ids =
        (0..=SELECTED).map(|who| (if who == 3 { identity("q", message) } else { id(who) }, who)).collect();
    story.books = ReplayBooks::new(ids, SELECTED);
    for who in (0..SELECTED).filter(|who| *who != 3) {
        story.bucket.remove(&ledger(who));
        story.sent(who, 1, true);
        story.recorded(who, "sent", 0);
    }
    story.books.deleted(&json!({ "queueArn": queue, "message": { "messageId": message } }).to_string());
    let tells = |story: &mut ReplayStory, gone: u64| {
        let counts = json!({ "sent": SELECTED - 1, "gone": gone });
        let state = json!({ "id": "r", "status": "done", "counts": counts });
        story.bucket.insert(format!("{REPLAYS}/r/replay.json"), state.to_string());
    };
    tells(&mut story, 0);
    assert_eq!(story.violations(), ["1 letters were deleted unsent, and 0 are told to be gone"]);
    tells(&mut story, 1);
    let verdict = story.judge();
    assert_eq!((verdict.arrived, verdict.lost, verdict.gone), (SELECTED - 1, 0, 1));
    assert_eq!(verdict.violations, [""; 0]);
}

#[test]
fn a_letter_that_is_said_to_come_back_is_found() {
    let mut story = ReplayStory::without(&[]);
    story.books.kept("{}", &json!({ "id": "r", "cameBack": 2 }).to_string(), 0);
    assert_eq!(story.violations(), ["no letter is given up, and 2 are said to come back"]);
}

#[test]
fn a_replay_that_tells_other_counts_than_its_ledgers_is_found() {
    let mut story = ReplayStory::without(&[]);
    story.tells("done", SELECTED - 1, 0);
    let key = format!("{REPLAYS}/r/replay.json");
    assert_eq!(story.violations(), [format!("{key} tells {} sent, its ledgers {SELECTED}", SELECTED - 1)]);
    story.tells("done", SELECTED, 2);
    assert_eq!(story.violations(), [format!("{key} tells 2 repeated, its ledgers 0")]);
}

#[test]
fn a_claim_that_is_left_behind_is_found() {
    let mut story = ReplayStory::without(&[]);
    let claimed = json!({ "claim": { "replay": "r" }, "entries": [{ "replay": "r", "sent": [id(3)] }] });
    story.bucket.insert(ledger(3), claimed.to_string());
    assert_eq!(story.violations(), [format!("{} is still claimed", ledger(3))]);
}

#[test]
fn what_a_ledger_calls_sent_is_not_sent_again_not_even_after_a_kill() {
    let mut story = ReplayStory::without(&[]);
    story.books.killed(1);
    story.sent(3, 2, true);
    story.recorded(3, "sent", 1);
    story.tells("done", SELECTED, 1);
    assert_eq!(story.violations(), ["letter 3 is sent again, and a ledger says that it was sent"]);
}

#[test]
fn a_letter_that_was_not_selected_is_found() {
    let mut story = ReplayStory::without(&[]);
    story.sent(SELECTED, 1, true);
    assert_eq!(story.violations(), [format!("letter {SELECTED} was not selected")]);
}

#[test]
fn a_replay_that_does_not_end_as_done_is_found() {
    let mut story = ReplayStory::without(&[]);
    story.tells("settling", SELECTED, 0);
    assert_eq!(story.violations(), [format!("{REPLAYS}/r/replay.json ends as \"settling\"")]);
}

/// Returns the violations of a replay of two steps, of 6 and 24 letters. `second` is a letter of the second
/// step that comes before the first step is written as over. `behind` is the number of letters behind the
/// replay at that time. `looked` is the second at which a process looked what waits, and `kept` the second at
/// which the end of the step was written.
fn wrong_in_ramp(second: Option<usize>, behind: usize, looked: i64, kept: i64) -> Vec<String> {
    let key = format!("{REPLAYS}/r/replay.json");
    let state = |stage: usize, sent: usize| {
        let request = json!({ "ramp": [20, 100], "settleSeconds": 3 });
        let (counts, place) = (json!({ "sent": sent }), json!({ "stage": stage }));
        let status = if stage == 2 { "done" } else { "running" };
        json!({ "id": "r", "status": status, "request": request, "letters": SELECTED, "counts": counts, "place": place })
            .to_string()
    };
    let ids = (0..=SELECTED).map(|who| (id(who), who)).collect();
    let mut story = ReplayStory { books: ReplayBooks::new(ids, SELECTED), bucket: BucketObjects::new() };
    let came = |story: &mut ReplayStory, who: usize, second: i64| {
        story.books.arrived(who, 1, true, second * 1000, &story.bucket);
        story.recorded(who, "sent", 0);
    };
    story.bucket.insert(key.clone(), state(0, 0));
    for who in (0..6).chain(second) {
        came(&mut story, who, 10);
    }
    story.books.looked(looked * 1000);
    story.books.kept(&state(0, 0), &state(1, behind), kept * 1000);
    story.bucket.insert(key.clone(), state(1, behind));
    for who in (6..SELECTED).filter(|who| Some(*who) != second) {
        came(&mut story, who, 20);
    }
    story.bucket.insert(key, state(2, SELECTED));
    story.violations()
}

#[test]
fn no_letter_goes_before_the_step_before_it_is_sent_has_settled_and_was_judged() {
    let none: [&str; 0] = [];
    assert_eq!(wrong_in_ramp(None, 6, 13, 13), none);
    assert_eq!(
        wrong_in_ramp(Some(6), 6, 13, 13),
        ["letter 6 is number 7, and the step under way has 6"],
        "the ramp is switched off"
    );
    assert_eq!(wrong_in_ramp(None, 5, 13, 13), ["a step of 6 letters is over, and 5 were sent"]);
    assert_eq!(wrong_in_ramp(None, 6, 12, 12), ["a step is over before it has settled"]);
    assert_eq!(wrong_in_ramp(None, 6, 12, 13), ["a step is over, and nobody looked what waits"]);
}

/// Steps end all at once where nothing is left, so then no letter may follow.
#[test]
fn a_step_that_is_passed_over_with_letters_left_is_found() {
    let passed_over = |left: usize| {
        let key = format!("{REPLAYS}/r/replay.json");
        let state = |stage: usize, status: &str| {
            let request = json!({ "ramp": [20, 50, 100], "settleSeconds": 3 });
            let (counts, place) = (json!({ "sent": SELECTED }), json!({ "stage": stage }));
            json!({ "id": "r", "status": status, "request": request, "letters": SELECTED, "counts": counts, "place": place })
                .to_string()
        };
        let ids = (0..=SELECTED).map(|who| (id(who), who)).collect();
        let mut story = ReplayStory { books: ReplayBooks::new(ids, SELECTED), bucket: BucketObjects::new() };
        story.bucket.insert(key.clone(), state(0, "running"));
        for who in 0..SELECTED {
            if who == SELECTED - left {
                story.books.kept(&state(0, "running"), &state(2, "running"), 30_000);
                story.bucket.insert(key.clone(), state(2, "running"));
            }
            story.books.arrived(who, 1, true, if who < 6 { 10_000 } else { 40_000 }, &story.bucket);
            story.recorded(who, "sent", 0);
        }
        story.bucket.insert(key, state(3, "done"));
        story.violations()
    };
    let found = passed_over(SELECTED - 6);
    assert_eq!(found.len(), SELECTED - 6);
    assert_eq!(found[0], "letter 6 comes after steps were passed over because nothing was left");
}

#[test]
fn a_letter_that_overtakes_another_of_its_group_is_found_and_a_repetition_is_none() {
    let come = |order: &[usize]| {
        let left_out: Vec<_> = (0..4).collect();
        let mut story = ReplayStory::without(&left_out);
        let groups = (0..4).map(|who| (who, format!("group {}", who % 2))).collect();
        story.books = std::mem::take(&mut story.books).in_order(groups);
        for who in order {
            story.sent(*who, 1, false);
        }
        for who in &left_out {
            let times = order.iter().filter(|it| *it == who).count() as u64;
            story.recorded(*who, "sent", times - 1);
        }
        story.tells("done", SELECTED, (order.len() - left_out.len()) as u64);
        story.violations()
    };
    let none: [&str; 0] = [];
    assert_eq!(come(&[1, 0, 2, 3]), none, "groups go side by side");
    assert_eq!(come(&[0, 2, 0, 2, 1, 3]), none, "a crash repeats what was under way");
    assert_eq!(come(&[2, 0, 1, 3]), ["letter 0 of group 0 comes after letter 2"]);
}
