//! SQS: AWS JSON 1.0.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::http::{WireRequest, WireResponse, unknown};
use crate::call::SimCall;
use crate::call_context::SimContext;
use crate::error::{BatchAnswer, Error};
use crate::faults::MISSING;
use crate::message::{SimAttribute, SimAttributeValue, SimAttributes, SimEntry, md5_of, md5_of_attributes};
use crate::services::Services;
use crate::sqs::{ReceiveRequest, ReceivedSqsMessage, SendAnswer, name_of, rules};

pub(super) fn decode(call: &mut SimCall, request: &WireRequest) -> Result<(), Error> {
    let target = request.header("x-amz-target").unwrap_or_default();
    target.rsplit('.').next().unwrap_or_default().clone_into(&mut call.operation);
    let body: Value = serde_json::from_slice(&request.body)
        .map_err(|error| Error::bad("SerializationException", error.to_string()))?;
    call.target = name_of(body["QueueUrl"].as_str().unwrap_or_default()).to_string();
    let entries = body["Entries"].as_array();
    let is_batch = call.operation.strip_suffix("Batch").is_some();
    call.entries = match entries {
        Some(entries) => entries.iter().map(entry).collect::<Result<_, _>>()?,
        None if is_batch || ["GetQueueAttributes", "ListQueueTags"].contains(&call.operation.as_str()) => {
            Vec::new()
        }
        None => vec![entry(&body)?],
    };
    let list = |name: &str| {
        let names = body[name].as_array().into_iter().flatten().filter_map(Value::as_str);
        names.collect::<Vec<_>>().join(",")
    };
    let mut put = |name: &str, value: String| call.parameters.insert(name.to_owned(), value);
    put("AttributeNames", [list("AttributeNames"), list("MessageSystemAttributeNames")].join(","));
    put("MessageAttributeNames", list("MessageAttributeNames"));
    for name in ["MaxNumberOfMessages", "VisibilityTimeout", "WaitTimeSeconds"] {
        if let Some(number) = body[name].as_i64() {
            put(name, number.to_string());
        }
    }
    Ok(())
}

fn entry(entry: &Value) -> Result<SimEntry, Error> {
    let text = |name: &str| entry[name].as_str().map(str::to_owned);
    let mut attributes = SimAttributes::new();
    for (name, attribute) in entry["MessageAttributes"].as_object().into_iter().flatten() {
        let value = match (&attribute["StringValue"], &attribute["BinaryValue"]) {
            (Value::String(text), _) => SimAttributeValue::Text(text.clone()),
            (_, Value::String(bytes)) => SimAttributeValue::Bytes(
                STANDARD.decode(bytes).map_err(|it| Error::bad("SerializationException", it.to_string()))?,
            ),
            _ => SimAttributeValue::Text(String::new()),
        };
        let kind = attribute["DataType"].as_str().unwrap_or_default().to_owned();
        attributes.insert(name.clone(), SimAttribute { kind, value });
    }
    let trace = &entry["MessageSystemAttributes"]["AWSTraceHeader"]["StringValue"];
    Ok(SimEntry {
        id: text("Id").unwrap_or_default(),
        body: text("MessageBody").unwrap_or_default(),
        subject: None,
        structure: None,
        attributes,
        group: text("MessageGroupId"),
        deduplication: text("MessageDeduplicationId"),
        trace: trace.as_str().map(str::to_owned),
        delay: entry["DelaySeconds"].as_i64(),
        handle: text("ReceiptHandle"),
        visibility: entry["VisibilityTimeout"].as_i64(),
    })
}

pub(super) fn carry_out(
    services: &mut Services,
    cx: &mut SimContext<'_>,
    call: &SimCall,
) -> Result<WireResponse, Error> {
    let (sqs, queue, entries) = (&mut services.sqs, call.target.as_str(), &call.entries);
    let first = entries.first().cloned().unwrap_or_default();
    let handle = first.handle.as_deref().unwrap_or_default();
    let answer = match call.operation.as_str() {
        "SendMessage" => {
            let sent = sqs.send_message(cx, queue, &traced(call, &first))?;
            taken(&first, &sent)
        }
        "SendMessageBatch" => {
            let traced: Vec<_> = entries.iter().map(|entry| traced(call, entry)).collect();
            lists(entries, sqs.send_message_batch(cx, queue, &traced)?, taken)
        }
        "ReceiveMessage" => {
            let number = |name: &str| call.parameter(name).and_then(|it| it.parse::<i64>().ok());
            let wait = number("WaitTimeSeconds").unwrap_or(0);
            rules::wait(wait)?;
            let receive = ReceiveRequest {
                at_most: number("MaxNumberOfMessages").map_or(1, |it| usize::try_from(it).unwrap_or(0)),
                visibility: number("VisibilityTimeout"),
                is_long: wait > 0,
                ..ReceiveRequest::default()
            };
            let received = sqs.receive_message(cx, queue, receive)?;
            if received.is_empty() {
                json!({})
            } else {
                json!({ "Messages": received.iter().map(|it| message(call, it)).collect::<Vec<_>>() })
            }
        }
        "DeleteMessage" => {
            sqs.delete_message(cx, queue, handle)?;
            json!({})
        }
        "DeleteMessageBatch" => {
            lists(entries, sqs.delete_message_batch(cx, queue, entries)?, |_, ()| json!({}))
        }
        "ChangeMessageVisibility" => {
            sqs.change_message_visibility(cx, queue, handle, first.visibility.unwrap_or(0))?;
            json!({})
        }
        "ChangeMessageVisibilityBatch" => {
            let answer = sqs.change_message_visibility_batch(cx, queue, entries)?;
            lists(entries, answer, |_, ()| json!({}))
        }
        "PurgeQueue" => {
            sqs.purge_queue(cx, queue)?;
            json!({})
        }
        "GetQueueAttributes" => {
            let names = call.parameter("AttributeNames").unwrap_or_default();
            let names: Vec<_> = names.split(',').map(str::to_owned).collect();
            json!({ "Attributes": sqs.get_queue_attributes(cx.now, queue, &names)? })
        }
        "ListQueueTags" => json!({ "Tags": sqs.list_queue_tags(queue)? }),
        _ => return Err(unknown(call)),
    };
    Ok(response(200, &answer))
}

/// Adds the request's X-Ray header to an entry that has none of its own.
fn traced(call: &SimCall, entry: &SimEntry) -> SimEntry {
    let trace = entry.trace.clone().or_else(|| call.parameter("trace").map(str::to_owned));
    SimEntry { trace, ..entry.clone() }
}

fn taken(entry: &SimEntry, sent: &SendAnswer) -> Value {
    let mut answer = json!({ "MessageId": *sent.id, "MD5OfMessageBody": md5_of(entry.body.as_bytes()) });
    if let Some(md5) = md5_of_attributes(&entry.attributes) {
        answer["MD5OfMessageAttributes"] = md5.into();
    }
    let system = entry.trace.as_deref();
    let system =
        system.map(|trace| SimAttributes::from([("AWSTraceHeader".to_owned(), SimAttribute::string(trace))]));
    if let Some(md5) = system.as_ref().and_then(md5_of_attributes) {
        answer["MD5OfMessageSystemAttributes"] = md5.into();
    }
    if let Some(sequence) = &sent.sequence {
        answer["SequenceNumber"] = sequence.as_str().into();
    }
    answer
}

/// Writes the lists of a batch answer in another order than the request's, since SQS promises none.
fn lists<T>(entries: &[SimEntry], answer: BatchAnswer<T>, taken: impl Fn(&SimEntry, &T) -> Value) -> Value {
    let (mut successful, mut failed) = (Vec::new(), Vec::new());
    for (entry, (id, result)) in entries.iter().zip(answer).rev() {
        match result {
            Ok(done) => {
                let mut item = taken(entry, &done);
                item["Id"] = id.into();
                successful.push(item);
            }
            Err(error) if error.code == MISSING => {}
            Err(error) => failed.push(json!({
                "Id": id,
                "Code": error.code,
                "Message": error.message,
                "SenderFault": error.is_senders(),
            })),
        }
    }
    json!({ "Successful": successful, "Failed": failed })
}

/// Writes a message with the attributes that the receiver names, and no others.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html>
fn message(call: &SimCall, received: &ReceivedSqsMessage) -> Value {
    let payload = &received.payload;
    let attribute = |it: &SimAttribute| match &it.value {
        SimAttributeValue::Text(text) => json!({ "DataType": it.kind, "StringValue": text }),
        SimAttributeValue::Bytes(bytes) => {
            json!({ "DataType": it.kind, "BinaryValue": STANDARD.encode(bytes) })
        }
    };
    let mut system = Map::new();
    let values = [
        ("ApproximateReceiveCount", Some(received.receives.to_string())),
        ("ApproximateFirstReceiveTimestamp", Some(received.first_received.to_string())),
        ("SentTimestamp", Some(received.sent.to_string())),
        ("SenderId", Some(received.sender.to_string())),
        ("AWSTraceHeader", payload.trace.clone()),
        ("MessageGroupId", payload.group.clone()),
        ("MessageDeduplicationId", payload.deduplication.clone()),
        ("SequenceNumber", received.sequence.clone()),
        ("DeadLetterQueueSourceArn", received.source.as_deref().map(str::to_owned)),
    ];
    for (name, value) in values {
        let value = value.filter(|_| is_named(call, "AttributeNames", name));
        system.extend(value.map(|value| (name.to_owned(), value.into())));
    }
    let named = payload.attributes.iter().filter(|(name, _)| is_named(call, "MessageAttributeNames", name));
    let named: SimAttributes = named.map(|(name, it)| (name.clone(), it.clone())).collect();
    let mut message = json!({
        "MessageId": *received.id,
        "ReceiptHandle": *received.handle,
        "Body": payload.body,
        "MD5OfBody": md5_of(payload.body.as_bytes()),
    });
    if !system.is_empty() {
        message["Attributes"] = system.into();
    }
    // The digest is that of the attributes that are there.
    if let Some(md5) = md5_of_attributes(&named) {
        let attributes: Map<_, _> = named.iter().map(|(name, it)| (name.clone(), attribute(it))).collect();
        message["MessageAttributes"] = attributes.into();
        message["MD5OfMessageAttributes"] = md5.into();
    }
    message
}

/// Reports whether a parameter names an attribute: by itself, by its beginning or with all.
fn is_named(call: &SimCall, parameter: &str, name: &str) -> bool {
    let mut names = call.parameter(parameter).unwrap_or_default().split(',');
    names.any(|it| {
        it == name
            || ["All", "*", ".*"].contains(&it)
            || it.strip_suffix(".*").is_some_and(|start| name.starts_with(start))
    })
}

/// Writes an error with the name of its shape, and the older name of the query protocol in a header.
pub(super) fn refuse(error: &Error) -> WireResponse {
    let bare = error.code.rsplit('.').next().unwrap_or_default();
    let shape = if bare == "NonExistentQueue" { "QueueDoesNotExist" } else { bare };
    let body = json!({ "__type": format!("com.amazonaws.sqs#{shape}"), "message": error.message });
    let whose = if error.is_senders() { "Sender" } else { "Receiver" };
    response(error.status, &body).with("x-amzn-query-error", &format!("{};{whose}", error.code))
}

fn response(status: u16, body: &Value) -> WireResponse {
    WireResponse::new(status, body.to_string()).with("content-type", "application/x-amz-json-1.0")
}
