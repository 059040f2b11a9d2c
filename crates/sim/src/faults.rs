//! The faults: what goes wrong with a request, and when.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::call::{AwsService, SimCall};
use crate::error::Error;

/// The fault of one request, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SimFault {
    /// Nothing goes wrong.
    Pass,
    /// The service throttles, with its own error.
    Throttle,
    /// The service answers 503.
    Unavailable,
    /// The service denies access.
    Denied,
    /// The service refuses, with no effect.
    Refuse(Error),
    /// These entries of a batch fail, by position; the others go through.
    Entries(Vec<(usize, EntryFault)>),
    /// The connection cannot be made.
    NoConnection,
    /// The connection cannot be made in time. A caller in process gets this error at once.
    ConnectTimeout,
    /// There is neither an effect nor an answer.
    HangBefore,
    /// There is an effect and no answer.
    HangAfter,
    /// There is an effect, and the answer comes this much later.
    Late(Duration),
    /// The connection breaks before the effect.
    ResetBefore,
    /// The connection breaks between effect and answer.
    ResetAfter,
    /// The request waits before it reaches the service, then has this fault.
    Slow(Duration, Box<Self>),
    /// The caller dies before the effect: see [`Caller::cut`](crate::Caller::cut).
    CutBefore,
    /// The caller dies between effect and answer.
    CutAfter,
    /// There is an effect. After so many bytes of the answer's body, no more come.
    Stall(usize),
    /// The request waits until so many have been under way at once, half a minute at most, then goes through.
    Together(usize),
    /// There is an effect. The answer breaks off after so many bytes.
    BreakOff(usize),
    /// The function that the caller waits for fails by its own code, with no effect.
    FunctionError,
    /// The answer has a status and a body that no service sends. There is no effect.
    Nonsense(u16, String),
}

/// The answer about an entry without an effect, within a 200.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryFault {
    /// The entry is among the failed ones.
    Failed {
        /// The code.
        code: Cow<'static, str>,
        /// The text.
        message: Cow<'static, str>,
        /// True if the sender is at fault.
        sender: bool,
    },
    /// The entry is in neither list.
    Missing,
}

/// The code of an entry that is left out of the answer.
pub(crate) const MISSING: &str = "(missing)";

impl SimFault {
    /// Returns this fault after a wait.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self::Slow(wait, Box::new(self))
    }

    /// Returns a refusal.
    #[must_use]
    pub fn refuse(status: u16, code: &'static str, message: &str) -> Self {
        Self::Refuse(Error::new(status, code, message))
    }

    /// Returns the fault by which the entries that contain a text fail.
    #[must_use]
    pub fn except(call: &SimCall, text: &str, fault: EntryFault) -> Self {
        let entries = call.entries_with(text).into_iter();
        Self::Entries(entries.zip(std::iter::repeat(fault)).collect())
    }

    /// Reports whether the request never reaches the service.
    pub(crate) fn is_before(&self) -> bool {
        matches!(
            self,
            Self::NoConnection
                | Self::ConnectTimeout
                | Self::HangBefore
                | Self::ResetBefore
                | Self::CutBefore
        )
    }

    /// Returns the time that the request waits, and its fault after that.
    pub(crate) fn split(self) -> (Duration, Self) {
        let (mut wait, mut course) = (Duration::ZERO, self);
        while let Self::Slow(more, then) = course {
            (wait, course) = (wait + more, *then);
        }
        (wait, course)
    }

    /// Returns the refusal that the fault means, as the service words it.
    pub(crate) fn refusal(&self, service: AwsService) -> Option<Error> {
        match self {
            Self::Throttle => Some(throttle(service)),
            Self::Unavailable => Some(unavailable(service)),
            Self::Denied => Some(denied(service)),
            Self::Refuse(error) => Some(error.clone()),
            _ => None,
        }
    }
}

impl EntryFault {
    /// Returns a failure by the service's own fault.
    #[must_use]
    pub const fn service(code: &'static str, message: &'static str) -> Self {
        Self::Failed { code: Cow::Borrowed(code), message: Cow::Borrowed(message), sender: false }
    }

    /// Returns a failure by the sender's fault.
    #[must_use]
    pub const fn sender(code: &'static str, message: &'static str) -> Self {
        Self::Failed { code: Cow::Borrowed(code), message: Cow::Borrowed(message), sender: true }
    }

    pub(crate) fn error(&self) -> Error {
        match self {
            Self::Failed { code, message, sender } => {
                Error::new(if *sender { 400 } else { 500 }, code.clone(), message.clone())
            }
            Self::Missing => Error::new(500, MISSING, ""),
        }
    }
}

fn throttle(service: AwsService) -> Error {
    match service {
        AwsService::Sqs => {
            Error::new(403, "RequestThrottled", "The request was denied due to request throttling.")
        }
        AwsService::Sns => Error::new(429, "Throttled", "Rate exceeded"),
        AwsService::S3 => Error::new(503, "SlowDown", "Please reduce your request rate."),
        AwsService::Lambda => Error::new(429, "TooManyRequestsException", "Rate Exceeded."),
        AwsService::Firehose => Error::new(400, "ThrottlingException", "Rate exceeded"),
        AwsService::Sts => Error::new(400, "Throttling", "Rate exceeded"),
        AwsService::Web => Error::new(429, "", "Too Many Requests"),
    }
}

fn unavailable(service: AwsService) -> Error {
    let code = match service {
        AwsService::Firehose => "ServiceUnavailableException",
        AwsService::Lambda => "ServiceException",
        _ => "ServiceUnavailable",
    };
    Error::new(503, code, "Service is unable to handle request.")
}

fn denied(service: AwsService) -> Error {
    let code = match service {
        AwsService::Sns => "AuthorizationError",
        AwsService::Sqs | AwsService::S3 | AwsService::Sts => "AccessDenied",
        _ => "AccessDeniedException",
    };
    Error::new(403, code, "User is not authorized to perform this action.")
}

type FaultFunction = dyn Fn(&SimCall) -> SimFault + Send + Sync;

/// The hook that chooses the fault of each request. It may use the [`SimAws`](crate::SimAws) that calls it.
#[derive(Clone)]
pub struct FaultHook(pub(crate) Arc<FaultFunction>);

impl FaultHook {
    /// Creates faults that this function chooses.
    pub fn new(hook: impl Fn(&SimCall) -> SimFault + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }
}

impl Default for FaultHook {
    /// Returns no faults at all.
    fn default() -> Self {
        Self::new(|_| SimFault::Pass)
    }
}

impl fmt::Debug for FaultHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultHook")
    }
}
