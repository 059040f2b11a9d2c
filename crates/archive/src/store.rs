//! The archive, in S3 or in a queue.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use futures_util::stream;
use jiff::Timestamp;
use redrive_aws::clients::{in_time, put_lines, too_late};
use redrive_aws::delivery::Dispatcher;
use redrive_core::arn::Arn;
use redrive_core::batch::ArchiveContext;
use redrive_core::failure::Failure;
use redrive_core::letter::Letter;
use tokio::time::Instant;

use super::index::{IndexEntry, ObjectIndex};
use super::record::ArchiveRecord;
use super::{object, queue};

/// An archive of letters.
#[derive(Debug, Clone)]
pub enum Archive {
    /// Objects in a bucket.
    S3 {
        /// The client.
        s3: aws_sdk_s3::Client,
        /// The bucket.
        bucket: String,
        /// The prefix of every key. It may have slashes at its ends.
        prefix: String,
    },
    /// Messages in a queue.
    Queue {
        /// The dispatcher that sends the messages.
        dispatcher: Dispatcher,
        /// The queue.
        queue: Arn,
    },
}

/// The invocation that archives the letters.
#[derive(Debug, Clone, Copy)]
pub struct ArchiveInvocation<'a> {
    /// The invocation's request id.
    pub request_id: &'a str,
    /// The present.
    pub now: Timestamp,
    /// The time after which every call is cut off.
    pub until: Instant,
}

impl Archive {
    /// Stores letters and returns one answer for each, in their order: `Ok` if the letter is safe. `limit` is
    /// the largest message that a queue takes, in bytes, if it is known.
    pub async fn store(
        &self,
        letters: &[(&Letter, &ArchiveContext)],
        batch: ArchiveInvocation<'_>,
        limit: Option<usize>,
    ) -> Vec<Result<(), Failure>> {
        if letters.is_empty() {
            return Vec::new();
        }
        match self {
            Self::S3 { s3, bucket, prefix } => {
                let puts = by_dead_letter_queue(letters).into_iter().map(|(queue, places)| async move {
                    let letters: Vec<_> = places.iter().map(|place| letters[*place]).collect();
                    let index = ObjectIndex::of(letters.iter().map(entry));
                    let key = object::key(prefix, queue, batch.now, batch.request_id, &index);
                    let put = put_lines(s3, bucket, &key, lines(&letters, batch.now));
                    (places, in_time(batch.until, put).await)
                });
                let mut answers = vec![Err(too_late()); letters.len()];
                let mut puts = stream::iter(puts).buffer_unordered(PUTS_AT_ONCE);
                while let Some((places, answer)) = puts.next().await {
                    for place in places {
                        answers[place].clone_from(&answer);
                    }
                }
                answers
            }
            Self::Queue { dispatcher, queue } => {
                let ArchiveInvocation { now, until, .. } = batch;
                queue::store(dispatcher, queue, letters, now, until, limit).await
            }
        }
    }

    /// Reports whether this archive is the queue `arn`. Letters that are read from the archive itself would
    /// never leave it.
    #[must_use]
    pub fn is(&self, arn: &Arn) -> bool {
        self.queue() == Some(arn)
    }

    /// Returns the queue, if the archive is one.
    #[must_use]
    pub fn queue(&self) -> Option<&Arn> {
        match self {
            Self::S3 { .. } => None,
            Self::Queue { queue, .. } => Some(queue),
        }
    }
}

/// Groups the positions of letters by the name of their dead-letter queue. Queues of one name share a folder,
/// so they also share an object.
fn by_dead_letter_queue<'l>(letters: &[(&'l Letter, &ArchiveContext)]) -> BTreeMap<&'l str, Vec<usize>> {
    let mut places: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (place, (letter, _)) in letters.iter().enumerate() {
        places.entry(letter.dead_letter_queue().resource()).or_default().push(place);
    }
    places
}

/// The number of objects written at the same time. A batch of the requeue has one object for each dead-letter
/// queue.
const PUTS_AT_ONCE: usize = 16;

fn entry<'l>((letter, context): &(&'l Letter, &ArchiveContext)) -> IndexEntry<'l> {
    IndexEntry {
        reason: context.reason.name(),
        topic: letter.topic().map(Arn::resource),
        target: context.target.clone(),
        replayed: letter.generation() > 0,
    }
}

/// Returns the content of the object of these letters. It builds one record at a time, because a record holds
/// a copy of the letter's body.
fn lines(letters: &[(&Letter, &ArchiveContext)], now: Timestamp) -> Result<String, serde_json::Error> {
    let bytes = letters.iter().map(|(letter, _)| letter.sqs.body.len() + RECORD_BYTES).sum();
    let mut lines = String::with_capacity(bytes);
    for (letter, context) in letters {
        lines.push_str(&ArchiveRecord::of(letter, context, now).to_line()?);
    }
    Ok(lines)
}

/// The approximate size of a record besides the body, in bytes.
const RECORD_BYTES: usize = 1536;
