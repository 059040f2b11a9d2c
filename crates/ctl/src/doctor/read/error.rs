//! Calls that failed.

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use redrive_aws::clients::failure_of_call;

use crate::doctor::setup::ReadError;

/// Returns the error of a call that failed.
pub(crate) fn read_error<E: ProvideErrorMetadata>(call: &'static str, error: &SdkError<E>) -> ReadError {
    ReadError::of(call, failure_of_call(error))
}
