//! Lambda: REST.

use serde_json::json;

use super::text::decoded;
use super::{Request, Response, unknown};
use crate::call::Call;
use crate::cx::Cx;
use crate::error::Error;
use crate::lambda::{Ran, name_of, qualifier_of};
use crate::services::Services;
use crate::world::path_of;

pub(super) fn decode(call: &mut Call, request: &Request) -> Result<(), Error> {
    let path = path_of(&request.uri).split('?').next().unwrap_or_default();
    let function = path.strip_prefix("/2015-03-31/functions/").unwrap_or_default();
    let function = function.strip_suffix("/invocations");
    let function = function.ok_or_else(|| Error::new(404, "UnknownOperationException", path))?;
    "Invoke".clone_into(&mut call.operation);
    let function = decoded(function);
    name_of(&function).clone_into(&mut call.target);
    if let Some(qualifier) = qualifier_of(&function) {
        call.parameters.insert("Qualifier".to_owned(), qualifier.to_owned());
    }
    if let Some(kind) = request.header("x-amz-invocation-type") {
        call.parameters.insert("type".to_owned(), kind.to_owned());
    }
    call.body.clone_from(&request.body);
    Ok(())
}

/// Carries out what needs no run of the function now.
pub(super) fn carry_out(services: &mut Services, cx: &mut Cx<'_>, call: &Call) -> Result<Response, Error> {
    let is_async = call.parameter("type") == Some("Event");
    let function = services.lambda.check(&call.target, &call.body, is_async)?;
    match call.parameter("type") {
        Some("Event") => {
            let payload = String::from_utf8_lossy(&call.body).into_owned();
            services.accept(cx, &function, payload, call.parameter("trace"));
            Ok(Response::new(202, ""))
        }
        Some("DryRun") => Ok(Response::new(204, "")),
        _ => Err(unknown(call)),
    }
}

/// Returns the answer to a run that was waited for.
/// <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html>
pub(crate) fn ran(ran: &Ran) -> Response {
    let answer = |body: String| Response::new(200, body).with("x-amz-executed-version", "$LATEST");
    match &ran.result {
        Ok(body) => answer(body.clone()),
        Err(error) => {
            let body = json!({ "errorMessage": error.message, "errorType": error.kind });
            answer(body.to_string()).with("x-amz-function-error", "Unhandled")
        }
    }
}

pub(super) fn refuse(error: &Error) -> Response {
    let whose = if error.is_senders() { "User" } else { "Service" };
    let body = json!({ "Type": whose, "Message": error.message });
    Response::new(error.status, body.to_string())
        .with("x-amzn-errortype", &error.code)
        .with("content-type", "application/json")
}
