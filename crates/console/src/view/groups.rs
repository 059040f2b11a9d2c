//! Groups of letters.

use maud::{Markup, html};

use super::elements::{
    ViewContext, at_most, column, filter_text, letters, moment, not_replayed, number, scale, seen, spark,
    table, value,
};
use crate::query::{Filter, GroupField, PageKind};
use crate::read::{CountMethod, PageGroups, part_of};
use crate::text::{count, harmless, thousands};

/// Renders groups of letters.
#[must_use]
pub fn groups(groups: &PageGroups, view: &ViewContext<'_>) -> Markup {
    let PageGroups { by, of, span, counted, left, rows, further, waiting, more_waiting } = groups;
    let page = |by| PageKind::Groups { by, of: of.clone() };
    // Counts, times and charts of a row are about the same letters.
    let archived = if counted.is_sample {
        ["archived, of the letters read", "first of these (UTC)", "last of these (UTC)", "these over time"]
    } else {
        ["archived", "first archived (UTC)", "last archived (UTC)", "archived over time"]
    };
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
        @if *waiting > 0 { (until_due(view)) }
        (how_counted(counted))
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
            (table(
                "Groups",
                &html! { "Letters by " (by.name()) },
                &html! {
                    (column(by.name()))
                    (number(archived[0]))
                    (number("not replayed yet"))
                    (column(archived[1]))
                    (column(archived[2]))
                    (column(archived[3]))
                    (number(if *more_waiting { "waiting, listed" } else { "waiting, at most" }))
                    (column("since (UTC)"))
                },
                &html! {
                    @let full = scale(rows.iter().map(|row| row.archived.parts.as_slice()));
                    @for row in rows {
                        @let (first, last) = seen(&row.archived);
                        tr {
                            th scope="row" class="value" {
                                @if let Some(text) = filter_text(&row.value) {
                                    (view.to(&value(&row.value), PageKind::Group { of: of.with(*by, text) }))
                                } @else { (value(&row.value)) }
                            }
                            td class="number" { (thousands(row.archived.letters)) }
                            td class="number" { (not_replayed(row.left, row.archived.letters)) }
                            td { (first) }
                            td { (last) }
                            td { (spark(&row.archived.parts, part_of(span), full)) }
                            td class="number" {
                                @if by.is_archived_only() { "-" } @else { (thousands(row.waiting)) }
                            }
                            td { @if let Some(since) = row.since { (moment(since)) } @else { "-" } }
                        }
                    }
                },
            ))
        }
        @if *further > 0 { p class="note" { "And " (count(*further, "smaller group")) "." } }
    }
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
                        (view.to("any", page(of.without(field))))
                    }
                }
            }
        }
    }
}
