//! The letters of an override's pattern, in words.

use redrive_core::shell::harmless;
use serde_json::{Value, json};

/// The fields of a pattern that name a resource, and their words.
const FIELDS: [(&str, &str); 4] =
    [("target", "target"), ("topicArn", "topic"), ("queueArn", "queue"), ("subscriptionArn", "subscription")];

/// Returns the letters of a pattern in words; `None` if it has conditions that are not names.
#[must_use]
pub fn pattern_words(pattern: &Value) -> Option<String> {
    if *pattern == json!({ "queueArn": [{ "exists": true }] }) {
        return Some("every letter".to_owned());
    }
    let part = |(name, condition): (&String, &Value)| {
        let (_, what) = FIELDS.iter().find(|(field, _)| field == name)?;
        let is_whole = condition.as_array().is_some_and(|items| items.iter().all(|it| named(it).is_some()));
        is_whole.then(|| format!("{what} {}", harmless(&pattern_names(condition).join(" or "))))
    };
    let parts: Option<Vec<_>> = pattern.as_object()?.iter().map(part).collect();
    Some(parts?.join(", "))
}

/// Returns the ARNs and names in a condition. Other conditions name no resource.
#[must_use]
pub fn pattern_names(condition: &Value) -> Vec<String> {
    let mut names: Vec<_> = condition.as_array().into_iter().flatten().filter_map(named).collect();
    // A target's name is the end of an ARN after a colon or, of a stream, after a slash.
    names.dedup();
    names
}

/// Returns the ARN or the name in an item of a condition.
fn named(item: &Value) -> Option<String> {
    let suffix = || item["suffix"].as_str()?.strip_prefix([':', '/']);
    item.as_str().or_else(|| item["exactly"].as_str()).or_else(suffix).map(str::to_owned)
}
