//! Firehose: streams that accept records.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::call_context::SimContext;
use crate::error::{BatchAnswer, Error};
use crate::journal::SimEvent;
use crate::message::SimEntry;

/// The largest number of records of a request.
/// <https://docs.aws.amazon.com/firehose/latest/APIReference/API_PutRecordBatch.html>
pub const MAX_RECORDS: usize = 500;

/// The largest number of bytes of all records of a request.
/// <https://docs.aws.amazon.com/firehose/latest/APIReference/API_PutRecordBatch.html>
pub const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// The largest number of bytes of a record.
/// <https://docs.aws.amazon.com/firehose/latest/dev/limits.html>
pub const MAX_RECORD_BYTES: usize = 1000 * 1024;

/// The streams of one account.
#[derive(Debug, Default)]
pub struct Firehose {
    streams: BTreeSet<String>,
}

impl Firehose {
    /// Creates a stream.
    pub fn create(&mut self, name: &str) {
        self.streams.insert(name.to_owned());
    }

    /// Removes a stream.
    pub fn remove(&mut self, name: &str) {
        self.streams.remove(name);
    }

    /// Carries out `PutRecordBatch`. The bodies of the entries are the records; their order in the request
    /// identifies them.
    pub fn put_record_batch(
        &mut self,
        cx: &mut SimContext<'_>,
        stream: &str,
        records: &[SimEntry],
    ) -> Result<BatchAnswer<Arc<str>>, Error> {
        if !self.streams.contains(stream) {
            let message = format!("Firehose {stream} under account {} not found.", crate::names::ACCOUNT);
            return Err(Error::bad("ResourceNotFoundException", message));
        }
        if !(1..=MAX_RECORDS).contains(&records.len()) {
            let message = format!(
                "1 validation error detected: Value at 'records' failed to satisfy constraint: Member must have \
                 length less than or equal to {MAX_RECORDS} and greater than or equal to 1"
            );
            return Err(Error::bad("ValidationException", message));
        }
        let sizes = records.iter().map(|record| record.body.len());
        if sizes.clone().any(|size| size > MAX_RECORD_BYTES) || sizes.sum::<usize>() > MAX_BATCH_BYTES {
            let message = "Records size exceeds 4 MB limit";
            return Err(Error::bad("InvalidArgumentException", message));
        }
        let name: Arc<str> = stream.into();
        Ok(cx.each(records, |cx, record| {
            let id = cx.id();
            let data = record.body.clone().into_bytes();
            cx.log(SimEvent::Streamed { stream: Arc::clone(&name), data });
            Ok(id)
        }))
    }
}
