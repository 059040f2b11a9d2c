//! Records of an SQS event source mapping as they come, where everything may be missing. Only what somebody reads
//! is taken from a record: the rest is passed over, and takes neither time nor memory.
//!
//! Source: <https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html>

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

/// One message of an event.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SqsRecord {
    /// SQS's id.
    pub message_id: Option<String>,
    /// The handle by which the message is hidden and deleted.
    pub receipt_handle: Option<String>,
    /// The body.
    pub body: Option<String>,
    /// The system attributes.
    #[serde(default, deserialize_with = "or_empty")]
    pub attributes: BTreeMap<String, String>,
    /// The sender's message attributes.
    #[serde(default, deserialize_with = "or_empty")]
    pub message_attributes: BTreeMap<String, SqsRecordAttribute>,
    /// The queue.
    #[serde(rename = "eventSourceARN")]
    pub event_source_arn: Option<String>,
}

/// One message attribute.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SqsRecordAttribute {
    /// The value of a text.
    pub string_value: Option<String>,
    /// The value of bytes, decoded.
    #[serde(default, deserialize_with = "bytes")]
    pub binary_value: Option<Vec<u8>>,
    /// The type.
    pub data_type: Option<String>,
    /// The value of a text in the spelling of some emulators, which others write beside the usual one.
    #[serde(rename = "StringValue")]
    pub capital_string_value: Option<String>,
    /// The value of bytes in that spelling, decoded.
    #[serde(rename = "BinaryValue", default, deserialize_with = "bytes")]
    pub capital_binary_value: Option<Vec<u8>>,
    /// The type in that spelling.
    #[serde(rename = "DataType")]
    pub capital_data_type: Option<String>,
}

/// Lambda writes null for some of what is empty.
fn or_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u8>>, D::Error> {
    let text: Option<String> = Option::deserialize(deserializer)?;
    text.map(|text| STANDARD.decode(text).map_err(D::Error::custom)).transpose()
}
