//! One group of letters.

use maud::{Markup, PreEscaped, html};
use redrive_core::policy::{DeliverySpec, Policy, Rule, RuleAction};

use super::action_links::{actions as acts, commands_only, overrides};
use super::elements::{
    ViewContext, bounded, column, filter_text, given_up, letters, moment, next_and_last, not_replayed,
    section, spark, table, tile, value, verdict, when,
};
use super::groups::{filter, how_counted, until_due};
use super::log_query;
use super::now::state_level;
use crate::operator_action::{ActionObject, ActionVerb, PageAction};
use crate::query::{Filter, GroupField, OneLetter, PageKind};
use crate::read::{
    ArchivedLetter, BoundedCount, CommonValue, CountBound, FailingTarget, GroupValue, OneGroup, ShownContent,
    TargetState, VerdictLevel, WaitingOne, part_of,
};
use crate::schedule::{PendingRetries, QUEUE_RETENTION_SECONDS, Timetable, draw};
use crate::text::{ShortName, clock, clock_time, count, ends, harmless, label, span, thousands};

/// The function's policy, or the reason why it is unknown.
pub type KnownPolicy = Result<Policy, String>;

/// Renders one group.
#[must_use]
pub fn group(
    group: &OneGroup,
    policy: Option<&KnownPolicy>,
    is_whole: bool,
    view: &ViewContext<'_>,
) -> Markup {
    let more = if group.counted.is_sample { group.counted.more_than_read() } else { group.counted.more };
    html! {
        (view.ranges())
        (trail(&group.of, view))
        (answer(group, more, is_whole, view))
        (tiles(group, more, policy, view))
        @match &group.target {
            Some(target) if target.target.is_some() => (steps(target, group, view)),
            _ => (actions(group, view)),
        }
        (common(group, view))
        (archived(&group.examples, view))
        (waiting(&group.next_waiting, view))
        (schedule(group, policy))
        (section("counts", "How these numbers are made", &html! {
            @if group.waiting > 0 { (until_due(view)) }
            (how_counted(&group.counted))
            p class="note" {
                "Archived letters are those of " (moment(group.span.from)) " to " (moment(group.span.to)) " UTC; letters wait now."
            }
        }))
        @let left_out = log_query::left_out(&group.of, view.account.requeue.as_ref());
        (log_query::show(&log_query::of_group(&group.of), "latest 1,000", left_out, view))
    }
}

/// Shows which letters the group has, and leads to the groups around it.
fn trail(of: &Filter, view: &ViewContext<'_>) -> Markup {
    html! {
        nav class="trail" aria-label="The group" {
            (view.to("Letters", PageKind::Groups { by: GroupField::Target, of: Filter::default() }))
        }
        (filter(of, view, |of| PageKind::Group { of }))
    }
}

/// Returns the group's name in a sentence: `topic payments and error Http503`.
fn name(of: &Filter) -> String {
    let names: Vec<_> = of
        .iter()
        .map(|(field, value)| match value {
            "" => format!("no {}", field.name()),
            value => format!("{} {}", field.name(), label(value)),
        })
        .collect();
    if names.is_empty() { "all letters".to_owned() } else { names.join(" and ") }
}

fn answer(group: &OneGroup, more: bool, is_whole: bool, view: &ViewContext<'_>) -> Markup {
    let Some(target) = &group.target else {
        let about = if more { "At least " } else { "" };
        let says = format!(
            "{about}{} archived, {}, of {}.",
            thousands(group.archived.letters),
            match (group.waiting, group.more_waiting) {
                (0, false) => "none waits".to_owned(),
                (0, true) => "the list of those that wait was read in part".to_owned(),
                (waiting, false) => format!("at most {} wait", thousands(waiting)),
                (waiting, true) => format!("about {} wait", thousands(waiting)),
            },
            name(&group.of)
        );
        let level = match (group.need_you, group.waiting) {
            (1.., _) => VerdictLevel::Bad,
            (0, 0) if is_whole && !group.more_waiting => VerdictLevel::Fine,
            _ => VerdictLevel::Watch,
        };
        return verdict(level, &says, &html! {});
    };
    let (name, kind, is) = match &target.target {
        Some(target) => (label(target), ShortName::of(target).kind, "is"),
        None => ("Letters without an endpoint".to_owned(), String::new(), "are"),
    };
    let (level, word) = (state_level(target.state), target.state.name());
    let level = if is_whole { level } else { level.max(VerdictLevel::Watch) };
    let why = target.says().map_or(String::new(), |says| format!(": {says}"));
    let says = match target.state {
        TargetState::Fine | TargetState::Held | TargetState::Back(_) => format!("{name} {is} {word}."),
        TargetState::Flows(_) => format!("{name} is back, and its letters flow{why}."),
        TargetState::GaveUp(_) if target.target.is_none() => format!("{name} were archived{why}."),
        TargetState::GaveUp(_) => format!("Letters of {name} were archived{why}."),
        _ => format!("{name} {is} {word}{why}."),
    };
    let topics: Vec<_> = target.topics.iter().map(|topic| label(topic)).collect();
    let gave_up = matches!(target.state, TargetState::GaveUp(_));
    let below = html! {
        @if !kind.is_empty() { (kind) }
        @if !topics.is_empty() {
            @if kind.is_empty() { "From " } @else { ", from " }
            @if topics.len() == 1 { "topic " } @else { "topics " } (topics.join(", "))
        }
        "."
        @if let Some(since) = target.state.since() {
            @if gave_up { " The last was archived " } @else { " Since " }
            (when(since, view.now)) ", at " (clock_time(since, view.now)) "."
            @match target.back_since.filter(|at| *at > since) {
                Some(at) if gave_up => { " It took letters again " (when(at, view.now)) "." }
                None if gave_up && target.target.is_some() => " Nothing says whether it works by now.",
                _ => {}
            }
        }
        @if let Some(code) = &target.error { " " code { (harmless(code)) } }
    };
    verdict(level, &says, &below)
}

fn tiles(group: &OneGroup, more: bool, policy: Option<&KnownPolicy>, view: &ViewContext<'_>) -> Markup {
    let some = |number: u64, level| (number > 0).then_some(level);
    let waits = |number: u64| match (number, group.more_waiting) {
        (0, false) => BoundedCount { letters: 0, bound: CountBound::Exact },
        (letters, false) => BoundedCount { letters, bound: CountBound::AtMost },
        (letters, true) => BoundedCount { letters, bound: CountBound::About },
    };
    let held = group.held;
    let all = if more { u64::MAX } else { group.archived.letters };
    html! {
        dl class="tiles" {
            @let is_none = group.archived.letters == 0 && !more && view.account.archive.is_some();
            @let left = if is_none { "0".to_owned() } else { not_replayed(group.left, all) };
            (tile(some(group.need_you, VerdictLevel::Bad), &html! { (left) }, "not replayed yet", &html! {
                "of " (letters(group.archived.letters, more)) " archived"
            }))
            @let waiting = group.waiting.saturating_sub(held);
            (tile(some(waiting, VerdictLevel::Watch), &bounded(waits(waiting)), "wait for a retry", &html! {
                @if let Some(due) = group.target.as_ref().and_then(|it| it.due) {
                    (next_and_last(due, view.now))
                    @let policy = policy.and_then(|it| it.as_ref().ok());
                    @if let Some(end) = group.target.as_ref().zip(policy).and_then(|(it, policy)| it.gives_up(policy)) { (given_up(end, view.now)) }
                }
                @else if let Some(since) = group.since { "the first came " (when(since, view.now)) }
                @else { "none" }
            }))
            @if group.target.is_some() || held > 0 {
                (tile(None, &bounded(waits(held)), "held", &html! { "by an override or a rule" }))
            }
            (tile(None, &html! { @match group.archived.seen { Some((_, last)) => (when(last, view.now)), None => "-" } }, "last archived", &html! {
                @if let Some((first, _)) = group.archived.seen { "the first " (when(first, view.now)) }
                @else { "none in this time" }
            }))
            @if group.archived.letters > 0 {
                (tile(None, &spark(&group.archived.parts, part_of(&group.span), 0), "archived over time", &html! {}))
            }
        }
    }
}

/// Shows what one can do about a target, in the order in which one would do it.
fn steps(target: &FailingTarget, group: &OneGroup, view: &ViewContext<'_>) -> Markup {
    let on = |since, until| ActionObject::Letters { of: group.of.clone(), since, until };
    let act = |doing| PageAction { doing, on: on(None, None) };
    let until = view.replay_end();
    let mend = target.mend(&view.account.grants).filter(|_| target.state.is_failing() || target.need_you > 0);
    let flows = matches!(target.state, TargetState::Down(_));
    let is_throttled = target.state.is_throttled();
    let overrides: Vec<_> = overrides(is_throttled).iter().map(|doing| act(*doing)).collect();
    section(
        "actions",
        "What you can do",
        &html! {
            ol class="steps" {
                @if let Some(mend) = mend { li { p {
                    @if !is_throttled { strong { "Mend it. " } }
                    (harmless(&mend))
                } } }
                @if group.held > 0 { li { p { strong { "Release. " } (held_letters(group, view)) } } }
                @if target.waiting + target.held > 0 {
                    li {
                        p {
                            @if !is_throttled { strong { "Wait. " } }
                            @if target.waiting == 0 {
                                "Nothing is tried while letters are held. Retry now tries them in spite of the hold."
                            } @else if flows {
                                "When it takes the first letter, the " (thousands(target.waiting))
                                " that wait begin to flow within a minute, by themselves. Retry now wakes them at once."
                            } @else if is_throttled {
                                "Each letter is retried by its schedule."
                            } @else if target.held == 0 {
                                "Each letter is retried by its schedule. Retry now wakes them at once."
                            } @else {
                                "Each letter that is not held is retried by its schedule. Retry now wakes them at once."
                            }
                        }
                        (acts(&overrides, "An override", view))
                    }
                } @else if !target.all_refused {
                    li {
                        p { strong { "Keep what comes. " } "No letter waits. A hold keeps those that come, until it ends or you release it." }
                        (acts(&[act(ActionVerb::Hold)], "An override", view))
                    }
                }
                @if group.archived.letters > 0 {
                    li {
                        p {
                            strong { "Replay" } " the " (letters(group.archived.letters, group.counted.more_than_read()))
                            " that were archived, "
                            @if target.all_refused { "after an edit: the page of a letter has its commands" } @else { "when it works again" }
                            @if target.need_you > 0 { "; " (thousands(target.need_you)) " of those that were read need you" }
                            "."
                        }
                        // Older ones, which were not read, may have failed otherwise.
                        @if !target.all_refused || group.counted.more_than_read() {
                            (acts(&[PageAction { doing: ActionVerb::Replay, on: on(Some(group.span.from), until) }], "A replay", view))
                        }
                    }
                }
            }
            (commands_only(view))
        },
    )
}

/// Says how many letters are held, and where the hold is released: it may hold others too.
fn held_letters(group: &OneGroup, view: &ViewContext<'_>) -> Markup {
    let is = if group.held == 1 { "is" } else { "are" };
    html! {
        "At most " (count(group.held, "letter")) " " (is) " held. The page " (view.to("Now", PageKind::Now))
        " says by whom and why, and releases it."
    }
}

fn common(group: &OneGroup, view: &ViewContext<'_>) -> Markup {
    section(
        "fields",
        "What they have in common",
        &html! {
            p class="note" {
                "Counted among the newest " (count(group.counted.matching, "archived letter")) " of this group, which were "
                "read, and "
                @if group.more_waiting { (count(group.waiting, "waiting letter")) " that were listed." }
                @else { "at most " (count(group.waiting, "waiting letter")) "." }
            }
            @let (single, several): (Vec<_>, Vec<_>) = group.fields.iter().partition(|(_, values)| values.len() == 1);
            @if !single.is_empty() {
                (table(
                    "Table of what they share",
                    &html! { "The same for all" },
                    &html! { (column("field")) (column("value")) (counts(group)) },
                    &html! { @for (field, values) in &single { @for common in values {
                        tr { th scope="row" { (field.name()) } td class="value" { (common_name(*field, common, group, view)) } (numbers(common)) }
                    } } },
                ))
            }
            div class="columns" {
                @for (field, values) in &several {
                    table {
                        caption { "By " (field.name()) }
                        thead { tr { th scope="col" { (field.name()) } (counts(group)) } }
                        tbody { @for common in values {
                            tr { th scope="row" class="value" { (common_name(*field, common, group, view)) } (numbers(common)) }
                        } }
                    }
                }
            }
        },
    )
}

/// Returns the heads of the columns with the numbers of a value's letters.
fn counts(group: &OneGroup) -> Markup {
    html! {
        th scope="col" class="number" { "archived" }
        th scope="col" class="number" { @if group.more_waiting { "waiting, listed" } @else { "waiting, at most" } }
    }
}

fn numbers(common: &CommonValue) -> Markup {
    html! { td class="number" { (thousands(common.archived)) } td class="number" { (thousands(common.waiting)) } }
}

/// Names a value, and leads to the letters of the group that have it.
fn common_name(field: GroupField, common: &CommonValue, group: &OneGroup, view: &ViewContext<'_>) -> Markup {
    let of = |text: &str| PageKind::Group { of: group.of.with(field, text) };
    match (filter_text(&common.value), &common.value) {
        (Some(_), GroupValue::Known(text)) => view.named(text, of(text)),
        (Some(text), _) => view.to(&value(&common.value), of(text)),
        (None, _) => html! { (value(&common.value)) },
    }
}

/// Shows the actions for the group.
fn actions(group: &OneGroup, view: &ViewContext<'_>) -> Markup {
    let letters = |since, until| ActionObject::Letters { of: group.of.clone(), since, until };
    let overrides = [ActionVerb::Hold, ActionVerb::Retry, ActionVerb::GiveUp];
    let overrides = overrides.map(|doing| PageAction { doing, on: letters(None, None) });
    let replay =
        PageAction { doing: ActionVerb::Replay, on: letters(Some(group.span.from), view.replay_end()) };
    section(
        "actions",
        "What you can do",
        &html! {
            @if group.held > 0 { p { (held_letters(group, view)) } }
            p { "For letters that wait:" }
            (acts(&overrides, "An override", view))
            p { "For letters that were archived in this time:" }
            (acts(&[replay], "A replay", view))
            (commands_only(view))
        },
    )
}

/// Shows the schedule of the group's rule, and the position of its letters.
fn schedule(group: &OneGroup, policy: Option<&KnownPolicy>) -> Markup {
    let content = match policy {
        None => html! { p { "The account does not name the function, so its policy is not known." } },
        Some(Err(why)) => html! { p { "The function's policy is not known: " (harmless(why)) "." } },
        Some(Ok(policy)) => {
            let rule = policy.all_rules().find(|rule| Some(&rule.name) == group.rule.as_ref());
            match (rule, &group.rule) {
                (Some(rule), _) => match rule.action {
                    RuleAction::Redrive => chart(rule, group.next),
                    RuleAction::Archive => {
                        html! { p { "Rule " (harmless(&rule.name)) ": archived at once, no retry." } }
                    }
                    RuleAction::Hold => html! {
                        p { "Rule " (harmless(&rule.name)) ": hidden until shortly before the queue would drop it, no retry." }
                    },
                },
                (None, Some(name)) => {
                    html! { p { "The function's policy has no rule " (harmless(name)) " any more." } }
                }
                (None, None) => html! { p { "No letter of this group was read, so its rule is not known." } },
            }
        }
    };
    section("schedule", "Its schedule", &html! { (content) })
}

fn chart(rule: &Rule, next: Option<(u32, u32)>) -> Markup {
    let timetable = Timetable::of(rule, QUEUE_RETENTION_SECONDS);
    let now = next.map(|(first, last)| PendingRetries { first, last });
    let says = format!(
        "Rule {}: {} over {}.{}",
        harmless(&rule.name),
        count(timetable.schedule.retries.into(), "retry"),
        clock(timetable.length()),
        next.map_or(String::new(), |(first, last)| if first == last {
            format!(" The letters that wait are at retry {first}.")
        } else {
            format!(" The letters that wait are at retries {first} to {last}.")
        })
    );
    // `draw` escapes the rule's name, the only text in the chart that comes from outside. So the markup is
    // safe.
    let svg = draw(&[(rule, timetable)], now);
    html! {
        p { (says) }
        div class="chart" role="img" aria-label=(says) { (PreEscaped(svg)) }
        p class="note" {
            "It assumes that the queue keeps letters for 14 days, as that of the template does."
            @if matches!(rule.delivery, DeliverySpec::FromSubscription) {
                " The rule takes the retries of each subscription's own delivery policy: this is the schedule while "
                "that is not known."
            }
        }
    }
}

fn archived(examples: &[(ArchivedLetter, Option<ShownContent>)], view: &ViewContext<'_>) -> Markup {
    if examples.is_empty() {
        return html! {};
    }
    section(
        "examples",
        "Archived letters",
        &html! {
            (table(
                "The newest archived letters",
                &html! { "The newest that were read" },
                &html! {
                    (column("letter"))
                    (column("archived"))
                    (column("lived"))
                    (column("retries made"))
                    (column("reason"))
                    (column("error"))
                },
                &html! {
                    @for (letter, _) in examples { (archived_row(letter, view)) }
                },
            ))
            @for (letter, said) in examples {
                @if let Some(said) = said {
                    details {
                        summary { "What " span title=(harmless(&letter.id)) { (ends(&letter.id)) } " says" }
                        (super::content::said(said))
                    }
                }
            }
        },
    )
}

fn archived_row(letter: &ArchivedLetter, view: &ViewContext<'_>) -> Markup {
    let lived = letter.arrived.map(|at| letter.archived.duration_since(at).unsigned_abs().as_secs());
    // SQS's message id is unique. A stranger can repeat the letter's own id.
    let one = OneLetter { id: letter.message_id.clone(), key: Some(letter.key.clone()), log_query: None };
    let text = |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), harmless);
    html! {
        tr {
            th scope="row" class="value" { (view.letter(&letter.id, one)) }
            td { (when(letter.archived, view.now)) }
            td { (lived.map_or_else(|| "-".to_owned(), span)) }
            td { @if let Some((number, of)) = letter.retry { (number) " of " (of) } @else { "none" } }
            td { (text(&letter.fields.reason)) }
            td class="value" { (text(&letter.fields.error)) }
        }
    }
}

/// Shows the next waiting letters, in the order in which they are due.
pub(super) fn waiting(letters: &[WaitingOne], view: &ViewContext<'_>) -> Markup {
    if letters.is_empty() {
        return html! {};
    }
    section(
        "next",
        "Letters that wait",
        &html! {
            (table(
                "The next letters that wait",
                &html! { "The next of them" },
                &html! {
                    (column("letter"))
                    (column("due"))
                    (column("retry"))
                    (column("came"))
                    (column("after the error"))
                },
                &html! {
                    @for letter in letters {
                        @let error = letter.fields.error.clone().map_or(GroupValue::None, GroupValue::Known);
                        tr {
                            th scope="row" class="value" {
                                (view.letter(&letter.id, OneLetter { id: letter.id.clone(), ..OneLetter::default() }))
                            }
                            td { (when(letter.due, view.now)) }
                            td class="value" {
                                @if let Some(by) = &letter.held_by { "held by " (harmless(by)) }
                                @else { (letter.retry.0) " of " (letter.retry.1) }
                            }
                            td { (when(letter.since, view.now)) }
                            td class="value" { (value(&error)) }
                        }
                    }
                },
            ))
        },
    )
}
