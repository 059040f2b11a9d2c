//! Lambda: functions behind `Invoke`, and the answer of `GetFunctionConfiguration` about them.

pub(crate) mod invoke;
mod recursion;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use invoke::AsyncEvent;
pub use recursion::MAX_PASSES;
pub(crate) use recursion::passed;

use crate::clock::SimMillis;
use crate::error::Error;
use crate::names::arn;

/// The largest number of bytes of a synchronous request, of its answer, and of a batch of a mapping.
/// <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>
pub const MAX_BYTES: usize = 6 * 1024 * 1024;

/// The largest number of bytes of an asynchronous request.
/// <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>
pub const MAX_ASYNC_BYTES: usize = 1024 * 1024;

/// The functions of one account.
#[derive(Debug, Default)]
pub struct Lambda {
    functions: BTreeMap<String, SimFunction>,
}

/// The settings of a function.
#[derive(Debug, Clone)]
pub struct FunctionSettings {
    /// `MaximumRetryAttempts` of asynchronous events.
    pub retries: u32,
    /// `MaximumEventAgeInSeconds`, in milliseconds.
    pub max_age: SimMillis,
    /// The dead-letter queue of asynchronous events.
    pub dead_letters: Option<String>,
    /// The on-failure destination of asynchronous events, a queue.
    pub on_failure: Option<String>,
    /// `RecursiveLoop: Allow`.
    pub allow_loops: bool,
    /// The environment variables, which `GetFunctionConfiguration` returns, or its error if access to their
    /// key is denied.
    pub environment: Result<BTreeMap<String, String>, EnvironmentError>,
    /// The `StateReason` of a function that is `Failed`.
    pub failed: Option<String>,
}

/// The error of environment variables that Lambda cannot decrypt.
/// <https://docs.aws.amazon.com/lambda/latest/api/API_EnvironmentError.html>
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentError {
    /// `ErrorCode`.
    pub code: String,
    /// `Message`.
    pub message: String,
}

/// One run of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimInvocation {
    /// The event.
    pub payload: String,
    /// The request's id.
    pub request_id: Arc<str>,
    /// The X-Ray header, which the function's own calls pass on.
    pub trace: Option<String>,
}

/// The end of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimInvocationResult {
    /// The answer as JSON, or the failure of the code.
    pub result: Result<String, SimFunctionError>,
    /// The time that it took.
    pub took: Duration,
}

/// The failure of a function's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimFunctionError {
    /// `errorType`.
    pub kind: String,
    /// `errorMessage`.
    pub message: String,
}

type SimHandler = Arc<dyn Fn(&SimInvocation) -> SimInvocationResult + Send + Sync>;

#[derive(Clone)]
pub(crate) struct SimFunction {
    pub(crate) name: Arc<str>,
    pub(crate) handler: SimHandler,
    pub(crate) settings: FunctionSettings,
}

impl Default for FunctionSettings {
    fn default() -> Self {
        Self {
            retries: 2,
            max_age: 21_600_000,
            dead_letters: None,
            on_failure: None,
            allow_loops: false,
            environment: Ok(BTreeMap::new()),
            failed: None,
        }
    }
}

impl SimInvocationResult {
    /// Creates a run that answers this JSON at once.
    pub fn ok(answer: impl Into<String>) -> Self {
        Self { result: Ok(answer.into()), took: Duration::ZERO }
    }

    /// Creates a run whose code fails at once.
    #[must_use]
    pub fn failed(kind: &str, message: &str) -> Self {
        let error = SimFunctionError { kind: kind.to_owned(), message: message.to_owned() };
        Self { result: Err(error), took: Duration::ZERO }
    }

    /// Sets how long the run takes.
    #[must_use]
    pub fn took(self, took: Duration) -> Self {
        Self { took, ..self }
    }
}

impl Lambda {
    /// Creates a function, or replaces one. The handler may use the [`SimAws`](crate::SimAws) that runs it.
    pub fn create(
        &mut self,
        name: &str,
        settings: FunctionSettings,
        handler: impl Fn(&SimInvocation) -> SimInvocationResult + Send + Sync + 'static,
    ) {
        let function = SimFunction { name: name.into(), handler: Arc::new(handler), settings };
        self.functions.insert(name.to_owned(), function);
    }

    /// Removes a function.
    pub fn remove(&mut self, name: &str) {
        self.functions.remove(name);
    }

    pub(crate) fn function(&self, name: &str) -> Option<SimFunction> {
        self.functions.get(name).cloned()
    }

    /// Returns a function, or Lambda's error if there is none.
    pub(crate) fn found(&self, name: &str) -> Result<SimFunction, Error> {
        let missing = || format!("Function not found: {}", arn("lambda", &format!("function:{name}")));
        self.function(name).ok_or_else(|| Error::new(404, "ResourceNotFoundException", missing()))
    }
}

impl fmt::Debug for SimFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimFunction")
            .field("name", &self.name)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// Returns the alias or the version that an ARN names.
pub(crate) fn qualifier_of(function: &str) -> Option<&str> {
    function.strip_prefix("arn:")?.split(':').nth(6)
}

/// Returns a function's name, from a name, an ARN or an ARN with a qualifier.
#[must_use]
pub fn name_of(function: &str) -> &str {
    let mut parts = function.split(':');
    if parts.next() == Some("arn") { parts.nth(5).unwrap_or_default() } else { function }
}
