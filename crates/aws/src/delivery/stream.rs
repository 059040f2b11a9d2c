//! Sends to Amazon Data Firehose streams with `PutRecordBatch`.
//! <https://docs.aws.amazon.com/firehose/latest/APIReference/API_PutRecordBatch.html>

use aws_sdk_firehose::config::Region;
use aws_sdk_firehose::primitives::Blob;
use aws_sdk_firehose::types;
use redrive_core::arn::Arn;
use redrive_core::batch::SendResult;
use redrive_core::endpoint::DeliverySubscription;
use redrive_core::failure::{Failure, FailureClass};
use redrive_core::letter::Letter;

use crate::clients::failure_of_call;

/// The end of a record unless a rule sets another. Firehose concatenates records. Without a line break two of
/// them would share a line, and a reader of lines would see only the first, or neither.
/// <https://docs.aws.amazon.com/firehose/latest/dev/basic-deliver.html>
const LINE_BREAK: &str = "\n";

/// A record of one letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamRecord<'a> {
    /// The stored body.
    pub body: &'a str,
    /// The delimiter after the body. Empty if the body already ends with it.
    pub delimiter: &'static str,
}

impl<'a> StreamRecord<'a> {
    /// Packs a letter.
    pub(super) fn pack(letter: &'a Letter, through: Option<&DeliverySubscription>) -> Self {
        let body = letter.sqs.body.as_str();
        let delimiter = through.map_or(LINE_BREAK, |through| through.record_delimiter);
        Self { body, delimiter: if body.ends_with(delimiter) { "" } else { delimiter } }
    }

    /// Returns the bytes by which the record counts in the size limit of a request.
    #[must_use]
    pub fn size(&self) -> usize {
        self.body.len() + self.delimiter.len()
    }
}

/// Makes one request. Returns an answer per record, or one failure of the whole request.
pub(super) async fn put(
    firehose: &aws_sdk_firehose::Client,
    stream: &Arn,
    records: &[&StreamRecord<'_>],
) -> Result<Vec<SendResult>, Failure> {
    let not_buildable = |_| Failure::ours(FailureClass::Permanent, "NotBuildable");
    let data: Vec<_> = records
        .iter()
        .map(|record| Blob::new([record.body, record.delimiter].concat()))
        .map(|data| types::Record::builder().data(data).build())
        .collect::<Result<_, _>>()
        .map_err(not_buildable)?;
    let region = Region::new(stream.region().to_owned());
    // The ARN has the form arn:aws:firehose:region:account:deliverystream/name.
    let name = stream.resource().split_once('/').map_or(stream.resource(), |(_, name)| name);
    let answer = firehose
        .put_record_batch()
        .delivery_stream_name(name)
        .set_records(Some(data))
        .customize()
        .config_override(aws_sdk_firehose::config::Builder::new().region(region))
        .send()
        .await
        .map_err(|error| failure_of_call(&error))?;
    // Answers are in the order of the records.
    let mut sent: Vec<_> = answer
        .request_responses()
        .iter()
        .map(|entry| match entry.error_code() {
            None => SendResult::Accepted,
            Some(code) => SendResult::Failed(Failure::of_entry(code, entry.error_message(), false)),
        })
        .collect();
    sent.resize(records.len(), SendResult::Failed(Failure::ours(FailureClass::Transient, "NoAnswer")));
    Ok(sent)
}
