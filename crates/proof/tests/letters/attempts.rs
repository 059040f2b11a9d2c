//! Attempts, marks and reasons to archive.

use redrive_laws::letters::{
    CallEffect, CallResponse, LifeEvent, Plan, RequiredEnd, RequiredOrder, RunEnd, SentPlace,
};

use super::LedgerStory;

#[test]
fn nothing_is_archived_without_a_reason() {
    let archived = |refused: bool, end: RequiredEnd| {
        let mut story = LedgerStory::new();
        let who = story.letter(end, None);
        if refused {
            story.refused_often(who, 2);
        }
        let run = story.run(who);
        if refused {
            story.refused(who, run);
        }
        story.sent(who, run, SentPlace::Archive, CallEffect::Taken, CallResponse::Done);
        story.end(who, run, RunEnd::Heard, true);
        story.wrong()
    };
    assert_eq!(archived(true, RequiredEnd::Delivered), Vec::<String>::new());
    let unfounded = ["exhausted after 0 of 3 retries", "archived as exhausted without a reason"];
    assert_eq!(archived(false, RequiredEnd::Delivered), unfounded);
    assert_eq!(archived(false, RequiredEnd::Archived("exhausted")), unfounded);
}

/// Three refusals use up all retries, but not before the last can be due.
#[test]
fn nothing_is_exhausted_too_early() {
    let mut story = LedgerStory::new();
    let who = story.letter_due(RequiredEnd::Delivered, 60_000);
    story.refused_often(who, 2);
    let run = story.run(who);
    story.refused(who, run);
    story.sent(who, run, SentPlace::Archive, CallEffect::Taken, CallResponse::Done);
    story.end(who, run, RunEnd::Heard, true);
    assert_eq!(story.wrong(), ["archived as exhausted without a reason"]);
}

#[test]
fn a_letter_has_all_its_retries_before_it_is_exhausted() {
    let after = |refusals: usize| {
        let mut story = LedgerStory::new();
        let who = story.letter(RequiredEnd::Delivered, None);
        story.refused_often(who, refusals);
        story.exhausted(who);
        story.wrong()
    };
    assert_eq!(after(2), ["exhausted after 2 of 3 retries"]);
    assert_eq!(after(3), Vec::<String>::new());
}

#[test]
fn a_receive_that_could_make_no_attempt_counts_for_one() {
    let with = |ending: RunEnd| {
        let mut story = LedgerStory::new();
        let who = story.letter(RequiredEnd::Delivered, None);
        story.refused_often(who, 2);
        let run = story.run(who);
        if ending == RunEnd::Heard {
            let what = LifeEvent::Hidden { seconds: 1, done: true, response: CallResponse::Done };
            story.ledger.fact(who, who, Some(run), what);
        }
        story.end(who, run, ending, false);
        story.exhausted(who);
        story.wrong()
    };
    assert_eq!(with(RunEnd::Killed), Vec::<String>::new());
    assert_eq!(with(RunEnd::Heard), ["exhausted after 2 of 3 retries"]);

    // Its target is left alone after a call without an answer, whoever made it.
    let after = |trouble: bool| {
        let mut story = LedgerStory::new();
        let who = story.letter(RequiredEnd::Delivered, None);
        story.refused_often(who, 2);
        if trouble {
            story.ledger.trouble();
        }
        let run = story.run(who);
        story.end(who, run, RunEnd::Heard, false);
        story.exhausted(who);
        story.wrong()
    };
    assert_eq!(after(true), Vec::<String>::new());
    assert_eq!(after(false), ["exhausted after 2 of 3 retries"]);

    // The letter lies behind the head of its group, which goes first.
    let held = |together: bool| {
        let mut story = LedgerStory::new();
        let (head, next) = (
            story.letter(RequiredEnd::Delivered, Some("g")),
            story.letter(RequiredEnd::Delivered, Some("g")),
        );
        for _ in 0..2 {
            let run = story.run(head);
            story.refused(head, run);
            let run = if together { run } else { story.ledger.begin(&"fn".into(), 60_000) };
            story.ledger.fact(next, next, Some(run), LifeEvent::Handed);
            let what = LifeEvent::Hidden { seconds: 0, done: true, response: CallResponse::Done };
            story.ledger.fact(next, next, Some(run), what);
            story.end(head, run, RunEnd::Heard, false);
        }
        let run = story.run(head);
        story.delivered(head, run);
        story.end(head, run, RunEnd::Heard, true);
        story.refused_often(next, 1);
        story.exhausted(next);
        story.wrong()
    };
    assert_eq!(held(true), Vec::<String>::new());
    assert_eq!(held(false)[0], "exhausted after 1 of 3 retries");
}

/// The archive and the requeue both use that number.
#[test]
fn a_mark_counts_no_retry_that_was_not_made() {
    let moved = |spent: usize| {
        let mut story = LedgerStory::new();
        let who = story.letter(RequiredEnd::Delivered, None);
        let run = story.run(who);
        story.refused(who, run);
        let copy = 7;
        story.queued.insert(copy);
        story.ledger.fact(who, copy, None, LifeEvent::Queued { queue: "payments-requeue".to_owned(), spent });
        story.sent(who, run, SentPlace::Requeue, CallEffect::Taken, CallResponse::Done);
        story.end(who, run, RunEnd::Heard, true);
        story.wrong()
    };
    assert_eq!(moved(1), Vec::<String>::new());
    assert_eq!(moved(3), ["moved with 3 retries behind it, of which 1 can have been made"]);
}

#[test]
fn what_is_for_the_archive_is_not_delivered() {
    let mut story = LedgerStory::new();
    let who = story.letter(RequiredEnd::Archived("rule"), None);
    let run = story.run(who);
    story.delivered(who, run);
    story.end(who, run, RunEnd::Heard, true);
    assert_eq!(story.wrong(), ["delivered, though it is one for the archive (rule)"]);
}

#[test]
fn more_attempts_than_retries_need_an_excuse() {
    let attempts = |ending: RunEnd| {
        let mut story = LedgerStory::new();
        let who = story.letter(RequiredEnd::Delivered, None);
        for _ in 0..4 {
            let run = story.run(who);
            story.refused(who, run);
            story.end(who, run, ending, false);
        }
        story.wrong()
    };
    assert_eq!(attempts(RunEnd::Heard), ["message 0 had 4 attempts, its schedule has 3"]);
    assert_eq!(attempts(RunEnd::Killed), Vec::<String>::new());
}

#[test]
fn receives_before_a_move_count_where_the_source_could_not_be_asked() {
    let wrong = |asked: bool| {
        let mut story = LedgerStory::new();
        let who = story.planned(Plan {
            group: None,
            order: RequiredOrder::OfEachQueue,
            end: Some(RequiredEnd::Delivered),
            retries: 5,
            last_due: 0,
            receives_before: 3,
            kind: "moved by SQS".to_owned(),
        });
        let run = story.run(who);
        if !asked {
            story.ledger.fact(who, who, Some(run), LifeEvent::Uncounted);
        }
        let what = LifeEvent::Sent {
            place: SentPlace::Target,
            effect: CallEffect::Taken,
            response: CallResponse::Done,
            wrong: None,
            spent: Some(4),
            reason: None,
        };
        story.ledger.fact(who, who, Some(run), what);
        story.end(who, run, RunEnd::Heard, true);
        story.wrong()
    };
    assert_eq!(wrong(false), [""; 0]);
    assert_eq!(wrong(true), ["attempt 1 at most, and its number is 4"]);
}
