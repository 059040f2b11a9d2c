//! The document of overrides, and the override that a letter falls under.

use jiff::{SignedDuration, Timestamp};
use redrive_core::endpoint::TargetName;
use redrive_core::policy::{LetterTarget, MAX_OVERRIDES, OverrideAction, OverrideAnswer, Overrides, Policy};
use redrive_testing::{BILLING, RecordBuilder, WORKER, event, letters_of};
use serde_json::{Value, json};

fn override_(id: &str, action: &str, more: &Value) -> Value {
    let mut override_ = json!({
        "id": id, "do": action, "match": { "queueArn": [{ "exists": true }] },
        "at": "2026-11-22T10:00:00Z", "by": "ada", "why": "the database is down",
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        override_[key] = value.clone();
    }
    override_
}

fn parse(overrides: &[Value]) -> Result<Overrides, String> {
    let document = json!({ "version": 1, "overrides": overrides });
    Overrides::parse(document.to_string().as_bytes()).map_err(|bad| bad.to_string())
}

fn at(minutes: i64) -> Timestamp {
    "2026-11-22T10:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_mins(minutes)
}

#[test]
fn a_document_is_written_as_it_was_read() {
    let more = json!({ "arrivedBefore": "2026-11-22T09:00:00Z", "until": "2026-11-22T12:00:00Z" });
    let overrides = parse(&[override_("a", "hold", &more), override_("b", "give-up", &json!({}))]).unwrap();
    let again = Overrides::parse(overrides.to_json().as_bytes()).unwrap();
    assert_eq!(again.all(), overrides.all());
    assert_eq!(Overrides::of(overrides.all()).unwrap().all(), overrides.all());
    assert_eq!(overrides.all()[0].action, OverrideAction::Hold);
}

#[test]
fn an_override_is_in_force_from_its_beginning_to_its_end() {
    let until = json!({ "until": "2026-11-22T11:00:00Z" });
    for (action, more, minutes, expected) in [
        ("hold", json!({}), 10_000, true),
        ("hold", json!({}), -1, false),
        ("hold", until.clone(), 59, true),
        ("hold", until.clone(), 60, false),
        ("retry", json!({}), 14, true),
        ("retry", json!({}), 15, false),
        ("retry", until, 59, true),
        ("give-up", json!({}), 10_000, true),
    ] {
        let overrides = parse(&[override_("a", action, &more)]).unwrap();
        assert_eq!(overrides.all()[0].is_in_force(at(minutes)), expected, "{action} {more} {minutes}");
    }
}

#[test]
fn every_fault_is_named_with_its_path() {
    let faults = parse(&[
        json!({ "id": "a", "do": "stop", "match": {}, "at": "now", "by": "", "why": "w", "note": "n" }),
        override_("a", "hold", &json!({ "until": "2026-11-22T10:00:00Z", "match": { "topc": ["x"] } })),
    ]);
    let faults = faults.unwrap_err();
    for expected in [
        "overrides[0].do: must be one of hold, retry, give-up, not \"stop\"",
        "overrides[0].match: must be an object with at least one field",
        "overrides[0].at: must be a time such as",
        "overrides[0].by: must be a text",
        "overrides[0].note: unknown key",
        "overrides[1].id: \"a\" is the id of another override",
        "overrides[1].until: must be later than at",
        "overrides[1].match: has no field \"topc\"",
    ] {
        assert!(faults.contains(expected), "{expected} in {faults}");
    }
}

#[test]
fn a_document_of_another_version_is_one_fault() {
    let fault = |json: &str| Overrides::parse(json.as_bytes()).unwrap_err().to_string();
    let newer = "version: must be 1, not 2: a newer version of the tools may have written it";
    assert_eq!(fault(r#"{"version": 2, "overrides": 7}"#), newer);
    assert_eq!(fault("{}"), "version: must be 1");
    assert!(fault("{").starts_with("not JSON"));
    let long = format!("\"{}\"", "x".repeat(256 * 1024));
    assert_eq!(fault(&long), "must be at most 262144 bytes long, not 262146");
}

#[test]
fn a_document_of_too_many_overrides_is_a_fault() {
    let overrides =
        |count: usize| (0..count).map(|n| override_(&n.to_string(), "hold", &json!({}))).collect::<Vec<_>>();
    assert!(parse(&overrides(MAX_OVERRIDES)).is_ok());
    let fault = parse(&overrides(MAX_OVERRIDES + 1)).unwrap_err();
    assert_eq!(fault, "overrides: must be at most 100 overrides, not 101");
}

/// A hold that can match nothing would let everything go.
#[test]
fn a_pattern_that_can_match_nothing_is_a_fault() {
    for (pattern, fault) in [
        (
            json!({ "topicArn": { "suffix": [":payments"] } }),
            "overrides[0].match.topicArn: holds suffix where a list belongs",
        ),
        (
            json!({ "topicArn": ["payments"] }),
            "overrides[0].match.topicArn: is the ARN of a topic, so \"payments\" can match nothing",
        ),
        (
            json!({ "subscriptionArn": [7] }),
            "overrides[0].match.subscriptionArn: is a text, so 7 can match nothing",
        ),
        (json!({ "target": ["payments-worker"] }), "write {\"suffix\": \":payments-worker\"} for a name"),
        (json!({ "target": ["#0413ea87415c"] }), "so something else can match nothing"),
        (json!({ "target": ["arn:#0413ea87415c"] }), "so something else can match nothing"),
        (json!({ "target": ["arn:aws:sqs:worker"] }), "so something else can match nothing"),
        (
            json!({ "$or": [{ "target": ["https://a.example/secret"] }, { "origin": ["sns"] }] }),
            "overrides[0].match.$or[0].target: is an ARN, or the scheme, the host and a digest of a URL: write \"https://a.example#",
        ),
        (json!({ "target": [{ "prefix": "https://a.example/se" }] }), "so a path can match nothing"),
        (json!({ "target": [{ "wildcard": "https://a.example/se*" }] }), "so a path can match nothing"),
        (
            json!({ "target": [{ "equals-ignore-case": "https://a.example/se" }] }),
            "write \"https://a.example#",
        ),
        (json!({ "target": [{ "suffix": "?token=se" }] }), "so a query can match nothing"),
        (json!({ "target": [{ "cidr": "10.0.0.0/24" }] }), "so an address can match nothing"),
        (
            json!({ "target": { "x": ["y"] } }),
            "overrides[0].match.target: has no fields, so \"x\" can match nothing",
        ),
    ] {
        let told = parse(&[override_("a", "hold", &json!({ "match": pattern }))]).unwrap_err();
        assert!(told.contains(fault), "{told}");
        assert!(!told.contains("/se"), "the path of a URL can be a secret: {told}");
    }
}

/// The tools write the document anew, and would round the number.
#[test]
fn a_number_that_no_document_keeps_is_a_fault() {
    let document = |number: &str| {
        let more = json!({ "match": { "message": { "id": [{ "numeric": ["=", 7] }] } } });
        let document = json!({ "version": 1, "overrides": [override_("a", "hold", &more)] }).to_string();
        document.replace("\"=\",7", &format!("\"=\",{number}"))
    };
    let written = |number: &str| Overrides::parse(document(number).as_bytes());
    for number in ["1234567890123456789", "0.1", "3.018e2", "18446744073709551615"] {
        assert!(written(number).is_ok(), "{number}");
    }
    for number in ["12345678901234567890123", "0.12345678901234567890"] {
        let told = written(number).unwrap_err().to_string();
        assert_eq!(told, "overrides[0].match: holds a number that would be rounded: write 15 digits at most");
        let marked = Overrides::parse(["\u{feff}", &document(number)].concat().as_bytes());
        assert_eq!(marked.unwrap_err().to_string(), told);
    }
}

#[test]
fn a_key_that_is_there_twice_is_a_fault() {
    let document = json!({ "version": 1, "overrides": [override_("a", "hold", &json!({}))] }).to_string();
    let document = document.replacen("\"overrides\":", "\"overrides\":[],\"overrides\":", 1);
    let told = Overrides::parse(document.as_bytes()).unwrap_err().to_string();
    assert_eq!(told, "overrides: is there twice, and only one can count: remove the other");
}

#[test]
fn a_long_text_is_cut_where_it_is_told() {
    let long = "é".repeat(100_000);
    for more in [
        json!({ "at": long }),
        json!({ "do": long }),
        json!({ "match": { &*long: ["x"] } }),
        json!({ &*long: 1 }),
    ] {
        let fault = parse(&[override_("a", "hold", &more)]).unwrap_err();
        assert!(fault.chars().count() < 1_100 && fault.contains(" ..."), "{}", fault.chars().count());
    }
    let version = json!({ "version": long, "overrides": [] }).to_string();
    assert!(Overrides::parse(version.as_bytes()).unwrap_err().to_string().chars().count() < 600);
}

/// What is unknown of a letter's target makes a hold wait, wherever in the pattern it is asked for, and nothing else.
#[test]
fn what_is_not_known_of_a_target_holds_and_does_nothing_else() {
    let worker = LetterTarget::Known(TargetName::read(WORKER));
    let letter = &letters_of(&event(&[RecordBuilder::envelope("a")]))[0];
    let sns = json!(["sns"]);
    for (pattern, of_worker, unknown) in [
        (json!({ "target": [WORKER] }), true, "may"),
        (json!({ "target": [WORKER], "origin": sns }), true, "may"),
        (json!({ "target": [WORKER], "origin": ["sqs"] }), false, "no"),
        (json!({ "target": [{ "suffix": "-worker" }] }), true, "may"),
        (json!({ "target": [{ "anything-but": [WORKER] }] }), false, "may"),
        (json!({ "target": [{ "exists": true }] }), true, "may"),
        (json!({ "target": [{ "exists": false }] }), false, "may"),
        (json!({ "target": [{ "exists": false }], "origin": ["sqs"] }), false, "no"),
        (json!({ "$or": [{ "target": [WORKER] }, { "origin": sns }] }), true, "yes"),
        (json!({ "$or": [{ "target": [BILLING] }, { "origin": ["sqs"] }] }), false, "may"),
        (
            json!({ "$or": [{ "target": [{ "exists": false }] }, { "subject": [{ "exists": false }] }] }),
            true,
            "yes",
        ),
        (json!({ "origin": sns }), true, "yes"),
    ] {
        for action in ["hold", "retry", "give-up"] {
            let overrides = parse(&[override_("a", action, &json!({ "match": pattern }))]).unwrap();
            let answer = |target: &LetterTarget| match overrides.on(letter, target, at(1)) {
                OverrideAnswer::By(_) => "yes",
                OverrideAnswer::MayHold(_) => "may",
                _ => "no",
            };
            let of_unknown = if action == "hold" || unknown != "may" { unknown } else { "no" };
            let yes = |is: bool| if is { "yes" } else { "no" };
            assert_eq!(
                (answer(&worker), answer(&LetterTarget::Unknown)),
                (yes(of_worker), of_unknown),
                "{action} {pattern}"
            );
        }
    }
}

/// Of two overrides the first counts. One to retry or to give up that cannot be known to be about the letter is passed over.
#[test]
fn an_override_behind_one_whose_target_is_not_known_counts_unless_that_one_may_hold() {
    let letter = &letters_of(&event(&[RecordBuilder::envelope("a")]))[0];
    let billing = json!({ "match": { "target": [BILLING] } });
    for (first, second, of_unknown) in [
        ("hold", "retry", "may be first"),
        ("hold", "hold", "may be first"),
        ("retry", "hold", "second"),
        ("give-up", "retry", "second"),
    ] {
        let both = [override_("first", first, &billing), override_("second", second, &json!({}))];
        let overrides = parse(&both).unwrap();
        let answer = |target: &LetterTarget| match overrides.on(letter, target, at(1)) {
            OverrideAnswer::By(by) => by.id,
            OverrideAnswer::MayHold(may) => format!("may be {}", may.id),
            _ => "nothing".to_owned(),
        };
        let [worker, named] = [WORKER, BILLING].map(|arn| LetterTarget::Known(TargetName::read(arn)));
        let answers = [worker, named, LetterTarget::Nowhere, LetterTarget::Unknown].map(|it| answer(&it));
        assert_eq!(answers, ["second", "first", "second", of_unknown], "{first}, {second}");
    }
}

/// Rules decide where a letter goes, so they cannot ask for it.
#[test]
fn a_rule_cannot_ask_for_the_target() {
    let rule = json!({ "rules": [{ "name": "r", "match": { "target": [WORKER] }, "action": "hold" }] });
    let told = Policy::parse(&rule.to_string()).unwrap_err().to_string();
    assert!(told.contains("only overrides can ask for it"), "{told}");
}
