//! The preview of an override: the letters that it would affect, before it is written.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::known::{Unknown, in_words};
use super::wake::{BEGINS, Touched};
use crate::text::{brief, count, harmless, table, utc};
use sns_redrive::policy::{Override, OverrideAction, Reach, seconds_until};

pub(super) struct Preview<'a> {
    pub(super) override_: &'a Override,
    pub(super) reach: &'a Reach,
    /// The existing overrides.
    pub(super) others: &'a [Override],
    pub(super) touched: Touched,
    pub(super) unknown: &'a Unknown,
    pub(super) rate: Option<u32>,
}

impl Preview<'_> {
    pub(super) fn text(&self, by_checked: bool, now: Timestamp) -> String {
        let Self { override_, touched, .. } = self;
        let mut rows = Vec::new();
        let mut say = |what: &str, text: String| rows.push(vec![format!("  {what}"), text]);
        if let Some(which) = in_words(&override_.pattern) {
            say("which", which);
        }
        say("match", harmless(&override_.pattern.to_string()));
        if let Some(before) = override_.arrived_before {
            say("arrived", format!("before {} UTC", utc(before)));
        }
        if let Some(after) = override_.arrived_after {
            say("arrived", format!("{} UTC or later", utc(after)));
        }
        say("affects", format!("at most {} on the list of waiting letters", count(touched.yes, "letter")));
        if touched.maybe > 0 {
            let fields = self.reach.undecided().join(", ");
            say(
                "may affect",
                format!(
                    "{} more: the list does not have {}",
                    count(touched.maybe, "letter"),
                    harmless(&fields)
                ),
            );
        }
        say(
            "not counted",
            "letters that are hidden for less than two minutes, or not received yet".to_owned(),
        );
        if touched.unread > 0 {
            say("not read", format!("{} of the list", count(touched.unread, "part")));
        }
        for missing in &self.unknown.missing {
            say("unknown", format!("{missing}: neither SNS, SQS nor the list of waiting letters knows it"));
        }
        for unseen in &self.unknown.unseen {
            say("not checked", format!("whether there is {unseen}"));
        }
        say("in force", ends(override_, now));
        let others = self.others.iter().filter(|other| other.is_in_force(now)).count();
        if others > 0 {
            say("wins over", format!("{} in force", count(others as u64, "override")));
        }
        say("by", signature(&override_.by, by_checked));
        say("why", harmless(&override_.why));
        if let Some(rate) = self.rate {
            say("wakes", waking(touched.wakes(), rate));
            if self.is_too_short(rate, now) {
                say(
                    "too short",
                    "the override ends before the last letter is asked to wake: raise --for or --rate"
                        .to_owned(),
                );
            }
        }
        format!("{}\n{}", headline(override_), table(&rows, &[]))
    }

    /// Returns the preview as JSON.
    pub(super) fn json(&self, by_checked: bool, now: Timestamp) -> Value {
        let touched = self.touched.to_json(self.reach.undecided());
        let mut json = json!({ "dryRun": true, "override": self.override_, "byChecked": by_checked, "waiting": touched });
        for (field, list) in [("unknown", &self.unknown.missing), ("notChecked", &self.unknown.unseen)] {
            if !list.is_empty() {
                json[field] = json!(list);
            }
        }
        if let Some(rate) = self.rate {
            json["wakes"] = waking_json(self.touched.wakes(), rate);
            json["tooShort"] = self.is_too_short(rate, now).into();
        }
        json
    }

    /// Reports whether the override ends before the last letter is asked to wake.
    fn is_too_short(&self, rate: u32, now: Timestamp) -> bool {
        let takes = takes(self.touched.wakes(), rate);
        self.override_.end().is_some_and(|end| seconds_until(now, end) < takes)
    }
}

/// Returns the text on how long it takes to wake this number of letters.
pub(super) fn waking(letters: u64, rate: u32) -> String {
    let takes = takes(letters, rate);
    format!(
        "hidden letters, beginning {} after the override, {rate} a second; takes about {}",
        brief(BEGINS.as_secs()),
        brief(takes)
    )
}

/// Returns the same facts as JSON.
pub(super) fn waking_json(letters: u64, rate: u32) -> Value {
    let (begins, takes) = (BEGINS.as_secs(), takes(letters, rate));
    json!({ "letters": letters, "rate": rate, "beginsAfterSeconds": begins, "takesSeconds": takes })
}

/// Returns the seconds between an override and the last letter that is asked to wake.
fn takes(letters: u64, rate: u32) -> u64 {
    BEGINS.as_secs() + letters.div_ceil(u64::from(rate))
}

fn headline(override_: &Override) -> &'static str {
    match override_.action {
        OverrideAction::Hold => "Hold: no attempts for these letters.",
        OverrideAction::Retry => {
            "Retry now: the function tries each of these letters as soon as it receives it."
        }
        OverrideAction::GiveUp => "Give up: these letters are archived with the reason given-up.",
    }
}

/// Returns the text on how long the override is in force.
pub(crate) fn ends(override_: &Override, now: Timestamp) -> String {
    match override_.end() {
        Some(end) => format!("until {} UTC, {}", utc(end), brief(seconds_until(now, end))),
        None => "until it is released".to_owned(),
    }
}

/// Returns the author of an override, with a note whether AWS confirmed it.
pub(super) fn signature(by: &str, checked: bool) -> String {
    let note = if checked { " (confirmed by AWS)" } else { " (not checked)" };
    format!("{}{note}", harmless(by))
}

impl Touched {
    /// The letters that are asked to wake.
    pub(super) fn wakes(self) -> u64 {
        self.yes + self.maybe
    }

    pub(super) fn to_json(self, undecided: &[String]) -> Value {
        json!({
            "touched": self.yes, "maybe": self.maybe, "undecided": undecided, "stillHeld": self.held,
            "unread": self.unread, "atMost": true,
        })
    }
}
