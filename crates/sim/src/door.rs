//! The way of a request through a door, and the door in process: the SDK's HTTP connector.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{iter, pending};
use http_body::Frame;
use http_body_util::StreamBody;

use crate::call::{AwsService, SimCall};
use crate::caller::Caller;
use crate::error::Error;
use crate::faults::SimFault;
use crate::journal::SimEvent;
use crate::lambda::{SimInvocation, SimInvocationResult, invoke};
use crate::protocol::{WireRequest, WireResponse, answered, carry_out, decode, ran, refuse, service};
use crate::world::{SimAws, SimRequestGuard};

/// The time after which a request checks whether others are under way with it, and the largest number of
/// checks.
const LOOKS: (Duration, u32) = (Duration::from_millis(10), 3_000);

/// A request that was accepted and that has had no effect yet.
#[derive(Debug)]
pub(crate) struct AcceptedRequest<'a> {
    aws: &'a SimAws,
    caller: &'a Caller,
    service: AwsService,
    call: Result<Arc<SimCall>, Error>,
    fault: SimFault,
    /// The time that the request waits before it reaches the service.
    wait: Duration,
    looks: u32,
    _under_way: SimRequestGuard,
}

/// The end of a request, as a door shows it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TransportEnd {
    Answer(WireResponse),
    BreakOff(WireResponse, usize),
    Stall(WireResponse, usize),
    NoConnection,
    ConnectTimeout,
    Reset,
    Hang,
}

impl SimAws {
    /// Answers a request without asking for faults.
    #[must_use]
    pub fn answer(&self, caller: &Caller, request: &WireRequest) -> WireResponse {
        let (service, call) = self.understand(caller, request);
        match call.map(|call| self.effect(&call, &SimFault::Pass)) {
            Ok((TransportEnd::Answer(response), _)) => response,
            Ok(_) => refuse(service, &Error::new(503, "ServiceUnavailable", "No answer")),
            Err(error) => refuse(service, &error),
        }
    }

    /// Returns the HTTP client of a caller for the SDK.
    #[must_use]
    pub fn connector(&self, caller: &Caller) -> SimConnector {
        SimConnector { aws: self.clone(), caller: caller.clone(), patience: None }
    }

    /// Begins a request: parses it, writes it into the journal, and asks for its fault.
    pub(crate) fn begin<'a>(&'a self, caller: &'a Caller, request: &WireRequest) -> AcceptedRequest<'a> {
        let (service, call) = self.understand(caller, request);
        let is_gone = caller.is_gone();
        let (wait, fault) = match &call {
            Ok(call) if !is_gone => self.fault(call).split(),
            _ => (Duration::ZERO, SimFault::Pass),
        };
        let under_way = self.under_way();
        AcceptedRequest { aws: self, caller, service, call, fault, wait, looks: 0, _under_way: under_way }
    }

    fn understand(
        &self,
        caller: &Caller,
        request: &WireRequest,
    ) -> (AwsService, Result<Arc<SimCall>, Error>) {
        self.advance();
        let now = self.clock().millis();
        self.locked(&caller.id, now, |services, cx| {
            let service = service(services, request);
            let call = decode(&caller.id, service, request).map(Arc::new);
            if let Some(call) = call.as_ref().ok().filter(|_| !caller.is_gone()) {
                cx.log(SimEvent::Called(Arc::clone(call)));
            }
            (service, call)
        })
    }

    /// Carries out a call and writes its end into the journal. The duration is the time that a function or a
    /// web server takes.
    fn effect(&self, call: &Arc<SimCall>, fault: &SimFault) -> (TransportEnd, Duration) {
        let now = self.clock().millis();
        let is_run = call.service == AwsService::Lambda
            && call.operation == "Invoke"
            && matches!(call.parameter("type"), None | Some("RequestResponse"));
        if call.service == AwsService::Web {
            let (course, answer) = self.post(now, call);
            let (wait, course) = course.split();
            let status = answer.as_ref().filter(|_| !course.is_before()).map(|answer| answer.0);
            let fault = if *fault == SimFault::Pass { &course } else { fault };
            self.end(call, fault, status);
            return (end_of(&course, answer.map(answered)), wait);
        }
        let (answer, took) = if is_run {
            let ran = self.run_now(call, fault);
            let (answer, took) = ran.unwrap_or_else(|error| (refuse(call.service, &error), Duration::ZERO));
            self.end(call, fault, Some(answer.status));
            (answer, took)
        } else {
            let answer = self.locked(&call.caller, now, |services, cx| {
                if let SimFault::Entries(failing) = fault {
                    cx.failing.clone_from(failing);
                }
                let before = cx.ledger.records().len();
                let answer = carry_out(services, cx, call);
                let answer = answer.unwrap_or_else(|error| refuse(call.service, &error));
                let effects = cx.ledger.records().len() - before;
                cx.log(end_event(call, fault, Some(answer.status), effects));
                answer
            });
            (answer, Duration::ZERO)
        };
        self.advance();
        (TransportEnd::Answer(answer), took)
    }

    /// Writes the end of a request into the journal.
    fn end(&self, call: &Arc<SimCall>, fault: &SimFault, status: Option<u16>) {
        let now = self.clock().millis();
        self.locked(&call.caller, now, |_, cx| cx.log(end_event(call, fault, status, 0)));
    }

    /// Runs a function while its caller waits.
    fn run_now(&self, call: &SimCall, fault: &SimFault) -> Result<(WireResponse, Duration), Error> {
        let now = self.clock().millis();
        let (function, id) = self.locked(&call.caller, now, |services, cx| {
            let function = services.lambda.check(&call.target, &call.body, false);
            function.map(|function| (function, cx.id()))
        })?;
        let payload = String::from_utf8_lossy(&call.body).into_owned();
        let trace = call.parameter("trace").map(str::to_owned);
        let invocation = SimInvocation { payload, request_id: id, trace };
        let done = if *fault == SimFault::FunctionError {
            SimInvocationResult::failed("Error", "The function failed.")
        } else {
            (function.handler)(&invocation)
        };
        self.locked(&call.caller, now, |_, cx| invoke::log(cx, &function.name, &invocation, &done));
        Ok((ran(&done), done.took))
    }
}

impl AcceptedRequest<'_> {
    /// Returns how long a door lets the request wait before it asks again, or `None` if the request goes on.
    pub(crate) fn next_wait(&mut self) -> Option<Duration> {
        if !self.wait.is_zero() {
            return Some(std::mem::take(&mut self.wait));
        }
        let SimFault::Together(count) = self.fault else { return None };
        self.looks += 1;
        (self.aws.peak() < count && self.looks <= LOOKS.1).then_some(LOOKS.0)
    }

    /// Finishes the request after its wait. Returns how it ends, and how long the answer takes.
    pub(crate) fn finish(self) -> (TransportEnd, Duration) {
        let at_once = |end| (end, Duration::ZERO);
        if self.caller.is_gone() {
            return at_once(TransportEnd::Hang);
        }
        let call = match &self.call {
            Ok(call) => call,
            Err(error) => return at_once(TransportEnd::Answer(refuse(self.service, error))),
        };
        if let Some(error) = self.fault.refusal(self.service) {
            self.aws.end(call, &self.fault, Some(error.status));
            return at_once(TransportEnd::Answer(refuse(self.service, &error)));
        }
        match &self.fault {
            SimFault::Nonsense(status, body) => {
                self.aws.end(call, &self.fault, Some(*status));
                at_once(TransportEnd::Answer(WireResponse::new(*status, body.clone())))
            }
            fault if fault.is_before() => {
                self.aws.end(call, fault, None);
                if *fault == SimFault::CutBefore {
                    self.caller.cut();
                }
                at_once(end_of(fault, None))
            }
            SimFault::CutAfter => {
                // The effect comes first, because a request of a caller that is gone has no effect.
                let _ = self.aws.effect(call, &self.fault);
                self.caller.cut();
                at_once(TransportEnd::Hang)
            }
            fault => match self.aws.effect(call, fault) {
                (TransportEnd::Answer(response), took) => {
                    let late = if let SimFault::Late(late) = fault { *late } else { Duration::ZERO };
                    (end_of(fault, Some(response)), took + late)
                }
                other => other,
            },
        }
    }
}

/// Creates the event of a request's end.
fn end_event(call: &Arc<SimCall>, fault: &SimFault, status: Option<u16>, effects: usize) -> SimEvent {
    SimEvent::Answered { call: Arc::clone(call), fault: fault.clone(), status, effects }
}

/// Returns how a request with this fault ends.
fn end_of(fault: &SimFault, response: Option<WireResponse>) -> TransportEnd {
    match (fault, response) {
        (SimFault::NoConnection, _) => TransportEnd::NoConnection,
        (SimFault::ConnectTimeout, _) => TransportEnd::ConnectTimeout,
        (SimFault::HangBefore | SimFault::HangAfter | SimFault::CutBefore | SimFault::CutAfter, _) => {
            TransportEnd::Hang
        }
        (SimFault::ResetBefore | SimFault::ResetAfter, _) | (_, None) => TransportEnd::Reset,
        (SimFault::BreakOff(bytes), Some(response)) => TransportEnd::BreakOff(response, *bytes),
        (SimFault::Stall(bytes), Some(response)) => TransportEnd::Stall(response, *bytes),
        (_, Some(response)) => TransportEnd::Answer(response),
    }
}

/// The SDK's HTTP client with an account behind it. All waits are on tokio's clock. A future that is dropped
/// while its request waits has no effect.
#[derive(Clone)]
pub struct SimConnector {
    aws: SimAws,
    caller: Caller,
    /// The longest wait for an answer.
    patience: Option<Duration>,
}

impl SimConnector {
    async fn exchange(self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let request = read(request).await?;
        let (end, took) = {
            let mut begun = self.aws.begin(&self.caller, &request);
            while let Some(wait) = begun.next_wait() {
                tokio::time::sleep(wait).await;
            }
            begun.finish()
        };
        tokio::time::sleep(took).await;
        match end {
            TransportEnd::Answer(response) => {
                write(response.status, &response.headers, SdkBody::from(response.body))
            }
            TransportEnd::BreakOff(response, bytes) => {
                let reset = Err(std::io::Error::other("connection reset by peer"));
                let body = StreamBody::new(iter([Ok(first(&response, bytes)), reset]));
                write(response.status, &response.headers, SdkBody::from_body_1_x(body))
            }
            TransportEnd::Stall(response, bytes) => {
                let body = StreamBody::new(
                    iter([Ok::<_, std::io::Error>(first(&response, bytes))]).chain(pending()),
                );
                write(response.status, &response.headers, SdkBody::from_body_1_x(body))
            }
            TransportEnd::NoConnection => Err(ConnectorError::io("connection refused".into())),
            TransportEnd::ConnectTimeout => Err(ConnectorError::timeout("no connection in time".into())),
            TransportEnd::Reset => Err(ConnectorError::io("connection reset by peer".into())),
            TransportEnd::Hang => {
                let Some(patience) = self.patience else { return std::future::pending().await };
                tokio::time::sleep(patience).await;
                Err(ConnectorError::timeout("no answer in time".into()))
            }
        }
    }
}

/// Returns the first bytes of a body.
fn first(response: &WireResponse, bytes: usize) -> Frame<Bytes> {
    let bytes = bytes.min(response.body.len());
    Frame::data(Bytes::copy_from_slice(&response.body[..bytes]))
}

async fn read(mut request: HttpRequest) -> Result<WireRequest, ConnectorError> {
    let body = ByteStream::new(request.take_body()).collect().await;
    let body = body.map_err(|error| ConnectorError::user(error.into()))?.to_vec();
    let headers = request.headers().iter();
    Ok(WireRequest {
        method: request.method().to_owned(),
        uri: request.uri().to_owned(),
        headers: headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect(),
        body,
    })
}

fn write(status: u16, headers: &[(String, String)], body: SdkBody) -> Result<HttpResponse, ConnectorError> {
    let status = status.try_into().map_err(|error| ConnectorError::other(Box::new(error), None))?;
    let mut response = HttpResponse::new(status, body);
    for (name, value) in headers {
        response.headers_mut().insert(name.clone(), value.clone());
    }
    Ok(response)
}

impl HttpClient for SimConnector {
    fn http_connector(&self, settings: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(Self { patience: settings.read_timeout(), ..self.clone() })
    }
}

impl HttpConnector for SimConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::new(self.clone().exchange(request))
    }
}

impl fmt::Debug for SimConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimConnector").field(&self.caller.id).finish()
    }
}
