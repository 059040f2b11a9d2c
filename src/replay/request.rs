//! What is asked for: by the operator's tool, or by an event `{"replay": {...}}`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::successors::Successors;
use crate::archive::{Pattern, Selection};
use crate::letter::{Letter, Origin, ReplayTarget};
use crate::policy::ArchiveReason;

/// A step's end in per cent of the selection, step by step.
pub const DEFAULT_RAMP: [u32; 4] = [1, 5, 20, 100];

/// The longest request, bytes: Step Functions hands it on in an input of 256 KiB, with how the replay stands.
/// <https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html>
const MAX_BYTES: usize = 128 * 1024;

/// Which letters of the archive. What is absent or empty is no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Select {
    /// The dead-letter queue that they came from, or the queue that they lay in: its ARN or its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Archived at this time or later; RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// Archived before this time; RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// Reasons by name, any of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Topics by ARN or name, any of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<String>,
    /// Origins by name, any of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<String>,
    /// Codes of the last failure, any of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    /// Targets by ARN or URL, any of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// An `EventBridge` pattern over the letter, as in a rule of the redrive policy.
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub pattern: Option<Value>,
}

impl Select {
    /// The selection up to a cut-off.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, in words, each with its field.
    pub fn selection(&self, cut_off: Option<Timestamp>) -> Result<Selection, Vec<String>> {
        let mut faults = Vec::new();
        let reasons = ArchiveReason::ALL.map(ArchiveReason::name);
        for (field, given, known) in
            [("reasons", &self.reasons, &reasons[..]), ("origins", &self.origins, &Origin::NAMES[..])]
        {
            let unknown = given.iter().filter(|name| !known.contains(&name.as_str()));
            faults.extend(
                unknown.map(|name| format!("select.{field}: {name:?} is none of {}", known.join(", "))),
            );
        }
        if self.from.zip(self.to).is_some_and(|(from, to)| from >= to) {
            faults.push("select.to: must be later than from".to_owned());
        }
        let pattern = self.pattern.as_ref().map(|pattern| Pattern::parse(&pattern.to_string()));
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

/// A wish that a replay begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Request {
    /// Which letters.
    pub select: Select,
    /// The whole archive is meant, since nothing is selected.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// Letters archived later are left out; the present, unless it is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_off: Option<Timestamp>,
    /// Where they go, whatever their rules say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<ReplayTarget>,
    /// Subscriptions that were deleted and made again: of the selection, only letters that SNS gave up on for an old one
    /// are meant, and they go to the new one, whatever their rules say. Of records that are given, the others go too.
    #[serde(skip_serializing_if = "Successors::is_empty")]
    pub subscriptions: Successors,
    /// Only count.
    pub dry_run: bool,
    /// Letters a second, 1 to 1,000,000.
    pub rate: u32,
    /// Steps, each ending at so many per cent of the selection; the last is 100.
    pub ramp: Vec<u32>,
    /// Per cent of a step's letters that may come back or fail before the replay stops, 0 to 100.
    pub threshold: u32,
    /// How long to wait after a step before it is judged, seconds, up to 3,600.
    pub settle_seconds: u32,
    /// Letters that another replay has sent are sent once more.
    pub again: bool,
    /// The reason, which is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A wish that a replay goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resume {
    /// Its id.
    #[serde(rename = "resume")]
    pub id: String,
    /// Another rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// Another threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<u32>,
    /// Another time to settle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle_seconds: Option<u32>,
}

/// What is asked for, as an event says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Wish {
    /// A replay begins.
    Begin(Box<Request>),
    /// One goes on.
    Resume(Resume),
}

impl Wish {
    /// Reads what stands in an event's `replay`: with `resume` a replay goes on.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in words; a field that is unknown by its name.
    pub fn from_json(json: Value) -> Result<Self, Vec<String>> {
        if json.get("resume").is_none() {
            return Request::from_json(json).map(|request| Self::Begin(Box::new(request)));
        }
        serde_json::from_value(json).map(Self::Resume).map_err(|error| vec![error.to_string()])
    }
}

impl Resume {
    /// The request of a replay, changed.
    pub(super) fn change(&self, request: &mut Request) {
        request.rate = self.rate.unwrap_or(request.rate);
        request.threshold = self.threshold.unwrap_or(request.threshold);
        request.settle_seconds = self.settle_seconds.unwrap_or(request.settle_seconds);
    }
}

impl Default for Request {
    fn default() -> Self {
        Self {
            select: Select::default(),
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

impl Request {
    /// Reads a request. Only objects will do: of a list or of nothing, an empty selection would be made, which
    /// is the whole archive.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in words; a field that is unknown by its name.
    pub fn from_json(json: Value) -> Result<Self, Vec<String>> {
        if !json.is_object() {
            return Err(vec!["replay: must be an object".to_owned()]);
        }
        if json.get("select").is_some_and(|select| !select.is_object()) {
            return Err(vec!["select: must be an object".to_owned()]);
        }
        serde_json::from_value(json).map_err(|error| vec![error.to_string()])
    }

    /// Whether nothing limits it.
    #[must_use]
    pub fn selects_all(&self) -> bool {
        self.select == Select::default() && self.subscriptions.is_empty()
    }

    /// The selection of archived letters, up to a cut-off.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, in words, each with its field.
    pub fn selection(&self, cut_off: Option<Timestamp>) -> Result<Selection, Vec<String>> {
        let subscriptions = self.subscriptions.pairs().map(|(old, _)| old.as_str().to_owned()).collect();
        Ok(Selection { subscriptions, ..self.select.selection(cut_off)? })
    }

    /// Where a letter goes, if not by its rule.
    pub(super) fn target_of(&self, letter: &Letter) -> Option<ReplayTarget> {
        self.subscriptions.target_of(letter).or_else(|| self.to.clone())
    }

    /// Checks what types cannot.
    ///
    /// # Errors
    ///
    /// Everything that is wrong, in words, each with its field.
    pub fn check(&self) -> Result<(), Vec<String>> {
        let rising = self.ramp.windows(2).all(|two| two[0] < two[1]);
        let ramp =
            rising && self.ramp.first().is_some_and(|first| *first > 0) && self.ramp.last() == Some(&100);
        let ramp = (!ramp).then(|| "ramp: must be rising per cents, the last of them 100".to_owned());
        let to = match (&self.to, self.subscriptions.is_empty()) {
            (Some(ReplayTarget::Subscription(_)), _) => Some(
                "to: must be topic, or the ARN of a topic, queue or function; a subscription takes letters of the one that \
                 it has replaced, by subscriptions",
            ),
            (Some(_), false) => Some("to, subscriptions: only one of them says where letters go"),
            (_, true) | (None, false) => None,
        };
        let selection = self.select.selection(None).err().unwrap_or_default();
        let pace = self.check_pace().err().unwrap_or_default();
        let to = to.map(str::to_owned);
        let bytes = serde_json::to_string(self).map_or(usize::MAX, |text| text.len());
        let size =
            (bytes > MAX_BYTES).then(|| format!("must be at most {MAX_BYTES} bytes long, and is {bytes}"));
        let faults: Vec<_> = selection.into_iter().chain(to).chain(size).chain(ramp).chain(pace).collect();
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    /// The same for what can be changed when a replay goes on.
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
