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
