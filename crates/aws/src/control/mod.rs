//! The objects under `CONTROL`: the document of overrides, which the function reads; the list of waiting letters, which the
//! function writes and operators read; and the document of recoveries, by which the function wakes letters of that list.

mod recoveries;
mod waiting;

use aws_sdk_s3::operation::get_object::GetObjectError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use jiff::Timestamp;
use redrive_core::arn::Arn;
use redrive_core::batch::DocumentRead;
use redrive_core::failure::{Failure, FailureClass};
use redrive_core::policy::MAX_OVERRIDES_BYTES;
use redrive_core::waiting::{WaitingKey, WaitingLetter, overrides_key};
use tokio::time::Instant;

use crate::clients::{failure_of_call, in_time, is_absent, put_lines};

pub use waiting::{WaitingLine, WaitingList};

/// The location of the overrides and of the list of waiting letters.
#[derive(Debug, Clone)]
pub struct ControlObjects {
    /// The client.
    pub s3: aws_sdk_s3::Client,
    /// The bucket.
    pub bucket: String,
    /// The prefix of every key.
    pub prefix: String,
}

/// The facts of an invocation that writes the list of waiting letters.
#[derive(Debug, Clone, Copy)]
pub struct ListInvocation<'a> {
    /// The queue that holds the letters.
    pub queue: &'a Arn,
    /// The invocation's request id.
    pub request_id: &'a str,
    /// The present.
    pub now: Timestamp,
    /// The time after which every call is cut off.
    pub until: Instant,
}

/// The permissions that the function needs to read the overrides. If a role may not list the bucket, S3 answers
/// 403 for a missing object.
/// <https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html>
const NEEDED_PERMISSIONS: &str = "the function's role needs s3:GetObject on the object, and s3:ListBucket on its bucket: without \
                      s3:ListBucket, S3 denies access to an object that does not exist";

impl ControlObjects {
    /// Reads the document of overrides, unless it still has the tag `unless`.
    ///
    /// # Errors
    ///
    /// [`Failure`] if the overrides could not be read.
    pub async fn read_overrides(
        &self,
        unless: Option<String>,
        until: Instant,
    ) -> Result<DocumentRead, Failure> {
        in_time(until, self.get_document(overrides_key(&self.prefix), MAX_OVERRIDES_BYTES, unless)).await
    }

    async fn get_document(
        &self,
        key: String,
        most: usize,
        unless: Option<String>,
    ) -> Result<DocumentRead, Failure> {
        let call = self.s3.get_object().bucket(&self.bucket).key(&key).set_if_none_match(unless);
        let answer = match call.send().await {
            Ok(answer) => answer,
            Err(error) if is_not_modified(&error) => return Ok(DocumentRead::NotModified),
            Err(error) => {
                let is_absent = is_absent(&self.s3, &self.bucket, &key, &error).await;
                return if is_absent { Ok(DocumentRead::None) } else { Err(unread(&error)) };
            }
        };
        let length = answer.content_length.and_then(|length| usize::try_from(length).ok());
        if length.is_some_and(|length| length > most) {
            let failure = Failure::ours(FailureClass::ActionRequired, "DocumentTooLong");
            let message = format!("{key} must be at most {most} bytes long");
            return Err(Failure { message: Some(message), ..failure });
        }
        let tag = answer.e_tag;
        let body = answer.body.collect().await;
        let body = body.map_err(|_| Failure::ours(FailureClass::Transient, "Unreachable"))?;
        Ok(DocumentRead::Document { json: body.to_vec(), tag })
    }

    /// Writes the list of the letters that an invocation has hidden for a long time.
    ///
    /// # Errors
    ///
    /// [`Failure`] if the list was not written, or if this is unknown.
    pub async fn list_waiting(
        &self,
        letters: &[WaitingLetter],
        list: ListInvocation<'_>,
    ) -> Result<(), Failure> {
        let lines: Result<String, _> =
            letters.iter().map(|letter| serde_json::to_string(letter).map(|line| line + "\n")).collect();
        let key = WaitingKey::of(letters).key(&self.prefix, list.queue, list.now, list.request_id);
        in_time(list.until, put_lines(&self.s3, &self.bucket, &key, lines)).await
    }
}

fn is_not_modified(error: &SdkError<GetObjectError, HttpResponse>) -> bool {
    error.raw_response().is_some_and(|raw| raw.status().as_u16() == 304)
}

/// Returns the failure of a reading, with the permissions that it needs if they may be lacking.
fn unread(error: &SdkError<GetObjectError, HttpResponse>) -> Failure {
    let failure = failure_of_call(error);
    let forbidden = matches!(failure.code.as_str(), "AccessDenied" | "Http403");
    // AWS's sentence names the action, and the boundary, the policy or the key that refused it.
    let message = match failure.message {
        said if !forbidden => said,
        None => Some(NEEDED_PERMISSIONS.to_owned()),
        Some(said) => Some(format!("{said}; {NEEDED_PERMISSIONS}")),
    };
    Failure { message, ..failure }
}
