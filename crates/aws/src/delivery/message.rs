//! The message for a topic or a queue: a letter's content with our mark.
//!
//! Packing does no I/O. It keeps everything of a letter (body, subject, attributes with their types, group,
//! trace header), adds the mark, and gives messages for FIFO targets a deduplication id.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use redrive_core::arn::{Arn, ArnKind};
use redrive_core::batch::CannotPack;
use redrive_core::letter::{Letter, MARK_ATTRIBUTE, MAX_ATTRIBUTES, Mark, MessageAttribute};
use redrive_core::policy::Retry;
use sha2::{Digest, Sha256};

/// The greatest size of an SQS message: 1 MiB, including attributes.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
pub const MAX_MESSAGE_BYTES: usize = 1024 * 1024;

/// The message group of letters that have none. A FIFO target refuses a message without a group, and a single
/// group keeps the order.
pub const DEFAULT_GROUP: &str = "sns-redrive";

/// One message for a topic or a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingMessage<'a> {
    /// The body of an SQS message, or the message of an SNS one.
    pub body: Cow<'a, str>,
    /// The subject, for topics only.
    pub subject: Option<&'a str>,
    /// The attributes by name, with our mark last. At most ten.
    pub attributes: Vec<(&'a str, Cow<'a, MessageAttribute>)>,
    /// The message group.
    pub group_id: Option<&'a str>,
    /// The deduplication id, for FIFO targets only. It is new for each retry, and the same if one retry is
    /// repeated.
    pub deduplication_id: Option<String>,
    /// The X-Ray header, for queues only.
    pub trace_header: Option<&'a str>,
    /// The `DelaySeconds`, 0 to 900, for standard queues only.
    pub delay: u64,
    /// `true` if the mark was left out because there is no room for it.
    pub unmarked: bool,
}

impl<'a> OutgoingMessage<'a> {
    /// Packs a letter for a retry to a topic or a queue.
    ///
    /// A topic gets the message as it was published. A queue gets the stored body, byte for byte. The batch
    /// machine decides whether the letter goes without its mark.
    ///
    /// # Errors
    ///
    /// [`CannotPack::Unmarkable`] if the mark would be the eleventh attribute.
    pub fn pack(
        letter: &'a Letter,
        to: &Arn,
        unmarked: bool,
        retry: impl Into<RetryNumber>,
    ) -> Result<Self, CannotPack> {
        let RetryNumber { spent, early } = retry.into();
        let to_topic = to.kind() == ArnKind::Topic;
        let (body, subject) = match letter.notification.as_ref().filter(|_| to_topic) {
            Some(sns) => (letter.message(), sns.subject.as_deref()),
            None => (Cow::Borrowed(letter.sqs.body.as_str()), None),
        };
        let carried = letter.carried_attributes(to_topic);
        let mut attributes: Vec<_> = carried.map(|(name, value)| (name, Cow::Borrowed(value))).collect();
        let mark = match to.kind() {
            ArnKind::Topic => letter.mark_for_topic(spent),
            ArnKind::Queue | ArnKind::Subscription | ArnKind::Function | ArnKind::Stream | ArnKind::Other => {
                letter.mark(spent)
            }
        };
        if !unmarked && attributes.len() >= MAX_ATTRIBUTES {
            return Err(CannotPack::Unmarkable);
        }
        let mark = Mark { early, ..mark };
        if !unmarked {
            attributes.push((MARK_ATTRIBUTE, Cow::Owned(mark.to_attribute())));
        }
        let fifo = to.is_fifo();
        let group_id = letter.sqs.group_id();
        let deduplication_id =
            fifo.then(|| deduplication_id(&mark, letter.subscription().map_or("", Arn::as_str), &body));
        Ok(Self {
            body,
            subject,
            attributes,
            group_id: group_id.or(fifo.then_some(DEFAULT_GROUP)),
            deduplication_id,
            trace_header: letter.sqs.system("AWSTraceHeader"),
            delay: 0,
            unmarked,
        })
    }

    /// Packs a letter for the requeue: unchanged, with its mark, to become visible after `delay` seconds.
    ///
    /// # Errors
    ///
    /// [`CannotPack::Unmarkable`] if the mark does not fit. Without the mark nothing would tell where the
    /// letter belongs.
    pub fn for_requeue(
        letter: &'a Letter,
        mark: &Mark,
        requeue: &Arn,
        delay: u64,
    ) -> Result<Self, CannotPack> {
        let attributes = letter.sqs.attributes.iter().filter(|(name, _)| *name != MARK_ATTRIBUTE);
        let mut attributes: Vec<_> =
            attributes.map(|(name, value)| (name.as_str(), Cow::Borrowed(value))).collect();
        if attributes.len() >= MAX_ATTRIBUTES {
            return Err(CannotPack::Unmarkable);
        }
        attributes.push((MARK_ATTRIBUTE, Cow::Owned(mark.to_attribute())));
        let fifo = requeue.is_fifo();
        Ok(Self {
            body: Cow::Borrowed(&letter.sqs.body),
            subject: None,
            attributes,
            group_id: letter.sqs.group_id().or(fifo.then_some(DEFAULT_GROUP)),
            deduplication_id: fifo.then(|| deduplication_id(mark, &letter.sqs.message_id, "")),
            trace_header: letter.sqs.system("AWSTraceHeader"),
            delay,
            unmarked: false,
        })
    }

    /// Returns the bytes by which the message counts in the size limits of a message and of a batch.
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
    #[must_use]
    pub fn size(&self) -> usize {
        let attributes = self.attributes.iter().map(|(name, value)| name.len() + value.size());
        self.body.len() + self.subject.map_or(0, str::len) + attributes.sum::<usize>()
    }
}

/// The number of a retry, for the mark of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryNumber {
    /// The number of retries behind the letter once it is sent.
    pub spent: u32,
    /// `true` if this attempt comes before the next planned retry and has no number of its own.
    pub early: bool,
}

impl From<u32> for RetryNumber {
    fn from(retry: u32) -> Self {
        Self { spent: retry, early: false }
    }
}

impl From<Retry> for RetryNumber {
    fn from(retry: Retry) -> Self {
        Self { spent: retry.number, early: retry.is_early() }
    }
}

/// Returns a deduplication id of at most 128 characters, the limit of SNS and SQS.
///
/// SNS and SQS drop a message with a repeated deduplication id for five minutes. So each retry needs a new
/// id, and a retry that is repeated after a crash needs the old one.
///
/// - Letters of several subscriptions can have the same letter id if republishing made them. `scope` tells
///   them apart: it is the subscription for a target, and the SQS message id for the requeue.
/// - An early attempt has no number. The number of times that the letter was sent tells it from others.
/// - A mark can be forged. For a target the content is hashed too, so that a forger cannot make SQS drop
///   another letter.
///
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/using-messagededuplicationid-property.html>
fn deduplication_id(mark: &Mark, scope: &str, content: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(&mark.id);
    hash.update(mark.generation.to_be_bytes());
    hash.update(mark.spent.to_be_bytes());
    if mark.early {
        hash.update("early");
        hash.update(mark.passes.to_be_bytes());
    }
    hash.update(scope);
    hash.update(content);
    URL_SAFE_NO_PAD.encode(hash.finalize())
}
