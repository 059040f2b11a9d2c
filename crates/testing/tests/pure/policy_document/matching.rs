//! The rule that a letter falls under.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::*;

/// Returns the name of the rule that matches. Each pattern is the rule of its number.
fn rule_of(patterns: &[Value], letter: &Letter) -> String {
    let rules: Vec<_> = (0..)
        .zip(patterns)
        .map(|(n, pattern)| json!({ "name": format!("rule {n}"), "match": pattern }))
        .collect();
    parsed(&json!({ "rules": rules })).rule_for(letter).name.clone()
}

fn matches(pattern: &Value, letter: &Letter) -> bool {
    rule_of(std::slice::from_ref(pattern), letter) == "rule 0"
}

#[test]
fn the_first_rule_that_matches_wins() {
    let letter = letter(&record(&envelope("hello", &json!({}))));
    let (yes, no) = (json!({ "origin": ["sns"] }), json!({ "origin": ["raw"] }));
    let also = json!({ "topicArn": [{ "suffix": ":payments" }] });
    for (patterns, expected) in [
        (vec![no.clone(), yes.clone(), also.clone()], "rule 1"),
        (vec![no.clone(), also.clone(), yes.clone()], "rule 1"),
        (vec![yes.clone(), yes.clone()], "rule 0"),
        (vec![no.clone(), no.clone()], "default"),
        (vec![], "default"),
    ] {
        assert_eq!(rule_of(&patterns, &letter), expected, "{patterns:?}");
    }
    let many: Vec<_> = (0..30).map(|n| if n < 7 { no.clone() } else { yes.clone() }).collect();
    assert_eq!(rule_of(&many, &letter), "rule 7", "the seventh, not the tenth by the alphabet");
}

/// Returns a letter that has every field of the view.
fn full_letter() -> Letter {
    let message = json!({ "event": "order-placed", "override": { "total": 49.9, "lines": [{ "sku": "a" }, { "sku": "b" }] },
        "urgent": true, "coupon": null });
    let message = message.to_string();
    let mark = made_for(&message, redrive_testing::mark(4, "letter-1", 1_700_000_000_000)).to_string();
    let attributes = json!({
        "tenant": { "Type": "String", "Value": "gold" },
        "priority": { "Type": "Number", "Value": "3.0" },
        "tags": { "Type": "String.Array", "Value": "[\"new\", 7, true, null]" },
        "checksum": { "Type": "Binary", "Value": "AAEC" },
        "sns-redrive": { "Type": "String", "Value": mark },
    });
    let mut body: Value = serde_json::from_str(&envelope(&message, &attributes)).unwrap();
    body["Subject"] = "Order placed".into();
    letter(&record(&body.to_string()))
}

#[test]
fn patterns_reach_every_field_with_every_operator() {
    let letter = full_letter();
    for pattern in [
        json!({ "origin": ["raw", "sns"] }),
        json!({ "origin": [{ "equals-ignore-case": "SNS" }] }),
        json!({ "letterId": ["letter-1"] }),
        json!({ "queueArn": [{ "suffix": ":payments-dlq" }] }),
        json!({ "topicArn": [TOPIC] }),
        json!({ "topicArn": [{ "prefix": "arn:aws:sns:eu-" }] }),
        json!({ "topicArn": [{ "wildcard": "arn:*:payments" }] }),
        json!({ "topicArn": [{ "anything-but": ["arn:aws:sns:eu-central-1:123456789012:audit"] }] }),
        json!({ "subscriptionArn": [SUBSCRIPTION] }),
        json!({ "subject": [{ "prefix": "Order" }] }),
        json!({ "subject": [{ "exists": true }] }),
        json!({ "messageAttributes": { "tenant": ["gold"] } }),
        json!({ "messageAttributes": { "priority": [3] } }),
        json!({ "messageAttributes": { "priority": [{ "numeric": [">", 2.5, "<=", 3] }] } }),
        json!({ "messageAttributes": { "tags": ["new"] } }),
        json!({ "messageAttributes": { "tags": [7] } }),
        json!({ "messageAttributes": { "tags": [true] } }),
        json!({ "messageAttributes": { "tags": [null] } }),
        json!({ "messageAttributes": { "region": [{ "exists": false }] } }),
        json!({ "messageAttributes": { "checksum": [{ "exists": false }] } }),
        json!({ "message": { "event": ["order-placed"] } }),
        json!({ "message": { "override": { "total": [{ "numeric": [">", 49, "<", 50] }] } } }),
        json!({ "message": { "override": { "lines": { "sku": ["b"] } } } }),
        json!({ "message": { "urgent": [true] } }),
        json!({ "message": { "coupon": [null] } }),
        json!({ "message": { "coupon": [{ "exists": true }] } }),
        json!({ "retry": [4] }),
        json!({ "retry": [{ "numeric": [">=", 4] }] }),
        json!({ "error": { "code": [{ "exists": false }] } }),
        json!({ "origin": ["sns"], "retry": [4], "message": { "urgent": [true] } }),
    ] {
        assert!(matches(&pattern, &letter), "{pattern}");
    }
    for pattern in [
        json!({ "origin": ["sqs"] }),
        json!({ "origin": [{ "anything-but": "sns" }] }),
        json!({ "letterId": ["letter-2"] }),
        json!({ "topicArn": [{ "suffix": ":override" }] }),
        json!({ "subject": [{ "exists": false }] }),
        json!({ "messageAttributes": { "tenant": ["silver"] } }),
        json!({ "messageAttributes": { "tenant": [{ "anything-but": ["gold", "silver"] }] } }),
        json!({ "messageAttributes": { "priority": ["3.0"] } }),
        json!({ "messageAttributes": { "priority": [{ "numeric": [">", 3] }] } }),
        json!({ "messageAttributes": { "tags": ["old"] } }),
        json!({ "messageAttributes": { "region": [{ "exists": true }] } }),
        json!({ "message": { "override": { "total": [{ "numeric": [">", 50] }] } } }),
        json!({ "message": { "event": [{ "exists": false }] } }),
        json!({ "retry": [5] }),
        json!({ "error": { "code": [{ "exists": true }] } }),
        json!({ "origin": ["sns"], "retry": [5] }),
    ] {
        assert!(!matches(&pattern, &letter), "{pattern}");
    }
}

/// The members of a JSON object as they are written: numbers keep their text.
type WrittenMembers = BTreeMap<String, Box<RawValue>>;

/// Returns a policy with a rule that archives the messages that match.
fn archiving(pattern: &str) -> Result<Policy, BadPolicy> {
    Policy::parse(&format!(
        r#"{{"rules":[{{"name":"r","action":"archive","match":{{"message":{pattern}}}}}]}}"#
    ))
}

/// Pairs of our own that show the facts of the sources: patterns over messages, each with messages that match and
/// others that do not, or with a part of the reason why it is refused.
#[test]
fn patterns_mean_what_aws_answered() {
    let sources: Vec<WrittenMembers> = serde_json::from_str(include_str!("pattern_facts.json")).unwrap();
    let (mut agree, mut deviate, mut wrong) = (0, 0, Vec::new());
    for written in &sources {
        for fact in serde_json::from_str::<Vec<WrittenMembers>>(written["facts"].get()).unwrap() {
            let (pairs, told) = disagreements(&fact);
            // AWS answers otherwise, for the reason that is written there.
            if fact.contains_key("deviates") {
                if told.len() < pairs {
                    wrong.push(format!("{} agrees, and is listed as a deviation", fact["pattern"]));
                }
                deviate += pairs;
            } else {
                agree += pairs;
                wrong.extend(told);
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {agree}:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!((agree, deviate), (371, 3), "docs/proof.md tells these numbers");
}

/// Returns the number of pairs of a fact, and those about which AWS answered otherwise.
fn disagreements(fact: &WrittenMembers) -> (usize, Vec<String>) {
    let pattern = &fact["pattern"];
    let policy = archiving(pattern.get());
    let told = policy.as_ref().err().map(ToString::to_string).unwrap_or_default();
    if let Some(part) = fact.get("refused") {
        let part: String = serde_json::from_str(part.get()).unwrap();
        let is_refused = told.starts_with("rules[0].match.message") && told.contains(&part);
        let wrong = (!is_refused).then(|| format!("{pattern} is not refused for {part:?}: {told}"));
        return (1, wrong.into_iter().collect());
    }
    let (mut pairs, mut wrong) = (0, Vec::new());
    for (name, expected) in [("yes", true), ("no", false)] {
        let events = fact.get(name).map_or("[]", |events| events.get());
        for event in serde_json::from_str::<Vec<Box<RawValue>>>(events).unwrap() {
            pairs += 1;
            let letter = letter(&record(event.get()));
            let matches = policy.as_ref().map(|policy| policy.rule_for(&letter).name == "r");
            if matches.ok() != Some(expected) {
                wrong.push(format!("{pattern} {event} should be {expected} {told}"));
            }
        }
    }
    (pairs, wrong)
}

#[test]
fn errors_of_the_origin_can_be_matched() {
    let lambda = &sample("lambda-async.json")[0];
    assert!(matches(&json!({ "error": { "code": ["200"] } }), lambda));
    assert!(matches(&json!({ "error": { "message": [{ "wildcard": "*refused*" }] } }), lambda));
    let eventbridge = &sample("eventbridge.json")[0];
    assert!(matches(&json!({ "origin": ["eventbridge"], "error": { "code": ["THROTTLING"] } }), eventbridge));

    let mut wordless = record("{}");
    wordless["messageAttributes"]["RequestID"] = text_attribute("1");
    wordless["messageAttributes"]["ErrorCode"] = text_attribute("200");
    assert!(matches(&json!({ "error": { "message": [{ "exists": false }] } }), &letter(&wordless)));
}

#[test]
fn a_letter_without_an_sns_message_is_matched_by_its_body_and_native_attributes() {
    let raw = &sample("raw.json")[0];
    for pattern in [
        json!({ "origin": ["raw"], "topicArn": [{ "exists": false }], "subject": [{ "exists": false }] }),
        json!({ "message": { "orderId": ["o-1002"] } }),
        json!({ "messageAttributes": { "tenant": ["silver"], "priority": [1.5], "checksum": [{ "exists": false }] } }),
        json!({ "retry": [0] }),
    ] {
        assert!(matches(&pattern, raw), "{pattern}");
    }
    let plain = letter(&record("payments are late"));
    assert!(matches(&json!({ "message": ["payments are late"] }), &plain));
    assert!(matches(&json!({ "message": [{ "prefix": "payments" }] }), &plain));
}

/// Wherever the fields stand that are absent: an override that holds such letters must find them.
#[test]
fn several_fields_may_be_absent_and_so_may_those_behind_the_last() {
    let raw = &sample("raw.json")[0];
    let letter =
        letter(&record(&envelope("{}", &json!({ "tenant": { "Type": "String", "Value": "gold" } }))));
    let absent = json!([{ "exists": false }]);
    let attributes = |pattern: Value| json!({ "messageAttributes": pattern });
    for (pattern, letter) in [
        (json!({ "subject": absent, "topicArn": absent }), raw),
        (json!({ "error": { "code": absent }, "subject": absent, "topicArn": absent }), raw),
        (attributes(json!({ "tenant": [{ "exists": true }], "zone": absent })), &letter),
        (attributes(json!({ "area": absent, "tenant": ["gold"], "zone": absent })), &letter),
    ] {
        assert!(matches(&pattern, letter), "{pattern}");
    }
    for (pattern, letter) in [
        (json!({ "subject": absent, "topicArn": [{ "exists": true }] }), raw),
        (attributes(json!({ "tenant": absent, "zone": absent })), &letter),
        (attributes(json!({ "tenant": [{ "exists": true }], "zone": [{ "exists": true }] })), &letter),
    ] {
        assert!(!matches(&pattern, letter), "{pattern}");
    }
}

/// Each pattern is matched by itself.
#[test]
fn no_pattern_takes_a_text_as_another_does() {
    let patterns = [
        json!({ "message": { "a": [{ "equals-ignore-case": "ax" }], "n": { "x": [{ "exists": false }] } } }),
        json!({ "message": { "a": ["ax"] } }),
    ];
    let rule = |message: &str| rule_of(&patterns, &letter(&record(message)));
    assert_eq!(rule(r#"{"a":"AX","n":{"x":"ax"}}"#), "default");
    assert_eq!(rule(r#"{"a":"ax","n":{"x":"ax"}}"#), "rule 1");
    assert_eq!(rule(r#"{"a":"AX"}"#), "rule 0");
    // What the second names changes nothing for the first.
    let patterns =
        [json!({ "message": { "error": [{ "exists": false }] } }), json!({ "message": { "items": ["x"] } })];
    assert_eq!(rule_of(&patterns, &letter(&record(r#"{"items":[{"error":"boom"}]}"#))), "rule 0");
}

/// The rounded number would be that of another letter.
#[test]
fn numbers_after_a_byte_order_mark_keep_their_digits() {
    let document = r#"{"rules":[{"name":"r","match":{"message":{"id":[12345678901234567890123]}}}]}"#;
    let policy = Policy::parse(&format!("\u{feff}{document}")).unwrap();
    let rule = |id: &str| policy.rule_for(&letter(&record(&format!(r#"{{"id":{id}}}"#)))).name.clone();
    assert_eq!([rule("12345678901234567890123"), rule("12345678901234567890124")], ["r", "default"]);
}

/// Fields of a raw letter's view: the first is never there, the others are of its message.
const FIELDS: [&[&str]; 6] = [
    &["subject"],
    &["message", "a"],
    &["message", "b"],
    &["message", "n", "x"],
    &["message", "n", "y"],
    &["message", "z"],
];

/// The values of fields.
const VALUES: [&str; 5] = ["ax", "ay", "bx", "AX", ""];

/// What a pattern asks of a field.
#[derive(Debug, Clone)]
enum FieldDemand {
    Exists(bool),
    OneOf(Vec<ListOperator>),
}

/// One of the operators that a list may hold, as JSON, and whether a value matches it.
type ListOperator = (&'static str, fn(&str) -> bool);

const OPERATORS: [ListOperator; 7] = [
    (r#""ax""#, |value| value == "ax"),
    (r#""bx""#, |value| value == "bx"),
    (r#"{"prefix":"a"}"#, |value| value.starts_with('a')),
    (r#"{"suffix":"x"}"#, |value| value.ends_with('x')),
    (r#"{"wildcard":"*x"}"#, |value| value.ends_with('x')),
    (r#"{"equals-ignore-case":"ax"}"#, |value| value.eq_ignore_ascii_case("ax")),
    (r#"{"anything-but":["ax",""]}"#, |value| value != "ax" && !value.is_empty()),
];

impl FieldDemand {
    fn json(&self) -> Value {
        match self {
            Self::Exists(exists) => json!([{ "exists": exists }]),
            Self::OneOf(operators) => {
                operators.iter().map(|(json, _)| serde_json::from_str::<Value>(json).unwrap()).collect()
            }
        }
    }

    fn holds(&self, found: &[&str]) -> bool {
        match self {
            Self::Exists(exists) => found.is_empty() != *exists,
            Self::OneOf(operators) => {
                found.iter().any(|value| operators.iter().any(|(_, matches)| matches(value)))
            }
        }
    }
}

/// Puts a value at a path.
fn put(object: &mut Value, path: &[&str], value: Value) {
    match path {
        [] => *object = value,
        [name, rest @ ..] => put(&mut object[name], rest, value),
    }
}

#[test]
fn a_letter_falls_under_the_first_rule_all_of_whose_fields_hold() {
    let asked = prop_oneof![
        3 => Just(None),
        2 => any::<bool>().prop_map(|exists| Some(FieldDemand::Exists(exists))),
        2 => prop::collection::vec(prop::sample::select(OPERATORS.to_vec()), 1..4).prop_map(|operators| Some(FieldDemand::OneOf(operators))),
    ];
    let rule = prop::collection::vec(asked, FIELDS.len());
    let rule = rule.prop_filter("asks for something", |rule| rule.iter().any(Option::is_some));
    let values = prop::collection::vec(prop::sample::select(VALUES.to_vec()), 0..3);
    let found = prop::collection::vec(values, FIELDS.len() - 1);
    holds(4_000, &(prop::collection::vec(rule, 1..4), found), |(rules, found)| {
        let mut view = json!({});
        let found: Vec<_> = std::iter::once(Vec::new()).chain(found).collect();
        for (path, values) in FIELDS.iter().zip(&found).filter(|(_, values)| !values.is_empty()) {
            put(&mut view, path, if let [value] = values[..] { json!(value) } else { json!(values) });
        }
        let pattern = |rule: &Vec<Option<FieldDemand>>| {
            let mut pattern = json!({});
            for (path, asked) in FIELDS.iter().zip(rule) {
                if let Some(asked) = asked {
                    put(&mut pattern, path, asked.json());
                }
            }
            pattern
        };
        let fits = |rule: &Vec<Option<FieldDemand>>| {
            rule.iter()
                .zip(&found)
                .all(|(asked, found)| asked.as_ref().is_none_or(|asked| asked.holds(found)))
        };
        let expected = rules.iter().position(fits).map_or("default".to_owned(), |n| format!("rule {n}"));
        let patterns: Vec<_> = rules.iter().map(pattern).collect();
        let message = view.get("message").map_or_else(|| "{}".to_owned(), Value::to_string);
        prop_assert_eq!(
            rule_of(&patterns, &letter(&record(&message))),
            expected,
            "{:?} {}",
            patterns,
            message
        );
        Ok(())
    });
}

/// The author of a message must not be able to evade a rule on the topic.
#[test]
fn no_message_hides_a_letter_from_a_rule() {
    let policy = parsed(&json!({ "rules": [{ "name": "audit", "action": "archive", "match": {
        "topicArn": [{ "suffix": ":payments" }], "message": { "x": { "y": [{ "exists": false }] } } } }] }));
    let falls_under_it = |message: &str| {
        let attributes = json!({ "a": { "Type": "String", "Value": message }, "n": { "Type": "Number", "Value": message },
            "l": { "Type": "String.Array", "Value": message } });
        policy.rule_for(&letter(&record(&envelope(message, &attributes)))).name == "audit"
    };
    for depth in [1, 100, 126, 127, 128, 129, 10_000, 50_000] {
        for (open, close) in [("{\"a\":", "}"), ("[", "]")] {
            assert!(
                falls_under_it(&format!("{}1{}", open.repeat(depth), close.repeat(depth))),
                "{depth} {open}"
            );
        }
    }
    for message in [
        "1e400",
        "1e-400",
        "-0",
        "99999999999999999999999999",
        "\"\\ud800\"",
        "\u{0}",
        "{\"\":{}}",
        "{",
        "null",
        &deep_by_dots(),
    ] {
        assert!(falls_under_it(message), "{message:?}");
    }
    holds(1_000, &prop_oneof![any::<String>(), policy_like().prop_map(|json| json.to_string())], |message| {
        prop_assert!(falls_under_it(&message));
        Ok(())
    });
}

#[test]
fn names_may_have_dots() {
    let attribute = json!({ "com.acme.pii": { "Type": "String", "Value": "yes" } });
    let letter =
        letter(&record(&envelope(r#"{"a.b": {"c.d": 1}, "a": {"b": {"c": {"d": 2}}}}"#, &attribute)));
    for (pattern, expected) in [
        (json!({ "messageAttributes": { "com.acme.pii": ["yes"] } }), true),
        (json!({ "messageAttributes": { "com.acme.pii": [{ "exists": false }] } }), false),
        (json!({ "messageAttributes": { "com": { "acme": { "pii": ["yes"] } } } }), true),
        (json!({ "messageAttributes.com.acme": { "pii": ["yes"] } }), true),
        (json!({ "messageAttributes.com.acme.pii": ["no"] }), false),
        (json!({ "message": { "a.b": { "c.d": [1] } } }), true),
        (json!({ "message": { "a.b": { "c.d": [2] } } }), true),
        (json!({ "message": { "a.b.c.d": [3] } }), false),
        (json!({ "message.a.b.c": { "d": [1] } }), true),
        (json!({ "message": { "a": { "b": { "c": { "d": [2] } } } } }), true),
    ] {
        assert_eq!(matches(&pattern, &letter), expected, "{pattern}");
    }
}

#[test]
fn long_lists_that_no_pattern_names_are_no_matter() {
    let document = json!({ "rules": [{ "name": "tenant", "match": { "message": { "tenant": ["gold"] } } }] });
    let message = json!({ "tenant": "gold", "lines": vec!["x"; 50_000] }).to_string();
    let letter = letter(&record(&envelope(&message, &json!({}))));
    assert_eq!(parsed(&document).rule_for(&letter).name, "tenant");
}

/// SNS has one list of types for subscriptions with raw delivery, and a short one for all others and for topics.
#[test]
fn a_content_type_that_sns_does_not_know_or_no_header_can_hold_is_refused() {
    let fault = |request: &Value| {
        let document = json!({ "default": { "deliveryPolicy": request } });
        Policy::parse(&document.to_string()).err().map(|faults| faults.to_string())
    };
    let subscription = |text: &str| fault(&json!({ "requestPolicy": { "headerContentType": text } }));
    let topic =
        |text: &str| fault(&json!({ "http": { "defaultRequestPolicy": { "headerContentType": text } } }));
    for text in ["", "image/png", "text/plain;\r\nx-evil: 1", "text/plain; \u{fc}", "text/\u{fc}"] {
        let faults = subscription(text).unwrap();
        let expected =
            "default.deliveryPolicy.requestPolicy.headerContentType: must be one of text/css, text/csv, ";
        assert!(faults.starts_with(expected), "{faults}");
    }
    for text in ["application/json", "text/plain", "text/plain; charset=UTF-8"] {
        assert_eq!((subscription(text), topic(text)), (None, None), "{text}");
    }
    for text in ["text/csv", "application/xml; charset=UTF-8"] {
        assert_eq!(subscription(text), None, "{text}");
        let expected = format!(
            "default.deliveryPolicy.http.defaultRequestPolicy.headerContentType: must be one of application/json, \
             text/plain, not {text:?}"
        );
        assert_eq!(topic(text), Some(expected));
    }
    let only_raw = json!({ "requestPolicy": { "headerContentType": "text/csv" } });
    let policy = DeliveryPolicy::from_effective(&only_raw.to_string()).unwrap();
    assert_eq!((policy.content_type_for(true), policy.content_type_for(false)), (Some("text/csv"), None));
}

#[test]
fn allowed_targets_are_arns_and_urls() {
    let parse = |target: &str| Policy::parse(&json!({ "default": { "allowTargets": [target] } }).to_string());
    for target in
        ["arn:aws:sqs:eu-central-1:123456789012:payments", "https://a.example/hook", "http://a.example"]
    {
        assert!(parse(target).is_ok(), "{target}");
    }
    for target in ["payments", "a.example/hook", "ftp://a.example/", "https://a.example/?key=1", ""] {
        let faults = parse(target).unwrap_err().to_string();
        assert_eq!(
            faults, "default.allowTargets: must hold only ARNs and http or https URLs without a query",
            "{target}"
        );
    }
}

/// Returns a message with more levels than a stack has room for: each of its objects adds as many by dots as one may
/// have.
fn deep_by_dots() -> String {
    (10..=120).fold("1".to_owned(), |inner, dots| format!("{{\"{}a\":{inner}}}", "a.".repeat(dots)))
}

#[test]
fn a_pattern_that_is_nested_too_deeply_by_dots_is_refused() {
    let told = archiving(&deep_by_dots()).unwrap_err().to_string();
    assert!(told.contains("must be a list of values"), "{told}");
}

#[test]
fn a_subject_that_may_be_absent_stands_beside_alternatives() {
    let choice = json!({ "$or": [{ "a": ["x"] }, { "b": ["x"] }] });
    let pattern =
        json!({ "subject": ["x", { "exists": false }], "message": { "f": choice.clone(), "g": choice } });
    let raw = |message: &Value| letter(&record(&message.to_string()));
    assert!(matches(&pattern, &raw(&json!({ "f": { "b": "x" }, "g": { "a": "x" } }))));
    assert!(!matches(&pattern, &raw(&json!({ "f": { "b": "x" } }))));
    assert!(!matches(&json!({ "subject": ["x", { "exists": false }] }), &sample("envelope.json")[0]));
}
