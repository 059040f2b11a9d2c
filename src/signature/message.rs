//! What SNS signed, taken from a letter.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::fault::SignatureFault;
use super::url::CertificateUrl;
use crate::arn::{Arn, ArnKind};

/// A message with its signature, not verified yet.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedMessage {
    topic: Arn,
    version: SignatureVersion,
    signed: Vec<u8>,
    signature: Vec<u8>,
    certificate: CertificateUrl,
}

/// How a message is signed; an attribute of the topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureVersion {
    /// `SHA1withRSA`, the default of topics.
    V1,
    /// `SHA256withRSA`.
    V2,
}

/// The signed fields in the order in which they are signed. All but `Subject` are always there.
/// <https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message-verify-message-signature.html>
const SIGNED_FIELDS: [&str; 6] = ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"];

impl SignedMessage {
    /// Reads an envelope, or the event that SNS sends to a function. `text` must be what will be
    /// sent on, else the signature says nothing about it.
    ///
    /// # Errors
    ///
    /// [`SignatureFault::Unsigned`] for raw bodies, messages of FIFO topics and everything else
    /// without a signature; `Malformed`, `Ambiguous`, `UnknownVersion` and `ForeignCertificateUrl`
    /// for what SNS would never send.
    pub fn read(text: &str) -> Result<Self, SignatureFault> {
        let outer = Object::read(text)?;
        match (outer.get("Records"), outer.get("Type")) {
            (Some(records), None) => Self::from_records(records),
            (None, _) => Self::from_message(&outer),
            // One reader would take it for an event, another for an envelope.
            (Some(_), Some(_)) => Err(SignatureFault::Ambiguous),
        }
    }

    /// The topic that signed.
    #[must_use]
    pub fn topic(&self) -> &Arn {
        &self.topic
    }

    /// How it is signed.
    #[must_use]
    pub fn version(&self) -> SignatureVersion {
        self.version
    }

    /// The certificate that it names.
    #[must_use]
    pub fn certificate(&self) -> &CertificateUrl {
        &self.certificate
    }

    /// The text that is signed, as bytes.
    pub(super) fn signed(&self) -> &[u8] {
        &self.signed
    }

    pub(super) fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// SNS puts exactly one record into an event.
    fn from_records(records: &RawValue) -> Result<Self, SignatureFault> {
        let records: Vec<&RawValue> =
            serde_json::from_str(records.get()).map_err(|_| SignatureFault::Unsigned)?;
        let [record] = records.as_slice() else {
            return Err(SignatureFault::Unsigned);
        };
        let record = Object::read(record.get())?;
        let message = record.get("Sns").ok_or(SignatureFault::Unsigned)?;
        Self::from_message(&Object::read(message.get())?)
    }

    fn from_message(object: &Object<'_>) -> Result<Self, SignatureFault> {
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

/// The text that is signed: every field as its name, a line feed, its value, a line feed. The names
/// are not escaped in the values, so a value with line feeds could pass for several fields. SNS
/// allows them in `Message` alone, and then the text can be taken apart in one way only, since all
/// other fields have a fixed place at its end.
fn signed_text(object: &Object<'_>) -> Result<String, SignatureFault> {
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
            // In events for functions a message without subject has the subject `null`.
            None if name == "Subject" => {}
            Some(_) | None => return Err(SignatureFault::Malformed),
        }
    }
    Ok(signed)
}

/// The members of a JSON object, each of which stands there once.
///
/// Of a member that stands there twice, some readers take the first and some the last; some, such
/// as Go's, do not mind the case. Whoever gets the letter may be any of them.
struct Object<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Object<'a> {
    fn read(text: &'a str) -> Result<Self, SignatureFault> {
        let Members(members) = serde_json::from_str(text).map_err(|_| SignatureFault::Unsigned)?;
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

    /// A member's text; `null` counts as absent.
    fn text(&self, name: &str) -> Result<Option<String>, SignatureFault> {
        let Some(value) = self.get(name) else { return Ok(None) };
        serde_json::from_str(value.get()).map_err(|_| SignatureFault::Malformed)
    }
}

/// The name without case. Upper case first: it makes an `S` of the long s, as Go does.
fn fold(name: &str) -> String {
    name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// The members of a JSON object as they stand there, repeated ones too.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

/// Hides what is signed.
impl fmt::Debug for SignedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignedMessage")
            .field("topic", &self.topic)
            .field("version", &self.version)
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}
