//! One letter.

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use redrive_core::policy::{ArchiveReason, DeferReason, Policy, RuleAction};

use super::action_links::{actions as acts, commands_only, overrides};
use super::elements::{ViewContext, moment, section, verdict, when};
use super::groups::until_due;
use super::link::link;
use super::log_query;
use crate::operator_action::{ActionObject, ActionVerb, PageAction};
use crate::query::{Filter, GroupField, OneLetter, PageKind, PageRange, Query};
use crate::read::{
    ArchivedLetter, LetterFields, LetterHistory, LetterLog, LetterLogLine, LetterReplay, VerdictLevel,
    WaitingOne, bare_code, error_words, letter_query, mend, needs_person, reason_words, searched_from,
};
use crate::schedule::Timetable;
use crate::text::{count, distance, ends, harmless, label, utc};

/// An event in a letter's life.
struct TimelineEvent {
    at: Option<Timestamp>,
    says: String,
}

/// Renders one letter. The policy tells when its last retry will be.
#[must_use]
pub fn letter(
    letter: &LetterHistory,
    one: &OneLetter,
    policy: Option<&Policy>,
    view: &ViewContext<'_>,
) -> Markup {
    let archived = letter.archived.as_ref().map(|(archived, _)| archived);
    let fields = archived.map(|it| &it.fields).or(letter.waiting.as_ref().map(|it| &it.fields));
    let id = archived.map_or(&one.id, |archived| &archived.id);
    html! {
        (view.ranges())
        nav class="trail" aria-label="The letter" {
            (view.to("Letters", PageKind::Groups { by: GroupField::Target, of: Filter::default() }))
            @if let Some(target) = fields.and_then(|fields| fields.target.as_deref()) {
                " / " (view.named(target, PageKind::Group { of: Filter::default().with(GroupField::Target, target) }))
            }
        }
        (answer(letter, id, view))
        (actions(letter, view))
        div class="columns" {
            (section("life", "Its life", &html! {
                @let events = life(letter, policy);
                @if events.is_empty() { p { "Nothing is known of it." } } @else {
                    ol class="life" { @for event in &events { li class=[event.at.is_none_or(|at| at > view.now).then_some("next")] {
                        @if let Some(at) = event.at { (moment(at)) }
                        " " (harmless(&event.says))
                        @if let Some(at) = event.at { span class="sub" { (distance(at, view.now)) } }
                    } } }
                }
                (log(&letter.log, one, view))
            }))
            (section("is", "What it is", &html! {
                dl class="facts" {
                    div { dt { "letter" } dd {
                        code { (harmless(id)) }
                        @if let Some(it) = archived.filter(|it| it.id != one.id) {
                            @let all = OneLetter { id: it.id.clone(), key: Some(it.key.clone()), log_query: None };
                            " " (view.to("with all messages of this id", PageKind::Letter(all)))
                        }
                    } }
                    @if let Some(archived) = archived {
                        div { dt { "SQS message" } dd { code { (harmless(&archived.message_id)) } } }
                        div { dt { "lies in" } dd { code { (harmless(&archived.key)) } } }
                    }
                }
                @if let Some(fields) = fields { (values(fields, view)) }
            }))
        }
        @if archived.is_none() && letter.waiting.is_none() {
            p class="note" {
                "Neither the newest objects of the archive in this time nor the list of waiting letters has it. "
                "Choose a longer time, or look for it in the whole archive with the command."
            }
            pre { code { (PageAction::find(&one.id, view.account.stack.as_deref())) } }
        }
        @if let Some((_, Some(said))) = &letter.archived {
            (section("says", "What it says", &html! {
                (super::content::said(said))
            }))
        }
        (log_query::show(&letter_query(&one.id), "first 500", None, view))
    }
}

/// Says where the letter is, and what comes next.
fn answer(letter: &LetterHistory, id: &str, view: &ViewContext<'_>) -> Markup {
    let name = ends(id);
    let archived = letter.archived.as_ref().map(|(archived, _)| archived);
    let is_there = |waiting: &&WaitingOne| {
        archived.is_none_or(|archived| archived.message_id != waiting.message_id)
            && last_outcome(waiting, &letter.log).is_none()
    };
    if let Some(waiting) = letter.waiting.as_ref().filter(is_there) {
        let (number, of) = waiting.retry;
        let says = match &waiting.held_by {
            Some(by) => format!("Letter {name} is held by {by}."),
            None => format!("Letter {name} waits for retry {number} of {of}."),
        };
        let error = waiting.fields.error.as_deref().map(error_words);
        let below = html! {
            @if waiting.held_by.is_some() {
                "Nothing is tried until it is released, on the page " (view.to("Now", PageKind::Now)) ". It is looked at again "
                (when(waiting.due, view.now)) "."
            } @else { "Next " (when(waiting.due, view.now)) "." }
            @if let Some(words) = error { " The last attempt failed: " (words.says) "." }
        };
        return verdict(VerdictLevel::Watch, &says, &below);
    }
    let Some(archived) = archived else {
        let outcome = letter.waiting.as_ref().and_then(|waiting| last_outcome(waiting, &letter.log));
        return match outcome {
            Some("delivered") => {
                verdict(VerdictLevel::Fine, &format!("Letter {name} was delivered."), &html! {})
            }
            Some(outcome) => {
                verdict(VerdictLevel::Watch, &format!("Letter {name} was {outcome}."), &html! {})
            }
            None => verdict(VerdictLevel::Watch, &format!("Letter {name} was not found."), &html! {}),
        };
    };
    let reason = archived.fields.reason.as_deref().unwrap_or_default();
    let below = html! {
        "Archived " (when(archived.archived, view.now)) "."
        @if let Some(words) = archived.fields.error.as_deref().map(error_words) { " The last attempt failed: " (words.says) "." }
    };
    if letter.replayed.is_some() {
        let below = html! { (below) " The replay has sent it; what became of it then stands in its life below, if the log has it." };
        return verdict(VerdictLevel::Fine, &format!("Letter {name} was replayed."), &below);
    }
    let level = if needs_person(reason) { VerdictLevel::Bad } else { VerdictLevel::Watch };
    verdict(level, &format!("Letter {name} was archived: {}.", reason_words(reason)), &below)
}

fn values(fields: &LetterFields, view: &ViewContext<'_>) -> Markup {
    html! {
        dl class="facts" {
            @for field in GroupField::ALL {
                @if let Some(text) = fields.get(field) {
                    div {
                        dt { (field.name()) }
                        dd { (view.named(text, PageKind::Group { of: Filter::default().with(field, text) })) }
                    }
                }
            }
        }
    }
}

/// Returns what one can do with a letter that waits. One that an override holds is released by ending that.
fn while_waiting(waiting: &WaitingOne, held_by: Option<&str>) -> Vec<PageAction> {
    let act = |doing| PageAction { doing, on: ActionObject::Waiting { id: waiting.id.clone() } };
    if let Some(id) = held_by {
        let release = PageAction { doing: ActionVerb::Release, on: ActionObject::Override(id.to_owned()) };
        return vec![release, act(ActionVerb::GiveUp)];
    }
    let throttles = waiting.fields.error.as_deref().is_some_and(|code| error_words(code).throttles);
    overrides(throttles).iter().map(|doing| act(*doing)).collect()
}

/// Shows the actions for a letter. For the archived letter they use SQS's message id: the sender of a message
/// writes the letter's own id into it, and could repeat another letter's id. An override must use the letter's
/// own id, since the message id changes in the requeue. Its preview counts the letters with that id.
fn actions(letter: &LetterHistory, view: &ViewContext<'_>) -> Markup {
    let archived = letter.archived.as_ref().map(|(archived, _)| archived);
    let (waiting, is_replayed) = (letter.waiting.as_ref(), letter.replayed.is_some());
    if archived.is_none() && waiting.is_none() {
        return html! {};
    }
    let is_both = archived.is_some() && waiting.is_some();
    let is_over =
        is_replayed || archived.is_some_and(|it| !it.fields.reason.as_deref().is_none_or(needs_person));
    // The same content would be refused again.
    let is_refused =
        archived.is_some_and(|it| it.fields.reason.as_deref() == Some(ArchiveReason::Permanent.name()));
    let replays = if is_refused {
        [ActionVerb::Edit, ActionVerb::Replay]
    } else {
        [ActionVerb::Replay, ActionVerb::Edit]
    };
    section(
        "actions",
        "What you can do",
        &html! {
            @if let Some(waiting) = waiting {
                @if is_both { p { "While it waits:" } }
                (acts(&while_waiting(waiting, letter.held_by.as_deref()), "An override", view))
                (until_due(view))
            }
            @if let Some(archived) = archived {
                @let on = || ActionObject::Archived { id: archived.message_id.clone(), at: Some(archived.archived) };
                @let act = |doing| PageAction { doing, on: on() };
                @if is_both { p { "As it was archived:" } }
                (acts(&replays.map(act), "A replay", view))
            }
            @let fields = archived.map(|it| &it.fields).or(waiting.map(|it| &it.fields));
            @if let Some((code, target)) = fields.filter(|_| !is_over).and_then(|it| Some((it.error.as_deref()?, it.target.as_deref()))) {
                p class="note" {
                    // The same content would be refused again.
                    @match letter.back_since.filter(|_| !is_refused) {
                        Some(at) => {
                            "Its endpoint took letters again " (when(at, view.now))
                            @if archived.is_none() && waiting.is_some_and(|it| it.recovers) { ": the function wakes this one" }
                            "."
                        }
                        None => { "What mends it: " (harmless(&mend(code, target, archived.is_none(), &view.account.grants))) }
                    }
                }
            }
            (commands_only(view))
        },
    )
}

/// Says how much of the log was read.
fn log(log: &LetterLog, one: &OneLetter, view: &ViewContext<'_>) -> Markup {
    let (from, _) = view.query.range.at(view.now);
    let from = searched_from(from);
    let longest = PageRange::OFFERED[PageRange::OFFERED.len() - 1];
    let longer = Query { range: longest, ..view.query.clone() };
    html! {
        @if !matches!(log, LetterLog::None) {
            p class="note" {
                "Attempts before " (moment(from)) " were not searched. "
                @if view.query.range != longest { (link("Search 14 days", &without_log(longer), view.door)) }
            }
        }
        @match log {
            LetterLog::None => p class="note" { "The log was not read, so attempts are missing here." },
            LetterLog::Running(id) => p class="note" role="status" {
                "The log is still being searched, so attempts are missing here. "
                (view.to("Look again", PageKind::Letter(OneLetter { log_query: Some(id.clone()), ..one.clone() })))
            },
            LetterLog::Lines { lines, more } => {
                @if lines.is_empty() { p class="note" { "The log has no line about it in this time." } }
                @if *more { p class="note" { "The log has more lines about it than the page shows." } }
            },
        }
    }
}

/// Returns the query without its log query: a longer time range needs a new one.
fn without_log(mut query: Query) -> Query {
    if let PageKind::Letter(one) = &mut query.page {
        one.log_query = None;
    }
    query
}

/// Merges all that is known about a letter, in the order of time.
fn life(letter: &LetterHistory, policy: Option<&Policy>) -> Vec<TimelineEvent> {
    let mut events = Vec::new();
    if let Some((archived, _)) = &letter.archived
        && let Some(at) = archived.arrived
    {
        events.push(TimelineEvent { at: Some(at), says: "arrived in its queue".to_owned() });
    } else if let Some(waiting) = &letter.waiting {
        events.push(TimelineEvent { at: Some(waiting.since), says: "arrived in its queue".to_owned() });
    }
    let mut was_archived = false;
    if let LetterLog::Lines { lines, .. } = &letter.log {
        was_archived = lines.iter().any(|line| line.outcome == "archived");
        events.extend(lines_of(lines));
    }
    if let Some((archived, _)) = &letter.archived.as_ref().filter(|_| !was_archived) {
        events.push(archived_event(archived));
    }
    if let Some(LetterReplay { id, began }) = &letter.replayed {
        events.push(TimelineEvent { at: *began, says: format!("replay {id} began, and sent it later") });
    }
    if let Some(waiting) = &letter.waiting {
        events.push(waiting_event(waiting, &letter.log));
        events.extend(policy.and_then(|policy| last_event(waiting, policy)));
    }
    events.sort_by_key(|event| event.at.unwrap_or(Timestamp::MAX));
    events
}

fn archived_event(archived: &ArchivedLetter) -> TimelineEvent {
    let made = archived.retry.map_or_else(
        || " without an attempt".to_owned(),
        |(number, of)| format!(" after retry {number} of {of}"),
    );
    let reason = archived.fields.reason.as_deref().unwrap_or_default();
    let error =
        archived.fields.error.as_deref().map_or(String::new(), |error| format!(", last error {error}"));
    TimelineEvent { at: Some(archived.archived), says: format!("archived: {reason}{made}{error}") }
}

/// Says when the letter is due. The list keeps letters that have left their queue, so the log may contradict
/// it. The line stays even then, because a message can come back.
fn waiting_event(waiting: &WaitingOne, log: &LetterLog) -> TimelineEvent {
    let (number, of) = waiting.retry;
    let has_left = last_outcome(waiting, log).is_some();
    let unless = if has_left { ", unless it has left its queue, as the log says" } else { "" };
    let sooner = match (&waiting.held_by, waiting.fields.target.is_some()) {
        (None, true) if !has_left => ", or sooner if its endpoint is back from an outage",
        _ => "",
    };
    let says = match &waiting.held_by {
        Some(by) => format!("looked at again{unless}; nothing is tried while {by} holds it"),
        None => format!("retry {number} of {of} is due{unless}{sooner}"),
    };
    TimelineEvent { at: Some(waiting.due), says }
}

/// Returns the outcome with which a listed letter has left its queue, as the log says.
fn last_outcome<'l>(waiting: &WaitingOne, log: &'l LetterLog) -> Option<&'l str> {
    let lines = if let LetterLog::Lines { lines, .. } = log { lines.as_slice() } else { &[] };
    let last = lines.iter().rfind(|line| line.message.as_deref() == Some(&waiting.message_id))?;
    ["delivered", "archived", "requeued"].into_iter().find(|outcome| *outcome == last.outcome)
}

/// Says when the last retry is due if all fail, and what comes after it. Attempts take time, and jitter shortens delays, so it
/// is about then.
fn last_event(waiting: &WaitingOne, policy: &Policy) -> Option<TimelineEvent> {
    let (number, of) = waiting.retry;
    let rule = policy.all_rules().find(|rule| Some(&rule.name) == waiting.fields.rule.as_ref())?;
    if waiting.held_by.is_some() || number >= of || rule.action != RuleAction::Redrive {
        return None;
    }
    let rows = Timetable::of(rule, u64::MAX).rows;
    let offset = |retry: u32| rows.iter().find(|row| row.retry == retry).map(|row| row.since);
    let wait = offset(of)?.checked_sub(offset(number)?)?;
    let at = waiting.due.checked_add(SignedDuration::from_secs(i64::try_from(wait).ok()?)).ok()?;
    Some(TimelineEvent {
        at: Some(at),
        says: format!("about now retry {of}, the last; if it fails, the letter is archived"),
    })
}

/// Puts log lines into words. Hidings in a row without an attempt become one line.
fn lines_of(lines: &[LetterLogLine]) -> Vec<TimelineEvent> {
    let without_attempt = [DeferReason::Hop, DeferReason::Early].map(DeferReason::name);
    let is_hop = |line: &&LetterLogLine| {
        line.outcome == "deferred"
            && line.reason.as_deref().is_some_and(|reason| without_attempt.contains(&reason))
            && line.error.is_none()
    };
    let mut events = Vec::new();
    // If the lines are about several messages with the same letter id, each names its message. Otherwise they
    // would look like one life.
    let is_one = lines.iter().all(|line| line.message == lines[0].message);
    let mut rest = lines;
    while let [line, ..] = rest {
        let hops = rest.iter().take_while(is_hop).take_while(|it| it.message == line.message).count();
        let mut says = if hops > 1 {
            format!("hidden again {}, without an attempt", count(hops as u64, "time"))
        } else {
            says(line)
        };
        if let Some(message) = line.message.as_deref().filter(|_| !is_one) {
            says.extend([", SQS message ", message]);
        }
        events.push(TimelineEvent { at: line.at, says });
        rest = &rest[hops.max(1)..];
    }
    events
}

/// Puts a line into words: what was tried, and what came of it.
fn says(line: &LetterLogLine) -> String {
    let target = line.target.as_deref().map_or(String::new(), |target| format!(" to {}", label(target)));
    let took = line.took.as_deref().map_or(String::new(), |took| format!(", in {took} ms"));
    let due = line.due.as_deref().map(|due| due.parse().map_or_else(|_| due.to_owned(), utc));
    let again = due.as_deref().map_or(String::new(), |due| format!("; due again {due}"));
    if let (Some((number, of)), Some(code)) = (&line.retry, &line.error) {
        let failed = format!(
            "retry {number} of {of}{target} failed: {} ({})",
            error_words(code).says,
            bare_code(code)
        );
        return match line.outcome.as_str() {
            "deferred" => format!("{failed}{took}{again}"),
            outcome => {
                let reason = line.reason.as_deref().map_or(String::new(), |reason| format!(", {reason}"));
                format!("{failed}{took}; {outcome}{reason}{again}")
            }
        };
    }
    if let (Some((number, of)), "delivered") = (&line.retry, line.outcome.as_str()) {
        return format!("retry {number} of {of} delivered{target}{took}");
    }
    let mut text = line.outcome.clone();
    let mut add = |before: &str, value: Option<&str>, after: &str| {
        if let Some(value) = value {
            text.extend([before, value, after]);
        }
    };
    add(": ", line.reason.as_deref(), "");
    let retry = line.retry.as_ref().map(|(number, of)| format!("{number} of {of}"));
    add(", retry ", retry.as_deref(), "");
    add(" to ", line.target.as_deref(), "");
    add(" in ", line.took.as_deref(), " ms");
    add(", error ", line.error.as_deref(), "");
    add(", due again ", due.as_deref(), "");
    text
}
