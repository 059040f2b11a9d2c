//! The control prefix in S3, which operators and the function share: overrides and the list of waiting letters.

mod document;

use aws_sdk_s3::Client;
use jiff::Timestamp;
use redrive_aws::clients::{ServerTime, failure_of_call};
use redrive_aws::control::{self, WaitingList};
use redrive_core::endpoint::TargetName;
use redrive_core::failure::Failure;
use redrive_core::waiting::WaitingLetter;

use crate::console::CommandFailure;
use crate::s3_location::BucketPrefix;

pub(crate) use document::{OverrideChange, ReleaseNote};

/// The prefix, and the client that reaches it.
#[derive(Debug, Clone)]
pub(crate) struct ControlAccess {
    s3: Client,
    bucket: String,
    prefix: String,
    /// The time of S3 at its last answer.
    time: ServerTime,
}

impl ControlAccess {
    pub(crate) fn new(s3: Client, BucketPrefix { bucket, prefix }: BucketPrefix) -> Self {
        Self { s3, bucket, prefix, time: ServerTime::default() }
    }

    /// Reads the objects of the list of waiting letters that were not read before. `keep` returns the part of
    /// a line to keep.
    pub(crate) async fn read_waiting<T>(
        &self,
        list: &mut WaitingList<T>,
        now: Timestamp,
        targets: Option<&[TargetName]>,
        keep: impl Fn(Timestamp, WaitingLetter) -> T,
        progress: impl FnMut(usize),
    ) -> Result<(), CommandFailure> {
        let Self { s3, bucket, prefix, .. } = self.clone();
        let place = control::ControlObjects { s3, bucket, prefix };
        let read = Box::pin(list.read(&place, now, targets, keep, progress)).await;
        read.map_err(|failure| in_words("cannot list the waiting letters", failure))
    }
}

/// Returns the error of a call to S3, in words.
fn failed<E>(what: &str, error: &aws_sdk_s3::error::SdkError<E>) -> CommandFailure
where
    E: aws_sdk_s3::error::ProvideErrorMetadata,
{
    in_words(what, failure_of_call(error))
}

fn in_words(what: &str, failure: Failure) -> CommandFailure {
    let message = failure.message.map_or(String::new(), |message| format!(": {message}"));
    CommandFailure::Work(format!("{what}: {}{message}", failure.code))
}
