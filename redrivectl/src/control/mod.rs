//! The prefix in S3 that operators and the function share: orders, and the list of waiting letters.

mod document;
mod list;

use aws_sdk_s3::Client;

use crate::console::Failed;
use crate::place::Place;
use sns_redrive::clients::{ServerTime, failure_of_call};

pub(crate) use document::{Change, Release};
pub(crate) use list::{Line, List};

/// The prefix, and the client that reaches it.
#[derive(Debug, Clone)]
pub(crate) struct Control {
    s3: Client,
    bucket: String,
    prefix: String,
    /// The time of S3 when it last answered a read.
    time: ServerTime,
}

impl Control {
    pub(crate) fn new(s3: Client, Place { bucket, prefix }: Place) -> Self {
        Self { s3, bucket, prefix, time: ServerTime::default() }
    }
}

/// The error of a call to S3, in words.
fn failed<E>(what: &str, error: &aws_sdk_s3::error::SdkError<E>) -> Failed
where
    E: aws_sdk_s3::error::ProvideErrorMetadata,
{
    let failure = failure_of_call(error);
    let message = failure.message.map_or(String::new(), |message| format!(": {message}"));
    Failed::Work(format!("{what}: {}{message}", failure.code))
}
