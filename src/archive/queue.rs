//! An archive in an SQS queue: body and attributes unchanged.

use std::borrow::Cow;

use tokio::time::Instant;

use super::{Batch, Epitaph, Record};
use crate::arn::Arn;
use crate::failure::{Failure, FailureClass};
use crate::letter::{Attribute, Letter};
use crate::target::{
    Courier, DEFAULT_GROUP, Endpoint, MAX_ATTRIBUTES, MAX_MESSAGE_BYTES, Parcel, Sent, Shipment, Time,
    Waiting,
};

/// The attribute that holds the record without its message, where there is room for one.
pub const RECORD_ATTRIBUTE: &str = "sns-redrive-archive";

pub(super) async fn store<'l>(
    courier: &Courier,
    queue: &Arn,
    letters: &[(&'l Letter, Epitaph<'_>)],
    batch: Batch<'_>,
) -> Vec<Result<(), Failure>> {
    let to = Endpoint::Queue(queue.clone());
    let pack = |(letter, epitaph): &(&'l Letter, Epitaph<'_>)| {
        Shipment::Message(parcel(letter, &Record::of(letter, epitaph, batch.now), queue))
    };
    let parcels: Vec<_> = letters.iter().map(pack).collect();
    let not_before = Instant::now();
    let waiting: Vec<_> = parcels
        .iter()
        .map(|shipment| Waiting { to: &to, shipment, not_before, at_once: usize::MAX })
        .collect();
    let answers = courier.deliver(&waiting, Time::until(batch.until)).await;
    answers
        .into_iter()
        .map(|sent| match sent {
            Sent::Accepted => Ok(()),
            Sent::Failed(failure) => Err(failure),
            Sent::NotStarted | Sent::Refused(_) => {
                Err(Failure::ours(FailureClass::Transient, "DeadlineExceeded"))
            }
        })
        .collect()
}

fn parcel<'a>(letter: &'a Letter, record: &Record, queue: &Arn) -> Parcel<'a> {
    let sqs = &letter.sqs;
    let fifo = queue.is_fifo();
    let mut parcel = Parcel {
        body: Cow::Borrowed(&sqs.body),
        subject: None,
        attributes: sqs
            .attributes
            .iter()
            .map(|(name, value)| (name.as_str(), Cow::Borrowed(value)))
            .collect(),
        group_id: sqs.group_id().or(fifo.then_some(DEFAULT_GROUP)),
        // Archiving the same message twice within five minutes is one archived message.
        deduplication_id: fifo.then(|| sqs.message_id.clone()),
        trace_header: sqs.system("AWSTraceHeader"),
        delay: 0,
        unmarked: false,
    };
    let summary = Attribute::string(record.to_summary());
    let fits = parcel.attributes.len() < MAX_ATTRIBUTES
        && parcel.size() + RECORD_ATTRIBUTE.len() + summary.size() <= MAX_MESSAGE_BYTES;
    if fits {
        // Of an archived letter that somebody put back, the request keeps the last of two.
        parcel.attributes.push((RECORD_ATTRIBUTE, Cow::Owned(summary)));
    }
    parcel
}
