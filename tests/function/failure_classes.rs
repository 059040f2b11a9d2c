//! The classes of failed AWS calls: every code that the design names, every HTTP status, every way in which
//! the SDK fails, and which of the service's messages may be kept.

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::{ConnectorError, SdkError};
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::error::ErrorMetadata;
use redrive_aws::clients::failure_of_call;
use redrive_core::failure::FailureClass::{ActionRequired, Permanent, Throttling, Transient};
use redrive_core::failure::{Failure, FailureClass};

/// The codes of SNS, SQS and S3, each with its status, as entries of a batch and whole calls report them.
const CODES: &[(&str, u16, FailureClass)] = &[
    ("Throttling", 400, Throttling),
    ("ThrottlingException", 400, Throttling),
    ("RequestThrottled", 403, Throttling),
    ("AWS.SimpleQueueService.RequestThrottled", 403, Throttling),
    ("Throttled", 429, Throttling),
    ("KMSThrottling", 400, Throttling),
    ("KMS.ThrottlingException", 400, Throttling),
    ("KmsThrottled", 400, Throttling),
    ("SlowDown", 503, Throttling),
    ("InternalError", 500, Transient),
    ("RequestTimeout", 408, Transient),
    ("ServiceUnavailable", 503, Transient),
    ("ConditionalRequestConflict", 409, Transient),
    ("InvalidParameter", 400, Permanent),
    ("ParameterValueInvalid", 400, Permanent),
    ("ValidationError", 400, Permanent),
    ("MissingParameter", 400, Permanent),
    ("InvalidParameterValue", 400, Permanent),
    ("ValidationException", 400, Permanent),
    ("EndpointDisabled", 400, Permanent),
    ("PlatformApplicationDisabled", 400, Permanent),
    ("InvalidMessageContents", 400, Permanent),
    ("UnsupportedOperation", 400, Permanent),
    ("AWS.SimpleQueueService.UnsupportedOperation", 400, Permanent),
    ("InvalidAddress", 404, ActionRequired),
    ("AWS.SimpleQueueService.InvalidAddress", 404, ActionRequired),
    ("NotFound", 404, ActionRequired),
    ("NonExistentQueue", 400, ActionRequired),
    ("AWS.SimpleQueueService.NonExistentQueue", 400, ActionRequired),
    ("QueueDoesNotExist", 400, ActionRequired),
    ("AuthorizationError", 403, ActionRequired),
    ("AccessDenied", 403, ActionRequired),
    ("AccessDeniedException", 400, ActionRequired),
    ("InvalidSecurity", 403, ActionRequired),
    ("KMSDisabled", 400, ActionRequired),
    ("KMSInvalidState", 400, ActionRequired),
    ("KMSNotFound", 400, ActionRequired),
    ("KMSOptInRequired", 403, ActionRequired),
    ("KMSAccessDenied", 400, ActionRequired),
    ("KMS.DisabledException", 400, ActionRequired),
    ("KMS.InvalidStateException", 400, ActionRequired),
    ("KMS.NotFoundException", 400, ActionRequired),
    ("KMS.AccessDeniedException", 400, ActionRequired),
    ("KmsAccessDenied", 400, ActionRequired),
    ("KmsDisabled", 400, ActionRequired),
];

const WORDS: &str = "not authorized to perform: sns:Publish";

/// Returns an error of a service, with or without a code.
fn service_error(code: Option<&str>, status: u16) -> SdkError<ErrorMetadata, HttpResponse> {
    let mut metadata = ErrorMetadata::builder().message(WORDS);
    if let Some(code) = code {
        metadata = metadata.code(code);
    }
    SdkError::service_error(metadata.build(), response(status))
}

fn response(status: u16) -> HttpResponse {
    HttpResponse::new(StatusCode::try_from(status).unwrap(), SdkBody::empty())
}

fn of_call(error: &SdkError<ErrorMetadata, HttpResponse>) -> (FailureClass, String) {
    let failure = failure_of_call(error);
    (failure.class, failure.code)
}

#[test]
fn a_known_code_decides_the_class_of_an_entry_whoever_is_at_fault() {
    for &(code, _, class) in CODES {
        for sender_fault in [true, false] {
            let failure = Failure::of_entry(code, None, sender_fault);
            assert_eq!((failure.class, failure.code.as_str()), (class, code), "sender fault {sender_fault}");
        }
    }
}

#[test]
fn a_known_code_decides_the_class_of_a_call() {
    for &(code, status, class) in CODES {
        assert_eq!(of_call(&service_error(Some(code), status)), (class, code.to_owned()));
    }
}

#[test]
fn an_unknown_code_is_judged_by_its_status() {
    for (status, class) in [
        (400, ActionRequired),
        (403, ActionRequired),
        (404, ActionRequired),
        (408, Transient),
        (429, Throttling),
        (500, Transient),
        (502, Transient),
        (503, Transient),
        (504, Transient),
        (599, Transient),
    ] {
        let code = "NewCode".to_owned();
        assert_eq!(of_call(&service_error(Some("NewCode"), status)), (class, code), "{status}");
        let code = format!("Http{status}");
        assert_eq!(of_call(&service_error(None, status)), (class, code), "{status} without a code");
    }
    assert_eq!(Failure::of_entry("NewCode", None, true).class, ActionRequired);
    assert_eq!(Failure::of_entry("NewCode", None, false).class, Transient);
}

#[test]
fn a_call_that_no_service_answered_is_tried_again() {
    type Error = SdkError<ErrorMetadata, HttpResponse>;
    let io = || ConnectorError::io("broken pipe".into());
    let timeout = || ConnectorError::timeout("too slow".into());
    for (error, code) in [
        (Error::timeout_error("too slow"), "Timeout"),
        (Error::dispatch_failure(timeout()), "Timeout"),
        (Error::dispatch_failure(io()), "Unreachable"),
        (Error::dispatch_failure(ConnectorError::other("no route".into(), None)), "Unreachable"),
        (Error::response_error("no XML", response(200)), "Http200"),
        (Error::response_error("no XML", response(503)), "Http503"),
    ] {
        assert_eq!(of_call(&error), (Transient, code.to_owned()), "{error:?}");
    }
}

#[test]
fn a_request_that_cannot_be_built_is_permanent() {
    let error = SdkError::<ErrorMetadata, HttpResponse>::construction_failure("no such host name");
    assert_eq!(of_call(&error), (Permanent, "NotBuildable".to_owned()));
}

/// A message may quote the request: a body, an attribute, a receipt handle. Only messages that name an action
/// and a resource are kept for the log.
#[test]
fn the_words_of_a_service_are_kept_only_where_they_name_what_to_mend() {
    for &(code, status, class) in CODES {
        let kept = (class == ActionRequired).then(|| WORDS.to_owned());
        assert_eq!(Failure::of_entry(code, Some(WORDS), true).message, kept, "{code}");
        assert_eq!(failure_of_call(&service_error(Some(code), status)).message, kept, "{code}");
    }
}

#[test]
fn a_message_that_quotes_the_receipt_handle_is_never_kept() {
    let quoting = "The input receipt handle \"AQEB-secret\" is not a valid receipt handle.";
    for code in ["ReceiptHandleIsInvalid", "InvalidParameterValue", "MessageNotInflight", "NewCode"] {
        for sender_fault in [true, false] {
            let failure = Failure::of_entry(code, Some(quoting), sender_fault);
            assert!(!format!("{failure:?}").contains("AQEB-secret"), "{failure:?}");
        }
    }
}
