//! The lines of the function's log about a letter.

use aws_sdk_cloudwatchlogs::types::FilteredLogEvent;
use jiff::{SignedDuration, Timestamp};
use redrive_aws::clock::InstanceClock;
use serde_json::Value;

use super::scene::failed;
use crate::console::CommandFailure;

/// The most that this machine's clock may be ahead of the timestamps of log lines.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_mins(5);

/// The function's log group.
pub(super) struct LogGroup {
    pub(super) client: aws_sdk_cloudwatchlogs::Client,
    pub(super) group: String,
    pub(super) clock: InstanceClock,
}

impl LogGroup {
    /// Returns the lines since a moment that have this id in them, the oldest first.
    async fn lines(&self, id: &str, since: Timestamp) -> Result<Vec<String>, CommandFailure> {
        let (mut lines, mut token) = (Vec::new(), None);
        loop {
            let call = self.client.filter_log_events().log_group_name(&self.group);
            let call = call.filter_pattern(format!("\"{id}\"")).start_time(since.as_millisecond());
            let page = call.set_next_token(token).send().await;
            let page = page.map_err(|error| failed("logs:FilterLogEvents", &error))?;
            let found = page.events().iter().filter_map(FilteredLogEvent::message);
            // Not every cloud applies the filter.
            lines.extend(found.filter(|line| line.contains(id)).map(str::to_owned));
            token = page.next_token().map(str::to_owned);
            if token.is_none() {
                return Ok(lines);
            }
        }
    }

    /// Returns the earliest timestamp of a line about events from now on.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now().saturating_sub(CLOCKS_DIFFER).unwrap_or(Timestamp::MIN)
    }

    /// Returns the first failed attempt for a letter of SNS's message, in words, if the log has one yet.
    ///
    /// # Errors
    ///
    /// The log cannot be read, or says that the letter was archived.
    pub(super) async fn failed_attempt(
        &self,
        id: &str,
        since: Timestamp,
    ) -> Result<Option<String>, CommandFailure> {
        for line in self.lines(id, since).await? {
            if let Some(said) = said(&line)? {
                return Ok(Some(said));
            }
        }
        Ok(None)
    }
}

/// Returns the failed attempt of a line, if it has one.
fn said(line: &str) -> Result<Option<String>, CommandFailure> {
    let Ok(line) = serde_json::from_str::<Value>(line) else {
        // LogFormat=Text.
        let fails = line.contains("deferred") && line.contains("error.code");
        return Ok(fails.then(|| "the log shows a failed attempt".to_owned()));
    };
    let text = |name: &str| line[name].as_str().unwrap_or("?");
    match (line["outcome"].as_str(), line["error.code"].as_str(), line["retry.number"].as_u64()) {
        (Some("deferred"), Some(code), Some(number)) => {
            let (of, phase, due) = (&line["retry.of"], text("retry.phase"), text("due"));
            Ok(Some(format!("retry {number} of {of} ({phase}) failed: {code}; the next is due {due}")))
        }
        (Some("archived"), _, _) => Err(CommandFailure::Work(format!(
            "the function archived the letter by the rule {}: {} {}",
            text("rule"),
            text("reason"),
            line["detail"].as_str().unwrap_or_default()
        ))),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_attempt_is_told_from_other_lines() {
        let line = r#"{"outcome":"deferred","retry.number":1,"retry.of":12,"retry.phase":"immediate",
                       "error.code":"QueueDoesNotExist","due":"2026-11-01T12:01:00Z"}"#;
        let words =
            "retry 1 of 12 (immediate) failed: QueueDoesNotExist; the next is due 2026-11-01T12:01:00Z";
        assert_eq!(said(line).unwrap().as_deref(), Some(words));
        // A letter that waits for its first attempt has not failed yet.
        assert_eq!(said(r#"{"outcome":"deferred","retry.number":1}"#).unwrap(), None);
        assert_eq!(said(r#"{"outcome":"delivered","retry.number":1}"#).unwrap(), None);
        assert!(said("INFO letter outcome=\"deferred\" error.code=\"x\"").unwrap().is_some());
        assert!(said("START RequestId: 1").unwrap().is_none());
        let archived =
            said(r#"{"outcome":"archived","reason":"rule","rule":"never"}"#).unwrap_err().to_string();
        assert!(archived.contains("by the rule never: rule"), "{archived}");
    }
}
