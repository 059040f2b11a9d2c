//! Promise P9: what becomes of a letter whose attempt was left out, put off or cut short.

use redrive_core::failure::{CUT_SHORT, Failure};

use super::*;

/// Three retries, of which the first comes at once, the second after 10 s and the last after an hour.
const SCHEDULE: &str = r#"{ "default": { "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": { "numRetries": 3,
    "numNoDelayRetries": 1, "numMinDelayRetries": 1, "numMaxDelayRetries": 1, "minDelayTarget": 10,
    "maxDelayTarget": 3600 } } } }"#;

/// Returns how a letter is deferred whose retry of this number is not made, as the reason, the seconds and the number.
fn deferred(
    number: u32,
    decide: impl FnOnce(&redrive_core::policy::Verdict<'_>, Retry) -> Decision,
) -> (&'static str, u64, u32) {
    let policy = Policy::parse(SCHEDULE).unwrap();
    let letter = marked(number - 1, Some(NOW));
    let verdict = policy.decide(&letter, &LetterFacts::default(), at(NOW));
    let Decision::Deliver(retry) = verdict.decision else { panic!("{:?}", verdict.decision) };
    match decide(&verdict, retry) {
        Decision::Defer(deferral) => (deferral.why.name(), deferral.hide, deferral.retry),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_letter_that_is_left_out_waits_for_its_next_planned_moment_and_a_last_retry_for_its_last_delay() {
    for (number, waits) in [(1, 40), (2, 3_600), (3, 3_600)] {
        let left_out = deferred(number, |verdict, retry| verdict.left_out(retry, false, at(NOW), at(NOW)));
        assert_eq!(left_out, ("endpoint_down", waits, number));
        let sent = deferred(number, |verdict, retry| verdict.left_out(retry, true, at(NOW), at(NOW)));
        assert_eq!(sent, ("endpoint_down", waits.min(60), number), "an override sends it");
    }
    let asked = at(NOW + 5_000_000);
    let left_out = deferred(2, |verdict, retry| verdict.left_out(retry, false, at(NOW), asked));
    assert_eq!(left_out.1, 5_000, "the endpoint asks for it");
}

#[test]
fn a_letter_that_is_put_off_waits_for_a_full_minute_before_its_next_planned_moment() {
    // The time is 12:00:00.
    for (seconds, minutes, waits) in [(0, 0, 60), (1, 0, 59), (59, 0, 1), (20, 2, 160), (20, 100, 3_600)] {
        let now = at(NOW + seconds * 1_000);
        let put_off = deferred(2, |verdict, retry| verdict.put_off_by(retry, minutes, false, now));
        assert_eq!(put_off, ("endpoint_slow", waits, 2));
    }
    let sent = deferred(2, |verdict, retry| verdict.put_off_by(retry, 100, true, at(NOW)));
    assert_eq!(sent.1, 60, "an override sends it");
    let soon = deferred(1, |verdict, retry| verdict.put_off_by(retry, 3, false, at(NOW)));
    assert_eq!(soon.1, 40, "its next retry is due before");
}

#[test]
fn a_last_retry_that_is_cut_short_is_made_again_and_others_go_on() {
    let cut_short = Failure::ours(FailureClass::Transient, CUT_SHORT);
    for (number, waits, next) in [(1, 10, 2), (2, 3_600, 3), (3, 3_600, 3)] {
        let after = deferred(number, |verdict, retry| verdict.after(retry, &cut_short, None, at(NOW)));
        assert_eq!(after, ("failed", waits, next));
    }
}
