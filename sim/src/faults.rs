//! The faults: what goes wrong with a request, and at which point.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::call::{Call, Service};
use crate::error::Error;

/// The course of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing goes wrong.
    Pass,
    /// The service throttles, in its own words.
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
    /// The connection cannot be made in time. A caller in process hears of it at once.
    ConnectTimeout,
    /// There is neither an effect nor an answer.
    HangBefore,
    /// There is an effect and no answer.
    HangAfter,
    /// There is an effect, and the answer comes so much later.
    Late(Duration),
    /// The connection breaks before the effect.
    ResetBefore,
    /// The connection breaks between effect and answer.
    ResetAfter,
    /// The request waits on its way, then takes this course.
    Slow(Duration, Box<Self>),
    /// The caller dies before the effect: see [`Caller::cut`](crate::Caller::cut).
    CutBefore,
    /// The caller dies between effect and answer.
    CutAfter,
    /// There is an effect; after so many bytes of the answer's body nothing more comes.
    Stall(usize),
    /// The request waits until so many have been under way at once, half a minute at most, then goes through.
    Together(usize),
    /// There is an effect; the answer breaks off after so many bytes.
    BreakOff(usize),
    /// The function that the caller waits for fails by its own code, with no effect.
    FunctionError,
    /// A status and a body that no service means, with no effect.
    Nonsense(u16, String),
}

/// The answer of a 200 about an entry that has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryFault {
    /// The entry is among the failed ones.
    Failed {
        /// The code.
        code: Cow<'static, str>,
        /// The text.
        message: Cow<'static, str>,
        /// Whether the sender is at fault.
        sender: bool,
    },
    /// The entry is in neither list.
    Missing,
}

/// The code of an entry that is left out of the answer.
pub(crate) const MISSING: &str = "(missing)";

impl Fault {
    /// Returns this course after a wait.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self::Slow(wait, Box::new(self))
    }

    /// Returns a refusal.
    #[must_use]
    pub fn refuse(status: u16, code: &'static str, message: &str) -> Self {
        Self::Refuse(Error::new(status, code, message))
    }

    /// Returns a course by which the entries that contain a text fail.
    #[must_use]
    pub fn except(call: &Call, text: &str, fault: EntryFault) -> Self {
        let entries = call.entries_with(text).into_iter();
        Self::Entries(entries.zip(std::iter::repeat(fault)).collect())
    }

    /// Returns whether the course ends before the service gets the request.
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

    /// Returns the time that the request waits on its way, and its course then.
    pub(crate) fn split(self) -> (Duration, Self) {
        let (mut wait, mut course) = (Duration::ZERO, self);
        while let Self::Slow(more, then) = course {
            (wait, course) = (wait + more, *then);
        }
        (wait, course)
    }

    /// Returns the refusal that the course means, in the words of a service.
    pub(crate) fn refusal(&self, service: Service) -> Option<Error> {
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

fn throttle(service: Service) -> Error {
    match service {
        Service::Sqs => {
            Error::new(403, "RequestThrottled", "The request was denied due to request throttling.")
        }
        Service::Sns => Error::new(429, "Throttled", "Rate exceeded"),
        Service::S3 => Error::new(503, "SlowDown", "Please reduce your request rate."),
        Service::Lambda => Error::new(429, "TooManyRequestsException", "Rate Exceeded."),
        Service::Firehose => Error::new(400, "ThrottlingException", "Rate exceeded"),
        Service::Sts => Error::new(400, "Throttling", "Rate exceeded"),
        Service::Web => Error::new(429, "", "Too Many Requests"),
    }
}

fn unavailable(service: Service) -> Error {
    let code = match service {
        Service::Firehose => "ServiceUnavailableException",
        Service::Lambda => "ServiceException",
        _ => "ServiceUnavailable",
    };
    Error::new(503, code, "Service is unable to handle request.")
}

fn denied(service: Service) -> Error {
    let code = match service {
        Service::Sns => "AuthorizationError",
        Service::Sqs | Service::S3 | Service::Sts => "AccessDenied",
        _ => "AccessDeniedException",
    };
    Error::new(403, code, "User is not authorized to perform this action.")
}

type Hook = dyn Fn(&Call) -> Fault + Send + Sync;

/// The hook that is asked before each request. It may use the [`Aws`](crate::Aws) that asks it.
#[derive(Clone)]
pub struct Faults(pub(crate) Arc<Hook>);

impl Faults {
    /// Returns faults that this function chooses.
    pub fn new(hook: impl Fn(&Call) -> Fault + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }
}

impl Default for Faults {
    /// Returns no faults at all.
    fn default() -> Self {
        Self::new(|_| Fault::Pass)
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faults")
    }
}
