//! A reader of JSON documents that goes field by field and keeps every fault with its path.
//!
//! An operator who gets one fault per deployment deploys five times. So nothing here stops at the first
//! fault: the fault is noted, a harmless value replaces the bad one, and reading goes on. A key that no code
//! asks for by name is unknown, which is a fault too.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use crate::endpoint::without_urls;

/// One fault of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentFault {
    /// The place in the document, such as `rules[1].deliveryPolicy.healthyRetryPolicy.numRetries`.
    pub path: String,
    /// The problem, with the limit if there is one.
    pub problem: String,
}

/// The longest path and the longest problem of a fault, in characters. A document may hold any text, and log
/// lines must stay short.
const MAX_FAULT_CHARS: usize = 500;

impl DocumentFault {
    /// Creates a fault. Long texts are cut, and of a URL only its name is left: it may hold a secret, and faults are
    /// logged.
    pub(super) fn new(path: impl Into<String>, problem: impl Into<String>) -> Self {
        let shown = |text: String| cut(without_urls(&text));
        Self { path: shown(path.into()), problem: shown(problem.into()) }
    }
}

fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_FAULT_CHARS) {
        text.truncate(end);
        text.push_str(" ...");
    }
    text
}

impl fmt::Display for DocumentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.problem);
        }
        write!(f, "{}: {}", self.path, self.problem)
    }
}

/// Faults gathered while reading one document.
#[derive(Debug, Default)]
pub(super) struct FaultCollector {
    found: RefCell<Vec<DocumentFault>>,
    lenient: bool,
}

impl FaultCollector {
    /// Creates the faults of a document that others write, in which unknown keys are allowed.
    pub(super) fn lenient() -> Self {
        Self { lenient: true, ..Self::default() }
    }

    pub(super) fn note(&self, path: impl Into<String>, problem: impl Into<String>) {
        self.found.borrow_mut().push(DocumentFault::new(path, problem));
    }

    pub(super) fn into_inner(self) -> Vec<DocumentFault> {
        self.found.into_inner()
    }
}

/// The fields of one JSON object.
pub(super) struct DocumentFields<'a> {
    faults: &'a FaultCollector,
    path: String,
    map: Option<&'a Map<String, Value>>,
    asked: RefCell<BTreeSet<&'static str>>,
}

impl<'a> DocumentFields<'a> {
    pub(super) fn new(faults: &'a FaultCollector, path: impl Into<String>, value: &'a Value) -> Self {
        let path = path.into();
        let map = value.as_object();
        if map.is_none() {
            faults.note(&path, format!("must be an object, not {}", kind(value)));
        }
        Self { faults, path, map, asked: RefCell::default() }
    }

    /// Reports whether others write the document, so that it may have more than is known here.
    pub(super) fn is_lenient(&self) -> bool {
        self.faults.lenient
    }

    /// Returns the path of a field of this object.
    pub(super) fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    pub(super) fn note(&self, key: &str, problem: impl Into<String>) {
        self.faults.note(self.path(key), problem);
    }

    /// Reports whether a fault was found in this object.
    pub(super) fn has_faults(&self) -> bool {
        self.faults.found.borrow().iter().any(|fault| fault.path.starts_with(&self.path))
    }

    /// Returns a field as it stands; `null` counts as absent.
    pub(super) fn value(&self, key: &'static str) -> Option<&'a Value> {
        self.asked.borrow_mut().insert(key);
        self.map?.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn object(&self, key: &'static str) -> Option<DocumentFields<'a>> {
        self.value(key).map(|value| DocumentFields::new(self.faults, self.path(key), value))
    }

    pub(super) fn text(&self, key: &'static str) -> Option<&'a str> {
        let value = self.value(key)?;
        if value.as_str().is_none() {
            self.note(key, format!("must be a string, not {}", kind(value)));
        }
        value.as_str()
    }

    pub(super) fn flag(&self, key: &'static str) -> Option<bool> {
        let value = self.value(key)?;
        if value.as_bool().is_none() {
            self.note(key, format!("must be true or false, not {}", kind(value)));
        }
        value.as_bool()
    }

    pub(super) fn list(&self, key: &'static str) -> Option<&'a [Value]> {
        let value = self.value(key)?;
        if value.as_array().is_none() {
            self.note(key, format!("must be a list, not {}", kind(value)));
        }
        value.as_array().map(Vec::as_slice)
    }

    /// Returns a whole number within limits, or `default` if it is absent or bad.
    pub(super) fn number(&self, key: &'static str, limits: (u32, u32), default: u32) -> u32 {
        let Some(value) = self.value(key) else { return default };
        let (least, most) = limits;
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        // CloudFormation writes whole numbers as doubles: 20.0.
        let double = || value.as_f64().filter(|number| number.fract() == 0.0);
        let number = number.or_else(|| format!("{:.0}", double()?).parse().ok());
        if let Some(number) = number.filter(|number| (least..=most).contains(number)) {
            return number;
        }
        self.note(key, format!("must be a whole number from {least} to {most}, not {}", shown(value)));
        default
    }

    /// Returns one of a few names.
    pub(super) fn choice<T: Copy>(&self, key: &'static str, choices: &[(&str, T)]) -> Option<T> {
        let text = self.text(key)?;
        let found = choices.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice);
        if found.is_none() {
            let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
            self.note(key, format!("must be one of {}, not {text:?}", names.join(", ")));
        }
        found
    }

    /// Notes the keys that no code asked for. Call it last.
    pub(super) fn finish(self) {
        let asked = self.asked.take();
        for key in self.map.into_iter().flat_map(Map::keys) {
            if !self.faults.lenient && !asked.contains(key.as_str()) {
                let known: Vec<_> = asked.iter().copied().collect();
                self.note(key, format!("unknown key; known here: {}", known.join(", ")));
            }
        }
    }
}

/// Returns a value for an error message: a small one as it is, any other by its kind.
fn shown(value: &Value) -> String {
    match value {
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        Value::String(text) if text.len() <= 40 => value.to_string(),
        _ => kind(value).to_owned(),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
