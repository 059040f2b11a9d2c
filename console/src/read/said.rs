//! What a letter says: its body and its attributes, as far as they may be shown.

use serde_json::Value;
use sns_redrive::archive::Record;

use crate::account::Bodies;

/// The most of a body that is shown, characters.
const MOST: usize = 4_000;

/// Put in the place of a value that is not shown.
const MASKED: &str = "(masked)";

/// What a letter says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The body, or its beginning.
    pub body: String,
    /// Whether it is only the beginning.
    pub is_cut: bool,
    /// The message attributes by name, with their values.
    pub attributes: Vec<(String, String)>,
}

impl Said {
    /// Returns what a letter says; none where the account does not show it. The link by which anybody can unsubscribe a
    /// subscriber is never shown.
    pub(crate) fn of(record: &Record, bodies: &Bodies) -> Option<Self> {
        let Bodies::Shown { masked } = bodies else { return None };
        let is_masked = |name: &str| masked.iter().any(|it| it.eq_ignore_ascii_case(name));
        let whole = without_secrets(&record.message.body, &is_masked);
        let body: String = whole.chars().take(MOST).collect();
        let is_cut = body.len() < whole.len();
        let attributes = record.message.message_attributes.iter().map(|(name, attribute)| {
            let text = || attribute.string_value.clone().or(attribute.binary_value.clone());
            let value = if is_masked(name) { MASKED.to_owned() } else { text().unwrap_or_default() };
            (name.clone(), value.chars().take(MOST).collect())
        });
        Some(Self { body, is_cut, attributes: attributes.collect() })
    }
}

/// A body without the link to unsubscribe, and without the attributes of an envelope that are masked.
fn without_secrets(body: &str, is_masked: &impl Fn(&str) -> bool) -> String {
    let Ok(Value::Object(mut fields)) = serde_json::from_str::<Value>(body) else { return body.to_owned() };
    let mut changed = false;
    for (name, value) in &mut fields {
        if name.eq_ignore_ascii_case("UnsubscribeURL") {
            *value = MASKED.into();
            changed = true;
        }
        let Value::Object(attributes) = value else { continue };
        if name != "MessageAttributes" {
            continue;
        }
        for (_, attribute) in attributes.iter_mut().filter(|(name, _)| is_masked(name)) {
            *attribute = MASKED.into();
            changed = true;
        }
    }
    if changed { Value::Object(fields).to_string() } else { body.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_loses_its_link_and_what_is_masked_and_nothing_else() {
        let is_masked = |name: &str| name == "token";
        let body = r#"{"Message":"m","UnsubscribeURL":"https://x/?Action=Unsubscribe","MessageAttributes":{"token":{"Type":"String","Value":"S3CR3T"},"kind":{"Type":"String","Value":"a"}}}"#;
        let shown = without_secrets(body, &is_masked);
        assert!(!shown.contains("Action=Unsubscribe") && !shown.contains("S3CR3T"), "{shown}");
        assert!(shown.contains(r#""Message":"m""#) && shown.contains(r#""Value":"a""#), "{shown}");
        for other in ["no JSON", r#"{ "b": 1,  "a": 2 }"#, "[1]"] {
            assert_eq!(without_secrets(other, &is_masked), other);
        }
    }
}
