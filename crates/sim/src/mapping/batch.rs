//! A batch of messages for one run of a function, and the meaning of the run's answer for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::event::event;
use crate::clock::SimMillis;
use crate::sqs::ReceivedSqsMessage;

/// A batch on its way through a function.
#[derive(Debug, Clone)]
pub struct MappingBatch {
    /// The messages.
    pub messages: Vec<ReceivedSqsMessage>,
    /// The event.
    pub event: String,
    /// The request's id.
    pub request_id: Arc<str>,
    /// The X-Ray header, which the function's own calls pass on.
    pub trace: String,
    /// The time when Lambda ends the run.
    pub deadline: SimMillis,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MappingOutcome {
    /// The function answered this JSON.
    Answer(String),
    /// The function's code failed.
    Error(String),
    /// The process ended.
    Died,
    /// The time was over.
    TimedOut,
}

impl MappingBatch {
    pub(super) fn new(
        queue: &str,
        messages: Vec<ReceivedSqsMessage>,
        request_id: Arc<str>,
        trace: String,
    ) -> Self {
        let event = event(queue, &messages);
        Self { messages, event, request_id, trace, deadline: 0 }
    }

    /// Returns the positions of the messages that stay in the queue, or the reason why all of them do.
    /// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html>
    pub(super) fn kept(&self, outcome: &MappingOutcome, partial: bool) -> Result<BTreeSet<usize>, String> {
        let answer = match outcome {
            MappingOutcome::Answer(answer) => answer,
            MappingOutcome::Error(error) => return Err(error.clone()),
            MappingOutcome::Died => return Err("the process ended".to_owned()),
            MappingOutcome::TimedOut => return Err("the time was over".to_owned()),
        };
        if !partial || answer.trim().is_empty() {
            return Ok(BTreeSet::new());
        }
        let answer: Value = serde_json::from_str(answer).map_err(|error| error.to_string())?;
        let items = match answer.get("batchItemFailures") {
            None | Some(Value::Null) => return Ok(BTreeSet::new()),
            Some(Value::Array(items)) => items,
            Some(other) => return Err(format!("batchItemFailures is {other}")),
        };
        // A batch may have a message twice, and its id stands for both.
        let mut positions: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, message) in self.messages.iter().enumerate() {
            positions.entry(&message.id).or_default().push(index);
        }
        let mut kept = BTreeSet::new();
        for item in items {
            let id = item.get("itemIdentifier").and_then(Value::as_str).unwrap_or_default();
            let of = positions.get(id).ok_or_else(|| format!("{id:?} is no message of the batch"))?;
            kept.extend(of);
        }
        Ok(kept)
    }
}
