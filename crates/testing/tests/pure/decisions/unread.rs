//! Facts that could not be read: nothing final is decided by a guess, and letters come back soon so that the
//! question is asked again.

use redrive_core::policy::{Decision, LEAST_RETENTION, Override, OverrideAction, Overrides, ask_again_after};

use super::*;

/// Three retries, an hour after the arrival and a day after one another.
fn three() -> Policy {
    under(&json!({ "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": {
        "minDelayTarget": 3_600, "maxDelayTarget": 86_400, "numRetries": 3, "numMinDelayRetries": 1,
        "numMaxDelayRetries": 2 } } }))
}

/// Returns a letter that was sent so many seconds ago and first received then.
fn aged(seconds: u64, receives: u32) -> Letter {
    let mut letter = marked(0, None);
    letter.mark = None;
    letter.sqs.sent = at(NOW - millis(seconds));
    (letter.sqs.first_received, letter.sqs.receive_count) = (letter.sqs.sent, receives);
    letter
}

fn facts(retention: Retention) -> LetterFacts {
    LetterFacts { retention, ..LetterFacts::default() }
}

fn hidden(decision: &Decision) -> Option<(u64, DeferReason)> {
    match decision {
        Decision::Defer(deferral) => Some((deferral.hide, deferral.why)),
        Decision::Deliver(_) | Decision::Archive(..) => None,
    }
}

#[test]
fn a_question_is_asked_again_after_a_tenth_of_the_age_within_a_minute_and_a_quarter_of_an_hour() {
    for (age, expected) in [(0, 60), (600, 60), (601, 60), (620, 62), (8_999, 899), (9_000, 900), (DAY, 900)]
    {
        assert_eq!(ask_again_after(at(NOW - millis(age)), at(NOW)), expected, "{age}");
    }
    assert_eq!(ask_again_after(at(NOW + 5_000), at(NOW)), 60, "clocks differ");
}

/// A retention of an hour has a margin of two and a half minutes, and one of four days one of an hour.
#[test]
fn nothing_expires_and_no_hold_ends_while_the_retention_was_never_read() {
    let hold = under(&json!({ "action": "hold" }));
    for age in [0, 3_599, 4 * DAY - 3_600, 4 * DAY, 14 * DAY] {
        let expected = ask_again_after(at(NOW - millis(age)), at(NOW));
        for retention in [Retention::Unread, Retention::Assumed] {
            let decision = hold.decide(&aged(age, 9), &facts(retention), at(NOW)).decision;
            assert_eq!(hidden(&decision), Some((expected, DeferReason::Hold)), "{retention:?} {age}");
        }
    }
    let expiring = hold.decide(&aged(4 * DAY, 9), &facts(Retention::Known(4 * DAY)), at(NOW)).decision;
    assert_eq!(expiring, Decision::Archive(ArchiveReason::Expiring, None));
}

/// Overrides hold as rules do, and so does one that is not read yet.
#[test]
fn whatever_is_held_by_an_override_is_not_archived_by_a_guess() {
    let override_ = json!({ "id": "o", "do": "hold", "match": { "origin": [{ "exists": true }] },
        "at": "2026-10-01T12:00:00Z", "by": "ada", "why": "w" });
    let overrides =
        Overrides::parse(json!({ "version": 1, "overrides": [override_] }).to_string().as_bytes()).unwrap();
    let letter = aged(5 * DAY, 2);
    let held = overrides.on(&letter, &LetterTarget::Nowhere, at(NOW));
    assert_eq!(held.by().map(|override_: &Override| override_.action), Some(OverrideAction::Hold));
    for (overridden, expected) in
        [(held, (900, DeferReason::Overridden)), (OverrideAnswer::Unread, (60, DeferReason::OverridesUnread))]
    {
        for retention in [Retention::Unread, Retention::Assumed] {
            let facts = LetterFacts { overridden: overridden.clone(), ..facts(retention) };
            let decision = three().decide(&letter, &facts, at(NOW)).decision;
            assert_eq!(hidden(&decision), Some(expected), "{retention:?}");
        }
    }
}

#[test]
fn after_ten_minutes_four_days_count_for_letters_that_nobody_holds() {
    let (policy, letter) = (three(), aged(4 * DAY - 3_600, 1));
    let after = |retention| {
        let verdict = policy.decide(&letter, &facts(retention), at(NOW));
        let Decision::Deliver(retry) = verdict.decision else { panic!("{:?}", verdict.decision) };
        verdict.after_failure(retry, FailureClass::Transient, at(NOW))
    };
    assert_eq!(hidden(&after(Retention::Unread)), Some((900, DeferReason::Failed)));
    assert_eq!(after(Retention::Assumed), Decision::Archive(ArchiveReason::Expiring, None));
    assert_eq!(Retention::Assumed.for_archiving(false), Some(4 * DAY));
    let young = policy.decide(&aged(60, 1), &facts(Retention::Assumed), at(NOW)).decision;
    assert_eq!(hidden(&young), Some((60, DeferReason::Early)), "hiding stays short until it is read");
    assert_eq!(LEAST_RETENTION, 3_600);
}

/// The letter is received each quarter of an hour, and thus far more often than its schedule takes.
#[test]
fn a_retry_that_is_due_is_made_and_a_receive_before_the_next_is_none() {
    let policy = three();
    let decide = |age, receives| {
        let verdict = policy.decide(&aged(age, receives), &facts(Retention::Unread), at(NOW));
        match verdict.decision {
            Decision::Deliver(retry) => (true, i64::from(retry.number)),
            Decision::Defer(deferral) => (false, i64::try_from(deferral.hide).unwrap()),
            Decision::Archive(reason, _) => panic!("{reason:?}"),
        }
    };
    for (age, receives, expected) in [
        (1_200, 5, (false, 120)),
        (3_500, 20, (false, 100)),
        (3_600, 20, (true, 1)),
        // Whatever kept it from its attempt until it would have been hidden and shown again.
        (3_600 + 358, 21, (true, 1)),
        (3_600 + 360, 21, (false, 396)),
        (3_600 + 86_000, 180, (false, 400)),
        (3_600 + 86_400, 181, (true, 2)),
        (3_600 + 87_300, 182, (false, 900)),
        (3_600 + 172_800, 270, (true, 3)),
        (3_600 + 180_000, 271, (true, 3)),
    ] {
        assert_eq!(decide(age, receives), expected, "after {age} s, receive {receives}");
    }
}

#[test]
fn receives_that_a_source_queue_may_have_counted_end_no_letter() {
    let policy = three();
    let after = |source_unread, receives| {
        let facts =
            LetterFacts { source_unread, retention: Retention::Known(14 * DAY), ..LetterFacts::default() };
        let verdict = policy.decide(&aged(3 * DAY, receives), &facts, at(NOW));
        let Decision::Deliver(retry) = verdict.decision else { panic!("{:?}", verdict.decision) };
        (retry.number, verdict.after_failure(retry, FailureClass::Transient, at(NOW)))
    };
    let exhausted = Decision::Archive(ArchiveReason::Exhausted, None);
    assert_eq!(after(false, 20), (3, exhausted));
    let (number, again) = after(true, 20);
    let due = at(NOW + millis(DAY));
    let expected = Deferral { hide: VISIBILITY_CEILING, due, retry: 3, why: DeferReason::Failed };
    assert_eq!((number, again), (3, Decision::Defer(expected)));
    let (number, _) = after(true, 1);
    assert_eq!(number, 1, "no receive but this one");
}

#[test]
fn attempts_take_no_number_while_the_delivery_policy_was_not_read() {
    let policy = under(&json!({ "deliveryPolicy": "from-subscription" }));
    for (delivery_unread, spent, expected) in
        [(false, 0, (1, None)), (true, 0, (0, Some(60_000))), (true, 7, (7, Some(60_000)))]
    {
        let facts = LetterFacts { delivery_unread, ..LetterFacts::default() };
        let verdict = policy.decide(&marked(spent, None), &facts, at(NOW + 1_000));
        let Decision::Deliver(retry) = verdict.decision else { panic!("{:?}", verdict.decision) };
        let planned = expected.1.map(|planned| at(NOW + 1_000 + planned));
        assert_eq!((retry.number, retry.planned), (expected.0, planned), "{delivery_unread} {spent}");
        if delivery_unread {
            let next = verdict.after_failure(retry, FailureClass::Transient, at(NOW + 1_000));
            assert_eq!(hidden(&next), Some((60, DeferReason::Failed)));
        }
    }
}

/// The mark of a letter in the requeue says when its retry is due, whatever the schedule is.
#[test]
fn a_retry_that_is_planned_stays_planned_while_the_delivery_policy_cannot_be_read() {
    let policy = under(&json!({ "deliveryPolicy": "from-subscription" }));
    let facts = LetterFacts { delivery_unread: true, ..LetterFacts::default() };
    let due = |due: i64| policy.decide(&marked(5, Some(NOW + due)), &facts, at(NOW)).decision;
    let planned = Deferral { hide: 21_600, due: at(NOW + 21_600_000), retry: 6, why: DeferReason::Early };
    assert_eq!(due(21_600_000), Decision::Defer(planned));
    let Decision::Deliver(retry) = due(0) else { panic!("its time has come") };
    assert_eq!((retry.number, retry.planned), (5, Some(at(NOW + 60_000))));
}

/// Fifty receives that the schedule does not need, as when hiding is denied: each can be an attempt, none has
/// a number but those of the schedule, and none moves the plan.
#[test]
fn fifty_early_receives_move_no_plan_and_use_up_no_retry() {
    let policy = three();
    for receives in 3..53 {
        let letter = aged(3_600 + u64::from(receives) * 360, receives);
        let verdict = policy.decide(&letter, &facts(Retention::Known(14 * DAY)), at(NOW));
        let Decision::Deliver(retry) = verdict.decision else { panic!("{:?}", verdict.decision) };
        let planned = letter.sqs.sent.as_millisecond() + millis(3_600 + DAY);
        assert_eq!((retry.number, retry.planned), (1, Some(at(planned))), "receive {receives}");
        let Decision::Defer(next) = verdict.after_failure(retry, FailureClass::Transient, at(NOW + 9_000))
        else {
            panic!("it ended")
        };
        assert_eq!((next.due, next.retry), (at(planned), 2), "receive {receives}");
    }
}
