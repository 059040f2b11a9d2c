//! Parts of pages: times, values, charts, links between pages.

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::link::{link, titled_link};
use crate::account::ConsoleAccount;
use crate::page_host::PageHost;
use crate::query::{GroupField, OneLetter, PageKind, PageRange, Query, SortColumn};
use crate::read::{BoundedCount, CountBound, GroupValue, MAX_KEY_GROUPS, UnreplayedCount, VerdictLevel};
use crate::text::{ShortName, brief, distance, ends, harmless, label, thousands, utc};

/// What every part of a page needs to know.
#[derive(Debug, Clone, Copy)]
pub struct ViewContext<'a> {
    /// The query of the page.
    pub query: &'a Query,
    /// The account of the page.
    pub account: &'a ConsoleAccount,
    /// The door that shows the page.
    pub door: &'a PageHost,
    /// The present.
    pub now: Timestamp,
}

/// Shows a time to the second.
pub(super) fn moment(at: Timestamp) -> Markup {
    html! { time datetime=(at.to_string()) { (utc(at)) } }
}

/// Says how long ago a time was, or how far ahead it is. Its title is the time itself.
pub(super) fn when(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(at.to_string()) title={ (utc(at)) " UTC" } { (distance(at, now)) } }
}

/// Shows a number of letters, with a sign if it is not exact. Its title says what the sign means.
pub(super) fn bounded(number: BoundedCount) -> Markup {
    let title = match number.bound {
        CountBound::Exact => None,
        CountBound::AtMost => Some("at most so many: some may be delivered, replayed or archived by now"),
        CountBound::AtLeast => Some("at least so many: the page could not count all"),
        CountBound::About => Some("about so many: the page could read only a part"),
    };
    html! { span title=[title] { (number.bound.sign()) (thousands(number.letters)) } }
}

/// Shows a state as a word in a coloured field.
pub(super) fn pill(level: VerdictLevel, text: &str) -> Markup {
    html! { span class={ "pill " (level_class(level)) } { (text) } }
}

/// Returns the CSS class of a level.
pub(super) fn level_class(level: VerdictLevel) -> &'static str {
    match level {
        VerdictLevel::Bad => "bad",
        VerdictLevel::Watch => "watch",
        VerdictLevel::Fine => "fine",
    }
}

/// Shows the answer of a page: a sentence, and what stands below it.
pub(super) fn verdict(level: VerdictLevel, says: &str, below: &Markup) -> Markup {
    html! {
        div class={ "verdict " (level_class(level)) } role="status" {
            h1 { (harmless(says)) }
            p { (below) }
        }
    }
}

/// Shows one of a page's numbers, with what it counts and a line below.
pub(super) fn tile(level: Option<VerdictLevel>, number: &Markup, label: &str, below: &Markup) -> Markup {
    html! {
        @let class = level.map_or("tile".to_owned(), |level| format!("tile {}", level_class(level)));
        div class=(class) {
            dt { (label) }
            dd class="figure" { (number) }
            dd class="sub" { (below) }
        }
    }
}

/// Puts a value into words.
pub(super) fn value(value: &GroupValue) -> String {
    match value {
        GroupValue::Known(text) => harmless(text),
        GroupValue::None => "(none)".to_owned(),
        GroupValue::Untold => "(not told by the keys)".to_owned(),
        GroupValue::Hash(hash) => format!("(a topic whose name was not read: {})", harmless(hash)),
        GroupValue::Others => {
            format!("(topics beyond the {} that the page tells apart)", thousands(MAX_KEY_GROUPS.into()))
        }
    }
}

/// Returns a value as the text of a filter; `None` if no filter can select it.
pub(super) fn filter_text(value: &GroupValue) -> Option<&str> {
    match value {
        GroupValue::Known(text) => Some(text),
        GroupValue::None => Some(""),
        GroupValue::Hash(_) | GroupValue::Others | GroupValue::Untold => None,
    }
}

/// Returns a section with a heading.
pub(super) fn section(id: &str, title: &str, content: &Markup) -> Markup {
    html! { section aria-labelledby=(id) { h2 id=(id) { (title) } (content) } }
}

/// Returns a table. It scrolls by itself if the page is too narrow.
pub(super) fn table(label: &str, caption: &Markup, head: &Markup, rows: &Markup) -> Markup {
    html! {
        div class="wide" tabindex="0" role="region" aria-label=(label) {
            table { caption { (caption) } thead { tr { (head) } } tbody { (rows) } }
        }
    }
}

/// Returns the head of a column.
pub(super) fn column(name: &str) -> Markup {
    html! { th scope="col" { (name) } }
}

/// Returns the head of a column of numbers.
pub(super) fn number(name: &str) -> Markup {
    html! { th scope="col" class="number" { (name) } }
}

/// Writes a number of letters. Says so if there may be more.
pub(super) fn letters(number: u64, more: bool) -> String {
    if more { format!("{} or more", thousands(number)) } else { thousands(number) }
}

/// Returns a number of letters of the list of waiting letters. A letter that was delivered stays there until it was due, so
/// the whole list is an upper bound, and a part of it is no bound.
pub(super) fn at_most(number: u64, is_part: bool) -> String {
    if is_part {
        format!("{} listed, of a list that was read in part", thousands(number))
    } else {
        format!("at most {}", thousands(number))
    }
}

/// Says how many archived letters no replay has sent yet, out of `all`.
pub(super) fn not_replayed(left: UnreplayedCount, all: u64) -> String {
    match left {
        UnreplayedCount { asked: 0, .. } => "-".to_owned(),
        UnreplayedCount { asked, left } if asked >= all => thousands(left),
        UnreplayedCount { asked, left } => format!("{} of {} read", thousands(left), thousands(asked)),
    }
}

/// Returns the count that fills a bar: the highest one in the table. The bars of a table must share it, or
/// nobody could compare them.
pub(super) fn scale<'p>(counts: impl IntoIterator<Item = &'p [u64]>) -> u64 {
    counts.into_iter().flatten().copied().max().unwrap_or_default()
}

/// Says when the first and the last of waiting letters are due.
pub(super) fn next_and_last((next, last): (Timestamp, Timestamp), now: Timestamp) -> String {
    match (distance(next, now), distance(last, now)) {
        (next, last) if next == last => format!("next {next}"),
        (next, last) => format!("next {next}, last {last}"),
    }
}

/// Says when the first letter is archived, if every retry fails.
pub(super) fn given_up(end: Timestamp, now: Timestamp) -> Markup {
    html! { "; if all fail, the first is archived " (when(end, now)) " at the earliest" }
}

/// Shows counts over time as small bars. A bar is full at `full` letters. Its label repeats in words what the
/// table does not say.
pub(super) fn spark(parts: &[u64], part: SignedDuration, full: u64) -> Markup {
    let most = scale([parts]);
    let label = format!("at most {} in {}", thousands(most), brief(part.unsigned_abs().as_secs()));
    let width = parts.len() * 4;
    html! {
        svg class="spark" role="img" aria-label=(label) viewBox=(format!("0 0 {width} 20")) width=(width) height="20" {
            line x1="0" y1="19.5" x2=(width) y2="19.5" stroke="currentColor" stroke-opacity="0.4" {}
            @for (place, count) in parts.iter().enumerate().filter(|(_, count)| **count > 0) {
                @let height = (count * 17).div_ceil(full.max(most).max(1)).max(1);
                rect x=(place * 4) y=(19 - height) width="3" height=(height) fill="currentColor" {}
            }
        }
    }
}

impl ViewContext<'_> {
    /// Returns the end of the time range for a replay. A range that ends now has none: letters that are archived while
    /// somebody reads the page belong to it.
    pub(super) fn replay_end(&self) -> Option<Timestamp> {
        match self.query.range {
            PageRange::Between(_, to) if to < self.now => Some(to),
            _ => None,
        }
    }

    /// Returns a link to another page over the same time range.
    pub(super) fn to(&self, text: &str, page: PageKind) -> Markup {
        link(text, &self.query.to(page), self.door)
    }

    /// Returns a link by a short name, whose title is the whole name. What it is stands below.
    pub(super) fn named(&self, text: &str, page: PageKind) -> Markup {
        let kind = ShortName::of(text).kind;
        html! {
            (titled_link(&label(text), Some(text), &self.query.to(page), self.door))
            span class="sub" { (kind) }
        }
    }

    /// Returns a link to a letter by the ends of its id, whose title is the whole id.
    pub(super) fn letter(&self, id: &str, one: OneLetter) -> Markup {
        titled_link(&ends(id), Some(id), &self.query.to(PageKind::Letter(one)), self.door)
    }

    /// Returns the head of a column by which the table can be sorted: a link, or plain text where it is sorted so.
    pub(super) fn sortable(&self, name: &str, by: SortColumn, is_number: bool) -> Markup {
        let is_sorted = self.query.sort == Some(by);
        let class = is_number.then_some("number");
        let order = if is_number { "descending" } else { "ascending" };
        html! {
            th scope="col" class=[class] aria-sort=[is_sorted.then_some(order)] {
                @if is_sorted { (name) }
                @else { (titled_link(name, Some(&format!("sort by {name}")), &Query { sort: Some(by), ..self.query.clone() }, self.door)) }
            }
        }
    }

    /// Returns links to the same page over other time ranges.
    pub(super) fn ranges(&self) -> Markup {
        let current = self.query.range;
        if matches!(self.door, PageHost::Widget(_)) {
            let (from, to) = current.at(self.now);
            // Links would do nothing here: the dashboard's range takes precedence over one that a call names.
            return html! {
                p class="note" { "Time, by the dashboard: " (moment(from)) " to " (moment(to)) "." }
            };
        }
        html! {
            nav class="choice" aria-label="Time range" {
                span { "Time: " }
                @if let PageRange::Between(from, to) = current {
                    span class="chosen" { (moment(from)) " to " (moment(to)) }
                } @else if !PageRange::OFFERED.contains(&current) {
                    span class="chosen" { (current.name().unwrap_or_default()) }
                }
                @for range in PageRange::OFFERED {
                    @let name = range.name().unwrap_or_default();
                    @if range == current {
                        span class="chosen" aria-current="true" { (name) }
                    } @else {
                        (link(&name, &Query { range, ..self.query.clone() }, self.door))
                    }
                    " "
                }
            }
        }
    }

    /// Returns links to the same page, grouped by other fields.
    pub(super) fn fields(
        &self,
        by: GroupField,
        of: &[GroupField],
        page: impl Fn(GroupField) -> PageKind,
    ) -> Markup {
        html! {
            nav class="choice" aria-label="Grouped by" {
                span { "By: " }
                @for field in of {
                    @if *field == by {
                        span class="chosen" aria-current="true" { (field.name()) }
                    } @else {
                        (self.to(field.name(), page(*field)))
                    }
                    " "
                }
            }
        }
    }
}
