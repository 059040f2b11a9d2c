//! Groups of letters.

use std::cmp::Reverse;

use jiff::Timestamp;
use maud::{Markup, html};

use super::elements::{
    ViewContext, at_most, column, filter_text, letters, not_replayed, scale, spark, table, value, when,
};
use crate::query::{Filter, GroupField, PageKind, SortColumn};
use crate::read::{CountMethod, GroupValue, PageGroup, PageGroups, part_of};
use crate::text::{ShortName, count, harmless, thousands};

/// Renders groups of letters.
#[must_use]
pub fn groups(groups: &PageGroups, view: &ViewContext<'_>) -> Markup {
    let PageGroups { by, of, span, counted, left, rows, further, waiting, more_waiting } = groups;
    let page = |by| PageKind::Groups { by, of: of.clone() };
    let all = match counted.is_narrower {
        // Letters that were not read may match the filter too, so the total is unknown.
        true if counted.more_than_read() => u64::MAX,
        true => counted.matching,
        false if counted.more => u64::MAX,
        false => counted.letters,
    };
    html! {
        (view.ranges())
        (view.fields(*by, &GroupField::ALL, page))
        (filter(of, view, |of| PageKind::Groups { by: *by, of }))
        p class="facts" {
            @if counted.is_narrower {
                strong { (letters(counted.matching, counted.more_than_read())) }
            } @else {
                strong { (letters(counted.letters, counted.more)) }
            }
            " archived in this time, " strong { (not_replayed(*left, all)) } " not replayed yet; "
            @if *more_waiting { "waiting: " (at_most(*waiting, true)) "." }
            @else { strong { (at_most(*waiting, false)) } " wait for a retry." }
        }
        (missing(view))
        @if rows.is_empty() {
            p class="none" {
                @let is_cut = counted.is_sample && counted.more_than_read();
                @if is_cut || counted.more || *more_waiting || view.account.archive.is_none() {
                    "No letter was found, but not all could be read."
                } @else {
                    "No letter was archived in this time, and none is on the list of waiting letters."
                }
            }
        } @else {
            @let rows = sorted(rows, view.query.sort);
            (table(
                "Groups",
                &html! {
                    "Letters by " (by.name())
                    @if counted.is_sample { ", of the newest that were read" }
                    ". The charts have one scale"
                },
                &html! {
                    (view.sortable(by.name(), SortColumn::Name, false))
                    (view.sortable("archived", SortColumn::Archived, true))
                    (view.sortable("not replayed yet", SortColumn::NeedYou, true))
                    (column("last archived"))
                    (column("archived over time"))
                    (view.sortable(if *more_waiting { "wait, listed" } else { "wait, at most" }, SortColumn::Waiting, true))
                    (view.sortable("the first came", SortColumn::Since, false))
                },
                &html! {
                    @let full = scale(rows.iter().map(|row| row.archived.parts.as_slice()));
                    @for row in rows {
                        tr {
                            th scope="row" class="value" { (group_name(row, *by, of, view)) }
                            td class="number" { (thousands(row.archived.letters)) }
                            td class="number" { (not_replayed(row.left, row.archived.letters)) }
                            td { @if let Some((_, last)) = row.archived.seen { (when(last, view.now)) } @else { "-" } }
                            td { (spark(&row.archived.parts, part_of(span), full)) }
                            td class="number" {
                                @if by.is_archived_only() { "-" } @else { (thousands(row.waiting)) }
                            }
                            td { @if let Some(since) = first_of(row) { (when(since, view.now)) } @else { "-" } }
                        }
                    }
                },
            ))
        }
        @if *further > 0 { p class="note" { "And " (count(*further, "smaller group")) "." } }
        details class="note" {
            summary { "How these numbers are made" }
            @if *waiting > 0 { (until_due(view)) }
            (how_counted(counted))
            p { "Archived letters are those of the time above; letters wait now. A letter was replayed if a replay has sent it." }
        }
    }
}

fn group_name(row: &PageGroup, by: GroupField, of: &Filter, view: &ViewContext<'_>) -> Markup {
    match (&row.value, filter_text(&row.value)) {
        (GroupValue::Known(text), _) => view.named(text, PageKind::Group { of: of.with(by, text.as_str()) }),
        (other, Some(text)) => view.to(&value(other), PageKind::Group { of: of.with(by, text) }),
        (other, None) => html! { (value(other)) },
    }
}

/// Returns when the first letter of a group came, as far as it is known.
fn first_of(row: &PageGroup) -> Option<Timestamp> {
    let archived = row.archived.seen.map(|(first, _)| first);
    row.since.into_iter().chain(archived).min()
}

/// Returns the groups in the order of a column; without one, the largest first.
fn sorted(rows: &[PageGroup], by: Option<SortColumn>) -> Vec<&PageGroup> {
    let mut rows: Vec<_> = rows.iter().collect();
    match by {
        None => {}
        Some(SortColumn::Name) => {
            rows.sort_by_key(|row| ShortName::of(&value(&row.value)).name.to_lowercase());
        }
        Some(SortColumn::NeedYou) => rows.sort_by_key(|row| Reverse(row.left.left)),
        Some(SortColumn::Archived) => rows.sort_by_key(|row| Reverse(row.archived.letters)),
        Some(SortColumn::Waiting) => rows.sort_by_key(|row| Reverse(row.waiting)),
        // Those without a time come last.
        Some(SortColumn::Since) => rows.sort_by_key(|row| (first_of(row).is_none(), first_of(row))),
    }
    rows
}

/// Says which parts the account lacks.
pub(super) fn missing(view: &ViewContext<'_>) -> Markup {
    html! {
        @if view.account.archive.is_none() {
            p class="note" { "The archive is a queue. Pages read only an archive in S3, so archived letters are not counted." }
        }
        @if view.account.control.is_none() {
            p class="note" { "The function has no control prefix, so it lists no waiting letters." }
        }
    }
}

/// Says how reliable the list of waiting letters is.
pub(super) fn until_due(view: &ViewContext<'_>) -> Markup {
    html! {
        @if view.account.control.is_some() {
            p class="note" {
                "A letter stays on the list of waiting letters until it would have been due, even if it was retried or "
                "archived earlier."
            }
        }
    }
}

/// Says how the archived letters were counted.
pub(super) fn how_counted(counted: &CountMethod) -> Markup {
    let CountMethod { letters: all, more, read, is_sample, is_narrower, untold, blind, .. } = *counted;
    html! {
        @if is_sample {
            p class="note" {
                "The archive's keys do not have all of this. So the page read the newest " (count(read, "letter"))
                " of " (letters(all, more)) ", and counts only these."
                @if is_narrower && read < all {
                    " Letters that were not read may belong here too."
                }
            }
        }
        @if more {
            p class="note" { "There are more archived letters in this time than the page could count." }
        }
        @if !is_sample && untold > 0 {
            p class="note" {
                (count(untold, "letter")) " are in objects with too many topics for their keys, which name only the queue. Pages of "
                "one topic or one reason do not count them."
            }
        }
        @if blind > 0 {
            p class="note" {
                "The keys of " (count(blind, "object")) " do not say how many letters they hold. These letters are not counted."
            }
        }
    }
}

/// Shows the filter of a page. Each field links to the page without it.
pub(super) fn filter(of: &Filter, view: &ViewContext<'_>, page: impl Fn(Filter) -> PageKind) -> Markup {
    if of.is_empty() {
        return html! {};
    }
    html! {
        dl class="filter" {
            @for (field, text) in of.iter() {
                div {
                    dt { (field.name()) }
                    dd {
                        @if text.is_empty() { "(none)" } @else { (harmless(text)) }
                        " "
                        (view.to(&format!("any {}", field.name()), page(of.without(field))))
                    }
                }
            }
        }
    }
}
