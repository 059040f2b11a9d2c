//! The handler of the widget's Lambda function.

use futures_util::FutureExt;
use maud::html;
use redrive_aws::log;
use tracing::Instrument;

use super::event::WidgetEvent;
use crate::account::ConsoleAccount;
use crate::page_host::{DashboardWidget, PageHost};
use crate::query::{PageKind, Query};
use crate::show;
use crate::text::harmless;
use crate::view::PageFrame;

/// The widget's description in Markdown. A dashboard shows it on request.
const DESCRIPTION: &str = "\
## The console of sns-redrive

Shows what fails, since when, where and why, and what waits. It only reads. To act, type the commands that it shows,
or open the same pages with `redrivectl serve`.

### Widget parameters

Param | Description
---|---
**page** | `now` (the default), `groups`, `group`, or `waiting`
**by** | `groups` and `waiting`: the field by which letters are counted: `topic`, `subscription`, `target`, `error`, `rule`, `queue`, or in `groups` `reason`
**topic**, **subscription**, **target**, **error**, **rule**, **reason**, **queue** | only letters with this value

The time range is the dashboard's.

### Example parameters

``` yaml
page: groups
by: error
```
";

/// The widget's Lambda function, ready to answer.
#[derive(Debug)]
pub struct WidgetFunction {
    account: ConsoleAccount,
}

impl WidgetFunction {
    /// Creates the function for an account.
    #[must_use]
    pub fn new(account: ConsoleAccount) -> Self {
        Self { account }
    }

    /// Answers one event with the HTML for the dashboard. `endpoint` is the function's own ARN, which the
    /// links call.
    pub async fn answer(&self, event: serde_json::Value, request_id: &str, endpoint: &str) -> String {
        self.text(event, endpoint).instrument(log::invocation(request_id)).await
    }

    async fn text(&self, event: serde_json::Value, endpoint: &str) -> String {
        let (query, theme) = match WidgetEvent::read(event) {
            WidgetEvent::Describe => return DESCRIPTION.to_owned(),
            WidgetEvent::Show { query, theme } => (query, theme),
        };
        let door = PageHost::Widget(DashboardWidget { endpoint: endpoint.to_owned(), theme });
        match query {
            Ok(Query { page: PageKind::Find { .. }, .. }) => self.says(
                "This page is not shown here",
                "redrivectl serve searches, the widget does not.",
                &door,
            ),
            Ok(Query { page: PageKind::Letter(letter), .. }) => {
                let words = format!(
                    "The life of letter {} is shown by redrivectl serve, not by the widget.",
                    letter.id
                );
                self.says("This page is not shown here", &words, &door)
            }
            Ok(query) => {
                // Boxed, because the future would otherwise be nested too deep for the compiler.
                let shown = show::show(&query, &self.account, &door).boxed_local().await;
                if !shown.unread.is_empty() {
                    tracing::warn!(
                        requests = shown.requests,
                        took_ms = u64::try_from(shown.took.as_millis()).unwrap_or(u64::MAX),
                        detail = harmless(&shown.unread.join("; ")),
                        "a page was shown with parts missing"
                    );
                }
                shown.html
            }
            Err(bad) => self.says("This page cannot be shown", &format!("{bad}."), &door),
        }
    }

    /// Returns a page with a title and a sentence.
    fn says(&self, title: &str, words: &str, door: &PageHost) -> String {
        let frame =
            PageFrame { title, has_heading: false, query: None, account: &self.account, door, footer: None };
        frame.put(&html! { p { (harmless(words)) } })
    }
}
