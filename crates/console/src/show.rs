//! Reads a page's data and renders it.

use std::time::Duration;

use maud::{Markup, html};
use tokio::time::Instant;

use crate::account::{ConsoleAccount, ConsoleClients};
use crate::budget::PageBudget;
use crate::page_host::PageHost;
use crate::query::{Filter, PageKind, PageRange, Query};
use crate::read::{
    self, ChartSpan, OneGroup, PageDeadlines, PageGroups, PresentState, PresentVerdict, SearchResult,
    WaitingListPart, WaitingSummary,
};
use crate::text::{harmless, thousands};
use crate::view::{self, PageFrame, ViewContext};

/// A rendered page.
#[derive(Debug, Clone)]
pub struct RenderedPage {
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
struct PageContent {
    html: Markup,
    unread: Vec<String>,
    /// The verdict, for the title: a tab in the background shows no more.
    says: Option<String>,
}

/// Reads and renders a page. It takes at most two seconds and never fails: the page names the parts that
/// could not be read.
pub async fn show(query: &Query, account: &ConsoleAccount, door: &PageHost) -> RenderedPage {
    let began = Instant::now();
    let budget = PageBudget::new(limit(&query.page));
    let clients = account.clients.within(&budget);
    let view = ViewContext { query, account, door, now: account.clock.now() };
    let PageContent { html: content, unread, says } =
        Box::pin(read(&view, &clients, PageDeadlines::from(began))).await;
    let took = began.elapsed();
    let footer = format!(
        "Read with {} of at most {} requests to AWS in {}.{} s. Times are UTC.",
        thousands(budget.made().into()),
        thousands(budget.limit().into()),
        took.as_secs(),
        took.subsec_millis() / 100
    );
    // These begin with a verdict.
    let has_heading = matches!(query.page, PageKind::Now | PageKind::Group { .. } | PageKind::Letter(_));
    let title = says.as_deref().unwrap_or_else(|| title(&query.page));
    let frame = PageFrame { title, has_heading, query: Some(query), account, door, footer: Some(&footer) };
    let html = frame.put(&html! {
        @if !unread.is_empty() {
            div class="unread" role="status" {
                p { "Not everything could be read. Missing:" }
                ul { @for what in &unread { li { (harmless(what)) } } }
            }
        }
        (content)
    });
    RenderedPage { html, requests: budget.made(), limit: budget.limit(), unread, took }
}

/// Reads the present state, as the page *now* shows it, with the parts that could not be read. It takes at most two seconds.
pub async fn read_present(account: &ConsoleAccount, range: PageRange) -> (PresentState, Vec<String>) {
    let budget = PageBudget::new(limit(&PageKind::Now));
    let clients = account.clients.within(&budget);
    let (from, to) = range.at(account.clock.now());
    let times = PageDeadlines::from(Instant::now());
    Box::pin(read::now(account, &clients, &ChartSpan { from, to }, times)).await
}

/// Returns the number of requests that a page may take.
fn limit(page: &PageKind) -> u32 {
    match page {
        PageKind::Groups { .. } | PageKind::Find { .. } => read::COLLECT_REQUESTS,
        PageKind::Group { .. } => read::COLLECT_REQUESTS + 2,
        PageKind::Now => read::NOW_REQUESTS,
        PageKind::Words => 0,
        PageKind::Waiting { .. } => read::LIST_REQUESTS,
        // It reads the record, the log, the ledgers of replays, and the policy.
        PageKind::Letter(_) => read::COLLECT_REQUESTS + 4 + read::MAX_QUERY_POLLS + 24,
    }
}

fn title(page: &PageKind) -> &'static str {
    match page {
        PageKind::Now => "Now",
        PageKind::Groups { .. } => "Letters",
        PageKind::Group { .. } => "Group",
        PageKind::Find { .. } => "Search",
        PageKind::Words => "What the words mean",
        PageKind::Waiting { .. } => "Waiting",
        PageKind::Letter(_) => "Letter",
    }
}

async fn read(view: &ViewContext<'_>, clients: &ConsoleClients, times: PageDeadlines) -> PageContent {
    let ViewContext { query, account, now, .. } = *view;
    let (from, to) = query.range.at(now);
    let span = ChartSpan { from, to };
    match &query.page {
        PageKind::Groups { by, of } => {
            let collected = read::collect(account, clients, of, &span, times).await;
            let groups = PageGroups::of(&collected, *by, of, span);
            PageContent { html: view::groups(&groups, view), unread: collected.unread, says: None }
        }
        PageKind::Group { of } => {
            let collecting = read::collect(account, clients, of, &span, times);
            let (mut collected, policy, endpoints) = tokio::join!(
                collecting,
                read::policy(account, clients, times.end),
                read::read_recoveries(account, clients, times.end)
            );
            let endpoints = endpoints.map(|mut endpoints| {
                endpoints.retain_possible(now);
                endpoints.iter().cloned().collect::<Vec<_>>()
            });
            let endpoints = endpoints.unwrap_or_else(|why| {
                collected.unread.push(why);
                Vec::new()
            });
            let group = OneGroup::of(&collected, of, span, &endpoints);
            let is_whole = collected.unread.is_empty();
            PageContent {
                html: view::group(&group, policy.as_ref(), is_whole, view),
                unread: collected.unread,
                says: None,
            }
        }
        PageKind::Now => {
            let (now, unread) = Box::pin(read::now(account, clients, &span, times)).await;
            let says = PresentVerdict::of(&now, unread.is_empty(), view.now).says;
            PageContent { html: view::now(&now, unread.is_empty(), view), unread, says: Some(says) }
        }
        PageKind::Waiting { by, of } => {
            let WaitingListPart { letters, more, unread } =
                read::read_waiting(account, clients, of, now, times.end).await;
            let waiting = WaitingSummary::of(letters, more, *by, of, now);
            PageContent { html: view::waiting(&waiting, view), unread, says: None }
        }
        PageKind::Letter(one) => {
            let reading = read::letter(account, clients, one, &span, times);
            let ((mut letter, mut unread), policy, endpoints, overrides) = tokio::join!(
                reading,
                read::policy(account, clients, times.end),
                read::read_recoveries(account, clients, times.end),
                read::read_overrides(account, clients, times.end)
            );
            let policy = policy.and_then(Result::ok);
            let mut known = |why: String| unread.push(why);
            let mut endpoints = endpoints.map_err(&mut known).unwrap_or_default();
            let overrides = overrides.map_err(known).unwrap_or_default();
            endpoints.retain_possible(now);
            letter.note(&endpoints, overrides.all(), now);
            PageContent { html: view::letter(&letter, one, policy.as_ref(), view), unread, says: None }
        }
        PageKind::Words => PageContent { html: view::words(), unread: Vec::new(), says: None },
        PageKind::Find { text } => {
            let all = Filter::default();
            let mut collected = Box::pin(read::collect(account, clients, &all, &span, times)).await;
            let unread = std::mem::take(&mut collected.unread);
            PageContent {
                html: view::find(&SearchResult::of(collected, text), text, view),
                unread,
                says: None,
            }
        }
    }
}
