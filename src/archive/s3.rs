//! An archive in S3: one object of NDJSON per invocation.

use aws_sdk_s3::primitives::ByteStream;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::arn::Arn;
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

/// `<prefix>/queue=<name>/date=<yyyy-mm-dd>/<time>-<request id>.jsonl`, a layout that Athena and
/// Glue read as partitions. Times are UTC.
pub(super) fn key(prefix: &str, queue: &Arn, now: Timestamp, request_id: &str) -> String {
    let utc = now.to_zoned(TimeZone::UTC);
    let (date, time) = (utc.strftime("%Y-%m-%d"), utc.strftime("%Y%m%dT%H%M%SZ"));
    let prefix = prefix.trim_matches('/');
    let separator = if prefix.is_empty() { "" } else { "/" };
    format!("{prefix}{separator}queue={}/date={date}/{time}-{request_id}.jsonl", queue.resource())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_partitioned_by_queue_and_day() {
        let queue = "arn:aws:sqs:eu-central-1:123456789012:orders-dlq".parse().unwrap();
        let now = "2026-11-01T23:59:58.9Z".parse().unwrap();
        assert_eq!(
            key("dead/letters/", &queue, now, "req-1"),
            "dead/letters/queue=orders-dlq/date=2026-11-01/20261101T235958Z-req-1.jsonl"
        );
        assert_eq!(key("", &queue, now, "r"), "queue=orders-dlq/date=2026-11-01/20261101T235958Z-r.jsonl");
    }
}
