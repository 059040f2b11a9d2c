//! The forms of dead letters that others recorded on AWS, with names and contents of our own.

use super::*;

/// Returns what the parser reads of a letter, by the names that the cases use.
fn read(letter: &Letter, name: &str) -> Value {
    let cause = letter.cause.as_ref().map(|cause| json!([cause.code, cause.message]));
    match name {
        "origin" => json!(letter.origin.name()),
        "topic" => json!(letter.topic().map(Arn::as_str)),
        "subscription" => json!(letter.subscription().map(Arn::as_str)),
        "message" => json!(letter.message()),
        "group" => json!(letter.sqs.group_id()),
        "cause" => json!(cause),
        _ => panic!("nobody reads {name}"),
    }
}

#[test]
fn every_recorded_form_is_recognised() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("../../recorded/letters.json")).unwrap();
    assert_eq!(cases.len(), 12);
    for case in &cases {
        let mut message = record(case["body"].as_str().unwrap());
        message["messageAttributes"] = case["attributes"].clone();
        let system = case["system"].as_object().unwrap().clone();
        message["attributes"].as_object_mut().unwrap().extend(system);
        let letter = letter(&message);
        for (name, expected) in case["letter"].as_object().unwrap() {
            assert_eq!(read(&letter, name), *expected, "{name} of a letter {}", case["case"]);
        }
        assert!(case["source"].as_str().unwrap().starts_with("LocalStack "), "{}", case["case"]);
    }
}
