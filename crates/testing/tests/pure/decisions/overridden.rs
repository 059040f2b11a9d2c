//! Promise P10: an override about a letter takes precedence over its rule.

use redrive_core::policy::Overrides;

use super::*;

/// Three retries, of which the second and third come more than a day after the one before.
const SCHEDULE: &str = r#""deliveryPolicy": { "healthyRetryPolicy": { "minDelayTarget": 100000,
    "maxDelayTarget": 100000, "numRetries": 3 } }, "jitter": 0"#;

/// Returns letters at five positions in their schedule: the first retry is due in 500 s, is due now, was made
/// (or seems so) with the second due in 58,600 s or in 99,900 s, or all retries are behind the letter.
fn letters() -> [(&'static str, Letter); 5] {
    let begun = NOW - millis(VISIBILITY_CEILING);
    let mut hop = marked(0, Some(begun));
    (hop.sqs.receive_count, hop.sqs.first_received) = (2, at(begun));
    let mut between = marked(0, Some(NOW - 100_000));
    (between.sqs.receive_count, between.sqs.first_received) = (2, at(NOW - 100_000));
    [
        ("early", marked(0, Some(NOW + 500_000))),
        ("due", marked(0, Some(NOW))),
        ("hop", hop),
        ("between", between),
        ("spent", marked(3, Some(NOW))),
    ]
}

fn override_(action: &str, more: &Value) -> OverrideAnswer {
    let mut override_ = json!({ "id": "o", "do": action, "match": { "origin": [{ "exists": true }] },
        "at": "2026-11-01T12:00:00Z", "by": "ada", "why": "w" });
    override_.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let overrides =
        Overrides::parse(json!({ "version": 1, "overrides": [override_] }).to_string().as_bytes()).unwrap();
    overrides.on(&marked(0, None), &LetterTarget::Nowhere, at(NOW))
}

/// Returns a decision in short. Times are seconds from now.
fn short(decision: &Decision) -> String {
    let from_now = |then: Timestamp| (then.as_millisecond() - NOW) / 1000;
    match decision {
        Decision::Deliver(Retry { number, planned: None, .. }) => format!("retry {number}"),
        Decision::Deliver(Retry { number, planned: Some(planned), .. }) => {
            format!("attempt after {number}, next at {}", from_now(*planned))
        }
        Decision::Defer(Deferral { hide, due, retry, why }) => {
            format!("{} {hide}, {retry} at {}", why.name(), from_now(*due))
        }
        Decision::Archive(reason, _) => reason.name().to_owned(),
    }
}

#[test]
fn an_override_goes_before_its_rule_wherever_the_letter_stands() {
    let none = json!({});
    let in_an_hour = json!({ "until": "2026-11-01T13:00:00Z" });
    let all = |text: &'static str| [text; 5];
    let hold = [
        "overridden 41400, 1 at 500",
        "overridden 41400, 1 at 0",
        "overridden 41400, 2 at 58600",
        "overridden 41400, 2 at 99900",
        "overridden 41400, 4 at 0",
    ];
    let for_an_hour = [
        "overridden 3600, 1 at 500",
        "overridden 3600, 1 at 0",
        "overridden 41400, 2 at 58600",
        "overridden 41400, 2 at 99900",
        "overridden 3600, 4 at 0",
    ];
    let ahead = [
        "attempt after 0, next at 500",
        "retry 1",
        "attempt after 1, next at 58600",
        "attempt after 1, next at 99900",
        "exhausted",
    ];
    let plan = [
        "early 500, 1 at 500",
        "retry 1",
        "hop 41400, 2 at 58600",
        "attempt after 1, next at 99900",
        "exhausted",
    ];
    let held = [
        "hold 41400, 1 at 41400",
        "hold 41400, 1 at 41400",
        "hold 41400, 2 at 41400",
        "hold 41400, 2 at 41400",
        "hold 41400, 4 at 41400",
    ];
    let unread = [
        "early 500, 1 at 500",
        "overrides_unread 60, 1 at 0",
        "hop 41400, 2 at 58600",
        "overrides_unread 60, 2 at 99900",
        "overrides_unread 60, 4 at 0",
    ];
    let unread_archive = [
        "overrides_unread 60, 1 at 500",
        "overrides_unread 60, 1 at 0",
        "overrides_unread 60, 2 at 58600",
        "overrides_unread 60, 2 at 99900",
        "overrides_unread 60, 4 at 0",
    ];
    for (overridden, expected) in [
        (OverrideAnswer::Nothing, [plan, held, all("rule")]),
        (override_("hold", &none), [hold; 3]),
        (override_("hold", &in_an_hour), [for_an_hour; 3]),
        (override_("retry", &none), [ahead; 3]),
        (override_("give-up", &none), [all("given-up"); 3]),
        (OverrideAnswer::Unread, [unread, held, unread_archive]),
    ] {
        for (action, expected) in ["redrive", "hold", "archive"].into_iter().zip(expected) {
            let document = format!(r#"{{"default": {{ "action": "{action}", {SCHEDULE} }}}}"#);
            let policy = Policy::parse(&document).unwrap();
            for ((stands, letter), expected) in letters().into_iter().zip(expected) {
                let facts = LetterFacts {
                    retention: Retention::Known(14 * DAY),
                    overridden: overridden.clone(),
                    ..LetterFacts::default()
                };
                let decision = policy.decide(&letter, &facts, at(NOW)).decision;
                assert_eq!(short(&decision), expected, "{:?}, rule {action}, {stands}", overridden.action());
            }
        }
    }
}

#[test]
fn a_failed_attempt_on_an_override_leaves_the_next_planned_moment_where_it_was() {
    let document = format!(r#"{{"default": {{ {SCHEDULE} }}}}"#);
    let policy = Policy::parse(&document).unwrap();
    let facts = LetterFacts {
        retention: Retention::Known(14 * DAY),
        overridden: override_("retry", &json!({})),
        ..LetterFacts::default()
    };
    let [(_, early), (_, due), (_, hop), (_, between), _] = letters();
    for (letter, class, took, expected) in [
        (&early, FailureClass::Transient, 7_300, "failed 493, 1 at 500"),
        (&early, FailureClass::Transient, 700_000, "failed 0, 1 at 500"),
        (&early, FailureClass::Permanent, 0, "permanent"),
        (&hop, FailureClass::Throttling, 0, "failed 41400, 2 at 58600"),
        (&due, FailureClass::Transient, 0, "failed 41400, 2 at 100000"),
        (&between, FailureClass::Transient, 9_000, "failed 41400, 2 at 99900"),
    ] {
        let verdict = policy.decide(letter, &facts, at(NOW));
        let Decision::Deliver(retry) = verdict.decision else { panic!("{:?}", verdict.decision) };
        assert_eq!(short(&verdict.after_failure(retry, class, at(NOW + took))), expected);
    }
    let verdict = policy.decide(&early, &facts, at(NOW));
    let Decision::Deliver(retry) = verdict.decision else { panic!("{:?}", verdict.decision) };
    let put_off = verdict.put_off(retry, at(NOW), at(NOW + 20_000));
    assert_eq!(short(&put_off), "throttled 20, 1 at 500", "the mark keeps the plan");
}

/// The margin of four days is an hour.
#[test]
fn what_expires_is_archived_whatever_overrides_say_but_for_a_retry() {
    let policy = Policy::built_in();
    let until = json!({ "until": "2026-11-03T12:00:00Z" });
    for (overridden, left, expected) in [
        (override_("hold", &json!({})), 7_200, "overridden 3600, 1 at 0"),
        (override_("hold", &until), 7_200, "overridden 3600, 1 at 0"),
        (override_("hold", &json!({})), 3_600, "expiring"),
        (override_("give-up", &json!({})), 3_600, "given-up"),
        (override_("retry", &json!({})), 3_600, "retry 1"),
        (OverrideAnswer::Unread, 3_660, "overrides_unread 60, 1 at 0"),
        (OverrideAnswer::Unread, 3_659, "expiring"),
    ] {
        let mut letter = marked(0, Some(NOW));
        letter.mark = None;
        letter.sqs.sent = at(NOW - millis(4 * DAY - left));
        let facts = LetterFacts { overridden, ..LetterFacts::default() };
        assert_eq!(short(&policy.decide(&letter, &facts, at(NOW)).decision), expected, "{left} s left");
    }
    // Its next retry would come too late.
    let mut letter = marked(11, Some(NOW + 7_000_000));
    letter.mark.as_mut().unwrap().first = at(NOW - millis(4 * DAY - 7_200));
    letter.mark.as_mut().unwrap().requeued.dlq = Some(letter.sqs.queue.clone());
    let facts = |overridden| LetterFacts { overridden, ..LetterFacts::default() };
    let decide = |overridden| short(&policy.decide(&letter, &facts(overridden), at(NOW)).decision);
    assert_eq!(decide(OverrideAnswer::Nothing), "expiring");
    assert_eq!(decide(override_("retry", &json!({}))), "attempt after 11, next at 7000");
}

#[test]
fn what_the_requeue_is_told_is_the_plan_and_not_the_end_of_a_hold() {
    let document = format!(r#"{{"default": {{ {SCHEDULE} }}}}"#);
    let policy = Policy::parse(&document).unwrap();
    let [(_, early), (_, due), ..] = letters();
    for (letter, planned) in [(&early, 500), (&due, 0)] {
        let facts = LetterFacts { overridden: override_("hold", &json!({})), ..LetterFacts::default() };
        let Decision::Defer(deferral) = policy.decide(letter, &facts, at(NOW)).decision else { panic!() };
        assert_eq!(deferral.for_mark(), (0, Some(at(NOW + planned * 1000))));
        assert_eq!(deferral.wait(at(NOW)), VISIBILITY_CEILING);
    }
}

/// Each move into the requeue makes a new message of it, which is younger than the override.
#[test]
fn a_letter_hears_a_second_override_though_it_was_moved_since() {
    let mut came_back = marked(1, None);
    let mark = came_back.mark.as_mut().unwrap();
    (mark.early, mark.requeued.due) = (true, Some(at(NOW + 21_600_000)));
    let moved = |letter: &Letter, sent: i64| {
        let mark = letter.mark_for_requeue(1, Some(at(NOW + 21_600_000)));
        let mut moved = letter.clone();
        (moved.mark, moved.sqs.sent) =
            (Mark::find(&[(MARK_ATTRIBUTE.to_owned(), mark.to_attribute())].into()), at(sent));
        moved
    };
    let once = moved(&came_back, NOW + 900_000);
    let twice = moved(&once, NOW + 1_800_000);
    let retry = |id: &str, when: &str| {
        json!({ "id": id, "do": "retry", "match": { "origin": [{ "exists": true }] },
        "at": when, "until": "2026-11-01T20:00:00Z", "by": "ada", "why": "w" })
    };
    let document = json!({ "version": 1, "overrides": [
        retry("first", "2026-11-01T11:00:00Z"), retry("second", "2026-11-01T12:05:00Z") ] });
    let overrides = Overrides::parse(document.to_string().as_bytes()).unwrap();
    for letter in [&came_back, &once, &twice] {
        let now = at(NOW + 3_600_000);
        let heard =
            overrides.on(letter, &LetterTarget::Nowhere, now).by().map(|override_| override_.id.clone());
        assert_eq!(heard.as_deref(), Some("second"), "{:?}", letter.sqs.sent);
    }
}
