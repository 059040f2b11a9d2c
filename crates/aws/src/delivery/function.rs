//! Calls functions with `Invoke`.
//! <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html>

use aws_sdk_lambda::config::Region;
use aws_sdk_lambda::config::retry::RetryConfig;
use aws_sdk_lambda::config::timeout::TimeoutConfig;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use redrive_core::arn::Arn;
use redrive_core::failure::{FUNCTION_ERROR, FUNCTION_TIMED_OUT, Failure, FailureClass};

use super::function_event::InvokePayload;
use crate::clients::{CONNECT_TIMEOUT, failure_of_call};

/// The text at the beginning of Lambda's answer for a function that ran until its own timeout.
/// <https://docs.aws.amazon.com/lambda/latest/dg/configuration-timeout.html>
const TIMED_OUT_TEXT: &[u8] = b"Task timed out after";

/// Calls a function once. A synchronous call waits for the function, which may take longer than any other
/// call. The SDK never repeats such a call, because the function may have done its work.
pub(super) async fn call(
    lambda: &aws_sdk_lambda::Client,
    function: &Arn,
    event: &InvokePayload<'_>,
) -> Result<(), Failure> {
    let region = Region::new(function.region().to_owned());
    let mut config = aws_sdk_lambda::config::Builder::new().region(region);
    let mut kind = InvocationType::Event;
    if event.synchronous {
        kind = InvocationType::RequestResponse;
        // These replace the client's own settings as a whole.
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
    if answer.function_error().is_none() {
        return Ok(());
    }
    // The function ran and failed. Its answer may hold anything, so it is not kept.
    let timed_out = answer.payload().is_some_and(|payload| says_that_time_was_over(payload.as_ref()));
    Err(Failure::ours(FailureClass::Transient, if timed_out { FUNCTION_TIMED_OUT } else { FUNCTION_ERROR }))
}

fn says_that_time_was_over(answer: &[u8]) -> bool {
    let beginning = &answer[..answer.len().min(1_000)];
    beginning.windows(TIMED_OUT_TEXT.len()).any(|part| part == TIMED_OUT_TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_had_too_little_time_is_told_from_one_that_fails() {
        let timed_out = br#"{"errorType":"Sandbox.Timedout","errorMessage":"RequestId: 1 Error: Task timed out after 3.00 seconds"}"#;
        assert!(says_that_time_was_over(timed_out));
        assert!(!says_that_time_was_over(br#"{"errorMessage":"no such override"}"#));
        assert!(!says_that_time_was_over(b""));
    }
}
