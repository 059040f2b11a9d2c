//! The waiting letters.

use maud::{Markup, html};

use super::action_links::{actions, commands_only};
use super::elements::{
    ViewContext, at_most, column, filter_text, moment, number, section, table, value, when,
};
use super::group::waiting as letters_one_by_one;
use super::groups::{filter, missing, until_due};
use crate::operator_action::{ActionObject, ActionVerb, PageAction};
use crate::query::{GroupField, PageKind};
use crate::read::{GroupValue, PARTS, WaitingSummary, part_of};
use crate::text::{brief, count, harmless, thousands};

/// The fields to group waiting letters by. The reason is missing: they have none yet.
const FIELDS: [GroupField; 6] = [
    GroupField::Target,
    GroupField::Error,
    GroupField::Topic,
    GroupField::Subscription,
    GroupField::Rule,
    GroupField::Queue,
];

/// Renders the waiting letters.
#[must_use]
pub fn waiting(waiting: &WaitingSummary, view: &ViewContext<'_>) -> Markup {
    let WaitingSummary { by, of, letters: all, claimed, more, rows, further, held, next, .. } = waiting;
    let page = |by| PageKind::Waiting { by, of: of.clone() };
    let on = || ActionObject::Letters { of: of.clone(), since: None, until: None };
    let acts =
        [ActionVerb::Retry, ActionVerb::Hold, ActionVerb::GiveUp].map(|doing| PageAction { doing, on: on() });
    html! {
        (view.fields(*by, &FIELDS, page))
        (filter(of, view, |of| PageKind::Waiting { by: *by, of }))
        p class="facts" {
            @if *more { (at_most(*all, true)) ": that of letters" } @else {
                strong { (at_most(*all, false)) } @if *all == 1 { " letter waits" } @else { " letters wait" }
                ", by the list of those"
            }
            " hidden for more than two minutes. No message is received for this page."
        }
        @if *claimed > 0 {
            p class="facts" {
                "Not counted: " strong { (count(*claimed, "letter")) } " whose endpoint is back. The function has claimed them: most are delivered by now, some may wait."
            }
        }
        @if !held.is_empty() {
            p class="facts" {
                @if *more { "Held, of those listed: " } @else { "Held, at most: " }
                @for (place, (by, letters)) in held.iter().enumerate() {
                    @if place > 0 { ", " }
                    strong { (thousands(*letters)) } " by " (harmless(by))
                }
                "."
            }
        }
        @if view.account.control.is_none() { (missing(view)) }
        @if *all > 0 {
            (until_due(view))
            (histogram(waiting))
            (table(
                "Groups",
                &html! { "Letters that wait, by " (by.name()) },
                &html! { (column(by.name())) (number(if *more { "letters listed" } else { "letters, at most" })) (column("first due")) (column("last due")) },
                &html! {
                    @for row in rows { tr {
                        th scope="row" class="value" {
                            @match (&row.value, filter_text(&row.value)) {
                                (GroupValue::Known(text), _) => (view.named(text, PageKind::Group { of: of.with(*by, text.as_str()) })),
                                (other, Some(text)) => (view.to(&value(other), PageKind::Group { of: of.with(*by, text) })),
                                (other, None) => (value(other)),
                            }
                        }
                        td class="number" { (thousands(row.letters)) }
                        td { (when(row.due.0, view.now)) }
                        td { (when(row.due.1, view.now)) }
                    } }
                },
            ))
            @if *further > 0 { p class="note" { "And " (count(*further, "smaller group")) "." } }
            (section("actions", "What you can do", &html! {
                (actions(&acts, "An override", view))
                (commands_only(view))
            }))
            (letters_one_by_one(next, view))
        }
    }
}

/// Shows when the letters are due, as a histogram.
fn histogram(waiting: &WaitingSummary) -> Markup {
    let most = waiting.due.iter().copied().max().unwrap_or_default().max(1);
    let part = part_of(&waiting.span);
    let length = brief(part.unsigned_abs().as_secs());
    let at = |place: usize| {
        let after = part * i32::try_from(place).unwrap_or_default();
        waiting.span.from.saturating_add(after).unwrap_or(waiting.span.to)
    };
    let label = format!("Letters due in each {length}, at most {}", thousands(most));
    section(
        "due",
        "When they are due",
        &html! {
            svg class="bars" role="img" aria-label=(label) viewBox=(format!("0 0 {} 60", PARTS * 20)) preserveAspectRatio="none" {
                line x1="0" y1="59.5" x2=(PARTS * 20) y2="59.5" stroke="currentColor" stroke-opacity="0.5" {}
                @for (place, count) in waiting.due.iter().enumerate().filter(|(_, count)| **count > 0) {
                    @let height = (count * 55).div_ceil(most).max(1);
                    rect x=(place * 20 + 1) y=(59 - height) width="18" height=(height) fill="currentColor" {}
                }
            }
            details {
                summary { "As a table" }
                table {
                    caption { (label) }
                    thead { tr { th scope="col" { "from (UTC)" } th scope="col" class="number" { "letters" } } }
                    tbody { @for (place, count) in waiting.due.iter().enumerate().filter(|(_, count)| **count > 0) {
                        tr { th scope="row" { (moment(at(place))) } td class="number" { (thousands(*count)) } }
                    } }
                }
            }
        },
    )
}
