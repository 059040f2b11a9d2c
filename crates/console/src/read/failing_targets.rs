//! The endpoints that fail: their state, and how many letters wait for them or need a person.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use redrive_core::policy::{ArchiveReason, DeliverySpec, Override, Policy, Schedule, expiry_margin};
use redrive_core::waiting::{ENDPOINT_DOWN, EndpointRecovery};

use super::collect::CollectedLetters;
use super::error_words::{error_words, mend, reason_words};
use super::letter_counts::{ChartSpan, TimedCount};
use super::letters::{ArchivedLetter, WaitingOne};
use crate::account::TargetGrants;
use crate::schedule::QUEUE_RETENTION_SECONDS;
use crate::text::{count, distance, span};

/// An endpoint whose letters fail, wait, or were archived.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailingTarget {
    /// Its name; `None` for letters that name no endpoint.
    pub target: Option<String>,
    /// Its state.
    pub state: TargetState,
    /// The code of the failure that counts: the one it is down with, else that of the newest letter.
    pub error: Option<String>,
    /// The reason why the newest letter that needs a person was archived.
    pub reason: Option<String>,
    /// True if the endpoint has refused the content of every letter that needs a person.
    pub all_refused: bool,
    /// The names of the letters' topics.
    pub topics: BTreeSet<String>,
    /// True if some letters name no topic.
    pub without_topic: bool,
    /// The letters that wait for a retry. A letter stays on the list until it would have been due.
    pub waiting: u64,
    /// The letters that an override or a rule holds.
    pub held: u64,
    /// What holds them: `override <id>`, or `rule <name>`.
    pub held_by: BTreeSet<String>,
    /// When the endpoint was back, if it was down and is not.
    pub back_since: Option<Timestamp>,
    /// The letters that failed after it was back.
    pub failed_since_back: u64,
    /// The letters that need a person: archived, and not replayed.
    pub need_you: u64,
    /// The first arrival of the letters that need a person.
    pub need_since: Option<Timestamp>,
    /// The letters by the time of their arrival.
    pub came: TimedCount,
    /// When the next and the last of the waiting letters are due.
    pub due: Option<(Timestamp, Timestamp)>,
    /// Where the waiting letters stand in their schedules: the first due and the first arrival by rule and next retry. `None` if
    /// that is not known of all of them.
    pub stands: Option<BTreeMap<(String, u32), (Timestamp, Timestamp)>>,
}

/// The state of an endpoint. The worst comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TargetState {
    /// Every attempt has failed for two minutes or more, since then.
    Down(Timestamp),
    /// Letters wait after a failure; the earliest came then.
    Fails(Timestamp),
    /// It asks for time; the earliest letter that waits came then.
    Throttles(Timestamp),
    /// It is back since then, and its letters are being woken.
    Flows(Timestamp),
    /// Nothing waits, but letters were archived, the last one then.
    GaveUp(Timestamp),
    /// Letters are held, and nothing is tried.
    Held,
    /// It is back since then, and its letters were woken.
    Back(Timestamp),
    /// Nothing waits for it, and nothing needs a person.
    #[default]
    Fine,
}

/// The reasons of letters that were archived on purpose: nobody has to do anything about them.
const ON_PURPOSE: [ArchiveReason; 2] = [ArchiveReason::Rule, ArchiveReason::GivenUp];

/// Reports whether letters that were archived for a reason need a person.
#[must_use]
pub fn needs_person(reason: &str) -> bool {
    ON_PURPOSE.iter().all(|on_purpose| on_purpose.name() != reason)
}

impl TargetState {
    /// Reports whether letters fail or wait for the endpoint.
    #[must_use]
    pub fn is_failing(self) -> bool {
        matches!(self, Self::Down(_) | Self::Fails(_) | Self::Throttles(_))
    }

    /// Reports whether the endpoint asks for time, which needs nobody: the function slows down.
    #[must_use]
    pub fn is_throttled(self) -> bool {
        matches!(self, Self::Throttles(_))
    }

    /// Returns the state's name, as pages, `status` and its JSON say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Down(_) => "down",
            Self::Fails(_) => "failing",
            Self::Throttles(_) => "throttled",
            Self::GaveUp(_) => "archived",
            Self::Flows(_) => "back, letters flow",
            Self::Held => "held",
            Self::Back(_) => "back",
            Self::Fine => "fine",
        }
    }

    /// Says how long the state has lasted, `for 3 h`, or when it began: `20 min ago`.
    #[must_use]
    pub fn time_words(self, now: Timestamp) -> Option<String> {
        let since = self.since()?;
        let seconds = now.duration_since(since).as_secs();
        Some(match u64::try_from(seconds) {
            Ok(seconds) if self.is_failing() => format!("for {}", span(seconds)),
            _ => distance(since, now),
        })
    }

    /// Returns the time that the state counts from.
    #[must_use]
    pub fn since(self) -> Option<Timestamp> {
        match self {
            Self::Down(at)
            | Self::Fails(at)
            | Self::Throttles(at)
            | Self::Flows(at)
            | Self::GaveUp(at)
            | Self::Back(at) => Some(at),
            Self::Held | Self::Fine => None,
        }
    }
}

/// What letters say of an endpoint.
#[derive(Default)]
struct TargetLetters<'l> {
    archived: Vec<&'l ArchivedLetter>,
    waiting: Vec<&'l WaitingOne>,
}

/// Returns the endpoints of letters, and those that are down or were lately: the worst first.
pub(crate) fn failing_targets(
    collected: &CollectedLetters,
    endpoints: &[EndpointRecovery],
    span: &ChartSpan,
) -> Vec<FailingTarget> {
    let mut all: BTreeMap<Option<String>, TargetLetters<'_>> = BTreeMap::new();
    for letter in &collected.archived {
        all.entry(letter.fields.target.clone()).or_default().archived.push(letter);
    }
    for letter in &collected.waiting {
        all.entry(letter.fields.target.clone()).or_default().waiting.push(letter);
    }
    for endpoint in endpoints {
        all.entry(Some(endpoint.target.as_str().to_owned())).or_default();
    }
    let mut targets: Vec<_> = all
        .into_iter()
        .map(|(target, letters)| {
            let known = endpoints.iter().filter(|known| Some(known.target.as_str()) == target.as_deref());
            one_target(target.clone(), &letters, &known.collect::<Vec<_>>(), span)
        })
        .collect();
    // The state's time does not order endpoints of one state: the one with most letters matters most.
    targets.sort_by_key(|it| (rank(it.state), Reverse(it.need_you + it.waiting + it.held)));
    targets
}

fn rank(state: TargetState) -> u8 {
    match state {
        TargetState::Down(_) => 0,
        TargetState::Fails(_) => 1,
        TargetState::Throttles(_) => 2,
        TargetState::GaveUp(_) => 3,
        TargetState::Flows(_) => 4,
        TargetState::Held => 5,
        TargetState::Back(_) => 6,
        TargetState::Fine => 7,
    }
}

fn one_target(
    target: Option<String>,
    letters: &TargetLetters<'_>,
    known: &[&EndpointRecovery],
    span: &ChartSpan,
) -> FailingTarget {
    let TargetLetters { archived, waiting } = letters;
    let mut came = TimedCount::default();
    for letter in archived {
        came.add(1, letter.arrived.unwrap_or(letter.archived), span);
    }
    for letter in waiting {
        came.add(1, letter.since, span);
    }
    let need: Vec<_> = archived.iter().filter(|letter| needs_person_now(letter)).collect();
    let (held, retried): (Vec<_>, Vec<_>) = waiting.iter().partition(|letter| letter.held_by.is_some());
    let down = known.iter().filter(|known| known.down_since.is_some()).min_by_key(|known| known.down_since);
    // The error of a letter whose attempt was left out says nothing of its endpoint.
    let told = |error: &Option<String>| error.clone().filter(|code| code != ENDPOINT_DOWN);
    let of_waiting =
        || retried.iter().filter_map(|it: &&&WaitingOne| Some((it.since, told(&it.fields.error)?))).max();
    let of_archived =
        || need.iter().filter_map(|it: &&&ArchivedLetter| Some((it.archived, told(&it.fields.error)?))).max();
    let error = down.and_then(|known| known.error.clone());
    let error = error.or_else(|| of_waiting().or_else(of_archived).map(|(_, code)| code));
    let back = known.iter().filter(|known| known.down_since.is_none()).max_by_key(|known| known.recovered_at);
    let flows = back.and_then(|known| known.recovered_at.map(|at| (at, known.is_done)));
    let since = retried.iter().map(|letter| letter.since).min();
    let throttles = |code: &str| error_words(code).throttles;
    let mut known_errors = retried.iter().filter_map(|it| told(&it.fields.error)).peekable();
    let state = if let Some(since) = down.and_then(|known| known.down_since) {
        let mut entries = known.iter().filter(|known| known.down_since.is_some());
        // There is an entry for each queue. If one has another error than a throttle, the endpoint needs a person.
        if entries.all(|known| known.error.as_deref().is_some_and(throttles)) {
            TargetState::Throttles(since)
        } else {
            TargetState::Down(since)
        }
    } else if let Some((at, false)) = flows {
        TargetState::Flows(at)
    } else if let Some(since) = since {
        if known_errors.peek().is_some() && known_errors.all(|code| throttles(&code)) {
            TargetState::Throttles(since)
        } else {
            TargetState::Fails(since)
        }
    } else if let Some(last) = need.iter().map(|letter| letter.archived).max() {
        TargetState::GaveUp(last)
    } else if !held.is_empty() {
        TargetState::Held
    } else {
        flows.map_or(TargetState::Fine, |(at, _)| TargetState::Back(at))
    };
    let back_since = flows.map(|(at, _)| at).filter(|_| down.is_none());
    let is_back = matches!(state, TargetState::Flows(_) | TargetState::Back(_));
    let failed_since = || {
        let failed = retried.iter().filter(|it| is_back && it.hidden > back_since);
        failed.filter_map(|it| Some((it.hidden, told(&it.fields.error)?)))
    };
    // What it failed with before it was back is over.
    let error = if is_back { failed_since().max().map(|(_, code)| code) } else { error };
    let newest = need.iter().max_by_key(|it| it.archived);
    let refused = Some(ArchiveReason::Permanent.name());
    let topics = archived.iter().map(|it| &it.fields).chain(waiting.iter().map(|it| &it.fields));
    let due = retried.iter().map(|letter| letter.due);
    let mut stands = Some(BTreeMap::new());
    for letter in &retried {
        let rule = letter.fields.rule.clone();
        stands = rule.zip(stands).map(|(rule, mut stands)| {
            let first = stands.entry((rule, letter.retry.0)).or_insert((letter.due, letter.since));
            *first = (letter.due.min(first.0), letter.since.min(first.1));
            stands
        });
    }
    FailingTarget {
        target,
        state,
        error,
        reason: newest.and_then(|it| it.fields.reason.clone()),
        all_refused: !need.is_empty() && need.iter().all(|it| it.fields.reason.as_deref() == refused),
        without_topic: topics.clone().any(|fields| fields.topic.is_none()),
        topics: topics.filter_map(|fields| fields.topic.clone()).collect(),
        waiting: retried.len() as u64,
        held: held.len() as u64,
        held_by: held.iter().filter_map(|letter| letter.held_by.clone()).collect(),
        back_since,
        failed_since_back: failed_since().count() as u64,
        need_you: need.len() as u64,
        need_since: need.iter().map(|it| it.arrived.unwrap_or(it.archived)).min(),
        came,
        due: due.clone().min().zip(due.max()),
        stands,
    }
}

impl FailingTarget {
    /// Returns what its failure means, as the rest of a sentence: `the queue does not exist`. `None` if no failure is known.
    #[must_use]
    pub fn says(&self) -> Option<String> {
        let of_error = self.error.as_deref().map(|code| error_words(code).says);
        let of_reason = self.reason.as_deref().map(|reason| reason_words(reason).to_owned());
        let is_expiring = self.reason.as_deref() == Some(ArchiveReason::Expiring.name());
        match (self.state, of_error, of_reason) {
            (TargetState::Flows(_) | TargetState::Back(_), error, _) => {
                let failed = count(self.failed_since_back, "letter");
                error.map(|error| format!("{failed} failed since: {error}"))
            }
            (TargetState::GaveUp(_), Some(error), Some(reason)) if is_expiring => {
                Some(format!("{error}, and {reason}"))
            }
            (_, Some(error), _) => Some(error),
            (_, None, reason) => reason,
        }
    }

    /// Returns what a person does about it. `None` if no failure is known.
    #[must_use]
    pub fn mend(&self, grants: &TargetGrants) -> Option<String> {
        self.error.as_deref().map(|code| mend(code, self.target.as_deref(), self.waiting > 0, grants))
    }

    /// Returns the time before which none of the waiting letters is archived if every retry fails, by the policy and a retention
    /// of 14 days. `None` if a rule's schedule is not known.
    #[must_use]
    pub fn gives_up(&self, policy: &Policy) -> Option<Timestamp> {
        let retention = QUEUE_RETENTION_SECONDS - expiry_margin(QUEUE_RETENTION_SECONDS);
        let after = |at: Timestamp, seconds: u64| {
            at.saturating_add(SignedDuration::from_secs(i64::try_from(seconds).ok()?)).ok()
        };
        let end = |((name, retry), (due, since)): (&(String, u32), &(Timestamp, Timestamp))| {
            let rule = policy.all_rules().find(|rule| rule.name == *name)?;
            let DeliverySpec::Inline(delivery) = &rule.delivery else { return None };
            let Schedule { retries, .. } = delivery.schedule;
            let left =
                (retry + 1..=retries).map(|k| delivery.schedule.shortest_wait(k, rule.jitter).unwrap_or(0));
            // Nobody waits for longer than SQS keeps a message: a schedule may have a hundred thousand retries.
            let mut seconds = 0;
            for wait in left {
                seconds += wait;
                if seconds > retention {
                    break;
                }
            }
            Some(after(*due, seconds)?.min(after(*since, retention)?))
        };
        let ends: Option<Vec<_>> = self.stands.as_ref()?.iter().map(end).collect();
        ends?.into_iter().min()
    }

    /// Returns the override that holds its letters, if it is a single one of those in force. A letter stays on the list
    /// with what held it until it is due.
    #[must_use]
    pub fn override_in_force<'o>(
        &self,
        overrides: Option<&'o [Override]>,
        now: Timestamp,
    ) -> Option<&'o Override> {
        let mut held_by = self.held_by.iter();
        override_in_force(held_by.next().filter(|_| held_by.next().is_none())?, overrides?, now)
    }
}

/// Returns the override that holds a letter by its line on the list, if it is in force.
pub(super) fn override_in_force<'o>(
    held_by: &str,
    overrides: &'o [Override],
    now: Timestamp,
) -> Option<&'o Override> {
    let id = held_by.strip_prefix("override ")?;
    overrides.iter().find(|it| it.id == id && it.at <= now && !it.has_ended(now))
}

/// Reports whether an archived letter needs a person. If it is unknown whether a replay sent it, it counts as not sent.
pub(super) fn needs_person_now(letter: &ArchivedLetter) -> bool {
    letter.replayed != Some(true) && letter.fields.reason.as_deref().is_none_or(needs_person)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The built-in policy retries after 6 h three times at its end, each 10 % earlier at most.
    #[test]
    fn letters_are_given_up_at_the_earliest_after_the_shortest_waits() {
        let at = |hours: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours);
        let policy = Policy::parse(
            r#"{"rules": [{"name": "own", "match": {"origin": ["sns"]}, "deliveryPolicy": "from-subscription"}]}"#,
        );
        let policy = policy.unwrap();
        let ends = |stands: &[(&str, u32, i64, i64)]| {
            let one = |(rule, retry, due, since): &(&str, u32, i64, i64)| {
                ((rule.to_string(), *retry), (at(*due), at(*since)))
            };
            let stands = Some(stands.iter().map(one).collect());
            FailingTarget { stands, ..FailingTarget::default() }.gives_up(&policy)
        };
        let minutes = |minutes: i64| Some(Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes));
        assert_eq!(ends(&[("default", 12, 20, 0)]), minutes(20 * 60), "the last is due");
        assert_eq!(ends(&[("default", 10, 20, 0)]), minutes(20 * 60 + 2 * 324));
        assert_eq!(ends(&[("default", 12, 40, 0), ("default", 10, 20, 0)]), minutes(20 * 60 + 2 * 324));
        // A letter that was held for long is archived an hour before its queue forgets it.
        assert_eq!(ends(&[("default", 10, 330, 0)]), minutes((14 * 24 - 1) * 60));
        for unknown in ["own", "renamed"] {
            assert_eq!(ends(&[("default", 12, 20, 0), (unknown, 1, 1, 0)]), None, "{unknown}");
        }
        assert_eq!(FailingTarget::default().gives_up(&policy), None);
    }
}
