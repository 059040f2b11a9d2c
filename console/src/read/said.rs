//! The content of a letter: its body and its attributes, as far as they may be shown.

use std::collections::BTreeSet;

use serde_json::Value;
use sns_redrive::archive::Record;

use crate::account::Bodies;

/// The most of a body that is shown, characters.
const MOST: usize = 4_000;

/// The link by which anybody can unsubscribe a subscriber. A Lambda event of SNS writes its end otherwise.
const UNSUBSCRIBE: &str = "UnsubscribeURL";

/// The attributes of a message: in an envelope and in a Lambda event.
const ATTRIBUTES: &str = "MessageAttributes";

/// The type of an attribute: in an envelope and in a Lambda event.
const TYPES: [&str; 2] = ["Type", "dataType"];

/// Put in the place of a value that is not shown.
const MASKED: &str = "(masked)";

/// The content of a letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The body, or its beginning.
    pub body: String,
    /// True if this is only the beginning of the body.
    pub is_cut: bool,
    /// The message attributes by name, with their values.
    pub attributes: Vec<(String, String)>,
}

impl Said {
    /// Returns what a letter says; none where the account does not show it. The link by which anybody can unsubscribe a
    /// subscriber is never shown.
    pub(crate) fn of(record: &Record, bodies: &Bodies) -> Option<Self> {
        let Bodies::Shown { masked } = bodies else { return None };
        let mask = Mask::new(masked);
        let whole = mask.text(&record.message.body);
        let body: String = whole.chars().take(MOST).collect();
        let is_cut = body.len() < whole.len();
        let attributes = record.message.message_attributes.iter().map(|(name, attribute)| {
            let text = || attribute.string_value.clone().or(attribute.binary_value.clone());
            let value = if mask.hides(name) { MASKED.into() } else { mask.text(&text().unwrap_or_default()) };
            (name.clone(), value.chars().take(MOST).collect())
        });
        Some(Self { body, is_cut, attributes: attributes.collect() })
    }
}

/// The values that nobody is shown: those of attributes of some names, and links to unsubscribe, however deep they lie. A Lambda
/// event has its envelopes in a list, and the message of an envelope may be a text with JSON in it.
#[derive(Debug, Clone, Copy)]
pub struct Mask<'a> {
    names: &'a [String],
}

impl<'a> Mask<'a> {
    /// A mask of the attributes of these names, whatever their case.
    #[must_use]
    pub fn new(names: &'a [String]) -> Self {
        Self { names }
    }

    /// The names of the attributes.
    #[must_use]
    pub fn names(&self) -> &'a [String] {
        self.names
    }

    /// Reports whether the values of attributes of this name are hidden.
    #[must_use]
    pub fn hides(&self, name: &str) -> bool {
        self.names.iter().any(|it| it.eq_ignore_ascii_case(name))
    }

    /// Returns a text without what is hidden. Where it has nothing of that, it stays byte for byte.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        let mut value = Value::from(text);
        self.value(&mut value);
        value.as_str().unwrap_or_default().to_owned()
    }

    /// Takes from a value what is hidden, and returns whether it had any of that.
    pub fn value(&self, value: &mut Value) -> bool {
        self.visit(value, false, &mut |hidden| *hidden = MASKED.into())
    }

    /// Returns the texts that are hidden in a value.
    #[must_use]
    pub fn secrets(&self, value: &Value) -> BTreeSet<String> {
        let mut secrets = BTreeSet::new();
        self.visit(&mut value.clone(), false, &mut |hidden| leaves(hidden, &mut secrets));
        secrets
    }

    /// Reports whether a text that is no whole JSON may have something to hide: it has one of the names, or could write one
    /// with escapes.
    fn may_hide(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let names = self.names.iter().map(String::as_str).chain([UNSUBSCRIBE]);
        text.contains("\\u") || names.into_iter().any(|name| text.contains(&name.to_lowercase()))
    }

    /// Does something with each value that is hidden, and returns whether there is one.
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
            Value::String(text) => match Opened::of(text) {
                Opened::Json(mut inner) => {
                    let found = self.visit(&mut inner, of_attributes, hide);
                    if found {
                        *text = inner.to_string();
                    }
                    found
                }
                Opened::Broken if !self.may_hide(text) => false,
                Opened::TooDeep | Opened::Broken => {
                    hide(value);
                    true
                }
                Opened::Text => false,
            },
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
}

/// A text that may have JSON in it.
enum Opened {
    /// An object or a list.
    Json(Value),
    /// JSON that is nested deeper than `serde_json` reads, so nobody knows what is in it.
    TooDeep,
    /// The beginning of JSON, with something else behind it or cut off.
    Broken,
    /// Something else.
    Text,
}

impl Opened {
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

/// Collects the texts of a value, but for the name of a type.
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

    /// An envelope with a link and an attribute that are not for everybody.
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
        let mask = Mask::new(&names);
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
        // A name counts among attributes only.
        for other in ["no JSON", r#"{ "b": 1,  "a": 2 }"#, "[1]", r#"{"token":  "t"}"#, "{", r#""x""#] {
            assert_eq!(mask.text(other), other);
        }
    }

    #[test]
    fn json_that_is_not_whole_is_masked_if_it_may_have_something_to_hide() {
        let names = ["token".to_owned()];
        let mask = Mask::new(&names);
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
        assert!(Mask::new(&names).secrets(&value).contains("4111"));
    }

    #[test]
    fn what_is_nested_too_deep_to_be_looked_through_is_masked_whole() {
        let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(200), "]".repeat(200));
        let mask = Mask::new(&[]);
        let hidden = deep(r#"{"UnsubscribeURL":"https://x/?Action=Unsubscribe"}"#);
        assert_eq!(mask.text(&hidden), "(masked)");
        let shown = mask.text(&json!({ "Message": hidden, "Subject": "s" }).to_string());
        assert!(!shown.contains("Action=Unsubscribe") && shown.contains("\"Subject\":\"s\""), "{shown}");
    }
}
