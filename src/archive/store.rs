//! The archive, in S3 or in a queue.

use jiff::Timestamp;
use tokio::time::{Instant, timeout_at};

use super::record::Record;
use super::{queue, s3};
use crate::arn::Arn;
use crate::batch::ArchiveContext;
use crate::delivery::Dispatcher;
use crate::failure::{Failure, FailureClass};
use crate::letter::Letter;

/// An archive.
#[derive(Debug, Clone)]
pub enum Archive {
    /// Objects in a bucket.
    S3 {
        /// The client.
        s3: aws_sdk_s3::Client,
        /// The bucket.
        bucket: String,
        /// The prefix of every key, with or without slashes at its ends.
        prefix: String,
    },
    /// Messages in a queue.
    Queue {
        /// Sends them.
        dispatcher: Dispatcher,
        /// The queue.
        queue: Arn,
    },
}

/// The invocation whose letters are archived.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// The queue that they lay in.
    pub queue: &'a Arn,
    /// The invocation's request id.
    pub request_id: &'a str,
    /// The present.
    pub now: Timestamp,
    /// No call goes on after this.
    pub until: Instant,
}

impl Archive {
    /// Stores letters; the answers are in their order, `Ok` where the letter is safe. A queue takes messages of
    /// `limit` bytes, where that is known.
    pub async fn store(
        &self,
        letters: &[(&Letter, &ArchiveContext)],
        batch: Batch<'_>,
        limit: Option<usize>,
    ) -> Vec<Result<(), Failure>> {
        if letters.is_empty() {
            return Vec::new();
        }
        match self {
            Self::S3 { s3, bucket, prefix } => {
                let key = s3::key(prefix, batch.queue, batch.now, batch.request_id);
                let put = s3::put(s3, bucket, &key, lines(letters, batch.now));
                let answer = timeout_at(batch.until, put)
                    .await
                    .unwrap_or_else(|_| Err(Failure::ours(FailureClass::Transient, "DeadlineExceeded")));
                vec![answer; letters.len()]
            }
            Self::Queue { dispatcher, queue } => {
                let Batch { now, until, .. } = batch;
                queue::store(dispatcher, queue, letters, now, until, limit).await
            }
        }
    }

    /// Whether this archive is the very queue that letters are read from: then nothing would ever
    /// leave it.
    #[must_use]
    pub fn is(&self, arn: &Arn) -> bool {
        self.queue() == Some(arn)
    }

    /// The queue, where it is one.
    #[must_use]
    pub fn queue(&self) -> Option<&Arn> {
        match self {
            Self::S3 { .. } => None,
            Self::Queue { queue, .. } => Some(queue),
        }
    }
}

/// The object of these letters. One record at a time: it holds the letter's body once more.
fn lines(letters: &[(&Letter, &ArchiveContext)], now: Timestamp) -> Result<String, serde_json::Error> {
    let bytes = letters.iter().map(|(letter, _)| letter.sqs.body.len() + RECORD_BYTES).sum();
    let mut lines = String::with_capacity(bytes);
    for (letter, context) in letters {
        lines.push_str(&Record::of(letter, context, now).to_line()?);
    }
    Ok(lines)
}

/// What a record takes besides the body, about.
const RECORD_BYTES: usize = 1536;
