//! SNS: forms in, XML out.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::http::{WireRequest, WireResponse, unknown};
use super::text::{element, escaped, form};
use crate::call::SimCall;
use crate::call_context::SimContext;
use crate::error::Error;
use crate::faults::MISSING;
use crate::message::{SimAttribute, SimAttributeValue, SimAttributes, SimEntry};
use crate::services::Services;
use crate::sns::{PublishAnswer, SimSubscription, rules};
use crate::world::host_of;

const NAMESPACE: &str = "http://sns.amazonaws.com/doc/2010-03-31/";

pub(super) fn decode(call: &mut SimCall, request: &WireRequest) -> Result<(), Error> {
    let form = form(&String::from_utf8_lossy(&request.body));
    let field = |name: &str| form.get(name).cloned().unwrap_or_default();
    call.operation = field("Action");
    let host = host_of(&request.uri);
    let trace = request.header("x-amzn-trace-id").map(str::to_owned);
    match call.operation.as_str() {
        "PublishBatch" => {
            let topic = field("TopicArn");
            rules::topic_arn(&topic, host)?;
            call.target = topic_of(&topic);
            for number in 1.. {
                let prefix = format!("PublishBatchRequestEntries.member.{number}.");
                if !form.contains_key(&format!("{prefix}Id")) {
                    break;
                }
                call.entries.push(SimEntry { trace: trace.clone(), ..entry(&form, &prefix)? });
            }
        }
        "Publish" => {
            let topic = form.get("TopicArn").or_else(|| form.get("TargetArn")).cloned().unwrap_or_default();
            rules::topic_arn(&topic, host)?;
            call.target = topic_of(&topic);
            call.entries.push(SimEntry { trace, ..entry(&form, "")? });
        }
        "GetSubscriptionAttributes" => call.target = field("SubscriptionArn"),
        "SetSubscriptionAttributes" => {
            call.target = field("SubscriptionArn");
            for name in ["AttributeName", "AttributeValue"] {
                call.parameters.extend(form.get(name).map(|value| (name.to_owned(), value.clone())));
            }
        }
        "GetTopicAttributes" | "ListSubscriptionsByTopic" => call.target = field("TopicArn"),
        _ => {}
    }
    if let Some(token) = form.get("NextToken") {
        call.parameters.insert("NextToken".to_owned(), token.clone());
    }
    Ok(())
}

fn entry(form: &BTreeMap<String, String>, prefix: &str) -> Result<SimEntry, Error> {
    let field = |name: &str| form.get(&format!("{prefix}{name}")).cloned();
    let mut attributes = SimAttributes::new();
    for number in 1.. {
        let part = |name: &str| field(&format!("MessageAttributes.entry.{number}.{name}"));
        let Some(name) = part("Name") else { break };
        let value = match part("Value.BinaryValue") {
            Some(bytes) => SimAttributeValue::Bytes(
                STANDARD.decode(bytes).map_err(|it| Error::bad("SerializationException", it.to_string()))?,
            ),
            None => SimAttributeValue::Text(part("Value.StringValue").unwrap_or_default()),
        };
        let kind = part("Value.DataType").unwrap_or_default();
        attributes.insert(name, SimAttribute { kind, value });
    }
    Ok(SimEntry {
        id: field("Id").unwrap_or_default(),
        body: field("Message").unwrap_or_default(),
        subject: field("Subject"),
        structure: field("MessageStructure"),
        attributes,
        group: field("MessageGroupId"),
        deduplication: field("MessageDeduplicationId"),
        ..SimEntry::default()
    })
}

fn topic_of(arn: &str) -> String {
    arn.rsplit(':').next().unwrap_or_default().to_owned()
}

pub(super) fn carry_out(
    services: &mut Services,
    cx: &mut SimContext<'_>,
    call: &SimCall,
) -> Result<WireResponse, Error> {
    let result = match call.operation.as_str() {
        "Publish" => {
            let entry = call.entries.first().cloned().unwrap_or_default();
            published(&services.publish(cx, &call.target, &entry)?)
        }
        "PublishBatch" => {
            let (mut successful, mut failed) = (String::new(), String::new());
            let answer = services.publish_batch(cx, &call.target, &call.entries)?;
            // SNS promises no order.
            for (id, result) in answer.into_iter().rev() {
                let id = element("Id", &id);
                match result {
                    Ok(done) => successful.extend(["<member>", &id, &published(&done), "</member>"]),
                    Err(error) if error.code == MISSING => {}
                    Err(error) => {
                        failed.extend([
                            "<member>",
                            &id,
                            &element("Code", &error.code),
                            &element("Message", &error.message),
                            &element("SenderFault", &error.is_senders().to_string()),
                            "</member>",
                        ]);
                    }
                }
            }
            format!("<Failed>{failed}</Failed><Successful>{successful}</Successful>")
        }
        "GetSubscriptionAttributes" => {
            let attributes = services.sns.get_subscription_attributes(&call.target)?;
            let entry = |(name, value): (&String, &String)| {
                format!("<entry>{}{}</entry>", element("key", name), element("value", value))
            };
            format!("<Attributes>{}</Attributes>", attributes.iter().map(entry).collect::<String>())
        }
        "GetTopicAttributes" => {
            services.sns.get_topic_attributes(&call.target)?;
            let listed = services.sns.list_subscriptions_by_topic(&call.target)?;
            let confirmed = listed.iter().filter(|it| !it.pending).count().to_string();
            let entry =
                |key, value| format!("<entry>{}{}</entry>", element("key", key), element("value", value));
            let entries = entry("TopicArn", &call.target) + &entry("SubscriptionsConfirmed", &confirmed);
            format!("<Attributes>{entries}</Attributes>")
        }
        "SetSubscriptionAttributes" => {
            let name = call.parameter("AttributeName").unwrap_or_default();
            let value = call.parameter("AttributeValue");
            services.sns.set_subscription_attributes(&call.target, name, value)?;
            String::new()
        }
        "ListSubscriptionsByTopic" => {
            let listed = services.sns.list_subscriptions_by_topic(&call.target)?;
            members(&listed)
        }
        "ListSubscriptions" => {
            let (page, next) = services.sns.list_subscriptions(call.parameter("NextToken"))?;
            let next = next.map_or_else(String::new, |token| element("NextToken", &token));
            format!("{}{next}", members(&page))
        }
        _ => return Err(unknown(call)),
    };
    let name = &call.operation;
    let body = format!(
        "<{name}Response xmlns=\"{NAMESPACE}\"><{name}Result>{result}</{name}Result><ResponseMetadata>{}\
         </ResponseMetadata></{name}Response>",
        element("RequestId", &cx.id())
    );
    Ok(WireResponse::new(200, body).with("content-type", "text/xml"))
}

/// Returns a list of subscriptions.
fn members(page: &[&SimSubscription]) -> String {
    let member = |it: &&SimSubscription| {
        // SNS gives no ARN for a subscription that is not confirmed.
        let arn = if it.pending { "PendingConfirmation" } else { &it.arn };
        format!(
            "<member>{}{}{}{}{}</member>",
            element("TopicArn", &crate::names::arn("sns", &it.topic)),
            element("Protocol", it.protocol.name()),
            element("SubscriptionArn", arn),
            element("Owner", it.more.get("Owner").map_or(crate::names::ACCOUNT, String::as_str)),
            element("Endpoint", &it.endpoint),
        )
    };
    format!("<Subscriptions>{}</Subscriptions>", page.iter().map(member).collect::<String>())
}

fn published(done: &PublishAnswer) -> String {
    let sequence = done.sequence.as_deref();
    let sequence = sequence.map_or_else(String::new, |it| element("SequenceNumber", it));
    format!("{}{sequence}", element("MessageId", &done.id))
}

pub(super) fn refuse(error: &Error) -> WireResponse {
    let whose = if error.is_senders() { "Sender" } else { "Receiver" };
    let body = format!(
        "<ErrorResponse xmlns=\"{NAMESPACE}\"><Error><Type>{whose}</Type><Code>{}</Code><Message>{}</Message></Error>\
         <RequestId>00000000-0000-4000-8000-000000000000</RequestId></ErrorResponse>",
        error.code,
        escaped(&error.message)
    );
    WireResponse::new(error.status, body).with("content-type", "text/xml")
}
