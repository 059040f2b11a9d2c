//! Promise P2 on random worlds.

use super::*;

/// Reports whether the wait before the first retry ends so little above a whole number of ceilings that its
/// last, tiny hiding falls into the second of slack. Then the first retry is made twice.
fn first_wait_ends_in_the_slack(world: &DecisionWorld) -> bool {
    let first_receive = NOW + world.receives.first().map_or(0, |first| first.late);
    let wait = world.point(world.spent + 1) - first_receive;
    let hops = wait / world.ceiling_millis();
    hops > 0 && wait % world.ceiling_millis() <= 1_000 + (hops + 1) * LATENCY
}

#[test]
fn an_undisturbed_letter_gets_each_retry_once_at_its_time() {
    holds(2_000, &worlds(ceilings(), smooth()), |world| {
        let life = world.live();
        let first = world.spent + 1;
        let mut expected: Vec<_> = (first..=world.schedule.retries).collect();
        if first_wait_ends_in_the_slack(&world) && life.attempts.len() > expected.len() {
            // The stated exception: the first retry is made twice, and no other.
            expected.insert(0, first);
            prop_assert_eq!(life.numbers(), expected);
            prop_assert_eq!(life.end.map(|end| end.0), Some(ArchiveReason::Exhausted));
            return Ok(());
        }
        prop_assert_eq!(life.numbers(), expected);
        let last = life.attempts.last().unwrap();
        prop_assert_eq!(life.end, Some((ArchiveReason::Exhausted, last.end)));

        // No attempt is early, and each is late only by the time that attempts and polls took, or by the
        // delay of its arrival.
        let points = world.points(NOW);
        let mut behind = LATENCY + 1_000 + (NOW - points[0]).max(0);
        for (attempt, point) in life.attempts.iter().zip(points) {
            behind += LATENCY * i64::from(receives_for(world.wait(attempt.number), world.ceiling_millis()));
            prop_assert!(attempt.begin >= point - 1_000, "{attempt:?} before {point}");
            prop_assert!(attempt.begin <= point + behind, "{attempt:?} after {point} + {behind}");
            behind += attempt.end - attempt.begin;
        }
        // No attempt comes sooner after the failure before it than its delay, or than one hiding if the delay
        // is longer.
        for pair in life.attempts.windows(2) {
            let least = world.wait(pair[1].number).min(world.ceiling_millis());
            prop_assert!(pair[1].begin >= pair[0].end + least, "{pair:?}");
        }
        Ok(())
    });
}

#[test]
fn an_undisturbed_letter_is_received_no_more_often_than_its_waits_need() {
    holds(1_000, &worlds(ceilings(), smooth()), |world| {
        let ceiling = world.ceiling_millis();
        let first_receive = NOW + world.receives.first().map_or(0, |first| first.late);
        let first_wait = world.point(world.spent + 1) - first_receive;
        let mut expected = 1 + if first_wait > 1_000 { receives_for(first_wait, ceiling) } else { 0 };
        for k in world.spent + 2..=world.schedule.retries {
            expected += receives_for(world.wait(k), ceiling);
        }
        let life = world.live();
        if first_wait_ends_in_the_slack(&world) && life.receives != expected {
            // The first retry comes one hiding early, and once more after the delay of the second, if there is one.
            let second = world.spent + 2;
            let again =
                if second > world.schedule.retries { 0 } else { receives_for(world.wait(second), ceiling) };
            prop_assert_eq!(life.receives, expected - 1 + again);
            return Ok(());
        }
        prop_assert_eq!(life.receives, expected);
        Ok(())
    });
}

/// SEMANTICS.md states this beside "exactly its retries": the wait of the first retry ends between a receive
/// and the handling of its batch, so it is made one receive before it counts as made.
#[test]
fn a_first_retry_whose_wait_ends_between_receive_and_handling_is_made_twice_and_no_other() {
    let schedule = json!({ "minDelayTarget": 60, "maxDelayTarget": 60, "numRetries": 3 });
    let policy = json!({ "default": { "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": schedule } } });
    let policy = Policy::parse(&policy.to_string()).unwrap();
    let mut letter = marked(0, None);
    letter.mark = None;
    // The letter is received after 30 s, but handled after 60: a batching window of 30 s lies between.
    letter.sqs.first_received = at(NOW + 30_000);
    let mut numbers = Vec::new();
    for (receive, now) in [(1, 60), (2, 120), (3, 180), (4, 240), (5, 300)] {
        letter.sqs.receive_count = receive;
        let verdict = policy.decide(&letter, &LetterFacts::default(), at(NOW + now * 1000));
        let Decision::Deliver(retry) = verdict.decision else { panic!("{:?}", verdict.decision) };
        numbers.push(retry.number);
        if matches!(
            verdict.after_failure(retry, FailureClass::Transient, at(NOW + now * 1000)),
            Decision::Archive(..)
        ) {
            break;
        }
    }
    assert_eq!(numbers, [1, 1, 2, 3]);
}

#[test]
fn late_polls_and_failed_changes_after_an_attempt_never_cost_an_attempt() {
    holds(2_000, &worlds(ceilings(), changes_after_attempts_fail()), |world| {
        let life = world.live();
        prop_assert!(life.attempts.len() >= world.left(), "{:?}", life);
        prop_assert_eq!(life.end.map(|end| end.0), Some(ArchiveReason::Exhausted));
        prop_assert_eq!(life.attempts.last().map(|last| last.number), Some(world.schedule.retries));
        Ok(())
    });
}

#[test]
fn a_batching_window_adds_one_attempt_at_most() {
    holds(1_000, &worlds(Just(VISIBILITY_CEILING), windows()), |world| {
        let attempts = world.live().attempts.len();
        prop_assert!(attempts >= world.left() && attempts <= world.left() + 1, "{attempts} attempts");
        Ok(())
    });
}

#[test]
fn throttled_receives_exhaust_no_letter_before_its_last_point() {
    holds(2_000, &worlds(ceilings(), throttles()), |world| {
        let life = world.live();
        let (reason, end) = life.end.unwrap();
        prop_assert_eq!(reason, ArchiveReason::Exhausted);
        prop_assert!(end >= world.point(world.schedule.retries) - 1_000);
        Ok(())
    });
}

#[test]
fn whatever_happens_no_retry_comes_before_its_point_and_none_after_a_later_one() {
    holds(2_000, &worlds(ceilings(), everything()), |world| {
        let life = world.live();
        prop_assert!(!life.attempts.is_empty(), "archived without an attempt");
        prop_assert!(life.attempts.is_sorted_by_key(|attempt| attempt.number), "{:?}", life.numbers());
        for attempt in &life.attempts {
            prop_assert!(attempt.number > world.spent && attempt.number <= world.schedule.retries);
            prop_assert!(attempt.begin >= world.point(attempt.number) - 1_000, "{attempt:?}");
        }
        let (reason, end) = life.end.unwrap();
        prop_assert_eq!(reason, ArchiveReason::Exhausted);
        prop_assert_eq!(
            life.attempts.last().map(|last| (last.number, last.end)),
            Some((world.schedule.retries, end))
        );
        Ok(())
    });
}

/// A receive without an attempt counts like a throttled one. So if hiding a letter before its time fails, and
/// its next retries follow within seconds, one of them can be skipped.
#[test]
fn a_failed_change_before_an_attempt_can_cost_that_attempt_but_never_all() {
    let schedule = Schedule { min: 1, max: 1, retries: 2, min_delay: 1, ..Schedule::HTTP_DEFAULT };
    let failing = PlannedReceive { change_without_attempt_fails: true, ..PlannedReceive::default() };
    let mut world = DecisionWorld {
        schedule,
        jitter: 0.0,
        spent: 0,
        due: Some(2_000_000),
        ceiling: VISIBILITY_CEILING,
        retention: FOR_EVER,
        timeout: 1_999,
        receives: vec![failing],
    };
    assert_eq!(world.live().numbers(), [1, 2], "back before its time");
    world.timeout = 2_001;
    assert_eq!(world.live().numbers(), [1, 2], "back once its time has come");
    world.receives.push(failing);
    world.timeout = 1_001;
    assert_eq!(world.live().numbers(), [2], "two changes failed, and it came back after both points");
}

#[test]
fn a_letter_that_was_sent_and_comes_back_goes_on_counting() {
    let returns = (smooth(), prop::bool::weighted(0.5))
        .prop_map(|(smooth, comes_back)| PlannedReceive { comes_back, ..smooth });
    holds(1_000, &worlds(Just(VISIBILITY_CEILING), returns), |mut world| {
        (world.spent, world.due) = (0, None);
        let receives = world.receives.clone();
        let (mut receives, mut sent, mut numbers) = (receives.into_iter(), NOW, Vec::new());
        loop {
            let wait = if world.left() > 0 { world.wait(world.spent + 1) } else { 0 };
            prop_assume!(wait < world.ceiling_millis() || wait % world.ceiling_millis() > 3_000);
            let life = world.live_from(sent, &mut receives);
            numbers.extend(life.numbers());
            let Some(back) = life.came_back_at else {
                prop_assert_eq!(life.end.map(|end| end.0), Some(ArchiveReason::Exhausted));
                break;
            };
            (world.spent, sent) = (*numbers.last().unwrap(), back + 60_000);
        }
        prop_assert_eq!(numbers, (1..=world.schedule.retries).collect::<Vec<_>>());
        Ok(())
    });
}
