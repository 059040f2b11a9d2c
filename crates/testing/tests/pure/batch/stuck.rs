//! Letters that stay where they are: their receive is over, there was no time, or a clock was set back.

use super::overrides_meanwhile::old;
use super::*;

/// Returns the outcome of a letter that cannot be hidden or archived, by these answers to its attempt and its
/// hiding.
fn not_hidden(post: RecordBuilder, sent: &SendResult, code: &str) -> Outcome {
    let mut machine = machine(&policies()[0], None, None);
    let batch = machine.begin(letters_of(&event(&[post])), DEADLINE);
    let (mut reports, _) = drive(batch, false, |action| match action {
        Action::Send(request) => self::sent(request, sent),
        Action::Archive { .. } => ActionAnswer::Archived(vec![failed()]),
        Action::Hide { .. } => ActionAnswer::Hidden(vec![Err(Failure::ours(FailureClass::Permanent, code))]),
        _ => answer(action, &mut || true, &mut HashSet::new()),
    });
    reports.remove(0).outcome
}

#[test]
fn a_letter_whose_receive_is_over_is_not_stuck_whatever_was_to_be_done_with_it() {
    let refused = SendResult::Failed(Failure::ours(FailureClass::Transient, "ServiceUnavailable"));
    let for_good = SendResult::Failed(Failure::ours(FailureClass::Permanent, "InvalidParameterValue"));
    for (sent, other) in [
        (refused.clone(), NotDone::Hide),
        (SendResult::NotStarted, NotDone::OutOfTime),
        (for_good, NotDone::Archive),
    ] {
        for code in [MESSAGE_GONE, HANDLE_EXPIRED] {
            let outcome = not_hidden(RecordBuilder::envelope("a"), &sent, code);
            assert_eq!(outcome, Outcome::Failed(NotDone::ReceiveOver), "{sent:?} {code}");
            assert!(!outcome.leaves_queue() && !outcome.is_in_queue());
        }
        let outcome = not_hidden(RecordBuilder::envelope("a"), &sent, "AccessDenied");
        assert_eq!(outcome, Outcome::Failed(other), "{sent:?}");
        assert!(outcome.is_in_queue());
    }
    // What its queue has dropped at the end of its retention is not the copy of another.
    let ended = RecordBuilder::envelope("a").sent(NOW - 1_209_600_000);
    assert_eq!(not_hidden(ended, &refused, MESSAGE_GONE), Outcome::Failed(NotDone::Archive));
}

/// Returns the outcomes of letters whose queue drops them in so many seconds, if there is no time to begin
/// any. The queue's visibility timeout is twelve hours.
fn not_begun(posts: Vec<RecordBuilder>, left: i64) -> Vec<Outcome> {
    let mut machine = machine(&policies()[0], None, None);
    let posts: Vec<_> = posts.into_iter().map(|post| post.sent(NOW - (1_209_600 - left) * 1000)).collect();
    let batch = machine.begin(letters_of(&event(&posts)), DEADLINE);
    let (reports, _) = drive(batch, false, |action| match action {
        Action::LookUpQueues { queues, .. } => {
            let attributes = QueueAttributes {
                retention: Some(1_209_600),
                visibility_timeout: Some(43_200),
                ..QueueAttributes::default()
            };
            let known = queues.iter().map(|queue| (queue.clone(), attributes.clone())).collect();
            ActionAnswer::Queues { known, unread: Vec::new() }
        }
        Action::Send(request) => sent(request, &SendResult::NotStarted),
        _ => answer(action, &mut || true, &mut HashSet::new()),
    });
    reports.into_iter().map(|report| report.outcome).collect()
}

#[test]
fn letters_that_come_back_after_a_second_are_archived_within_the_margin_and_not_before() {
    for (left, [head, held]) in [
        // The letter has more time left than the visibility timeout of its queue, by less than the margin of
        // an hour.
        (43_200 + 2_700, ["Failed(OutOfTime)", "Held"]),
        (3_602, ["Failed(OutOfTime)", "Held"]),
        (3_600, ["Archived(Expiring)"; 2]),
    ] {
        let single = not_begun(vec![RecordBuilder::envelope("a")], left);
        assert_eq!(format!("{single:?}"), format!("[{head}]"), "{left}");
        let group = not_begun(["a", "b"].map(|id| in_fifo_group(RecordBuilder::envelope(id))).into(), left);
        assert_eq!(format!("{group:?}"), format!("[{head}, {held}]"), "{left}");
    }
}

/// What is left of a wait is told by the wall clock.
#[test]
fn a_letter_is_hidden_no_longer_than_its_wait_though_the_wall_clock_is_set_back_meanwhile() {
    let mut machine = with_rule(&json!({ "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": {
        "minDelayTarget": 60, "maxDelayTarget": 60, "numRetries": 3 } } }));
    let mut batch = machine.begin(letters_of(&event(&[old("a")])), DEADLINE);
    let (mut now, mut hidden) = (now_after(0), Vec::new());
    loop {
        let actions = poll(&mut batch, &mut now);
        if actions.is_empty() {
            break;
        }
        for (id, action) in actions {
            let answer = match &action {
                Action::Send(request) => sent(request, &SendResult::Failed(failed::<()>().unwrap_err())),
                Action::Hide { letters, .. } => {
                    hidden.extend(letters.iter().map(|(_, seconds)| *seconds));
                    ActionAnswer::Hidden(vec![Ok(()); letters.len()])
                }
                _ => self::answer(&action, &mut || true, &mut HashSet::new()),
            };
            batch.take(id, answer, now);
            if matches!(action, Action::Send(_)) {
                now.at = at(NOW - 3_600_000);
            }
        }
    }
    assert_eq!(hidden, [60]);
}

/// The turn of the last of eight letters comes after 1.4 s. A point counts as reached a second early, so that this
/// letter's attempt is ahead of a retry that is planned for 1.2 s.
#[test]
fn an_attempt_ahead_of_its_plan_that_has_to_wait_until_then_comes_back_as_the_retry() {
    for (left, expected) in [(1_200, Outcome::Failed(NotDone::OutOfTime)), (3_000, Outcome::Delivered)] {
        let mut machine = with_rule(&json!({ "jitter": 0, "deliveryPolicy": {
            "throttlePolicy": { "maxReceivesPerSecond": 5 },
            "healthyRetryPolicy": { "minDelayTarget": 60, "maxDelayTarget": 60, "numRetries": 5 } } }));
        // The second retry comes two minutes after it was sent, and it was received once more before.
        let early = RecordBuilder::envelope("b").sent(NOW - 120_000 + left).received(3);
        let posts: Vec<_> = (0..7).map(|number| old(&format!("a{number}"))).chain([early]).collect();
        let batch = machine.begin(letters_of(&event(&posts)), DEADLINE);
        let mut planned = None;
        let (reports, _) = drive(batch, false, |action| {
            if let Action::Send(request) = action {
                planned = request.deliveries.iter().find_map(|one| one.retry.planned).or(planned);
            }
            answer(action, &mut || true, &mut HashSet::new())
        });
        assert!(reports[..7].iter().all(|report| report.outcome == Outcome::Delivered));
        assert_eq!(reports[7].outcome, expected, "{left}");
        assert_eq!(planned.is_some(), expected == Outcome::Delivered, "it is an attempt ahead of its plan");
    }
}
