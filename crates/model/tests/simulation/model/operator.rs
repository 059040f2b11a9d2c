//! An operator: overrides, given and taken back, and the waking of waiting letters.

use redrive_core::batch::DocumentRead;
use redrive_core::policy::OverrideAction;
use serde_json::{Value, json};

use super::{ModelMillis, at};

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
    pub fn read(&self, now: ModelMillis, unless: Option<&str>) -> DocumentRead {
        let given = |(_, given): &(usize, &TimedOverride)| (given.from..given.to).contains(&now);
        let given: Vec<_> = self.overrides.iter().enumerate().filter(given).collect();
        let tag = format!("{:?}", given.iter().map(|(index, _)| index).collect::<Vec<_>>());
        if unless == Some(tag.as_str()) {
            return DocumentRead::NotModified;
        }
        let overrides: Vec<_> = given.iter().map(|(index, given)| given.to_json(*index)).collect();
        let json = json!({ "version": 1, "overrides": overrides }).to_string().into_bytes();
        DocumentRead::Document { json, tag: Some(tag) }
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
