//! The batch machine with answers from the test. Whatever the answers are, a letter leaves its queue only
//! when an answer said that it is safe.

mod endpoints_back;
mod overrides_meanwhile;
mod stuck;
mod unread_retention;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use proptest::prelude::*;
use redrive_core::batch::{
    Action, ActionAnswer, ActionId, Batch, BatchConfig, BatchMachine, DocumentRead, DocumentWrite,
    IN_FLIGHT_LIMIT, InvocationNow, LetterReport, NotDone, OperatingMode, Outcome, QueueAttributes,
    RequestEnd, RequestResult, SendRequest, SendResult, SignatureResult, Subscription, WaitingKeys,
};
use redrive_core::endpoint::TargetName;
use redrive_core::failure::{Failure, FailureClass, HANDLE_EXPIRED, MESSAGE_GONE};
use redrive_core::letter::Letter;
use redrive_core::policy::{Policy, VISIBILITY_CEILING};
use redrive_core::waiting::WaitingLetter;
use redrive_testing::{
    ARCHIVE_QUEUE, BILLING, DLQ, FIFO_DLQ, FIFO_REQUEUE, FIFO_SUBSCRIPTION, FIFO_TOPIC, NOW, REQUEUE,
    RecordBuilder, TOPIC, WORKER, arn, at, event, every_origin, holds, letters_of, mark, samples,
};
use serde_json::json;

const DEADLINE: Duration = Duration::from_secs(30);

fn machine(policy: &str, requeue: Option<&str>, archive_queue: Option<&str>) -> BatchMachine {
    BatchMachine::new(config(policy, requeue, archive_queue))
}

fn config(policy: &str, requeue: Option<&str>, archive_queue: Option<&str>) -> BatchConfig {
    BatchConfig {
        policy: Policy::parse(policy).unwrap(),
        mode: OperatingMode::Active,
        requeue: requeue.map(arn),
        archive_queue: archive_queue.map(arn),
        // Half of it is in flight by every reading, so that letters are moved.
        in_flight_limit: IN_FLIGHT_LIMIT,
        ceiling: VISIBILITY_CEILING,
        instances: 1,
        schedule_from: None,
        overrides: true,
        waiting_list: true,
        notice_topic: Some(arn("arn:aws:sns:eu-central-1:123456789012:notices")),
    }
}

/// Returns policies that reach every stage.
fn policies() -> Vec<String> {
    let origins = every_origin();
    let rules = |rules: serde_json::Value| json!({ "origins": origins, "rules": rules }).to_string();
    vec![
        rules(json!([])),
        rules(json!([{ "name": "r", "match": { "origin": ["sns"] }, "verifySignature": true }])),
        rules(json!([{ "name": "r", "match": { "origin": ["raw"] }, "subscription": "discover" }])),
        rules(
            json!([{ "name": "r", "match": { "origin": ["sns"] }, "deliveryPolicy": "from-subscription" }]),
        ),
        rules(json!([{ "name": "r", "match": { "origin": ["sns"] }, "fifo": "step-aside" }])),
        rules(json!([{ "name": "r", "match": { "origin": ["sns"] }, "target": "topic" }])),
        rules(json!([{ "name": "r", "match": { "origin": ["sns"] }, "action": "archive" }])),
        rules(json!([{ "name": "r", "match": { "origin": ["sns"] }, "action": "hold" }])),
    ]
}

/// Returns batches of every kind of letter, young and near their end, standard and FIFO.
fn batches() -> Vec<Vec<Letter>> {
    let mut batches: Vec<_> = samples().into_iter().map(|(_, event)| letters_of(&event)).collect();
    let fifo: Vec<_> = ["a", "b", "c", "d"]
        .into_iter()
        .zip(["g", "g", "h", "g"])
        .map(|(id, group)| {
            let mut post = RecordBuilder::envelope(id).group(group);
            FIFO_DLQ.clone_into(&mut post.queue);
            post
        })
        .collect();
    batches.push(letters_of(&event(&fifo)));
    let old: Vec<_> =
        ["a", "b"].into_iter().map(|id| RecordBuilder::envelope(id).sent(NOW - 1_209_000_000)).collect();
    batches.push(letters_of(&event(&old)));
    batches
}

/// Returns what a batch asks for, once the next turn of its letters has come.
fn poll(batch: &mut Batch<'_>, now: &mut InvocationNow) -> Vec<(ActionId, Action)> {
    loop {
        let actions = batch.poll(*now);
        if !actions.is_empty() || !batch.is_under_way() {
            return actions;
        }
        let by = batch.next_poll(*now).unwrap().saturating_sub(now.elapsed);
        *now = InvocationNow {
            at: now.at.checked_add(by).unwrap(),
            age: now.age + by,
            elapsed: now.elapsed + by,
        };
    }
}

/// Returns the same answer to each letter of a request.
fn sent(request: &SendRequest, sent: &SendResult) -> ActionAnswer {
    let end = RequestEnd::Answered(vec![sent.clone(); request.deliveries.len()]);
    ActionAnswer::Sent(RequestResult { end, took: Duration::ZERO })
}

/// Drives a batch to its end. The answers come in the order of the actions, or in the reverse order. Returns
/// the reports and the number of actions.
fn drive(
    mut batch: Batch<'_>,
    backwards: bool,
    mut answer: impl FnMut(&Action) -> ActionAnswer,
) -> (Vec<LetterReport>, usize) {
    let mut now = now_after(0);
    let (mut under_way, mut asked) = (Vec::new(), 0);
    loop {
        let actions = if under_way.is_empty() { poll(&mut batch, &mut now) } else { batch.poll(now) };
        asked += actions.len();
        assert!(asked < 1_000, "asks for ever");
        under_way.extend(actions);
        let next =
            if backwards { under_way.len().checked_sub(1) } else { (!under_way.is_empty()).then_some(0) };
        let Some(next) = next else { break };
        let (id, action) = under_way.remove(next);
        now.elapsed += Duration::from_millis(10);
        now.age = now.elapsed;
        let answer = answer(&action);
        batch.take(id, answer, now);
    }
    (batch.into_reports(now.at), asked)
}

/// Returns a document with one override about every letter.
fn one_override(action: &str) -> DocumentRead {
    one_override_on(action, &json!({ "queueArn": [{ "exists": true }] }))
}

/// Returns a document with one override about the letters of a pattern.
fn one_override_on(action: &str, pattern: &serde_json::Value) -> DocumentRead {
    let override_ = json!({ "id": "o", "do": action, "match": pattern,
        "at": "2026-11-01T12:00:00Z", "by": "ada", "why": "w" });
    let json = json!({ "version": 1, "overrides": [override_] }).to_string().into_bytes();
    DocumentRead::Document { json, tag: None }
}

/// Returns a document of recoveries in which an endpoint is down, or is back.
fn recoveries(is_down: bool) -> DocumentRead {
    let since = if is_down { "downSince" } else { "recoveredAt" };
    let endpoint = json!({ "queue": "payments-dlq", "target": WORKER, since: "2026-11-01T11:59:00Z" });
    let json = json!({ "version": 1, "endpoints": [endpoint] }).to_string().into_bytes();
    DocumentRead::Document { json, tag: Some("old".to_owned()) }
}

fn waiting_keys() -> Vec<String> {
    let digest = TargetName::read(WORKER).digest();
    let key = |minute: u32| format!("hour=2026-11-01T11/20261101T11{minute}00.000Z-request.{digest}-1.jsonl");
    vec![key(10), key(20), "hour=2026-11-01T13/20261101T130000.000Z-later.jsonl".to_owned()]
}

/// Returns lines of a letter that waits for its endpoint, of one that is held, and of one that waits for another.
fn waiting_lines() -> Vec<WaitingLetter> {
    let line = |target: &str, held_by: Option<&str>| {
        let line = json!({ "letterId": "l", "messageId": "m", "receiptHandle": "h", "rule": "default",
            "queueArn": DLQ, "target": target, "heldBy": held_by, "recovers": true, "error": "Unreachable",
            "retry": { "number": 2, "of": 12 }, "since": "2026-11-01T11:00:00Z", "due": "2026-11-01T18:00:00Z" });
        serde_json::from_value(line).unwrap()
    };
    vec![line(WORKER, None), line(WORKER, Some("override o")), line(BILLING, None)]
}

/// Returns the present so many seconds after the beginning.
fn now_after(seconds: i64) -> InvocationNow {
    let elapsed = Duration::from_secs(seconds.unsigned_abs());
    InvocationNow { at: at(NOW + seconds * 1_000), age: elapsed, elapsed }
}

fn failed<T>() -> Result<T, Failure> {
    Err(Failure::ours(FailureClass::Transient, "ServiceUnavailable"))
}

/// Returns the answer about control objects.
fn answer_about_control(action: &Action, good: &mut impl FnMut() -> bool) -> ActionAnswer {
    match action {
        Action::ReadRecoveries { .. } => {
            ActionAnswer::Recoveries(if good() { Ok(recoveries(good())) } else { failed() })
        }
        Action::WriteRecoveries { .. } => ActionAnswer::Written(match (good(), good()) {
            (true, true) => Ok(DocumentWrite::Written { tag: Some("new".to_owned()) }),
            (true, false) => Ok(DocumentWrite::Conflict),
            (false, _) => failed(),
        }),
        Action::ListWaitingKeys { .. } => {
            let keys = if good() { waiting_keys() } else { Vec::new() };
            let is_cut = good();
            ActionAnswer::WaitingKeys(if good() {
                Ok(WaitingKeys { last: keys.last().cloned(), keys, is_cut })
            } else {
                failed()
            })
        }
        Action::ReadWaitingLines { .. } => {
            ActionAnswer::WaitingLines(if good() { Ok(waiting_lines()) } else { failed() })
        }
        Action::Wake { letters, .. } => {
            let woken = letters.iter().map(|_| if good() { Ok(()) } else { failed() });
            ActionAnswer::Hidden(woken.collect())
        }
        other => unreachable!("{other:?}"),
    }
}

/// Returns an answer of the right kind, good or bad for each letter as `good` says. Adds the letters that it
/// makes safe to `safe`.
fn answer(action: &Action, good: &mut impl FnMut() -> bool, safe: &mut HashSet<String>) -> ActionAnswer {
    let mut make_safe = |letter: &Letter, good: bool| {
        if good {
            safe.insert(letter.sqs.message_id.clone());
        }
        good
    };
    match action {
        Action::LookUpQueues { queues, .. } => {
            let attributes = |of_requeue: bool| QueueAttributes {
                retention: Some(1_209_600),
                visibility_timeout: Some(180),
                in_flight: Some(if of_requeue { 0 } else { IN_FLIGHT_LIMIT }),
                read: Some(Duration::ZERO),
                ..QueueAttributes::default()
            };
            let known = queues.iter().filter(|_| good()).cloned();
            let known: HashMap<_, _> = known
                .map(|queue| {
                    let of_requeue = [REQUEUE, FIFO_REQUEUE].contains(&queue.as_str());
                    (queue, attributes(of_requeue))
                })
                .collect();
            ActionAnswer::Queues { known, unread: Vec::new() }
        }
        Action::LookUpSubscriptions { subscriptions, .. } => {
            let subscription = |topic: &str, dlq: &str| Subscription {
                protocol: "sqs".to_owned(),
                endpoint: WORKER.to_owned(),
                topic: topic.to_owned(),
                dead_letter_target: Some(dlq.to_owned()),
                raw: false,
                pending: false,
                delivery_policy: None,
            };
            let known = subscriptions.iter().map(|arn| {
                let topic = arn.as_str().rsplit_once(':').unwrap().0;
                let dlq = if topic == TOPIC { DLQ } else { FIFO_DLQ };
                let unknown = Err(SendResult::NotStarted);
                (arn.clone(), if good() { Ok(Some(subscription(topic, dlq))) } else { unknown })
            });
            ActionAnswer::Subscriptions(known.collect())
        }
        Action::Discover { searches, .. } => ActionAnswer::Discovered(
            searches.iter().map(|_| if good() { Ok(None) } else { failed() }).collect(),
        ),
        Action::LookUpSharing { queues } => ActionAnswer::Shared(queues.iter().cloned().collect()),
        Action::Verify { letters, .. } => {
            let mut one = || if good() { SignatureResult::Genuine } else { SignatureResult::Refused("no") };
            ActionAnswer::Verified(letters.iter().map(|_| one()).collect())
        }
        Action::Send(request) => {
            let answers = request.deliveries.iter().map(|one| {
                let good = make_safe(&one.letter, good());
                if good { SendResult::Accepted } else { SendResult::Failed(failed::<()>().unwrap_err()) }
            });
            let end = RequestEnd::Answered(answers.collect());
            ActionAnswer::Sent(RequestResult { end, took: Duration::ZERO })
        }
        Action::Move { moves, .. } => {
            let moved = moves.iter().map(|one| {
                let good = make_safe(&one.letter, good());
                Some(if good { SendResult::Accepted } else { SendResult::NotStarted })
            });
            ActionAnswer::Moved(moved.collect())
        }
        Action::Archive { letters, .. } => {
            let archived = letters.iter().map(|(letter, _)| {
                let good = make_safe(letter, good());
                if good { Ok(()) } else { failed() }
            });
            ActionAnswer::Archived(archived.collect())
        }
        Action::Hide { letters, .. } => {
            ActionAnswer::Hidden(letters.iter().map(|_| if good() { Ok(()) } else { failed() }).collect())
        }
        Action::ReadOverrides { .. } => {
            let overrides = match (good(), good(), good()) {
                (true, true, _) => Ok(DocumentRead::None),
                (true, false, true) => Ok(one_override("retry")),
                (false, true, true) => Ok(one_override("hold")),
                (true, false, false) => Ok(one_override("give-up")),
                (false, true, false) => Ok(one_override_on("hold", &json!({ "target": [WORKER] }))),
                (false, ..) => failed(),
            };
            ActionAnswer::Overrides(overrides)
        }
        Action::ListWaiting { .. } => ActionAnswer::Listed(if good() { Ok(()) } else { failed() }),
        control => answer_about_control(control, good),
    }
}

#[test]
fn a_letter_leaves_its_queue_only_when_an_answer_said_that_it_is_safe() {
    let (policies, batches) = (policies(), batches());
    let inputs = (
        0..policies.len(),
        0..batches.len(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        0_u8..=100,
        any::<u64>(),
    );
    holds(2_000, &inputs, |(policy, batch, backwards, requeue, archive, luck, seed)| {
        let letters = batches[batch].clone();
        let fifo = letters[0].sqs.queue.is_fifo();
        let requeue = requeue.then_some(if fifo { FIFO_REQUEUE } else { REQUEUE });
        let mut machine = machine(&policies[policy], requeue, archive.then_some(ARCHIVE_QUEUE));
        let ids: Vec<_> = letters.iter().map(|letter| letter.sqs.message_id.clone()).collect();
        let (mut safe, mut state) = (HashSet::new(), seed);
        let mut good = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % 100 < u64::from(luck)
        };
        let batch = machine.begin(letters, DEADLINE);
        let (reports, _) = drive(batch, backwards, |action| answer(action, &mut good, &mut safe));
        let reported: Vec<_> = reports.iter().map(|report| report.letter.sqs.message_id.clone()).collect();
        prop_assert_eq!(reported, ids, "one report a letter, in the order of the batch");
        for report in &reports {
            let id = &report.letter.sqs.message_id;
            if report.outcome.leaves_queue() {
                prop_assert!(safe.contains(id), "{} left its queue: {:?}", id, report.outcome);
            }
            let kept = !matches!(report.outcome, Outcome::Failed(_) | Outcome::Observed(_));
            prop_assert!(luck < 100 || kept, "{} ends so though all went well: {:?}", id, report.outcome);
        }
        // The first letter of a group that stays holds the others.
        let mut held = BTreeSet::new();
        for report in reports.iter().filter(|_| fifo) {
            let group = report.letter.sqs.group_id().map(str::to_owned);
            let delivered = report.outcome == Outcome::Delivered;
            prop_assert!(
                !(delivered && held.contains(&group)),
                "{} passed one of its group",
                report.letter.id
            );
            if !report.outcome.leaves_queue() {
                held.insert(group);
            }
        }
        Ok(())
    });
}

#[test]
fn answers_of_another_kind_and_answers_that_are_too_short_lose_nothing() {
    let empty = |action: &Action| match action {
        Action::LookUpQueues { .. } => ActionAnswer::Queues { known: HashMap::new(), unread: Vec::new() },
        Action::LookUpSubscriptions { .. } => ActionAnswer::Subscriptions(HashMap::new()),
        Action::Discover { .. } => ActionAnswer::Discovered(Vec::new()),
        Action::LookUpSharing { .. } => ActionAnswer::Shared(Vec::new()),
        Action::Verify { .. } => ActionAnswer::Verified(Vec::new()),
        Action::Send(_) => {
            ActionAnswer::Sent(RequestResult { end: RequestEnd::Answered(Vec::new()), took: Duration::ZERO })
        }
        Action::Move { .. } => ActionAnswer::Moved(Vec::new()),
        Action::Archive { .. } => ActionAnswer::Archived(Vec::new()),
        Action::Hide { .. } | Action::Wake { .. } => ActionAnswer::Hidden(Vec::new()),
        Action::ReadOverrides { .. } => ActionAnswer::Overrides(Ok(DocumentRead::NotModified)),
        Action::ListWaiting { .. } => ActionAnswer::Listed(failed()),
        Action::ReadRecoveries { .. } => ActionAnswer::Recoveries(Ok(DocumentRead::NotModified)),
        Action::WriteRecoveries { .. } => ActionAnswer::Written(Ok(DocumentWrite::Conflict)),
        Action::ListWaitingKeys { .. } => {
            ActionAnswer::WaitingKeys(Ok(WaitingKeys { keys: Vec::new(), last: None, is_cut: true }))
        }
        Action::ReadWaitingLines { .. } => ActionAnswer::WaitingLines(Ok(Vec::new())),
    };
    let other = |action: &Action| match action {
        Action::LookUpSharing { .. } => ActionAnswer::Discovered(Vec::new()),
        _ => ActionAnswer::Shared(Vec::new()),
    };
    for policy in policies() {
        for letters in batches() {
            for answers in [&empty as &dyn Fn(&Action) -> ActionAnswer, &other] {
                let mut machine = machine(&policy, None, None);
                let count = letters.len();
                let (reports, asked) = drive(machine.begin(letters.clone(), DEADLINE), false, answers);
                assert!(asked > 0 && reports.len() == count);
                let left = reports.iter().find(|report| report.outcome.leaves_queue());
                assert!(left.is_none(), "{policy}: {left:?}");
            }
        }
    }
}

#[test]
fn what_is_archived_and_what_is_hidden_is_asked_for_at_once() {
    let mut machine = machine(&policies()[0], None, None);
    let letters =
        letters_of(&event(&[RecordBuilder::envelope("waits"), RecordBuilder::raw("nobody-knows", "?")]));
    let mut together = Vec::new();
    let mut batch = machine.begin(letters, DEADLINE);
    let mut now = now_after(0);
    loop {
        let actions = poll(&mut batch, &mut now);
        if actions.is_empty() {
            break;
        }
        let names = actions.iter().map(|(_, action)| match action {
            Action::Archive { .. } => "archive",
            Action::Hide { .. } => "hide",
            _ => "other",
        });
        together.push(names.collect::<Vec<_>>());
        for (id, action) in actions {
            // The subscriber fails, so its letter waits.
            let mut good = || !matches!(action, Action::Send(_));
            let answer = answer(&action, &mut good, &mut HashSet::new());
            batch.take(id, answer, now);
        }
    }
    let at_once = together.iter().find(|names| names.contains(&"hide")).unwrap();
    assert_eq!(at_once[..2], ["hide", "archive"]);
}

#[test]
fn a_batch_without_letters_asks_for_nothing() {
    let mut machine = machine("{}", None, None);
    let (reports, asked) = drive(machine.begin(Vec::new(), DEADLINE), false, |_| unreachable!());
    assert_eq!((reports.len(), asked), (0, 0));
}

#[test]
fn overrides_are_asked_for_once_and_only_where_there_is_a_place_for_them() {
    for (overrides, readings) in [(true, 1), (false, 0)] {
        let mut machine = BatchMachine::new(BatchConfig { overrides, ..config("{}", None, None) });
        let mut read = 0;
        drive(
            machine.begin(letters_of(&event(&[RecordBuilder::envelope("a")])), DEADLINE),
            false,
            |action| {
                read += usize::from(matches!(action, Action::ReadOverrides { .. }));
                answer(action, &mut || true, &mut HashSet::new())
            },
        );
        assert_eq!(read, readings);
    }
}

/// Puts a letter into a FIFO topic, and into one group with all others.
fn in_fifo_group(post: RecordBuilder) -> RecordBuilder {
    post.topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION).queue(FIFO_DLQ).group("g")
}

fn with_rule(rule: &serde_json::Value) -> BatchMachine {
    let policy = json!({ "default": rule }).to_string();
    BatchMachine::new(BatchConfig { overrides: false, waiting_list: false, ..config(&policy, None, None) })
}
