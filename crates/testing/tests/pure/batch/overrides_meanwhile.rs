//! Overrides that are given or taken back while a batch goes on.

use super::*;

/// Returns the outcomes of two letters of a FIFO group of which the first is delivered for so many seconds,
/// and how often the overrides were read. The overrides are `first`, then `later`.
fn two_of_a_group(
    machine: &mut BatchMachine,
    second: RecordBuilder,
    seconds: i64,
    (first, later): (&DocumentRead, &DocumentRead),
) -> (Vec<Outcome>, u32) {
    let posts = [in_fifo_group(RecordBuilder::envelope("a")), second.queue(FIFO_DLQ).group("g")];
    let mut batch = machine.begin(letters_of(&event(&posts)), DEADLINE);
    let (mut now, mut read) = (now_after(0), 0);
    loop {
        let actions = poll(&mut batch, &mut now);
        if actions.is_empty() {
            break;
        }
        for (id, action) in actions {
            let mut good = || true;
            let answer = if let Action::ReadOverrides { .. } = action {
                read += 1;
                ActionAnswer::Overrides(Ok(if read > 1 { later.clone() } else { first.clone() }))
            } else {
                answer(&action, &mut good, &mut HashSet::new())
            };
            if matches!(action, Action::Send(_)) {
                now = InvocationNow { elapsed: Duration::from_secs(1), ..now_after(seconds) };
            }
            batch.take(id, answer, now);
        }
    }
    (batch.into_reports(now.at).into_iter().map(|report| report.outcome).collect(), read)
}

#[test]
fn an_override_that_is_given_between_two_letters_of_a_fifo_group_counts_for_the_second() {
    for (seconds, expected) in [(15, "Deferred"), (14, "Delivered")] {
        let mut machine = machine(&policies()[0], None, None);
        let second = in_fifo_group(RecordBuilder::envelope("b"));
        let overrides = (&DocumentRead::None, &one_override("hold"));
        let (outcomes, _) = two_of_a_group(&mut machine, second, seconds, overrides);
        assert_eq!(outcomes[0], Outcome::Delivered);
        assert!(format!("{:?}", outcomes[1]).starts_with(expected), "{:?}", outcomes[1]);
    }
}

#[test]
fn a_letter_that_an_override_kept_from_its_search_is_not_given_up_once_the_override_is_gone() {
    let rule = json!([{ "name": "r", "match": { "origin": ["raw"] }, "subscription": "discover" }]);
    let mut machine = machine(&json!({ "rules": rule }).to_string(), None, None);
    let hold = json!({ "id": "o", "do": "hold", "match": { "origin": ["raw"] },
        "at": "2026-11-01T12:00:00Z", "by": "ada", "why": "w" });
    let json = json!({ "version": 1, "overrides": [hold] }).to_string().into_bytes();
    let overrides = (&DocumentRead::Document { json, tag: None }, &DocumentRead::None);
    let (outcomes, read) = two_of_a_group(&mut machine, RecordBuilder::raw("b", "hello"), 20, overrides);
    assert_eq!(read, 2);
    assert_eq!(outcomes, [Outcome::Delivered, Outcome::Failed(NotDone::OutOfTime)]);
}

/// Drives a batch whose deliveries take 16 seconds, so that the overrides are read again beside them. The overrides
/// are `first`, then `later`. Every other answer is good.
fn with_overrides_that_change(
    machine: &mut BatchMachine,
    posts: &[RecordBuilder],
    (first, later): (&DocumentRead, &DocumentRead),
) -> Vec<LetterReport> {
    let mut batch = machine.begin(letters_of(&event(posts)), DEADLINE);
    let (mut now, mut read) = (now_after(0), 0);
    loop {
        let mut actions = poll(&mut batch, &mut now);
        if actions.is_empty() {
            break;
        }
        if read == 1 && matches!(actions[0].1, Action::Send(_)) {
            now = now_after(16);
            actions.splice(0..0, batch.poll(now));
            assert_eq!(actions.len(), 2, "{actions:?}");
        }
        for (id, action) in actions {
            let answer = if let Action::ReadOverrides { .. } = action {
                read += 1;
                ActionAnswer::Overrides(Ok(if read > 1 { later.clone() } else { first.clone() }))
            } else {
                answer(&action, &mut || true, &mut HashSet::new())
            };
            batch.take(id, answer, now);
        }
    }
    assert_eq!(read, 2);
    batch.into_reports(now.at)
}

/// Returns a document with one override about letters that arrived a minute ago or earlier.
fn override_about_old_ones(action: &str) -> DocumentRead {
    let override_ = json!({ "id": "o", "do": action, "match": { "queueArn": [{ "exists": true }] },
        "arrivedBefore": "2026-11-01T11:59:00Z", "at": "2026-11-01T11:00:00Z",
        "until": "2026-11-01T14:00:00Z", "by": "ada", "why": "w" });
    let json = json!({ "version": 1, "overrides": [override_] }).to_string().into_bytes();
    DocumentRead::Document { json, tag: None }
}

pub(super) fn old(id: &str) -> RecordBuilder {
    RecordBuilder::envelope(id).sent(NOW - 120_000)
}

#[test]
fn overrides_that_are_read_beside_deliveries_count_for_the_letters_behind_them() {
    let [none, hold, archive] =
        [DocumentRead::None, override_about_old_ones("hold"), override_about_old_ones("give-up")];
    for (first, later, expected) in
        [(&none, &hold, "Deferred"), (&none, &archive, "Archived(GivenUp)"), (&hold, &none, "Delivered")]
    {
        let mut machine = machine(&policies()[0], None, None);
        let posts = [RecordBuilder::envelope("a"), old("b")].map(in_fifo_group);
        let reports = with_overrides_that_change(&mut machine, &posts, (first, later));
        assert_eq!(reports[0].outcome, Outcome::Delivered);
        assert!(format!("{:?}", reports[1].outcome).starts_with(expected), "{:?}", reports[1].outcome);
    }
}

#[test]
fn a_letter_that_was_held_is_let_go_where_its_hold_is_taken_back_in_the_same_invocation() {
    let early = old("early").mark(&mark(6, "early", NOW - 120_000)).sent(NOW - 60_000);
    for (later, [of_due, of_early]) in [
        (DocumentRead::None, ["Failed(OutOfTime)", "why: Early"]),
        (override_about_old_ones("give-up"), ["Archived(GivenUp)", "Archived(GivenUp)"]),
        (override_about_old_ones("retry"), ["Failed(OutOfTime)", "Failed(OutOfTime)"]),
        (override_about_old_ones("hold"), ["why: Overridden", "why: Overridden"]),
    ] {
        let mut machine = machine(&policies()[0], None, None);
        let posts = [RecordBuilder::envelope("delivered"), old("due"), early.clone()];
        let overrides = (&override_about_old_ones("hold"), &later);
        let reports = with_overrides_that_change(&mut machine, &posts, overrides);
        let outcomes: Vec<_> = reports.iter().map(|report| format!("{:?}", report.outcome)).collect();
        assert_eq!(outcomes[0], "Delivered");
        assert!(outcomes[1].contains(of_due), "{later:?}: {}", outcomes[1]);
        assert!(outcomes[2].contains(of_early), "{later:?}: {}", outcomes[2]);
    }
}

/// A hold by target arrives between a look-up that failed and the attempt. Whether it means the letter is not known, so the
/// letter waits, and the failed look-up is no attempt.
#[test]
fn a_hold_by_target_counts_for_a_letter_whose_look_up_has_just_failed() {
    for (action, outcome) in [("hold", "TargetUnknown"), ("retry", "Failed"), ("give-up", "Failed")] {
        let mut machine = machine(&policies()[0], None, None);
        let mut batch = machine.begin(letters_of(&event(&[RecordBuilder::envelope("a")])), DEADLINE);
        let (mut now, mut read) = (now_after(0), 0);
        loop {
            let actions = poll(&mut batch, &mut now);
            if actions.is_empty() {
                break;
            }
            for (id, asked) in actions {
                let answer = match &asked {
                    Action::ReadOverrides { .. } => {
                        read += 1;
                        let target = json!({ "target": [BILLING] });
                        let later = one_override_on(action, &target);
                        ActionAnswer::Overrides(Ok(if read > 1 { later } else { DocumentRead::None }))
                    }
                    Action::LookUpSubscriptions { subscriptions, .. } => {
                        now = now_after(16);
                        let failure = failed::<()>().unwrap_err();
                        let known = subscriptions
                            .iter()
                            .map(|arn| (arn.clone(), Err(SendResult::Failed(failure.clone()))));
                        ActionAnswer::Subscriptions(known.collect())
                    }
                    other => answer(other, &mut || true, &mut HashSet::new()),
                };
                batch.take(id, answer, now);
            }
        }
        let [report] = &batch.into_reports(now.at)[..] else { panic!("one letter") };
        assert!(
            read > 1 && format!("{:?}", report.outcome).contains(outcome),
            "{action}: {:?}",
            report.outcome
        );
    }
}
