//! Amazon Data Firehose streams: `PutRecordBatch`.
//! <https://docs.aws.amazon.com/firehose/latest/APIReference/API_PutRecordBatch.html>

use aws_sdk_firehose::config::Region;
use aws_sdk_firehose::primitives::Blob;
use aws_sdk_firehose::types::Record;

use super::Sent;
use crate::arn::Arn;
use crate::failure::{Failure, FailureClass};

/// Records a request.
pub(super) const MAX_REQUEST_RECORDS: usize = 500;

/// Bytes a request.
pub(super) const MAX_REQUEST_BYTES: usize = 4 * 1024 * 1024;

/// One request; an answer per record, or one failure of the whole request.
pub(super) async fn put(
    firehose: &aws_sdk_firehose::Client,
    stream: &Arn,
    records: &[&str],
) -> Result<Vec<Sent>, Failure> {
    let not_buildable = |_| Failure::ours(FailureClass::Permanent, "NotBuildable");
    let data: Vec<_> = records
        .iter()
        .map(|record| Record::builder().data(Blob::new(record.as_bytes())).build())
        .collect::<Result<_, _>>()
        .map_err(not_buildable)?;
    let region = Region::new(stream.region().to_owned());
    // arn:aws:firehose:region:account:deliverystream/name
    let name = stream.resource().split_once('/').map_or(stream.resource(), |(_, name)| name);
    let answer = firehose
        .put_record_batch()
        .delivery_stream_name(name)
        .set_records(Some(data))
        .customize()
        .config_override(aws_sdk_firehose::config::Builder::new().region(region))
        .send()
        .await
        .map_err(|error| Failure::of_call(&error))?;
    // Answers are in the order of the records.
    let mut sent: Vec<_> = answer
        .request_responses()
        .iter()
        .map(|entry| match entry.error_code() {
            None => Sent::Accepted,
            Some(code) => Sent::Failed(Failure::of_entry(code, entry.error_message(), false)),
        })
        .collect();
    sent.resize(records.len(), Sent::Failed(Failure::ours(FailureClass::Transient, "NoAnswer")));
    Ok(sent)
}
