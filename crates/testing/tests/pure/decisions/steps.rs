//! Promise P2, word by word.

use super::*;

/// Returns the step by the rule as the promise words it, in milliseconds.
fn as_promised(receive: &ReceiveFacts, retries: u32, waits: &[u64]) -> RetryStep {
    let ms = Timestamp::as_millisecond;
    let (now, sent, first) = (ms(receive.now), ms(receive.sent), ms(receive.first_received));
    let (spent, count) = (receive.spent, u64::from(receive.count));
    let ceiling = millis(receive.ceiling);
    let d = |k: u32| millis(waits[k as usize - 1]);
    let r = |wait: i64| u64::from(receives_for(wait, ceiling));

    if spent >= retries {
        return RetryStep::Exhausted;
    }
    let left = retries - spent;
    let mut points = vec![receive.due.map_or(sent + d(spent + 1), ms)];
    let mut expected = vec![1 + if first < points[0] - 1_000 { r(points[0] - first) } else { 0 }];
    for j in 1..left as usize {
        let wait = d(spent + u32::try_from(j).unwrap() + 1);
        points.push(points[j - 1] + wait);
        expected.push(expected[j - 1] + r(wait));
    }
    if now < points[0] - 1_000 {
        return RetryStep::Early { until: at(points[0]) };
    }
    let reached = |j: &usize| now >= points[*j] - 1_000 && expected[*j] <= count;
    let last = (0..points.len()).filter(reached).max().unwrap_or(0);
    let n = u32::try_from(last).unwrap() + 1;
    if n < left {
        let wait = d(spent + n + 1);
        if wait > ceiling && count > expected[last] && now >= points[last] + ceiling - 1_000 {
            return RetryStep::Hop { until: at(points[last + 1]), retry: spent + n + 1 };
        }
    }
    // The promise's line about receives beyond those expected.
    let next = (last + 1 < points.len()).then(|| points[last + 1]);
    let next = next.filter(|next| count > expected[last] && now < next - 1_000);
    let extra = u32::try_from(count.saturating_sub(expected[last])).unwrap();
    RetryStep::Attempt {
        retry: spent + n,
        point: at(points[last]),
        next: next.map(at),
        successor: None,
        extra,
    }
}

/// Returns receives at the edges of the rule: around a point, and around a point and a ceiling.
fn receives_at_the_edges() -> impl Strategy<Value = (ReceiveFacts, Vec<u64>)> {
    let wait = prop_oneof![Just(0), 1_u64..=5, 50_u64..=350, Just(100), Just(101), Just(200)];
    let edges = vec![-1_001, -1_000, -999, -1, 0, 1, 50_000, 98_999, 99_000, 99_001, 100_000, 300_000];
    (
        (prop::collection::vec(wait, 1..8), any::<prop::sample::Index>(), prop::sample::select(edges)),
        (0_u32..=9, 1_u32..=25, prop::option::of(0_i64..=90_000), 0_i64..=400_000),
        prop::bool::ANY,
    )
        .prop_map(|((waits, near, edge), (spent, count, due, first), at_point)| {
            let from = (spent as usize).min(waits.len());
            let base = due.unwrap_or_else(|| millis(waits.get(from).copied().unwrap_or(0)));
            let later: u64 = waits.iter().skip(from + 1).take(near.index(waits.len())).sum();
            let first = if at_point { base - (first % 3 + 999) } else { first };
            let receive = ReceiveFacts {
                now: at(NOW + base + millis(later) + edge),
                sent: at(NOW),
                first_received: at(NOW + first.max(0)),
                count,
                spent,
                due: due.map(|due| at(NOW + due)),
                ceiling: 100,
                has_earlier_receives: false,
            };
            (receive, waits)
        })
}

#[test]
fn the_step_is_the_one_that_the_promise_words() {
    holds(5_000, &receives_at_the_edges(), |(receive, waits)| {
        let retries = u32::try_from(waits.len()).unwrap();
        let real = step(&receive, retries, |k| waits[k as usize - 1]);
        prop_assert_eq!(real, as_promised(&receive, retries, &waits));
        Ok(())
    });
}

/// Returns the step of a letter of three retries, 10, 20 and 250 s apart, with 100 s as the longest hiding.
fn step_at(seconds: f64, count: u32) -> RetryStep {
    #[expect(clippy::cast_possible_truncation, reason = "a few seconds")]
    let now = at(NOW + (seconds * 1000.0) as i64);
    let receive = ReceiveFacts {
        now,
        sent: at(NOW),
        first_received: at(NOW),
        count,
        spent: 0,
        due: None,
        ceiling: 100,
        has_earlier_receives: false,
    };
    step(&receive, 3, |k| [10, 20, 250][k as usize - 1])
}

#[test]
fn points_and_receives_decide_together_which_retry_it_is() {
    // The points are 10, 30 and 280 s after the letter was sent.
    let point = |retry: u32| at(NOW + [10_000, 30_000, 280_000][retry as usize - 1]);
    let made =
        |retry, next| RetryStep::Attempt { retry, point: point(retry), next, successor: None, extra: 0 };
    let attempt = |retry| made(retry, None);
    let early = |retry| made(retry, Some(point(retry + 1)));
    let too_soon = RetryStep::Early { until: at(NOW + 10_000) };
    let hop = RetryStep::Hop { until: at(NOW + 280_000), retry: 3 };
    for (seconds, count, expected, why) in [
        (0.0, 1, too_soon, "its first receive, before its time"),
        (8.999, 9, too_soon, "receives alone do not make it later"),
        (9.0, 2, attempt(1), "a point counts as reached one second early"),
        (10.0, 2, attempt(1), "on time"),
        (10.0, 99, early(1), "throttled receives are no attempts"),
        (10.0, 3, early(1), "one receive more than its first retry takes"),
        (28.999, 3, early(1), "just before its second point"),
        (30.0, 2, attempt(1), "time alone is not a second receive"),
        (30.0, 3, attempt(2), "both have come"),
        (99_999.0, 1, attempt(1), "off for a day before it was ever seen"),
        (99_999.0, 3, attempt(2), "off for a day after its first attempt"),
        (128.999, 4, early(2), "back before the first hiding of its long wait has passed"),
        (129.0, 4, hop, "the first hop: 100 s after its second point, less the second"),
        (230.0, 5, hop, "the second hop"),
        (278.999, 9, hop, "however often it was received"),
        (280.0, 5, hop, "its third point has come, but not its third receive for it"),
        (280.0, 6, attempt(3), "on time"),
        (99_999.0, 4, hop, "late in the long wait: one more receive, hidden for no time"),
        (99_999.0, 99, attempt(3), "no retry follows the last"),
    ] {
        let mut decided = step_at(seconds, count);
        if let RetryStep::Attempt { extra, .. } = &mut decided {
            *extra = 0;
        }
        assert_eq!(decided, expected, "at {seconds} s, receive {count}: {why}");
    }
}

#[test]
fn no_retries_left_means_exhausted_without_an_attempt() {
    let receive = |spent| ReceiveFacts {
        now: at(NOW),
        sent: at(NOW),
        first_received: at(NOW),
        count: 1,
        spent,
        due: None,
        ceiling: VISIBILITY_CEILING,
        has_earlier_receives: false,
    };
    for (spent, retries) in [(0, 0), (3, 3), (4, 3), (u32::MAX, MAX_RETRIES)] {
        assert_eq!(step(&receive(spent), retries, |_| 0), RetryStep::Exhausted, "{spent} of {retries}");
    }
    let last = RetryStep::Attempt { retry: 3, point: at(NOW), next: None, successor: None, extra: 0 };
    assert_eq!(step(&receive(2), 3, |_| 0), last);
}

#[test]
fn no_receive_is_too_strange_to_be_decided() {
    let times = prop_oneof![
        Just(Timestamp::MIN),
        Just(Timestamp::MAX),
        (-4_000_000_000_000_i64..=4_000_000_000_000).prop_map(at),
    ];
    let inputs = (
        (times.clone(), times.clone(), times.clone(), prop::option::of(times)),
        (any::<u32>(), any::<u32>(), 0..=MAX_RETRIES, prop_oneof![Just(0), Just(1), any::<u64>()]),
        any::<bool>(),
    );
    holds(
        200,
        &inputs,
        |((now, sent, first_received, due), (count, spent, retries, ceiling), has_earlier_receives)| {
            let receive =
                ReceiveFacts { now, sent, first_received, count, spent, due, ceiling, has_earlier_receives };
            step(&receive, retries, |_| u64::from(MAX_DELAY_SECONDS));
            Ok(())
        },
    );
}
