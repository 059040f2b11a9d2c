//! The number and the times of a letter's retries: promises P2, P3 and P4 of the policy, shown on the real
//! `Policy::decide` and `Verdict::after_failure` by living through random worlds.
//!
//! A world is one letter in one queue: SQS hides and shows it, Lambda receives it (late, throttled, after a
//! batching window), attempts take time and fail, and changes of its visibility may fail.

mod attempts;
mod delays;
mod expiry;
mod later_beginning;
mod not_made;
mod of_a_letter;
mod overridden;
mod steps;
mod unread;

use jiff::Timestamp;
use proptest::prelude::*;
use redrive_core::arn::Arn;
use redrive_core::failure::FailureClass;
use redrive_core::letter::{Letter, MARK_ATTRIBUTE, Mark, TrustedOrigins};
use redrive_core::policy::{
    ArchiveReason, Decision, DeferReason, Deferral, Jitter, LetterFacts, LetterTarget, MAX_DELAY_SECONDS,
    MAX_RETRIES, OverrideAnswer, Policy, ReceiveFacts, Retention, Retry, RetryPhase, RetryStep, Route,
    Schedule, SubscriptionVoucher, VISIBILITY_CEILING, expiry_margin, is_kept, step,
};
use redrive_testing::record::{envelope, letter, received, record, sample, text_attribute};
use redrive_testing::{NOW, SUBSCRIPTION, TOPIC, at, holds, made_for, mark, schedules};
use serde_json::{Value, json};

const DAY: u64 = 24 * 3600;

/// A retention that never ends, in seconds, for the laws that are not about it.
const FOR_EVER: u64 = 100 * 365 * DAY;

/// The longest time for which SQS hides a message, counted from its receive.
const VISIBILITY_LIMIT_MILLIS: i64 = 43_200_000;

fn millis(seconds: u64) -> i64 {
    i64::try_from(seconds * 1000).unwrap()
}

// ---------------------------------------------------------------------------------------------
// The world

#[derive(Debug, Clone)]
struct DecisionWorld {
    schedule: Schedule,
    jitter: f64,
    /// The retries behind the letter by its mark. It has no mark if this is 0 and nothing is due.
    spent: u32,
    /// The time when its mark says that it is due, in milliseconds after it was sent.
    due: Option<i64>,
    ceiling: u64,
    retention: u64,
    /// The queue's own visibility timeout, in seconds.
    timeout: u64,
    /// The events at each receive. Nothing goes wrong after the last of them.
    receives: Vec<PlannedReceive>,
}

#[derive(Debug, Clone, Copy, Default)]
struct PlannedReceive {
    /// The time for which it is visible before it is received, in milliseconds.
    late: i64,
    /// The time between the receive and the function's start (batching window, cold start), in milliseconds.
    window: i64,
    /// The time that an attempt takes, in milliseconds.
    attempt: i64,
    /// The letter is received, but the function is throttled and never runs.
    throttled: bool,
    /// The change of visibility after an attempt fails.
    change_after_attempt_fails: bool,
    /// The change of visibility without an attempt fails.
    change_without_attempt_fails: bool,
    /// The attempt is a success, but the letter dies again and comes back.
    comes_back: bool,
}

#[derive(Debug, Clone, Copy)]
struct DecidedAttempt {
    number: u32,
    begin: i64,
    end: i64,
}

#[derive(Debug, Default)]
struct DecidedLife {
    attempts: Vec<DecidedAttempt>,
    receives: u32,
    end: Option<(ArchiveReason, i64)>,
    came_back_at: Option<i64>,
}

impl DecidedLife {
    fn numbers(&self) -> Vec<u32> {
        self.attempts.iter().map(|attempt| attempt.number).collect()
    }
}

impl DecisionWorld {
    fn policy(&self) -> Policy {
        let s = &self.schedule;
        let document = json!({ "default": { "jitter": self.jitter, "deliveryPolicy": { "healthyRetryPolicy": {
            "minDelayTarget": s.min, "maxDelayTarget": s.max, "numRetries": s.retries,
            "numNoDelayRetries": s.no_delay, "numMinDelayRetries": s.min_delay,
            "numMaxDelayRetries": s.max_delay, "backoffFunction": s.backoff.name() } } } });
        Policy::parse(&document.to_string()).unwrap()
    }

    /// Returns the record. The numbers that SQS counts are filled in at each receive.
    fn record(&self, sent: i64) -> Value {
        let mut mark = mark(self.spent, "letter-1", NOW);
        if let Some(due) = self.due {
            mark["due"] = (sent + due).into();
        }
        let mut record = record(&envelope("hello", &json!({})));
        record["messageAttributes"]["sns-redrive"] = text_attribute(&made_for("hello", mark).to_string());
        record["attributes"]["SentTimestamp"] = sent.to_string().into();
        record
    }

    /// Returns the wait before retry `k`, in milliseconds.
    fn wait(&self, k: u32) -> i64 {
        let seconds = self.schedule.wait(k, &Jitter::new(self.jitter, "letter-1")).unwrap();
        millis(seconds)
    }

    /// Returns the points of a letter that was sent at `sent`, one for each retry from `spent` + 1.
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

    fn live(&self) -> DecidedLife {
        self.live_from(NOW, &mut self.receives.iter().copied())
    }

    /// Lets the letter live until it leaves the queue.
    fn live_from(&self, sent: i64, receives: &mut impl Iterator<Item = PlannedReceive>) -> DecidedLife {
        let policy = self.policy();
        let retention = Retention::Known(self.retention);
        let facts = LetterFacts { retention, ceiling: self.ceiling, ..LetterFacts::default() };
        let timeout = millis(self.timeout);
        let mut letter = Letter::parse_requeued(received(&self.record(sent)), TrustedOrigins::none());
        let mut life = DecidedLife::default();
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
                    life.attempts.push(DecidedAttempt { number: retry.number, begin, end: now });
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

/// Returns worlds whose receives come from `receives`, and whose longest hidings come from `ceilings`.
fn worlds(
    ceilings: impl Strategy<Value = u64>,
    receives: impl Strategy<Value = PlannedReceive>,
) -> impl Strategy<Value = DecisionWorld> {
    let marks = (any::<prop::sample::Index>(), prop::bool::weighted(0.3));
    let due = prop::option::weighted(0.2, -100_000_i64..300_000_000);
    let receives = prop::collection::vec(receives, 0..40);
    (
        schedules((3_600..=90_000, 0..=400_000), [0..=3, 0..=3, 0..=5, 0..=3]),
        prop::sample::select(vec![0.0, 0.1, 1.0]),
        marks,
        due,
        ceilings,
        1_300_u64..=5_400,
        receives,
    )
        .prop_map(|(schedule, jitter, (spent, marked), due, ceiling, timeout, receives)| DecisionWorld {
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

/// Returns mostly the real ceiling, sometimes one so low that short waits hop too.
fn ceilings() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(VISIBILITY_CEILING), 1 => 400_u64..=4_000]
}

/// The delay of a smooth receive, in milliseconds: Lambda polls at once, and the function is warm.
const LATENCY: i64 = 200;

fn smooth() -> impl Strategy<Value = PlannedReceive> {
    let attempt = prop_oneof![Just(0), 1_i64..=2_000, 1_i64..=900_000];
    (0..=LATENCY, attempt).prop_map(|(late, attempt)| PlannedReceive {
        late,
        attempt,
        ..PlannedReceive::default()
    })
}

fn late_polls() -> impl Strategy<Value = PlannedReceive> {
    let late = prop_oneof![3 => 0..=LATENCY, 2 => 0_i64..=600_000, 1 => 0_i64..=400_000_000];
    (smooth(), late).prop_map(|(smooth, late)| PlannedReceive { late, ..smooth })
}

fn changes_after_attempts_fail() -> impl Strategy<Value = PlannedReceive> {
    (late_polls(), prop::bool::weighted(0.3))
        .prop_map(|(late, fails)| PlannedReceive { change_after_attempt_fails: fails, ..late })
}

fn throttles() -> impl Strategy<Value = PlannedReceive> {
    (smooth(), prop::bool::weighted(0.5))
        .prop_map(|(smooth, throttled)| PlannedReceive { throttled, ..smooth })
}

fn windows() -> impl Strategy<Value = PlannedReceive> {
    (smooth(), 0_i64..=300_000).prop_map(|(smooth, window)| PlannedReceive { window, ..smooth })
}

fn everything() -> impl Strategy<Value = PlannedReceive> {
    let window = prop_oneof![Just(0), 0_i64..=300_000];
    (changes_after_attempts_fail(), window, prop::bool::weighted(0.2), prop::bool::weighted(0.3)).prop_map(
        |(here, window, throttled, fails)| PlannedReceive {
            window,
            throttled,
            change_without_attempt_fails: fails,
            ..here
        },
    )
}

const BUILT_IN_RETRIES: u32 = Schedule::BUILT_IN.retries;

/// Returns a letter with a mark, sent now and never received before.
fn marked(spent: u32, due: Option<i64>) -> Letter {
    let mut mark = mark(spent, "letter-1", NOW);
    if let Some(due) = due {
        mark["due"] = due.into();
    }
    let mut record = record(&envelope("hello", &json!({})));
    record["messageAttributes"]["sns-redrive"] = text_attribute(&made_for("hello", mark).to_string());
    Letter::parse_requeued(received(&record), TrustedOrigins::none())
}

fn under(rule: &Value) -> Policy {
    Policy::parse(&json!({ "default": rule }).to_string()).unwrap()
}

/// Returns the receives that a wait takes, by the promise: R(w).
fn receives_for(wait: i64, ceiling: i64) -> u32 {
    u32::try_from(wait.div_euclid(ceiling) + i64::from(wait.rem_euclid(ceiling) > 0)).unwrap().max(1)
}
