//! The batch machine with answers from the test. Whatever the answers are, a letter leaves its queue only
//! when an answer said that it is safe.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use proptest::prelude::*;
use redrive_core::batch::{
    Action, ActionId, Answer, Batch, Config, IN_FLIGHT_LIMIT, Machine, Mode, NotDone, Now, Outcome,
    OverridesRead, QueueAttributes, Report, RequestEnd, RequestResult, SendRequest, Sent, Subscription,
    Verification,
};
use redrive_core::failure::{Failure, FailureClass, HANDLE_EXPIRED, MESSAGE_GONE};
use redrive_core::letter::Letter;
use redrive_core::policy::{Policy, VISIBILITY_CEILING};
use redrive_testing::{
    ARCHIVE_QUEUE, DLQ, FIFO_DLQ, FIFO_REQUEUE, FIFO_SUBSCRIPTION, FIFO_TOPIC, NOW, Post, REQUEUE, TOPIC,
    WORKER, arn, at, event, every_origin, holds, letters_of, mark, samples,
};
use serde_json::json;

const DEADLINE: Duration = Duration::from_secs(30);

fn machine(policy: &str, requeue: Option<&str>, archive_queue: Option<&str>) -> Machine {
    Machine::new(config(policy, requeue, archive_queue))
}

fn config(policy: &str, requeue: Option<&str>, archive_queue: Option<&str>) -> Config {
    Config {
        policy: Policy::parse(policy).unwrap(),
        mode: Mode::Active,
        requeue: requeue.map(arn),
        archive_queue: archive_queue.map(arn),
        // Half of it is in flight by every reading, so that letters are moved.
        in_flight_limit: IN_FLIGHT_LIMIT,
        ceiling: VISIBILITY_CEILING,
        instances: 1,
        overrides: true,
        waiting_list: true,
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
            let mut post = Post::envelope(id).group(group);
            FIFO_DLQ.clone_into(&mut post.queue);
            post
        })
        .collect();
    batches.push(letters_of(&event(&fifo)));
    let old: Vec<_> = ["a", "b"].into_iter().map(|id| Post::envelope(id).sent(NOW - 1_209_000_000)).collect();
    batches.push(letters_of(&event(&old)));
    batches
}

/// Returns what a batch asks for, once the next turn of its letters has come.
fn poll(batch: &mut Batch<'_>, now: &mut Now) -> Vec<(ActionId, Action)> {
    loop {
        let actions = batch.poll(*now);
        if !actions.is_empty() || !batch.is_under_way() {
            return actions;
        }
        let by = batch.next_poll(*now).unwrap().saturating_sub(now.elapsed);
        *now = Now { at: now.at.checked_add(by).unwrap(), age: now.age + by, elapsed: now.elapsed + by };
    }
}

/// Returns the same answer to each letter of a request.
fn sent(request: &SendRequest, sent: &Sent) -> Answer {
    let end = RequestEnd::Answered(vec![sent.clone(); request.deliveries.len()]);
    Answer::Sent(RequestResult { end, took: Duration::ZERO })
}

/// Drives a batch to its end. The answers come in the order of the actions, or in the reverse order. Returns
/// the reports and the number of actions.
fn drive(
    mut batch: Batch<'_>,
    backwards: bool,
    mut answer: impl FnMut(&Action) -> Answer,
) -> (Vec<Report>, usize) {
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
fn one_override(action: &str) -> OverridesRead {
    let override_ = json!({ "id": "o", "do": action, "match": { "queueArn": [{ "exists": true }] },
        "at": "2026-11-01T12:00:00Z", "by": "ada", "why": "w" });
    let json = json!({ "version": 1, "overrides": [override_] }).to_string().into_bytes();
    OverridesRead::Document { json, tag: None }
}

/// Returns the present so many seconds after the beginning.
fn now_after(seconds: i64) -> Now {
    let elapsed = Duration::from_secs(seconds.unsigned_abs());
    Now { at: at(NOW + seconds * 1_000), age: elapsed, elapsed }
}

fn failed<T>() -> Result<T, Failure> {
    Err(Failure::ours(FailureClass::Transient, "ServiceUnavailable"))
}

/// Returns an answer of the right kind, good or bad for each letter as `good` says. Adds the letters that it
/// makes safe to `safe`.
fn answer(action: &Action, good: &mut impl FnMut() -> bool, safe: &mut HashSet<String>) -> Answer {
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
            Answer::Queues { known, unread: Vec::new() }
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
                let unknown = Err(Sent::NotStarted);
                (arn.clone(), if good() { Ok(Some(subscription(topic, dlq))) } else { unknown })
            });
            Answer::Subscriptions(known.collect())
        }
        Action::Discover { searches, .. } => {
            Answer::Discovered(searches.iter().map(|_| if good() { Ok(None) } else { failed() }).collect())
        }
        Action::LookUpSharing { queues } => Answer::Shared(queues.iter().cloned().collect()),
        Action::Verify { letters, .. } => {
            let mut one = || if good() { Verification::Genuine } else { Verification::Refused("no") };
            Answer::Verified(letters.iter().map(|_| one()).collect())
        }
        Action::Send(request) => {
            let answers = request.deliveries.iter().map(|one| {
                let good = make_safe(&one.letter, good());
                if good { Sent::Accepted } else { Sent::Failed(failed::<()>().unwrap_err()) }
            });
            let end = RequestEnd::Answered(answers.collect());
            Answer::Sent(RequestResult { end, took: Duration::ZERO })
        }
        Action::Move { moves, .. } => {
            let moved = moves.iter().map(|one| {
                let good = make_safe(&one.letter, good());
                Some(if good { Sent::Accepted } else { Sent::NotStarted })
            });
            Answer::Moved(moved.collect())
        }
        Action::Archive { letters, .. } => {
            let archived = letters.iter().map(|(letter, _)| {
                let good = make_safe(letter, good());
                if good { Ok(()) } else { failed() }
            });
            Answer::Archived(archived.collect())
        }
        Action::Hide { letters, .. } => {
            Answer::Hidden(letters.iter().map(|_| if good() { Ok(()) } else { failed() }).collect())
        }
        Action::ReadOverrides { .. } => {
            let overrides = match (good(), good(), good()) {
                (true, true, _) => Ok(OverridesRead::None),
                (true, false, true) => Ok(one_override("retry")),
                (false, true, true) => Ok(one_override("hold")),
                (true, false, false) => Ok(one_override("give-up")),
                (false, ..) => failed(),
            };
            Answer::Overrides(overrides)
        }
        Action::ListWaiting { .. } => Answer::Listed(if good() { Ok(()) } else { failed() }),
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
        Action::LookUpQueues { .. } => Answer::Queues { known: HashMap::new(), unread: Vec::new() },
        Action::LookUpSubscriptions { .. } => Answer::Subscriptions(HashMap::new()),
        Action::Discover { .. } => Answer::Discovered(Vec::new()),
        Action::LookUpSharing { .. } => Answer::Shared(Vec::new()),
        Action::Verify { .. } => Answer::Verified(Vec::new()),
        Action::Send(_) => {
            Answer::Sent(RequestResult { end: RequestEnd::Answered(Vec::new()), took: Duration::ZERO })
        }
        Action::Move { .. } => Answer::Moved(Vec::new()),
        Action::Archive { .. } => Answer::Archived(Vec::new()),
        Action::Hide { .. } => Answer::Hidden(Vec::new()),
        Action::ReadOverrides { .. } => Answer::Overrides(Ok(OverridesRead::NotModified)),
        Action::ListWaiting { .. } => Answer::Listed(failed()),
    };
    let other = |action: &Action| match action {
        Action::LookUpSharing { .. } => Answer::Discovered(Vec::new()),
        _ => Answer::Shared(Vec::new()),
    };
    for policy in policies() {
        for letters in batches() {
            for answers in [&empty as &dyn Fn(&Action) -> Answer, &other] {
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
    let letters = letters_of(&event(&[Post::envelope("waits"), Post::raw("nobody-knows", "?")]));
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
    assert_eq!(together.last().unwrap(), &["hide", "archive"]);
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
        let mut machine = Machine::new(Config { overrides, ..config("{}", None, None) });
        let mut read = 0;
        drive(machine.begin(letters_of(&event(&[Post::envelope("a")])), DEADLINE), false, |action| {
            read += usize::from(matches!(action, Action::ReadOverrides { .. }));
            answer(action, &mut || true, &mut HashSet::new())
        });
        assert_eq!(read, readings);
    }
}

/// Puts a letter into a FIFO topic, and into one group with all others.
fn in_fifo_group(post: Post) -> Post {
    post.topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION).queue(FIFO_DLQ).group("g")
}

/// Returns the outcomes of two letters of a FIFO group of which the first is delivered for so many seconds,
/// and how often the overrides were read. The overrides are `first`, then `later`.
fn two_of_a_group(
    machine: &mut Machine,
    second: Post,
    seconds: i64,
    (first, later): (&OverridesRead, &OverridesRead),
) -> (Vec<Outcome>, u32) {
    let posts = [in_fifo_group(Post::envelope("a")), second.queue(FIFO_DLQ).group("g")];
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
                Answer::Overrides(Ok(if read > 1 { later.clone() } else { first.clone() }))
            } else {
                answer(&action, &mut good, &mut HashSet::new())
            };
            if matches!(action, Action::Send(_)) {
                now = Now { elapsed: Duration::from_secs(1), ..now_after(seconds) };
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
        let second = in_fifo_group(Post::envelope("b"));
        let overrides = (&OverridesRead::None, &one_override("hold"));
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
    let overrides = (&OverridesRead::Document { json, tag: None }, &OverridesRead::None);
    let (outcomes, read) = two_of_a_group(&mut machine, Post::raw("b", "hello"), 20, overrides);
    assert_eq!(read, 2);
    assert_eq!(outcomes, [Outcome::Delivered, Outcome::Failed(NotDone::OutOfTime)]);
}

/// Drives a batch whose deliveries take 16 seconds, so that the overrides are read again beside them. The overrides
/// are `first`, then `later`. Every other answer is good.
fn with_overrides_that_change(
    machine: &mut Machine,
    posts: &[Post],
    (first, later): (&OverridesRead, &OverridesRead),
) -> Vec<Report> {
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
                Answer::Overrides(Ok(if read > 1 { later.clone() } else { first.clone() }))
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
fn override_about_old_ones(action: &str) -> OverridesRead {
    let override_ = json!({ "id": "o", "do": action, "match": { "queueArn": [{ "exists": true }] },
        "arrivedBefore": "2026-11-01T11:59:00Z", "at": "2026-11-01T11:00:00Z",
        "until": "2026-11-01T14:00:00Z", "by": "ada", "why": "w" });
    let json = json!({ "version": 1, "overrides": [override_] }).to_string().into_bytes();
    OverridesRead::Document { json, tag: None }
}

fn old(id: &str) -> Post {
    Post::envelope(id).sent(NOW - 120_000)
}

/// Handles batches of letters of one age, in days, that fail. Each is handled so many seconds after the first
/// batch, and its queue answers or not, each time that it is asked. Returns the reports, and for each batch
/// how often the queue was asked, and the notices.
fn with_answers(
    machine: &mut Machine,
    posts: &[Post],
    batches: &[(i64, &[Option<u64>])],
) -> Vec<(Vec<Outcome>, usize, Vec<String>)> {
    with_archive(machine, posts, batches, true)
}

/// The same beside an archive that takes every letter, or none.
fn with_archive(
    machine: &mut Machine,
    posts: &[Post],
    batches: &[(i64, &[Option<u64>])],
    takes: bool,
) -> Vec<(Vec<Outcome>, usize, Vec<String>)> {
    let mut handle = |(seconds, answers): &(i64, &[Option<u64>])| {
        let mut batch = machine.begin(letters_of(&event(posts)), DEADLINE);
        let mut now = Now {
            at: at(NOW + seconds * 1_000),
            age: Duration::from_secs(seconds.unsigned_abs()),
            elapsed: Duration::ZERO,
        };
        let (mut asked, mut notices) = (0, Vec::new());
        loop {
            let actions = poll(&mut batch, &mut now);
            notices.extend(batch.notices().iter().map(|notice| format!("{notice:?}")));
            if actions.is_empty() {
                break;
            }
            for (id, action) in actions {
                let answer = match &action {
                    Action::LookUpQueues { queues, .. } => {
                        let retention = answers[asked.min(answers.len() - 1)];
                        asked += 1;
                        let attributes = QueueAttributes { retention, ..QueueAttributes::default() };
                        let failure = failed::<()>().unwrap_err();
                        let unread = queues.iter().filter(|_| retention.is_none());
                        Answer::Queues {
                            known: queues.iter().map(|queue| (queue.clone(), attributes.clone())).collect(),
                            unread: unread.map(|queue| (queue.clone(), failure.clone())).collect(),
                        }
                    }
                    Action::Send(request) => sent(request, &Sent::Failed(failed::<()>().unwrap_err())),
                    Action::Archive { letters, .. } if !takes => {
                        Answer::Archived(letters.iter().map(|_| failed()).collect())
                    }
                    _ => self::answer(&action, &mut || true, &mut HashSet::new()),
                };
                batch.take(id, answer, now);
            }
            now.elapsed += Duration::from_millis(10);
        }
        let reports = batch.into_reports(now.at);
        (reports.into_iter().map(|report| report.outcome).collect(), asked, notices)
    };
    batches.iter().map(&mut handle).collect()
}

fn days_old(days: i64) -> Post {
    Post::envelope("a").sent(NOW - days * 86_400_000)
}

fn with_rule(rule: &serde_json::Value) -> Machine {
    let policy = json!({ "default": rule }).to_string();
    Machine::new(Config { overrides: false, waiting_list: false, ..config(&policy, None, None) })
}

#[test]
fn the_first_batch_asks_three_times_and_later_ones_once() {
    let mut machine = with_rule(&json!({ "action": "hold" }));
    let (fortnight, none) = (Some(1_209_600), None);
    let all = with_answers(&mut machine, &[days_old(5)], &[(0, &[none, none, fortnight]), (60, &[none])]);
    assert_eq!(all[0].1, 3);
    assert!(format!("{:?}", all[0].0).contains("hide: 41400"), "{:?}", all[0].0);
    let mut machine = with_rule(&json!({ "action": "hold" }));
    let all = with_answers(&mut machine, &[days_old(5)], &[(0, &[none]), (60, &[none]), (120, &[fortnight])]);
    assert_eq!(all.iter().map(|(_, asked, _)| *asked).collect::<Vec<_>>(), [3, 1, 1]);
    let unread = |notices: &Vec<String>| notices.iter().any(|notice| notice.starts_with("QueueUnreadable"));
    assert_eq!(all.iter().map(|(.., notices)| unread(notices)).collect::<Vec<_>>(), [true, false, false]);
    assert!(format!("{:?}", all[1].0).contains("hide: 900"), "{:?}", all[1].0);
}

/// Four days are the default; the letters are five days old, so their queue keeps them for longer.
#[test]
fn a_queue_that_was_never_read_costs_no_letter_for_ten_minutes_and_never_one_that_is_held() {
    let failing = json!({ "deliveryPolicy": { "healthyRetryPolicy": { "numRetries": 9 } } });
    let (hold, none) = (json!({ "action": "hold" }), None);
    for (rule, ends) in [(&failing, true), (&hold, false)] {
        let mut machine = with_rule(rule);
        let all = with_answers(
            &mut machine,
            &[days_old(5)],
            &[(0, &[none]), (599, &[none]), (600, &[none]), (660, &[none]), (720, &[Some(1_209_600)])],
        );
        let archived: Vec<_> =
            all.iter().map(|(outcomes, ..)| format!("{outcomes:?}") == "[Archived(Expiring)]").collect();
        assert_eq!(archived, [false, false, ends, ends, false], "{rule}");
        let told = |notices: &Vec<String>| notices.iter().any(|it| it.starts_with("RetentionAssumed"));
        assert_eq!(
            all.iter().map(|(.., notices)| told(notices)).collect::<Vec<_>>(),
            [false, false, true, false, false]
        );
    }
}

#[test]
fn a_follower_of_a_head_that_is_held_is_not_archived_by_a_guess() {
    let mut machine = with_rule(&json!({ "action": "hold" }));
    let posts = ["a", "b"].map(|id| in_fifo_group(Post::envelope(id).sent(NOW - 5 * 86_400_000)));
    let all = with_answers(&mut machine, &posts, &[(0, &[None]), (700, &[None]), (800, &[Some(345_600)])]);
    let outcomes: Vec<_> = all.iter().map(|(outcomes, ..)| format!("{outcomes:?}")).collect();
    for outcome in &outcomes[..2] {
        assert!(outcome.contains("Hold") && outcome.contains("Held"), "{outcome}");
    }
    assert_eq!(outcomes[2], "[Archived(Expiring), Archived(Expiring)]");
}

#[test]
fn overrides_that_are_read_beside_deliveries_count_for_the_letters_behind_them() {
    let [none, hold, archive] =
        [OverridesRead::None, override_about_old_ones("hold"), override_about_old_ones("give-up")];
    for (first, later, expected) in
        [(&none, &hold, "Deferred"), (&none, &archive, "Archived(GivenUp)"), (&hold, &none, "Delivered")]
    {
        let mut machine = machine(&policies()[0], None, None);
        let posts = [Post::envelope("a"), old("b")].map(in_fifo_group);
        let reports = with_overrides_that_change(&mut machine, &posts, (first, later));
        assert_eq!(reports[0].outcome, Outcome::Delivered);
        assert!(format!("{:?}", reports[1].outcome).starts_with(expected), "{:?}", reports[1].outcome);
    }
}

#[test]
fn a_letter_that_was_held_is_let_go_where_its_hold_is_taken_back_in_the_same_invocation() {
    let early = old("early").mark(&mark(6, "early", NOW - 120_000)).sent(NOW - 60_000);
    for (later, [of_due, of_early]) in [
        (OverridesRead::None, ["Failed(OutOfTime)", "why: Early"]),
        (override_about_old_ones("give-up"), ["Archived(GivenUp)", "Archived(GivenUp)"]),
        (override_about_old_ones("retry"), ["Failed(OutOfTime)", "Failed(OutOfTime)"]),
        (override_about_old_ones("hold"), ["why: Overridden", "why: Overridden"]),
    ] {
        let mut machine = machine(&policies()[0], None, None);
        let posts = [Post::envelope("delivered"), old("due"), early.clone()];
        let overrides = (&override_about_old_ones("hold"), &later);
        let reports = with_overrides_that_change(&mut machine, &posts, overrides);
        let outcomes: Vec<_> = reports.iter().map(|report| format!("{:?}", report.outcome)).collect();
        assert_eq!(outcomes[0], "Delivered");
        assert!(outcomes[1].contains(of_due), "{later:?}: {}", outcomes[1]);
        assert!(outcomes[2].contains(of_early), "{later:?}: {}", outcomes[2]);
    }
}

/// Returns the outcome of a letter that cannot be hidden or archived, by these answers to its attempt and its
/// hiding.
fn not_hidden(post: Post, sent: &Sent, code: &str) -> Outcome {
    let mut machine = machine(&policies()[0], None, None);
    let batch = machine.begin(letters_of(&event(&[post])), DEADLINE);
    let (mut reports, _) = drive(batch, false, |action| match action {
        Action::Send(request) => self::sent(request, sent),
        Action::Archive { .. } => Answer::Archived(vec![failed()]),
        Action::Hide { .. } => Answer::Hidden(vec![Err(Failure::ours(FailureClass::Permanent, code))]),
        _ => answer(action, &mut || true, &mut HashSet::new()),
    });
    reports.remove(0).outcome
}

#[test]
fn a_letter_whose_receive_is_over_is_not_stuck_whatever_was_to_be_done_with_it() {
    let refused = Sent::Failed(Failure::ours(FailureClass::Transient, "ServiceUnavailable"));
    let for_good = Sent::Failed(Failure::ours(FailureClass::Permanent, "InvalidParameterValue"));
    for (sent, other) in [
        (refused.clone(), NotDone::Hide),
        (Sent::NotStarted, NotDone::OutOfTime),
        (for_good, NotDone::Archive),
    ] {
        for code in [MESSAGE_GONE, HANDLE_EXPIRED] {
            let outcome = not_hidden(Post::envelope("a"), &sent, code);
            assert_eq!(outcome, Outcome::Failed(NotDone::ReceiveOver), "{sent:?} {code}");
            assert!(!outcome.leaves_queue() && !outcome.is_in_queue());
        }
        let outcome = not_hidden(Post::envelope("a"), &sent, "AccessDenied");
        assert_eq!(outcome, Outcome::Failed(other), "{sent:?}");
        assert!(outcome.is_in_queue());
    }
    // What its queue has dropped at the end of its retention is not the copy of another.
    let ended = Post::envelope("a").sent(NOW - 1_209_600_000);
    assert_eq!(not_hidden(ended, &refused, MESSAGE_GONE), Outcome::Failed(NotDone::Archive));
}

/// Returns the outcomes of letters whose queue drops them in so many seconds, if there is no time to begin
/// any. The queue's visibility timeout is twelve hours.
fn not_begun(posts: Vec<Post>, left: i64) -> Vec<Outcome> {
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
            Answer::Queues { known, unread: Vec::new() }
        }
        Action::Send(request) => sent(request, &Sent::NotStarted),
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
        let single = not_begun(vec![Post::envelope("a")], left);
        assert_eq!(format!("{single:?}"), format!("[{head}]"), "{left}");
        let group = not_begun(["a", "b"].map(|id| in_fifo_group(Post::envelope(id))).into(), left);
        assert_eq!(format!("{group:?}"), format!("[{head}, {held}]"), "{left}");
    }
}

#[test]
fn a_letter_that_only_a_guess_has_ended_goes_on_once_its_queue_tells_its_retention() {
    let mut machine = with_rule(&json!({ "deliveryPolicy": { "healthyRetryPolicy": { "numRetries": 9 } } }));
    let batches: [(i64, &[Option<u64>]); 3] = [(0, &[None]), (600, &[None]), (660, &[Some(1_209_600)])];
    let all = with_archive(&mut machine, &[days_old(5)], &batches, false);
    assert_eq!(format!("{:?}", all[1].0), "[Failed(Archive)]");
    assert!(format!("{:?}", all[2].0).starts_with("[Deferred("), "{:?}", all[2].0);
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
                Action::Send(request) => sent(request, &Sent::Failed(failed::<()>().unwrap_err())),
                Action::Hide { letters, .. } => {
                    hidden.extend(letters.iter().map(|(_, seconds)| *seconds));
                    Answer::Hidden(vec![Ok(()); letters.len()])
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
