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
            }
            main id="content" {
                h1 { (title) }
                (content)
            }
            @if let Some(footer) = self.footer { footer { p { (harmless(footer)) } } }
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

    fn navigation(&self) -> Markup {
        let to = |page: PageKind| {
            self.query.map_or_else(|| Query::of(page.clone()), |query| query.to(page.clone()))
        };
        let pages = [
            ("Now", PageKind::Now),
            ("Groups", PageKind::Groups { by: GroupField::Topic, of: Filter::default() }),
            ("Waiting", PageKind::Waiting { by: GroupField::Target, of: Filter::default() }),
        ];
        html! {
            nav aria-label="Pages" {
                ul {
                    @for (name, page) in pages {
                        @let is_here = self.query.is_some_and(|query| is_same(&query.page, &page));
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

/// Reports whether two pages have the same entry in the navigation.
fn is_same(one: &PageKind, other: &PageKind) -> bool {
    std::mem::discriminant(one) == std::mem::discriminant(other)
}
