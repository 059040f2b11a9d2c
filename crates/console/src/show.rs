//! Reads a page's data and renders it.

use std::time::Duration;

use maud::{Markup, html};
use sns_redrive::policy::Policy;
use tokio::time::{Instant, timeout_at};

use crate::account::{Account, Clients};
use crate::budget::Budget;
use crate::door::Door;
use crate::query::{Page, Query};
use crate::read::{self, Groups, Listed, OneGroup, Span, Times, Waiting};
use crate::text::{harmless, thousands};
use crate::view::{self, Frame, View};

/// A rendered page.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The HTML: a whole document for the local door, a fragment for the widget.
    pub html: String,
    /// The number of requests that it took.
    pub requests: u32,
    /// The number of requests that it may take.
    pub limit: u32,
    /// The parts that could not be read, in words.
    pub unread: Vec<String>,
    /// The time that it took.
    pub took: Duration,
}

/// The content of a page, and the parts that could not be read.
struct Content {
    html: Markup,
    unread: Vec<String>,
}

/// Reads and renders a page. It takes at most two seconds and never fails: the page names the parts that
/// could not be read.
pub async fn show(query: &Query, account: &Account, door: &Door) -> Shown {
    let began = Instant::now();
    let budget = Budget::new(limit(&query.page));
    let clients = account.clients.within(&budget);
    let view = View { query, account, door, now: account.clock.now() };
    let Content { html: content, unread } = Box::pin(read(&view, &clients, Times::from(began))).await;
    let took = began.elapsed();
    let footer = format!(
        "Read with {} of at most {} requests to AWS in {}.{} s. Times are UTC.",
        thousands(budget.made().into()),
        thousands(budget.limit().into()),
        took.as_secs(),
        took.subsec_millis() / 100
    );
    let frame = Frame { title: title(&query.page), query: Some(query), account, door, footer: Some(&footer) };
    let html = frame.put(&html! {
        @if !unread.is_empty() {
            div class="unread" role="status" {
                p { "Not everything could be read. Missing:" }
                ul { @for what in &unread { li { (harmless(what)) } } }
            }
        }
        (content)
    });
    Shown { html, requests: budget.made(), limit: budget.limit(), unread, took }
}

/// Returns the number of requests that a page may take.
fn limit(page: &Page) -> u32 {
    match page {
        Page::Groups { .. } => read::COLLECT_REQUESTS,
        Page::Group { .. } => read::COLLECT_REQUESTS + 1,
        Page::Now => read::NOW_REQUESTS,
        Page::Waiting { .. } => read::LIST_REQUESTS,
        // It reads the record, the log, and the ledgers of replays.
        Page::Letter(_) => read::COLLECT_REQUESTS + 1 + read::LOOKS + 24,
    }
}

fn title(page: &Page) -> &'static str {
    match page {
        Page::Now => "Now",
        Page::Groups { .. } => "Groups",
        Page::Group { .. } => "Group",
        Page::Waiting { .. } => "Waiting",
        Page::Letter(_) => "Letter",
    }
}

async fn read(view: &View<'_>, clients: &Clients, times: Times) -> Content {
    let View { query, account, now, .. } = *view;
    let (from, to) = query.range.at(now);
    let span = Span { from, to };
    match &query.page {
        Page::Groups { by, of } => {
            let collected = read::collect(account, clients, of, &span, times).await;
            let groups = Groups::of(&collected, *by, of, span);
            Content { html: view::groups(&groups, view), unread: collected.unread }
        }
        Page::Group { of } => {
            let collecting = read::collect(account, clients, of, &span, times);
            let (collected, policy) = tokio::join!(collecting, policy(account, clients, times.end));
            let group = OneGroup::of(&collected, of, span);
            Content { html: view::group(&group, policy.as_ref(), view), unread: collected.unread }
        }
        Page::Now => {
            let (now, unread) = Box::pin(read::now(account, clients, &span, times)).await;
            Content { html: view::now(&now, view), unread }
        }
        Page::Waiting { by, of } => {
            let Listed { letters, more, unread } = read::read_waiting(account, clients, now, times.end).await;
            let waiting = Waiting::of(letters, more, *by, of, now);
            Content { html: view::waiting(&waiting, view), unread }
        }
        Page::Letter(one) => {
            let (letter, unread) = read::letter(account, clients, one, &span, times).await;
            Content { html: view::letter(&letter, one, view), unread }
        }
    }
}

/// Reads the function's policy; `None` if the account does not name the function.
async fn policy(account: &Account, clients: &Clients, until: Instant) -> Option<Result<Policy, String>> {
    let function = account.function.as_ref()?;
    Some(match timeout_at(until, read::policy(clients, function)).await {
        Ok(policy) => policy,
        Err(_) => Err("it was not read in time".to_owned()),
    })
}
