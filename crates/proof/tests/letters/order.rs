//! The order of groups.

use std::collections::BTreeSet;

use redrive_laws::letters::{
    CallEffect, CallResponse, LetterNumber, NoExcuses, Plan, RequiredEnd, RequiredOrder, RunEnd, SentPlace,
    judge,
};

use super::LedgerStory;

/// Returns the story of three letters of a group, first delivered in this order.
fn group(order: [LetterNumber; 3]) -> LedgerStory {
    let mut story = LedgerStory::new();
    for _ in order {
        story.letter(RequiredEnd::Delivered, Some("customer-17"));
    }
    for who in order {
        let run = story.run(who);
        story.delivered(who, run);
        story.end(who, run, RunEnd::Heard, true);
    }
    story
}

#[test]
fn letters_of_a_group_arrive_in_their_order() {
    assert!(group([0, 1, 2]).verdict().is_good());
    let verdict = group([0, 2, 1]).verdict();
    assert_eq!((verdict.disorders, verdict.is_good()), (1, false));
    assert!(verdict.violations[0].history.contains("letter 1, queue, group customer-17"));
}

/// Returns the violations of a story of two letters of a group, the follower before the head or after it.
/// Each has three failed attempts, and is then delivered or archived as exhausted.
fn overtaken(archived: bool, delivered: bool, follower_first: bool) -> Vec<String> {
    let mut story = LedgerStory::new();
    let end = if archived { RequiredEnd::Archived("exhausted") } else { RequiredEnd::Delivered };
    let (head, next) = (story.letter(RequiredEnd::Delivered, Some("g")), story.letter(end, Some("g")));
    let order = if follower_first { [next, head] } else { [head, next] };
    for who in order {
        story.refused_often(who, 3);
        if who == next && archived || who == head && !delivered {
            story.exhausted(who);
        } else {
            let run = story.run(who);
            story.delivered(who, run);
            story.end(who, run, RunEnd::Heard, true);
        }
    }
    story.wrong()
}

#[test]
fn a_follower_does_not_overtake_its_head_wherever_each_of_them_ends() {
    for (archived, delivered) in [(false, false), (false, true), (true, false), (true, true)] {
        let wrong = overtaken(archived, delivered, true);
        assert!(
            wrong.contains(&"letter 1 of group g has overtaken letter 0 in payments-dlq".to_owned()),
            "{wrong:?}"
        );
        let wrong = overtaken(archived, delivered, false);
        assert!(wrong.iter().all(|what| what.contains("attempts")), "{wrong:?}");
    }
}

#[test]
fn an_attempt_that_fails_overtakes_as_well() {
    let mut story = LedgerStory::new();
    for _ in 0..2 {
        story.letter(RequiredEnd::Delivered, Some("g"));
    }
    story.refused_often(1, 1);
    for who in [0, 1] {
        let run = story.run(who);
        story.delivered(who, run);
        story.end(who, run, RunEnd::Heard, true);
    }
    assert_eq!(story.wrong(), ["letter 1 of group g has overtaken letter 0 in payments-dlq"]);
}

#[test]
fn a_repetition_out_of_order_is_no_violation() {
    let mut story = LedgerStory::new();
    for _ in 0..2 {
        story.letter(RequiredEnd::Delivered, Some("customer-17"));
    }
    let run = story.run(0);
    story.delivered(0, run);
    story.run(1);
    story.delivered(1, run);
    story.end(1, run, RunEnd::Killed, false);
    for who in [0, 1] {
        let run = story.run(who);
        story.delivered(who, run);
        story.end(who, run, RunEnd::Heard, true);
    }
    let verdict = story.verdict();
    assert_eq!((verdict.disorders, verdict.duplicates, verdict.unexplained), (0, 2, 0));
    assert!(verdict.is_good());
}

#[test]
fn a_head_that_moves_frees_its_group_only_where_heads_may_move() {
    let wrong = |order: RequiredOrder| {
        let mut story = LedgerStory::new();
        let plan = || Plan {
            group: Some("g".to_owned()),
            order,
            end: Some(RequiredEnd::Delivered),
            retries: 3,
            ..Plan::default()
        };
        let (head, next) = (story.planned(plan()), story.planned(plan()));
        let run = story.run(head);
        story.refused(head, run);
        story.sent(head, run, SentPlace::Requeue, CallEffect::Taken, CallResponse::Done);
        story.end(head, run, RunEnd::Heard, true);
        let run = story.run(next);
        story.delivered(next, run);
        story.end(next, run, RunEnd::Heard, true);
        judge(&story.ledger, &BTreeSet::from([head]), &NoExcuses).disorders
    };
    assert_eq!(
        [RequiredOrder::OfEachQueue, RequiredOrder::Strict, RequiredOrder::Free].map(wrong),
        [0, 1, 0]
    );
}
