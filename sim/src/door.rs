//! The course of a request behind a door, and the door in process: the SDK's HTTP connector.

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

use crate::call::{Call, Service};
use crate::caller::Caller;
use crate::error::Error;
use crate::faults::Fault;
use crate::lambda::{Invocation, invoke};
use crate::ledger::Event;
use crate::protocol::{Request, Response, answered, carry_out, decode, ran, refuse, service};
use crate::world::{Aws, UnderWay};

/// The time after which a request looks whether others are under way with it, and the most looks.
const LOOKS: (Duration, u32) = (Duration::from_millis(10), 3_000);

/// A request that has come and that has had no effect yet.
#[derive(Debug)]
pub(crate) struct Begun<'a> {
    aws: &'a Aws,
    caller: &'a Caller,
    service: Service,
    call: Result<Call, Error>,
    fault: Fault,
    /// The time that the request waits on its way.
    wait: Duration,
    looks: u32,
    _under_way: UnderWay,
}

/// The end of a request, as a door shows it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    Answer(Response),
    BreakOff(Response, usize),
    Stall(Response, usize),
    NoConnection,
    Reset,
    Hang,
}

impl Aws {
    /// Answers a request without asking what goes wrong.
    #[must_use]
    pub fn answer(&self, caller: &Caller, request: &Request) -> Response {
        let (service, call) = self.understand(caller, request);
        match call.map(|call| self.effect(&call, Vec::new())) {
            Ok((End::Answer(response), _)) => response,
            Ok(_) => refuse(service, &Error::new(503, "ServiceUnavailable", "No answer")),
            Err(error) => refuse(service, &error),
        }
    }

    /// Returns the HTTP client of a caller for the SDK.
    #[must_use]
    pub fn connector(&self, caller: &Caller) -> Connector {
        Connector { aws: self.clone(), caller: caller.clone(), patience: None }
    }

    /// Begins a request: understands it, writes it into the journal, and asks what goes wrong with it.
    pub(crate) fn begin<'a>(&'a self, caller: &'a Caller, request: &Request) -> Begun<'a> {
        let (service, call) = self.understand(caller, request);
        let is_gone = caller.is_gone();
        let (wait, fault) = match &call {
            Ok(call) if !is_gone => self.fault(call).split(),
            _ => (Duration::ZERO, Fault::Pass),
        };
        let under_way = self.under_way();
        Begun { aws: self, caller, service, call, fault, wait, looks: 0, _under_way: under_way }
    }

    fn understand(&self, caller: &Caller, request: &Request) -> (Service, Result<Call, Error>) {
        self.advance();
        let now = self.clock().millis();
        self.locked(&caller.id, now, |services, cx| {
            let service = service(services, request);
            let call = decode(&caller.id, service, request);
            if let Some(call) = call.as_ref().ok().filter(|_| !caller.is_gone()) {
                cx.log(Event::Called(Arc::new(call.clone())));
            }
            (service, call)
        })
    }

    /// Carries out a call; the time is what a function or a web server takes.
    fn effect(&self, call: &Call, failing: Vec<(usize, crate::EntryFault)>) -> (End, Duration) {
        let now = self.clock().millis();
        let is_run = call.service == Service::Lambda
            && matches!(call.parameter("type"), None | Some("RequestResponse"));
        let end = if call.service == Service::Web {
            let (fault, answer) = self.post(now, call);
            let (wait, fault) = fault.split();
            return (end_of(&fault, answer.map(answered)), wait);
        } else if is_run {
            match self.run_now(call) {
                Ok((response, took)) => return (End::Answer(response), took),
                Err(error) => refuse(call.service, &error),
            }
        } else {
            let result = self.locked(&call.caller, now, |services, cx| {
                cx.failing = failing;
                carry_out(services, cx, call)
            });
            result.unwrap_or_else(|error| refuse(call.service, &error))
        };
        self.advance();
        (End::Answer(end), Duration::ZERO)
    }

    /// Runs a function while its caller waits.
    fn run_now(&self, call: &Call) -> Result<(Response, Duration), Error> {
        let now = self.clock().millis();
        let (function, id) = self.locked(&call.caller, now, |services, cx| {
            let function = services.lambda.check(&call.target, &call.body, false);
            function.map(|function| (function, cx.id()))
        })?;
        let payload = String::from_utf8_lossy(&call.body).into_owned();
        let trace = call.parameter("trace").map(str::to_owned);
        let invocation = Invocation { payload, request_id: id, trace };
        let done = (function.handler)(&invocation);
        self.locked(&call.caller, now, |_, cx| invoke::log(cx, &function.name, &invocation, &done));
        Ok((ran(&done), done.took))
    }
}

impl Begun<'_> {
    /// Returns how long a door lets the request wait before it asks again; `None` lets it go on.
    pub(crate) fn next_wait(&mut self) -> Option<Duration> {
        if !self.wait.is_zero() {
            return Some(std::mem::take(&mut self.wait));
        }
        let Fault::Together(count) = self.fault else { return None };
        self.looks += 1;
        (self.aws.peak() < count && self.looks <= LOOKS.1).then_some(LOOKS.0)
    }

    /// Finishes the request after its wait: how it ends, and how long the answer takes.
    pub(crate) fn finish(self) -> (End, Duration) {
        let at_once = |end| (end, Duration::ZERO);
        if self.caller.is_gone() {
            return at_once(End::Hang);
        }
        let call = match &self.call {
            Ok(call) => call,
            Err(error) => return at_once(End::Answer(refuse(self.service, error))),
        };
        if let Some(error) = self.fault.refusal(self.service) {
            return at_once(End::Answer(refuse(self.service, &error)));
        }
        match self.fault {
            Fault::Nonsense(status, body) => at_once(End::Answer(Response::new(status, body))),
            Fault::NoConnection | Fault::HangBefore | Fault::ResetBefore => {
                at_once(end_of(&self.fault, None))
            }
            Fault::CutBefore => {
                self.caller.cut();
                at_once(End::Hang)
            }
            Fault::CutAfter => {
                // The effect comes first: a caller that is gone has none.
                let _ = self.aws.effect(call, Vec::new());
                self.caller.cut();
                at_once(End::Hang)
            }
            fault => {
                let failing = if let Fault::Entries(failing) = &fault { failing.clone() } else { Vec::new() };
                match self.aws.effect(call, failing) {
                    (End::Answer(response), took) => (end_of(&fault, Some(response)), took),
                    other => other,
                }
            }
        }
    }
}

/// Returns how a request ends that takes this course.
fn end_of(fault: &Fault, response: Option<Response>) -> End {
    match (fault, response) {
        (Fault::NoConnection, _) => End::NoConnection,
        (Fault::HangBefore | Fault::HangAfter, _) => End::Hang,
        (Fault::ResetBefore | Fault::ResetAfter, _) | (_, None) => End::Reset,
        (Fault::BreakOff(bytes), Some(response)) => End::BreakOff(response, *bytes),
        (Fault::Stall(bytes), Some(response)) => End::Stall(response, *bytes),
        (_, Some(response)) => End::Answer(response),
    }
}

/// The SDK's HTTP client with an account behind it. Everything is awaited on tokio's clock; a future that is dropped
/// while its request waits has no effect.
#[derive(Clone)]
pub struct Connector {
    aws: Aws,
    caller: Caller,
    /// The longest that an answer is waited for.
    patience: Option<Duration>,
}

impl Connector {
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
            End::Answer(response) => write(response.status, &response.headers, SdkBody::from(response.body)),
            End::BreakOff(response, bytes) => {
                let reset = Err(std::io::Error::other("connection reset by peer"));
                let body = StreamBody::new(iter([Ok(first(&response, bytes)), reset]));
                write(response.status, &response.headers, SdkBody::from_body_1_x(body))
            }
            End::Stall(response, bytes) => {
                let body = StreamBody::new(
                    iter([Ok::<_, std::io::Error>(first(&response, bytes))]).chain(pending()),
                );
                write(response.status, &response.headers, SdkBody::from_body_1_x(body))
            }
            End::NoConnection => Err(ConnectorError::io("connection refused".into())),
            End::Reset => Err(ConnectorError::io("connection reset by peer".into())),
            End::Hang => {
                let Some(patience) = self.patience else { return std::future::pending().await };
                tokio::time::sleep(patience).await;
                Err(ConnectorError::timeout("no answer in time".into()))
            }
        }
    }
}

/// Returns the first bytes of a body.
fn first(response: &Response, bytes: usize) -> Frame<Bytes> {
    let bytes = bytes.min(response.body.len());
    Frame::data(Bytes::copy_from_slice(&response.body[..bytes]))
}

async fn read(mut request: HttpRequest) -> Result<Request, ConnectorError> {
    let body = ByteStream::new(request.take_body()).collect().await;
    let body = body.map_err(|error| ConnectorError::user(error.into()))?.to_vec();
    let headers = request.headers().iter();
    Ok(Request {
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

impl HttpClient for Connector {
    fn http_connector(&self, settings: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(Self { patience: settings.read_timeout(), ..self.clone() })
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::new(self.clone().exchange(request))
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connector").field(&self.caller.id).finish()
    }
}
