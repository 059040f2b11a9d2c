//! An operator: overrides, given and taken back, and the waking of waiting letters.

use std::collections::HashMap;

use redrive_core::batch::OverridesRead;
use redrive_core::policy::OverrideAction;
use redrive_core::waiting::WaitingLetter;
use serde_json::{Value, json};

use super::journal::ModelMessage;
use super::queue::ModelReceipt;
use super::{MINUTE, ModelMillis, at, since_begin};

/// The actions of an operator.
#[derive(Debug, Clone, Default)]
pub struct ModelOperator {
    pub overrides: Vec<TimedOverride>,
    /// The times when all letters are woken.
    pub wakes: Vec<ModelMillis>,
    /// True if only letters on the list of waiting letters are woken. Otherwise all hidden letters are.
    pub by_list: bool,
    /// The percentage of readings of the overrides that fail.
    pub reads_fail: u8,
}

/// An override that stands in the document for a while.
#[derive(Debug, Clone)]
pub struct TimedOverride {
    pub action: OverrideAction,
    pub from: ModelMillis,
    pub to: ModelMillis,
    /// The letters that it is about, or all letters if this is empty.
    pub about: Vec<usize>,
}

impl ModelOperator {
    pub fn is_idle(&self) -> bool {
        self.overrides.is_empty() && self.wakes.is_empty()
    }

    /// Returns the result of reading the document.
    pub fn read(&self, now: ModelMillis, unless: Option<&str>) -> OverridesRead {
        let given = |(_, given): &(usize, &TimedOverride)| (given.from..given.to).contains(&now);
        let given: Vec<_> = self.overrides.iter().enumerate().filter(given).collect();
        let tag = format!("{:?}", given.iter().map(|(index, _)| index).collect::<Vec<_>>());
        if unless == Some(tag.as_str()) {
            return OverridesRead::NotModified;
        }
        let overrides: Vec<_> = given.iter().map(|(index, given)| given.to_json(*index)).collect();
        let json = json!({ "version": 1, "overrides": overrides }).to_string().into_bytes();
        OverridesRead::Document { json, tag: Some(tag) }
    }
}

impl TimedOverride {
    pub fn is_about(&self, who: usize) -> bool {
        self.about.is_empty() || self.about.contains(&who)
    }

    fn to_json(&self, index: usize) -> Value {
        let messages: Vec<Value> =
            self.about.iter().flat_map(|who| [json!(format!("hello {who}")), json!(who)]).collect();
        let pattern = if messages.is_empty() {
            json!({ "queueArn": [{ "exists": true }] })
        } else {
            json!({ "message": messages })
        };
        json!({ "id": format!("override-{index}"), "do": self.action.name(), "match": pattern,
            "at": at(self.from).to_string(), "until": at(self.to).to_string(), "by": "ada", "why": "it is time" })
    }
}

/// The list of waiting letters: by message the newest receipt, and the time when the letter is due.
#[derive(Debug, Default)]
pub struct ListedReceipts(HashMap<ModelMessage, (ModelReceipt, ModelMillis)>);

impl ListedReceipts {
    pub fn add(&mut self, message: ModelMessage, receipt: &ModelReceipt, line: &WaitingLetter) {
        self.0.insert(message, (receipt.clone(), since_begin(line.due)));
    }

    /// Returns the messages to wake, without those that are due soon anyway.
    pub fn to_wake(&self, now: ModelMillis) -> Vec<(ModelMessage, ModelReceipt)> {
        let later = self.0.iter().filter(|(_, (_, due))| *due > now + MINUTE);
        let mut all: Vec<_> = later.map(|(message, (receipt, _))| (*message, receipt.clone())).collect();
        all.sort_unstable_by_key(|(message, _)| *message);
        all
    }
}
