//! The overrides that hold the letters of a replay as soon as the function receives them.

use std::collections::BTreeSet;
use std::io::Write;

use jiff::Timestamp;
use redrive_archive::ArchiveRecord;
use redrive_core::arn::Arn;
use redrive_core::policy::{Override, OverrideAction, OverrideReach, ReachAnswer};
use redrive_core::waiting::{WaitingLetter, WaitingRetry};
use redrive_replay::{ReplayRequest, ReplaySource, ReplayState, ReplayStatus};
use serde_json::{Value, json};

use crate::aws::AwsAccess;
use crate::console::{CommandFailure, ToolEnvironment};
use crate::control::ControlAccess;
use crate::s3_location::BucketPrefix;
use crate::tables::harmless;

/// The holds of the letters of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplayHolds {
    /// One if it holds all letters, else those that may hold some.
    holds: Vec<Override>,
    is_sure: bool,
}

/// The place of the overrides.
pub(super) struct HoldReader {
    control: ControlAccess,
}

impl HoldReader {
    pub(super) fn at(place: &BucketPrefix, aws: &AwsAccess) -> Self {
        Self { control: ControlAccess::new(aws.clients().s3, place.clone()) }
    }

    /// Returns what holds the letters of a replay, and `None` if nothing does. If the overrides cannot be read, it says so on
    /// standard error: the letters can be sent all the same.
    pub(super) async fn of(
        &self,
        request: &ReplayRequest,
        source: &ReplaySource,
        console: &mut ToolEnvironment,
    ) -> Result<Option<ReplayHolds>, CommandFailure> {
        let (overrides, now) = match self.control.overrides_and_time().await {
            Ok(read) => read,
            Err(failed) => {
                let says = "whether an override holds these letters is unknown";
                writeln!(console.err, "redrivectl: {says}: {}", harmless(&failed.to_string()))?;
                return Ok(None);
            }
        };
        let given = match source {
            ReplaySource::Archive => None,
            ReplaySource::Input(records) => Some(records.iter().flatten().map(|(record, _)| record.clone())),
        };
        let given: Option<Vec<_>> = given.map(Iterator::collect);
        let now = now.unwrap_or_else(|| console.clock.now());
        Ok(ReplayHolds::of(request, given.as_deref(), overrides.all(), now))
    }

    /// Returns what holds the letters that a replay has sent, if it has sent any.
    pub(super) async fn of_sent(
        &self,
        state: &ReplayState,
        source: &ReplaySource,
        console: &mut ToolEnvironment,
    ) -> Result<Option<ReplayHolds>, CommandFailure> {
        if state.counts.sent == 0 {
            return Ok(None);
        }
        self.of(&state.request, source, console).await
    }
}

impl ReplayHolds {
    /// Returns what holds the letters of a request, or those that were given; `None` if no override does. The first override
    /// that is about a letter counts.
    pub(crate) fn of(
        request: &ReplayRequest,
        given: Option<&[ArchiveRecord]>,
        overrides: &[Override],
        now: Timestamp,
    ) -> Option<Self> {
        let (mut holds, mut is_sure) = (Vec::new(), true);
        for override_ in overrides.iter().filter(|override_| override_.is_in_force(now)) {
            let is_hold = override_.action == OverrideAction::Hold;
            match touches(request, given, override_) {
                ReachAnswer::No => {}
                ReachAnswer::Yes => {
                    holds.extend(is_hold.then(|| override_.clone()));
                    break;
                }
                // Some letters may obey this override, and no later one.
                ReachAnswer::Maybe => {
                    is_sure = false;
                    holds.extend(is_hold.then(|| override_.clone()));
                }
            }
        }
        (!holds.is_empty()).then_some(Self { holds, is_sure })
    }

    /// Returns it in words: held by what.
    pub(crate) fn text(&self) -> String {
        match &self.holds[..] {
            [hold] if self.is_sure => {
                format!("held by the override {} ({})", harmless(&hold.id), harmless(&hold.why))
            }
            holds => {
                let ids: Vec<_> = holds.iter().map(|hold| harmless(&hold.id)).collect();
                format!("may be held by the override {}", ids.join(" or "))
            }
        }
    }

    /// Returns what will hold the letters.
    pub(crate) fn before(&self) -> String {
        format!("{}, as soon as they are sent", self.text())
    }

    /// Returns what holds the letters of a replay that was tried or made.
    pub(super) fn of_state(&self, state: &ReplayState) -> String {
        if state.status == ReplayStatus::DryRun { self.before() } else { self.text() }
    }

    pub(super) fn to_json(&self) -> Value {
        let ids: Vec<_> = self.holds.iter().map(|hold| &hold.id).collect();
        json!({ "by": ids, "atMost": !self.is_sure })
    }
}

/// Reports whether an override is about the letters of a request, as far as the request names them.
fn touches(request: &ReplayRequest, given: Option<&[ArchiveRecord]>, override_: &Override) -> ReachAnswer {
    let all = match given {
        Some(records) => {
            all_of(records.iter().map(|record| touches_line(override_, &override_.pattern, &line_of(record))))
        }
        None => of_fields(request, override_),
    };
    // When a letter arrived first, its record does not tell.
    let is_bound = override_.arrived_before.is_some() || override_.arrived_after.is_some();
    if is_bound { all.min(ReachAnswer::Maybe) } else { all }
}

/// Of a selection only what it names is known.
fn of_fields(request: &ReplayRequest, override_: &Override) -> ReachAnswer {
    let every = json!([{ "exists": true }]);
    let of_field = |(field, condition): (&String, &Value)| {
        if field == "queueArn" && *condition == every {
            return ReachAnswer::Yes;
        }
        let of_value = |value: &str| {
            // A name stands for topics of any account and region.
            let line = value.parse().ok().map(|value| line_with(field, value));
            line.map_or(ReachAnswer::Maybe, |line| {
                touches_line(override_, &json!({ field: condition }), &line)
            })
        };
        all_of(named(request, field).into_iter().map(of_value))
    };
    let fields = override_.pattern.as_object().into_iter().flatten().map(of_field);
    fields.min().unwrap_or(ReachAnswer::Maybe)
}

/// Returns the values that a request names for a field of a letter. Each of its letters has one of them.
fn named<'r>(request: &'r ReplayRequest, field: &str) -> Vec<&'r str> {
    let select = &request.select;
    let given: Vec<_> = match field {
        "topicArn" => select.topics.iter().map(String::as_str).collect(),
        "subscriptionArn" => request.subscriptions.pairs().map(|(old, _)| old.as_str()).collect(),
        _ => Vec::new(),
    };
    let pattern = select.pattern.as_ref().filter(|_| given.is_empty());
    let values = pattern.and_then(|pattern| pattern.get(field)?.as_array());
    let values = values.and_then(|values| values.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
    values.unwrap_or(given)
}

/// Returns what is true of all letters. Of none nothing is known.
fn all_of(each: impl Iterator<Item = ReachAnswer>) -> ReachAnswer {
    let each: BTreeSet<_> = each.collect();
    match (each.first(), each.len()) {
        (Some(one), 1) => *one,
        _ => ReachAnswer::Maybe,
    }
}

fn touches_line(override_: &Override, pattern: &Value, line: &WaitingLetter) -> ReachAnswer {
    let part =
        Override { pattern: pattern.clone(), arrived_before: None, arrived_after: None, ..override_.clone() };
    OverrideReach::of(&part).map_or(ReachAnswer::Maybe, |reach| reach.touches(line))
}

/// Returns an archived letter as a line of the list of waiting letters, for comparison with an override.
fn line_of(record: &ArchiveRecord) -> WaitingLetter {
    WaitingLetter {
        letter_id: record.letter_id.clone(),
        message_id: record.message.message_id.clone(),
        subscription_arn: record.subscription_arn.as_ref().map(ToString::to_string),
        topic_arn: record.topic_arn.as_ref().map(ToString::to_string),
        ..line_with("queueArn", record.dead_letter_queue_arn.clone())
    }
}

/// Returns the line of a letter with this field alone.
fn line_with(field: &str, value: Arn) -> WaitingLetter {
    let text = |name: &str| (field == name).then(|| value.to_string());
    WaitingLetter {
        hidden: None,
        visible: None,
        recovers: false,
        letter_id: String::new(),
        message_id: String::new(),
        receipt_handle: String::new(),
        dead_letter_queue_arn: None,
        topic_arn: text("topicArn"),
        subscription_arn: text("subscriptionArn"),
        target: None,
        rule: String::new(),
        error: None,
        held_by: None,
        retry: WaitingRetry { number: 0, of: 0 },
        since: Timestamp::MIN,
        due: Timestamp::MAX,
        queue_arn: value,
    }
}
