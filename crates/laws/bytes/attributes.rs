//! A law: message attributes of every type, and the mark, arrive as they were sent, in each of AWS's
//! spellings.

use jiff::Timestamp;
use redrive_aws::delivery::OutgoingMessage;
use redrive_core::arn::Arn;
use redrive_core::letter::MAX_ATTRIBUTES;
use redrive_core::letter::{
    AttributeValue, BelievedClaims, Letter, MARK_ATTRIBUTE, Mark, MessageAttribute, MessageAttributes,
    MessageDigest, Notification, Origin, ReplayTarget, RequeueMark, TrustedOrigins,
};
use serde_json::{Map, Value, json};

use super::{DLQ, NOW, base64, is_id, received, record};

const TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:payments";
const SUBSCRIPTION: &str =
    "arn:aws:sns:eu-central-1:123456789012:payments:43fe80b0-b10c-4081-9e18-5bdb8f9824e6";
const QUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-worker";

/// Names and types with a meaning, and some that look like them.
const NAMES: [&str; 8] = [
    "tenant",
    MARK_ATTRIBUTE,
    "RULE_ARN",
    "TARGET_ARN",
    "ERROR_CODE",
    "RequestID",
    "ErrorCode",
    "ErrorMessage",
];
const TYPES: [&str; 9] = [
    "String",
    "Number",
    "Binary",
    "String.Array",
    "Binary.png",
    "Number.int",
    "String.",
    "Binary.",
    "BinaryNot",
];

/// Checks the law. The bytes are a mark, then attributes, then a body.
pub fn check(data: &[u8]) {
    let mut bytes = Bytes(data);
    let mark = mark(&mut bytes);
    let attributes = attributes(&mut bytes, &mark);
    let body = bytes.rest();
    mark_reads_back(&mark);
    by_queue(&attributes, &body);
    by_topic(&attributes, &body);
}

fn mark_reads_back(mark: &Mark) {
    let carried = MessageAttributes::from([(MARK_ATTRIBUTE.to_owned(), mark.to_attribute())]);
    let found = Mark::find(&carried);
    assert!(
        found.as_ref() == is_id(&mark.id).then_some(mark),
        "a mark reads back as written, if its id can be one"
    );
}

/// Asserts that the attributes of a raw letter reach a queue.
fn by_queue(attributes: &MessageAttributes, body: &str) {
    let message = received(&[record(body, attributes)]).unwrap().remove(0);
    assert!(message.attributes == *attributes, "an attribute changed on its way in");
    let letter = Letter::received(message, BelievedClaims { requeue: None, origins: &TrustedOrigins::all() });
    let others = match letter.origin {
        Origin::EventBridge { .. } => MessageAttributes::new(),
        _ => without_mark(attributes),
    };
    for unmarked in [false, true] {
        let outgoing = OutgoingMessage::pack(&letter, &arn(QUEUE), unmarked, 3);
        let fits = others.len() < MAX_ATTRIBUTES;
        assert_eq!(outgoing.is_ok(), fits || unmarked, "a letter goes only as it was decided");
        let Ok(outgoing) = outgoing else { continue };
        assert_eq!(outgoing.unmarked, unmarked);
        assert!(outgoing.body == letter.sqs.body, "the body changed");
        let mark = letter.mark(3);
        let mark_bytes = if unmarked { 0 } else { mark.bytes() };
        assert_eq!(outgoing.size(), letter.carried_bytes(false) + mark_bytes);
        carried(&outgoing, &others, (!unmarked).then_some(mark));
    }
}

/// Asserts that the published attributes reach a topic, in any form of the letter.
fn by_topic(attributes: &MessageAttributes, message: &str) {
    let wire: Map<_, _> = attributes.iter().map(|(name, value)| (name.clone(), published(value))).collect();
    let sns = json!({
        "Type": "Notification", "MessageId": "d3344452-ca4e-5849-9b44-70f435b0010d", "TopicArn": TOPIC,
        "Message": message, "MessageAttributes": wire,
    });
    let mut envelope = sns.clone();
    envelope["UnsubscribeURL"] =
        format!("https://sns/?Action=Unsubscribe&SubscriptionArn={SUBSCRIPTION}").into();
    let event = json!({
        "Records": [{ "EventSource": "aws:sns", "EventSubscriptionArn": SUBSCRIPTION, "Sns": sns }]
    });
    let envelope = envelope.to_string();
    let found = Notification::from_envelope(&envelope).unwrap();
    assert!(
        Notification::from_lambda_event(&event.to_string()).as_ref() == Some(&found),
        "two spellings, one message"
    );
    assert!(found.attributes == *attributes, "an attribute changed");
    assert_eq!(found.subscription, Some(arn(SUBSCRIPTION)));

    let letter = Letter::parse(received(&[record(&envelope, &MessageAttributes::new())]).unwrap().remove(0));
    assert!(letter.origin == Origin::Sns && letter.notification.as_ref() == Some(&found));
    assert_eq!(letter.message(), message, "the message changed");
    assert!(
        letter.mark.as_ref().is_none_or(|mark| mark.requeued == RequeueMark::default()),
        "others wrote it"
    );
    let others = without_mark(attributes);
    let Ok(outgoing) = OutgoingMessage::pack(&letter, &arn(TOPIC), false, 3) else {
        assert!(others.len() >= MAX_ATTRIBUTES);
        return;
    };
    assert!(outgoing.body == message, "a topic gets the message as it was published");
    assert_eq!(outgoing.size(), letter.carried_bytes(true) + letter.mark_for_topic(3).bytes());
    carried(&outgoing, &others, Some(letter.mark_for_topic(3)));
}

fn carried(outgoing: &OutgoingMessage<'_>, others: &MessageAttributes, mark: Option<Mark>) {
    let mut expected = others.clone();
    expected.extend(mark.map(|mark| (MARK_ATTRIBUTE.to_owned(), mark.to_attribute())));
    let sent =
        outgoing.attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone().into_owned()));
    let count = outgoing.attributes.len();
    assert!(
        sent.collect::<MessageAttributes>() == expected && count == expected.len(),
        "an attribute changed on its way out"
    );
    let size: usize = expected.iter().map(|(name, value)| name.len() + value.size()).sum();
    assert_eq!(outgoing.size(), outgoing.body.len() + size);
}

fn without_mark(attributes: &MessageAttributes) -> MessageAttributes {
    attributes.clone().into_iter().filter(|(name, _)| name != MARK_ATTRIBUTE).collect()
}

/// Returns SNS's spelling of an attribute.
fn published(attribute: &MessageAttribute) -> Value {
    let value = match &attribute.value {
        AttributeValue::Text(text) => text.clone(),
        AttributeValue::Binary(bytes) => base64(bytes),
    };
    json!({ "Type": attribute.data_type, "Value": value })
}

fn arn(text: &str) -> Arn {
    text.parse().unwrap()
}

// ---------------------------------------------------------------------------------------------
// Bytes to values

fn mark(bytes: &mut Bytes<'_>) -> Mark {
    let flags = bytes.byte();
    let flag = |bit: u8| flags & (1 << bit) != 0;
    let time = |bytes: &mut Bytes<'_>| Timestamp::from_millisecond(NOW + i64::from(bytes.number())).unwrap();
    Mark {
        spent: bytes.number(),
        id: if flag(0) { bytes.text() } else { format!("d3344452/{SUBSCRIPTION}") },
        first: time(bytes),
        generation: bytes.number(),
        digest: MessageDigest::of(&if flag(1) { bytes.text() } else { String::new() }),
        passes: bytes.number(),
        published: if flag(2) { bytes.number() } else { 0 },
        early: flag(6),
        requeued: RequeueMark {
            dlq: flag(1).then(|| arn(DLQ)),
            source: flag(2).then(|| arn(QUEUE)),
            due: flag(3).then(|| time(bytes)),
            earlier: if flag(4) { bytes.number() } else { 0 },
            back: flag(6).then(|| time(bytes)),
            to: flag(5).then(|| match (flag(6), flag(7)) {
                (true, _) => ReplayTarget::Topic,
                (false, true) => ReplayTarget::Subscription(arn(SUBSCRIPTION)),
                (false, false) => ReplayTarget::Arn(arn(QUEUE)),
            }),
            edited: flag(7),
        },
    }
}

fn attributes(bytes: &mut Bytes<'_>, mark: &Mark) -> MessageAttributes {
    let attribute = |bytes: &mut Bytes<'_>| {
        let kinds = bytes.byte();
        let name = NAMES.get(usize::from(kinds >> 4)).map_or_else(|| bytes.text(), |name| (*name).to_owned());
        let data_type =
            TYPES.get(usize::from(kinds & 15)).map_or_else(|| bytes.text(), |name| (*name).to_owned());
        let value = match name.as_str() {
            _ if data_type == "Binary" || data_type.starts_with("Binary.") => {
                AttributeValue::Binary(bytes.some().to_vec())
            }
            MARK_ATTRIBUTE if kinds & 1 == 0 => return (name, mark.to_attribute()),
            "RULE_ARN" | "TARGET_ARN" if kinds & 1 == 0 => AttributeValue::Text(QUEUE.to_owned()),
            _ => AttributeValue::Text(bytes.text()),
        };
        (name, MessageAttribute { data_type, value })
    };
    (0..bytes.byte() % 13).map(|_| attribute(bytes)).collect()
}

/// The rest of the input. After its end there are zeros.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, most: usize) -> &'a [u8] {
        let (taken, left) = self.0.split_at(most.min(self.0.len()));
        self.0 = left;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    fn number(&mut self) -> u32 {
        self.take(4).iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
    }

    fn some(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte());
        self.take(length)
    }

    fn text(&mut self) -> String {
        String::from_utf8_lossy(self.some()).into_owned()
    }

    fn rest(&mut self) -> String {
        String::from_utf8_lossy(self.take(usize::MAX)).into_owned()
    }
}
