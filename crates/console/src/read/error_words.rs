//! What the codes of failures mean, in words.

use redrive_core::arn::{Arn, ArnKind};
use redrive_core::failure::{
    CUT_SHORT, DEADLINE_EXCEEDED, FUNCTION_ERROR, FUNCTION_TIMED_OUT, Failure, FailureClass,
};
use redrive_core::policy::ArchiveReason;
use redrive_core::waiting::ENDPOINT_DOWN;

use crate::account::TargetGrants;

/// Returns a code without the prefix of SQS's older protocol.
#[must_use]
pub fn bare_code(code: &str) -> &str {
    code.strip_prefix("AWS.SimpleQueueService.").unwrap_or(code)
}

/// What a failure means, and what mends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorWords {
    /// The meaning, as the rest of a sentence: `the queue does not exist`.
    pub says: String,
    /// What a person does about it.
    pub mend: &'static str,
    /// True if letters that wait flow by themselves when the endpoint answers again.
    pub passes: bool,
    /// True if the endpoint only asks for time.
    pub throttles: bool,
}

/// Returns the words for a code.
#[must_use]
pub fn error_words(code: &str) -> ErrorWords {
    let bare = bare_code(code);
    let words =
        |says: &str, mend| ErrorWords { says: says.to_owned(), mend, passes: false, throttles: false };
    let passes =
        |says: &str| ErrorWords { passes: true, ..words(says, "See with its owner why it does not answer.") };
    match bare {
        "NonExistentQueue" | "QueueDoesNotExist" => words(
            "the queue does not exist",
            "Create the queue again, or give the subscription another endpoint.",
        ),
        "NotFound" | "NotFoundException" | "ResourceNotFoundException" => words(
            "the endpoint does not exist",
            "Create the function, the topic or the stream again, or give the subscription another endpoint.",
        ),
        "SubscriptionGone" => words("the subscription does not exist", "Subscribe the endpoint again."),
        "AccessDenied" | "AccessDeniedException" | "AuthorizationError" | "AuthorizationErrorException" => {
            words(
                "a permission is missing",
                "Name the endpoint in the stack's parameter for its kind, such as TargetQueueArns. In another account its own \
             policy must allow the function's role too.",
            )
        }
        ENDPOINT_DOWN => passes("it is down, and no attempt was made"),
        "Timeout" | CUT_SHORT | DEADLINE_EXCEEDED => passes("it does not answer in time"),
        FUNCTION_TIMED_OUT => words(
            "the function runs longer than it may",
            "Raise the function's timeout, or mend what it waits for.",
        ),
        "NoAnswer" => passes("it closes the connection without an answer"),
        "Unreachable" => words(
            "no connection can be made",
            "See whether the host name and the port are right, and whether a firewall lets the function in.",
        ),
        "AddressNotAllowed" => words(
            "its address is private",
            "The function calls public addresses only. Give the subscription another endpoint.",
        ),
        "Unhandled" | FUNCTION_ERROR => {
            words("the function throws an error", "See the function's own log, and mend the function.")
        }
        "InvalidMessageContents" => words(
            "the endpoint refuses the message's content",
            "Replay the letter with an edited body, or leave it in the archive.",
        ),
        _ if is_throttle(bare) => ErrorWords {
            throttles: true,
            ..words("it takes no more for now", "If it lasts, raise the endpoint's limit.")
        },
        "KMS.DisabledException" | "KmsDisabled" => words("its key is disabled", "Enable the key."),
        "KMS.NotFoundException" | "KmsNotFound" => {
            words("its key does not exist", "Give it another key, which lets the function's role use it.")
        }
        _ if is_kms(bare) => words(
            "its key cannot be used",
            "Enable the key, let its policy allow the function's role, and name it in TargetKmsKeyArns.",
        ),
        "ExpiredToken"
        | "ExpiredTokenException"
        | "InvalidSecurity"
        | "InvalidClientTokenId"
        | "UnrecognizedClientException"
        | "SignatureDoesNotMatch" => words(
            "it refuses the function's credentials",
            "See whether the function's role still exists, and whether its clock is right.",
        ),
        "MessageTooLong" | "BatchRequestTooLong" | "RequestTooLargeException" => words(
            "the message is too large for it",
            "Raise the queue's MaximumMessageSize, or replay the letter with an edited body.",
        ),
        _ if Failure::of_service(Some(code), None, None).class == FailureClass::Transient => {
            passes("its service fails")
        }
        _ => of_status(bare).unwrap_or_else(|| words("it fails", "Look up the code in the runbook.")),
    }
}

/// Returns what a person does about a failure of an endpoint: as the words of its code, with the endpoint's own names. Only
/// letters that wait go by themselves.
#[must_use]
pub fn mend(code: &str, target: Option<&str>, waits: bool, grants: &TargetGrants) -> String {
    let general = || match error_words(code) {
        ErrorWords { throttles: true, mend, .. } if waits => {
            format!("Wait: the function slows down and tries again by itself. {mend}")
        }
        ErrorWords { passes: true, mend, .. } if waits => {
            format!("{mend} The letters flow by themselves when it answers again.")
        }
        words => words.mend.to_owned(),
    };
    let Some(Ok(arn)) = target.map(str::parse::<Arn>) else { return general() };
    let parameter = match arn.kind() {
        ArnKind::Queue => "TargetQueueArns",
        ArnKind::Function => "TargetFunctionArns",
        ArnKind::Stream => "TargetStreamArns",
        ArnKind::Topic => "TargetTopicArns",
        ArnKind::Subscription | ArnKind::Other => return general(),
    };
    match bare_code(code) {
        "AccessDenied" | "AccessDeniedException" | "AuthorizationError" | "AuthorizationErrorException" => {
            match grants.name(arn.as_str()) {
                Some(false) => format!(
                    "The stack's parameter {parameter} does not name this target: add it there, and deploy."
                ),
                Some(true) => format!(
                    "The stack's parameter {parameter} names this target now. If it did so before, see the target's own policy: it \
                     refuses the function's role, or in another account does not allow it."
                ),
                None => format!(
                    "Name this target in the stack's parameter {parameter}. If it is named there, see its own policy: in another \
                     account that must allow the function's role too."
                ),
            }
        }
        "Unhandled" | FUNCTION_ERROR if arn.kind() == ArnKind::Function => {
            let name = arn.resource().strip_prefix("function:").unwrap_or(arn.resource());
            let name = name.split(':').next().unwrap_or(name);
            format!("See the function's own log, /aws/lambda/{name}, and mend the function.")
        }
        _ => general(),
    }
}

/// Returns what the reason of an archived letter means, as the rest of a sentence.
#[must_use]
pub fn reason_words(reason: &str) -> &'static str {
    let known = ArchiveReason::ALL.into_iter().find(|known| known.name() == reason);
    match known {
        Some(ArchiveReason::Exhausted) => "every retry of the schedule failed",
        Some(ArchiveReason::Expiring) => "the dead-letter queue's retention was about to end",
        Some(ArchiveReason::Rule) => "a rule archives such letters",
        Some(ArchiveReason::Unrecognised) => "no subscription is named, and no rule says where to deliver",
        Some(ArchiveReason::UndeliverableProtocol) => "only SNS can deliver by the subscription's protocol",
        Some(ArchiveReason::Refused) => "the subscription is gone, or names another dead-letter queue",
        Some(ArchiveReason::Permanent) => "the endpoint refused the message for good",
        Some(ArchiveReason::Unmarkable) => "there is no room for the mark that counts retries",
        Some(ArchiveReason::Returned) => "the endpoint had taken the message, and it came back",
        Some(ArchiveReason::Loop) => "the message went round too often",
        Some(ArchiveReason::GivenUp) => "given up by an operator",
        None => "the reason is not known to this version",
    }
}

fn is_kms(code: &str) -> bool {
    code.to_ascii_lowercase().starts_with("kms")
}

fn is_throttle(code: &str) -> bool {
    Failure::of_service(Some(code), None, None).class == FailureClass::Throttling
}

/// Returns the words for the status of a web server.
fn of_status(code: &str) -> Option<ErrorWords> {
    let status: u16 = code.strip_prefix("Http")?.parse().ok()?;
    let mend = match status {
        300..=399 => "SNS follows no redirect: subscribe the URL that it redirects to.",
        401 | 403 => "Let the function in: allow the address that it calls from, or give it what it lacks.",
        404 | 410 => "The path is gone: give the subscription the new URL.",
        413 => "The server takes no message of this size: raise its limit.",
        429 => "If it lasts, ask its owner whether it can take more.",
        400..=499 => "The server refuses the message: see its log.",
        _ => "See the server's log.",
    };
    let passes = !matches!(status, 300..=499);
    Some(ErrorWords { says: format!("it answers {status}"), mend, passes, throttles: status == 429 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_mends_an_endpoint_has_its_own_names() {
        let arn = |rest: &str| format!("arn:aws:{rest}");
        let function = arn("lambda:eu-central-1:123456789012:function:notify:live");
        let queue = arn("sqs:eu-central-1:123456789012:billing");
        for (code, target, says) in [
            ("AccessDenied", Some(&queue), "parameter TargetQueueArns."),
            ("AccessDenied", Some(&function), "parameter TargetFunctionArns."),
            (FUNCTION_ERROR, Some(&function), "/aws/lambda/notify,"),
            (FUNCTION_ERROR, None, "the function's own log,"),
            ("AccessDenied", None, "such as TargetQueueArns"),
        ] {
            let said = mend(code, target.map(String::as_str), true, &TargetGrants::default());
            assert!(said.contains(says), "{code}: {said}");
        }
        for (named, says) in
            [("billing", "see the target's own policy"), ("shop", "add it there, and deploy.")]
        {
            let grants = TargetGrants(Some(vec![arn(&format!("sqs:eu-central-1:123456789012:{named}"))]));
            let said = mend("AccessDenied", Some(&queue), true, &grants);
            assert!(said.contains("TargetQueueArns") && said.contains(says), "{said}");
        }
    }

    #[test]
    fn only_letters_that_wait_go_by_themselves() {
        let none = TargetGrants::default();
        for code in ["Http503", "Http429", "Timeout", "ThrottlingException", "ServiceUnavailable"] {
            assert!(
                mend(code, None, true, &none).contains("by themselves")
                    || mend(code, None, true, &none).contains("by itself"),
                "{code}"
            );
            assert!(
                !mend(code, None, false, &none).contains("sel"),
                "{code}: {}",
                mend(code, None, false, &none)
            );
        }
    }

    #[test]
    fn every_code_has_words_and_what_to_do() {
        for (code, says, throttles) in [
            ("AWS.SimpleQueueService.NonExistentQueue", "the queue does not exist", false),
            ("AccessDenied", "a permission is missing", false),
            ("KMS.DisabledException", "its key is disabled", false),
            ("KmsNotFound", "its key does not exist", false),
            ("KmsAccessDenied", "its key cannot be used", false),
            ("KMS.ThrottlingException", "it takes no more for now", true),
            ("KmsThrottled", "it takes no more for now", true),
            ("ExpiredToken", "it refuses the function's credentials", false),
            ("ServiceUnavailable", "its service fails", false),
            ("Unhandled", "the function throws an error", false),
            ("Http503", "it answers 503", false),
            ("Http429", "it answers 429", true),
            ("ThrottlingException", "it takes no more for now", true),
            ("Http", "it fails", false),
            ("SomethingNew", "it fails", false),
        ] {
            let words = error_words(code);
            assert_eq!((words.says.as_str(), words.throttles), (says, throttles), "{code}");
            assert!(words.mend.ends_with('.'), "{code}");
        }
    }
}
