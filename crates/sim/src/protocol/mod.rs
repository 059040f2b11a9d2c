//! The protocols of the services: a request becomes a [`SimCall`], a result becomes a response.

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

pub use http::{WireRequest, WireResponse};

use crate::call::{AwsService, SimCall};
use crate::call_context::SimContext;
use crate::error::Error;
use crate::services::Services;
use crate::world::host_of;

/// Returns the service of a request. Web servers are recognised by their names, the services by the form of
/// the request, since a process may have one address for all of them.
pub(crate) fn service(services: &Services, request: &WireRequest) -> AwsService {
    let host = host_of(&request.uri);
    let is_form = request.header("content-type").is_some_and(|it| it.contains("form-urlencoded"));
    let is_aws =
        host.contains("amazonaws.com") || host.starts_with("127.0.0.1") || host.starts_with("localhost");
    match request.header("x-amz-target") {
        _ if services.web.knows(host) || !is_aws => AwsService::Web,
        Some(target) if target.starts_with("AmazonSQS.") => AwsService::Sqs,
        Some(_) => AwsService::Firehose,
        None if is_form && sts::is_meant(request) => AwsService::Sts,
        None if is_form => AwsService::Sns,
        None if crate::world::path_of(&request.uri).starts_with("/2015-03-31/functions/") => {
            AwsService::Lambda
        }
        None => AwsService::S3,
    }
}

/// Parses a request.
pub(crate) fn decode(
    caller: &Arc<str>,
    service: AwsService,
    request: &WireRequest,
) -> Result<SimCall, Error> {
    let mut call = SimCall::new(caller, service, "", "");
    let trace = request.header("x-amzn-trace-id").map(str::to_owned);
    match service {
        AwsService::Sqs => sqs::decode(&mut call, request),
        AwsService::Sns => sns::decode(&mut call, request),
        AwsService::S3 => s3::decode(&mut call, request),
        AwsService::Lambda => lambda::decode(&mut call, request),
        AwsService::Firehose => firehose::decode(&mut call, request),
        AwsService::Sts => sts::decode(&mut call, request),
        AwsService::Web => web::decode(&mut call, request),
    }?;
    host_of(&request.uri).clone_into(&mut call.host);
    call.bytes = request.body.len();
    call.parameters.extend(trace.map(|trace| ("trace".to_owned(), trace)));
    Ok(call)
}

/// Carries out a call. Functions and web servers run code of the user, so [`SimAws`](crate::SimAws) itself calls them.
pub(crate) fn carry_out(
    services: &mut Services,
    cx: &mut SimContext<'_>,
    call: &SimCall,
) -> Result<WireResponse, Error> {
    match call.service {
        AwsService::Sqs => sqs::carry_out(services, cx, call),
        AwsService::Sns => sns::carry_out(services, cx, call),
        AwsService::S3 => Ok(s3::carry_out(services, cx, call)),
        AwsService::Lambda => lambda::carry_out(services, cx, call),
        AwsService::Firehose => firehose::carry_out(services, cx, call),
        AwsService::Sts => Ok(sts::carry_out(cx)),
        AwsService::Web => Err(Error::new(404, "", "")),
    }
}

/// Returns an error as its service reports it.
pub(crate) fn refuse(service: AwsService, error: &Error) -> WireResponse {
    match service {
        AwsService::Sqs => sqs::refuse(error),
        AwsService::Sns => sns::refuse(error),
        AwsService::S3 => s3::refuse(error),
        AwsService::Lambda => lambda::refuse(error),
        AwsService::Firehose => firehose::refuse(error),
        AwsService::Sts => sts::refuse(error),
        AwsService::Web => WireResponse::new(error.status, error.message.clone()),
    }
}

pub(crate) use lambda::ran;
pub(crate) use web::answered;
