//! `plan`: the timetable agrees with the policy's own decisions, and all its forms agree with each other.

use proptest::prelude::*;
use redrive_core::failure::FailureClass;
use redrive_core::letter::Letter;
use redrive_core::policy::{Decision, LetterFacts, Policy, Retention, plus};
use redrive_support::{NOW, RecordBuilder, at, holds, letter};
use serde_json::{Value, json};

use super::{CommandRun, CommandWorld, TextFile, redrivectl, redrivectl_in};

const AT: &str = "2026-11-01T12:00:00Z";

async fn plan(policy: &Value, args: &[&str]) -> CommandRun {
    let world = CommandWorld { input: policy.to_string().into_bytes(), ..CommandWorld::default() };
    redrivectl_in(world, &[&["plan", "-", "--at", AT], args].concat()).await
}

fn schedule(min: u32, max: u32, retries: u32) -> Value {
    json!({ "default": { "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": {
        "minDelayTarget": min, "maxDelayTarget": max, "numRetries": retries, "backoffFunction": "exponential" } } } })
}

#[tokio::test]
async fn the_built_in_policy_is_planned_as_the_policy_page_has_it() {
    let text = redrivectl(&["plan", "--at", AT]).await.text();
    let table = "\
retry  phase            delay  since arrival  clock (UTC)
    1  immediate          0 s        0:00:00  2026-11-01 12:00:00
    2  pre-backoff       60 s        0:01:00  2026-11-01 12:01:00
    3  pre-backoff       60 s        0:02:00  2026-11-01 12:02:00
    4  backoff           60 s        0:03:00  2026-11-01 12:03:00
    5  backoff          161 s        0:05:41  2026-11-01 12:05:41
    6  backoff          427 s        0:12:48  2026-11-01 12:12:48
    7  backoff        1,139 s        0:31:47  2026-11-01 12:31:47
    8  backoff        3,037 s        1:22:24  2026-11-01 13:22:24
    9  backoff        8,099 s        3:37:23  2026-11-01 15:37:23
   10  backoff       21,600 s        9:37:23  2026-11-01 21:37:23
   11  post-backoff  21,600 s       15:37:23  2026-11-02 03:37:23
   12  post-backoff  21,600 s       21:37:23  2026-11-02 09:37:23
";
    assert!(text.contains(table), "{text}");
    // Whoever is on call takes it for that of the function.
    let built_in = "This is the built-in policy; a function's own may differ.\n\n";
    let head = format!("{built_in}Rule default: to the failed target, 12 retries over 21:37:23.\n");
    assert!(text.starts_with(&head), "{text}");
    assert!(text.contains("Jitter makes each delay up to 10 % shorter than shown.\n"), "{text}");
    assert!(!text.contains("warning:"), "{text}");
    let outage = "An outage of up to 19:27:39 is delivered whole; what fails longer is archived.\n\
                  More takes more retries (each adds up to 6 h) or longer delays; a retention of\n\
                  14 d allows up to 13 d 23:00:00.\n";
    assert!(text.contains(outage), "{text}");
    let short = redrivectl(&["plan", "--at", AT, "--retention", "12h"]).await.text();
    assert!(short.contains("\nMore takes a longer retention than 12 h; SQS allows 14 d.\n"), "{short}");
}

#[tokio::test]
async fn without_a_time_the_letter_arrives_now() {
    assert_eq!(redrivectl(&["plan", "--json"]).await.json()["arrival"], "2026-11-01T12:00:00Z");
}

#[tokio::test]
async fn a_picture_fits_eighty_columns_and_shows_each_phase_by_its_own_mark() {
    let policy = json!({ "default": { "deliveryPolicy": "aws-managed" }, "rules": [
        { "name": "mail", "match": { "origin": ["raw"] }, "deliveryPolicy": "customer-managed" },
        { "name": "web", "match": { "origin": ["raw"] }, "deliveryPolicy": "http-default" } ] });
    let text = plan(&policy, &["--rate", "50"]).await.text();
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let text = redrivectl(&["plan"]).await.text();
    let lines: Vec<_> = text.lines().collect();
    let axis = lines.iter().position(|line| line.starts_with("          +")).unwrap();
    assert_eq!(lines[axis - 1], "          |     oooo oooo #### #### #### #### #### #### #### ==== ====");
    assert_eq!(lines[axis], "          +....--------------------------------------------------------");
    assert!(
        text.contains(". immediate 1   o pre-backoff 2-3   # backoff 4-10   = post-backoff 11-12"),
        "{text}"
    );
}

#[tokio::test]
async fn long_schedules_are_abridged_unless_asked_for_whole() {
    let policy = json!({ "default": { "deliveryPolicy": "aws-managed" } });
    let text = plan(&policy, &[]).await.text();
    assert!(text.lines().count() < 60, "{text}");
    for line in [
        "      1  immediate            0 s        0:00:00  2026-11-01 12:00:00",
        "    ...  (60,289 more)       20 s",
        " 60,308  post-backoff        20 s  13 d 22:59:53  2026-11-15 10:59:53",
        " 60,309  post-backoff        20 s  13 d 23:00:13  2026-11-15 11:00:13  not made",
        "100,015  post-backoff        20 s  23 d 03:35:33  2026-11-24 15:35:33  not made",
        "99,998 retries left out; --all shows them.",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let all = plan(&policy, &["--all"]).await.text();
    assert_eq!(all.lines().filter(|line| line.contains("  post-backoff  ")).count(), 100_000);
    assert!(!all.contains("left out"));
}

#[tokio::test]
async fn a_schedule_that_outlives_the_queue_is_warned_of_with_the_last_retry_that_fits() {
    let plan = plan(&schedule(3600, 3600, 100), &["--retention", "2d", "--json"]).await.json();
    let rule = &plan["rules"][0];
    // Two days without the margin of one hour are 47 hours.
    assert_eq!(rule["lastRetryMade"], 47);
    assert_eq!(rule["archivedAfterSeconds"], 47 * 3600);
    assert_eq!((&rule["retries"][46]["made"], &rule["retries"][47]["made"]), (&json!(true), &json!(false)));
    let warning = rule["warnings"].as_array().unwrap().iter().find(|it| it["code"] == "retention").unwrap();
    assert_eq!(warning["note"], false);
    assert!(warning["text"].as_str().unwrap().contains("retry 47 of 100 is the last"), "{warning}");

    let fits = self::plan(&schedule(3600, 3600, 47), &["--retention", "2d", "--json"]).await.json();
    let codes = |plan: &Value| {
        let warnings = plan["rules"][0]["warnings"].as_array().unwrap().iter();
        warnings.map(|it| it["code"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(codes(&fits), ["in_flight"]);
}

#[tokio::test]
async fn waits_above_the_ceiling_are_named_with_their_hops() {
    let ran = plan(&schedule(41_400, 165_600, 3), &["--json"]).await.json();
    let rule = &ran["rules"][0];
    let hidings: Vec<_> =
        rule["retries"].as_array().unwrap().iter().map(|row| row["hidings"].clone()).collect();
    assert_eq!(hidings, [json!(1), json!(2), json!(4)]);
    let hops = rule["warnings"].as_array().unwrap().iter().find(|it| it["code"] == "hops").unwrap();
    let text = hops["text"].as_str().unwrap();
    assert!(text.contains("retries 2 to 3") && text.contains("up to 3 times"), "{text}");
}

#[tokio::test]
async fn littles_law_says_how_many_letters_may_keep_failing() {
    // Each letter is hidden for 600 s in all: 120,000 / 600 s are 200 letters a second.
    let ran = plan(&schedule(200, 200, 3), &["--rate", "201", "--json"]).await.json();
    let in_flight = &ran["rules"][0]["inFlight"];
    assert_eq!(
        in_flight,
        &json!({ "limit": 120_000, "meanHiddenSeconds": 600.0, "maxFailingLettersPerSecond": 200.0,
                 "lettersAtRate": 120_600.0 })
    );
    assert_eq!(ran["rules"][0]["warnings"][1]["code"], "too_many_in_flight");
    let ran = plan(&schedule(200, 200, 3), &["--rate", "200", "--json"]).await.json();
    assert_eq!(ran["rules"][0]["warnings"].as_array().unwrap().len(), 1);

    let mut half = schedule(200, 200, 3);
    half["default"]["jitter"] = json!(1.0);
    let ran = plan(&half, &["--json"]).await.json();
    assert_eq!(ran["rules"][0]["inFlight"]["meanHiddenSeconds"], 300.0);
}

#[tokio::test]
async fn rules_come_in_the_order_in_which_they_are_tried_and_can_be_chosen() {
    let policy = json!({ "rules": [
        { "name": "never", "match": { "origin": ["raw"] }, "action": "archive" },
        { "name": "wait", "match": { "origin": ["sqs"] }, "action": "hold" },
        { "name": "fast", "match": { "origin": ["sns"] }, "target": "topic", "deliveryPolicy": "http-default" } ] });
    let names = |plan: Value| {
        let rules = plan["rules"].as_array().unwrap().iter();
        rules.map(|rule| rule["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(plan(&policy, &["--json"]).await.json()), ["never", "wait", "fast", "default"]);
    assert_eq!(names(plan(&policy, &["--json", "--rule", "fast"]).await.json()), ["fast"]);
    let text = plan(&policy, &[]).await.text();
    assert!(text.contains("Rule never: archived at once, no retry.\n"), "{text}");
    assert!(text.contains("Rule fast: to the topic, 3 retries over 0:01:00.\n"), "{text}");

    let ran = plan(&policy, &["--rule", "slow"]).await;
    assert_eq!(ran.code, 2);
    assert_eq!(
        ran.err,
        "redrivectl: the policy has no rule \"slow\"; its rules are never, wait, fast, default\n"
    );
}

#[tokio::test]
async fn a_chart_is_well_formed_and_has_a_dot_for_every_retry_of_a_short_schedule() {
    let file = TextFile::of("chart.svg", "");
    let policy = json!({ "rules": [
        { "name": "a<b>&\"c\"", "match": { "origin": ["raw"] }, "deliveryPolicy": "http-default" } ] });
    plan(&policy, &["--svg", file.path()]).await.text();
    let svg = file.read();
    assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    // Two panels with 3 and 12 retries, and each retry has a title. The dots of the legends have none.
    assert_eq!(svg.matches("<title>").count(), 15);
    assert!(svg.contains("Rule a&lt;b&gt;&amp;&quot;c&quot;: 3 retries over 0:01:00"), "{svg}");
    for text in [
        "delay before the retry",
        "number of the retry",
        "time since the letter arrived",
        "post-backoff: 11 to 12",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    let opened = svg.matches('<').count();
    assert_eq!(opened, svg.matches("</").count() * 2 + svg.matches("/>").count(), "every element is closed");
}

#[tokio::test]
async fn a_chart_that_cannot_be_written_is_a_failure() {
    let ran = redrivectl(&["plan", "--svg", "/nowhere/chart.svg"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.starts_with("redrivectl: cannot write /nowhere/chart.svg: "), "{}", ran.err);
}

/// Returns the life of a letter whose retries all fail: the number and the second of each retry, and the
/// second of its archive.
fn life(policy: &Policy, retention: u64) -> (Vec<(u32, u64)>, u64) {
    let facts = LetterFacts { retention: Retention::Known(retention), ..LetterFacts::default() };
    let (made, archived, _) = life_in_outage(policy, &facts, "a", u64::MAX);
    (made, archived)
}

/// Returns the life of the letter with this id that arrives at the first moment of an outage of so many seconds: its
/// retries, its end, and whether it is delivered.
fn life_in_outage(
    policy: &Policy,
    facts: &LetterFacts,
    id: &str,
    outage: u64,
) -> (Vec<(u32, u64)>, u64, bool) {
    let mut made = Vec::new();
    let (mut now, mut receives) = (0, 0);
    loop {
        receives += 1;
        let letter = received(id, receives);
        let at = plus(at(NOW), now);
        let verdict = policy.decide(&letter, facts, at);
        let decision = match &verdict.decision {
            Decision::Deliver(retry) => {
                made.push((retry.number, now));
                if now >= outage {
                    return (made, now, true);
                }
                verdict.after_failure(*retry, FailureClass::Transient, at)
            }
            other => other.clone(),
        };
        match decision {
            Decision::Defer(deferral) => now += deferral.hide,
            Decision::Archive(..) => return (made, now, false),
            Decision::Deliver(_) => unreachable!(),
        }
    }
}

fn received(id: &str, receives: u32) -> Letter {
    let mut letter = letter(&RecordBuilder::envelope(id));
    letter.sqs.sent = at(NOW);
    letter.sqs.first_received = at(NOW);
    letter.sqs.receive_count = receives;
    letter
}

/// Returns policies of any schedule, and retentions.
fn policies() -> impl Strategy<Value = (Value, u64)> {
    let delays = (1_u32..200_000).prop_flat_map(|min| (Just(min), min..=1_209_600));
    let phases = (0_u32..4, 0_u32..4, 0_u32..8, 0_u32..4);
    let retention = prop_oneof![Just(60_u64), 60..1_209_600_u64, Just(1_209_600)];
    let backoffs = prop::sample::select(vec!["linear", "arithmetic", "geometric", "exponential"]);
    let documents =
        (delays, phases, backoffs).prop_map(|((min, max), (none, pre, backoff, post), function)| {
            json!({ "default": { "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": {
            "minDelayTarget": min, "maxDelayTarget": max, "numRetries": none + pre + backoff + post,
            "numNoDelayRetries": none, "numMinDelayRetries": pre, "numMaxDelayRetries": post,
            "backoffFunction": function } } } })
        });
    (documents, retention)
}

#[test]
fn an_outage_that_the_plan_survives_is_delivered_whole_and_a_longer_one_is_not() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let jitters = prop_oneof![Just(0.0), Just(0.1), 0.0..=1.0];
    holds(300, &(policies(), jitters), |((mut document, retention), jitter)| {
        document["default"]["jitter"] = json!(jitter);
        let policy = Policy::parse(&document.to_string()).unwrap();
        let facts = LetterFacts { retention: Retention::Known(retention), ..LetterFacts::default() };
        let retention = retention.to_string();
        let ran = runtime.block_on(plan(&document, &["--json", "--retention", &retention])).json();
        let survives = ran["rules"][0]["survivesOutageSeconds"].as_u64().unwrap();
        for id in ["a", "b", "c"] {
            let (made, _, delivered) = life_in_outage(&policy, &facts, id, survives);
            prop_assert!(delivered || (made.is_empty() && survives == 0), "{survives} s of {made:?}");
        }
        if jitter == 0.0 {
            let (made, archived, delivered) = life_in_outage(&policy, &facts, "a", survives + 1);
            prop_assert!(!delivered, "{survives} s of {made:?}, archived {archived}");
        }
        Ok(())
    });
}

#[tokio::test]
async fn a_letter_of_a_backlog_is_planned_from_the_beginning_of_its_schedule() {
    let mut policy = schedule(3600, 3600, 3);
    let args = ["--retention", "12h", "--schedule-from", "2026-11-01T20:00:00Z"];
    let ran = plan(&policy, &[&args[..], &["--json"]].concat()).await.json();
    assert_eq!(ran["scheduleFrom"], "2026-11-01T20:00:00Z");
    let rule = &ran["rules"][0];
    let rows = rule["retries"].as_array().unwrap().iter();
    let planned: Vec<_> =
        rows.map(|row| (row["sinceArrivalSeconds"].as_u64().unwrap(), &row["made"])).collect();
    let hours = |hours: u64| (hours * 3600, &Value::Bool(true));
    assert_eq!(planned, [hours(9), hours(10), hours(11)]);
    assert_eq!((&rule["lengthSeconds"], &rule["survivesOutageSeconds"]), (&json!(10_800), &json!(10_800)));

    // The function does the same.
    let facts = LetterFacts {
        retention: Retention::Known(43_200),
        schedule_from: Some(plus(at(NOW), 8 * 3600)),
        ..LetterFacts::default()
    };
    let parsed = Policy::parse(&policy.to_string()).unwrap();
    let (made, ..) = life_in_outage(&parsed, &facts, "a", u64::MAX);
    assert_eq!(made, [(1, 9 * 3600), (2, 10 * 3600), (3, 11 * 3600)]);

    let text = plan(&policy, &args).await.text();
    let says = "The letter arrives before SCHEDULE_FROM, so its schedule begins 2026-11-01\n\
                20:00:00 UTC, 8:00:00 after its arrival. The queue still keeps it from its\narrival on.\n";
    assert!(text.contains(says), "{text}");
    let text = plan(&policy, &["--schedule-from", "2026-11-01T11:00:00Z"]).await.text();
    assert!(text.contains("The letter arrives after SCHEDULE_FROM (2026-11-01 11:00:00 UTC)"), "{text}");

    // Its queue would drop it before the first retry.
    policy = schedule(14_400, 14_400, 3);
    let text = plan(&policy, &args).await.text();
    assert!(text.contains("it makes one attempt before its\n  schedule begins"), "{text}");
    let parsed = Policy::parse(&policy.to_string()).unwrap();
    let (made, ..) = life_in_outage(&parsed, &facts, "a", u64::MAX);
    assert_eq!(made.len(), 1, "{made:?}");
}

#[test]
fn the_timetable_is_what_the_policy_does_with_a_letter_whose_retries_all_fail() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    holds(300, &policies(), |(document, retention)| {
        let (made, archived) = life(&Policy::parse(&document.to_string()).unwrap(), retention);
        let retention = retention.to_string();
        let ran = runtime.block_on(plan(&document, &["--json", "--retention", &retention])).json();
        let rule = &ran["rules"][0];
        let rows = rule["retries"].as_array().unwrap().iter().filter(|row| row["made"] == true);
        let planned: Vec<_> = rows.map(|row| json!([row["retry"], row["sinceArrivalSeconds"]])).collect();
        let lived: Vec<_> = made.iter().map(|(retry, since)| json!([retry, since])).collect();
        prop_assert_eq!(planned, lived);
        prop_assert_eq!(&rule["archivedAfterSeconds"], &json!(archived));
        prop_assert_eq!(&rule["lastRetryMade"], &json!(made.last().map_or(0, |(retry, _)| *retry)));
        Ok(())
    });
}

#[tokio::test]
async fn a_pattern_that_can_match_nothing_is_refused() {
    let of = |pattern: Value| json!({ "rules": [{ "name": "held", "match": pattern, "action": "hold" }] });
    for (pattern, problem) in [
        (
            json!({ "topicArn": { "suffix": [":payments"] } }),
            "rules[0].match.topicArn: holds suffix where a list belongs",
        ),
        (
            json!({ "topicArn": ["payments"] }),
            "rules[0].match.topicArn: is the ARN of a topic, so \"payments\" can match nothing",
        ),
        (json!({ "queueArn": [7] }), "rules[0].match.queueArn: is a text, so 7 can match nothing"),
    ] {
        let ran = plan(&of(pattern), &[]).await;
        assert!(ran.code == 2 && ran.err.contains(problem), "{} {}", ran.code, ran.err);
    }
}

#[tokio::test]
async fn overrides_in_force_are_shown_with_what_they_do_to_the_plan() {
    let override_ = |id: &str, action: &str, until: &str| {
        json!({
            "id": id, "do": action, "match": { "subject": ["t"] }, "at": "2026-11-01T11:00:00Z", "until": until,
            "by": "ada", "why": "down",
        })
    };
    let overrides = [
        override_("held", "hold", "2026-11-01T14:00:00Z"),
        override_("over", "hold", "2026-11-01T11:30:00Z"),
    ];
    let file =
        TextFile::of("plan-overrides.json", &json!({ "version": 1, "overrides": overrides }).to_string());
    let plain = redrivectl(&["plan"]).await.text();
    let text = redrivectl(&["plan", "--overrides", file.path()]).await.text();
    assert_eq!(
        text.strip_prefix(&plain),
        Some(
            "\noverride held, until 2026-11-01 14:00:00 UTC, 2 h: for letters that match\n  \
             {\"subject\":[\"t\"]} the function makes no attempt; retries planned for that time\n  are due when the override ends\n"
        ),
        "{text}"
    );
    let json = redrivectl(&["plan", "--overrides", file.path(), "--json"]).await.json();
    assert_eq!(json["overrides"], json!([overrides[0]]));
}

/// A policy that the template's parameter does not take.
#[tokio::test]
async fn a_policy_that_is_too_long_for_the_parameter_is_told_where_it_fits() {
    let policy = |names: usize| {
        let subjects: Vec<_> = (0..names).map(|number| format!("subject-{number:04}")).collect();
        json!({ "rules": [{ "name": "r", "match": { "subject": subjects }, "action": "archive" }] })
            .to_string()
    };
    for (names, is_long) in [(10, false), (300, true)] {
        let file = TextFile::of("long.json", &policy(names));
        let text = redrivectl(&["plan", file.path()]).await.text();
        assert_eq!(text.contains("put it into S3, and set RedrivePolicyUri"), is_long, "{text}");
        let plan = redrivectl(&["plan", file.path(), "--json"]).await.json();
        assert_eq!(plan.get("tooLong").is_some(), is_long);
    }
}
