//! Reads and writes the document of recoveries, and reads the parts of the list of waiting letters that an instance claims.

use aws_sdk_s3::primitives::ByteStream;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use redrive_core::arn::Arn;
use redrive_core::batch::{DocumentRead, DocumentWrite, WaitingKeys};
use redrive_core::failure::Failure;
use redrive_core::waiting::{
    MAX_RECOVERIES_BYTES, WaitingLetter, recoveries_key, waiting_hour, waiting_prefix, written_at,
};
use tokio::time::Instant;

use super::{ControlObjects, waiting};
use crate::clients::{failure_of_call, in_time, is_absent, is_condition};

/// The number of objects read at the same time, and the greatest size of one, in bytes: 10,000 letters are listed by redrivectl
/// only.
const CONCURRENT_READS: usize = 8;
const MAX_OBJECT_BYTES: usize = 2 * 1024 * 1024;

impl ControlObjects {
    /// Reads the document of recoveries, unless it still has the tag `unless`.
    ///
    /// # Errors
    ///
    /// [`Failure`] if it could not be read.
    pub async fn read_recoveries(
        &self,
        unless: Option<String>,
        until: Instant,
    ) -> Result<DocumentRead, Failure> {
        in_time(until, self.get_document(recoveries_key(&self.prefix), MAX_RECOVERIES_BYTES, unless)).await
    }

    /// Writes the document of recoveries, if it still has the tag `replaces`, or if there is still none.
    /// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html>
    ///
    /// # Errors
    ///
    /// [`Failure`] if it was not written, or if this is unknown.
    pub async fn write_recoveries(
        &self,
        json: Vec<u8>,
        replaces: Option<String>,
        until: Instant,
    ) -> Result<DocumentWrite, Failure> {
        let put = self
            .s3
            .put_object()
            .bucket(&self.bucket)
            .key(recoveries_key(&self.prefix))
            .content_type("application/json")
            .body(ByteStream::from(json));
        let put = match replaces {
            Some(tag) => put.if_match(tag),
            None => put.if_none_match("*"),
        };
        // Boxed, because a future of the SDK is large and deadlines move it.
        in_time(until, async {
            match Box::pin(put.send()).await {
                Ok(answer) => Ok(DocumentWrite::Written { tag: answer.e_tag }),
                Err(error) if is_condition(&error) => Ok(DocumentWrite::Conflict),
                Err(error) => Err(failure_of_call(&error)),
            }
        })
        .await
    }

    /// Lists the oldest keys of a queue's waiting letters: one page.
    ///
    /// # Errors
    ///
    /// [`Failure`] if they could not be listed.
    pub async fn list_waiting_keys(
        &self,
        queue: &Arn,
        after: Option<String>,
        until: Instant,
    ) -> Result<WaitingKeys, Failure> {
        let prefix = waiting_prefix(&self.prefix, queue);
        let after = after.map(|after| format!("{prefix}{after}"));
        let list = self.s3.list_objects_v2().bucket(&self.bucket).prefix(&prefix).set_start_after(after);
        in_time(until, async {
            let page = Box::pin(list.send()).await.map_err(|error| failure_of_call(&error))?;
            let all = page.contents().iter().filter_map(|object| object.key()?.strip_prefix(&prefix));
            let all: Vec<_> = all.collect();
            let is_own = |key: &&&str| {
                written_at(key).is_some_and(|written| key.starts_with(&format!("{}/", waiting_hour(written))))
            };
            let keys = all.iter().filter(is_own).map(|key| (*key).to_owned()).collect();
            let last = all.last().map(|key| (*key).to_owned());
            Ok(WaitingKeys { keys, last, is_cut: page.is_truncated() == Some(true) })
        })
        .await
    }

    /// Reads objects of a queue's waiting letters. One that is gone, or is none of the function's, has no lines.
    ///
    /// # Errors
    ///
    /// [`Failure`] if one could not be read.
    pub async fn read_waiting_lines(
        &self,
        queue: &Arn,
        keys: Vec<String>,
        until: Instant,
    ) -> Result<Vec<WaitingLetter>, Failure> {
        let prefix = waiting_prefix(&self.prefix, queue);
        let reads = keys.into_iter().map(|key| self.lines_of(format!("{prefix}{key}")));
        let objects = stream::iter(reads).buffered(CONCURRENT_READS).try_collect::<Vec<_>>();
        let lines = in_time(until, objects).await?;
        // Somebody may have copied objects of another queue here.
        Ok(lines.into_iter().flatten().filter(|line| line.queue_arn == *queue).collect())
    }

    async fn lines_of(&self, key: String) -> Result<Vec<WaitingLetter>, Failure> {
        let get = self.s3.get_object().bucket(&self.bucket).key(&key);
        let answer = match Box::pin(get.send()).await {
            Ok(answer) => answer,
            Err(error) => {
                let is_absent = is_absent(&self.s3, &self.bucket, &key, &error).await;
                return if is_absent { Ok(Vec::new()) } else { Err(failure_of_call(&error)) };
            }
        };
        // One that is too large, or breaks off, is left to redrivectl and to the schedules.
        let Some(bytes) = waiting::body(answer.body, MAX_OBJECT_BYTES).await else { return Ok(Vec::new()) };
        Ok(waiting::lines(&bytes).filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }
}
