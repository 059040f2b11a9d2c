//! Lambda: REST.

use serde_json::json;

use super::http::{WireRequest, WireResponse, unknown};
use super::text::decoded;
use crate::call::SimCall;
use crate::call_context::SimContext;
use crate::error::Error;
use crate::lambda::{SimFunction, SimInvocationResult, name_of, qualifier_of};
use crate::names::{ACCOUNT, arn};
use crate::services::Services;
use crate::world::path_of;

pub(super) fn decode(call: &mut SimCall, request: &WireRequest) -> Result<(), Error> {
    let path = path_of(&request.uri).split('?').next().unwrap_or_default();
    let function = path.strip_prefix("/2015-03-31/functions/").unwrap_or_default();
    let (function, operation) = function.rsplit_once('/').unwrap_or_default();
    match (request.method.as_str(), operation) {
        ("POST", "invocations") => "Invoke",
        ("GET", "configuration") => "GetFunctionConfiguration",
        _ => return Err(Error::new(404, "UnknownOperationException", path)),
    }
    .clone_into(&mut call.operation);
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

/// Carries out a call that does not run the function now.
pub(super) fn carry_out(
    services: &mut Services,
    cx: &mut SimContext<'_>,
    call: &SimCall,
) -> Result<WireResponse, Error> {
    if call.operation == "GetFunctionConfiguration" {
        return services.lambda.found(&call.target).map(|function| configuration(&function));
    }
    let is_async = call.parameter("type") == Some("Event");
    let function = services.lambda.check(&call.target, &call.body, is_async)?;
    match call.parameter("type") {
        Some("Event") => {
            let payload = String::from_utf8_lossy(&call.body).into_owned();
            services.accept(cx, &function, payload, call.parameter("trace"));
            Ok(WireResponse::new(202, ""))
        }
        Some("DryRun") => Ok(WireResponse::new(204, "")),
        _ => Err(unknown(call)),
    }
}

/// Returns Lambda's description of a function: how it runs, not its code.
/// <https://docs.aws.amazon.com/lambda/latest/api/API_GetFunctionConfiguration.html>
fn configuration(function: &SimFunction) -> WireResponse {
    let SimFunction { name, settings, .. } = function;
    let mut told = json!({
        "FunctionName": &**name,
        "FunctionArn": arn("lambda", &format!("function:{name}")),
        "Runtime": "provided.al2023",
        "Role": format!("arn:aws:iam::{ACCOUNT}:role/{name}"),
        "Handler": "bootstrap",
        "CodeSize": 1,
        "Description": "",
        "Timeout": 60,
        "MemorySize": 256,
        "LastModified": "2026-11-01T12:00:00.000+0000",
        "Version": "$LATEST",
        "PackageType": "Zip",
        "State": "Active",
        "LastUpdateStatus": "Successful",
    });
    match &settings.environment {
        // A function without variables has no environment.
        Ok(variables) if variables.is_empty() => {}
        Ok(variables) => told["Environment"] = json!({ "Variables": variables }),
        Err(error) => {
            told["KMSKeyArn"] = arn("kms", "key/0a1b").into();
            told["Environment"] = json!({ "Error": { "ErrorCode": error.code, "Message": error.message } });
        }
    }
    if let Some(reason) = &settings.failed {
        told["State"] = "Failed".into();
        told["StateReason"] = reason.as_str().into();
    }
    WireResponse::new(200, told.to_string()).with("content-type", "application/json")
}

/// Returns the answer to a synchronous run.
/// <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html>
pub(crate) fn ran(ran: &SimInvocationResult) -> WireResponse {
    let answer = |body: String| WireResponse::new(200, body).with("x-amz-executed-version", "$LATEST");
    match &ran.result {
        Ok(body) => answer(body.clone()),
        Err(error) => {
            let body = json!({ "errorMessage": error.message, "errorType": error.kind });
            answer(body.to_string()).with("x-amz-function-error", "Unhandled")
        }
    }
}

pub(super) fn refuse(error: &Error) -> WireResponse {
    let whose = if error.is_senders() { "User" } else { "Service" };
    let body = json!({ "Type": whose, "Message": error.message });
    WireResponse::new(error.status, body.to_string())
        .with("x-amzn-errortype", &error.code)
        .with("content-type", "application/json")
}
