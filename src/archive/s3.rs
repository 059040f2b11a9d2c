//! An archive in S3: one object of NDJSON per invocation and dead-letter queue.

use aws_sdk_s3::primitives::ByteStream;

use crate::clients::failure_of_call;
use crate::failure::{Failure, FailureClass};

/// Writes all records in one object. It is written only if no object of this key exists; that one
/// does means that an earlier try of this very call succeeded, since the key holds the request id.
/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html>
pub(super) async fn put(
    s3: &aws_sdk_s3::Client,
    bucket: &str,
    key: &str,
    lines: Result<String, serde_json::Error>,
) -> Result<(), Failure> {
    let body = lines.map_err(|_| Failure::ours(FailureClass::Permanent, "NotBuildable"))?;
    let answer = s3
        .put_object()
        .bucket(bucket)
        .key(key)
        .if_none_match("*")
        .content_type("application/x-ndjson")
        .body(ByteStream::from(body.into_bytes()))
        .send()
        .await;
    match answer {
        Ok(_) => Ok(()),
        Err(error) if error.raw_response().is_some_and(|raw| raw.status().as_u16() == 412) => Ok(()),
        Err(error) => Err(failure_of_call(&error)),
    }
}
