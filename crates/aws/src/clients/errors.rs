//! The errors of the SDK's calls, translated into failures.

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use redrive_core::failure::{Failure, FailureClass};

/// Classifies the failure of a whole call.
pub fn failure_of_call<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> Failure {
    match error {
        SdkError::ServiceError(service) => {
            let status = service.raw().status().as_u16();
            let metadata = service.err().meta();
            Failure::of_service(metadata.code(), metadata.message(), Some(status))
        }
        SdkError::TimeoutError(_) => Failure::ours(FailureClass::Transient, "Timeout"),
        SdkError::DispatchFailure(dispatch) if dispatch.is_timeout() => {
            Failure::ours(FailureClass::Transient, "Timeout")
        }
        SdkError::DispatchFailure(_) => Failure::ours(FailureClass::Transient, "Unreachable"),
        SdkError::ResponseError(response) => {
            let status = response.raw().status().as_u16();
            Failure::of_service(None, None, Some(status))
        }
        // A request that cannot be built now cannot be built next time either.
        SdkError::ConstructionFailure(_) => Failure::ours(FailureClass::Permanent, "NotBuildable"),
        _ => Failure::ours(FailureClass::Transient, "Unknown"),
    }
}

/// Reports whether S3 wrote nothing because a condition was not met (412), because somebody else is writing
/// at this moment (409), or because the object is gone (404).
/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html>
pub fn is_condition<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> bool {
    let status = error.raw_response().map(|raw| raw.status().as_u16());
    matches!(status, Some(404 | 409 | 412)) && error.code() != Some("NoSuchBucket")
}

#[cfg(test)]
mod tests {
    use aws_sdk_s3::operation::put_object::PutObjectError;
    use aws_smithy_runtime_api::http::StatusCode;
    use aws_smithy_types::body::SdkBody;
    use aws_smithy_types::error::ErrorMetadata;

    use super::*;

    #[test]
    fn a_condition_is_told_from_other_refusals() {
        for (status, code, expected) in [
            (412, "PreconditionFailed", true),
            (409, "ConditionalRequestConflict", true),
            (404, "NoSuchKey", true),
            (404, "NoSuchBucket", false),
            (403, "AccessDenied", false),
            (503, "SlowDown", false),
        ] {
            let metadata = ErrorMetadata::builder().code(code).build();
            let raw = HttpResponse::new(StatusCode::try_from(status).unwrap(), SdkBody::empty());
            let error = SdkError::service_error(PutObjectError::generic(metadata), raw);
            assert_eq!(is_condition(&error), expected, "{status} {code}");
        }
    }
}
