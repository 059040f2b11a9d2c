//! Checks that a letter arrives whole, wherever it goes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_sim::{SimAttribute, SimAttributeValue, SimAttributes, SimCall, SimEntry};
use serde_json::Value;

use super::writing::enveloped;
use super::{MARK, ProofLetter, ProofLetterKind, subscription};

/// The attribute with the reason why a message is archived.
const ARCHIVE_CONTEXT: &str = "sns-redrive-archive";

impl ProofLetter {
    /// Checks that an entry of a call is this letter, whole and at its target; returns the number of the
    /// retry by its mark, if it has one.
    ///
    /// # Errors
    ///
    /// The error says what is wrong.
    pub fn arrives(&self, op: &str, to: &str, entry: &SimEntry) -> Result<Option<usize>, String> {
        let target = self.kind.target(self.fifo);
        if target.as_ref().map(|(op, to)| (*op, to.as_str())) != Some((op, to)) {
            return Err(format!("{op} {to} is no place for {}", self.kind.name()));
        }
        match op {
            "SendMessageBatch" => {
                same("body", &entry.body, &self.body)?;
                same("group", &entry.group, &self.group)?;
                same("trace header", &entry.trace, &self.trace)?;
                let attributes = if self.kind == ProofLetterKind::Plain {
                    SimAttributes::new()
                } else {
                    self.attributes.clone()
                };
                unmarked(&entry.attributes, &attributes)
            }
            "PublishBatch" => {
                let sns = self.sns.as_ref().ok_or("no message of SNS")?;
                same("message", &entry.body, &sns.message)?;
                same("subject", &entry.subject.as_deref(), &Some(sns.subject.as_str()))?;
                same("group", &entry.group, &self.group)?;
                unmarked(&entry.attributes, &sns.attributes)
            }
            "Invoke" if self.kind != ProofLetterKind::Plain => self.event(&entry.body),
            "PutRecordBatch" => {
                same("record", &entry.body.as_str(), &[&self.body, "\n"].concat().as_str()).map(|()| None)
            }
            _ => same("body", &entry.body, &self.body).map(|()| None),
        }
    }

    /// Checks that a message for the requeue is this letter; returns the retries behind it by its mark.
    ///
    /// # Errors
    ///
    /// The error says what is wrong.
    pub fn moves(&self, entry: &SimEntry) -> Result<Option<usize>, String> {
        same("body", &entry.body, &self.body)?;
        same("group", &entry.group, &self.group)?;
        same("trace header", &entry.trace, &self.trace)?;
        unmarked(&entry.attributes, &self.attributes)
    }

    /// Checks that a message for an archive queue is this letter; returns the reason if the message has the
    /// record.
    ///
    /// # Errors
    ///
    /// The error says what is wrong.
    pub fn rests(&self, entry: &SimEntry) -> Result<Option<String>, String> {
        same("body", &entry.body, &self.body)?;
        same("group", &entry.group, &self.group)?;
        let mut attributes = entry.attributes.clone();
        let context = attributes.remove(ARCHIVE_CONTEXT);
        attributes.remove(MARK);
        same("attributes", &attributes, &self.attributes)?;
        let Some(context) = context else { return Ok(None) };
        let context: Value =
            serde_json::from_str(&context.value.text()).map_err(|error| error.to_string())?;
        Ok(Some(context["reason"].as_str().unwrap_or_default().to_owned()))
    }

    /// Checks that the message can be rebuilt from an archived record.
    ///
    /// # Errors
    ///
    /// The error says what is wrong.
    pub fn is_recorded(&self, record: &Value) -> Result<(), String> {
        let message = &record["message"];
        same("body", &message["body"].as_str().unwrap_or_default(), &self.body.as_str())?;
        let system = &message["attributes"];
        same("group", &system["MessageGroupId"].as_str(), &self.group.as_deref())?;
        same("trace header", &system["AWSTraceHeader"].as_str(), &self.trace.as_deref())?;
        let attributes = message["messageAttributes"].as_object().ok_or("no attributes")?;
        let mut attributes: SimAttributes = attributes
            .iter()
            .map(|(name, attribute)| {
                let text = |key: &str| attribute[key].as_str();
                let bytes = |text: &str| SimAttributeValue::Bytes(STANDARD.decode(text).unwrap_or_default());
                let value = text("stringValue").map(|text| SimAttributeValue::Text(text.to_owned()));
                let value =
                    value.or(text("binaryValue").map(bytes)).unwrap_or(SimAttributeValue::Bytes(Vec::new()));
                let kind = text("dataType").unwrap_or_default().to_owned();
                (name.clone(), SimAttribute { kind, value })
            })
            .collect();
        let came_back = attributes.remove(MARK).is_some();
        // SQS names the source in the first queue only; in the requeue the mark names it.
        let source = system["DeadLetterQueueSourceArn"].as_str();
        if !came_back || source.is_some() {
            same("source", &source, &self.source.as_deref())?;
        }
        same("attributes", &attributes, &self.attributes)
    }

    /// Checks that a POST is this letter.
    ///
    /// # Errors
    ///
    /// The error says what is wrong.
    pub fn is_posted(&self, post: &SimCall) -> Result<(), String> {
        same("body", &post.body.as_slice(), &self.body.as_bytes())?;
        let id = self.sns.as_ref().map(|sns| sns.id.as_str());
        same("id", &post.parameter("x-amz-sns-message-id"), &id)?;
        let through = subscription(self.kind, self.fifo);
        same("subscription", &post.parameter("x-amz-sns-subscription-arn"), &Some(through.as_str()))
    }

    fn event(&self, text: &str) -> Result<Option<usize>, String> {
        let sns = self.sns.as_ref().ok_or("no message of SNS")?;
        let event: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let record = &event["Records"][0];
        let text = |name: &str| record["Sns"][name].as_str();
        same("message", &text("Message"), &Some(sns.message.as_str()))?;
        same("id", &text("MessageId"), &Some(sns.id.as_str()))?;
        same("subject", &text("Subject"), &Some(sns.subject.as_str()))?;
        let through = subscription(self.kind, self.fifo);
        same("subscription", &record["EventSubscriptionArn"].as_str(), &Some(through.as_str()))?;
        let mut attributes = record["Sns"]["MessageAttributes"].as_object().ok_or("no attributes")?.clone();
        let mark = attributes.remove(MARK).ok_or("no mark")?;
        same("attributes", &Value::Object(attributes), &enveloped(&sns.attributes))?;
        spent(mark["Value"].as_str().unwrap_or_default()).map(Some)
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?}, not {expected:?}")) }
}

/// Checks that the attributes without the mark are these; returns the mark's retry.
fn unmarked(found: &SimAttributes, expected: &SimAttributes) -> Result<Option<usize>, String> {
    let mut found = found.clone();
    let mark = found.remove(MARK).ok_or("no mark")?;
    same("attributes", &found, expected)?;
    spent(&mark.value.text()).map(Some)
}

fn spent(mark: &str) -> Result<usize, String> {
    let mark: Value = serde_json::from_str(mark).map_err(|error| format!("mark: {error}"))?;
    let spent = mark["spent"].as_u64().and_then(|spent| usize::try_from(spent).ok());
    spent.filter(|_| mark["v"] == 2).ok_or_else(|| format!("mark: {mark}"))
}
