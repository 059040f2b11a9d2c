//! One group of letters.

use maud::{Markup, PreEscaped, html};
use redrive_core::policy::{DeliverySpec, Policy, Rule, RuleAction};

use super::action_links::{actions as acts, commands_only};
use super::elements::{
    ViewContext, at_most, column, distance, filter_text, letters, moment, not_replayed, section, seen, spark,
    table, value,
};
use super::groups::{filter, how_counted, until_due};
use super::log_query;
use crate::operator_action::{ActionObject, ActionVerb, PageAction};
use crate::query::{OneLetter, PageKind, PageRange};
use crate::read::part_of;
use crate::read::{ArchivedLetter, CommonValue, GroupValue, OneGroup, ShownContent, WaitingOne};
use crate::schedule::{PendingRetries, Timetable, draw};
use crate::text::{brief, clock, count, harmless, thousands};

/// The function's policy, or the reason why it is unknown.
pub type KnownPolicy = Result<Policy, String>;

/// Renders one group.
#[must_use]
pub fn group(group: &OneGroup, policy: Option<&KnownPolicy>, view: &ViewContext<'_>) -> Markup {
    let (first, last) = seen(&group.archived);
    html! {
        (view.ranges())
        (filter(&group.of, view, |of| PageKind::Group { of }))
        (section("counts", "Letters", &html! {
            dl class="facts" {
                @let more = if group.counted.is_sample { group.counted.more_than_read() } else { group.counted.more };
                div { dt { "archived" } dd { (letters(group.archived.letters, more)) } }
                div { dt { "not replayed yet" } dd { (not_replayed(group.left, if more { u64::MAX } else { group.archived.letters })) } }
                div { dt { "waiting" } dd { (at_most(group.waiting, group.more_waiting)) } }
                @if let Some(since) = group.since {
                    div { dt { "waiting since (UTC)" } dd { (moment(since)) } }
                }
                div { dt { "first archived (UTC)" } dd { (first) } }
                div { dt { "last archived (UTC)" } dd { (last) } }
                div { dt { "over time" } dd { (spark(&group.archived.parts, part_of(&group.span), 0)) } }
            }
            @if group.waiting > 0 { (until_due(view)) }
            (how_counted(&group.counted))
        }))
        (actions(group, view))
        (section("fields", "What they have in common", &html! {
            p class="note" {
                "Counted among the newest " (count(group.counted.matching, "archived letter")) " of this group, which were "
                "read, and "
                @if group.more_waiting { (count(group.waiting, "waiting letter")) " that were listed." }
                @else { "at most " (count(group.waiting, "waiting letter")) "." }
            }
            div class="columns" {
                @for (field, values) in &group.fields {
                    table {
                        caption { "By " (field.name()) }
                        thead { tr {
                            th scope="col" { (field.name()) }
                            th scope="col" class="number" { "archived" }
                            th scope="col" class="number" {
                                @if group.more_waiting { "waiting, listed" } @else { "waiting, at most" }
                            }
                        } }
                        tbody { @for CommonValue { value: it, archived, waiting } in values {
                            tr {
                                th scope="row" class="value" {
                                    @if let Some(text) = filter_text(it) {
                                        (view.to(&value(it), PageKind::Group { of: group.of.with(*field, text) }))
                                    } @else { (value(it)) }
                                }
                                td class="number" { (thousands(*archived)) }
                                td class="number" { (thousands(*waiting)) }
                            }
                        } }
                    }
                }
            }
        }))
        (schedule(group, policy))
        (archived(&group.examples, view))
        (waiting(&group.next_waiting, view))
        @let left_out = log_query::left_out(&group.of, view.account.requeue.as_ref());
        (log_query::show(&log_query::of_group(&group.of), "latest 1,000", left_out, view))
    }
}

/// Shows the actions for the group.
fn actions(group: &OneGroup, view: &ViewContext<'_>) -> Markup {
    let letters = |since, until| ActionObject::Letters { of: group.of.clone(), since, until };
    let overrides = [ActionVerb::Hold, ActionVerb::Retry, ActionVerb::GiveUp];
    let overrides = overrides.map(|doing| PageAction { doing, on: letters(None, None) });
    // A range that ends now has no `until`: letters that are archived while somebody reads the page belong to
    // it.
    let until = match view.query.range {
        PageRange::Between(_, to) if to < view.now => Some(to),
        _ => None,
    };
    let replay = PageAction { doing: ActionVerb::Replay, on: letters(Some(group.span.from), until) };
    section(
        "actions",
        "What you can do",
        &html! {
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

/// The retention of the queues in `template.yaml`, seconds.
const QUEUE_RETENTION_SECONDS: u64 = 1_209_600;

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
                    (column("archived (UTC)"))
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
                        summary { "What " (harmless(&letter.id)) " says" }
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
    let page = PageKind::Letter(OneLetter {
        id: letter.message_id.clone(),
        key: Some(letter.key.clone()),
        log_query: None,
    });
    let text = |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), harmless);
    html! {
        tr {
            th scope="row" class="value" { (view.to(&letter.id, page)) }
            td { (moment(letter.archived)) }
            td { (lived.map_or_else(|| "-".to_owned(), brief)) }
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
                    (column("due (UTC)"))
                    (column("due"))
                    (column("retry"))
                    (column("age"))
                    (column("after the error"))
                },
                &html! {
                    @for letter in letters {
                        @let error = letter.fields.error.clone().map_or(GroupValue::None, GroupValue::Known);
                        tr {
                            th scope="row" class="value" {
                                (view.to(&letter.id, PageKind::Letter(OneLetter { id: letter.id.clone(), ..OneLetter::default() })))
                            }
                            td { (moment(letter.due)) }
                            td { (distance(letter.due, view.now)) }
                            td class="value" {
                                @if let Some(by) = &letter.held_by { "held by " (harmless(by)) }
                                @else { (letter.retry.0) " of " (letter.retry.1) }
                            }
                            td { (brief(view.now.duration_since(letter.since).unsigned_abs().as_secs())) }
                            td class="value" { (value(&error)) }
                        }
                    }
                },
            ))
        },
    )
}
