//! The frame of every page.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::link::link;
use super::style::STYLE;
use crate::account::ConsoleAccount;
use crate::page_host::{PageHost, Theme};
use crate::query::{Filter, GroupField, PageKind, Query};
use crate::text::harmless;

/// The frame of a page.
#[derive(Debug, Clone, Copy)]
pub struct PageFrame<'a> {
    /// The page's title.
    pub title: &'a str,
    /// True if the content has a heading of its own.
    pub has_heading: bool,
    /// The query of the page; `None` for one of the door's own pages, such as a form.
    pub query: Option<&'a Query>,
    /// The account of the page.
    pub account: &'a ConsoleAccount,
    /// The door that shows the page.
    pub door: &'a PageHost,
    /// The text below the page, if there is one.
    pub footer: Option<&'a str>,
}

impl PageFrame<'_> {
    /// Puts a page into the frame. The result is a whole document for the local door and a fragment for the
    /// widget.
    #[must_use]
    pub fn put(&self, content: &Markup) -> String {
        let stack = self.account.stack.as_deref().map(harmless);
        let title = harmless(self.title);
        let inner = html! {
            @if matches!(self.door, PageHost::Local(_)) { a class="skip" href="#content" { "To the content" } }
            header {
                p class="stack" { "sns-redrive" @if let Some(stack) = &stack { " " strong { (stack) } } }
                (self.navigation())
                @if matches!(self.door, PageHost::Local(_)) { (self.search()) }
            }
            main id="content" {
                @if !self.has_heading { h1 { (title) } }
                (content)
            }
            @if let Some(footer) = self.footer {
                footer { p {
                    (harmless(footer)) " "
                    @if let (Some(query), PageHost::Local(_)) = (self.query, self.door) { (refreshing(query, self.door)) }
                } }
            }
        };
        let page = match self.door {
            PageHost::Local(_) => html! {
                (DOCTYPE)
                html lang="en" {
                    head {
                        meta charset="utf-8";
                        meta name="viewport" content="width=device-width, initial-scale=1";
                        title { (title) " - sns-redrive" @if let Some(stack) = &stack { " " (stack) } }
                        style { (PreEscaped(STYLE)) }
                    }
                    body class="redrive local" { (inner) }
                }
            },
            PageHost::Widget(widget) => {
                let class = match widget.theme {
                    Theme::Light => "redrive widget light",
                    Theme::Dark => "redrive widget dark",
                };
                html! {
                    style { (PreEscaped(STYLE)) }
                    div class=(class) { (inner) }
                }
            }
        };
        page.into_string()
    }

    /// Returns the form that searches.
    fn search(&self) -> Markup {
        let range = self.query.and_then(|query| query.range.name());
        let text = match self.query.map(|query| &query.page) {
            Some(PageKind::Find { text }) => harmless(text),
            _ => String::new(),
        };
        html! {
            form role="search" method="get" action="find" {
                label class="hidden" for="search" { "Search" }
                input id="search" type="search" name="text" value=(text) maxlength="300" autocomplete="off"
                    placeholder="Id of a letter, topic, queue, target";
                @if let Some(range) = range { input type="hidden" name="range" value=(range); }
                button type="submit" { "Search" }
            }
        }
    }

    fn navigation(&self) -> Markup {
        let to = |page: PageKind| {
            self.query.map_or_else(|| Query::of(page.clone()), |query| query.to(page.clone()))
        };
        let pages = [
            ("Now", PageKind::Now),
            ("Letters", PageKind::Groups { by: GroupField::Target, of: Filter::default() }),
            ("Waiting", PageKind::Waiting { by: GroupField::Target, of: Filter::default() }),
        ];
        html! {
            nav aria-label="Pages" {
                ul {
                    @for (name, page) in pages {
                        @let is_here = self.query.is_some_and(|query| is_of(&query.page, &page));
                        li class=[is_here.then_some("chosen")] aria-current=[is_here.then_some("page")] {
                            (link(name, &to(page), self.door))
                        }
                    }
                    @if matches!(self.door, PageHost::Local(local) if local.operates) {
                        li { a href="jobs" { "Actions" } }
                    }
                }
            }
        }
    }
}

/// Reports whether a page belongs to an entry of the navigation.
fn is_of(page: &PageKind, entry: &PageKind) -> bool {
    let is_group =
        matches!((page, entry), (PageKind::Group { .. } | PageKind::Letter(_), PageKind::Groups { .. }));
    is_group || std::mem::discriminant(page) == std::mem::discriminant(entry)
}

/// Links to the same page, read again, once or every half minute.
fn refreshing(query: &Query, door: &PageHost) -> Markup {
    let other = Query { refreshes: !query.refreshes, ..query.clone() };
    html! {
        (link("Read it again", query, door))
        @if matches!(query.page, PageKind::Letter(_) | PageKind::Words) {}
        @else if query.refreshes { " · It is read again every 30 s. " (link("Leave it as it is", &other, door)) }
        @else { " · " (link("Read it again every 30 s", &other, door)) }
        @if !matches!(query.page, PageKind::Words) { " · " (link("What the words mean", &query.to(PageKind::Words), door)) }
    }
}
