//! The objects under `CONTROL`: the document of orders, which the function reads, and the list of waiting letters, which it
//! writes and operators read.

mod waiting;

use aws_sdk_s3::operation::get_object::GetObjectError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::arn::Arn;
use crate::batch::OrdersRead;
use crate::clients::{failure_of_call, in_time, put_lines};
use crate::failure::{Failure, FailureClass};
use crate::policy::MAX_ORDERS_BYTES;
use crate::waiting::{WaitingLetter, orders_key, waiting_key};

pub use waiting::{Line, WaitingList};

/// The place of orders and of the list of waiting letters.
#[derive(Debug, Clone)]
pub struct Control {
    /// The client.
    pub s3: aws_sdk_s3::Client,
    /// The bucket.
    pub bucket: String,
    /// The prefix of every key.
    pub prefix: String,
}

/// The list of one invocation.
#[derive(Debug, Clone, Copy)]
pub struct List<'a> {
    /// The queue that its letters lie in.
    pub queue: &'a Arn,
    /// The invocation's request id.
    pub request_id: &'a str,
    /// The present.
    pub now: Timestamp,
    /// No call goes on after this.
    pub until: Instant,
}

/// What lets the function read the orders. A role that may not list the bucket is told 403 of a missing object.
/// <https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html>
const GRANTS: &str = "the function's role needs s3:GetObject on the object, and s3:ListBucket on its bucket, without which \
                      a missing object looks like a forbidden one";

impl Control {
    /// Reads the document of orders, but for the one with this tag.
    ///
    /// # Errors
    ///
    /// [`Failure`] where nobody can say what is ordered.
    pub async fn read_orders(&self, unless: Option<String>, until: Instant) -> Result<OrdersRead, Failure> {
        in_time(until, self.get_orders(unless)).await
    }

    async fn get_orders(&self, unless: Option<String>) -> Result<OrdersRead, Failure> {
        let key = orders_key(&self.prefix);
        let call = self.s3.get_object().bucket(&self.bucket).key(key).set_if_none_match(unless);
        let answer = match call.send().await {
            Ok(answer) => answer,
            Err(error) => return without_document(&error),
        };
        let length = answer.content_length.and_then(|length| usize::try_from(length).ok());
        if length.is_some_and(|length| length > MAX_ORDERS_BYTES) {
            let failure = Failure::ours(FailureClass::ActionRequired, "OrdersTooLong");
            let message = format!("must be at most {MAX_ORDERS_BYTES} bytes long");
            return Err(Failure { message: Some(message), ..failure });
        }
        let tag = answer.e_tag;
        let body = answer.body.collect().await;
        let body = body.map_err(|_| Failure::ours(FailureClass::Transient, "Unreachable"))?;
        Ok(OrdersRead::Document { json: body.to_vec(), tag })
    }

    /// Writes the list of the letters that an invocation has hidden for long.
    ///
    /// # Errors
    ///
    /// [`Failure`] where it is not written, or nobody can say.
    pub async fn list_waiting(&self, letters: &[WaitingLetter], list: List<'_>) -> Result<(), Failure> {
        let lines: Result<String, _> =
            letters.iter().map(|letter| serde_json::to_string(letter).map(|line| line + "\n")).collect();
        let key = waiting_key(&self.prefix, list.queue, list.now, list.request_id);
        in_time(list.until, put_lines(&self.s3, &self.bucket, &key, lines)).await
    }
}

/// What it means that there was no document in the answer.
fn without_document(error: &SdkError<GetObjectError, HttpResponse>) -> Result<OrdersRead, Failure> {
    if error.raw_response().is_some_and(|raw| raw.status().as_u16() == 304) {
        return Ok(OrdersRead::NotModified);
    }
    if error.as_service_error().is_some_and(GetObjectError::is_no_such_key) {
        return Ok(OrdersRead::None);
    }
    let failure = failure_of_call(error);
    let forbidden = matches!(failure.code.as_str(), "AccessDenied" | "Http403");
    let message = if forbidden { Some(GRANTS.to_owned()) } else { failure.message };
    Err(Failure { message, ..failure })
}
