//! The request of a replay, from the operator's tool or from an event `{"replay": {...}}`.

use jiff::Timestamp;
use redrive_archive::{LetterPattern, Selection};
use redrive_core::endpoint::TargetName;
use redrive_core::letter::{Letter, Origin, ReplayTarget};
use redrive_core::policy::{ArchiveReason, read_json, rounds_numbers};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::successors::Successors;

/// The default ends of the steps, in per cent of the selection.
pub const DEFAULT_RAMP: [u32; 4] = [1, 5, 20, 100];

/// The longest request in bytes. Step Functions passes it on in an input of 256 KiB, together with the
/// replay's state.
/// <https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html>
const MAX_BYTES: usize = 128 * 1024;

/// The criteria for letters of the archive. A missing or empty criterion sets no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ReplaySelection {
    /// The letters' dead-letter queue, or the queue that held them, by ARN or name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The letters were archived at this time or later. RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// The letters were archived before this time. RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// The names of reasons. A letter needs one of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// The ARNs or names of topics. A letter needs one of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<String>,
    /// The names of origins. A letter needs one of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<String>,
    /// The codes of last failures. A letter needs one of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    /// The ARNs, URLs or names of targets. A letter needs one of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetName>,
    /// An `EventBridge` pattern over the letter, as in a rule of the redrive policy.
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub pattern: Option<Value>,
}

impl ReplaySelection {
    /// Returns the selection up to a cut-off.
    ///
    /// # Errors
    ///
    /// All faults of the criteria in words, each with its field.
    pub fn selection(&self, cut_off: Option<Timestamp>) -> Result<Selection, Vec<String>> {
        let mut faults = Vec::new();
        let reasons = ArchiveReason::ALL.map(ArchiveReason::name);
        for (field, given, known) in
            [("reasons", &self.reasons, &reasons[..]), ("origins", &self.origins, &Origin::NAMES[..])]
        {
            let unknown = given.iter().filter(|name| !known.contains(&name.as_str()));
            faults
                .extend(unknown.map(|name| {
                    format!("select.{field}: must be one of {}, not {name:?}", known.join(", "))
                }));
        }
        if self.from.zip(self.to).is_some_and(|(from, to)| from >= to) {
            faults.push("select.to: must be later than from".to_owned());
        }
        let pattern = self.pattern.as_ref().map(|pattern| LetterPattern::parse(&pattern.to_string()));
        let pattern = pattern.transpose().unwrap_or_else(|problems| {
            faults.extend(problems.iter().map(|problem| format!("select.match: {problem}")));
            None
        });
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Selection {
            queue: self.queue.clone(),
            requeue: None,
            from: self.from,
            to: self.to,
            cut_off,
            reasons: self.reasons.clone(),
            topics: self.topics.clone(),
            origins: self.origins.clone(),
            errors: self.errors.clone(),
            targets: self.targets.clone(),
            subscriptions: Vec::new(),
            pattern,
        })
    }
}

/// The request to begin a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ReplayRequest {
    /// The letters to replay.
    pub select: ReplaySelection,
    /// `true` to confirm that an empty selection means the whole archive.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// The cut-off: letters archived later are left out. Five seconds ago if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_off: Option<Timestamp>,
    /// The target of all letters, in the place of those of their rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<ReplayTarget>,
    /// Subscriptions that were deleted and made again, with their successors. Only letters that SNS gave up
    /// on for an old subscription are selected. They go to the new one, whatever their rules say. If records
    /// are given, the other records are sent too.
    #[serde(skip_serializing_if = "Successors::is_empty")]
    pub subscriptions: Successors,
    /// `true` to only count the letters.
    pub dry_run: bool,
    /// The rate in letters per second, 1 to 1,000,000.
    pub rate: u32,
    /// The ends of the steps in per cent of the selection. The last is 100.
    pub ramp: Vec<u32>,
    /// The per cent of a step's letters that may come back or fail before the replay stops, 0 to 100.
    pub threshold: u32,
    /// The time to wait after a step before it is judged, in seconds, up to 3,600.
    pub settle_seconds: u32,
    /// `true` to also send letters that another replay has sent.
    pub again: bool,
    /// The reason for the replay, which is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The request to continue a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeRequest {
    /// The replay's id.
    #[serde(rename = "resume")]
    pub id: String,
    /// A new rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// A new threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<u32>,
    /// A new time to settle, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle_seconds: Option<u32>,
    /// The reason to continue, which is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The request in an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum EventRequest {
    /// A request to begin a replay.
    Begin(Box<ReplayRequest>),
    /// A request to continue one.
    Resume(ResumeRequest),
}

impl EventRequest {
    /// Reads the `replay` of an event as it is written.
    ///
    /// # Errors
    ///
    /// The same as those of [`EventRequest::from_json`], and each key that is there twice.
    pub fn from_text(text: &str) -> Result<Self, Vec<String>> {
        let json =
            read_json(text).map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        // A pattern with a rounded number would select other letters.
        if rounds_numbers(text) {
            return Err(vec!["holds a number that would be rounded: write 15 digits at most".to_owned()]);
        }
        Self::from_json(json)
    }

    /// Reads the `replay` of an event. With `resume` it continues a replay.
    ///
    /// # Errors
    ///
    /// The faults in words, with the name of any unknown field.
    pub fn from_json(json: Value) -> Result<Self, Vec<String>> {
        if json.get("resume").is_none() {
            return ReplayRequest::from_json(json).map(|request| Self::Begin(Box::new(request)));
        }
        serde_json::from_value(json).map(Self::Resume).map_err(|error| vec![error.to_string()])
    }
}

impl ResumeRequest {
    /// Applies the changes to the request of a replay.
    pub(super) fn change(&self, request: &mut ReplayRequest) {
        request.rate = self.rate.unwrap_or(request.rate);
        request.threshold = self.threshold.unwrap_or(request.threshold);
        request.settle_seconds = self.settle_seconds.unwrap_or(request.settle_seconds);
    }
}

impl Default for ReplayRequest {
    fn default() -> Self {
        Self {
            select: ReplaySelection::default(),
            all: false,
            cut_off: None,
            to: None,
            subscriptions: Successors::default(),
            dry_run: false,
            rate: 100,
            ramp: DEFAULT_RAMP.to_vec(),
            threshold: 10,
            settle_seconds: 60,
            again: false,
            why: None,
        }
    }
}

impl ReplayRequest {
    /// Reads a request, which must be an object. A list or null would otherwise become an empty selection,
    /// which is the whole archive.
    ///
    /// # Errors
    ///
    /// The faults in words, with the name of any unknown field.
    pub fn from_json(json: Value) -> Result<Self, Vec<String>> {
        if !json.is_object() {
            return Err(vec!["replay: must be an object".to_owned()]);
        }
        if json.get("select").is_some_and(|select| !select.is_object()) {
            return Err(vec!["select: must be an object".to_owned()]);
        }
        serde_json::from_value(json).map_err(|error| vec![error.to_string()])
    }

    /// Reports whether the selection has no limit.
    #[must_use]
    pub fn selects_all(&self) -> bool {
        self.select == ReplaySelection::default() && self.subscriptions.is_empty()
    }

    /// Returns the selection of archived letters, up to a cut-off.
    ///
    /// # Errors
    ///
    /// All faults of the criteria in words, each with its field.
    pub fn selection(&self, cut_off: Option<Timestamp>) -> Result<Selection, Vec<String>> {
        let subscriptions = self.subscriptions.pairs().map(|(old, _)| old.as_str().to_owned()).collect();
        Ok(Selection { subscriptions, ..self.select.selection(cut_off)? })
    }

    /// Returns the target that the replay sets for a letter, or `None` if the letter goes by its rule.
    pub(super) fn target_of(&self, letter: &Letter) -> Option<ReplayTarget> {
        self.subscriptions.target_of(letter).or_else(|| self.to.clone())
    }

    /// Checks the limits that the types do not enforce.
    ///
    /// # Errors
    ///
    /// All faults in words, each with its field.
    pub fn check(&self) -> Result<(), Vec<String>> {
        let rising = self.ramp.windows(2).all(|two| two[0] < two[1]);
        let ramp =
            rising && self.ramp.first().is_some_and(|first| *first > 0) && self.ramp.last() == Some(&100);
        let ramp =
            (!ramp).then(|| "ramp: must be a list of rising percentages that ends with 100".to_owned());
        let to = match (&self.to, self.subscriptions.is_empty()) {
            (Some(ReplayTarget::Subscription(_)), _) => Some(
                "to: must be topic, or the ARN of a topic, queue or function; to name a subscription that has replaced \
                 another, use subscriptions",
            ),
            (Some(_), false) => {
                Some("to, subscriptions: must not be given together, because each sets the target")
            }
            (_, true) | (None, false) => None,
        };
        let selection = self.select.selection(None).err().unwrap_or_default();
        let pace = self.check_pace().err().unwrap_or_default();
        let to = to.map(str::to_owned);
        let bytes = serde_json::to_string(self).map_or(usize::MAX, |text| text.len());
        let size = (bytes > MAX_BYTES)
            .then(|| format!("the request must be at most {MAX_BYTES} bytes long, not {bytes}"));
        let faults: Vec<_> = selection.into_iter().chain(to).chain(size).chain(ramp).chain(pace).collect();
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    /// Checks the settings that may change when a replay is continued.
    pub(super) fn check_pace(&self) -> Result<(), Vec<String>> {
        let checks = [
            (!(1..=1_000_000).contains(&self.rate)).then(|| "rate: must be from 1 to 1000000".to_owned()),
            (self.threshold > 100).then(|| "threshold: must be from 0 to 100".to_owned()),
            (self.settle_seconds > 3600).then(|| "settleSeconds: must be from 0 to 3600".to_owned()),
        ];
        let faults: Vec<_> = checks.into_iter().flatten().collect();
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }
}
