//! Promise P4: a letter is archived before SQS drops it.

use super::*;

#[test]
fn the_margin_is_an_hour_or_a_24th_of_a_short_retention() {
    for (retention, margin) in
        [(60, 2), (3_600, 150), (12 * 3_600, 1_800), (DAY, 3_600), (4 * DAY, 3_600), (14 * DAY, 3_600)]
    {
        assert_eq!(expiry_margin(retention), margin, "{retention}");
    }
}

/// The facts of a queue that keeps letters for four days, and below the latest time to which a letter that is
/// sent now is hidden.
const FOUR_DAYS: LetterFacts = LetterFacts {
    retention: Retention::Known(4 * DAY),
    source_max_receives: None,
    source_unread: false,
    ceiling: VISIBILITY_CEILING,
    subscription_delivery: None,
    delivery_unread: false,
    discovered: None,
    overridden: OverrideAnswer::Nothing,
    recovered: None,
    schedule_from: None,
};
const EXPIRY_MARGIN_START: i64 = NOW + 4 * 86_400_000 - 3_600_000;

/// Returns a policy of two retries, two hours and more than a day after the failure before them.
fn slow() -> Policy {
    under(&json!({ "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": {
        "minDelayTarget": 7_200, "maxDelayTarget": 90_000, "numRetries": 2 } } }))
}

const EXPIRING: Decision = Decision::Archive(ArchiveReason::Expiring, None);

#[test]
fn a_letter_is_expiring_from_the_margin_on() {
    for (now, expiring) in [(NOW, false), (EXPIRY_MARGIN_START, false), (EXPIRY_MARGIN_START + 1, true)] {
        assert_eq!(is_kept(at(NOW), 4 * DAY, at(now)), !expiring, "{now}");
    }
}

#[test]
fn a_failed_letter_is_archived_where_its_next_wake_up_would_come_too_late() {
    let (policy, letter) = (slow(), marked(0, Some(NOW)));
    let verdict = policy.decide(&letter, &FOUR_DAYS, at(NOW));
    let after_failure = |now| {
        let failed = Retry { number: 1, of: 2, phase: RetryPhase::Backoff, planned: None };
        verdict.after_failure(failed, FailureClass::Transient, at(now))
    };
    // The letter waits for a day in hidings of a ceiling each: only the next time that it becomes visible
    // counts, not the retry.
    let last = EXPIRY_MARGIN_START - millis(VISIBILITY_CEILING);
    let due = at(last + 90_000_000);
    let hidden = Deferral { hide: VISIBILITY_CEILING, due, retry: 2, why: DeferReason::Failed };
    assert_eq!(after_failure(last), Decision::Defer(hidden));
    assert_eq!(after_failure(last + 1), EXPIRING);
    assert_eq!(after_failure(EXPIRY_MARGIN_START + 86_400_000), EXPIRING, "its time was up before it failed");
}

#[test]
fn a_letter_before_its_time_is_archived_where_it_would_wake_too_late() {
    let decide =
        |due| slow().decide(&marked(0, Some(due)), &FOUR_DAYS, at(EXPIRY_MARGIN_START - 60_000)).decision;
    let hidden = Deferral { hide: 60, due: at(EXPIRY_MARGIN_START), retry: 1, why: DeferReason::Early };
    assert_eq!(decide(EXPIRY_MARGIN_START), Decision::Defer(hidden));
    assert_eq!(decide(EXPIRY_MARGIN_START + 1), EXPIRING);
}

#[test]
fn a_hopping_letter_is_archived_where_it_would_wake_too_late() {
    let decide = |point: i64| {
        let mut letter = marked(0, Some(point));
        (letter.sqs.first_received, letter.sqs.receive_count) = (at(point), 2);
        slow().decide(&letter, &FOUR_DAYS, at(EXPIRY_MARGIN_START - 60_000)).decision
    };
    let hidden = Deferral { hide: 60, due: at(EXPIRY_MARGIN_START), retry: 2, why: DeferReason::Hop };
    assert_eq!(decide(EXPIRY_MARGIN_START - 90_000_000), Decision::Defer(hidden));
    assert_eq!(decide(EXPIRY_MARGIN_START - 90_000_000 + 1), EXPIRING);
}

/// The count places it within its long wait, the clock after it.
#[test]
fn a_hopping_letter_whose_wait_is_over_is_attempted_where_no_time_is_left_to_come_back() {
    let mut letter = marked(0, Some(EXPIRY_MARGIN_START + 1 - 90_000_000));
    (letter.sqs.first_received, letter.sqs.receive_count) = (at(EXPIRY_MARGIN_START + 1 - 90_000_000), 2);
    let decide = |now| slow().decide(&letter, &FOUR_DAYS, at(now)).decision;
    assert_eq!(decide(EXPIRY_MARGIN_START), EXPIRING, "a moment before its retry is due");
    let retry = Retry { number: 2, of: 2, phase: RetryPhase::Backoff, planned: None };
    assert_eq!(decide(EXPIRY_MARGIN_START + 1), Decision::Deliver(retry));
}

#[test]
fn a_held_letter_is_hidden_as_long_as_its_queue_keeps_it() {
    let hold = under(&json!({ "action": "hold" }));
    let decide = |now| hold.decide(&marked(0, None), &FOUR_DAYS, at(now)).decision;
    for (left, hide) in [(100 * 3_600, VISIBILITY_CEILING), (60, 60), (1, 1)] {
        let now = EXPIRY_MARGIN_START - millis(left);
        let due = at(now + millis(hide));
        let held = Deferral { hide, due, retry: 1, why: DeferReason::Hold };
        assert_eq!(decide(now), Decision::Defer(held), "{left} s before it must be archived");
    }
    assert_eq!(decide(EXPIRY_MARGIN_START), EXPIRING);
}

#[test]
fn a_letter_that_is_due_is_attempted_however_late_it_is() {
    for late in [0, 3_599_999, 3_600_000, 30 * 86_400_000] {
        let decision = slow().decide(&marked(0, None), &FOUR_DAYS, at(EXPIRY_MARGIN_START + late)).decision;
        let retry = Retry { number: 1, of: 2, phase: RetryPhase::Backoff, planned: None };
        assert_eq!(decision, Decision::Deliver(retry), "{late} ms too late to be hidden again");
    }
}

/// The retention matters in these worlds. Each deferral of every world also checks that no letter is hidden
/// into the margin.
#[test]
fn sqs_never_drops_a_letter_that_is_received_in_time() {
    let receives = (0..=LATENCY).prop_map(|late| PlannedReceive { late, ..PlannedReceive::default() });
    let retention = prop_oneof![60..=3_600_u64, 3_600..=DAY, DAY..=14 * DAY];
    holds(1_000, &(worlds(ceilings(), receives), retention), |(mut world, retention)| {
        world.retention = retention;
        let life = world.live();
        let (reason, end) = life.end.unwrap();
        prop_assert!(end < NOW + millis(retention), "dropped by SQS before it was archived as {reason:?}");
        // Polls and rounding delay a letter by a few seconds in all.
        let in_time = |point| point + 30_000 <= NOW + millis(retention - expiry_margin(retention));
        if in_time(world.point(world.spent + 1)) && world.due.is_none() {
            prop_assert!(!life.attempts.is_empty(), "archived as {reason:?} without an attempt");
        }
        if in_time(world.point(world.schedule.retries)) && life.receives < 40 {
            prop_assert_eq!(reason, ArchiveReason::Exhausted);
        }
        Ok(())
    });
}

#[test]
fn an_attempt_that_was_not_made_keeps_its_letter_until_the_margin_however_far_the_next_one_is() {
    let (policy, letter) = (slow(), marked(1, Some(NOW)));
    let due = Retry { number: 2, of: 2, phase: RetryPhase::Backoff, planned: None };
    let verdict = policy.decide(&letter, &FOUR_DAYS, at(NOW));
    let far = at(EXPIRY_MARGIN_START + 3_600_000);
    for (now, hide) in [
        (EXPIRY_MARGIN_START - 21_600_000, Some(21_600)),
        (EXPIRY_MARGIN_START - 1_000, Some(1)),
        (EXPIRY_MARGIN_START, None),
    ] {
        for decision in [verdict.left_out(due, false, at(now), far), verdict.put_off(due, at(now), far)] {
            let hidden = match decision {
                Decision::Defer(deferral) => Some(deferral.hide),
                other => {
                    assert_eq!(other, EXPIRING);
                    None
                }
            };
            assert_eq!(hidden, hide, "{now}");
        }
    }
}
