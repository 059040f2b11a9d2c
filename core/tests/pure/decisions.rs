//! How many retries a letter gets, and when: promises P2, P3 and P4 of the policy, shown on the real
//! `Policy::decide` and `Verdict::after_failure` by living through random worlds.
//!
//! A world is one letter in one queue: SQS hides and shows it, Lambda receives it (late, throttled,
//! after a batching window), attempts take time and fail, and changes of its visibility may fail.

use jiff::Timestamp;
use proptest::prelude::*;
use redrive_core::arn::Arn;
use redrive_core::failure::FailureClass;
use redrive_core::letter::{Letter, Origins};
use redrive_core::policy::{
    ArchiveReason, Backoff, Decision, DeferReason, Deferral, Facts, Jitter, MAX_DELAY_SECONDS, MAX_RETRIES,
    Phase, Policy, Receive, Retry, Route, Schedule, Step, VISIBILITY_CEILING, Voucher, expiry_margin,
    is_expiring, step,
};
use redrive_testing::record::{envelope, letter, received, record, sample, text_attribute};
use redrive_testing::{NOW, SUBSCRIPTION, TOPIC, at, holds};
use serde_json::{Value, json};

const DAY: u64 = 24 * 3600;

/// Retention that never ends, for the laws that are not about it.
const FOR_EVER: u64 = 100 * 365 * DAY;

/// SQS refuses to hide a message for longer than this, counted from its receive.
const VISIBILITY_LIMIT_MILLIS: i64 = 43_200_000;

fn millis(seconds: u64) -> i64 {
    i64::try_from(seconds * 1000).unwrap()
}

// ---------------------------------------------------------------------------------------------
// The world

#[derive(Debug, Clone)]
struct World {
    schedule: Schedule,
    jitter: f64,
    /// Retries behind the letter by its mark; no mark where it is 0 and nothing is due.
    spent: u32,
    /// When its mark says that it is due, milliseconds after it was sent.
    due: Option<i64>,
    ceiling: u64,
    retention: u64,
    /// The queue's own visibility timeout, seconds.
    timeout: u64,
    /// What happens at each receive; afterwards nothing more goes wrong.
    receives: Vec<Receiving>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Receiving {
    /// Visible for so long before it is received, milliseconds.
    late: i64,
    /// Received for so long before the function sees it (batching window, cold start), milliseconds.
    window: i64,
    /// How long an attempt takes, milliseconds.
    attempt: i64,
    /// Received, but the function is throttled and never runs.
    throttled: bool,
    /// The change of visibility after an attempt fails.
    change_after_attempt_fails: bool,
    /// The change of visibility without an attempt fails.
    change_without_attempt_fails: bool,
    /// The attempt is a success, but the letter dies again and comes back.
    comes_back: bool,
}

#[derive(Debug, Clone, Copy)]
struct Attempt {
    number: u32,
    begin: i64,
    end: i64,
}

#[derive(Debug, Default)]
struct Life {
    attempts: Vec<Attempt>,
    receives: u32,
    end: Option<(ArchiveReason, i64)>,
    came_back_at: Option<i64>,
}

impl Life {
    fn numbers(&self) -> Vec<u32> {
        self.attempts.iter().map(|attempt| attempt.number).collect()
    }
}

impl World {
    fn policy(&self) -> Policy {
        let s = &self.schedule;
        let document = json!({ "default": { "jitter": self.jitter, "deliveryPolicy": { "healthyRetryPolicy": {
            "minDelayTarget": s.min, "maxDelayTarget": s.max, "numRetries": s.retries,
            "numNoDelayRetries": s.no_delay, "numMinDelayRetries": s.min_delay,
            "numMaxDelayRetries": s.max_delay, "backoffFunction": s.backoff.name() } } } });
        Policy::parse(&document.to_string()).unwrap()
    }

    /// The record; what SQS counts is filled in at each receive.
    fn record(&self, sent: i64) -> Value {
        let mut mark = json!({ "v": 1, "spent": self.spent, "id": "letter-1", "first": NOW, "gen": 0 });
        if let Some(due) = self.due {
            mark["due"] = (sent + due).into();
        }
        let mut record = record(&envelope("hello", &json!({})));
        record["messageAttributes"]["sns-redrive"] = text_attribute(&mark.to_string());
        record["attributes"]["SentTimestamp"] = sent.to_string().into();
        record
    }

    /// The wait before retry `k`, milliseconds.
    fn wait(&self, k: u32) -> i64 {
        let seconds = self.schedule.wait(k, &Jitter::new(self.jitter, "letter-1")).unwrap();
        millis(seconds)
    }

    /// The points of a letter that was sent now, one for each retry from `spent` + 1.
    fn points(&self, sent: i64) -> Vec<i64> {
        let mut points = Vec::new();
        for k in self.spent + 1..=self.schedule.retries {
            let point = match (points.last(), self.due) {
                (Some(last), _) => last + self.wait(k),
                (None, Some(due)) => sent + due,
                (None, None) => sent + self.wait(k),
            };
            points.push(point);
        }
        points
    }

    fn point(&self, number: u32) -> i64 {
        self.points(NOW)[usize::try_from(number - self.spent - 1).unwrap()]
    }

    fn left(&self) -> usize {
        usize::try_from(self.schedule.retries - self.spent).unwrap()
    }

    fn ceiling_millis(&self) -> i64 {
        millis(self.ceiling)
    }

    fn live(&self) -> Life {
        self.live_from(NOW, &mut self.receives.iter().copied())
    }

    /// Lets the letter live until it leaves the queue.
    fn live_from(&self, sent: i64, receives: &mut impl Iterator<Item = Receiving>) -> Life {
        let policy = self.policy();
        let facts = Facts { retention: self.retention, ceiling: self.ceiling, ..Facts::default() };
        let timeout = millis(self.timeout);
        let mut letter = Letter::parse_requeued(received(&self.record(sent)), Origins::none());
        let mut life = Life::default();
        let mut visible = sent;
        loop {
            assert!(life.receives < 10_000, "the letter circulates for ever");
            let here = receives.next().unwrap_or_default();
            let receive = visible + here.late;
            life.receives += 1;
            letter.sqs.receive_count = life.receives;
            if life.receives == 1 {
                letter.sqs.first_received = at(receive);
            }
            if here.throttled {
                visible = receive + timeout;
                continue;
            }
            let mut now = receive + here.window;
            let verdict = policy.decide(&letter, &facts, at(now));
            let (decision, change_fails) = match verdict.decision {
                Decision::Deliver(retry) => {
                    assert_eq!(retry.of, self.schedule.retries);
                    let begin = now;
                    now += here.attempt;
                    life.attempts.push(Attempt { number: retry.number, begin, end: now });
                    if here.comes_back {
                        life.came_back_at = Some(now);
                        return life;
                    }
                    let next = verdict.after_failure(retry, FailureClass::Transient, at(now));
                    (next, here.change_after_attempt_fails)
                }
                ref other => (other.clone(), here.change_without_attempt_fails),
            };
            match decision {
                Decision::Deliver(_) => panic!("nothing is delivered after a failure"),
                Decision::Archive(reason, _) => {
                    life.end = Some((reason, now));
                    return life;
                }
                Decision::Defer(Deferral { hide, .. }) => {
                    assert!(hide <= self.ceiling, "hidden for {hide} s");
                    let hide = millis(hide);
                    let safe = sent + millis(self.retention - expiry_margin(self.retention));
                    assert!(now + hide <= safe, "hidden into the margin before the queue drops it");
                    assert!(now + hide - receive <= VISIBILITY_LIMIT_MILLIS, "SQS refuses {hide} ms");
                    visible = if change_fails { now.max(receive + timeout) } else { now + hide };
                }
            }
        }
    }
}

// ---------------------------------------------------------------------------------------------
// Random worlds

fn schedules() -> impl Strategy<Value = Schedule> {
    let delays = prop_oneof![
        (1_u32..=5, 0_u32..=20),
        (1_u32..=600, 0_u32..=7200),
        (3600_u32..=90_000, 0_u32..=400_000),
    ];
    let backoff = prop::sample::select(Backoff::ALL.to_vec());
    (delays, (0_u32..=3, 0_u32..=3, 0_u32..=5, 0_u32..=3), backoff).prop_map(
        |((min, more), (no_delay, min_delay, in_backoff, max_delay), backoff)| Schedule {
            min,
            max: min + more,
            retries: (no_delay + min_delay + in_backoff + max_delay).max(1),
            no_delay,
            min_delay,
            max_delay,
            backoff,
        },
    )
}

/// Worlds in which receives go by `receives`; `ceilings` says how long a message can be hidden.
fn worlds(
    ceilings: impl Strategy<Value = u64>,
    receives: impl Strategy<Value = Receiving>,
) -> impl Strategy<Value = World> {
    let marks = (any::<prop::sample::Index>(), prop::bool::weighted(0.3));
    let due = prop::option::weighted(0.2, -100_000_i64..300_000_000);
    let receives = prop::collection::vec(receives, 0..40);
    (
        schedules(),
        prop::sample::select(vec![0.0, 0.1, 1.0]),
        marks,
        due,
        ceilings,
        1_300_u64..=5_400,
        receives,
    )
        .prop_map(|(schedule, jitter, (spent, marked), due, ceiling, timeout, receives)| World {
            spent: if marked { u32::try_from(spent.index(schedule.retries as usize)).unwrap() } else { 0 },
            schedule,
            jitter,
            due,
            ceiling,
            retention: FOR_EVER,
            timeout,
            receives,
        })
}

/// Mostly the real ceiling, sometimes one so low that short waits hop too.
fn ceilings() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(VISIBILITY_CEILING), 1 => 400_u64..=4_000]
}

/// Lambda polls at once, the function is warm; attempts take up to a quarter of an hour.
const LATENCY: i64 = 200;

fn smooth() -> impl Strategy<Value = Receiving> {
    let attempt = prop_oneof![Just(0), 1_i64..=2_000, 1_i64..=900_000];
    (0..=LATENCY, attempt).prop_map(|(late, attempt)| Receiving { late, attempt, ..Receiving::default() })
}

fn late_polls() -> impl Strategy<Value = Receiving> {
    let late = prop_oneof![3 => 0..=LATENCY, 2 => 0_i64..=600_000, 1 => 0_i64..=400_000_000];
    (smooth(), late).prop_map(|(smooth, late)| Receiving { late, ..smooth })
}

fn changes_after_attempts_fail() -> impl Strategy<Value = Receiving> {
    (late_polls(), prop::bool::weighted(0.3))
        .prop_map(|(late, fails)| Receiving { change_after_attempt_fails: fails, ..late })
}

fn throttles() -> impl Strategy<Value = Receiving> {
    (smooth(), prop::bool::weighted(0.5)).prop_map(|(smooth, throttled)| Receiving { throttled, ..smooth })
}

fn windows() -> impl Strategy<Value = Receiving> {
    (smooth(), 0_i64..=300_000).prop_map(|(smooth, window)| Receiving { window, ..smooth })
}

fn everything() -> impl Strategy<Value = Receiving> {
    let window = prop_oneof![Just(0), 0_i64..=300_000];
    (changes_after_attempts_fail(), window, prop::bool::weighted(0.2), prop::bool::weighted(0.3)).prop_map(
        |(here, window, throttled, fails)| Receiving {
            window,
            throttled,
            change_without_attempt_fails: fails,
            ..here
        },
    )
}

// ---------------------------------------------------------------------------------------------
// P2 on these worlds

/// The receives that a wait takes, by the promise: R(w).
fn receives_for(wait: i64, ceiling: i64) -> u32 {
    u32::try_from(wait.div_euclid(ceiling) + i64::from(wait.rem_euclid(ceiling) > 0)).unwrap().max(1)
}

/// Whether the wait before the first retry ends so little above a whole number of ceilings that its
/// last, tiny hiding falls into the second of slack: then the first retry is made twice.
fn first_wait_ends_in_the_slack(world: &World) -> bool {
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

        // Never early, and late only by what attempts and polls took, or by what it was late on arrival.
        let points = world.points(NOW);
        let mut behind = LATENCY + 1_000 + (NOW - points[0]).max(0);
        for (attempt, point) in life.attempts.iter().zip(points) {
            behind += LATENCY * i64::from(receives_for(world.wait(attempt.number), world.ceiling_millis()));
            prop_assert!(attempt.begin >= point - 1_000, "{attempt:?} before {point}");
            prop_assert!(attempt.begin <= point + behind, "{attempt:?} after {point} + {behind}");
            behind += attempt.end - attempt.begin;
        }
        // Never closer to the failure before it than its delay, or one hiding of a longer one.
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

/// What stands beside "exactly its retries" in SEMANTICS.md: the wait of the first retry ends between a receive and the
/// handling of its batch, so it is made one receive before it counts as made.
#[test]
fn a_first_retry_whose_wait_ends_between_receive_and_handling_is_made_twice_and_no_other() {
    let schedule = json!({ "minDelayTarget": 60, "maxDelayTarget": 60, "numRetries": 3 });
    let policy = json!({ "default": { "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": schedule } } });
    let policy = Policy::parse(&policy.to_string()).unwrap();
    let mut letter = marked(0, None);
    letter.mark = None;
    // Received after 30 s, but handled after 60: a batching window of 30 s lies between.
    letter.sqs.first_received = at(NOW + 30_000);
    let mut numbers = Vec::new();
    for (receive, now) in [(1, 60), (2, 120), (3, 180), (4, 240), (5, 300)] {
        letter.sqs.receive_count = receive;
        let verdict = policy.decide(&letter, &Facts::default(), at(NOW + now * 1000));
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

/// A receive without an attempt counts like a throttled one. So where hiding a letter before its time
/// fails, and its next retries follow within seconds, one of them can be passed over.
#[test]
fn a_failed_change_before_an_attempt_can_cost_that_attempt_but_never_all() {
    let schedule = Schedule { min: 1, max: 1, retries: 2, min_delay: 1, ..Schedule::HTTP_DEFAULT };
    let failing = Receiving { change_without_attempt_fails: true, ..Receiving::default() };
    let mut world = World {
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
        .prop_map(|(smooth, comes_back)| Receiving { comes_back, ..smooth });
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

// ---------------------------------------------------------------------------------------------
// P2 word by word

/// The rule of the promise, written down as it is worded there, in milliseconds.
fn as_promised(receive: &Receive, retries: u32, waits: &[u64]) -> Step {
    let ms = Timestamp::as_millisecond;
    let (now, sent, first) = (ms(receive.now), ms(receive.sent), ms(receive.first_received));
    let (spent, count) = (receive.spent, u64::from(receive.count));
    let ceiling = millis(receive.ceiling);
    let d = |k: u32| millis(waits[k as usize - 1]);
    let r = |wait: i64| u64::from(receives_for(wait, ceiling));

    if spent >= retries {
        return Step::Exhausted;
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
        return Step::Early { until: at(points[0]) };
    }
    let reached = |j: &usize| now >= points[*j] - 1_000 && expected[*j] <= count;
    let last = (0..points.len()).filter(reached).max().unwrap_or(0);
    let n = u32::try_from(last).unwrap() + 1;
    if n < left {
        let wait = d(spent + n + 1);
        if wait > ceiling && count > expected[last] && now >= points[last] + ceiling - 1_000 {
            return Step::Hop { until: at(points[last + 1]), retry: spent + n + 1 };
        }
    }
    Step::Attempt { retry: spent + n }
}

/// Receives at the edges of the rule: around a point, and around a point and a ceiling.
fn receives_at_the_edges() -> impl Strategy<Value = (Receive, Vec<u64>)> {
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
            let receive = Receive {
                now: at(NOW + base + millis(later) + edge),
                sent: at(NOW),
                first_received: at(NOW + first.max(0)),
                count,
                spent,
                due: due.map(|due| at(NOW + due)),
                ceiling: 100,
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

/// A letter of three retries, 10, 20 and 250 s apart, where 100 s is the longest hiding.
fn step_at(seconds: f64, count: u32) -> Step {
    #[expect(clippy::cast_possible_truncation, reason = "a few seconds")]
    let now = at(NOW + (seconds * 1000.0) as i64);
    let receive =
        Receive { now, sent: at(NOW), first_received: at(NOW), count, spent: 0, due: None, ceiling: 100 };
    step(&receive, 3, |k| [10, 20, 250][k as usize - 1])
}

#[test]
fn points_and_receives_decide_together_which_retry_it_is() {
    let attempt = |retry| Step::Attempt { retry };
    let early = Step::Early { until: at(NOW + 10_000) };
    let hop = Step::Hop { until: at(NOW + 280_000), retry: 3 };
    for (seconds, count, expected, why) in [
        (0.0, 1, early, "its first receive, before its time"),
        (8.999, 9, early, "receives alone do not make it later"),
        (9.0, 2, attempt(1), "a point counts as reached one second early"),
        (10.0, 2, attempt(1), "on time"),
        (10.0, 99, attempt(1), "throttled receives are no attempts"),
        (28.999, 3, attempt(1), "just before its second point"),
        (30.0, 2, attempt(1), "time alone is not a second receive"),
        (30.0, 3, attempt(2), "both have come"),
        (99_999.0, 1, attempt(1), "off for a day before it was ever seen"),
        (99_999.0, 3, attempt(2), "off for a day after its first attempt"),
        (128.999, 4, attempt(2), "back before the first hiding of its long wait has passed"),
        (129.0, 4, hop, "the first hop: 100 s after its second point, less the second"),
        (230.0, 5, hop, "the second hop"),
        (278.999, 9, hop, "however often it was received"),
        (280.0, 5, hop, "its third point has come, but not its third receive for it"),
        (280.0, 6, attempt(3), "on time"),
        (99_999.0, 4, hop, "late in the long wait: one more receive, hidden for no time"),
        (99_999.0, 99, attempt(3), "no retry follows the last"),
    ] {
        assert_eq!(step_at(seconds, count), expected, "at {seconds} s, receive {count}: {why}");
    }
}

#[test]
fn no_retries_left_means_exhausted_without_an_attempt() {
    let receive = |spent| Receive {
        now: at(NOW),
        sent: at(NOW),
        first_received: at(NOW),
        count: 1,
        spent,
        due: None,
        ceiling: VISIBILITY_CEILING,
    };
    for (spent, retries) in [(0, 0), (3, 3), (4, 3), (u32::MAX, MAX_RETRIES)] {
        assert_eq!(step(&receive(spent), retries, |_| 0), Step::Exhausted, "{spent} of {retries}");
    }
    assert_eq!(step(&receive(2), 3, |_| 0), Step::Attempt { retry: 3 });
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
    );
    holds(200, &inputs, |((now, sent, first_received, due), (count, spent, retries, ceiling))| {
        let receive = Receive { now, sent, first_received, count, spent, due, ceiling };
        step(&receive, retries, |_| u64::from(MAX_DELAY_SECONDS));
        Ok(())
    });
}

// ---------------------------------------------------------------------------------------------
// What is decided of a letter

/// A letter in a function's own dead-letter queue does not say which function that was.
const NO_FUNCTION: Option<&str> =
    Some("does not name the function that failed: give its rule that function as target");

const BUILT_IN_RETRIES: u32 = Schedule::BUILT_IN.retries;

fn deliver(number: u32, phase: Phase) -> Decision {
    Decision::Deliver(Retry { number, of: BUILT_IN_RETRIES, phase })
}

fn decisions_on(file: &str, facts: &Facts) -> Vec<Decision> {
    let policy = Policy::built_in();
    sample(file).iter().map(|letter| policy.decide(letter, facts, at(NOW)).decision).collect()
}

#[test]
fn the_sample_events_are_decided_as_their_table_says() {
    let facts = Facts::default();
    let moved = Facts { source_max_receives: Some(3), ..Facts::default() };
    let first = deliver(1, Phase::Immediate);
    let unrecognised = Decision::Archive(ArchiveReason::Unrecognised, Some("names no subscription"));
    let exhausted = Decision::Archive(ArchiveReason::Exhausted, None);
    for (file, expected) in [
        ("envelope.json", vec![first.clone()]),
        ("raw.json", vec![unrecognised.clone()]),
        ("fifo.json", vec![first.clone(); 4]),
        ("lambda-async.json", vec![Decision::Archive(ArchiveReason::Unrecognised, NO_FUNCTION)]),
        ("lambda-destination.json", vec![first.clone()]),
        ("eventbridge.json", vec![first.clone()]),
        ("garbage.json", vec![unrecognised.clone(); 10]),
        ("late-retry.json", vec![deliver(9, Phase::Backoff)]),
        ("exhausted.json", vec![exhausted.clone()]),
    ] {
        assert_eq!(decisions_on(file, &facts), expected, "{file}");
    }

    assert_eq!(decisions_on("sqs-consumer.json", &moved), std::slice::from_ref(&first));

    let mixed = decisions_on("mixed.json", &Facts::default());
    let early = &sample("mixed.json")[8];
    let wait = Schedule::BUILT_IN.wait(2, &Jitter::new(0.1, early.id.as_str())).unwrap();
    let due = at(early.sqs.sent.as_millisecond() + millis(wait));
    assert!((54..=60).contains(&wait), "{wait}");
    let deferral = Deferral { hide: wait - 10, due, retry: 2, why: DeferReason::Early };
    assert_eq!(mixed[0], first);
    assert_eq!(mixed[1], deliver(2, Phase::PreBackoff));
    assert_eq!(mixed[2], unrecognised);
    assert_eq!(mixed[7], unrecognised);
    assert_eq!(mixed[8], Decision::Defer(deferral));
    assert_eq!(mixed[9], exhausted);
}

#[test]
fn receives_of_the_source_queue_are_not_receives_of_ours() {
    let moved = &sample("sqs-consumer.json")[0];
    assert_eq!(moved.sqs.receive_count, 4);
    let policy = Policy::built_in();
    for (source_max_receives, expected) in [
        (Some(3), deliver(1, Phase::Immediate)),
        (Some(2), deliver(2, Phase::PreBackoff)),
        (Some(1_000), deliver(1, Phase::Immediate)),
        (None, deliver(2, Phase::PreBackoff)),
    ] {
        let facts = Facts { source_max_receives, ..Facts::default() };
        let decision = policy.decide(moved, &facts, at(NOW)).decision;
        assert_eq!(decision, expected, "maxReceiveCount {source_max_receives:?}");
    }
}

/// A letter with a mark, sent now and never received before.
fn marked(spent: u32, due: Option<i64>) -> Letter {
    let mut mark = json!({ "v": 1, "spent": spent, "id": "letter-1", "first": NOW, "gen": 0 });
    if let Some(due) = due {
        mark["due"] = due.into();
    }
    let mut record = record(&envelope("hello", &json!({})));
    record["messageAttributes"]["sns-redrive"] = text_attribute(&mark.to_string());
    Letter::parse_requeued(received(&record), Origins::none())
}

#[test]
fn a_retry_knows_its_phase_over_the_whole_life_of_the_letter() {
    use Phase::{Backoff, Immediate, PostBackoff, PreBackoff};
    let policy = Policy::built_in();
    let phases: Vec<_> = (0..BUILT_IN_RETRIES)
        .map(|spent| match policy.decide(&marked(spent, Some(NOW)), &Facts::default(), at(NOW)).decision {
            Decision::Deliver(retry) => (retry.number, retry.phase),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [Immediate, PreBackoff, PreBackoff]
        .into_iter()
        .chain([Backoff; 7])
        .chain([PostBackoff; 2])
        .zip(1..)
        .map(|(phase, number)| (number, phase));
    assert_eq!(phases, expected.collect::<Vec<_>>());
}

#[test]
fn the_due_time_of_the_mark_comes_before_the_schedule() {
    let policy = Policy::built_in();
    let decide = |due| policy.decide(&marked(1, Some(due)), &Facts::default(), at(NOW)).decision;
    assert_eq!(decide(NOW), deliver(2, Phase::PreBackoff));
    let wait = Deferral { hide: 6, due: at(NOW + 5_001), retry: 2, why: DeferReason::Early };
    assert_eq!(decide(NOW + 5_001), Decision::Defer(wait), "hidden by whole seconds, rounded up");
}

#[test]
fn a_failed_retry_waits_for_the_delay_of_the_next_from_now() {
    let document = json!({ "default": { "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": {
        "minDelayTarget": 10, "maxDelayTarget": 200_000, "numRetries": 4, "numNoDelayRetries": 2,
        "numMaxDelayRetries": 1 } } } });
    let policy = Policy::parse(&document.to_string()).unwrap();
    let facts = Facts { retention: 14 * DAY, ..Facts::default() };
    let letter = marked(0, None);
    let verdict = policy.decide(&letter, &facts, at(NOW));
    let now = NOW + 2_345;
    let defer = |retry, hide, wait| {
        let due = at(now + millis(wait));
        Decision::Defer(Deferral { hide, due, retry, why: DeferReason::Failed })
    };
    for (number, expected) in [
        (1, defer(2, 0, 0)),
        (2, defer(3, 10, 10)),
        (3, defer(4, VISIBILITY_CEILING, 200_000)),
        (4, Decision::Archive(ArchiveReason::Exhausted, None)),
    ] {
        let failed = Retry { number, of: 4, phase: Phase::Immediate };
        assert_eq!(verdict.after_failure(failed, FailureClass::Transient, at(now)), expected, "{number}");
    }
}

#[test]
fn only_a_permanent_failure_ends_a_schedule_early_and_only_where_the_rule_lets_it() {
    let after = |class, retry_permanent: bool, number| {
        let document = json!({ "default": { "retryPermanent": retry_permanent } });
        let policy = Policy::parse(&document.to_string()).unwrap();
        let letter = marked(0, None);
        let verdict = policy.decide(&letter, &Facts::default(), at(NOW));
        let failed = Retry { number, of: BUILT_IN_RETRIES, phase: Phase::Immediate };
        match verdict.after_failure(failed, class, at(NOW)) {
            Decision::Defer(deferral) => deferral.why.name(),
            Decision::Archive(reason, None) => reason.name(),
            other => panic!("{other:?}"),
        }
    };
    for class in [FailureClass::Throttling, FailureClass::Transient, FailureClass::ActionRequired] {
        assert_eq!(after(class, false, 1), "failed", "{class:?}");
        assert_eq!(after(class, false, BUILT_IN_RETRIES), "exhausted", "{class:?}");
    }
    assert_eq!(after(FailureClass::Permanent, false, 1), "permanent");
    assert_eq!(after(FailureClass::Permanent, true, 1), "failed");
    assert_eq!(after(FailureClass::Permanent, true, BUILT_IN_RETRIES), "exhausted");
}

fn under(rule: &Value) -> Policy {
    Policy::parse(&json!({ "default": rule }).to_string()).unwrap()
}

#[test]
fn a_letter_that_its_rule_archives_or_holds_is_never_attempted() {
    let facts = Facts::default();
    let letter = marked(0, None);
    let archive = under(&json!({ "action": "archive" }));
    assert_eq!(
        archive.decide(&letter, &facts, at(NOW)).decision,
        Decision::Archive(ArchiveReason::Rule, None)
    );
    let hold = under(&json!({ "action": "hold" }));
    let due = at(NOW + millis(VISIBILITY_CEILING));
    for spent in [0, 3, BUILT_IN_RETRIES] {
        let held = Deferral { hide: VISIBILITY_CEILING, due, retry: spent + 1, why: DeferReason::Hold };
        assert_eq!(held.for_mark(), (spent, None), "holding is no retry, and none is due");
        let letter = marked(spent, None);
        assert_eq!(hold.decide(&letter, &facts, at(NOW)).decision, Decision::Defer(held));
    }
}

#[test]
fn a_letter_without_a_way_to_its_target_is_unrecognised() {
    const NO_SUBSCRIPTION: Option<&str> = Some("names no subscription");
    const NO_SOURCE: Option<&str> = Some("was not moved here by SQS, so it has no source queue");
    const NO_TOPIC: Option<&str> = Some("names no topic");
    let queue = "arn:aws:sqs:eu-central-1:123456789012:orders-worker";

    let sns = letter(&record(&envelope("hello", &json!({}))));
    let anonymous = letter(&record(&envelope("hello", &json!({})).replace(SUBSCRIPTION, "nobody")));
    let raw = letter(&record("hello"));
    let mut moved_raw = record("hello");
    moved_raw["attributes"]["DeadLetterQueueSourceArn"] = queue.into();
    let moved_raw = letter(&moved_raw);
    let mut lambda = record("{}");
    lambda["messageAttributes"]["RequestID"] = text_attribute("1");
    lambda["messageAttributes"]["ErrorCode"] = text_attribute("200");
    let lambda = letter(&lambda);

    let decide =
        |rule: &Value, letter: &Letter| match under(rule).decide(letter, &Facts::default(), at(NOW)).decision
        {
            Decision::Deliver(retry) if retry.number == 1 => None,
            Decision::Archive(ArchiveReason::Unrecognised, Some(detail)) => Some(detail),
            other => panic!("{other:?}"),
        };
    for (target, expected) in [
        // In order: an SNS letter, one that names no subscription, a raw one, a raw one that SQS
        // moved, one of a Lambda function that holds no SNS event.
        ("origin", [None, NO_SUBSCRIPTION, NO_SUBSCRIPTION, None, NO_FUNCTION]),
        ("subscription", [None, NO_SUBSCRIPTION, NO_SUBSCRIPTION, NO_SUBSCRIPTION, NO_SUBSCRIPTION]),
        ("source", [NO_SOURCE, NO_SOURCE, NO_SOURCE, None, NO_SOURCE]),
        ("topic", [None, NO_SUBSCRIPTION, NO_TOPIC, NO_TOPIC, NO_TOPIC]),
        (queue, [None; 5]),
    ] {
        let rule = json!({ "target": target });
        let details = [&sns, &anonymous, &raw, &moved_raw, &lambda].map(|letter| decide(&rule, letter));
        assert_eq!(details, expected, "target {target}");
    }
    for target in ["origin", "subscription"] {
        let rule = json!({ "target": target, "subscription": SUBSCRIPTION });
        assert_eq!(decide(&rule, &raw), None, "a rule may name the subscription of raw letters");
    }
}

const WORKER: &str = "arn:aws:sqs:eu-central-1:123456789012:orders-worker";

/// Published again, each copy of each retry would make new ones.
#[test]
fn a_copy_that_our_own_publishing_made_goes_back_to_what_failed_and_to_no_topic() {
    let subscription: Arn = SUBSCRIPTION.parse().unwrap();
    let back = |again| Route::Returned { subscription: subscription.clone(), again };
    let marked = |published: u32, id: &str| {
        let mark = json!({ "v": 2, "spent": 1, "id": id, "first": NOW, "passes": 1, "pub": published });
        json!({ "sns-redrive": { "Type": "String", "Value": mark.to_string() } })
    };
    for target in ["topic", TOPIC, "arn:aws:sns:eu-central-1:123456789012:another"] {
        let topic = under(&json!({ "target": target }));
        let route = |record: &Value| topic.decide(&letter(record), &Facts::default(), at(NOW)).route;
        let copy = |published, id: &str| route(&record(&envelope("hello", &marked(published, id))));
        let own = format!("d3344452/{SUBSCRIPTION}");
        let other = format!("d3344452/{SUBSCRIPTION}0");
        assert_eq!(copy(1, &own), back(true), "{target}");
        assert_eq!(copy(0, &own), back(true), "what stands in an envelope was published");
        assert_eq!(copy(7, &own), back(true));
        assert_eq!(copy(1, &other), back(false));
        assert_eq!(
            copy(1, "512a856d-6e86-45b6-a7a3-8627a61ec790"),
            back(false),
            "it was a raw letter before"
        );
        assert!(
            matches!(copy(2, &other), Route::Nowhere(ArchiveReason::Returned, _)),
            "an earlier copy is there"
        );
        // What SQS moved goes to the queue that it came from.
        let mut moved = record(&envelope("hello", &marked(1, &other)));
        moved["attributes"]["DeadLetterQueueSourceArn"] = WORKER.into();
        assert_eq!(route(&moved), Route::To(WORKER.parse().unwrap()));
        // A raw copy does not say where it failed.
        let mut raw = record("hello");
        raw["messageAttributes"] = json!({ "sns-redrive": text_attribute(
            marked(1, "m")["sns-redrive"]["Value"].as_str().unwrap()) });
        assert!(matches!(route(&raw), Route::Nowhere(ArchiveReason::Returned, _)), "{target}");
        let named = under(&json!({ "target": target, "subscription": SUBSCRIPTION }));
        let route = named.decide(&letter(&raw), &Facts::default(), at(NOW)).route;
        assert_eq!(route, Route::ThroughSubscription(subscription.clone()));
    }
}

#[test]
fn under_topic_a_letter_of_sns_that_was_not_published_by_us_is_published() {
    let topic = under(&json!({ "target": "topic" }));
    let record = record(&envelope("hello", &json!({})));
    let route = topic.decide(&letter(&record), &Facts::default(), at(NOW)).route;
    assert_eq!(route, Route::ToTopicOf(SUBSCRIPTION.parse().unwrap(), Voucher::DeadLetters));
}

/// Who can write to the source queue can name any topic.
#[test]
fn under_topic_a_letter_that_sqs_moved_needs_a_subscription_that_delivers_to_its_source() {
    let topic = under(&json!({ "target": "topic" }));
    let route = |subscription| {
        let mut record = record(&envelope("hello", &json!({})).replace(SUBSCRIPTION, subscription));
        record["attributes"]["DeadLetterQueueSourceArn"] = WORKER.into();
        topic.decide(&letter(&record), &Facts::default(), at(NOW)).route
    };
    let vouched = Voucher::DeliversTo(WORKER.parse().unwrap());
    assert_eq!(route(SUBSCRIPTION), Route::ToTopicOf(SUBSCRIPTION.parse().unwrap(), vouched));
    assert!(matches!(route("nobody"), Route::Nowhere(ArchiveReason::Refused, _)));
}

#[test]
fn a_subscription_is_looked_for_only_where_a_letter_needs_one_and_none_is_named() {
    let sns = letter(&record(&envelope("hello", &json!({}))));
    let anonymous = letter(&record(&envelope("hello", &json!({})).replace(SUBSCRIPTION, "nobody")));
    let raw = letter(&record("hello"));
    let mut moved = record("hello");
    moved["attributes"]["DeadLetterQueueSourceArn"] = "arn:aws:sqs:eu-central-1:123456789012:worker".into();
    let moved = letter(&moved);
    let asks = |rule: &Value| {
        let policy = under(rule);
        [&sns, &anonymous, &raw, &moved].map(|letter| policy.default_rule().asks_for_subscription(letter))
    };
    for (target, expected) in [
        ("origin", [false, true, true, false]),
        ("subscription", [false, true, true, true]),
        ("source", [false; 4]),
        ("topic", [false; 4]),
        ("arn:aws:sqs:eu-central-1:123456789012:worker", [false; 4]),
    ] {
        let discover = json!({ "target": target, "subscription": "discover" });
        assert_eq!(asks(&discover), expected, "target {target}");
        let named = json!({ "target": target, "subscription": SUBSCRIPTION });
        assert_eq!(asks(&named), [false; 4], "target {target}, named");
        for action in ["archive", "hold"] {
            let idle = json!({ "target": target, "subscription": "discover", "action": action });
            assert_eq!(asks(&idle), [false; 4], "target {target}, {action}");
        }
    }
}

// ---------------------------------------------------------------------------------------------
// P3

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
    let facts = Facts { retention: 14 * DAY, ..Facts::default() };
    let failed = Retry { number: 11, of: BUILT_IN_RETRIES, phase: Phase::PostBackoff };
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

// ---------------------------------------------------------------------------------------------
// P4

#[test]
fn the_margin_is_an_hour_or_a_24th_of_a_short_retention() {
    for (retention, margin) in
        [(60, 2), (3_600, 150), (12 * 3_600, 1_800), (DAY, 3_600), (4 * DAY, 3_600), (14 * DAY, 3_600)]
    {
        assert_eq!(expiry_margin(retention), margin, "{retention}");
    }
}

/// A queue that keeps letters for four days, and the last moment to which one sent now is hidden.
const FOUR_DAYS: Facts = Facts {
    retention: 4 * DAY,
    source_max_receives: None,
    ceiling: VISIBILITY_CEILING,
    subscription_delivery: None,
    discovered: None,
};
const LATEST: i64 = NOW + 4 * 86_400_000 - 3_600_000;

/// Two retries, two hours and more than a day after the failure before them.
fn slow() -> Policy {
    under(&json!({ "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": {
        "minDelayTarget": 7_200, "maxDelayTarget": 90_000, "numRetries": 2 } } }))
}

const EXPIRING: Decision = Decision::Archive(ArchiveReason::Expiring, None);

#[test]
fn four_days_are_assumed_where_the_retention_is_not_known() {
    assert_eq!(Facts::default(), FOUR_DAYS);
}

#[test]
fn a_letter_is_expiring_from_the_margin_on() {
    for (now, expiring) in [(NOW, false), (LATEST, false), (LATEST + 1, true)] {
        assert_eq!(is_expiring(&marked(0, None), &FOUR_DAYS, at(now)), expiring, "{now}");
    }
}

#[test]
fn a_failed_letter_is_archived_where_its_next_wake_up_would_come_too_late() {
    let (policy, letter) = (slow(), marked(0, Some(NOW)));
    let verdict = policy.decide(&letter, &FOUR_DAYS, at(NOW));
    let after_failure = |now| {
        let failed = Retry { number: 1, of: 2, phase: Phase::Backoff };
        verdict.after_failure(failed, FailureClass::Transient, at(now))
    };
    // A day's wait is hidden a ceiling at a time: only the next wake-up counts, not the retry.
    let last = LATEST - millis(VISIBILITY_CEILING);
    let due = at(last + 90_000_000);
    let hidden = Deferral { hide: VISIBILITY_CEILING, due, retry: 2, why: DeferReason::Failed };
    assert_eq!(after_failure(last), Decision::Defer(hidden));
    assert_eq!(after_failure(last + 1), EXPIRING);
    assert_eq!(after_failure(LATEST + 86_400_000), EXPIRING, "its time was up before it failed");
}

#[test]
fn a_letter_before_its_time_is_archived_where_it_would_wake_too_late() {
    let decide = |due| slow().decide(&marked(0, Some(due)), &FOUR_DAYS, at(LATEST - 60_000)).decision;
    let hidden = Deferral { hide: 60, due: at(LATEST), retry: 1, why: DeferReason::Early };
    assert_eq!(decide(LATEST), Decision::Defer(hidden));
    assert_eq!(decide(LATEST + 1), EXPIRING);
}

#[test]
fn a_hopping_letter_is_archived_where_it_would_wake_too_late() {
    let decide = |point: i64| {
        let mut letter = marked(0, Some(point));
        (letter.sqs.first_received, letter.sqs.receive_count) = (at(point), 2);
        slow().decide(&letter, &FOUR_DAYS, at(LATEST - 60_000)).decision
    };
    let hidden = Deferral { hide: 60, due: at(LATEST), retry: 2, why: DeferReason::Hop };
    assert_eq!(decide(LATEST - 90_000_000), Decision::Defer(hidden));
    assert_eq!(decide(LATEST - 90_000_000 + 1), EXPIRING);
}

/// It is received within its long wait by the count, and behind it by the clock.
#[test]
fn a_hopping_letter_whose_wait_is_over_is_attempted_where_no_time_is_left_to_come_back() {
    let mut letter = marked(0, Some(LATEST + 1 - 90_000_000));
    (letter.sqs.first_received, letter.sqs.receive_count) = (at(LATEST + 1 - 90_000_000), 2);
    let decide = |now| slow().decide(&letter, &FOUR_DAYS, at(now)).decision;
    assert_eq!(decide(LATEST), EXPIRING, "a moment before its retry is due");
    let retry = Retry { number: 2, of: 2, phase: Phase::Backoff };
    assert_eq!(decide(LATEST + 1), Decision::Deliver(retry));
}

#[test]
fn a_held_letter_is_hidden_as_long_as_its_queue_keeps_it() {
    let hold = under(&json!({ "action": "hold" }));
    let decide = |now| hold.decide(&marked(0, None), &FOUR_DAYS, at(now)).decision;
    for (left, hide) in [(100 * 3_600, VISIBILITY_CEILING), (60, 60), (1, 1)] {
        let now = LATEST - millis(left);
        let due = at(now + millis(hide));
        let held = Deferral { hide, due, retry: 1, why: DeferReason::Hold };
        assert_eq!(decide(now), Decision::Defer(held), "{left} s before it must be archived");
    }
    assert_eq!(decide(LATEST), EXPIRING);
}

#[test]
fn a_letter_that_is_due_is_attempted_however_late_it_is() {
    for late in [0, 3_599_999, 3_600_000, 30 * 86_400_000] {
        let decision = slow().decide(&marked(0, None), &FOUR_DAYS, at(LATEST + late)).decision;
        let retry = Retry { number: 1, of: 2, phase: Phase::Backoff };
        assert_eq!(decision, Decision::Deliver(retry), "{late} ms too late to be hidden again");
    }
}

/// Worlds in which the retention matters. That no letter is hidden into the margin is checked at
/// each deferral of every world.
#[test]
fn sqs_never_drops_a_letter_that_is_received_in_time() {
    let receives = (0..=LATENCY).prop_map(|late| Receiving { late, ..Receiving::default() });
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
