//! Messages as senders write them: bodies, attributes, entries of batch requests.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};
use serde_json::{Map, Value, json};

/// The longest group or deduplication id.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html>
/// <https://docs.aws.amazon.com/sns/latest/api/API_Publish.html>
pub(crate) const MAX_TOKEN: usize = 128;

/// Reports whether SQS and SNS take a text as a group or a deduplication id.
pub(crate) fn is_token(text: &str) -> bool {
    let good = |it: char| it.is_ascii_alphanumeric() || it.is_ascii_punctuation();
    (1..=MAX_TOKEN).contains(&text.len()) && text.chars().all(good)
}

/// Message attributes by name.
pub type SimAttributes = BTreeMap<String, SimAttribute>;

/// The value of a message attribute with its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimAttribute {
    /// `String`, `Number`, `Binary`, or one of these with a label of the sender: `Number.float`.
    pub kind: String,
    /// The value.
    pub value: SimAttributeValue,
}

/// Text or bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SimAttributeValue {
    /// A `StringValue`.
    Text(String),
    /// A `BinaryValue`.
    Bytes(Vec<u8>),
}

/// One entry of a batch request of SQS, SNS or Firehose, or the message of a single one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimEntry {
    /// The entry's id within its request.
    pub id: String,
    /// The message's body.
    pub body: String,
    /// The subject, which only SNS knows.
    pub subject: Option<String>,
    /// `MessageStructure`, which only SNS knows: `json` if the body has a text for each protocol.
    pub structure: Option<String>,
    /// The message attributes.
    pub attributes: SimAttributes,
    /// `MessageGroupId`.
    pub group: Option<String>,
    /// `MessageDeduplicationId`.
    pub deduplication: Option<String>,
    /// `AWSTraceHeader`.
    pub trace: Option<String>,
    /// `DelaySeconds`.
    pub delay: Option<i64>,
    /// The receipt handle of a message that the entry changes or deletes.
    pub handle: Option<String>,
    /// `VisibilityTimeout` in seconds.
    pub visibility: Option<i64>,
}

impl SimAttribute {
    /// Returns a `String` attribute.
    pub fn string(text: impl Into<String>) -> Self {
        Self { kind: "String".to_owned(), value: SimAttributeValue::Text(text.into()) }
    }

    /// Returns a `Number` attribute.
    pub fn number(text: impl Into<String>) -> Self {
        Self { kind: "Number".to_owned(), value: SimAttributeValue::Text(text.into()) }
    }

    /// Returns a `Binary` attribute.
    pub fn binary(bytes: impl Into<Vec<u8>>) -> Self {
        Self { kind: "Binary".to_owned(), value: SimAttributeValue::Bytes(bytes.into()) }
    }
}

impl SimAttributeValue {
    /// Returns the bytes of the value.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// Returns text as it is and bytes in base64.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Bytes(bytes) => STANDARD.encode(bytes),
        }
    }
}

impl SimEntry {
    /// Returns an entry with this body.
    pub fn new(id: impl Into<String>, body: impl Into<String>) -> Self {
        Self { id: id.into(), body: body.into(), ..Self::default() }
    }

    /// Adds an attribute.
    #[must_use]
    pub fn with(mut self, name: &str, value: SimAttribute) -> Self {
        self.attributes.insert(name.to_owned(), value);
        self
    }

    /// Names the group and the deduplication id of a FIFO message.
    #[must_use]
    pub fn fifo(mut self, group: &str, deduplication: &str) -> Self {
        self.group = Some(group.to_owned());
        self.deduplication = Some(deduplication.to_owned());
        self
    }

    /// Returns the bytes that AWS counts: the body, and names, types and values of the attributes.
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
    #[must_use]
    pub fn size(&self) -> usize {
        self.body.len() + attributes_size(&self.attributes)
    }
}

/// Returns the bytes for which attributes count.
pub(crate) fn attributes_size(attributes: &SimAttributes) -> usize {
    attributes.iter().map(|(name, it)| name.len() + it.kind.len() + it.value.bytes().len()).sum()
}

/// Returns a text's MD5 in hexadecimal.
pub(crate) fn md5_of(bytes: &[u8]) -> String {
    hex(&Md5::digest(bytes))
}

/// Returns attributes' MD5 as SQS computes it, over names, types and values with their lengths.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html>
pub(crate) fn md5_of_attributes(attributes: &SimAttributes) -> Option<String> {
    let mut hash = Md5::new();
    for (name, SimAttribute { kind, value }) in attributes {
        for part in [name.as_bytes(), kind.as_bytes()] {
            hash.update(length(part));
            hash.update(part);
        }
        // The transport type stands between type and value and has no length.
        hash.update([if matches!(value, SimAttributeValue::Text(_)) { 1 } else { 2 }]);
        hash.update(length(value.bytes()));
        hash.update(value.bytes());
    }
    (!attributes.is_empty()).then(|| hex(&hash.finalize()))
}

fn length(part: &[u8]) -> [u8; 4] {
    u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes()
}

/// Returns bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns attributes as SNS writes them into an envelope and as Lambda gets them from SNS.
pub(crate) fn sns_attributes(attributes: &SimAttributes) -> Map<String, Value> {
    let attribute = |it: &SimAttribute| json!({ "Type": it.kind, "Value": it.value.text() });
    attributes.iter().map(|(name, it)| (name.clone(), attribute(it))).collect()
}
