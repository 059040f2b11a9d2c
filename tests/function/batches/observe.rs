use super::*;

#[tokio::test]
async fn nothing_is_called_but_the_attributes_of_queues_and_every_letter_stays() {
    for policy in
        [json!({}), default(&json!({ "target": "topic" })), default(&json!({ "action": "archive" }))]
    {
        for (name, event) in samples() {
            let world =
                FunctionWorld::new(&[("REDRIVE_MODE", "observe"), ("REDRIVE_POLICY", &policy.to_string())]);
            let ran = world.run_event(&event).await;
            let called: BTreeSet<_> = world.cloud.journal().into_iter().map(|call| call.operation).collect();
            assert_eq!(called, ["GetQueueAttributes".to_owned()].into(), "{name}");
            assert_eq!(ran.kept, ids(&event), "{name}");
            let count = u64::try_from(ran.kept.len()).unwrap();
            assert_eq!(ran.metrics()["LettersObserved"], count);
            assert!(ran.letters().iter().all(|line| line["outcome"] == "observed"));
        }
    }
}

#[tokio::test]
async fn what_would_be_done_is_logged() {
    let world = FunctionWorld::new(&[("REDRIVE_MODE", "observe")]);
    let ran = world.run_event(&sample("mixed")).await;
    let told: Vec<_> = ran
        .letters()
        .into_iter()
        .map(|line| json!([line["decision"], line["reason"], line["retry.number"]]))
        .collect();
    assert_eq!(
        told,
        [
            json!(["deliver", null, 1]),
            json!(["deliver", null, 2]),
            json!(["archive", "unrecognised", null]),
            json!(["archive", "unrecognised", null]),
            json!(["archive", "unrecognised", null]),
            json!(["deliver", null, 1]),
            json!(["archive", "unrecognised", null]),
            json!(["archive", "unrecognised", null]),
            json!(["defer", "early", null]),
            json!(["archive", "exhausted", null]),
        ]
    );
}

/// What can be known without asking is decided as in active mode, and what cannot is named.
#[tokio::test]
async fn what_active_mode_would_do_is_said_as_far_as_it_can_be_known() {
    let confirms = "not known before an attempt: whether SNS confirms its subscription";
    let eleven = "the letter has 10 attributes already, so the mark does not fit";
    let full = (0..10)
        .fold(RecordBuilder::raw("a", "{}"), |post, n| post.attribute(&format!("a{n}"), "String", "x"));
    let cases = [
        (
            json!({ "target": PROJECTOR }),
            RecordBuilder::raw("a", "text"),
            "archive unrecognised",
            "the letter's body is not JSON, and functions accept only JSON",
        ),
        (json!({ "target": PROJECTOR }), RecordBuilder::raw("a", "{}"), "deliver", ""),
        (
            json!({ "target": DLQ }),
            RecordBuilder::raw("a", "{}"),
            "archive refused",
            "the target is a queue that feeds this function: set another target in the letter's rule",
        ),
        (
            json!({ "target": WORKER, "allowTargets": [BILLING] }),
            RecordBuilder::raw("a", "{}"),
            "archive refused",
            "the target is not in the rule's allowTargets: add it there, or set another target",
        ),
        (json!({ "target": WORKER }), full.clone(), "archive unmarkable", eleven),
        (json!({ "target": TOPIC }), full, "archive unmarkable", eleven),
        (
            json!({}),
            RecordBuilder::raw("a", "{}"),
            "archive unrecognised",
            "the letter names no subscription: set the subscription of its rule",
        ),
        (
            json!({}),
            RecordBuilder::envelope("a").subscription(FIFO_SUBSCRIPTION),
            "archive refused",
            "the subscription belongs to another topic",
        ),
        (json!({}), RecordBuilder::envelope("a"), "deliver", confirms),
        (
            json!({ "verifySignature": true }),
            RecordBuilder::envelope("a"),
            "deliver",
            "not known before an attempt: whether SNS confirms its subscription, and signed it",
        ),
        (
            json!({ "target": WORKER, "verifySignature": true }),
            RecordBuilder::envelope("a"),
            "deliver",
            "not known before an attempt: whether SNS signed it",
        ),
    ];
    for (policy, post, expected, detail) in cases {
        let policy = default(&policy).to_string();
        let world = FunctionWorld::new(&[("REDRIVE_MODE", "observe"), ("REDRIVE_POLICY", &policy)]);
        let ran = world.run([&post]).await;
        let line = ran.letter("a");
        let decision =
            [&line["decision"], &line["reason"]].map(|it| it.as_str().unwrap_or_default()).join(" ");
        assert_eq!(
            (decision.trim_end(), line["detail"].as_str().unwrap_or_default()),
            (expected, detail),
            "{policy}"
        );
        // Active mode does the same where it was known.
        let world = FunctionWorld::new(&[("REDRIVE_POLICY", &policy)]);
        let ran = world.run([&post]).await;
        let outcome = ran.outcomes().remove(0);
        match expected.strip_prefix("archive ") {
            Some(reason) => assert_eq!(outcome, format!("a archived {reason}"), "{policy}"),
            None if detail.ends_with("signed it") => assert_eq!(outcome, "a archived refused", "{policy}"),
            None => assert_eq!(outcome, "a delivered", "{policy}"),
        }
    }
}

/// Active mode holds what is behind another letter of its group that stays.
#[tokio::test]
async fn a_letter_behind_another_of_its_group_is_said_to_be_held_unless_that_leaves() {
    let post = |id: &str, group: &str| RecordBuilder::raw(id, "{}").queue(FIFO_DLQ).group(group);
    let behind = "held unless the letters before it in its group leave the queue";
    let old = post("d", "two").sent(NOW - 1_209_000_000);
    let posts = [post("a", "one"), post("b", "one"), post("c", "two"), old];
    let policy = default(&json!({ "target": FIFO_WORKER })).to_string();
    let world = FunctionWorld::new(&[("REDRIVE_MODE", "observe"), ("REDRIVE_POLICY", &policy)]);
    let ran = world.run(&posts).await;
    let told = |id: &str| json!([ran.letter(id)["decision"], ran.letter(id)["detail"]]);
    assert_eq!(
        ["a", "b", "c"].map(told),
        [json!(["deliver", null]), json!(["deliver", behind]), json!(["deliver", null])]
    );
    assert_eq!(ran.letter("d")["detail"], behind);
    let slow =
        json!({ "healthyRetryPolicy": { "minDelayTarget": 100, "maxDelayTarget": 100, "numRetries": 3 } });
    let slow = default(&json!({ "target": FIFO_WORKER, "deliveryPolicy": slow })).to_string();
    let world = FunctionWorld::new(&[("REDRIVE_MODE", "observe"), ("REDRIVE_POLICY", &slow)]);
    let ran = world.run([&post("a", "one"), &post("b", "one")]).await;
    let told = |id: &str| json!([ran.letter(id)["decision"], ran.letter(id)["detail"]]);
    assert_eq!(["a", "b"].map(told), [json!(["defer", null]), json!(["defer", behind])]);
    let world = FunctionWorld::new(&[("REDRIVE_POLICY", &policy)]);
    world.cloud.reply("SendMessageBatch", SimFault::refuse(500, "InternalFailure", "broken"));
    let ran = world.run(&posts).await;
    assert!(ran.letters().iter().any(|line| line["outcome"] == "held"), "{:?}", ran.outcomes());
}

/// Whether a subscription is found is not known where the search fails.
#[tokio::test]
async fn a_search_that_fails_is_said_to_be_unknown() {
    let policy = default(&json!({ "subscription": "discover" })).to_string();
    let world = FunctionWorld::new(&[("REDRIVE_MODE", "observe"), ("REDRIVE_POLICY", &policy)]);
    world.cloud.reply("ListSubscriptions", SimFault::refuse(403, "AuthorizationError", "no"));
    let ran = world.run([&RecordBuilder::raw("a", "plain")]).await;
    let says = "not known: the search for the letter's subscription failed or took too long";
    assert_eq!([&ran.letter("a")["outcome"], &ran.letter("a")["detail"]], ["observed", says]);
    let called: BTreeSet<_> = world.cloud.journal().into_iter().map(|call| call.operation).collect();
    assert_eq!(called, ["GetQueueAttributes", "ListSubscriptions"].map(str::to_owned).into());
}

/// A letter that nobody activates the function for expires, so it is counted day by day.
#[tokio::test]
async fn letters_that_are_observed_for_more_than_a_day_are_counted_for_an_alarm() {
    let day = 86_400_000;
    let posts = [("a", day - 1_000), ("b", day + 1_000), ("c", 3 * day)]
        .map(|(id, age)| RecordBuilder::envelope(id).sent(NOW - age));
    let old = async |variables: &[(&str, &str)]| {
        FunctionWorld::new(variables).run(&posts).await.metrics()["OldLettersObserved"].clone()
    };
    assert_eq!(old(&[("REDRIVE_MODE", "observe")]).await, 2);
    assert_eq!(old(&[]).await, json!(null), "in active mode letters may be as old as their schedule");
}

/// Returns a number as the tables of `limits.md` print it.
fn printed(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), ""), |(whole, rest)| (whole, rest));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if rest.is_empty() { grouped } else { format!("{grouped}.{rest}") }
}

/// Prices of `limits.md`, in USD; the time of an invocation is that of the table above it.
#[tokio::test]
async fn observing_costs_what_the_limits_say() {
    const LETTERS: f64 = 10_000.0;
    /// What Lambda itself logs about an invocation in JSON: its start, its end and its report.
    const LINES_OF_LAMBDA: f64 = 600.0;
    let template = include_str!("../../../template.yaml");
    let (_, timeout) = template.split_once("\n  FunctionTimeout:\n").unwrap();
    let timeout = timeout.split_once("Default: ").unwrap().1.lines().next().unwrap();
    let (_, seconds) = template.split_once(&format!("\"{timeout}\": {{ VisibilitySeconds: ")).unwrap();
    let visibility: u32 = seconds.split(',').next().unwrap().parse().unwrap();
    assert_eq!(visibility, 180);

    let posts: Vec<_> = (0..10).map(|number| RecordBuilder::envelope(&format!("letter-{number}"))).collect();
    let world = FunctionWorld::new(&[("REDRIVE_MODE", "observe")]);
    world.run(&posts).await;
    world.cloud.forget();
    let ran = world.run(&posts).await;
    assert_eq!(world.cloud.summary(), [] as [&str; 0], "an instance that knows the queue calls nothing");
    assert_eq!((ran.kept.len(), ran.letters().len()), (10, 10), "every letter stays, with one line");
    let bytes = u32::try_from(ran.text.len() + ran.metrics.len()).unwrap();
    let bytes = f64::from(bytes) + LINES_OF_LAMBDA;

    let looks = 86_400.0 / f64::from(visibility);
    let (receives, batches) = (LETTERS * looks, LETTERS * looks / 10.0);
    let gigabytes = batches * bytes / 1e9;
    let cents = |cost: f64| (cost * 100.0).round() / 100.0;
    let computing = batches * 0.05 * 0.25 * 0.000_013_333_4;
    let costs = [batches * 0.40 / 1e6, batches * 0.20 / 1e6, computing, gigabytes * 0.50].map(cents);
    let rows = [
        format!(
            "| SQS: receive, ten letters a request | {} | {} |",
            printed(batches, 0),
            printed(costs[0], 2)
        ),
        format!("| Lambda, invocations | {} | {} |", printed(batches, 0), printed(costs[1], 2)),
        format!(
            "| Lambda, arm64, 256 MB, 50 ms each (assumed) | {} GB-s | {} |",
            printed(batches * 0.05 * 0.25, 0),
            printed(costs[2], 2)
        ),
        format!(
            "| logs: {} lines of letters, and the lines of metrics and of Lambda | {} GB | {} |",
            printed(receives, 0),
            printed(gigabytes, 1),
            printed(costs[3], 2)
        ),
        format!("| **together** | | **{}** |", printed(costs.iter().sum(), 2)),
    ];
    let limits = include_str!("../../../docs/limits.md");
    for row in &rows {
        assert!(limits.contains(row.as_str()), "limits.md lacks a row of these:\n{}", rows.join("\n"));
    }
}
