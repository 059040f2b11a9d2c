//! Firehose: AWS JSON 1.1.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::http::{WireRequest, WireResponse, unknown};
use crate::call::SimCall;
use crate::call_context::SimContext;
use crate::error::Error;
use crate::faults::MISSING;
use crate::message::SimEntry;
use crate::services::Services;

pub(super) fn decode(call: &mut SimCall, request: &WireRequest) -> Result<(), Error> {
    let target = request.header("x-amz-target").unwrap_or_default();
    target.rsplit('.').next().unwrap_or_default().clone_into(&mut call.operation);
    let unreadable = |error: String| Error::bad("SerializationException", error);
    let body: Value = serde_json::from_slice(&request.body).map_err(|it| unreadable(it.to_string()))?;
    body["DeliveryStreamName"].as_str().unwrap_or_default().clone_into(&mut call.target);
    for (number, record) in body["Records"].as_array().into_iter().flatten().enumerate() {
        let data = STANDARD.decode(record["Data"].as_str().unwrap_or_default());
        let data = data.map_err(|it| unreadable(it.to_string()))?;
        call.entries.push(SimEntry::new(number.to_string(), String::from_utf8_lossy(&data)));
    }
    Ok(())
}

pub(super) fn carry_out(
    services: &mut Services,
    cx: &mut SimContext<'_>,
    call: &SimCall,
) -> Result<WireResponse, Error> {
    if call.operation != "PutRecordBatch" {
        return Err(unknown(call));
    }
    let answer = services.firehose.put_record_batch(cx, &call.target, &call.entries)?;
    let failed = answer.iter().filter(|(_, result)| result.is_err()).count();
    // The answers have the order of the records, so none can follow a missing one.
    let answers: Vec<_> = answer
        .iter()
        .map_while(|(_, result)| match result {
            Ok(id) => Some(json!({ "RecordId": **id })),
            Err(error) if error.code == MISSING => None,
            Err(error) => Some(json!({ "ErrorCode": error.code, "ErrorMessage": error.message })),
        })
        .collect();
    let body = json!({ "FailedPutCount": failed, "Encrypted": false, "RequestResponses": answers });
    Ok(response(200, &body))
}

pub(super) fn refuse(error: &Error) -> WireResponse {
    let body = json!({ "__type": error.code, "message": error.message });
    response(error.status, &body)
}

fn response(status: u16, body: &Value) -> WireResponse {
    WireResponse::new(status, body.to_string()).with("content-type", "application/x-amz-json-1.1")
}
