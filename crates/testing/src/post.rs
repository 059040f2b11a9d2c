//! Messages as Lambda hands them over.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde_json::{Map, Value, json};

use super::{DLQ, NOW, SUBSCRIPTION, TOPIC, made_for};

/// One record of an SQS event, received for the first time and just now.
#[derive(Debug, Clone)]
pub struct RecordBuilder {
    pub id: String,
    pub queue: String,
    pub system: BTreeMap<String, String>,
    pub attributes: Map<String, Value>,
    content: RecordContent,
}

#[derive(Debug, Clone)]
enum RecordContent {
    Body(String),
    Envelope(Map<String, Value>),
}

impl RecordBuilder {
    /// Creates an SNS envelope whose message is `message of <id>`.
    pub fn envelope(id: &str) -> Self {
        let envelope = json!({
            "Type": "Notification",
            "MessageId": format!("sns-{id}"),
            "TopicArn": TOPIC,
            "Message": format!("message of {id}"),
            "Timestamp": "2026-11-01T11:59:58.351Z",
            "UnsubscribeURL": unsubscribe(SUBSCRIPTION),
            "MessageAttributes": {},
        });
        Self::new(id, RecordContent::Envelope(envelope.as_object().unwrap().clone()))
    }

    /// Creates a message of any other kind.
    pub fn raw(id: &str, body: &str) -> Self {
        Self::new(id, RecordContent::Body(body.to_owned()))
    }

    fn new(id: &str, content: RecordContent) -> Self {
        let system = [
            ("ApproximateReceiveCount", "1".to_owned()),
            ("SentTimestamp", NOW.to_string()),
            ("SenderId", "AIDAIEXAMPLE".to_owned()),
            ("ApproximateFirstReceiveTimestamp", NOW.to_string()),
        ];
        Self {
            id: id.to_owned(),
            queue: DLQ.to_owned(),
            system: system.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            attributes: Map::new(),
            content,
        }
    }

    fn envelope_field(mut self, name: &str, value: Value) -> Self {
        let RecordContent::Envelope(fields) = &mut self.content else { panic!("no envelope") };
        fields.insert(name.to_owned(), value);
        self
    }

    pub fn topic(self, topic: &str) -> Self {
        self.envelope_field("TopicArn", topic.into())
    }

    pub fn subscription(self, subscription: &str) -> Self {
        self.envelope_field("UnsubscribeURL", unsubscribe(subscription).into())
    }

    pub fn subject(self, subject: &str) -> Self {
        self.envelope_field("Subject", subject.into())
    }

    pub fn message(self, message: &str) -> Self {
        self.envelope_field("Message", message.into())
    }

    /// Adds an attribute inside the envelope; the value of a binary one is base64.
    pub fn sns_attribute(mut self, name: &str, kind: &str, value: &str) -> Self {
        let RecordContent::Envelope(fields) = &mut self.content else { panic!("no envelope") };
        let attributes = fields["MessageAttributes"].as_object_mut().unwrap();
        attributes.insert(name.to_owned(), json!({ "Type": kind, "Value": value }));
        self
    }

    /// Adds an attribute of the SQS message; the value of a binary one is base64.
    pub fn attribute(mut self, name: &str, kind: &str, value: &str) -> Self {
        let field = if kind.starts_with("Binary") { "binaryValue" } else { "stringValue" };
        let mut attribute = json!({ "stringListValues": [], "binaryListValues": [], "dataType": kind });
        attribute[field] = value.into();
        self.attributes.insert(name.to_owned(), attribute);
        self
    }

    /// Adds our mark, in the envelope if there is one.
    pub fn mark(self, mark: &Value) -> Self {
        let text = self.mark_text(mark);
        match self.content {
            RecordContent::Envelope(_) => self.sns_attribute("sns-redrive", "String", &text),
            RecordContent::Body(_) => self.attribute("sns-redrive", "String", &text),
        }
    }

    /// Adds our mark as an attribute of the SQS message.
    pub fn sqs_mark(self, mark: &Value) -> Self {
        let text = self.mark_text(mark);
        self.attribute("sns-redrive", "String", &text)
    }

    /// Returns the text of a mark, made for the present message unless it names another.
    fn mark_text(&self, mark: &Value) -> String {
        let message = match &self.content {
            RecordContent::Body(body) => body,
            RecordContent::Envelope(fields) => fields["Message"].as_str().unwrap(),
        };
        made_for(message, mark.clone()).to_string()
    }

    pub fn queue(mut self, queue: &str) -> Self {
        queue.clone_into(&mut self.queue);
        self
    }

    pub fn system(mut self, name: &str, value: impl Display) -> Self {
        self.system.insert(name.to_owned(), value.to_string());
        self
    }

    pub fn sent(self, millis: i64) -> Self {
        self.system("SentTimestamp", millis).system("ApproximateFirstReceiveTimestamp", millis)
    }

    pub fn received(self, times: u32) -> Self {
        self.system("ApproximateReceiveCount", times)
    }

    pub fn group(self, group: &str) -> Self {
        self.system("MessageGroupId", group)
    }

    pub fn moved_from(self, queue: &str) -> Self {
        self.system("DeadLetterQueueSourceArn", queue)
    }

    /// Returns the body as it lies in the queue.
    pub fn body(&self) -> String {
        match &self.content {
            RecordContent::Body(body) => body.clone(),
            // Spaces and line ends are as SNS writes them, since a delivered body must be equal to the byte.
            RecordContent::Envelope(fields) => serde_json::to_string_pretty(fields).unwrap(),
        }
    }

    /// Returns the record, with the receipt handle `handle-<id>`.
    pub fn record(&self) -> Value {
        json!({
            "messageId": self.id,
            "receiptHandle": format!("handle-{}", self.id),
            "body": self.body(),
            "attributes": self.system,
            "messageAttributes": self.attributes,
            "md5OfBody": "",
            "eventSource": "aws:sqs",
            "eventSourceARN": self.queue,
            "awsRegion": "eu-central-1",
        })
    }
}

fn unsubscribe(subscription: &str) -> String {
    format!("https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn={subscription}")
}

/// Returns an event of these messages.
pub fn event<'a>(posts: impl IntoIterator<Item = &'a RecordBuilder>) -> Value {
    json!({ "Records": posts.into_iter().map(RecordBuilder::record).collect::<Vec<_>>() })
}

/// Returns a file of `events/`.
pub fn sample(name: &str) -> Value {
    let path = super::events().join(format!("{name}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the names of the files of `events/`.
pub fn sample_names() -> Vec<String> {
    let folder = std::fs::read_dir(super::events()).unwrap();
    let names = folder.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter_map(|name| Some(name.strip_suffix(".json")?.to_owned())).collect();
    names.sort();
    assert!(names.len() >= 11, "{names:?}");
    names
}

/// Returns every file of `events/`, with its name.
pub fn samples() -> Vec<(String, Value)> {
    sample_names().into_iter().map(|name| (name.clone(), sample(&name))).collect()
}
