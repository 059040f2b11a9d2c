//! The time of a server, from the `Date` header of its answers.

use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::BeforeDeserializationInterceptorContextRef;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

/// Reads a date in the format of HTTP headers.
/// <https://www.rfc-editor.org/rfc/rfc9110#section-5.6.7>
pub(crate) fn http_date(text: &str) -> Option<Timestamp> {
    DateTimeParser::new().parse_timestamp(text).ok()
}

/// The latest `Date` in the answers that this interceptor has seen.
#[derive(Debug, Clone, Default)]
pub struct ServerTime(Arc<Mutex<Option<Timestamp>>>);

impl ServerTime {
    /// Returns the latest time, or `None` before the first answer that has one.
    #[must_use]
    pub fn get(&self) -> Option<Timestamp> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Intercept for ServerTime {
    fn name(&self) -> &'static str {
        "ServerTime"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = context.response().headers().get("date");
        if let Some(date) = date.and_then(http_date) {
            let mut time = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Answers come in any order.
            *time = (*time).max(Some(date));
        }
        Ok(())
    }
}
