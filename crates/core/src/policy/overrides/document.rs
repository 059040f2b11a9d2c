//! The document of overrides: reading and writing.

use std::fmt::Write;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    BadOverrides, MAX_OVERRIDES, MAX_OVERRIDES_BYTES, OVERRIDES_VERSION, Override, OverrideAction, Overrides,
};
use crate::policy::fields::{DocumentFault, DocumentFields, FaultCollector};
use crate::policy::json::{after_mark, read_json};
use crate::policy::matcher::{MatchValue, Matcher};

/// The longest id, `by` and `why`, in characters.
const MAX_TEXT: usize = 1_000;

impl Overrides {
    /// Reads a document.
    ///
    /// # Errors
    ///
    /// [`BadOverrides`] with every fault and the path to it. A document of a newer version is one fault.
    pub fn parse(json: &[u8]) -> Result<Self, BadOverrides> {
        let whole = |problem: String| BadOverrides(vec![DocumentFault::new("", problem)]);
        if json.len() > MAX_OVERRIDES_BYTES {
            let size = json.len();
            return Err(whole(format!("must be at most {MAX_OVERRIDES_BYTES} bytes long, not {size}")));
        }
        let text = std::str::from_utf8(json).map_err(|_| whole("not JSON: not UTF-8".to_owned()))?;
        let document = read_json(text).map_err(BadOverrides)?;
        let version = document.get("version");
        if version.and_then(Value::as_u64) != Some(OVERRIDES_VERSION) {
            let mut problem = format!("must be {OVERRIDES_VERSION}");
            if let Some(version) = version {
                let _ = write!(problem, ", not {version}: a newer version of the tools may have written it");
            }
            return Err(BadOverrides(vec![DocumentFault::new("version", problem)]));
        }
        let faults = FaultCollector::default();
        let text = std::str::from_utf8(json).ok().map(after_mark).and_then(MatchValue::read);
        let overrides = read(&document, text.as_ref(), &faults);
        let faults = faults.into_inner();
        if faults.is_empty() { Ok(overrides) } else { Err(BadOverrides(faults)) }
    }

    /// Creates a document of these overrides.
    ///
    /// # Errors
    ///
    /// [`BadOverrides`], as in [`Overrides::parse`].
    pub fn of(overrides: &[Override]) -> Result<Self, BadOverrides> {
        Self::parse(written(overrides).as_bytes())
    }

    /// Returns the document as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        written(&self.overrides)
    }
}

fn written(overrides: &[Override]) -> String {
    format!("{:#}\n", json!({ "version": OVERRIDES_VERSION, "overrides": overrides }))
}

fn read(document: &Value, text: Option<&MatchValue<'_>>, faults: &FaultCollector) -> Overrides {
    let fields = DocumentFields::new(faults, "", document);
    let _ = fields.value("version");
    let (mut overrides, mut matchers) = (Vec::<Override>::new(), Vec::new());
    if fields.value("overrides").is_none() {
        fields.note("overrides", "is missing: a list of overrides, which may be empty");
    }
    let given = fields.list("overrides").unwrap_or_default();
    if given.len() > MAX_OVERRIDES {
        fields.note("overrides", format!("must be at most {MAX_OVERRIDES} overrides, not {}", given.len()));
    }
    for (index, value) in given.iter().enumerate().take(MAX_OVERRIDES) {
        let given = DocumentFields::new(faults, format!("overrides[{index}]"), value);
        let override_ = read_override(&given);
        if overrides.iter().any(|other| other.id == override_.id) {
            given.note("id", format!("{:?} is the id of another override", override_.id));
        }
        let pattern = MatchValue::from(&override_.pattern);
        let written = text.and_then(|text| text.at(&["overrides", &index.to_string(), "match"]));
        if written.is_some_and(|written| !written.is_kept_by(&pattern)) {
            given.note("match", "holds a number that would be rounded: write 15 digits at most");
        }
        matchers.push(Matcher::of_override(&pattern, faults, &given.path("match")));
        given.finish();
        overrides.push(override_);
    }
    fields.finish();
    Overrides { overrides, matchers }
}

fn read_override(given: &DocumentFields<'_>) -> Override {
    let actions = OverrideAction::ALL.map(|action| (action.name(), action));
    let action = given.choice("do", &actions);
    if given.value("do").is_none() {
        given.note("do", "is missing: set it to hold, retry or give-up");
    }
    let override_ = Override {
        id: text(given, "id"),
        action: action.unwrap_or(OverrideAction::Hold),
        pattern: given.value("match").cloned().unwrap_or_default(),
        arrived_before: moment(given, "arrivedBefore"),
        arrived_after: moment(given, "arrivedAfter"),
        at: moment(given, "at").unwrap_or_default(),
        until: moment(given, "until"),
        by: text(given, "by"),
        why: text(given, "why"),
    };
    if given.value("at").is_none() {
        given.note("at", "is missing: when the override begins, such as 2026-11-01T12:00:00Z");
    }
    if override_.until.is_some_and(|until| until <= override_.at) {
        given.note("until", "must be later than at");
    }
    override_
}

/// Reads a text that must be there.
fn text(given: &DocumentFields<'_>, key: &'static str) -> String {
    let text = given.text(key).unwrap_or_default();
    if given.value(key).is_none() || text.is_empty() || text.chars().count() > MAX_TEXT {
        given.note(key, format!("must be a text of 1 to {MAX_TEXT} characters"));
    }
    text.to_owned()
}

fn moment(given: &DocumentFields<'_>, key: &'static str) -> Option<Timestamp> {
    let text = given.text(key)?;
    let moment = text.parse().ok();
    if moment.is_none() {
        given.note(key, format!("must be a time such as 2026-11-01T12:00:00Z, not {text:?}"));
    }
    moment
}
