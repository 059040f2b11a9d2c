//! Our mark: the one attribute in which a letter that comes back says how often it was sent.
//!
//! It is a message attribute named `sns-redrive`, of type `String`, that holds compact JSON. Its size does
//! not depend on how often the letter came back, because each delivery replaces it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::digest::MessageDigest;
use super::id::{LetterId, is_id};
use super::message::{MessageAttribute, MessageAttributes};
use crate::arn::{Arn, ArnKind};

/// The attribute's name.
pub const MARK_ATTRIBUTE: &str = "sns-redrive";

/// The format that this version writes. A version may add fields and never changes the meaning of one. So
/// this version reads the marks of newer versions as far as it knows their fields: during a deployment,
/// instances of a newer release write them. Nothing was released with a format before this one.
const VERSION: u8 = 2;

/// The content of a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The number of retries behind the letter when it was sent, over its whole life.
    pub spent: u32,
    /// The letter's id, kept for life.
    pub id: String,
    /// The time when it first arrived in a dead-letter queue, or was replayed.
    pub first: Timestamp,
    /// The number of times that it was replayed from the archive.
    pub generation: u32,
    /// The digest of the message that the mark was made for.
    pub digest: MessageDigest,
    /// The number of times that we have sent a message with this mark, whichever message it was.
    pub passes: u32,
    /// The number of times that the letter was published to a topic.
    pub published: u32,
    /// True if it was sent before its next planned retry, by an attempt without a number.
    pub early: bool,
    /// The part that only marks of letters in the requeue have.
    pub requeued: RequeueMark,
}

/// The part of a mark that is believed only in the requeue, where this function or an operator wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequeueMark {
    /// The dead-letter queue it came from.
    pub dlq: Option<Arn>,
    /// The queue from which SQS had moved the letter to its dead-letter queue. SQS itself says so only once.
    pub source: Option<Arn>,
    /// The time when its next retry is due.
    pub due: Option<Timestamp>,
    /// The number of retries before its present stay. The mark's `spent` includes them once the letter is
    /// moved.
    pub earlier: u32,
    /// The time when it came back from an attempt without a number, if it did before it was first moved.
    pub back: Option<Timestamp>,
    /// The target of its retries, whatever its rule says, as chosen when it was replayed.
    pub to: Option<ReplayTarget>,
    /// True if it was edited before it was replayed.
    pub edited: bool,
}

/// The target of the retries of a replayed letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ReplayTarget {
    /// Its topic: every subscriber.
    Topic,
    /// This topic, queue or function.
    Arn(Arn),
    /// The endpoint of this subscription, which has replaced the one that the letter names.
    Subscription(Arn),
}

/// The error of a text that is neither `topic` nor an ARN that can be a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be topic, or the ARN of a topic, queue or function, not {0:?}")]
pub struct BadReplayTarget(String);

impl TryFrom<String> for ReplayTarget {
    type Error = BadReplayTarget;

    fn try_from(text: String) -> Result<Self, BadReplayTarget> {
        if text == "topic" {
            return Ok(Self::Topic);
        }
        let Ok(arn) = text.parse::<Arn>() else { return Err(BadReplayTarget(text)) };
        match arn.kind() {
            ArnKind::Topic | ArnKind::Queue | ArnKind::Function => Ok(Self::Arn(arn)),
            ArnKind::Subscription => Ok(Self::Subscription(arn)),
            ArnKind::Stream | ArnKind::Other => Err(BadReplayTarget(text)),
        }
    }
}

impl From<ReplayTarget> for String {
    fn from(destination: ReplayTarget) -> Self {
        match destination {
            ReplayTarget::Topic => "topic".to_owned(),
            ReplayTarget::Arn(arn) | ReplayTarget::Subscription(arn) => arn.as_str().to_owned(),
        }
    }
}

/// The mark as it is sent; times are milliseconds since 1970.
#[derive(Serialize, Deserialize)]
struct WireMark {
    v: u8,
    spent: u32,
    id: String,
    first: i64,
    #[serde(rename = "gen", default)]
    generation: u32,
    msg: MessageDigest,
    passes: u32,
    #[serde(rename = "pub", default, skip_serializing_if = "is_zero")]
    published: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    early: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dlq: Option<Arn>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<Arn>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due: Option<i64>,
    #[serde(default, skip_serializing_if = "is_zero")]
    earlier: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    back: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<ReplayTarget>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    edited: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Mark {
    /// Reads the mark among a message's attributes, whichever message it was made for. A mark that cannot be
    /// read counts as none: the letter starts afresh, and the next delivery replaces the mark.
    #[must_use]
    pub fn find(attributes: &MessageAttributes) -> Option<Self> {
        let wire: WireMark = serde_json::from_str(attributes.get(MARK_ATTRIBUTE)?.text()?).ok()?;
        if wire.v < VERSION || !is_id(&wire.id) {
            return None;
        }
        Some(Self {
            spent: wire.spent,
            id: wire.id,
            first: Timestamp::from_millisecond(wire.first).ok()?,
            generation: wire.generation,
            digest: wire.msg,
            passes: wire.passes,
            published: wire.published,
            early: wire.early,
            requeued: RequeueMark {
                dlq: wire.dlq,
                source: wire.source,
                due: wire.due.map(Timestamp::from_millisecond).transpose().ok()?,
                earlier: wire.earlier,
                back: wire.back.map(Timestamp::from_millisecond).transpose().ok()?,
                to: wire.to,
                edited: wire.edited,
            },
        })
    }

    /// Returns the mark of a letter that lies outside the requeue, or of a message inside one that others
    /// wrote.
    pub(super) fn outside_requeue(self) -> Self {
        Self { requeued: RequeueMark::default(), ..self }
    }

    /// Returns the mark of a letter in the requeue whose message is not the one that the mark was made for.
    /// It keeps where the letter came from and drops what was done with the other message.
    pub(super) fn on_other_message(self, id: &LetterId) -> Self {
        let requeued = RequeueMark { due: None, earlier: 0, ..self.requeued };
        Self { spent: 0, id: id.as_str().to_owned(), published: 0, requeued, ..self }
    }

    /// Returns the bytes by which the mark counts in the size limits of queues and topics.
    #[must_use]
    pub fn bytes(&self) -> usize {
        MARK_ATTRIBUTE.len() + self.to_attribute().size()
    }

    /// Returns the mark as the attribute that is sent.
    #[must_use]
    pub fn to_attribute(&self) -> MessageAttribute {
        let wire = WireMark {
            v: VERSION,
            spent: self.spent,
            id: self.id.clone(),
            first: self.first.as_millisecond(),
            generation: self.generation,
            msg: self.digest,
            passes: self.passes,
            published: self.published,
            early: self.early,
            dlq: self.requeued.dlq.clone(),
            source: self.requeued.source.clone(),
            due: self.requeued.due.map(Timestamp::as_millisecond),
            earlier: self.requeued.earlier,
            back: self.requeued.back.map(Timestamp::as_millisecond),
            to: self.requeued.to.clone(),
            edited: self.requeued.edited,
        };
        // The value consists of strings and numbers, so serde_json cannot fail.
        MessageAttribute::string(serde_json::to_string(&wire).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark() -> Mark {
        Mark {
            spent: 3,
            id: "abc".into(),
            first: Timestamp::from_millisecond(1_700_000_000_000).unwrap(),
            generation: 0,
            digest: MessageDigest::of("message"),
            passes: 4,
            published: 0,
            early: false,
            requeued: RequeueMark::default(),
        }
    }

    fn attributes(text: &str) -> MessageAttributes {
        [(MARK_ATTRIBUTE.to_owned(), MessageAttribute::string(text))].into()
    }

    #[test]
    fn a_mark_reads_back_as_written_and_is_compact() {
        let text = mark().to_attribute();
        let expected =
            r#"{"v":2,"spent":3,"id":"abc","first":1700000000000,"gen":0,"msg":"q1MKE-RZFJg","passes":4}"#;
        assert_eq!(text.text(), Some(expected));
        assert_eq!(Mark::find(&attributes(text.text().unwrap())), Some(mark()));
    }

    /// The numbers of the page on limits: a raw letter at its first retry, a letter of a topic with the longest
    /// name at its last, and one in `GovCloud` with the greatest numbers.
    #[test]
    fn a_mark_has_139_to_473_bytes_and_532_at_the_very_most() {
        let id = "d3344452-ca4e-5849-9b44-70f435b0010d";
        let of = |region: &str| format!("{id}/arn:{region}:123456789012:{}:{id}", "t".repeat(256));
        let least = Mark { spent: 1, id: id.into(), passes: 1, ..mark() };
        let usual = Mark { id: of("aws:sns:eu-central-1"), spent: 12, passes: 12, ..mark() };
        let most = u32::MAX;
        let most = Mark {
            id: of("aws-us-gov:sns:us-gov-west-1"),
            spent: 100_015,
            generation: most,
            passes: most,
            published: most,
            early: true,
            ..mark()
        };
        assert_eq!([least, usual, most].map(|mark| mark.bytes()), [139, 473, 532]);
    }

    #[test]
    fn a_mark_in_the_requeue_names_its_queue_and_its_due_time() {
        let requeued = RequeueMark {
            dlq: "arn:aws:sqs:eu-central-1:123456789012:payments-dlq".parse().ok(),
            source: "arn:aws:sqs:eu-central-1:123456789012:payments-worker".parse().ok(),
            due: Timestamp::from_millisecond(1_700_000_900_000).ok(),
            earlier: 2,
            back: Timestamp::from_millisecond(1_700_000_000_500).ok(),
            to: Some(ReplayTarget::Topic),
            edited: true,
        };
        let full = Mark { published: 2, early: true, requeued, ..mark() };
        assert_eq!(Mark::find(&attributes(full.to_attribute().text().unwrap())), Some(full));
    }

    #[test]
    fn a_mark_tells_each_kind_of_target() {
        let arn = |resource: &str| format!("arn:aws:{resource}").parse::<Arn>().unwrap();
        let queue = arn("sqs:eu-central-1:123456789012:payments-worker");
        let subscription = arn("sns:eu-central-1:123456789012:payments:43fe80b0-b10c-4081-9e18-5bdb8f9824e6");
        for to in [ReplayTarget::Topic, ReplayTarget::Arn(queue), ReplayTarget::Subscription(subscription)] {
            let requeued = RequeueMark { to: Some(to), ..RequeueMark::default() };
            let mark = Mark { requeued, ..mark() };
            assert_eq!(Mark::find(&attributes(mark.to_attribute().text().unwrap())), Some(mark));
        }
    }

    /// During a deployment, instances of a newer release write such marks.
    #[test]
    fn marks_of_newer_versions_are_read_as_far_as_their_fields_are_known() {
        let newer = mark().to_attribute().text().unwrap().replace("\"v\":2", "\"v\":3,\"more\":{}");
        assert_eq!(Mark::find(&attributes(&newer)), Some(mark()));
    }

    #[test]
    fn an_unreadable_mark_counts_as_none() {
        let changed = |from: &str, to: &str| {
            let whole = mark().to_attribute().text().unwrap().to_owned();
            assert!(whole.contains(from), "{from}");
            whole.replace(from, to)
        };
        let long = format!(r#""id":"{}""#, "x".repeat(513));
        for text in [
            String::new(),
            "3".to_owned(),
            changed(r#""v":2"#, r#""v":1"#),
            changed("q1MKE-RZFJg", "?"),
            changed(r#","msg":"q1MKE-RZFJg""#, ""),
            changed(r#","passes":4"#, ""),
            changed(r#""spent":3"#, r#""spent":-3"#),
            changed(r#""id":"abc""#, r#""id":"""#),
            changed(r#""id":"abc""#, &long),
            changed("1700000000000", "9223372036854775807"),
        ] {
            assert_eq!(Mark::find(&attributes(&text)), None, "{text}");
        }
    }
}
