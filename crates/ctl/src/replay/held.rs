//! The overrides that hold the letters of a replay as soon as the function receives them.

use std::collections::BTreeSet;
use std::io::Write;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::aws::Aws;
use crate::console::{Console, Failed};
use crate::control::Control;
use crate::place::Place;
use crate::text::harmless;
use sns_redrive::archive::Record;
use sns_redrive::arn::Arn;
use sns_redrive::policy::{Override, OverrideAction, Reach, Touches};
use sns_redrive::replay::{Request, Source, State, Status};
use sns_redrive::waiting::{WaitingLetter, WaitingRetry};

/// The holds of the letters of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    /// One if it holds all letters, else those that may hold some.
    holds: Vec<Override>,
    is_sure: bool,
}

/// The place of the overrides.
pub(super) struct Holds {
    control: Control,
}

impl Holds {
    pub(super) fn at(place: &Place, aws: &Aws) -> Self {
        Self { control: Control::new(aws.clients().s3, place.clone()) }
    }

    /// Returns what holds the letters of a replay, and `None` if nothing does. If the overrides cannot be read, it says so on
    /// standard error: the letters can be sent all the same.
    pub(super) async fn of(
        &self,
        request: &Request,
        source: &Source,
        console: &mut Console,
    ) -> Result<Option<Held>, Failed> {
        let (overrides, now) = match self.control.overrides_and_time().await {
            Ok(read) => read,
            Err(failed) => {
                let says = "whether an override holds these letters is unknown";
                writeln!(console.err, "redrivectl: {says}: {}", harmless(&failed.to_string()))?;
                return Ok(None);
            }
        };
        let given = match source {
            Source::Archive => None,
            Source::Input(records) => Some(records.iter().flatten().map(|(record, _)| record.clone())),
        };
        let given: Option<Vec<_>> = given.map(Iterator::collect);
        let now = now.unwrap_or_else(|| console.clock.now());
        Ok(Held::of(request, given.as_deref(), overrides.all(), now))
    }

    /// Returns what holds the letters that a replay has sent, if it has sent any.
    pub(super) async fn of_sent(
        &self,
        state: &State,
        source: &Source,
        console: &mut Console,
    ) -> Result<Option<Held>, Failed> {
        if state.counts.sent == 0 {
            return Ok(None);
        }
        self.of(&state.request, source, console).await
    }
}

impl Held {
    /// Returns what holds the letters of a request, or those that were given; `None` if no override does. The first override
    /// that is about a letter counts.
    pub(crate) fn of(
        request: &Request,
        given: Option<&[Record]>,
        overrides: &[Override],
        now: Timestamp,
    ) -> Option<Self> {
        let (mut holds, mut is_sure) = (Vec::new(), true);
        for override_ in overrides.iter().filter(|override_| override_.is_in_force(now)) {
            let is_hold = override_.action == OverrideAction::Hold;
            match touches(request, given, override_) {
                Touches::No => {}
                Touches::Yes => {
                    holds.extend(is_hold.then(|| override_.clone()));
                    break;
                }
                // Some letters may obey this override, and no later one.
                Touches::Maybe => {
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
    pub(super) fn of_state(&self, state: &State) -> String {
        if state.status == Status::DryRun { self.before() } else { self.text() }
    }

    pub(super) fn to_json(&self) -> Value {
        let ids: Vec<_> = self.holds.iter().map(|hold| &hold.id).collect();
        json!({ "by": ids, "atMost": !self.is_sure })
    }
}

/// Reports whether an override is about the letters of a request, as far as the request names them.
fn touches(request: &Request, given: Option<&[Record]>, override_: &Override) -> Touches {
    let all = match given {
        Some(records) => {
            all_of(records.iter().map(|record| touches_line(override_, &override_.pattern, &line_of(record))))
        }
        None => of_fields(request, override_),
    };
    // When a letter arrived first, its record does not tell.
    let is_bound = override_.arrived_before.is_some() || override_.arrived_after.is_some();
    if is_bound { all.min(Touches::Maybe) } else { all }
}

/// Of a selection only what it names is known.
fn of_fields(request: &Request, override_: &Override) -> Touches {
    let every = json!([{ "exists": true }]);
    let of_field = |(field, condition): (&String, &Value)| {
        if field == "queueArn" && *condition == every {
            return Touches::Yes;
        }
        let of_value = |value: &str| {
            // A name stands for topics of any account and region.
            let line = value.parse().ok().map(|value| line_with(field, value));
            line.map_or(Touches::Maybe, |line| touches_line(override_, &json!({ field: condition }), &line))
        };
        all_of(named(request, field).into_iter().map(of_value))
    };
    let fields = override_.pattern.as_object().into_iter().flatten().map(of_field);
    fields.min().unwrap_or(Touches::Maybe)
}

/// Returns the values that a request names for a field of a letter. Each of its letters has one of them.
fn named<'r>(request: &'r Request, field: &str) -> Vec<&'r str> {
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
fn all_of(each: impl Iterator<Item = Touches>) -> Touches {
    let each: BTreeSet<_> = each.collect();
    match (each.first(), each.len()) {
        (Some(one), 1) => *one,
        _ => Touches::Maybe,
    }
}

fn touches_line(override_: &Override, pattern: &Value, line: &WaitingLetter) -> Touches {
    let part =
        Override { pattern: pattern.clone(), arrived_before: None, arrived_after: None, ..override_.clone() };
    Reach::of(&part).map_or(Touches::Maybe, |reach| reach.touches(line))
}

/// Returns an archived letter as a line of the list of waiting letters, for comparison with an override.
fn line_of(record: &Record) -> WaitingLetter {
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
