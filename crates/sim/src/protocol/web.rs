//! Subscribers' web servers: plain HTTP.

use super::http::{WireRequest, WireResponse};
use crate::call::SimCall;
use crate::error::Error;
use crate::world::{WebReply, host_of, path_of};

#[allow(clippy::unnecessary_wraps, reason = "as the other services have it")]
pub(super) fn decode(call: &mut SimCall, request: &WireRequest) -> Result<(), Error> {
    call.operation.clone_from(&request.method);
    host_of(&request.uri).clone_into(&mut call.target);
    call.parameters = request.headers.iter().cloned().collect();
    call.parameters.insert("path".to_owned(), path_of(&request.uri).to_owned());
    call.body.clone_from(&request.body);
    Ok(())
}

/// Returns a web server's answer.
pub(crate) fn answered((status, headers, body): WebReply) -> WireResponse {
    WireResponse { status, headers, body: body.into_bytes() }
}
