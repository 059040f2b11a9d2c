//! The protocols of the services: a request becomes a [`Call`], a result becomes a response.

mod firehose;
mod http;
mod lambda;
mod s3;
mod sns;
mod sqs;
mod sts;
mod text;
mod web;

use std::sync::Arc;

pub use http::{Request, Response};

use crate::call::{Call, Service};
use crate::cx::Cx;
use crate::error::Error;
use crate::services::Services;
use crate::world::host_of;

/// Returns the service of a request. Web servers are recognised by their names, the services by the form of
/// the request, since a process may have one address for all of them.
pub(crate) fn service(services: &Services, request: &Request) -> Service {
    let host = host_of(&request.uri);
    let is_form = request.header("content-type").is_some_and(|it| it.contains("form-urlencoded"));
    let is_aws =
        host.contains("amazonaws.com") || host.starts_with("127.0.0.1") || host.starts_with("localhost");
    match request.header("x-amz-target") {
        _ if services.web.knows(host) || !is_aws => Service::Web,
        Some(target) if target.starts_with("AmazonSQS.") => Service::Sqs,
        Some(_) => Service::Firehose,
        None if is_form && sts::is_meant(request) => Service::Sts,
        None if is_form => Service::Sns,
        None if crate::world::path_of(&request.uri).starts_with("/2015-03-31/functions/") => Service::Lambda,
        None => Service::S3,
    }
}

/// Parses a request.
pub(crate) fn decode(caller: &Arc<str>, service: Service, request: &Request) -> Result<Call, Error> {
    let mut call = Call::new(caller, service, "", "");
    let trace = request.header("x-amzn-trace-id").map(str::to_owned);
    match service {
        Service::Sqs => sqs::decode(&mut call, request),
        Service::Sns => sns::decode(&mut call, request),
        Service::S3 => s3::decode(&mut call, request),
        Service::Lambda => lambda::decode(&mut call, request),
        Service::Firehose => firehose::decode(&mut call, request),
        Service::Sts => sts::decode(&mut call, request),
        Service::Web => web::decode(&mut call, request),
    }?;
    host_of(&request.uri).clone_into(&mut call.host);
    call.bytes = request.body.len();
    call.parameters.extend(trace.map(|trace| ("trace".to_owned(), trace)));
    Ok(call)
}

/// Carries out a call. Functions and web servers run code of the user, so [`Aws`](crate::Aws) itself calls them.
pub(crate) fn carry_out(services: &mut Services, cx: &mut Cx<'_>, call: &Call) -> Result<Response, Error> {
    match call.service {
        Service::Sqs => sqs::carry_out(services, cx, call),
        Service::Sns => sns::carry_out(services, cx, call),
        Service::S3 => Ok(s3::carry_out(services, cx, call)),
        Service::Lambda => lambda::carry_out(services, cx, call),
        Service::Firehose => firehose::carry_out(services, cx, call),
        Service::Sts => Ok(sts::carry_out(cx)),
        Service::Web => Err(Error::new(404, "", "")),
    }
}

/// Returns an error as its service reports it.
pub(crate) fn refuse(service: Service, error: &Error) -> Response {
    match service {
        Service::Sqs => sqs::refuse(error),
        Service::Sns => sns::refuse(error),
        Service::S3 => s3::refuse(error),
        Service::Lambda => lambda::refuse(error),
        Service::Firehose => firehose::refuse(error),
        Service::Sts => sts::refuse(error),
        Service::Web => Response::new(error.status, error.message.clone()),
    }
}

pub(crate) use lambda::ran;
pub(crate) use web::answered;
