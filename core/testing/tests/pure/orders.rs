//! The document of orders, and the order that a letter falls under.

use jiff::{SignedDuration, Timestamp};
use redrive_core::policy::{MAX_ORDERS, OrderAction, Orders};
use serde_json::{Value, json};

fn order(id: &str, action: &str, more: &Value) -> Value {
    let mut order = json!({
        "id": id, "do": action, "match": { "queueArn": [{ "exists": true }] },
        "at": "2026-11-22T10:00:00Z", "by": "ada", "why": "the database is down",
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        order[key] = value.clone();
    }
    order
}

fn parse(orders: &[Value]) -> Result<Orders, String> {
    let document = json!({ "version": 1, "orders": orders });
    Orders::parse(document.to_string().as_bytes()).map_err(|bad| bad.to_string())
}

fn at(minutes: i64) -> Timestamp {
    "2026-11-22T10:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_mins(minutes)
}

#[test]
fn a_document_is_written_as_it_was_read() {
    let more = json!({ "arrivedBefore": "2026-11-22T09:00:00Z", "until": "2026-11-22T12:00:00Z" });
    let orders = parse(&[order("a", "hold", &more), order("b", "archive", &json!({}))]).unwrap();
    let again = Orders::parse(orders.to_json().as_bytes()).unwrap();
    assert_eq!(again.all(), orders.all());
    assert_eq!(Orders::of(orders.all()).unwrap().all(), orders.all());
    assert_eq!(orders.all()[0].action, OrderAction::Hold);
}

#[test]
fn an_order_is_in_force_from_its_beginning_to_its_end() {
    let until = json!({ "until": "2026-11-22T11:00:00Z" });
    for (action, more, minutes, expected) in [
        ("hold", json!({}), 10_000, true),
        ("hold", json!({}), -1, false),
        ("hold", until.clone(), 59, true),
        ("hold", until.clone(), 60, false),
        ("retry", json!({}), 14, true),
        ("retry", json!({}), 15, false),
        ("retry", until, 59, true),
        ("archive", json!({}), 10_000, true),
    ] {
        let orders = parse(&[order("a", action, &more)]).unwrap();
        assert_eq!(orders.all()[0].is_in_force(at(minutes)), expected, "{action} {more} {minutes}");
    }
}

#[test]
fn every_fault_is_named_with_its_path() {
    let faults = parse(&[
        json!({ "id": "a", "do": "stop", "match": {}, "at": "now", "by": "", "why": "w", "note": "n" }),
        order("a", "hold", &json!({ "until": "2026-11-22T10:00:00Z", "match": { "topc": ["x"] } })),
    ]);
    let faults = faults.unwrap_err();
    for expected in [
        "orders[0].do: must be one of hold, retry, archive, not \"stop\"",
        "orders[0].match: must be an object with at least one field",
        "orders[0].at: must be a time such as",
        "orders[0].by: must be a text",
        "orders[0].note: unknown key",
        "orders[1].id: \"a\" is the id of another order",
        "orders[1].until: must be later than at",
        "orders[1].match: has no field \"topc\"",
    ] {
        assert!(faults.contains(expected), "{expected} in {faults}");
    }
}

#[test]
fn a_document_of_another_version_is_one_fault() {
    let fault = |json: &str| Orders::parse(json.as_bytes()).unwrap_err().to_string();
    let newer = "version: must be 1, not 2: a newer version of the tools may have written it";
    assert_eq!(fault(r#"{"version": 2, "orders": 7}"#), newer);
    assert_eq!(fault("{}"), "version: must be 1");
    assert!(fault("{").starts_with("not JSON"));
    let long = format!("\"{}\"", "x".repeat(256 * 1024));
    assert_eq!(fault(&long), "must be at most 262144 bytes long, not 262146");
}

#[test]
fn a_document_of_too_many_orders_is_a_fault() {
    let orders =
        |count: usize| (0..count).map(|n| order(&n.to_string(), "hold", &json!({}))).collect::<Vec<_>>();
    assert!(parse(&orders(MAX_ORDERS)).is_ok());
    let fault = parse(&orders(MAX_ORDERS + 1)).unwrap_err();
    assert_eq!(fault, "orders: must be at most 100 orders, not 101");
}

/// A hold that can match nothing would let everything go.
#[test]
fn a_pattern_that_can_match_nothing_is_a_fault() {
    for (pattern, fault) in [
        (
            json!({ "topicArn": { "suffix": [":orders"] } }),
            "orders[0].match.topicArn: holds suffix where a list belongs",
        ),
        (
            json!({ "topicArn": ["orders"] }),
            "orders[0].match.topicArn: is the ARN of a topic, so \"orders\" can match nothing",
        ),
        (
            json!({ "subscriptionArn": [7] }),
            "orders[0].match.subscriptionArn: is a text, so 7 can match nothing",
        ),
    ] {
        let told = parse(&[order("a", "hold", &json!({ "match": pattern }))]).unwrap_err();
        assert!(told.starts_with(fault), "{told}");
    }
}

/// The tools write the document anew, and would round the number.
#[test]
fn a_number_that_no_document_keeps_is_a_fault() {
    let document = |number: &str| {
        let more = json!({ "match": { "message": { "id": [{ "numeric": ["=", 7] }] } } });
        let document = json!({ "version": 1, "orders": [order("a", "hold", &more)] }).to_string();
        document.replace("\"=\",7", &format!("\"=\",{number}"))
    };
    let written = |number: &str| Orders::parse(document(number).as_bytes());
    for number in ["1234567890123456789", "0.1", "3.018e2", "18446744073709551615"] {
        assert!(written(number).is_ok(), "{number}");
    }
    for number in ["12345678901234567890123", "0.12345678901234567890"] {
        let told = written(number).unwrap_err().to_string();
        assert_eq!(told, "orders[0].match: holds a number that would be rounded: write 15 digits at most");
        let marked = Orders::parse(["\u{feff}", &document(number)].concat().as_bytes());
        assert_eq!(marked.unwrap_err().to_string(), told);
    }
}

#[test]
fn a_key_that_is_there_twice_is_a_fault() {
    let document = json!({ "version": 1, "orders": [order("a", "hold", &json!({}))] }).to_string();
    let document = document.replacen("\"orders\":", "\"orders\":[],\"orders\":", 1);
    let told = Orders::parse(document.as_bytes()).unwrap_err().to_string();
    assert_eq!(told, "orders: is there twice, and only one can count: remove the other");
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
        let fault = parse(&[order("a", "hold", &more)]).unwrap_err();
        assert!(fault.chars().count() < 1_100 && fault.contains(" ..."), "{}", fault.chars().count());
    }
    let version = json!({ "version": long, "orders": [] }).to_string();
    assert!(Orders::parse(version.as_bytes()).unwrap_err().to_string().chars().count() < 600);
}
