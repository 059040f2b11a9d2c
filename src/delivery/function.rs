//! Functions: `Invoke`.
//! <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html>

use aws_sdk_lambda::config::Region;
use aws_sdk_lambda::config::retry::RetryConfig;
use aws_sdk_lambda::config::timeout::TimeoutConfig;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;

use super::event::Invoke;
use crate::arn::Arn;
use crate::clients::{CONNECT_TIMEOUT, failure_of_call};
use crate::failure::{Failure, FailureClass};

/// The code of a call whose function ran, and failed.
pub(super) const FAILED: &str = "FunctionError";

/// One call. A synchronous one waits for the function, which may take longer than any other call,
/// and is never repeated by the SDK: the function may have done its work.
pub(super) async fn call(
    lambda: &aws_sdk_lambda::Client,
    function: &Arn,
    event: &Invoke<'_>,
) -> Result<(), Failure> {
    let region = Region::new(function.region().to_owned());
    let mut config = aws_sdk_lambda::config::Builder::new().region(region);
    let mut kind = InvocationType::Event;
    if event.synchronous {
        kind = InvocationType::RequestResponse;
        // These replace the client's own as a whole.
        let timeouts =
            TimeoutConfig::builder().connect_timeout(CONNECT_TIMEOUT).disable_operation_attempt_timeout();
        config = config.retry_config(RetryConfig::disabled()).timeout_config(timeouts.build());
    }
    let answer = lambda
        .invoke()
        .function_name(function.as_str())
        .invocation_type(kind)
        .payload(Blob::new(event.payload.as_bytes()))
        .customize()
        .config_override(config)
        .send()
        .await
        .map_err(|error| failure_of_call(&error))?;
    match answer.function_error() {
        None => Ok(()),
        // The function ran and failed; what it answered may hold anything and is not kept.
        Some(_) => Err(Failure::ours(FailureClass::Transient, FAILED)),
    }
}
