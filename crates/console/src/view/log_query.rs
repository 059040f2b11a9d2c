//! Queries of `CloudWatch` Logs Insights, to copy.

use maud::{Markup, html};
use redrive_core::arn::Arn;

use super::elements::{ViewContext, section};
use crate::page_host::PageHost;
use crate::query::{Filter, GroupField};
use crate::text::{harmless, literal};

/// Returns the query for the lines about a group of letters.
pub(super) fn of_group(of: &Filter) -> String {
    let mut query =
        "fields @timestamp, outcome, reason, `letter.id`, `retry.number`, `retry.of`, due, `target.arn`, \
                     `target.url`, `error.code`, detail\n| filter ispresent(outcome)"
            .to_owned();
    for (field, value) in of.iter() {
        let fields: &[&str] = match field {
            GroupField::Topic => &["topic.arn"],
            GroupField::Subscription => &["subscription.arn"],
            GroupField::Target => &["target.arn", "target.url"],
            GroupField::Error => &["error.code"],
            GroupField::Cause => &["cause.code"],
            GroupField::Rule => &["rule"],
            GroupField::Reason => &["reason"],
            GroupField::Queue => &["queue.arn"],
        };
        let compare = |name: &&str| match (field, value) {
            (_, "") => format!("not ispresent(`{name}`)"),
            // Compares the whole name: the name of another queue or topic may begin or end with it.
            (GroupField::Queue | GroupField::Topic, _) if is_name(value) => {
                format!("`{name}` like /:{}$/", value.replace('.', "\\."))
            }
            _ => format!("`{name}` = {}", literal(value)),
        };
        let joint = if value.is_empty() { " and " } else { " or " };
        query.push_str("\n| filter ");
        query.push_str(&fields.iter().map(compare).collect::<Vec<_>>().join(joint));
    }
    query + "\n| sort @timestamp desc\n| limit 1000"
}

/// Says which lines the query of a group misses. A log line names the queue that the letter was in at that
/// time.
pub(super) fn left_out(of: &Filter, requeue: Option<&Arn>) -> Option<&'static str> {
    let (queue, requeue) = (of.get(GroupField::Queue)?, requeue?);
    (queue != requeue.resource() && queue != requeue.as_str())
        .then_some(", except lines about letters in the requeue: these name the requeue")
}

/// Reports whether a text can be the name of a queue or a topic. The only character of such a name with a
/// meaning in regular expressions is the dot.
fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// Shows a query, where to run it, and what it leaves out. `lines` says which lines it returns.
pub(super) fn show(query: &str, lines: &str, left_out: Option<&str>, view: &ViewContext<'_>) -> Markup {
    section(
        "log",
        "In the log",
        &html! {
            p {
                "This query of CloudWatch Logs Insights shows the " (lines) " lines of the time that you choose there" (left_out.unwrap_or_default())
                @if let Some(group) = &view.account.log_group { ", over the log group " code { (harmless(group)) } }
                "."
                @if matches!(view.door, PageHost::Local(_)) {
                    " " a class="whole" href=(console(&view.account.region)) rel="noreferrer" { "Open Logs Insights" }
                }
            }
            pre { code { (query) } }
        },
    )
}

/// Returns the address of Logs Insights in AWS's console.
fn console(region: &str) -> String {
    let region: String = region.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let host = match &region {
        region if region.starts_with("cn-") => "console.amazonaws.cn",
        region if region.starts_with("us-gov-") => "console.amazonaws-us-gov.com",
        _ => "console.aws.amazon.com",
    };
    format!("https://{region}.{host}/cloudwatch/home?region={region}#logsV2:logs-insights")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_within_its_literal() {
        let of =
            Filter::default().with(GroupField::Error, "a\" or 1 = 1 | \\\n").with(GroupField::Target, "");
        let query = of_group(&of);
        assert!(query.contains("`error.code` = \"a\\\" or 1 = 1 | \\\\\u{fffd}\""), "{query}");
        let of = |value: &str| of_group(&Filter::default().with(GroupField::Queue, value));
        assert!(of("payments.fifo").contains(r"| filter `queue.arn` like /:payments\.fifo$/"));
        assert!(
            of("arn:aws:sqs:r:1:payments").contains("| filter `queue.arn` = \"arn:aws:sqs:r:1:payments\"")
        );
        assert!(of("a/ or 1 = 1").contains("| filter `queue.arn` = \"a/ or 1 = 1\""));
        assert!(query.contains("not ispresent(`target.arn`) and not ispresent(`target.url`)"), "{query}");
    }
}
