//! The errors of the SDK's calls, as failures.

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

use crate::failure::{Failure, FailureClass};

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
        // A request that cannot even be built will not be built next time.
        SdkError::ConstructionFailure(_) => Failure::ours(FailureClass::Permanent, "NotBuildable"),
        _ => Failure::ours(FailureClass::Transient, "Unknown"),
    }
}
