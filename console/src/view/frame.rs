//! The frame of every page.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::link::link;
use super::style::STYLE;
use crate::account::Account;
use crate::door::{Door, Theme};
use crate::query::{Field, Filter, Page, Query};
use crate::text::harmless;

/// The frame of a page.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// The page's title.
    pub title: &'a str,
    /// The page; none for a page of the door's own.
    pub query: Option<&'a Query>,
    /// The account that it is about.
    pub account: &'a Account,
    /// The door that it is shown through.
    pub door: &'a Door,
    /// The text below the page.
    pub footer: Option<&'a str>,
}

impl Frame<'_> {
    /// Puts the frame around a page: a whole document for the local door, a fragment for the widget.
    #[must_use]
    pub fn put(&self, content: &Markup) -> String {
        let stack = self.account.stack.as_deref().map(harmless);
        let title = harmless(self.title);
        let inner = html! {
            @if matches!(self.door, Door::Local(_)) { a class="skip" href="#content" { "To the content" } }
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
            Door::Local(_) => html! {
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
            Door::Widget(widget) => {
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
        let to =
            |page: Page| self.query.map_or_else(|| Query::of(page.clone()), |query| query.to(page.clone()));
        let pages = [
            ("Now", Page::Now),
            ("Groups", Page::Groups { by: Field::Topic, of: Filter::default() }),
            ("Waiting", Page::Waiting { by: Field::Target, of: Filter::default() }),
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
                    @if matches!(self.door, Door::Local(local) if local.operates) {
                        li { a href="jobs" { "Actions" } }
                    }
                }
            }
        }
    }
}

/// Reports whether two pages are one in the navigation.
fn is_same(one: &Page, other: &Page) -> bool {
    std::mem::discriminant(one) == std::mem::discriminant(other)
}
