//! `Invoke`: synchronous, asynchronous with its retries, and dry.

use std::sync::Arc;

use serde_json::json;

use super::{Lambda, MAX_ASYNC_BYTES, MAX_BYTES, SimFunction, SimInvocation, SimInvocationResult};
use crate::call_context::SimContext;
use crate::clock::{SimMillis, iso};
use crate::error::Error;
use crate::journal::SimEvent;
use crate::message::{SimAttribute, SimEntry};
use crate::names::arn;

/// The milliseconds before the first retry of an asynchronous event, and before each one after it.
/// <https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html>
const RETRIES: [SimMillis; 2] = [60_000, 120_000];

/// The milliseconds before a throttled asynchronous event is tried again, at first and at most.
/// <https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html>
const THROTTLED: (SimMillis, SimMillis) = (1_000, 300_000);

/// The largest number of characters of the error message in a dead letter.
/// <https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html>
const MAX_ERROR: usize = 1024;

/// An event that Lambda has accepted and runs later.
#[derive(Debug, Clone)]
pub(crate) struct AsyncEvent {
    pub(crate) function: Arc<str>,
    pub(crate) invocation: SimInvocation,
    accepted: SimMillis,
    runs: u32,
    throttles: u32,
}

/// The next step of an asynchronous event.
#[derive(Debug)]
pub(crate) enum AsyncStep {
    /// It is finished.
    Done,
    /// It runs again at this time.
    Again(SimMillis, AsyncEvent),
    /// It goes to a queue.
    GivenUp(Vec<(String, SimEntry)>),
}

impl Lambda {
    /// Checks a request and returns its function.
    pub(crate) fn check(&self, name: &str, payload: &[u8], is_async: bool) -> Result<SimFunction, Error> {
        let function = self.found(name)?;
        let most = if is_async { MAX_ASYNC_BYTES } else { MAX_BYTES };
        if payload.len() > most {
            let message = format!(
                "{} byte payload is too large for the invocation (limit {most} bytes)",
                payload.len()
            );
            return Err(Error::new(413, "RequestTooLargeException", message));
        }
        if !payload.is_empty() && serde_json::from_slice::<serde::de::IgnoredAny>(payload).is_err() {
            let message = "Could not parse request body into json";
            return Err(Error::bad("InvalidRequestContentException", message));
        }
        Ok(function)
    }
}

impl AsyncEvent {
    pub(crate) fn new(function: &Arc<str>, invocation: SimInvocation, now: SimMillis) -> Self {
        Self { function: Arc::clone(function), invocation, accepted: now, runs: 0, throttles: 0 }
    }

    /// Takes over the result of a run. `None` is a throttle, which counts as no run.
    pub(crate) fn ran(
        mut self,
        cx: &mut SimContext<'_>,
        function: &SimFunction,
        ran: Option<&SimInvocationResult>,
    ) -> AsyncStep {
        let settings = &function.settings;
        let Some(ran) = ran else {
            let wait = THROTTLED.0 << self.throttles.min(20);
            let next = cx.now + wait.min(THROTTLED.1);
            self.throttles += 1;
            if next > self.accepted + settings.max_age {
                return self.give_up(cx.now, function, "EventAgeExceeded", None);
            }
            return AsyncStep::Again(next, self);
        };
        log(cx, &function.name, &self.invocation, ran);
        self.runs += 1;
        let next = cx.now + RETRIES[usize::try_from(self.runs - 1).unwrap_or(1).min(1)];
        match &ran.result {
            Ok(_) => AsyncStep::Done,
            Err(_) if self.runs > settings.retries => {
                self.give_up(cx.now, function, "RetriesExhausted", Some(ran))
            }
            Err(_) if next > self.accepted + settings.max_age => {
                self.give_up(cx.now, function, "EventAgeExceeded", Some(ran))
            }
            Err(_) => AsyncStep::Again(next, self),
        }
    }

    /// Returns the messages for the dead-letter queue and the destination.
    /// <https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html>
    pub(crate) fn give_up(
        self,
        now: SimMillis,
        function: &SimFunction,
        condition: &str,
        ran: Option<&SimInvocationResult>,
    ) -> AsyncStep {
        let SimInvocation { payload, request_id, .. } = self.invocation;
        let error = ran.and_then(|ran| ran.result.as_ref().err());
        let mut letters = Vec::new();
        if let Some(queue) = &function.settings.dead_letters {
            let message = error.map_or("Rate Exceeded.", |error| &error.message);
            let message: String = message.chars().take(MAX_ERROR).collect();
            let code = if error.is_some() { "200" } else { "429" };
            let letter = SimEntry::new("", payload.clone())
                .with("RequestID", SimAttribute::string(&*request_id))
                .with("ErrorCode", SimAttribute::number(code))
                .with("ErrorMessage", SimAttribute::string(if message.is_empty() { "-" } else { &message }));
            letters.push((queue.clone(), letter));
        }
        if let Some(queue) = &function.settings.on_failure {
            let name = format!("function:{}:$LATEST", function.name);
            let event = serde_json::from_str::<serde_json::Value>(&payload).unwrap_or_default();
            let mut record = json!({
                "version": "1.0",
                "timestamp": iso(now),
                "requestContext": {
                    "requestId": *request_id,
                    "functionArn": arn("lambda", &name),
                    "condition": condition,
                    "approximateInvokeCount": self.runs,
                },
                "requestPayload": event,
            });
            if let Some(error) = error {
                record["responseContext"] =
                    json!({ "statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled" });
                record["responsePayload"] = json!({ "errorMessage": error.message, "errorType": error.kind });
            }
            letters.push((queue.clone(), SimEntry::new("", record.to_string())));
        }
        AsyncStep::GivenUp(letters)
    }
}

/// Writes a run into the journal.
pub(crate) fn log(
    cx: &mut SimContext<'_>,
    function: &Arc<str>,
    invocation: &SimInvocation,
    ran: &SimInvocationResult,
) {
    let (function, payload) = (Arc::clone(function), invocation.payload.clone());
    cx.log(SimEvent::Invoked { function, payload, ok: ran.result.is_ok() });
}
