//! How messages leave their queues, and where letters end.

use std::collections::{BTreeMap, BTreeSet};

use redrive_laws::letters::{
    CallEffect, CallResponse, Circumstances, DeleteObstacle, JudgedLetter, LifeEvent, RequiredEnd, RunEnd,
    SentPlace, judge,
};

use super::{LedgerStory, good};

#[test]
fn a_letter_that_is_delivered_and_deleted_is_fine() {
    let verdict = good().verdict();
    assert_eq!((verdict.letters, verdict.delivered, verdict.lost), (1, 1, 0));
    assert!(verdict.is_good());
}

#[test]
fn a_letter_that_is_deleted_untaken_is_lost() {
    let mut story = LedgerStory::new();
    let who = story.letter(RequiredEnd::Delivered, None);
    let run = story.run(who);
    story.refused(who, run);
    story.end(who, run, RunEnd::Heard, true);
    assert_eq!(story.verdict().lost, 1);
    assert_eq!(
        story.wrong(),
        [
            "lost: neither delivered nor archived nor in a queue",
            "message 0 was let go before it was known to be safe"
        ]
    );
}

#[test]
fn a_letter_that_arrives_after_it_was_deleted_was_in_danger() {
    let mut story = LedgerStory::new();
    let who = story.letter(RequiredEnd::Delivered, None);
    let run = story.run(who);
    story.end(who, run, RunEnd::Heard, true);
    story.delivered(who, run);
    assert_eq!(story.verdict().lost, 0);
    assert_eq!(story.wrong(), ["message 0 was let go before it was known to be safe"]);
}

#[test]
fn a_letter_that_waits_is_queued_and_not_lost() {
    let mut story = LedgerStory::new();
    let who = story.letter(RequiredEnd::Delivered, None);
    let run = story.run(who);
    story.refused(who, run);
    story.end(who, run, RunEnd::Heard, false);
    assert_eq!((story.verdict().queued, story.wrong()), (1, vec![]));
}

#[test]
fn what_arrives_changed_is_lost() {
    let mut story = LedgerStory::new();
    let who = story.letter(RequiredEnd::Delivered, None);
    let run = story.run(who);
    let wrong = Some("body: \"a\", not \"b\"".to_owned());
    let (place, effect, response) = (SentPlace::Target, CallEffect::Taken, CallResponse::Done);
    let what = LifeEvent::Sent { place, effect, response, wrong, spent: None, reason: None };
    story.ledger.fact(who, who, Some(run), what);
    story.end(who, run, RunEnd::Heard, true);
    assert_eq!(story.verdict().lost, 1);
    assert!(story.wrong().contains(&"what arrived is not the letter: body: \"a\", not \"b\"".to_owned()));
}

/// Returns the story of a letter that is delivered in two invocations, of which the first ended like this.
fn twice(response: CallResponse, ending: RunEnd, not_deleted: bool) -> LedgerStory {
    let mut story = LedgerStory::new();
    let who = story.letter(RequiredEnd::Delivered, None);
    let run = story.run(who);
    story.sent(who, run, SentPlace::Target, CallEffect::Taken, response);
    if not_deleted {
        story.ledger.fact(who, who, Some(run), LifeEvent::NotDeleted);
    }
    story.end(who, run, ending, false);
    let run = story.run(who);
    story.delivered(who, run);
    story.end(who, run, RunEnd::Heard, true);
    story
}

#[test]
fn a_duplicate_is_explained_by_what_happened_after_the_effect_and_by_nothing_else() {
    let refused = CallResponse::Refused { for_good: false };
    for (response, ending, not_deleted, cause) in [
        (CallResponse::Done, RunEnd::Heard, false, None),
        (CallResponse::Nothing, RunEnd::Heard, false, Some(DeleteObstacle::Unanswered)),
        (CallResponse::Nothing, RunEnd::Unheard, false, Some(DeleteObstacle::Unanswered)),
        (refused, RunEnd::Heard, false, Some(DeleteObstacle::Refused)),
        (CallResponse::Done, RunEnd::Unheard, false, Some(DeleteObstacle::Unheard)),
        (CallResponse::Done, RunEnd::Killed, false, Some(DeleteObstacle::Killed)),
        (CallResponse::Nothing, RunEnd::Killed, false, Some(DeleteObstacle::Killed)),
        (CallResponse::Done, RunEnd::TimedOut, false, Some(DeleteObstacle::TimedOut)),
        (CallResponse::Done, RunEnd::Heard, true, Some(DeleteObstacle::NotDeleted)),
    ] {
        let verdict = twice(response, ending, not_deleted).verdict();
        let explained: BTreeMap<_, _> = cause.into_iter().map(|cause| (cause, 1)).collect();
        assert_eq!(
            (verdict.duplicates, verdict.unexplained, verdict.is_good(), &verdict.causes),
            (1, usize::from(cause.is_none()), cause.is_some(), &explained),
            "{response:?}, {ending:?}, not deleted: {not_deleted}"
        );
    }
}

/// A busy machine answers so late that the function has done without.
#[test]
fn a_duplicate_is_explained_by_an_answer_after_the_time_that_the_function_has_for_the_place() {
    for (place, last) in [(SentPlace::Target, 60), (SentPlace::Archive, 30), (SentPlace::Requeue, 30)] {
        for (second, explained) in [(last - 1, 0), (last, 1)] {
            let mut story = LedgerStory::new();
            let who = story.letter(RequiredEnd::Delivered, None);
            let run = story.run(who);
            story.ledger.pass_to(second * 1_000);
            story.sent(who, run, place, CallEffect::Taken, CallResponse::Done);
            story.end(who, run, RunEnd::Heard, false);
            let run = story.run(who);
            story.delivered(who, run);
            story.end(who, run, RunEnd::Heard, true);
            let verdict = story.verdict();
            assert_eq!(verdict.duplicates, 1, "{place:?}");
            let late = verdict.causes.get(&DeleteObstacle::Late).copied().unwrap_or_default();
            assert_eq!((late, verdict.unexplained), (explained, 1 - explained), "{place:?}, {second} s");
        }
    }
}

#[test]
fn a_letter_that_is_delivered_and_archived_in_one_go_is_an_unexplained_duplicate() {
    let mut story = LedgerStory::new();
    let who = story.letter(RequiredEnd::Delivered, None);
    let run = story.run(who);
    story.refused(who, run);
    story.delivered(who, run);
    story.sent(who, run, SentPlace::Archive, CallEffect::Taken, CallResponse::Done);
    story.end(who, run, RunEnd::Heard, true);
    assert_eq!(story.verdict().unexplained, 1);
}

#[test]
fn a_repetition_may_be_swallowed_and_a_first_time_may_not() {
    let mut story = twice(CallResponse::Nothing, RunEnd::Heard, false);
    let run = story.run(0);
    story.sent(0, run, SentPlace::Target, CallEffect::Swallowed, CallResponse::Done);
    assert_eq!(story.verdict().swallowed, 1);
    assert_eq!(story.wrong(), Vec::<String>::new());

    let mut story = LedgerStory::new();
    let who = story.letter(RequiredEnd::Delivered, None);
    let run = story.run(who);
    story.sent(who, run, SentPlace::Target, CallEffect::Swallowed, CallResponse::Done);
    story.end(who, run, RunEnd::Heard, true);
    assert_eq!(story.verdict().lost, 1);
    assert!(story.wrong().contains(&"message 0 was swallowed as a repetition, and is none".to_owned()));
}

/// The letter has arrived before, but the function cannot know that.
#[test]
fn a_letter_is_not_let_go_by_an_invocation_that_was_told_of_nobody_who_has_it() {
    for what in [LifeEvent::Deleted, LifeEvent::NotDeleted] {
        let mut story = LedgerStory::new();
        let who = story.letter(RequiredEnd::Delivered, None);
        let run = story.run(who);
        story.sent(who, run, SentPlace::Target, CallEffect::Taken, CallResponse::Nothing);
        story.end(who, run, RunEnd::Heard, false);
        let run = story.run(who);
        story.refused(who, run);
        story.ledger.end(run, RunEnd::Heard, None);
        story.ledger.fact(who, who, Some(run), what);
        assert_eq!(story.wrong(), ["message 0 was let go before it was known to be safe"]);
    }
}

/// Circumstances in which queues make copies.
struct CopyingQueues;

impl Circumstances for CopyingQueues {
    fn have_copies(&self) -> bool {
        true
    }
}

#[test]
fn a_copy_of_the_queue_explains_one_duplicate_where_queues_make_copies() {
    let story = |copies: usize| {
        let mut story = good();
        for _ in 0..copies {
            story.ledger.fact(0, 0, None, LifeEvent::Duplicated);
        }
        for _ in 0..2 {
            let run = story.run(0);
            story.delivered(0, run);
            story.end(0, run, RunEnd::Heard, true);
        }
        story
    };
    let unexplained = |story: &LedgerStory| judge(&story.ledger, &story.queued, &CopyingQueues).unexplained;
    assert_eq!([0, 1, 2].map(|copies| unexplained(&story(copies))), [2, 1, 0]);
    assert_eq!(story(2).verdict().unexplained, 2, "real queues of the matrix make none");
}

#[test]
fn a_letter_that_may_be_lost_is_counted_and_no_violation() {
    struct LossyQueues;
    impl Circumstances for LossyQueues {
        fn may_be_lost(&self, letter: &JudgedLetter<'_>) -> bool {
            letter.count(|what| *what == LifeEvent::Expired) > 0
        }
    }
    let verdict = |expired: bool| {
        let mut story = LedgerStory::new();
        let who = story.letter(RequiredEnd::Delivered, None);
        if expired {
            story.ledger.fact(who, who, None, LifeEvent::Expired);
        }
        judge(&story.ledger, &BTreeSet::new(), &LossyQueues)
    };
    assert_eq!(
        [true, false].map(|expired| (verdict(expired).lost, verdict(expired).is_good())),
        [(1, true), (1, false)]
    );
}

#[test]
fn a_batch_that_fails_and_a_stranger_are_violations() {
    let mut story = good();
    let run = story.ledger.begin(&"fn".into(), 60_000);
    story.ledger.end(run, RunEnd::Failed, Some("no batchItemFailures".to_owned()));
    story.ledger.stranger("PutObject of what is no letter".to_owned());
    assert_eq!(
        story.wrong(),
        ["PutObject of what is no letter", "invocation 1 failed as a whole: no batchItemFailures"]
    );
}
