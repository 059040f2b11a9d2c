//! The checks of the function: its settings, release, grants and policy, and what operators told it.

use super::*;

#[test]
fn the_function_is_looked_at() {
    let of = |change: fn(&mut DeployedFunction)| found(|it| change(&mut it.function));
    assert_eq!(of(|it| it.state = "Inactive".to_owned()), [(Warning, "function-state")]);
    assert_eq!(of(|it| it.memory = 128), [(Note, "function-memory")]);
    assert_eq!(of(|it| it.quiet_log_level = Some("WARN".to_owned())), [(Note, "function-log-level")]);
    assert_eq!(of(|it| it.recursion = Ok("Terminate".to_owned())), [(Error, "function-recursion")]);
    assert_eq!(
        of(|it| it.recursion = denied("lambda:GetFunctionRecursionConfig")),
        [(CannotTell, "function-recursion")]
    );
    assert_eq!(of(|it| it.reserved = Ok(Some(0))), [(Error, "function-concurrency")]);
    assert_eq!(of(|it| it.reserved = Ok(Some(5))), [(Note, "function-concurrency")]);
    assert_eq!(
        of(|it| it.settings = Ok(settings(&[("REDRIVE_MODE", "observe")]))),
        [(Warning, "function-mode")]
    );
    assert_eq!(
        of(|it| it.settings = Ok(settings(&[("ARCHIVE", "nowhere")]))),
        [(Error, "function-settings")]
    );
    assert_eq!(of(|it| it.settings = denied("kms:Decrypt")), [(CannotTell, "function-settings")]);
    assert_eq!(of(|it| it.has_policy_file = true), [(CannotTell, "function-policy")]);
    let other = found(|it| it.stack = Ok(Some("The stack bills is that of the function bills".to_owned())));
    assert_eq!(other, [(CannotTell, "stack")]);
    assert_eq!(found(|it| it.stack = denied("cloudformation:DescribeStacks")), [(CannotTell, "stack")]);
}

#[test]
fn the_release_of_template_and_code_is_compared_with_the_tool() {
    let tool = env!("CARGO_PKG_VERSION");
    let candidate = format!("{tool}-rc.1");
    let of = |told: Option<ReadResult<StackRelease>>| found(|it| it.release = told);
    assert_eq!(of(None), [(CannotTell, "function-version")]);
    assert_eq!(of(Some(denied("cloudformation:GetTemplateSummary"))), [(CannotTell, "function-version")]);
    for (template, severity) in [
        (None, Some(CannotTell)),
        (Some("some day"), Some(CannotTell)),
        (Some("0.0.9"), Some(Warning)),
        (Some(candidate.as_str()), Some(Warning)),
        (Some(tool), None),
        (Some("999.0.0"), Some(Note)),
    ] {
        let expected: Vec<_> = severity.into_iter().map(|severity| (severity, "function-version")).collect();
        assert_eq!(of(Some(Ok(release(template, None)))), expected, "{template:?}");
    }
    let this = format!("code/{tool}/");
    for (prefix, severity) in [
        ("sns-redrive/0.0.9", Some(Warning)),
        (this.as_str(), None),
        ("sns-redrive/latest", Some(CannotTell)),
    ] {
        let expected: Vec<_> = severity.into_iter().map(|severity| (severity, "function-version")).collect();
        assert_eq!(of(Some(Ok(release(Some(tool), Some(prefix))))), expected, "{prefix}");
    }
}

#[test]
fn overrides_and_waiting_letters_are_looked_at() {
    let with = |overrides: Vec<Override>| found(|it| it.overrides = Some(Ok(overrides)));
    assert_eq!(with(vec![override_(1, None)]), [(Note, "override-forgotten")]);
    assert_eq!(with(vec![override_(25, None)]), [(Warning, "override-forgotten")]);
    assert_eq!(with(vec![override_(25, Some(48))]), [(Warning, "override-forgotten")]);
    assert_eq!(with(vec![override_(25, Some(24))]), [], "it has ended");
    let waiting = |waiting: Vec<HiddenLetter>| found(|it| it.waiting = Some(Ok(waiting)));
    assert_eq!(waiting(vec![waits(12)]), []);
    assert_eq!(waiting(vec![waits(13), waits(13)]), [(Warning, "letters-expire")]);
    let elsewhere = |queue: &str| waiting(vec![HiddenLetter { queue: queue.to_owned(), ..waits(13) }]);
    assert_eq!(elsewhere(REQUEUE), [(Warning, "letters-expire")]);
    assert_eq!(elsewhere(WORKER), [(CannotTell, "letters-expire")], "no queue that was read");
    assert_eq!(found(|it| it.waiting = None), [(CannotTell, "letters-expire")], "there is no list");
    let counted = |queue: fn(&mut DeploymentFacts) -> &mut DeployedQueue, letters: &str| {
        found(|it| {
            it.waiting = Some(Ok(vec![waits(1), waits(1)]));
            set(queue(it), "ApproximateNumberOfMessagesNotVisible", letters);
        })
    };
    assert_eq!(counted(|it| &mut it.queues[0], "2"), [], "all are on the list");
    assert_eq!(counted(|it| &mut it.queues[0], "3"), [(CannotTell, "letters-expire")]);
    assert_eq!(counted(|it| it.requeue.as_mut().unwrap(), "1"), [(CannotTell, "letters-expire")]);
    let unread = found(|it| {
        it.queues[0].attributes = Ok(BTreeMap::from([("VisibilityTimeout".to_owned(), "180".to_owned())]));
    });
    assert!(unread.contains(&(CannotTell, "letters-expire")), "{unread:?}");
    let unknown = found(|it| {
        it.overrides = Some(denied("s3:GetObject"));
        it.waiting = Some(denied("s3:GetObject"));
    });
    assert_eq!(unknown, [(CannotTell, "overrides"), (CannotTell, "waiting")]);
}

#[test]
fn grants_are_looked_at_and_what_no_simulation_knows_is_not_fine() {
    let with = |grant: RoleGrant| found(|it| it.grants = Ok(vec![grant]));
    let policy = |effect: &str| {
        let statement =
            json!({ "Effect": effect, "Principal": { "AWS": ROLE }, "Action": "sqs:*", "Resource": "*" });
        Some(Ok(Some(json!({ "Statement": [statement] }).to_string())))
    };
    let unread = || Some(denied("sqs:GetQueueAttributes"));
    for (decision, own, severity) in [
        (IamDecision::Allowed, None, None),
        (IamDecision::Allowed, policy("Allow"), None),
        (IamDecision::Allowed, policy("Deny"), Some(CannotTell)),
        (IamDecision::Allowed, unread(), Some(CannotTell)),
        (IamDecision::Allowed, Some(Ok(Some(denies_all_but(&[ROLE])))), None),
        (IamDecision::Allowed, Some(Ok(Some(denies_all_but(&["arn:other"])))), Some(CannotTell)),
        (IamDecision::NotAllowed, Some(Ok(None)), Some(Error)),
        (IamDecision::NotAllowed, policy("Allow"), Some(CannotTell)),
        (IamDecision::NotAllowed, unread(), Some(CannotTell)),
        (IamDecision::Denied, policy("Allow"), Some(Error)),
        (IamDecision::Unclear("it depends on aws:SourceVpc".to_owned()), None, Some(CannotTell)),
    ] {
        let is_unread = matches!(own, Some(Err(_)));
        let mut setup = healthy();
        setup.grants = Ok(vec![grant(decision.clone(), own.clone())]);
        let is_unseen = check(&setup).iter().any(|finding| finding.unseen.is_some());
        assert_eq!(is_unseen, is_unread, "{decision:?} {own:?}");
        let found = with(grant(decision.clone(), own));
        let expected: Vec<_> = severity.map(|severity| (severity, "grant")).into_iter().collect();
        assert_eq!(found, expected, "{decision:?}");
    }
    let foreign = |decision| with(RoleGrant { is_foreign: true, ..grant(decision, None) });
    assert_eq!(foreign(IamDecision::Allowed), [(CannotTell, "grant")]);
    assert_eq!(foreign(IamDecision::NotAllowed), [(Error, "grant")]);
    let mut setup = healthy();
    for (queue, parameter) in
        [("dead-letter queue payments-dlq", "KmsKeyArns"), ("queue billing", "TargetKmsKeyArns")]
    {
        let for_what = format!("for the {queue}");
        let key =
            RoleGrant { action: "kms:Decrypt", for_what, ..grant(IamDecision::NotAllowed, Some(Ok(None))) };
        setup.grants = Ok(vec![key]);
        let fix = check(&setup).remove(0).fix.unwrap_or_default();
        assert!(fix.contains(&format!(" {parameter}")), "{fix}");
    }
    let unknown =
        RoleGrant { decision: denied("iam:SimulatePrincipalPolicy"), ..grant(IamDecision::Allowed, None) };
    assert_eq!(with(unknown), [(CannotTell, "grant")]);
    assert_eq!(found(|it| it.grants = denied("iam:SimulatePrincipalPolicy")), [(CannotTell, "grant")]);
}

#[test]
fn the_redrive_policy_is_looked_at() {
    let with = |policy: &serde_json::Value, change: fn(&mut DeploymentFacts)| {
        found(|it| {
            it.function.settings = Ok(settings(&[("REDRIVE_POLICY", &policy.to_string())]));
            change(it);
        })
    };
    let alone = |it: &mut DeploymentFacts| all(it)[0].is_raw = true;
    let origins = |queue: &str| json!({ "origins": { queue: ["eventbridge"] }, "default": { "subscription": SUBSCRIPTION } });
    assert_eq!(with(&origins(DLQ), |_| {}), [(CannotTell, "policy-origins")]);
    assert_eq!(with(&origins(DLQ), alone), [(Warning, "policy-origins"), (CannotTell, "policy-origins")]);
    assert_eq!(with(&origins(WORKER), alone), [], "another queue");
    let mut narrow = origins("*");
    narrow["default"]["allowTargets"] = json!([WORKER]);
    assert_eq!(with(&narrow, |_| {}), [], "the grants are asked about it");
    let allows = |target: &str| json!({ "default": { "allowTargets": [target] } });
    assert_eq!(with(&allows(WORKER), |_| {}), []);
    assert_eq!(with(&allows(TOPIC), |_| {}), [(Warning, "policy-allow-targets")]);
    let web = |it: &mut DeploymentFacts| {
        let endpoint = "https://example.org/hook".to_owned();
        all(it)[0] =
            DeployedSubscription { protocol: "https".to_owned(), endpoint, ..subscription(SUBSCRIPTION) };
    };
    assert_eq!(with(&allows("https://example.org/"), web), []);
    let rule =
        json!({ "name": "to", "match": { "origin": ["raw"] }, "target": TOPIC, "allowTargets": [WORKER] });
    assert_eq!(with(&json!({ "rules": [rule] }), |_| {}), [(Error, "policy-allow-targets")]);
}
