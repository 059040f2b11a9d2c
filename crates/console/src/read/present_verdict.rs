//! The answer of the page *Now*, in one sentence and five numbers.

use jiff::{SignedDuration, Timestamp};

use super::failing_targets::{FailingTarget, TargetState};
use super::letter_counts::BoundedCount;
use super::now::PresentState;
use crate::text::{count, label, span};

/// The time before a letter expires from which on it is in danger.
pub(crate) const DANGER_SECONDS: u64 = 86_400;

/// The time before S3 deletes an archived letter from which on somebody should hurry.
const KEPT_DANGER_SECONDS: u64 = 7 * 86_400;

/// The answer to "what is wrong, and since when?".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentVerdict {
    /// How bad it is.
    pub level: VerdictLevel,
    /// One or two sentences.
    pub says: String,
    /// Since when, where it is known.
    pub since: Option<VerdictSince>,
}

/// The beginning of what is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerdictSince {
    /// An endpoint fails since then.
    Failing(Timestamp),
    /// The first of the letters that need a person came then.
    FirstCame(Timestamp),
    /// An alarm is on since then.
    AlarmOn(Timestamp),
}

impl VerdictSince {
    /// Returns the time.
    #[must_use]
    pub fn at(self) -> Timestamp {
        match self {
            Self::Failing(at) | Self::FirstCame(at) | Self::AlarmOn(at) => at,
        }
    }

    /// Returns the words before the time.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Failing(_) | Self::AlarmOn(_) => "Since",
            Self::FirstCame(_) => "The first came",
        }
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VerdictLevel {
    /// Nothing fails, and no letter needs a person.
    Fine,
    /// Nobody is needed now, but something waits, or not everything can be seen.
    Watch,
    /// Somebody is needed.
    Bad,
}

impl PresentVerdict {
    /// Judges the present state. `is_whole` is false if a part of it could not be read.
    #[must_use]
    pub fn of(now: &PresentState, is_whole: bool, present: Timestamp) -> Self {
        let failing: Vec<_> = now.targets.iter().filter(|it| it.state.is_failing()).collect();
        // One that asks for time needs nobody: the function slows down.
        let is_throttled = failing.iter().all(|it| it.state.is_throttled());
        let mut says = Vec::new();
        match failing.as_slice() {
            [] => {}
            [one] => says.push(one_fails(one)),
            more => {
                let how = if is_throttled { "throttled" } else { "failing" };
                says.push(format!("{} are {how}.", count(more.len() as u64, "target")));
            }
        }
        let need = now.need_you.letters;
        if need > 0 {
            let letters = count(need, "letter");
            let verb = if need == 1 { "needs" } else { "need" };
            let (of, why) = only_one_needs(now).unwrap_or_default();
            says.push(format!("{}{letters}{of} {verb} you{why}.", now.need_you.bound.sign()));
        }
        let kept = now.kept_until.map(|end| end.duration_since(present).as_secs().max(0).unsigned_abs());
        if let Some(left) = kept.filter(|left| need > 0 && *left < KEPT_DANGER_SECONDS) {
            says.push(format!("S3 deletes the first in {}.", span(left)));
        }
        if let Some(left) = now.to_expiry.filter(|left| *left < DANGER_SECONDS) {
            says.push(format!("A letter expires in {}.", span(left)));
        }
        let alarms = now.alarms.as_ref().map_or(0, Vec::len) as u64;
        let is_bad = !is_throttled || says.len() > usize::from(!failing.is_empty());
        let is_whole = is_whole && now.blind.is_empty();
        if alarms > 0 && !is_bad {
            let is = if alarms == 1 { "is" } else { "are" };
            says.push(format!("{} {is} on.", count(alarms, "alarm")));
            if now.held.letters > 0 {
                says.push(held(now.held));
            }
        }
        let relapsing = now.targets.iter().find(|it| it.failed_since_back > 0);
        if let Some(one) = relapsing.filter(|_| !is_bad && failing.is_empty()) {
            let name = one.target.as_deref().map_or_else(String::new, label);
            says.push(format!("{name} is back, but {}.", one.says().unwrap_or_default()));
        }
        if says.is_empty() {
            says.push(quiet(now, is_whole));
            if let Some(range) = now.span.filter(|_| is_whole) {
                let is_last = present.duration_since(range.to) < SignedDuration::from_mins(1);
                let time = match range.to.duration_since(range.from).as_secs() {
                    seconds if is_last => format!("the last {}", span(seconds.unsigned_abs())),
                    _ => "this time".to_owned(),
                };
                says.push(format!("No letter that was archived in {time} needs you."));
            }
        } else if !is_whole {
            says.push("Not everything could be read.".to_owned());
        }
        if !now.blind.is_empty() {
            says.push(format!("Nobody can see {}.", now.blind.join(", and ")));
        }
        let level = if is_bad {
            VerdictLevel::Bad
        } else if alarms > 0
            || !failing.is_empty()
            || relapsing.is_some()
            || !is_whole
            || now.held.letters > 0
            || unreceived(now) > 0
        {
            VerdictLevel::Watch
        } else {
            VerdictLevel::Fine
        };
        let of_targets = failing.iter().filter_map(|it| it.state.since()).min();
        let of_archive = now.targets.iter().filter_map(|it| it.need_since).min();
        let of_alarms = now.alarms.iter().flatten().filter_map(|alarm| alarm.since).min();
        let since = of_targets
            .map(VerdictSince::Failing)
            .or(of_archive.filter(|_| need > 0).map(VerdictSince::FirstCame))
            .or(of_alarms.map(VerdictSince::AlarmOn));
        Self { level, says: says.join(" "), since: since.filter(|since| since.at() <= present) }
    }
}

/// Returns the endpoint whose letters alone need a person, and why, as parts of a sentence.
fn only_one_needs(now: &PresentState) -> Option<(String, String)> {
    let mut targets = now.targets.iter().filter(|it| it.need_you > 0);
    let one = targets.next().filter(|_| targets.next().is_none())?;
    // Of a failing one the sentence before has said it.
    let target =
        one.target.as_deref().filter(|_| one.need_you == now.need_you.letters && !one.state.is_failing())?;
    let says = one.says().filter(|_| matches!(one.state, TargetState::GaveUp(_)));
    Some((format!(" of {}", label(target)), says.map_or(String::new(), |says| format!(": {says}"))))
}

fn one_fails(target: &FailingTarget) -> String {
    let name = target.target.as_deref().map_or("Letters without an endpoint".to_owned(), label);
    let why = target.says().map_or(String::new(), |says| format!(": {says}"));
    match target.state {
        TargetState::Down(_) => format!("{name} is down{why}."),
        TargetState::Throttles(_) => format!("{name} is throttled{why}."),
        _ => format!("{name} is failing{why}."),
    }
}

/// Returns about how many letters are in the queues that the function has not received.
fn unreceived(now: &PresentState) -> u64 {
    now.queues.iter().filter_map(|queue| queue.visible.last).sum()
}

fn quiet(now: &PresentState, is_whole: bool) -> String {
    if !is_whole {
        return "No failure is seen, but not everything could be read.".to_owned();
    }
    let hidden: u64 = now.queues.iter().filter_map(|queue| queue.waiting.last).sum();
    match (now.held.letters, now.waits.letters) {
        (0, 0) if unreceived(now) > 0 => {
            format!(
                "No failure is seen. About {} in the queues are not received yet.",
                count(unreceived(now), "letter")
            )
        }
        (0, 0) if hidden > 0 => {
            format!("No failure is seen. About {} are hidden in the queues.", count(hidden, "letter"))
        }
        (0, 0) => "Nothing is failing, and no letter waits.".to_owned(),
        (0, _) => "Nothing is failing. Letters wait for their retries.".to_owned(),
        _ => format!("Nothing is failing. {}", held(now.held)),
    }
}

fn held(held: BoundedCount) -> String {
    let is = if held.letters == 1 { "is" } else { "are" };
    format!("{}{} {is} held.", held.bound.sign(), count(held.letters, "letter"))
}
