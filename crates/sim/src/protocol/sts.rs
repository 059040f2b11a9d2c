//! STS: forms in, XML out. A caller is the session of a role, by the caller's name.

use super::http::{WireRequest, WireResponse};
use super::text::{element, escaped};
use crate::call::SimCall;
use crate::call_context::SimContext;
use crate::error::Error;
use crate::names::ACCOUNT;

const NAMESPACE: &str = "https://sts.amazonaws.com/doc/2011-06-15/";
const IDENTITY: &str = "GetCallerIdentity";

/// Reports whether a form is for this service: a process may have one address for all of them.
pub(super) fn is_meant(request: &WireRequest) -> bool {
    // Not parsed: this is asked of every form, and most are large requests for SNS.
    let action = format!("Action={IDENTITY}");
    request.body.split(|byte| *byte == b'&').take(2).any(|pair| pair == action.as_bytes())
}

#[allow(clippy::unnecessary_wraps, reason = "as the other services have it")]
pub(super) fn decode(call: &mut SimCall, _: &WireRequest) -> Result<(), Error> {
    IDENTITY.clone_into(&mut call.operation);
    Ok(())
}

/// Carries out `GetCallerIdentity`.
/// <https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html>
pub(super) fn carry_out(cx: &mut SimContext<'_>) -> WireResponse {
    let result = [
        element("Arn", &format!("arn:aws:sts::{ACCOUNT}:assumed-role/{}", cx.by)),
        element("UserId", &format!("AROAEXAMPLE:{}", cx.by)),
        element("Account", ACCOUNT),
    ];
    let body = format!(
        "<{IDENTITY}Response xmlns=\"{NAMESPACE}\"><{IDENTITY}Result>{}</{IDENTITY}Result><ResponseMetadata>{}\
         </ResponseMetadata></{IDENTITY}Response>",
        result.concat(),
        element("RequestId", &cx.id())
    );
    WireResponse::new(200, body).with("content-type", "text/xml")
}

pub(super) fn refuse(error: &Error) -> WireResponse {
    let body = format!(
        "<ErrorResponse xmlns=\"{NAMESPACE}\"><Error><Type>Sender</Type><Code>{}</Code><Message>{}</Message></Error>\
         <RequestId>00000000-0000-4000-8000-000000000000</RequestId></ErrorResponse>",
        error.code,
        escaped(&error.message)
    );
    WireResponse::new(error.status, body).with("content-type", "text/xml")
}
