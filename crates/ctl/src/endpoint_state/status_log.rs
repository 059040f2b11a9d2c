//! The delivery status log of a topic: why SNS gave up, which the letters do not say.
//! <https://docs.aws.amazon.com/sns/latest/dg/sns-topic-attributes.html>

use std::collections::BTreeMap;

use aws_sdk_cloudwatchlogs::operation::filter_log_events::FilterLogEventsError;
use aws_sdk_s3::error::SdkError;
use aws_sdk_sns::config::Region;
use jiff::{SignedDuration, Timestamp};
use redrive_core::arn::Arn;
use serde::Serialize;
use serde_json::Value;

use crate::aws::AwsAccess;
use crate::doctor::{ReadResult, read_error};
use crate::tables::command_line;

/// The time before the last letter in which failures are read.
const LOOK_BACK: SignedDuration = SignedDuration::from_hours(1);

/// The time after the last letter in which its failure may still be logged.
const LOG_DELAY: SignedDuration = SignedDuration::from_mins(5);

/// The largest number of pages of log lines that are read for a topic.
const MAX_PAGES: usize = 5;

/// The protocols that have a delivery status log, with the prefix of their topic attributes.
const PREFIXES: [(&str, &str); 6] = [
    ("sqs", "SQS"),
    ("lambda", "Lambda"),
    ("firehose", "Firehose"),
    ("http", "HTTP"),
    ("https", "HTTP"),
    ("application", "Application"),
];

/// The longest code that is shown. An endpoint chooses it.
const MAX_CODE_CHARS: usize = 80;

/// What a topic's delivery status log says of its endpoints.
pub(crate) enum StatusLog {
    /// The log is off for this protocol. The command switches it on.
    Off { command: String },
    /// The failures of each endpoint.
    On {
        failures: BTreeMap<String, LoggedFailures>,
        /// True if the whole hour was read.
        is_whole: bool,
    },
}

/// The failures of one endpoint, by the reason that SNS logged.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct LoggedFailures(pub(crate) BTreeMap<String, u64>);

impl StatusLog {
    /// Reads the log of a topic for a protocol, for the hour before `until`. `None` if the protocol has none.
    pub(crate) async fn read(
        aws: &AwsAccess,
        topic: &Arn,
        protocol: &str,
        until: Timestamp,
    ) -> Option<ReadResult<Self>> {
        let (_, prefix) = PREFIXES.iter().find(|(name, _)| *name == protocol)?;
        let name = format!("{prefix}FailureFeedbackRoleArn");
        Some(match is_on(aws, topic, &name).await {
            Ok(true) => failures(aws, topic, until).await,
            Ok(false) => Ok(Self::Off { command: switch_on(topic, &name) }),
            Err(error) => Err(error),
        })
    }
}

/// Reports whether a topic logs failures by this attribute.
async fn is_on(aws: &AwsAccess, topic: &Arn, attribute: &str) -> ReadResult<bool> {
    let there = aws_sdk_sns::config::Builder::new().region(Region::new(topic.region().to_owned()));
    let asked = aws.clients().sns.get_topic_attributes().topic_arn(topic.as_str()).customize();
    let read = asked.config_override(there).send().await;
    let read = read.map_err(|error| read_error("sns:GetTopicAttributes", &error))?;
    Ok(read.attributes().is_some_and(|it| it.get(attribute).is_some_and(|role| !role.is_empty())))
}

/// Returns the command that makes a topic log failures.
fn switch_on(topic: &Arn, attribute: &str) -> String {
    let role = format!("arn:{}:iam::{}:role/ROLE", topic.partition(), topic.account());
    command_line([
        "aws",
        "sns",
        "set-topic-attributes",
        "--topic-arn",
        topic.as_str(),
        "--attribute-name",
        attribute,
        "--attribute-value",
        &role,
    ])
}

async fn failures(aws: &AwsAccess, topic: &Arn, until: Timestamp) -> ReadResult<StatusLog> {
    let group = format!("sns/{}/{}/{}/Failure", topic.region(), topic.account(), topic.resource());
    let from = until.saturating_sub(LOOK_BACK).unwrap_or(until);
    // SNS logs a failure about when it gives up.
    let end = until.saturating_add(LOG_DELAY).unwrap_or(until);
    let asked = aws.logs().filter_log_events().log_group_name(group);
    let asked = asked
        .start_time(from.as_millisecond())
        .end_time(end.as_millisecond())
        .filter_pattern("{ $.status = \"FAILURE\" }");
    let mut pages = asked.into_paginator().send();
    let mut found = BTreeMap::<String, LoggedFailures>::new();
    let mut is_whole = false;
    for _ in 0..MAX_PAGES {
        let Some(page) = pages.next().await else {
            is_whole = true;
            break;
        };
        let page = match page {
            // SNS makes the group with the first failure.
            Err(error) if is_no_group(&error) => {
                is_whole = true;
                break;
            }
            page => page.map_err(|error| read_error("logs:FilterLogEvents", &error))?,
        };
        for line in page.events().iter().filter_map(|event| event.message()) {
            if let Some((endpoint, reason)) = failure(line) {
                *found.entry(endpoint).or_default().0.entry(reason).or_default() += 1;
            }
        }
    }
    Ok(StatusLog::On { failures: found, is_whole })
}

fn is_no_group(error: &SdkError<FilterLogEventsError>) -> bool {
    error.as_service_error().is_some_and(FilterLogEventsError::is_resource_not_found_exception)
}

/// Returns the endpoint and the reason of a failure. An endpoint wrote the provider's response, so only AWS's codes of it are
/// shown, and nothing that a web server said.
fn failure(line: &str) -> Option<(String, String)> {
    let line: Value = serde_json::from_str(line).ok()?;
    let delivery = &line["delivery"];
    let endpoint = delivery["destination"].as_str()?.to_owned();
    let status = delivery["statusCode"].as_u64();
    let response: Value =
        serde_json::from_str(delivery["providerResponse"].as_str().unwrap_or_default()).unwrap_or_default();
    let code = ["ErrorCode", "errorCode", "code"].iter().find_map(|name| response[*name].as_str());
    let is_web = endpoint.starts_with("http");
    let code = code.filter(|_| !is_web).map(|code| code.chars().take(MAX_CODE_CHARS).collect::<String>());
    let reason = match (status, code) {
        (Some(status), Some(code)) => format!("{code} ({status})"),
        (None, Some(code)) => code,
        (Some(status), None) => status.to_string(),
        (None, None) => "no status".to_owned(),
    };
    Some((endpoint, reason))
}

/// Returns the failures in words.
impl std::fmt::Display for LoggedFailures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut sorted: Vec<_> = self.0.iter().collect();
        sorted.sort_by(|one, other| other.1.cmp(one.1).then(one.0.cmp(other.0)));
        let parts: Vec<_> =
            sorted.iter().take(3).map(|(reason, number)| format!("{reason} x {number}")).collect();
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_logged_failure_names_its_endpoint_and_no_text_of_a_server() {
        let line = |destination: &str, response: &Value, status: u32| {
            json!({ "status": "FAILURE", "notification": { "messageId": "m" },
                    "delivery": { "destination": destination, "statusCode": status, "attempts": 3,
                                  "providerResponse": response.to_string() } })
            .to_string()
        };
        let queue = "arn:aws:sqs:eu-central-1:123456789012:payments-worker";
        let denied = json!({ "ErrorCode": "AccessDenied", "ErrorMessage": "S3CR3T", "sqsRequestId": "1" });
        assert_eq!(
            failure(&line(queue, &denied, 403)),
            Some((queue.to_owned(), "AccessDenied (403)".to_owned()))
        );
        let url = "https://hooks.example.com/S3CR3T";
        let said = json!({ "ErrorCode": "S3CR3T" });
        assert_eq!(failure(&line(url, &said, 503)), Some((url.to_owned(), "503".to_owned())));
        assert_eq!(failure("not JSON"), None);
    }
}
