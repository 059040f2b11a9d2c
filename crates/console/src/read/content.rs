//! The content of a letter: its body and its attributes, as far as a page may show them.

use std::collections::BTreeSet;

use redrive_archive::ArchiveRecord;
use serde_json::Value;

use crate::account::BodyVisibility;

/// The most characters of a body on a page.
const MAX_BODY_CHARS: usize = 4_000;

/// The field with the link that lets anybody unsubscribe the subscriber. A Lambda event writes
/// `UnsubscribeUrl`.
const UNSUBSCRIBE: &str = "UnsubscribeURL";

/// The field with the message attributes, in an envelope and in a Lambda event.
const ATTRIBUTES: &str = "MessageAttributes";

/// The field with the type of an attribute, in an envelope and in a Lambda event.
const TYPES: [&str; 2] = ["Type", "dataType"];

/// The text that replaces a hidden value.
const MASKED: &str = "(masked)";

/// The content of a letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownContent {
    /// The body, or its beginning.
    pub body: String,
    /// True if the body is longer.
    pub is_cut: bool,
    /// The names and the values of the message attributes.
    pub attributes: Vec<(String, String)>,
}

impl ShownContent {
    /// Returns a letter's content; `None` if the account hides it. The unsubscribe link is always masked.
    pub(crate) fn of(record: &ArchiveRecord, bodies: &BodyVisibility) -> Option<Self> {
        let BodyVisibility::Shown { masked } = bodies else { return None };
        let mask = ContentMask::new(masked);
        let whole = mask.text(&record.message.body);
        let body: String = whole.chars().take(MAX_BODY_CHARS).collect();
        let is_cut = body.len() < whole.len();
        let attributes = record.message.message_attributes.iter().map(|(name, attribute)| {
            let text = || attribute.string_value.clone().or(attribute.binary_value.clone());
            let value = if mask.hides(name) { MASKED.into() } else { mask.text(&text().unwrap_or_default()) };
            (name.clone(), value.chars().take(MAX_BODY_CHARS).collect())
        });
        Some(Self { body, is_cut, attributes: attributes.collect() })
    }
}

/// Hides values in a letter: those of the attributes with some names, and unsubscribe links. It finds them at
/// any depth: a Lambda event has a list of envelopes, and an envelope's message may be a text that holds
/// JSON.
#[derive(Debug, Clone, Copy)]
pub struct ContentMask<'a> {
    names: &'a [String],
}

impl<'a> ContentMask<'a> {
    /// Creates a mask for the attributes with these names. Upper and lower case are the same.
    #[must_use]
    pub fn new(names: &'a [String]) -> Self {
        Self { names }
    }

    /// Returns the names of the masked attributes.
    #[must_use]
    pub fn names(&self) -> &'a [String] {
        self.names
    }

    /// Reports whether the mask hides attributes with this name.
    #[must_use]
    pub fn hides(&self, name: &str) -> bool {
        self.names.iter().any(|it| it.eq_ignore_ascii_case(name))
    }

    /// Returns a text with the hidden values masked. A text without any stays the same, byte for byte.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        let mut value = Value::from(text);
        self.value(&mut value);
        value.as_str().unwrap_or_default().to_owned()
    }

    /// Masks the hidden values in a value, and reports whether there were any.
    pub fn value(&self, value: &mut Value) -> bool {
        self.visit(value, false, &mut |hidden| *hidden = MASKED.into())
    }

    /// Returns the texts that the mask hides in a value.
    #[must_use]
    pub fn secrets(&self, value: &Value) -> BTreeSet<String> {
        let mut secrets = BTreeSet::new();
        self.visit(&mut value.clone(), false, &mut |hidden| leaves(hidden, &mut secrets));
        secrets
    }

    /// Reports whether a text that is not valid JSON may hold a hidden value: it contains one of the names,
    /// or an escape that could spell one.
    fn may_hide(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let names = self.names.iter().map(String::as_str).chain([UNSUBSCRIBE]);
        text.contains("\\u") || names.into_iter().any(|name| text.contains(&name.to_lowercase()))
    }

    /// Calls `hide` for each hidden value, and reports whether there was one.
    fn visit(&self, value: &mut Value, of_attributes: bool, hide: &mut impl FnMut(&mut Value)) -> bool {
        match value {
            Value::Object(fields) => fields.iter_mut().fold(false, |found, (name, value)| {
                let is_hidden = name.eq_ignore_ascii_case(UNSUBSCRIBE) || of_attributes && self.hides(name);
                if is_hidden {
                    hide(value);
                }
                let of_attributes = name.eq_ignore_ascii_case(ATTRIBUTES);
                let found = found | is_hidden;
                found | (!is_hidden && self.visit(value, of_attributes, hide))
            }),
            Value::Array(values) => {
                values.iter_mut().fold(false, |found, value| self.visit(value, of_attributes, hide) | found)
            }
            Value::String(text) => match NestedText::of(text) {
                NestedText::Json(mut inner) => {
                    let found = self.visit(&mut inner, of_attributes, hide);
                    if found {
                        *text = inner.to_string();
                    }
                    found
                }
                NestedText::Broken if !self.may_hide(text) => false,
                // A text that nobody can read for sure is hidden whole: it may hold a secret.
                NestedText::TooDeep | NestedText::Broken => {
                    hide(value);
                    true
                }
                NestedText::Text => false,
            },
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
}

/// A text that may hold JSON.
enum NestedText {
    /// An object or a list.
    Json(Value),
    /// JSON that is nested too deep for `serde_json`, so its content is unknown.
    TooDeep,
    /// The beginning of JSON that is cut off, or that other text follows.
    Broken,
    /// Any other text.
    Text,
}

impl NestedText {
    fn of(text: &str) -> Self {
        if !text.trim_start().starts_with(['{', '[']) {
            return Self::Text;
        }
        match serde_json::from_str(text) {
            Ok(value) => Self::Json(value),
            Err(error) if error.to_string().contains("recursion limit exceeded") => Self::TooDeep,
            Err(_) => Self::Broken,
        }
    }
}

/// Collects the texts in a value, except the names of types.
fn leaves(value: &Value, texts: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            texts.insert(text.clone());
        }
        Value::Array(values) => values.iter().for_each(|value| leaves(value, texts)),
        Value::Object(fields) => {
            let is_type = |name: &str| TYPES.iter().any(|it| it.eq_ignore_ascii_case(name));
            fields.iter().filter(|(name, _)| !is_type(name)).for_each(|(_, value)| leaves(value, texts));
        }
        Value::Number(_) | Value::Bool(_) => {
            texts.insert(value.to_string());
        }
        Value::Null => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// An envelope with an unsubscribe link and a masked attribute.
    fn envelope() -> Value {
        json!({
            "Message": "m", "UnsubscribeURL": "https://x/?Action=Unsubscribe",
            "MessageAttributes": {
                "Token": { "Type": "String", "Value": "S3CR3T" }, "kind": { "Type": "String", "Value": "a" },
            },
        })
    }

    #[test]
    fn an_envelope_loses_its_link_and_what_is_masked_and_nothing_else() {
        let names = ["token".to_owned()];
        let mask = ContentMask::new(&names);
        let sns = json!({ "Records": [{ "Sns": {
            "UnsubscribeUrl": "https://x/?Action=Unsubscribe", "Message": "m",
            "MessageAttributes": envelope()["MessageAttributes"],
        } }] });
        let sqs = json!({ "Records": [{
            "body": envelope().to_string(),
            "messageAttributes": { "token": { "stringValue": "S3CR3T", "dataType": "String" }, "kind": { "stringValue": "a" } },
        }] });
        for body in [
            envelope(),
            sns.clone(),
            json!({ "requestPayload": sns }),
            json!({ "requestPayload": sqs }),
            json!([[envelope()]]),
            json!({ "Message": json!({ "Message": envelope().to_string() }).to_string() }),
        ] {
            let shown = mask.text(&body.to_string());
            assert!(!shown.contains("Action=Unsubscribe") && !shown.contains("S3CR3T"), "{shown}");
            assert!(shown.contains("(masked)") && shown.contains('m') && shown.contains("kind"), "{shown}");
            let secrets = mask.secrets(&body);
            assert!(secrets.contains("S3CR3T") && secrets.contains("https://x/?Action=Unsubscribe"));
            assert_eq!(secrets.len(), 2, "{secrets:?}");
        }
        // The name of a masked attribute means nothing elsewhere.
        for other in ["no JSON", r#"{ "b": 1,  "a": 2 }"#, "[1]", r#"{"token":  "t"}"#, "{", r#""x""#] {
            assert_eq!(mask.text(other), other);
        }
    }

    #[test]
    fn json_that_is_not_whole_is_masked_if_it_may_have_something_to_hide() {
        let names = ["token".to_owned()];
        let mask = ContentMask::new(&names);
        let whole = envelope().to_string();
        for broken in [
            format!("{whole}\n{whole}"),
            whole[..whole.len() - 1].to_owned(),
            r#"{"\u0055nsub": 1} x"#.into(),
        ] {
            assert_eq!(mask.text(&broken), "(masked)", "{broken}");
            let outer = mask.text(&json!({ "Message": broken }).to_string());
            assert_eq!(outer, r#"{"Message":"(masked)"}"#);
        }
        assert_eq!(mask.text("{ \"a\": 1 } and more"), "{ \"a\": 1 } and more");
    }

    #[test]
    fn numbers_are_secrets_too() {
        let names = ["token".to_owned()];
        let value = json!({ "MessageAttributes": { "token": { "Type": "Number", "Value": 4111 } } });
        assert!(ContentMask::new(&names).secrets(&value).contains("4111"));
    }

    #[test]
    fn what_is_nested_too_deep_to_be_looked_through_is_masked_whole() {
        let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(200), "]".repeat(200));
        let mask = ContentMask::new(&[]);
        let hidden = deep(r#"{"UnsubscribeURL":"https://x/?Action=Unsubscribe"}"#);
        assert_eq!(mask.text(&hidden), "(masked)");
        let shown = mask.text(&json!({ "Message": hidden, "Subject": "s" }).to_string());
        assert!(!shown.contains("Action=Unsubscribe") && shown.contains("\"Subject\":\"s\""), "{shown}");
    }
}
