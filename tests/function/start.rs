//! Tests of the cold start: with bad settings the function does not start, and reports all faults.

use std::process::Command;

use serde_json::Value;

#[test]
fn bad_settings_stop_the_cold_start_with_a_line_for_each_fault() {
    let ran = Command::new(env!("CARGO_BIN_EXE_sns-redrive"))
        .env_clear()
        .env("REDRIVE_POLICY", r#"{"default": {"jitter": 2}, "rules": [{"name": "a"}]}"#)
        .env("REDRIVE_MODE", "dry")
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(1));
    let text = String::from_utf8(ran.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let faults: Vec<_> = lines
        .iter()
        .map(|line| {
            assert_eq!((&line["level"], &line["message"]), (&"ERROR".into(), &"bad setting".into()));
            format!("{}: {}", line["setting"].as_str().unwrap(), line["detail"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        faults,
        [
            "REDRIVE_POLICY: default.jitter: must be a number from 0 to 1, not 2",
            "REDRIVE_POLICY: rules[0].match: is missing: a rule without a pattern would never apply",
            "ARCHIVE: is missing: set it to s3://bucket/prefix or the ARN of a queue",
            "REDRIVE_MODE: must be active or observe, not \"dry\"",
            "AWS_REGION: is missing: set it to an AWS region such as eu-central-1 (on AWS, Lambda sets it)",
        ]
    );
}
