//! Promise P3: delays are deterministic.

use super::*;

#[test]
fn a_decision_depends_on_the_letter_and_the_time_only() {
    holds(300, &worlds(ceilings(), everything()), |world| {
        let (one, two) = (world.live(), world.live());
        prop_assert_eq!(format!("{one:?}"), format!("{two:?}"));
        Ok(())
    });
}

#[test]
fn jitter_comes_from_the_letter_and_stays_below_the_delay() {
    let policy = Policy::built_in();
    let facts = LetterFacts { retention: Retention::Known(14 * DAY), ..LetterFacts::default() };
    let failed = Retry { number: 11, of: BUILT_IN_RETRIES, phase: RetryPhase::PostBackoff, planned: None };
    let hides = |id: String, count| {
        let mut record = record(&envelope("hello", &json!({})).replace("d3344452", &id));
        record["attributes"]["ApproximateReceiveCount"] = format!("{count}").into();
        match policy.decide(&letter(&record), &facts, at(NOW)).after_failure(
            failed,
            FailureClass::Transient,
            at(NOW),
        ) {
            Decision::Defer(deferral) => deferral.hide,
            other => panic!("{other:?}"),
        }
    };
    let many: Vec<_> = (0..200).map(|id| hides(format!("{id}"), 1)).collect();
    assert_eq!(many, (0..200).map(|id| hides(format!("{id}"), 7)).collect::<Vec<_>>(), "on every receive");
    assert!(many.iter().all(|hide| (19_440..=21_600).contains(hide)), "{many:?}");
    let spread = many.iter().max().unwrap() - many.iter().min().unwrap();
    assert!(spread > 1_900, "letters that failed together come back over {spread} s of 2,160");
}
