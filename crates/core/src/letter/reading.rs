//! The form of a message: its origin and its content.

use super::claim::OriginClaim;
use super::digest::MessageDigest;
use super::mark::{MARK_ATTRIBUTE, Mark};
use super::message::SqsMessage;
use super::notification::{Notification, object};
use super::origin::{LetterCause, Origin};
use super::records::{DestinationRecord, EventBusRecord, payload_of_destination};
use crate::arn::Arn;

/// A message's form, and what was read from it.
pub(super) struct MessageForm {
    pub(super) origin: Origin,
    pub(super) notification: Option<Notification>,
    pub(super) cause: Option<LetterCause>,
    pub(super) unlisted: Option<OriginClaim>,
}

impl MessageForm {
    /// Reads a message. The order matters. SQS's own attributes cannot be forged, and what an envelope says
    /// is checked with SNS. Any sender can write the rest, so an origin that rests on it must be `listed`.
    pub(super) fn of(sqs: &SqsMessage, source: Option<Arn>, listed: impl Fn(OriginClaim) -> bool) -> Self {
        let plain = |origin, notification| Self { origin, notification, cause: None, unlisted: None };
        if let Some(source) = sqs.source_queue().or(source) {
            return plain(Origin::Sqs { source }, Notification::from_envelope(&sqs.body));
        }
        if let Some(notification) = Notification::from_envelope(&sqs.body) {
            return plain(Origin::Sns, Some(notification));
        }
        if EventBusRecord::is_in(&sqs.body) {
            return plain(Origin::EventBusRecord, None);
        }
        match Self::claimed(sqs) {
            Some((claim, claimed)) if listed(claim) => claimed,
            claimed => Self { unlisted: claimed.map(|(claim, _)| claim), ..plain(Origin::Raw, None) },
        }
    }

    /// Returns the origin that it claims. Attributes are cheaper to read than bodies, so they come first.
    fn claimed(sqs: &SqsMessage) -> Option<(OriginClaim, Self)> {
        let claimed = |claim, reading: Option<Self>| reading.map(|reading| (claim, reading));
        claimed(OriginClaim::EventBridge, Self::of_eventbridge(sqs))
            .or_else(|| claimed(OriginClaim::LambdaAsync, Self::of_lambda_async(sqs)))
            .or_else(|| claimed(OriginClaim::LambdaDestination, Self::of_lambda_destination(sqs)))
    }

    fn of_eventbridge(sqs: &SqsMessage) -> Option<Self> {
        let arn = |name| sqs.text_attribute(name)?.parse().ok();
        let origin = Origin::EventBridge { rule: arn("RULE_ARN")?, target: arn("TARGET_ARN")? };
        let cause = LetterCause::new(sqs.text_attribute("ERROR_CODE"), sqs.text_attribute("ERROR_MESSAGE"));
        Some(Self { origin, notification: None, cause, unlisted: None })
    }

    fn of_lambda_async(sqs: &SqsMessage) -> Option<Self> {
        sqs.text_attribute("RequestID")?;
        let code = sqs.text_attribute("ErrorCode")?;
        Some(Self {
            origin: Origin::LambdaAsync,
            notification: Notification::from_lambda_event(&sqs.body),
            cause: LetterCause::new(Some(code), sqs.text_attribute("ErrorMessage")),
            unlisted: None,
        })
    }

    fn of_lambda_destination(sqs: &SqsMessage) -> Option<Self> {
        let wire: DestinationRecord = object(&sqs.body)?;
        // The record of a success has the same form, and its event must not run again.
        if wire.request_context.condition == "Success" {
            return None;
        }
        let response = wire.response_payload.unwrap_or_default();
        let code = response.error_type.or(wire.response_context.unwrap_or_default().function_error);
        let code = code.unwrap_or(wire.request_context.condition);
        Some(Self {
            origin: Origin::LambdaDestination {
                function: wire.request_context.function_arn.without_latest(),
            },
            notification: Notification::from_lambda_event(wire.request_payload.get()),
            cause: LetterCause::new(Some(&code), response.error_message.as_deref()),
            unlisted: None,
        })
    }
}

/// Returns the mark in an event of SNS that a body holds, even if nothing else of the event is believed. A
/// mark names no target, so a forged one can only end its own letter early.
pub(super) fn mark_in_event(body: &str) -> Option<Mark> {
    // Few bodies hold a mark, so the others are not parsed.
    let event = body.contains(MARK_ATTRIBUTE).then(|| payload_of_destination(body).unwrap_or(body))?;
    Some(Mark::find(&Notification::from_lambda_event(event)?.attributes)?.outside_requeue())
}

/// Reports whether a mark was made for this message. A raw delivery of a message that is itself an envelope
/// reads as an envelope, so a digest of the body as it stands counts as well.
pub(super) fn is_of(digest: MessageDigest, body: &str, sns: Option<&Notification>) -> bool {
    let message = sns.map_or_else(|| digest_of_body(body), |sns| sns.digest);
    message == digest || MessageDigest::of(body) == digest
}

/// Returns the digest of the message in a body: the message that SNS published, else the body itself.
pub(super) fn digest_of_body(body: &str) -> MessageDigest {
    let event = payload_of_destination(body).unwrap_or(body);
    let sns = Notification::from_envelope(event).or_else(|| Notification::from_lambda_event(event));
    sns.map_or_else(|| MessageDigest::of(body), |sns| sns.digest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_has_one_digest_however_it_is_wrapped() {
        let arn = "arn:aws:sns:eu-central-1:123456789012:payments";
        let sns = json!({ "Type": "Notification", "MessageId": "m", "TopicArn": arn, "Message": "h\u{e9}llo \"1\"" });
        let event =
            json!({ "Records": [{ "EventSource": "aws:sns", "EventSubscriptionArn": arn, "Sns": sns }] });
        let context =
            json!({ "functionArn": "arn:aws:lambda:eu-central-1:123456789012:function:f", "condition": "x" });
        let record = json!({ "requestContext": context, "requestPayload": event });
        let message = MessageDigest::of("h\u{e9}llo \"1\"");
        for body in ["h\u{e9}llo \"1\"".to_owned(), sns.to_string(), event.to_string(), record.to_string()] {
            assert_eq!(digest_of_body(&body), message, "{body}");
        }
        assert_ne!(digest_of_body("hello"), message);
    }
}
