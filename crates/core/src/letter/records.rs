//! The records in which Lambda and `EventBridge` keep what they could not deliver.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::notification::object;
use crate::arn::Arn;

/// Returns the event in the record of a Lambda destination.
pub(super) fn payload_of_destination(body: &str) -> Option<&str> {
    object::<DestinationRecord<'_>>(body).map(|wire| wire.request_payload.get())
}

/// The record of events that a custom event bus could not deliver. It does not contain the events.
/// Source: <https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-custom-bus-retry.html>
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventBusRecord {
    bus_arn: Arn,
    #[serde(rename = "subscriberArn")]
    _subscriber_arn: IgnoredAny,
    #[serde(rename = "failedMessages")]
    _failed_messages: Vec<IgnoredAny>,
}

impl EventBusRecord {
    /// The prefix of the resource of such a bus.
    const BUS: &str = "event-busv2/";

    /// Reports whether a body is such a record. Few bodies are, so the others are not parsed.
    pub(super) fn is_in(body: &str) -> bool {
        let record = body.contains(Self::BUS).then(|| object::<Self>(body)).flatten();
        record.is_some_and(|record| record.bus_arn.resource().starts_with(Self::BUS))
    }
}

/// The record of a batch of a stream that a function could not process. It does not contain the batch.
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/kinesis-on-failure-destination.html>
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StreamBatch {
    #[serde(rename = "requestContext")]
    _request_context: RequestContext,
    #[serde(default, rename = "requestPayload")]
    request_payload: Option<IgnoredAny>,
    #[serde(flatten)]
    rest: BTreeMap<String, serde_json::Value>,
}

impl StreamBatch {
    /// Reports whether a body is such a record. Few bodies are, so the others are not parsed.
    pub(super) fn is_in(body: &str) -> bool {
        const INFO: &str = "BatchInfo";
        let record = body.contains(INFO).then(|| object::<Self>(body)).flatten();
        record.is_some_and(|record| {
            record.request_payload.is_none() && record.rest.keys().any(|name| name.ends_with(INFO))
        })
    }
}

/// The record of a Lambda destination.
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html>
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DestinationRecord<'a> {
    pub(super) request_context: RequestContext,
    #[serde(borrow)]
    pub(super) request_payload: &'a RawValue,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) response_context: Option<ResponseContext>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) response_payload: Option<ResponsePayload>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestContext {
    pub(super) function_arn: Arn,
    pub(super) condition: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResponseContext {
    pub(super) function_error: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResponsePayload {
    pub(super) error_type: Option<String>,
    pub(super) error_message: Option<String>,
}

/// Reads a value, or `None` if it has another shape. A function may answer anything; an answer of another
/// shape gives no cause, but is no reason to misread the letter.
fn lenient<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::de::DeserializeOwned,
{
    let raw = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).ok())
}
