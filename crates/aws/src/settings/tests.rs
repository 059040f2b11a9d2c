//! Tests of the values that the function's environment may have.

use super::*;

fn read(pairs: &[(&str, &str)]) -> Result<Settings, String> {
    let variable =
        |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    Settings::read(variable).map_err(|bad| bad.to_string())
}

#[test]
fn an_archive_is_all_that_must_be_set() {
    let settings = read(&[("ARCHIVE", "s3://dead-letters/payments/")]).unwrap();
    assert_eq!(settings.archive, ArchiveAt::S3 { bucket: "dead-letters".into(), prefix: "payments".into() });
    assert_eq!(settings.mode, OperatingMode::Active);
    assert_eq!(settings.metrics_namespace, "SnsRedrive");
    assert_eq!(settings.queue_metrics, QueueMetrics::Essential);
    assert_eq!((settings.max_concurrency, settings.allow_loopback_http), (1, false));
    assert_eq!(settings.requeue, None);
}

#[test]
fn overrides_are_beside_the_archive_unless_another_place_is_named() {
    let control = |archive: &str, control: &str| {
        let settings = read(&[("ARCHIVE", archive), ("CONTROL", control)])?;
        Ok::<_, String>(settings.control.map(|at| format!("{}/{}", at.bucket, at.prefix)))
    };
    let queue = "arn:aws:sqs:eu-central-1:123456789012:archive";
    for (archive, given, expected) in [
        ("s3://letters/dead/", "", Some("letters/dead-control")),
        ("s3://letters/dead", "s3://letters/overrides/", Some("letters/overrides")),
        ("s3://letters/dead", "s3://payments", Some("payments/")),
        ("s3://letters/dead", "s3://letters/deadly", Some("letters/deadly")),
        ("s3://letters/dead", "off", None),
        ("s3://letters", "", None),
        (queue, "", None),
        (queue, "s3://letters", Some("letters/")),
    ] {
        assert_eq!(control(archive, given), Ok(expected.map(str::to_owned)), "{archive} {given}");
    }
    for (archive, given) in [
        ("s3://letters/dead", "s3://letters/dead"),
        ("s3://letters/dead", "s3://letters/dead/overrides"),
        ("s3://letters/dead/a", "s3://letters/dead"),
        ("s3://letters/dead", "s3://letters"),
        ("s3://letters", "s3://letters/overrides"),
    ] {
        let fault = control(archive, given).unwrap_err();
        assert!(fault.contains("must be neither inside ARCHIVE nor around it"), "{fault}");
    }
    let fault = control(queue, "letters").unwrap_err();
    assert_eq!(fault, "bad settings: CONTROL: must be s3://bucket/prefix or off, not \"letters\"");
    let fault = read(&[("ARCHIVE", queue), ("WAITING_LIST", "no")]).unwrap_err();
    assert_eq!(fault, "bad settings: WAITING_LIST: must be on or off, not \"no\"");
}

#[test]
fn a_url_in_a_wrong_place_is_not_quoted_whole() {
    for name in ["ARCHIVE", "CONTROL", "REQUEUE_ARN", "NOTICE_TOPIC_ARN", "REDRIVE_FUNCTION"] {
        for url in ["https://hooks.example.com/S3CR3T?S3CR3T", "https://user:S3CR3T@hooks.example.com/"] {
            let fault = read(&[(name, url), ("ARCHIVE", "s3://bucket/dead")]).unwrap_err();
            assert!(fault.contains(name) && fault.contains("https://hooks.example.com#"), "{fault}");
            assert!(!fault.contains("S3CR3T"), "{fault}");
        }
    }
}

#[test]
fn no_fault_shows_more_of_a_url_than_its_name() {
    const URL: &str = "https://hooks.example.com/S3CR3T?S3CR3T";
    let fault = |name: &str, value: &str| {
        let fault = read(&[(name, value), ("ARCHIVE", "s3://bucket/dead")]).unwrap_err();
        assert!(fault.contains(name) && fault.contains("https://hooks.example.com#"), "{fault}");
        assert!(!fault.contains("S3CR3T"), "{fault}");
    };
    for key in ["target", "subscription", "action", "fifo", "deliveryPolicy"] {
        fault("REDRIVE_POLICY", &format!(r#"{{"default": {{"{key}": "{URL}"}}}}"#));
    }
    for policy in [
        format!(r#"{{"default": {{"{URL}": 1}}}}"#),
        format!(r#"{{"origins": {{"{URL}": []}}}}"#),
        format!(
            r#"{{"default": {{"deliveryPolicy": {{"requestPolicy": {{"headerContentType": "{URL}"}}}}}}}}"#
        ),
        format!(r#"{{"rules": [{{"name": "a", "match": {{"topicArn": ["{URL}"]}}}}]}}"#),
    ] {
        fault("REDRIVE_POLICY", &policy);
    }
    // One URL has one name, so that it can be looked for.
    let policy = format!(r#"{{"default": {{"{URL}": 1}}}}"#);
    let told = read(&[("REDRIVE_POLICY", &policy), ("ARCHIVE", "s3://bucket/dead")]).unwrap_err();
    let name = redrive_core::endpoint::without_urls(URL);
    assert!(told.contains(&format!("default.{name}: ")), "{told} does not have {name}");
    let numbers = ["MAX_CONCURRENCY", "IN_FLIGHT_LIMIT", "MAX_HIDE_SECONDS"];
    let words = [
        "WAITING_LIST",
        "SCHEDULE_FROM",
        "REDRIVE_MODE",
        "HTTP_TARGETS",
        "ALLOW_LOOPBACK_HTTP",
        "QUEUE_METRICS",
    ];
    for name in [&numbers[..], &words[..], &["REDRIVE_POLICY_FILE", "METRICS_NAMESPACE"]].concat() {
        fault(name, URL);
    }
}

#[test]
fn web_servers_are_reached_as_the_setting_says() {
    for (text, expected) in [
        ("", HttpTargets::On),
        ("on", HttpTargets::On),
        ("private", HttpTargets::Private),
        ("off", HttpTargets::Off),
    ] {
        let settings = read(&[("ARCHIVE", "s3://bucket"), ("HTTP_TARGETS", text)]).unwrap();
        assert_eq!(settings.http_targets, expected, "{text:?}");
    }
}

#[test]
fn an_archive_may_not_be_the_requeue() {
    let arn = "arn:aws:sqs:eu-central-1:123456789012:requeue";
    let faults = read(&[("ARCHIVE", arn), ("REQUEUE_ARN", arn)]).unwrap_err();
    assert_eq!(
        faults,
        "bad settings: ARCHIVE: must not be the queue of REQUEUE_ARN, from which the function takes all letters"
    );
}

#[test]
fn a_requeue_may_not_be_a_target_and_must_fit_the_rules() {
    let requeue = |name: &str| format!("arn:aws:sqs:eu-central-1:123456789012:{name}");
    let faults = |policy: &str, arn: &str| {
        let given = [("ARCHIVE", "s3://bucket"), ("REDRIVE_POLICY", policy), ("REQUEUE_ARN", arn)];
        read(&given).err()
    };
    let to_it = format!(r#"{{"default": {{"target": "{}"}}}}"#, requeue("r"));
    let expected = "bad settings: REQUEUE_ARN: must not be the target of rule \"default\", because the function \
                    takes all letters from it";
    assert_eq!(faults(&to_it, &requeue("r")).as_deref(), Some(expected));
    assert_eq!(faults(&to_it, &requeue("other")), None);

    let aside = r#"{"rules": [{"name": "a", "match": {"origin": ["sns"]}, "fifo": "step-aside"}]}"#;
    let expected =
        "bad settings: REQUEUE_ARN: must be a FIFO queue, since rule \"a\" has \"fifo\": \"step-aside\"";
    for arn in [String::new(), requeue("r")] {
        assert_eq!(faults(aside, &arn).as_deref(), Some(expected));
    }
    assert_eq!(faults(aside, &requeue("r.fifo")), None);
}

#[test]
fn an_archive_may_be_a_queue() {
    let arn = "arn:aws:sqs:eu-central-1:123456789012:archive";
    assert_eq!(read(&[("ARCHIVE", arn)]).unwrap().archive, ArchiveAt::Queue(arn.parse().unwrap()));
}

#[test]
fn notices_go_to_a_topic_only() {
    let arn = |service: &str| format!("arn:aws:{service}:eu-central-1:123456789012:notices");
    let read = |text: &str| read(&[("ARCHIVE", "s3://bucket"), ("NOTICE_TOPIC_ARN", text)]);
    assert_eq!(read(&arn("sns")).unwrap().notice_topic, arn("sns").parse().ok());
    assert_eq!(read("").unwrap().notice_topic, None);
    for text in [arn("sqs"), arn("sns") + ":0a1b", "notices".to_owned()] {
        let fault = format!("must be the ARN of a standard topic, not {text:?}");
        assert_eq!(read(&text).unwrap_err(), format!("bad settings: NOTICE_TOPIC_ARN: {fault}"));
    }
}

#[test]
fn schedules_begin_at_a_time_with_its_offset() {
    let read = |text: &str| {
        let settings = read(&[("ARCHIVE", "s3://bucket"), ("SCHEDULE_FROM", text)])?;
        Ok::<_, String>(settings.schedule_from.map(|from| from.to_string()))
    };
    for (text, expected) in [
        ("", None),
        ("2026-11-01T12:00:00Z", Some("2026-11-01T12:00:00Z")),
        ("2026-11-01T12:00:00.5+01:00", Some("2026-11-01T11:00:00.5Z")),
    ] {
        assert_eq!(read(text), Ok(expected.map(str::to_owned)), "{text}");
    }
    for text in ["2026-11-01", "2026-11-01T12:00:00", "1793534400", "2026-11-01T12:00:00Z[UTC]", "yesterday"]
    {
        let fault =
            format!("must be a time of RFC 3339 with its offset, such as 2026-11-01T12:00:00Z, not {text:?}");
        assert_eq!(read(text), Err(format!("bad settings: SCHEDULE_FROM: {fault}")));
    }
}

#[test]
fn the_function_of_replays_has_a_name_or_an_arn_and_the_only_policy() {
    let read = |text: &str, more: &[(&str, &str)]| {
        let settings = read(&[&[("ARCHIVE", "s3://bucket"), ("REDRIVE_FUNCTION", text)], more].concat())?;
        Ok::<_, String>(settings.redrive_function)
    };
    let arn = "arn:aws:lambda:eu-central-1:123456789012:function:sns-redrive";
    for text in [arn, "sns-redrive"] {
        assert_eq!(read(text, &[]), Ok(Some(text.to_owned())));
    }
    assert_eq!(read("", &[("REDRIVE_POLICY", "{}")]), Ok(None));
    for text in ["arn:aws:sqs:eu-central-1:123456789012:sns-redrive", "a function", &"f".repeat(65)] {
        let fault = format!("must be the name or the ARN of a function, not {text:?}");
        assert_eq!(read(text, &[]), Err(format!("bad settings: REDRIVE_FUNCTION: {fault}")));
    }
    let fault = "must not be set together with REDRIVE_POLICY: the replay uses the policy of that function";
    let both = read(arn, &[("REDRIVE_POLICY", "{}")]);
    assert_eq!(both, Err(format!("bad settings: REDRIVE_FUNCTION: {fault}")));
}

#[test]
fn all_faults_are_reported_together_with_their_variables() {
    let faults = read(&[
        ("REDRIVE_POLICY", r#"{"default": {"jitter": 2}, "rulse": []}"#),
        ("ARCHIVE", "s3://B"),
        ("REQUEUE_ARN", "requeue"),
        ("REDRIVE_MODE", "dry"),
        ("METRICS_NAMESPACE", "AWS/SQS"),
        ("QUEUE_METRICS", "none"),
        ("NOTICE_TOPIC_ARN", "arn:aws:sns:eu-central-1:123456789012:notices.fifo"),
        ("MAX_CONCURRENCY", "0"),
        ("HTTP_TARGETS", "false"),
        ("ALLOW_LOOPBACK_HTTP", "yes"),
        ("IN_FLIGHT_LIMIT", "9"),
        ("MAX_HIDE_SECONDS", "43200"),
    ])
    .unwrap_err();
    assert_eq!(
        faults,
        "bad settings: \
         REDRIVE_POLICY: default.jitter: must be a number from 0 to 1, not 2; \
         REDRIVE_POLICY: rulse: unknown key; known here: default, origins, rules; \
         ARCHIVE: \"B\" is not a bucket name, which is 3 to 63 of a-z, 0-9, dot and hyphen; \
         REQUEUE_ARN: must be the ARN of a queue, not \"requeue\"; \
         REDRIVE_MODE: must be active or observe, not \"dry\"; \
         METRICS_NAMESPACE: must be at most 255 letters, digits, spaces and . _ - / # : with something else than spaces, \
         and without AWS/ or : at the beginning, \
         not \"AWS/SQS\"; \
         QUEUE_METRICS: must be essential or all, not \"none\"; \
         NOTICE_TOPIC_ARN: must be the ARN of a standard topic, \
         not \"arn:aws:sns:eu-central-1:123456789012:notices.fifo\"; \
         MAX_CONCURRENCY: must be a whole number from 1 to 1000, not \"0\"; \
         HTTP_TARGETS: must be on, off or private, not \"false\"; \
         ALLOW_LOOPBACK_HTTP: must be true or false, not \"yes\"; \
         IN_FLIGHT_LIMIT: must be a whole number from 10 to 10000000, not \"9\"; \
         MAX_HIDE_SECONDS: must be a whole number from 1 to 41400, not \"43200\""
    );
}

#[test]
fn a_missing_archive_and_two_policies_are_faults() {
    let faults = read(&[("REDRIVE_POLICY", "{}"), ("REDRIVE_POLICY_FILE", "policy.json")]).unwrap_err();
    assert_eq!(
        faults,
        "bad settings: REDRIVE_POLICY_FILE: must not be set together with REDRIVE_POLICY; \
         ARCHIVE: is missing: set it to s3://bucket/prefix or the ARN of a queue"
    );
}

#[test]
fn a_policy_in_s3_is_named_by_bucket_and_key_and_excludes_the_others() {
    let at = |uri: &str| read(&[("ARCHIVE", "s3://bucket"), ("REDRIVE_POLICY_URI", uri)]);
    let named = at("s3://policies/payments/policy.json").unwrap().policy_at.unwrap();
    assert_eq!((named.bucket.as_str(), named.key.as_str()), ("policies", "payments/policy.json"));
    for wrong in ["s3://policies", "s3://policies/", "s3://No/key", "https://policies/key", "policy.json"] {
        let faults = at(wrong).unwrap_err();
        assert!(faults.starts_with("bad settings: REDRIVE_POLICY_URI: must be s3://bucket/key"), "{faults}");
    }
    for other in ["REDRIVE_POLICY", "REDRIVE_POLICY_FILE"] {
        let both = [("ARCHIVE", "s3://bucket"), ("REDRIVE_POLICY_URI", "s3://policies/key"), (other, "{}")];
        let faults = read(&both).unwrap_err();
        assert_eq!(
            faults,
            format!("bad settings: REDRIVE_POLICY_URI: must not be set together with {other}")
        );
    }
}

#[test]
fn a_policy_that_is_read_later_must_fit_the_other_settings_too() {
    let requeue = "arn:aws:sqs:eu-central-1:123456789012:payments-requeue";
    let mut settings = read(&[
        ("ARCHIVE", "s3://bucket"),
        ("REQUEUE_ARN", requeue),
        ("REDRIVE_POLICY_URI", "s3://policies/key"),
    ])
    .unwrap();
    let policy =
        |target: &str| Policy::parse(&format!(r#"{{"default": {{"target": "{target}"}}}}"#)).unwrap();
    let faults = settings.take_policy(policy(requeue)).unwrap_err().to_string();
    assert!(faults.contains("must not be the target of rule \"default\""), "{faults}");
    assert!(settings.policy_at.is_some(), "nothing has changed");
    settings.take_policy(policy("topic")).unwrap();
    assert_eq!(
        (settings.policy.default_rule().target.clone(), settings.policy_at),
        (TargetSpec::Topic, None)
    );
}

#[test]
fn a_policy_file_is_read_and_a_missing_one_is_named() {
    let file = std::env::temp_dir().join(format!("sns-redrive-policy-{}.json", std::process::id()));
    std::fs::write(&file, r#"{"default": {"action": "hold"}}"#).unwrap();
    let path = file.to_str().unwrap();
    let read_it = read(&[("ARCHIVE", "s3://bucket"), ("REDRIVE_POLICY_FILE", path)]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(
        read_it.unwrap().policy.all_rules().next().unwrap().action,
        redrive_core::policy::RuleAction::Hold
    );

    let faults = read(&[("ARCHIVE", "s3://bucket"), ("REDRIVE_POLICY_FILE", path)]).unwrap_err();
    assert!(faults.starts_with("bad settings: REDRIVE_POLICY_FILE: cannot read"), "{faults}");
}

#[test]
fn a_namespace_of_metrics_is_one_that_cloudwatch_takes() {
    for (namespace, is_good) in
        [("my app", true), ("a:b#c/d", true), (":a", false), ("   ", false), ("a,b", false), ("AWS/x", false)]
    {
        let read = read(&[("ARCHIVE", "s3://bucket"), ("METRICS_NAMESPACE", namespace)]);
        assert_eq!(read.is_ok(), is_good, "{namespace:?}");
    }
}
