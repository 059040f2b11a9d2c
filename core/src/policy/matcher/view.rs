//! The letter as patterns see it.

use serde_json::Value;

use super::Matcher;
use crate::letter::{Attribute, Attributes, Cause, Letter, MARK_ATTRIBUTE};

/// The fields of the view. A pattern over any other field could never match.
pub(super) const VIEW: [&str; 10] = [
    "origin",
    "letterId",
    "queueArn",
    "topicArn",
    "subscriptionArn",
    "subject",
    "messageAttributes",
    "message",
    "retry",
    "error",
];

/// Stands for the dots in names: `quamina` takes a dot for the beginning of a nested name.
const DOT: &str = "\u{e000}";

/// A field that every view has and every pattern asks for, the last of all by its name. `quamina` finds a
/// pattern that asks for several absent fields, or for one behind the last that is there, only if another
/// follows that is there.
pub(super) const LAST: &str = "~";

/// A letter as patterns see it.
#[derive(Debug)]
pub(in crate::policy) struct View {
    pub(super) value: Value,
    pub(super) json: String,
}

impl View {
    /// Returns the letter with the fields that these patterns need.
    pub(in crate::policy) fn of(letter: &Letter, patterns: &[&Matcher]) -> Self {
        let about = |field: &str| patterns.iter().any(|matcher| matcher.names(field));
        Self::from(view(letter, about))
    }
}

impl From<Value> for View {
    fn from(mut value: Value) -> Self {
        rename(&mut value);
        if let Some(fields) = value.as_object_mut() {
            fields.insert(LAST.to_owned(), true.into());
        }
        Self { json: value.to_string(), value }
    }
}

/// Takes the dots out of all names.
pub(super) fn rename(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.keys().any(|name| name.contains('.')) {
                let renamed = std::mem::take(fields).into_iter();
                *fields = renamed.map(|(name, value)| (name.replace('.', DOT), value)).collect();
            }
            fields.values_mut().for_each(rename);
        }
        Value::Array(values) => values.iter_mut().for_each(rename),
        _ => {}
    }
}

/// Returns the letter as patterns see it, with the fields that they are `about`. Fields that the letter does
/// not have are absent.
fn view(letter: &Letter, about: impl Fn(&str) -> bool) -> Value {
    let sns = letter.notification.as_ref();
    let attributes = sns.map_or(&letter.sqs.attributes, |sns| &sns.attributes);
    let value = |field: &str| match field {
        "origin" => Some(letter.origin.name().into()),
        "letterId" => Some(letter.id.as_str().into()),
        "queueArn" => Some(letter.dead_letter_queue().as_str().into()),
        "topicArn" => Some(letter.topic()?.as_str().into()),
        "subscriptionArn" => Some(letter.subscription()?.as_str().into()),
        "subject" => Some(sns?.subject.as_deref()?.into()),
        "messageAttributes" => Some(seen_attributes(attributes)),
        "message" => {
            let message = letter.message();
            Some(serde_json::from_str(&message).unwrap_or_else(|_| message.into()))
        }
        "retry" => Some(letter.earlier().into()),
        "error" => letter.cause.as_ref().map(error),
        _ => None,
    };
    let fields = VIEW.into_iter().filter(|field| about(field));
    Value::Object(fields.filter_map(|field| Some((field.to_owned(), value(field)?))).collect())
}

/// Returns the attributes without our mark, which comes and goes while the rule of a letter must not change.
fn seen_attributes(attributes: &Attributes) -> Value {
    let others = attributes.iter().filter(|(name, _)| *name != MARK_ATTRIBUTE);
    Value::Object(others.filter_map(|(name, value)| Some((name.clone(), seen(value)?))).collect())
}

/// Returns the original error. The parts that it does not have are absent.
fn error(cause: &Cause) -> Value {
    let parts = [("code", &cause.code), ("message", &cause.message)];
    let known = parts.into_iter().filter_map(|(name, part)| Some((name.to_owned(), part.as_deref()?.into())));
    Value::Object(known.collect())
}

/// Returns an attribute's value as SNS filter policies see it. Binary values cannot be matched.
fn seen(attribute: &Attribute) -> Option<Value> {
    let text = attribute.text()?;
    let parsed = match attribute.data_type.as_str() {
        "Number" | "String.Array" => serde_json::from_str(text).ok(),
        _ => None,
    };
    Some(parsed.unwrap_or_else(|| Value::from(text)))
}
