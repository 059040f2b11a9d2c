//! The ways into a dead-letter queue, and the errors that led there.

use std::fmt;

use super::claim::OriginClaim;
use crate::arn::Arn;

/// The longest message of a cause. Lambda too keeps the first kilobyte of an error message, which is enough
/// to see what failed.
const MAX_CAUSE_CHARS: usize = 1024;

/// The longest code of a cause. A code is a status or the name of an exception. A function may put anything
/// there, and it is logged, so it is kept short.
const MAX_CODE_CHARS: usize = 128;

/// The way in which a letter got into the dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// SNS gave up on a delivery and left its envelope.
    Sns,
    /// SQS moved it from a consumer's queue after too many receives.
    Sqs {
        /// The queue it came from.
        source: Arn,
    },
    /// Lambda gave up on an asynchronous invocation; the body is the event.
    LambdaAsync,
    /// Lambda sent it to a function's on-failure destination; the event is inside the body.
    LambdaDestination {
        /// The function that failed.
        function: Arn,
    },
    /// An `EventBridge` rule could not reach its target.
    EventBridge {
        /// The rule.
        rule: Arn,
        /// The target that the rule could not reach.
        target: Arn,
    },
    /// A custom event bus of `EventBridge` could not deliver events, and keeps them itself.
    EventBusRecord,
    /// It is anything else: a raw delivery of SNS, or a message of unknown form.
    Raw,
}

/// The error that made the letter a dead one, as its origin gives it.
#[derive(Clone, PartialEq, Eq)]
pub struct LetterCause {
    /// A short code, such as `200` or `Unhandled`.
    pub code: Option<String>,
    /// The error's message. It may hold anything and is never logged.
    pub message: Option<String>,
}

impl Origin {
    /// Every name that [`Origin::name`] returns, in the order of the docs.
    pub const NAMES: [&str; 7] =
        ["sns", "sqs", "lambda-async", "lambda-destination", "eventbridge", "eventbridge-bus", "raw"];

    /// Returns the name in logs, metrics, patterns and archived records.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sns => "sns",
            Self::Sqs { .. } => "sqs",
            Self::LambdaAsync => OriginClaim::LambdaAsync.name(),
            Self::LambdaDestination { .. } => OriginClaim::LambdaDestination.name(),
            Self::EventBridge { .. } => OriginClaim::EventBridge.name(),
            Self::EventBusRecord => "eventbridge-bus",
            Self::Raw => "raw",
        }
    }
}

impl LetterCause {
    /// Creates a cause of a code and a message, cut to the lengths that are kept, if there is either.
    pub(super) fn new(code: Option<&str>, message: Option<&str>) -> Option<Self> {
        let cut = |text: &str, most| text.chars().take(most).collect::<String>();
        let code = code.map(|code| cut(code, MAX_CODE_CHARS));
        let message = message.map(|message| cut(message, MAX_CAUSE_CHARS));
        (code.is_some() || message.is_some()).then_some(Self { code, message })
    }
}

/// Hides the message, into which a failed function may have put anything.
impl fmt::Debug for LetterCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LetterCause").field("code", &self.code).finish_non_exhaustive()
    }
}
