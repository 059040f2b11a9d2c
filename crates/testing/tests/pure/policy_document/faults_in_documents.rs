//! Documents that are refused.

use super::*;

/// Returns a document with every kind of fault at once.
fn faulty_document() -> Value {
    json!({
        "defaults": {},
        "default": {
            "target": "nowhere",
            "action": "retry",
            "jitter": 1.5,
            "retries": 3,
            "allowTargets": ["", 3],
            "subscription": TOPIC,
            "deliveryPolicy": {
                "healthyRetryPolicy": { "minDelayTarget": 0, "maxDelayTarget": 1_209_601, "numRetries": 100_016,
                    "numNoDelayRetries": -1, "numMinDelayRetries": 1.5, "numMaxDelayRetries": "2",
                    "backoffFunction": "fibonacci", "backOff": 1 },
                "throttlePolicy": { "maxReceivesPerSecond": 0, "burst": 5 },
                "requestPolicy": { "headerContentType": 7 },
                "sicklyRetryPolicy": {},
            },
        },
        "rules": [
            { "name": "same", "match": { "topicARN": ["x"] }, "deliveryPolicy": "forever" },
            { "name": "same", "match": { "topicArn": "not-a-list" }, "retryPermanent": "yes" },
            { "name": "", "match": {}, "deliveryPolicy": { "http": {
                "defaultHealthyRetryPolicy": { "minDelayTarget": 30, "maxDelayTarget": 20 },
                "healthyRetryPolicy": {}, "disableSubscriptionOverrides": 1 } } },
            { "match": [], "deliveryPolicy": { "healthyRetryPolicy": { "numRetries": 5, "numNoDelayRetries": 2,
                "numMinDelayRetries": 2, "numMaxDelayRetries": 2 } } },
            "archive everything",
        ],
    })
}

#[test]
fn a_bad_value_is_shown_where_it_is_short() {
    let longest = "x".repeat(40);
    for (value, shown) in [
        (json!(-1), "-1".to_owned()),
        (json!(true), "true".to_owned()),
        (json!(longest), format!("{longest:?}")),
        (json!(longest.clone() + "x"), "a string".to_owned()),
        (json!([7]), "a list".to_owned()),
        (json!({ "n": 7 }), "an object".to_owned()),
    ] {
        let healthy = json!({ "healthyRetryPolicy": { "numRetries": value } });
        let document = json!({ "default": { "deliveryPolicy": healthy } });
        let BadPolicy(faults) = Policy::parse(&document.to_string()).unwrap_err();
        let problems: Vec<_> = faults.into_iter().map(|fault| fault.problem).collect();
        assert_eq!(problems, [format!("must be a whole number from 0 to 100015, not {shown}")]);
    }
}

#[test]
fn every_fault_of_a_document_is_told_at_once_with_its_path() {
    let known_rule = "action, allowTargets, deliveryPolicy, fifo, jitter, match, name, recordDelimiter, \
        retryPermanent, subscription, target, verifySignature";
    let known_default = known_rule.replace("match, name, ", "");
    let delivery = "default.deliveryPolicy.healthyRetryPolicy";
    let expected = [
        ("default.action", "must be one of redrive, archive, hold, not \"retry\""),
        ("default.allowTargets", "must hold only ARNs and http or https URLs without a query"),
        (
            "default.deliveryPolicy.healthyRetryPolicy.backOff",
            "unknown key; known here: backoffFunction, \
            maxDelayTarget, minDelayTarget, numMaxDelayRetries, numMinDelayRetries, numNoDelayRetries, numRetries",
        ),
        (
            "default.deliveryPolicy.healthyRetryPolicy.backoffFunction",
            "must be one of linear, arithmetic, geometric, exponential, not \"fibonacci\"",
        ),
        (&format!("{delivery}.maxDelayTarget"), "must be a whole number from 1 to 1209600, not 1209601"),
        (&format!("{delivery}.minDelayTarget"), "must be a whole number from 1 to 1209600, not 0"),
        (&format!("{delivery}.numMaxDelayRetries"), "must be a whole number from 0 to 100015, not \"2\""),
        (&format!("{delivery}.numMinDelayRetries"), "must be a whole number from 0 to 100015, not 1.5"),
        (&format!("{delivery}.numNoDelayRetries"), "must be a whole number from 0 to 100015, not -1"),
        (&format!("{delivery}.numRetries"), "must be a whole number from 0 to 100015, not 100016"),
        ("default.deliveryPolicy.requestPolicy.headerContentType", "must be a string, not a number"),
        (
            "default.deliveryPolicy.sicklyRetryPolicy",
            "must be null or left out: SNS no longer has such a policy",
        ),
        ("default.deliveryPolicy.throttlePolicy.burst", "unknown key; known here: maxReceivesPerSecond"),
        (
            "default.deliveryPolicy.throttlePolicy.maxReceivesPerSecond",
            "must be a whole number from 1 to 4294967295, not 0",
        ),
        ("default.jitter", "must be a number from 0 to 1, not 1.5"),
        ("default.retries", &format!("unknown key; known here: {known_default}")),
        (
            "default.subscription",
            "must be the ARN of a subscription, or discover, not \"arn:aws:sns:eu-central-1:123456789012:payments\"",
        ),
        (
            "default.target",
            "must be origin, subscription, source, topic, or the ARN of a topic, queue or function, not \"nowhere\"",
        ),
        ("defaults", "unknown key; known here: default, origins, rules"),
        (
            "rules[0].deliveryPolicy",
            "must be one of aws-managed, customer-managed, http-default, from-subscription, not \"forever\"",
        ),
        (
            "rules[0].match",
            "has no field \"topicARN\"; fields of a letter are origin, letterId, queueArn, \
            topicArn, subscriptionArn, subject, messageAttributes, message, retry, error",
        ),
        ("rules[1].match.topicArn", "must be a list of values, such as [\"not-a-list\"], not \"not-a-list\""),
        ("rules[1].name", "\"same\" is the name of another rule"),
        ("rules[1].retryPermanent", "must be true or false, not a string"),
        (
            "rules[2].deliveryPolicy.http.defaultHealthyRetryPolicy.minDelayTarget",
            "must not be above maxDelayTarget: 30 is above 20",
        ),
        ("rules[2].deliveryPolicy.http.disableSubscriptionOverrides", "must be true or false, not a number"),
        (
            "rules[2].deliveryPolicy.http.healthyRetryPolicy",
            "unknown key; known here: defaultHealthyRetryPolicy, \
            defaultRequestPolicy, defaultSicklyRetryPolicy, defaultThrottlePolicy, disableSubscriptionOverrides, \
            guaranteed",
        ),
        ("rules[2].match", "must be an object with at least one field"),
        ("rules[2].name", "must be 1 to 64 characters long and not \"default\""),
        (
            "rules[3].deliveryPolicy.healthyRetryPolicy.numRetries",
            "must hold the three counted phases: \
            numNoDelayRetries, numMinDelayRetries and numMaxDelayRetries add up to 6, which is above 5",
        ),
        ("rules[3].match", "must be an object with at least one field"),
        ("rules[3].name", "is missing: logs and the archive name the rule"),
        ("rules[4]", "must be an object, not a string"),
        ("rules[4].match", "is missing: a rule without a pattern would never apply"),
        ("rules[4].name", "is missing: logs and the archive name the rule"),
    ];
    let mut found = faults(&faulty_document());
    found.sort();
    for (found, (path, problem)) in found.iter().zip(expected) {
        assert_eq!(found.0, path);
        assert_eq!(found.1, problem);
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn origins_are_listed_by_queue_and_faults_have_their_path() {
    let parse = |origins: &Value| Policy::parse(&json!({ "origins": origins }).to_string());
    let policy =
        parse(&json!({ "*": ["eventbridge"], DLQ: ["lambda-async", "lambda-destination"] })).unwrap();
    let believed =
        |queue: &str| OriginClaim::ALL.map(|claim| policy.origins().list(&queue.parse().unwrap(), claim));
    assert_eq!(believed(DLQ), [true, true, true]);
    assert_eq!(believed("arn:aws:sqs:eu-central-1:123456789012:another"), [false, false, true]);
    assert_eq!(Policy::built_in().origins(), TrustedOrigins::none());

    let names = "must be a list of one or more of lambda-async, lambda-destination, eventbridge";
    let queue = "must be the ARN of a dead-letter queue, or * for every queue";
    for (origins, expected) in [
        (json!([]), "origins: must be an object that maps queue ARNs, or *, to lists of origins".to_owned()),
        (json!({ "*": "eventbridge" }), format!("origins.*: {names}")),
        (json!({ "*": [] }), format!("origins.*: {names}")),
        (json!({ "*": ["eventbridge", "sns"] }), format!("origins.*: {names}")),
        (json!({ "*": ["eventbridge", 1] }), format!("origins.*: {names}")),
        (json!({ "overrides": ["eventbridge"] }), format!("origins.overrides: {queue}")),
        (json!({ TOPIC: ["eventbridge"] }), format!("origins.{TOPIC}: {queue}")),
    ] {
        assert_eq!(parse(&origins).unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_fault_is_told_with_its_path_first() {
    let document = json!({ "default": { "jitter": 2 }, "rules": {} });
    let told = Policy::parse(&document.to_string()).unwrap_err().to_string();
    assert_eq!(
        told,
        "default.jitter: must be a number from 0 to 1, not 2; rules: must be a list, not an object"
    );
}

#[test]
fn each_of_these_documents_has_one_fault() {
    let healthy =
        |healthy: Value| json!({ "default": { "deliveryPolicy": { "healthyRetryPolicy": healthy } } });
    let rule = |rule: Value| json!({ "rules": [rule] });
    let sns = json!({ "origin": ["sns"] });
    let stream = "arn:aws:firehose:eu-central-1:123456789012:deliverystream/payments";
    for (document, path) in [
        (json!([]), ""),
        (json!("policy"), ""),
        (json!({ "default": [] }), "default"),
        (json!({ "default": { "name": "x" } }), "default.name"),
        (json!({ "default": { "match": sns } }), "default.match"),
        (json!({ "default": { "target": 3 } }), "default.target"),
        (json!({ "default": { "target": SUBSCRIPTION } }), "default.target"),
        (json!({ "default": { "target": stream } }), "default.target"),
        (json!({ "default": { "target": "discover" } }), "default.target"),
        (json!({ "default": { "target": "arn:aws:sqs:eu-central-1:123456789012" } }), "default.target"),
        (json!({ "default": { "target": "https://example.com" } }), "default.target"),
        (json!({ "default": { "jitter": "0.1" } }), "default.jitter"),
        (json!({ "default": { "jitter": -0.1 } }), "default.jitter"),
        (json!({ "default": { "allowTargets": TOPIC } }), "default.allowTargets"),
        (json!({ "default": { "subscription": "nobody" } }), "default.subscription"),
        (json!({ "default": { "deliveryPolicy": 5 } }), "default.deliveryPolicy"),
        (json!({ "default": { "deliveryPolicy": "from-topic" } }), "default.deliveryPolicy"),
        (json!({ "default": { "deliveryPolicy": { "http": 5 } } }), "default.deliveryPolicy.http"),
        (json!({ "default": { "verifySignature": "yes" } }), "default.verifySignature"),
        (json!({ "default": { "subscription": "Discover" } }), "default.subscription"),
        (json!({ "default": { "fifo": "sometimes" } }), "default.fifo"),
        (json!({ "default": { "recordDelimiter": "\n" } }), "default.recordDelimiter"),
        (
            healthy(json!({ "minDelayTarget": 21 })),
            "default.deliveryPolicy.healthyRetryPolicy.minDelayTarget",
        ),
        // The default of 20 s that replaces it would be above the other value.
        (
            healthy(json!({ "minDelayTarget": 0, "maxDelayTarget": 10 })),
            "default.deliveryPolicy.healthyRetryPolicy.minDelayTarget",
        ),
        (healthy(json!({ "numMaxDelayRetries": 4 })), "default.deliveryPolicy.healthyRetryPolicy.numRetries"),
        (healthy(json!({ "numRetries": 1e30 })), "default.deliveryPolicy.healthyRetryPolicy.numRetries"),
        (rule(json!({ "name": "default", "match": sns })), "rules[0].name"),
        (rule(json!({ "name": "ü".repeat(65), "match": sns })), "rules[0].name"),
        (rule(json!({ "name": 3, "match": sns })), "rules[0].name"),
        (rule(json!({ "name": "r", "match": "sns" })), "rules[0].match"),
        (rule(json!({ "name": "r", "match": { "origin": "sns" } })), "rules[0].match.origin"),
        (rule(json!({ "name": "r", "match": { "body": ["x"] } })), "rules[0].match"),
    ] {
        assert_eq!(the_only_fault(&document).0, path, "{document}");
    }
}

/// Returns the only fault of a pattern, as it is told.
fn told_of(pattern: &Value) -> String {
    let document = json!({ "rules": [{ "name": "r", "match": pattern }] });
    let Err(BadPolicy(faults)) = Policy::parse(&document.to_string()) else { panic!("taken: {pattern}") };
    assert_eq!(faults.len(), 1, "{faults:?}");
    faults[0].to_string().replace("rules[0].match", "match")
}

/// A hold that can match nothing lets everything go.
#[test]
fn a_pattern_that_can_match_nothing_is_refused_with_the_reason() {
    let queue = "arn:aws:sqs:eu-central-1:123456789012:payments-dlq";
    let origins = "sns, sqs, lambda-async, lambda-destination, eventbridge, eventbridge-bus, raw";
    for (pattern, expected) in [
        (json!({ "topicArn": { "suffix": [":payments"] } }), "match.topicArn: holds suffix where a list belongs: write [{\"suffix\": ...}]".to_owned()),
        (json!({ "retry": { "numeric": [">", 1] } }), "match.retry: holds numeric where a list belongs: write [{\"numeric\": ...}]".to_owned()),
        (json!({ "messageAttributes": { "tenant": { "prefix": ["g"] } } }), "match.messageAttributes.tenant: holds prefix where a list belongs: write [{\"prefix\": ...}], or \"name.prefix\" if that is the attribute's name".to_owned()),
        (json!({ "subject": { "text": ["x"] } }), "match.subject: has no fields, so \"text\" can match nothing: write a list of values".to_owned()),
        (json!({ "error": { "text": ["x"] } }), "match.error: has no field \"text\"; it has code and message".to_owned()),
        (json!({ "error": ["503"] }), "match.error: holds code and message, so a list can match nothing: ask for one of them".to_owned()),
        (json!({ "error": [{ "exists": false }] }), "match.error: holds code and message, so a list can match nothing: ask for one of them".to_owned()),
        (json!({ "messageAttributes": ["gold"] }), "match.messageAttributes: holds attributes by name, so a list can match nothing: ask for an attribute".to_owned()),
        (json!({ "messageAttributes": { "sns-redrive": [{ "exists": true }] } }), "match.messageAttributes: has no \"sns-redrive\": patterns do not see the mark of this software".to_owned()),
        (json!({ "topicArn": [5] }), "match.topicArn: is a text, so 5 can match nothing".to_owned()),
        (json!({ "topicArn": [null] }), "match.topicArn: is a text, so null can match nothing".to_owned()),
        (json!({ "subject": [true] }), "match.subject: is a text, so true can match nothing".to_owned()),
        (json!({ "letterId": [{ "numeric": [">", 1] }] }), "match.letterId: is a text, so numeric [\">\", 1] can match nothing".to_owned()),
        (json!({ "topicArn": ["payments"] }), "match.topicArn: is the ARN of a topic, so \"payments\" can match nothing: write {\"suffix\": \":payments\"} for a name".to_owned()),
        (json!({ "topicArn": [TOPIC, "payments"] }), "match.topicArn: is the ARN of a topic, so \"payments\" can match nothing: write {\"suffix\": \":payments\"} for a name".to_owned()),
        (json!({ "topicArn": [queue] }), format!("match.topicArn: is the ARN of a topic, so {queue:?} can match nothing")),
        (json!({ "topicArn": [SUBSCRIPTION] }), format!("match.topicArn: is the ARN of a topic, so {SUBSCRIPTION:?} can match nothing")),
        (json!({ "queueArn": ["payments-dlq"] }), "match.queueArn: is the ARN of a queue, so \"payments-dlq\" can match nothing: write {\"suffix\": \":payments-dlq\"} for a name".to_owned()),
        (json!({ "queueArn": [TOPIC] }), format!("match.queueArn: is the ARN of a queue, so {TOPIC:?} can match nothing")),
        (json!({ "subscriptionArn": [TOPIC] }), format!("match.subscriptionArn: is the ARN of a subscription, so {TOPIC:?} can match nothing")),
        (json!({ "topicArn": [{ "prefix": "payments" }] }), "match.topicArn: is the ARN of a topic, so prefix \"payments\" can match nothing".to_owned()),
        (json!({ "topicArn": [{ "prefix": "arn:aws:sqs:" }] }), "match.topicArn: is the ARN of a topic, so prefix \"arn:aws:sqs:\" can match nothing".to_owned()),
        (json!({ "topicArn": [{ "wildcard": "payments-*" }] }), "match.topicArn: is the ARN of a topic, so wildcard \"payments-*\" can match nothing".to_owned()),
        (json!({ "topicArn": [{ "equals-ignore-case": "payments" }] }), "match.topicArn: is the ARN of a topic, so equals-ignore-case \"payments\" can match nothing".to_owned()),
        (json!({ "topicArn": [{ "cidr": "10.0.0.0/8" }] }), "match.topicArn: is the ARN of a topic, so cidr \"10.0.0.0/8\" can match nothing".to_owned()),
        (json!({ "topicArn": [{ "anything-but": ["payments"] }] }), "match.topicArn: anything-but names what the field never is: it is the ARN of a topic, so \"payments\" can match nothing: write {\"suffix\": \":payments\"} for a name".to_owned()),
        (json!({ "origin": ["SNS"] }), format!("match.origin: is one of {origins}, so \"SNS\" can match nothing")),
        (json!({ "origin": [{ "prefix": "kinesis" }] }), format!("match.origin: is one of {origins}, so prefix \"kinesis\" can match nothing")),
        (json!({ "origin": [{ "anything-but": "sms" }] }), format!("match.origin: anything-but names what the field never is: it is one of {origins}, so \"sms\" can match nothing")),
        (json!({ "origin": [{ "exists": false }] }), "match.origin: is in every letter, so exists false can match nothing".to_owned()),
        (json!({ "queueArn": [{ "exists": false }] }), "match.queueArn: is in every letter, so exists false can match nothing".to_owned()),
        (json!({ "retry": ["3"] }), "match.retry: is a whole number, so \"3\" can match nothing".to_owned()),
        (json!({ "retry": [-1] }), "match.retry: is a whole number, so -1 can match nothing".to_owned()),
        (json!({ "retry": [1.5] }), "match.retry: is a whole number, so 1.5 can match nothing".to_owned()),
        (json!({ "retry": [{ "prefix": "1" }] }), "match.retry: is a whole number, so prefix \"1\" can match nothing".to_owned()),
        (json!({ "retry": [{ "numeric": ["<", 0] }] }), "match.retry: is a whole number, so numeric [\"<\", 0] can match nothing".to_owned()),
        (json!({ "$or": [{ "topicArn": ["payments"] }, { "retry": [1] }] }), "match.$or[0].topicArn: is the ARN of a topic, so \"payments\" can match nothing: write {\"suffix\": \":payments\"} for a name".to_owned()),
    ] {
        assert_eq!(told_of(&pattern), expected, "{pattern}");
    }
}

/// What they ask for can be.
#[test]
fn a_pattern_that_can_match_something_is_taken() {
    for pattern in [
        json!({ "topicArn": [{ "prefix": "a" }, { "prefix": "arn:aws" }, { "prefix": "arn:aws-cn:sns:" }, { "prefix": "arn:aws:s" }] }),
        json!({ "topicArn": [{ "suffix": ":payments" }, { "wildcard": "*:payments" }, { "wildcard": "arn:*:payments" }, { "prefix": "" }] }),
        json!({ "topicArn": [{ "equals-ignore-case": TOPIC.to_uppercase() }, { "wildcard": TOPIC }, { "exactly": TOPIC }] }),
        json!({ "topicArn": [{ "anything-but": { "suffix": [":payments"] } }, { "exists": false }] }),
        json!({ "origin": [{ "suffix": "-bus" }, { "equals-ignore-case": "SNS" }, { "anything-but": ["raw", "sqs"] }] }),
        json!({ "retry": [0, { "numeric": [">", 0] }, { "numeric": ["<=", 0] }, { "numeric": [">", 2.5, "<", 3.5] }, { "anything-but": 3 }] }),
        json!({ "subject": [{ "exists": false }, { "cidr": "10.0.0.0/8" }], "letterId": ["l"] }),
        json!({ "messageAttributes": { "prefix": ["x"], "tenant": [1, null, true, { "exists": false }] } }),
        json!({ "message": { "prefix": ["x"], "state": { "numeric": [">", 5] } } }),
        json!({ "message": [{ "exists": true }] }),
    ] {
        parsed(&json!({ "rules": [{ "name": "r", "match": pattern }] }));
    }
}

/// Patterns that `EventBridge` would refuse must not be taken for something else, since a rule can archive. An empty
/// list would match every value, and so would an empty object: a rule that names no topic by mistake must not archive
/// the letters of all topics.
#[test]
fn patterns_that_mean_nothing_are_refused() {
    for (pattern, expected) in [
        (
            json!({ "subject": [{ "prefixes": "s" }] }),
            "match.subject: prefixes is no operator; operators are prefix, suffix, equals-ignore-case, wildcard, anything-but, numeric, exists, cidr, exactly",
        ),
        (
            json!({ "subject": [{ "regexp": "s.*" }] }),
            "match.subject: regexp is no operator; operators are prefix, suffix, equals-ignore-case, wildcard, anything-but, numeric, exists, cidr, exactly",
        ),
        (json!({ "origin": [{ "prefix": 3 }] }), "match.origin: prefix must be a text, not 3"),
        (
            json!({ "origin": [{ "exists": "yes" }] }),
            "match.origin: exists must be true or false, not \"yes\"",
        ),
        (
            json!({ "origin": [{}] }),
            "match.origin: holds an object in a list that is not exactly one operator, such as {\"prefix\": \"overrides\"}",
        ),
        (
            json!({ "origin": [{ "prefix": "s", "suffix": "x" }] }),
            "match.origin: holds an object in a list that is not exactly one operator, such as {\"prefix\": \"overrides\"}",
        ),
        (
            json!({ "retry": [{ "numeric": [">", "x"] }] }),
            "match.retry: numeric must be one of =, <, <=, >, >= and a number, or > or >= and a number, then < or <= and a number",
        ),
        (
            json!({ "retry": [{ "numeric": [] }] }),
            "match.retry: numeric must be one of =, <, <=, >, >= and a number, or > or >= and a number, then < or <= and a number",
        ),
        (
            json!({ "origin": [{ "anything-but": [] }] }),
            "match.origin: anything-but must be a text, a number, or a list of either, without mixing them",
        ),
        (
            json!({ "message": { "$or": [{ "a": ["sns"] }] } }),
            "match.message.$or: must be a list of two objects or more",
        ),
        (
            json!({ "message": { "a": ["x"], "$or": [{ "a": ["y"] }, { "b": ["y"] }] } }),
            "match.message.a: is asked for twice, by a field and by an alternative of $or beside it",
        ),
        (
            json!({ "message": { "a.b": ["x"], "a": { "b": ["y"] } } }),
            "match.message.a.b: stands there twice",
        ),
        (json!({ "origin": ["sns"], "topicArn": [] }), "match.topicArn: holds an empty list"),
        (json!({ "origin": ["sns"], "message": {} }), "match.message: holds an empty object"),
        (json!({ "message": { "override": {} } }), "match.message.override: holds an empty object"),
        (json!({ "origin": [["sns"]] }), "match.origin: holds a list in a list"),
        (
            json!({ "message": { "override": 5 } }),
            "match.message.override: must be a list of values, such as [5], not 5",
        ),
    ] {
        assert_eq!(told_of(&pattern), expected, "{pattern}");
    }
    let two = |name: String| json!([{ &*name: ["x"] }, { format!("{name}-"): ["x"] }]);
    let choices: Vec<_> =
        (0..10).map(|n| json!({ format!("f{n}"): { "$or": two(format!("a{n}")) } })).collect();
    let many: Value = choices.iter().flat_map(|one| one.as_object().unwrap().clone()).collect();
    assert_eq!(
        told_of(&json!({ "message": many })),
        "match: has more than 1000 combinations of its alternatives of $or"
    );
}

#[test]
fn the_values_that_change_nothing_are_taken() {
    let rule = default_of(&json!({ "verifySignature": false, "fifo": "block", "target": null }));
    assert_eq!(rule, built_in_rule());
}

/// Else the last one would count, and rules would be gone without a word.
#[test]
fn a_key_that_is_there_twice_is_refused_with_its_path() {
    let rule = r#"{"name":"a","match":{"origin":["sns"]},"action":"hold"}"#;
    let nested = r#"{"default":{"deliveryPolicy":{"healthyRetryPolicy":{"numRetries":1,"numRetries":2}}}}"#;
    for (text, path) in [
        (format!(r#"{{"rules":[{rule}],"rules":[]}}"#), "rules"),
        (
            format!(r#"{{"rules":[{}]}}"#, rule.replace("\"action\"", "\"match\":{},\"action\"")),
            "rules[0].match",
        ),
        (nested.to_owned(), "default.deliveryPolicy.healthyRetryPolicy.numRetries"),
    ] {
        let faults = Policy::parse(&text).unwrap_err().to_string();
        assert_eq!(faults, format!("{path}: is there twice, and only one can count: remove the other"));
    }
}

#[test]
fn a_document_after_a_byte_order_mark_is_read() {
    assert_eq!(Policy::parse("\u{feff}{\"default\":{}}").unwrap().default_rule(), &built_in_rule());
}

#[test]
fn a_comment_is_called_by_its_name() {
    let faults = Policy::parse("{\n  // nothing\n  \"default\": {}\n}").unwrap_err().to_string();
    assert_eq!(faults, "not JSON: a comment at line 2 column 3. Remove it: JSON has none");
}

#[test]
fn text_that_is_not_json_is_one_fault() {
    for text in ["", "{", "target: origin", "{\"default\": {}} x"] {
        let BadPolicy(faults) = Policy::parse(text).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].path.is_empty() && faults[0].problem.starts_with("not JSON: "), "{faults:?}");
    }
}

#[test]
fn no_document_is_too_strange_to_be_read() {
    let documents = (policy_like(), policy_like(), any::<bool>());
    let letter = letter(&record(&envelope("hello", &json!({}))));
    holds(2_000, &documents, |(default, other, as_pattern)| {
        let document = if as_pattern {
            json!({ "default": {}, "rules": [{ "name": "r", "match": { "message": other } }] })
        } else {
            json!({ "default": default, "rules": [other] })
        };
        match Policy::parse(&document.to_string()) {
            Ok(policy) => {
                let _ = policy.decide(&letter, &LetterFacts::default(), at(NOW));
            }
            Err(BadPolicy(faults)) => prop_assert!(!faults.is_empty()),
        }
        Ok(())
    });
}

#[test]
fn no_text_is_too_strange_to_be_read() {
    holds(1_000, &any::<String>(), |text| {
        prop_assert!(Policy::parse(&text).is_err());
        Ok(())
    });
    for brackets in ["[", "{\"default\":", "{\"rules\":[{\"match\":{\"message\":"] {
        assert!(Policy::parse(&brackets.repeat(100_000)).is_err());
    }
}
