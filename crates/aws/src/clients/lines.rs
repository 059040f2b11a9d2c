//! Objects with lines of JSON, which an invocation writes once.

use aws_sdk_s3::primitives::ByteStream;
use redrive_core::failure::{Failure, FailureClass};

use super::errors::failure_of_call;

/// Writes lines as one object, unless an object of this key exists. If one exists, an earlier try of this
/// very call succeeded, because the key must contain the request id.
/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html>
///
/// # Errors
///
/// The failure of the call, or a failure to serialize a line.
pub async fn put_lines(
    s3: &aws_sdk_s3::Client,
    bucket: &str,
    key: &str,
    lines: Result<String, serde_json::Error>,
) -> Result<(), Failure> {
    let body = lines.map_err(|_| Failure::ours(FailureClass::Permanent, "NotBuildable"))?;
    let put = s3
        .put_object()
        .bucket(bucket)
        .key(key)
        .if_none_match("*")
        .content_type("application/x-ndjson")
        .body(ByteStream::from(body.into_bytes()));
    // Boxed, because a future of the SDK is large and deadlines move it.
    let answer = Box::pin(put.send()).await;
    match answer {
        Ok(_) => Ok(()),
        Err(error) if error.raw_response().is_some_and(|raw| raw.status().as_u16() == 412) => Ok(()),
        Err(error) => Err(failure_of_call(&error)),
    }
}
