//! The event that a function gets.
//!
//! A Lambda subscriber of SNS gets `Records[].Sns`, spelled slightly differently from the envelope in the
//! dead-letter queue. A function that failed gets its own event back. If the event is SNS's, our mark goes
//! into the record's message attributes, and the function is invoked asynchronously, as SNS does it: if it
//! fails, Lambda's own dead-letter queue gets the event with the mark in it. A plain event has no place for a
//! mark. Then the function is invoked synchronously, so that this software sees and counts its failure.
//! <https://docs.aws.amazon.com/lambda/latest/dg/with-sns.html>

use std::borrow::Cow;

use redrive_core::arn::Arn;
use redrive_core::letter::{Letter, MARK_ATTRIBUTE, Mark, Origin, original_event};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

/// A call of a function.
#[derive(Clone, PartialEq, Eq)]
pub struct InvokePayload<'a> {
    /// The event, as JSON.
    pub payload: Cow<'a, str>,
    /// `true` if the call waits for the function's answer.
    pub synchronous: bool,
}

/// Makes the event of a letter for a function. Returns `None` if the letter holds no JSON, which an event
/// must be.
pub(super) fn invoke<'a>(
    letter: &'a Letter,
    subscription: Option<&Arn>,
    mark: &Mark,
) -> Option<InvokePayload<'a>> {
    let event = original_event(letter);
    if letter.notification.is_none() {
        serde_json::from_str::<IgnoredAny>(event).ok()?;
        return Some(InvokePayload { payload: Cow::Borrowed(event), synchronous: true });
    }
    let event: Value = serde_json::from_str(event).ok()?;
    let mut event = match letter.origin {
        Origin::LambdaAsync | Origin::LambdaDestination { .. } => event,
        Origin::Sns
        | Origin::Sqs { .. }
        | Origin::EventBridge { .. }
        | Origin::EventBusRecord
        | Origin::Raw => from_envelope(event, subscription.or(letter.subscription())),
    };
    let sns = event.pointer_mut("/Records/0/Sns")?.as_object_mut()?;
    let attributes = sns.entry("MessageAttributes").or_insert(Value::Null);
    if !attributes.is_object() {
        *attributes = Value::Object(Map::new());
    }
    attributes[MARK_ATTRIBUTE] = json!({ "Type": "String", "Value": mark.to_attribute().text() });
    Some(InvokePayload { payload: Cow::Owned(event.to_string()), synchronous: false })
}

/// Makes the record that SNS would send from the envelope that it stored.
fn from_envelope(mut envelope: Value, subscription: Option<&Arn>) -> Value {
    let mut take = |name: &str| envelope.get_mut(name).map_or(Value::Null, Value::take);
    let mut sns = json!({
        "Type": take("Type"),
        "MessageId": take("MessageId"),
        "TopicArn": take("TopicArn"),
        "Subject": take("Subject"),
        "Message": take("Message"),
        "Timestamp": take("Timestamp"),
        "MessageAttributes": take("MessageAttributes"),
    });
    // A FIFO topic does not sign its messages; it numbers them.
    for (from, to) in [
        ("SequenceNumber", "SequenceNumber"),
        ("SignatureVersion", "SignatureVersion"),
        ("Signature", "Signature"),
        ("SigningCertURL", "SigningCertUrl"),
        ("UnsubscribeURL", "UnsubscribeUrl"),
    ] {
        if let value @ Value::String(_) = take(from) {
            sns[to] = value;
        }
    }
    json!({ "Records": [{
        "EventSource": "aws:sns",
        "EventVersion": "1.0",
        "EventSubscriptionArn": subscription,
        "Sns": sns,
    }] })
}

/// Hides the event.
impl std::fmt::Debug for InvokePayload<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.synchronous { "synchronous" } else { "asynchronous" };
        write!(f, "{kind} call with {} bytes", self.payload.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_shows_its_size_and_nothing_of_its_content() {
        let shown =
            |synchronous| format!("{:?}", InvokePayload { payload: Cow::Borrowed("secret"), synchronous });
        assert_eq!(
            [true, false].map(shown),
            ["synchronous call with 6 bytes", "asynchronous call with 6 bytes"]
        );
    }
}
