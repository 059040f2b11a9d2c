//! The preview of an override: the letters that it would affect, before it is written.

use jiff::Timestamp;
use redrive_console::pattern_words;
use redrive_core::policy::{Override, OverrideAction, seconds_until};
use serde::Serialize;
use serde_json::{Value, json};

use super::target_check::UnknownResources;
use super::wake::{MatchCounts, WAKE_DELAY};
use crate::console::CommandEnd;
use crate::output::CommandResult;
use crate::tables::{TextStyle, brief, count, harmless, table, utc};

/// What an override would do.
pub(crate) struct OverridePreview {
    pub(crate) override_: Override,
    /// True if AWS confirmed who gives the override.
    pub(crate) by_checked: bool,
    /// The fields of the pattern that the list does not have.
    pub(crate) undecided: Vec<String>,
    /// The number of existing overrides in force.
    pub(super) others: usize,
    pub(crate) touched: MatchCounts,
    pub(crate) unknown: UnknownResources,
    /// The number of letters a second to wake; `None` if the override wakes none.
    pub(super) rate: Option<u32>,
    pub(super) now: Timestamp,
}

/// How long it takes to wake letters.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WakeEstimate {
    pub(crate) letters: u64,
    pub(crate) rate: u32,
    /// The seconds between the override and the first letter that is asked to wake.
    pub(crate) begins_after_seconds: u64,
    /// The seconds between the override and the last one.
    pub(crate) takes_seconds: u64,
}

impl OverridePreview {
    /// Returns the preview as lines of text.
    pub(crate) fn lines(&self) -> String {
        let Self { override_, touched, .. } = self;
        let mut rows = Vec::new();
        let mut say = |what: &str, text: String| rows.push(vec![format!("  {what}"), text]);
        if let Some(which) = pattern_words(&override_.pattern) {
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
            let fields = self.undecided.join(", ");
            say(
                "may affect",
                format!(
                    "{} more: the list does not have {}",
                    count(touched.maybe, "letter"),
                    harmless(&fields)
                ),
            );
        }
        if touched.claimed > 0 {
            say("being woken", touched.claimed_in_words());
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
        say("in force", ends(override_, self.now));
        if self.others > 0 {
            say("wins over", format!("{} in force", count(self.others as u64, "override")));
        }
        say("by", signature(&override_.by, self.by_checked));
        say("why", harmless(&override_.why));
        if let Some(waking) = self.waking() {
            say("wakes", waking.text());
            if self.is_too_short() {
                say(
                    "too short",
                    "the override ends before the last letter is asked to wake: raise --for or --rate"
                        .to_owned(),
                );
            }
        }
        format!("{}\n{}", headline(override_), table(&rows, &[]))
    }

    /// Returns the numbers of waiting letters as JSON.
    pub(super) fn waiting(&self) -> Value {
        self.touched.to_json(&self.undecided)
    }

    /// Returns how letters are woken; `None` if the override wakes none.
    pub(crate) fn waking(&self) -> Option<WakeEstimate> {
        self.rate.map(|rate| WakeEstimate::of(self.touched, rate))
    }

    /// Reports whether the override ends before the last letter is asked to wake.
    pub(crate) fn is_too_short(&self) -> bool {
        let takes = self.waking().map_or(0, |waking| waking.takes_seconds);
        self.override_.end().is_some_and(|end| seconds_until(self.now, end) < takes)
    }
}

impl CommandResult for OverridePreview {
    fn text(&self, _: TextStyle) -> String {
        format!("{}\nDry run: nothing was written.\n", self.lines())
    }

    fn json(&self) -> Value {
        let mut json = json!({
            "dryRun": true, "override": self.override_, "byChecked": self.by_checked, "waiting": self.waiting(),
        });
        for (field, list) in [("unknown", &self.unknown.missing), ("notChecked", &self.unknown.unseen)] {
            if !list.is_empty() {
                json[field] = json!(list);
            }
        }
        if let Some(waking) = self.waking() {
            json["wakes"] = json!(waking);
            json["tooShort"] = self.is_too_short().into();
        }
        json
    }

    fn finished(&self) -> CommandEnd {
        CommandEnd::of(self.touched.unread)
    }
}

impl WakeEstimate {
    /// Returns how long it takes to wake letters at this rate, in letters a second.
    pub(super) fn of(touched: MatchCounts, rate: u32) -> Self {
        let (letters, begins_after_seconds) = (touched.woken(), WAKE_DELAY.as_secs());
        let takes_seconds = begins_after_seconds + letters.div_ceil(u64::from(rate));
        Self { letters, rate, begins_after_seconds, takes_seconds }
    }

    pub(super) fn text(self) -> String {
        format!(
            "hidden letters, beginning {} after the override, {} a second; takes about {}",
            brief(self.begins_after_seconds),
            self.rate,
            brief(self.takes_seconds)
        )
    }
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
pub(crate) fn signature(by: &str, checked: bool) -> String {
    let note = if checked { " (confirmed by AWS)" } else { " (not checked)" };
    format!("{}{note}", harmless(by))
}

impl MatchCounts {
    /// Returns the number of letters that are asked to wake.
    pub(crate) fn woken(self) -> u64 {
        self.yes + self.maybe + self.claimed
    }

    /// Says what those are that the function has claimed.
    pub(crate) fn claimed_in_words(self) -> String {
        format!(
            "{} more, whose endpoint is back: the function has claimed them",
            count(self.claimed, "letter")
        )
    }

    pub(super) fn to_json(self, undecided: &[String]) -> Value {
        json!({
            "touched": self.yes, "maybe": self.maybe, "undecided": undecided, "stillHeld": self.held,
            "claimed": self.claimed,
            "unread": self.unread, "atMost": true,
        })
    }
}
