//! The signed content of a letter.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_core::arn::{Arn, ArnKind};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::fault::SignatureFault;
use super::url::CertificateUrl;

/// A message with its signature, which is not verified yet.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedMessage {
    topic: Arn,
    version: SignatureVersion,
    signed: Vec<u8>,
    signature: Vec<u8>,
    certificate: CertificateUrl,
}

/// The way a message is signed. It is an attribute of the topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureVersion {
    /// `SHA1withRSA`, the default of topics.
    V1,
    /// `SHA256withRSA`.
    V2,
}

/// The signed fields, in the order in which they are signed. All except `Subject` are always present.
/// <https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message-verify-message-signature.html>
const SIGNED_FIELDS: [&str; 6] = ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"];

impl SignedMessage {
    /// Reads an envelope, or the event that SNS sends to a function. `text` must be the text that will be
    /// sent on, or the signature says nothing about it.
    ///
    /// # Errors
    ///
    /// [`SignatureFault::Unsigned`] for raw bodies, messages of FIFO topics and everything else without a
    /// signature; `Malformed`, `Ambiguous`, `UnknownVersion` and `ForeignCertificateUrl` for a text that SNS
    /// would never send.
    pub fn read(text: &str) -> Result<Self, SignatureFault> {
        let outer = UniqueMembers::read(text)?;
        match (outer.get("Records"), outer.get("Type")) {
            (Some(records), None) => Self::from_records(records),
            (None, _) => Self::from_message(&outer),
            // One reader would take it for an event, another for an envelope.
            (Some(_), Some(_)) => Err(SignatureFault::Ambiguous),
        }
    }

    /// Returns the topic that signed.
    #[must_use]
    pub fn topic(&self) -> &Arn {
        &self.topic
    }

    /// Returns the way it is signed.
    #[must_use]
    pub fn version(&self) -> SignatureVersion {
        self.version
    }

    /// Returns the URL of the certificate that it names.
    #[must_use]
    pub fn certificate(&self) -> &CertificateUrl {
        &self.certificate
    }

    /// Returns the signed text, as bytes.
    pub(super) fn signed(&self) -> &[u8] {
        &self.signed
    }

    pub(super) fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// Reads a message from an event's records. SNS puts exactly one record into an event.
    fn from_records(records: &RawValue) -> Result<Self, SignatureFault> {
        let records: Vec<&RawValue> =
            serde_json::from_str(records.get()).map_err(|_| SignatureFault::Unsigned)?;
        let [record] = records.as_slice() else {
            return Err(SignatureFault::Unsigned);
        };
        let record = UniqueMembers::read(record.get())?;
        let message = record.get("Sns").ok_or(SignatureFault::Unsigned)?;
        Self::from_message(&UniqueMembers::read(message.get())?)
    }

    fn from_message(object: &UniqueMembers<'_>) -> Result<Self, SignatureFault> {
        let url = object.text("SigningCertURL")?.or(object.text("SigningCertUrl")?);
        let proof = (object.text("SignatureVersion")?, object.text("Signature")?, url);
        let (Some(version), Some(signature), Some(url)) = proof else {
            return Err(SignatureFault::Unsigned);
        };
        let version = match version.as_str() {
            "1" => SignatureVersion::V1,
            "2" => SignatureVersion::V2,
            _ => return Err(SignatureFault::UnknownVersion),
        };
        let signed = signed_text(object)?;
        let topic = object.text("TopicArn")?.and_then(|arn| arn.parse::<Arn>().ok());
        let topic = topic.filter(|arn| arn.kind() == ArnKind::Topic).ok_or(SignatureFault::Malformed)?;
        let signature = STANDARD.decode(signature).map_err(|_| SignatureFault::Malformed)?;
        let certificate = CertificateUrl::of(&url, &topic)?;
        Ok(Self { topic, version, signed: signed.into_bytes(), signature, certificate })
    }
}

/// Returns the signed text: for every field its name, a line feed, its value, a line feed.
///
/// Names are not escaped in values, so a value with line feeds could pass for several fields. SNS allows line
/// feeds only in `Message`. Then the text has only one meaning, because all other fields have a fixed place
/// at its end.
fn signed_text(object: &UniqueMembers<'_>) -> Result<String, SignatureFault> {
    if object.text("Type")?.as_deref() != Some("Notification") {
        return Err(SignatureFault::Malformed);
    }
    let mut signed = String::new();
    for name in SIGNED_FIELDS {
        match object.text(name)? {
            Some(value) if name == "Message" || !value.contains('\n') => {
                for part in [name, "\n", &value, "\n"] {
                    signed.push_str(part);
                }
            }
            // In events for functions, a message without a subject has the subject `null`.
            None if name == "Subject" => {}
            Some(_) | None => return Err(SignatureFault::Malformed),
        }
    }
    Ok(signed)
}

/// The members of a JSON object without repeated names.
///
/// If a member is repeated, some readers take the first and some the last; some, such as Go's, ignore case.
/// The letter may reach any of these readers.
struct UniqueMembers<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> UniqueMembers<'a> {
    fn read(text: &'a str) -> Result<Self, SignatureFault> {
        let OrderedMembers(members) = serde_json::from_str(text).map_err(|_| SignatureFault::Unsigned)?;
        let names: BTreeSet<_> = members.iter().map(|(name, _)| fold(name)).collect();
        if names.len() == members.len() {
            Ok(Self(members.into_iter().collect()))
        } else {
            Err(SignatureFault::Ambiguous)
        }
    }

    fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.get(name).copied()
    }

    /// Returns the text of a member. `null` counts as missing.
    fn text(&self, name: &str) -> Result<Option<String>, SignatureFault> {
        let Some(value) = self.get(name) else { return Ok(None) };
        serde_json::from_str(value.get()).map_err(|_| SignatureFault::Malformed)
    }
}

/// Returns the name without case. It converts to upper case first, which turns the long s into `S`, as Go
/// does.
fn fold(name: &str) -> String {
    name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// The members of a JSON object in their order, including repeated ones.
struct OrderedMembers<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for OrderedMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = OrderedMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(OrderedMembers(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

/// Hides the signed content.
impl fmt::Debug for SignedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignedMessage")
            .field("topic", &self.topic)
            .field("version", &self.version)
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}
