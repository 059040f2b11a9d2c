//! `SCHEDULE_FROM`: letters that arrived before it begin their schedule then.

use super::*;

/// The time at which schedules begin.
const FROM: i64 = NOW + 86_400_000;

/// Returns a policy of four retries: two at once, then after 60 s and 120 s.
fn quick() -> Policy {
    under(&json!({ "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": {
        "minDelayTarget": 60, "maxDelayTarget": 120, "numRetries": 4, "numNoDelayRetries": 2 } } }))
}

/// Returns a letter that arrived at `NOW`, as it was received so often, the first time then.
fn old(first_received: i64, count: u32) -> Letter {
    let mut letter = letter(&record(&envelope("hello", &json!({}))));
    (letter.sqs.sent, letter.sqs.first_received) = (at(NOW), at(first_received));
    letter.sqs.receive_count = count;
    letter
}

fn facts() -> LetterFacts {
    LetterFacts {
        retention: Retention::Known(14 * DAY),
        schedule_from: Some(at(FROM)),
        ..LetterFacts::default()
    }
}

/// Returns the retry that is made so many seconds after the beginning, and what follows if it fails five seconds later:
/// the seconds until the next retry and its number, or nothing.
fn retried(letter: &Letter, seconds: i64) -> (u32, Option<(i64, u32)>) {
    let policy = quick();
    let now = FROM + seconds * 1000;
    let verdict = policy.decide(letter, &facts(), at(now));
    let Decision::Deliver(retry) = verdict.decision else { panic!("{seconds} s: {:?}", verdict.decision) };
    assert_eq!(retry.planned, None, "{seconds} s");
    let failed = now + 5_000;
    match verdict.after_failure(retry, FailureClass::Transient, at(failed)) {
        Decision::Defer(next) => {
            let due = next.due.as_millisecond();
            assert_eq!(next.hide, u64::try_from(due - failed).unwrap() / 1000, "it is hidden until then");
            (retry.number, Some(((due - FROM) / 1000, next.retry)))
        }
        Decision::Archive(ArchiveReason::Exhausted, None) => (retry.number, None),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_letter_that_nothing_received_before_has_its_schedule_from_the_beginning_on() {
    // It is late by a day, so the time alone would give it its last retry.
    for (count, seconds, number, next) in [
        (1, 86_400, 1, Some((86_405, 2))),
        (2, 86_405, 2, Some((86_470, 3))),
        (3, 86_470, 3, Some((86_595, 4))),
        (4, 86_595, 4, None),
    ] {
        assert_eq!(retried(&old(FROM, count), seconds), (number, next), "receive {count}");
    }
}

#[test]
fn receives_from_before_the_beginning_cost_no_number_and_no_retry() {
    // Retries at once are 20 s apart, since the time alone tells them apart.
    for (count, seconds, number, next) in [
        (500, 20, 1, Some((40, 2))),
        (501, 30, 1, Some((40, 2))),
        (502, 40, 2, Some((100, 3))),
        (503, 99, 3, Some((220, 4))),
        (504, 219, 4, None),
    ] {
        assert_eq!(retried(&old(NOW, count), seconds), (number, next), "after {seconds} s");
    }
    // It was received only once before, and is late by a day. The rule still needs a receive for each retry.
    assert_eq!(retried(&old(NOW, 2), 86_400), (1, Some((86_425, 2))));
}

#[test]
fn a_letter_waits_for_the_beginning() {
    let early = |now: i64, facts: &LetterFacts, letter: &Letter| match quick()
        .decide(letter, facts, at(now))
        .decision
    {
        Decision::Defer(Deferral { why: DeferReason::Early, due, .. }) => Some(due.as_millisecond()),
        Decision::Deliver(retry) if retry.planned.is_none() => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(early(NOW, &facts(), &old(NOW, 1)), Some(FROM + 20_000));
    assert_eq!(early(NOW, &LetterFacts::default(), &old(NOW, 1)), None, "without the setting");
    let mut later = old(FROM, 1);
    later.sqs.sent = at(FROM);
    assert_eq!(early(FROM, &facts(), &later), None, "it arrived at that time");
    // What waits in the requeue has its plan from before.
    let mark = json!({ "v": 2, "spent": 1, "id": "letter-1", "first": NOW, "due": NOW + 1_000 });
    let mut record = record(&envelope("hello", &json!({})));
    record["messageAttributes"]["sns-redrive"] = text_attribute(&made_for("hello", mark).to_string());
    let mut requeued = Letter::parse_requeued(received(&record), TrustedOrigins::none());
    requeued.sqs.sent = at(NOW);
    assert_eq!(early(NOW + 1_000, &facts(), &requeued), None);
    requeued.sqs.receive_count = 9;
    let decided = quick().decide(&requeued, &facts(), at(NOW + 1_000)).decision;
    assert!(matches!(decided, Decision::Deliver(retry) if retry.planned.is_some()), "{decided:?}");
}

#[test]
fn a_letter_that_would_expire_before_its_next_moment_is_attempted_once_more() {
    let two_days = LetterFacts { retention: Retention::Known(2 * DAY), ..facts() };
    let policy = under(&json!({ "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": {
        "minDelayTarget": 90_000, "maxDelayTarget": 90_000, "numRetries": 2, "numNoDelayRetries": 1 } } }));
    let margin = NOW + millis(2 * DAY - 3_600);
    // The second retry would come after the end. The hop before it is the last receive.
    for letter in [old(NOW, 9), old(FROM, 4)] {
        let verdict = policy.decide(&letter, &two_days, at(margin - 1_000));
        let Decision::Deliver(retry) = verdict.decision else { panic!("{:?}", verdict.decision) };
        assert!(retry.planned.is_some(), "an attempt without a number");
        let then = verdict.after_failure(retry, FailureClass::Transient, at(margin));
        assert_eq!(then, Decision::Archive(ArchiveReason::Expiring, None));
    }
}

/// How many of its receives are from before is not known, so none of them says that it comes in vain. A letter that is woken
/// before its next moment counts as early all the same, or waking would end with it.
#[test]
fn a_letter_that_was_observed_counts_as_early_and_not_as_one_that_comes_often() {
    let policy = quick();
    let letter = old(NOW, 500);
    let early = |seconds: i64| {
        let verdict = policy.decide(&letter, &facts(), at(FROM + seconds * 1_000));
        let Decision::Deliver(retry) = verdict.decision else { panic!("{:?}", verdict.decision) };
        (verdict.comes_early(retry), verdict.comes_often())
    };
    assert_eq!(early(70), (true, false));
    let plain = LetterFacts { schedule_from: None, ..facts() };
    let verdict = policy.decide(&old(NOW, 500), &plain, at(NOW + 70_000));
    assert!(verdict.comes_often());
}
