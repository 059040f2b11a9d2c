//! Failures of the SDK's calls.

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

use super::{Failure, FailureClass};

impl Failure {
    /// Classifies the failure of a whole call.
    pub fn of_call<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> Self {
        match error {
            SdkError::ServiceError(service) => {
                let status = service.raw().status().as_u16();
                let metadata = service.err().meta();
                Self::of_service(metadata.code(), metadata.message(), Some(status))
            }
            SdkError::TimeoutError(_) => Self::ours(FailureClass::Transient, "Timeout"),
            SdkError::DispatchFailure(dispatch) if dispatch.is_timeout() => {
                Self::ours(FailureClass::Transient, "Timeout")
            }
            SdkError::DispatchFailure(_) => Self::ours(FailureClass::Transient, "Unreachable"),
            SdkError::ResponseError(response) => {
                let status = response.raw().status().as_u16();
                Self::of_service(None, None, Some(status))
            }
            // A request that cannot even be built will not be built next time.
            SdkError::ConstructionFailure(_) => Self::ours(FailureClass::Permanent, "NotBuildable"),
            _ => Self::ours(FailureClass::Transient, "Unknown"),
        }
    }
}
