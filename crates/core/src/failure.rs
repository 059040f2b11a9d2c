//! The meaning of an error, decided in one place.
//!
//! The SDK's own `retryable_error_kind()` is empty for Publish, `SendMessage` and `ChangeMessageVisibility`,
//! so the class comes from the error's code, the HTTP status and the variant of the SDK's error. An unknown
//! error counts as one that needs an operator: the letter stays on its schedule, since only a failure that is
//! surely permanent may end it.

/// The code of a call whose function ran and failed by itself.
pub const FUNCTION_ERROR: &str = "FunctionError";

/// The code of a call whose function ran until its own timeout.
pub const FUNCTION_TIMED_OUT: &str = "FunctionTimedOut";

/// The code of work that was not done in time.
pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";

/// The code of an attempt, or of a look-up before one, that got less than its full time: endpoints that do not work
/// have used up the time that the function spends on them.
pub const CUT_SHORT: &str = "CutShort";

/// The code of a search that has made progress, and goes on next time.
pub const SEARCH_UNFINISHED: &str = "SearchUnfinished";

/// The code of a call about a message that its queue no longer has: another copy of it was handled.
pub const MESSAGE_GONE: &str = "MessageGone";

/// The code of a call by a receipt handle whose time is over: its message is visible again, or another receive
/// has it.
pub const HANDLE_EXPIRED: &str = "HandleExpired";

/// The code of a request to a web server whose answer did not come, or cannot be read.
pub const ANSWER_UNREADABLE: &str = "AnswerUnreadable";

/// The meaning of a failure for the letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// The target got too many requests. A later retry will work.
    Throttling,
    /// The network or the service failed. A later retry will work.
    Transient,
    /// This target will never accept this letter.
    Permanent,
    /// An operator has to correct a permission, a key or a queue. Then a retry will work.
    ActionRequired,
}

impl FailureClass {
    /// Returns the name in logs and archived records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Throttling => "throttling",
            Self::Transient => "transient",
            Self::Permanent => "permanent",
            Self::ActionRequired => "action_required",
        }
    }
}

/// One failed call, or one failed entry of a batch call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The meaning of the failure for the letter.
    pub class: FailureClass,
    /// The service's error code, or a name of our own if no service answered.
    pub code: String,
    /// The service's message, kept only for codes that are known to name an action and a resource. The
    /// messages of other codes may quote what was sent, such as a receipt handle.
    pub message: Option<String>,
    /// The seconds after which the target wants to be called again, if it says so.
    pub retry_after: Option<u64>,
}

/// The codes of throttling:
/// <https://docs.aws.amazon.com/sns/latest/api/API_PublishBatch.html#API_PublishBatch_Errors>,
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html>
const THROTTLING: &[&str] = &[
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "Throttled",
    "RequestThrottled",
    "TooManyRequestsException",
    "KMSThrottling",
    "KMSThrottlingException",
    "KMS.ThrottlingException",
    "KmsThrottled",
    "SlowDown",
];

const TRANSIENT: &[&str] = &[
    "RequestTimeout",
    "RequestTimeoutException",
    "InternalError",
    "InternalErrorException",
    "InternalFailure",
    "ServiceException",
    "ServiceUnavailableException",
    "ServiceUnavailable",
    "ConditionalRequestConflict",
    "OperationAborted",
];

const PERMANENT: &[&str] = &[
    "InvalidParameter",
    "InvalidParameterException",
    "InvalidParameterValue",
    "InvalidParameterValueException",
    "ParameterValueInvalid",
    "MissingParameter",
    // SNS, of a message attribute without a type. Recorded.
    "ValidationError",
    "ValidationException",
    "EndpointDisabled",
    "PlatformApplicationDisabled",
    "InvalidMessageContents",
    "UnsupportedOperation",
    "InvalidArgumentException",
    "MessageTooLong",
    "BatchRequestTooLong",
    "InvalidRequestContentException",
    "RequestTooLargeException",
    "UnsupportedMediaTypeException",
];

/// The codes of errors that an operator has to correct. Every code of KMS that stands in none of the lists is
/// one too.
const ACTION_REQUIRED: &[&str] = &[
    "NotFound",
    "NotFoundException",
    "NonExistentQueue",
    "QueueDoesNotExist",
    "ResourceNotFoundException",
    "NoSuchBucket",
    "AuthorizationError",
    "AuthorizationErrorException",
    "AccessDenied",
    "AccessDeniedException",
    "InvalidSecurity",
    "InvalidSecurityException",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "MissingAuthenticationToken",
    "OptInRequired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
    // The queue's URL does not fit the endpoint. The message that was sent has nothing to do with it.
    // <https://github.com/aws/aws-sdk-net/issues/437>
    "InvalidAddress",
];

/// The prefix of the query-protocol codes of SQS.
const SQS_PREFIX: &str = "AWS.SimpleQueueService.";

fn is_kms(code: &str) -> bool {
    code.to_ascii_lowercase().starts_with("kms")
}

impl Failure {
    /// Classifies one entry of a batch call's `Failed` list.
    #[must_use]
    pub fn of_entry(code: &str, message: Option<&str>, sender_fault: bool) -> Self {
        let status = if sender_fault { 400 } else { 500 };
        Self::of_service(Some(code), message, Some(status))
    }

    /// Returns the code, and AWS's own sentence, which names the action, and the boundary, the policy or the key that
    /// refused it.
    #[must_use]
    pub fn told(&self) -> String {
        self.message.as_ref().map_or_else(|| self.code.clone(), |said| format!("{}: {said}", self.code))
    }

    /// Reports whether SQS says that the queue does not exist.
    #[must_use]
    pub fn is_of_no_queue(&self) -> bool {
        let code = self.code.strip_prefix(SQS_PREFIX).unwrap_or(&self.code);
        matches!(code, "NonExistentQueue" | "QueueDoesNotExist")
    }

    /// Returns advice for the operator, for failures that an operator can correct.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        let code = self.code.strip_prefix(SQS_PREFIX).unwrap_or(&self.code);
        match code {
            "NonExistentQueue"
            | "QueueDoesNotExist"
            | "NotFound"
            | "NotFoundException"
            | "ResourceNotFoundException" => {
                Some("the target does not exist: create it, or delete the subscription")
            }
            "AccessDenied"
            | "AccessDeniedException"
            | "AuthorizationError"
            | "AuthorizationErrorException" => {
                Some("the function's role or the target's policy does not allow it")
            }
            "InvalidAddress" => Some(
                "the queue's URL does not fit the endpoint that was called: see the queue's region, and the \
                 variables AWS_ENDPOINT_URL and AWS_ENDPOINT_URL_SQS",
            ),
            ANSWER_UNREADABLE => Some(
                "the server may have taken the message, but its answer cannot be read, so it gets the message again: correct \
                 its answer, or take repeated messages once",
            ),
            "NoRootCertificates" => Some("the system has no root certificates: install them"),
            _ if self.class == FailureClass::ActionRequired && is_kms(code) => {
                Some("the target's key cannot be used: see the key's policy and state")
            }
            // A web server's refusal, which counts as permanent, as it does for SNS. But SNS calls from other
            // addresses.
            "Http401" | "Http403" if self.class == FailureClass::Permanent => Some(
                "the server does not let this function in: allow the address that it calls from, or give it \
                 the permission that it lacks; retryPermanent in the rule keeps a letter on its schedule meanwhile",
            ),
            _ if self.class == FailureClass::ActionRequired && code.starts_with("Http3") => Some(
                "the endpoint redirects, which SNS does not follow: subscribe the URL that it redirects to",
            ),
            _ => None,
        }
    }

    /// Reports whether the content of one message may be the reason, so that a service may take the others of its
    /// request without it: a refusal for good, or with a code that nobody knows.
    #[must_use]
    pub fn may_be_content(&self) -> bool {
        let code = self.code.strip_prefix(SQS_PREFIX).unwrap_or(&self.code);
        let is_known = || ACTION_REQUIRED.contains(&code) || is_kms(code) || code.starts_with("Http");
        match self.class {
            FailureClass::Permanent => true,
            FailureClass::ActionRequired => !is_known(),
            FailureClass::Throttling | FailureClass::Transient => false,
        }
    }

    /// Reports whether AWS refused the call for lack of permissions.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.class == FailureClass::ActionRequired
            && ["AccessDenied", "Forbidden", "Http403", "AuthorizationError"]
                .iter()
                .any(|code| self.code.contains(code))
    }

    /// Reports whether the receive is over whose message a call was about, so that the message is no longer in
    /// this caller's hands.
    #[must_use]
    pub fn ends_receive(&self) -> bool {
        [MESSAGE_GONE, HANDLE_EXPIRED].contains(&self.code.as_str())
    }

    /// Creates a failure that no service reported.
    #[must_use]
    pub fn ours(class: FailureClass, code: &str) -> Self {
        Self { class, code: code.to_owned(), message: None, retry_after: None }
    }

    /// Classifies the error of a service by its code and its HTTP status.
    #[must_use]
    pub fn of_service(code: Option<&str>, message: Option<&str>, status: Option<u16>) -> Self {
        // Query-protocol services may prefix codes: `AWS.SimpleQueueService.NonExistentQueue`.
        let bare = code.map(|code| code.strip_prefix(SQS_PREFIX).unwrap_or(code));
        let action_required = bare.is_some_and(|code| ACTION_REQUIRED.contains(&code) || is_kms(code));
        let class = match (bare, status) {
            (Some(code), _) if THROTTLING.contains(&code) => FailureClass::Throttling,
            (Some(code), _) if TRANSIENT.contains(&code) => FailureClass::Transient,
            (Some(code), _) if PERMANENT.contains(&code) => FailureClass::Permanent,
            _ if action_required => FailureClass::ActionRequired,
            (_, Some(429)) => FailureClass::Throttling,
            // A successful answer that could not be read does not tell what was done.
            (_, Some(408 | 500..=599)) | (None, Some(200..=299)) => FailureClass::Transient,
            _ => FailureClass::ActionRequired,
        };
        let code = match (code, status) {
            (Some(code), _) => code.to_owned(),
            (None, Some(status)) => format!("Http{status}"),
            (None, None) => "Unknown".to_owned(),
        };
        let message =
            message.filter(|_| action_required && class == FailureClass::ActionRequired).map(str::to_owned);
        Self { class, code, message, retry_after: None }
    }
}
