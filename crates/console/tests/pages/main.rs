//! Pages read from an AWS account in memory.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "tests")]

mod bounds;
mod groups;
mod letter;
mod linked;
mod now;
mod query;
mod stand_in;
mod targets;
mod waiting;
mod widget;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use redrive_archive::{Archive, ArchiveInvocation};
use redrive_aws::clock::InstanceClock;
use redrive_console::{
    BodyVisibility, BucketPrefix, ConsoleAccount as Shown, ConsoleClients, Filter, GroupField, LocalConsole,
    PageHost, PageKind, Query, RenderedPage as Answer, TargetGrants, show,
};
use redrive_console_law::{ParsedPage, parse};
use redrive_core::batch::ArchiveContext;
use redrive_core::endpoint::TargetName;
use redrive_core::failure::{Failure, FailureClass};
use redrive_core::policy::ArchiveReason;
use redrive_core::waiting::WaitingKey;
use redrive_support::{DLQ, NOW, RecordBuilder, TestAccount, at, context, letter};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

const PREFIX: &str = "dead-letters";
const CONTROL: &str = "dead-letters-control";
const BUCKET: &str = "my-bucket";
const MINUTE: i64 = 60_000;

/// Returns the account in memory as pages see it.
fn shown(cloud: &TestAccount) -> Shown {
    shown_by(&cloud.config(RetryConfig::disabled()))
}

fn shown_by(config: &SdkConfig) -> Shown {
    let place = |prefix: &str| Some(BucketPrefix { bucket: BUCKET.to_owned(), prefix: prefix.to_owned() });
    Shown {
        clients: ConsoleClients::from_config(config, false),
        archive: place(PREFIX),
        control: place(CONTROL),
        stack: Some("payments-redrive".to_owned()),
        function: None,
        log_group: None,
        namespace: "SnsRedrive".to_owned(),
        queues: vec![DLQ.parse().unwrap()],
        requeue: None,
        grants: TargetGrants::default(),
        region: "eu-central-1".to_owned(),
        clock: InstanceClock::from_fn(|| at(NOW)),
        bodies: BodyVisibility::Hidden,
    }
}

fn local() -> PageHost {
    PageHost::Local(LocalConsole::default())
}

/// Returns the page of an address, parsed and as a reader sees its text.
async fn page(account: &Shown, address: &str) -> (Answer, ParsedPage, String) {
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let answer = show(&Query::from_address(path, query).unwrap(), account, &local()).await;
    let parsed = parse(&answer.html);
    let texts =
        parsed.elements.iter().filter(|element| element.name != "style").map(|element| &*element.text);
    let text = texts.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ");
    (answer, parsed, text)
}

/// Returns the cells of a table's rows. The beginning of its caption selects the table.
fn rows(page: &ParsedPage, caption: &str) -> Vec<Vec<String>> {
    let (mut rows, mut is_wanted, mut in_body): (Vec<Vec<String>>, _, _) = (Vec::new(), false, false);
    let mut in_caption = false;
    let mut in_cell = false;
    let mut said = String::new();
    for element in &page.elements {
        match &*element.name {
            "caption" => (in_caption, said) = (true, element.text.clone()),
            "/caption" => (in_caption, is_wanted) = (false, said.starts_with(caption)),
            "tbody" => in_body = true,
            "/tbody" | "/table" => (in_body, is_wanted) = (false, is_wanted && in_body),
            "tr" if in_body && is_wanted => rows.push(Vec::new()),
            "th" | "td" if in_body && is_wanted => {
                rows.last_mut().unwrap().push(element.text.clone());
                in_cell = true;
            }
            "/th" | "/td" => in_cell = false,
            _ if in_caption => said.push_str(&element.text),
            // What stands on a line of its own.
            "span" if in_cell && element.attributes.get("class").is_some_and(|class| class == "sub") => {
                let cell = rows.last_mut().unwrap().last_mut().unwrap();
                cell.extend([" ", &element.text]);
            }
            _ if in_cell => rows.last_mut().unwrap().last_mut().unwrap().push_str(&element.text),
            _ => {}
        }
    }
    let words = |cell: String| cell.split_whitespace().collect::<Vec<_>>().join(" ");
    rows.into_iter().map(|row| row.into_iter().map(words).collect()).collect()
}

/// A letter and its outcome.
struct SampleOutcome {
    post: RecordBuilder,
    reason: ArchiveReason,
    error: Option<&'static str>,
    target: Option<&'static str>,
    rule: &'static str,
}

fn end(id: &str, reason: ArchiveReason) -> SampleOutcome {
    SampleOutcome { post: RecordBuilder::envelope(id), reason, error: None, target: None, rule: "default" }
}

/// Archives letters as the function does, in one invocation some minutes ago.
async fn archive(cloud: &TestAccount, minutes_ago: i64, ends: &[SampleOutcome]) {
    let s3 = cloud.clients().s3;
    let archive = Archive::S3 { s3, bucket: BUCKET.to_owned(), prefix: PREFIX.to_owned() };
    let letters: Vec<_> = ends.iter().map(|end| letter(&end.post)).collect();
    let contexts: Vec<_> = ends
        .iter()
        .map(|end| ArchiveContext {
            rule: end.rule.to_owned(),
            target: end.target.map(TargetName::read),
            failure: end.error.map(|code| Failure::ours(FailureClass::Transient, code)),
            ..context(end.reason)
        })
        .collect();
    let pairs: Vec<_> = letters.iter().zip(&contexts).collect();
    let until = Instant::now() + Duration::from_mins(1);
    let request_id = format!("req-{minutes_ago}");
    let batch = ArchiveInvocation { request_id: &request_id, now: at(NOW - minutes_ago * MINUTE), until };
    assert!(archive.store(&pairs, batch, None).await.iter().all(Result::is_ok));
}

/// Returns the line of a waiting letter.
fn line(id: &str, but: &Value) -> Value {
    let mut line = json!({
        "letterId": format!("letter-{id}"), "messageId": id, "receiptHandle": format!("handle-S3CR3T-{id}"),
        "queueArn": DLQ, "topicArn": redrive_support::TOPIC, "target": redrive_support::WORKER, "rule": "default", "error": "503",
        "retry": { "number": 9, "of": 12 }, "since": at(NOW - 180 * MINUTE), "due": at(NOW + 60 * MINUTE),
    });
    but.as_object().unwrap().iter().for_each(|(name, value)| line[name] = value.clone());
    line
}

/// Puts an object into the list of waiting letters.
fn list(cloud: &TestAccount, minutes_ago: i64, lines: &[Value]) {
    let written = at(NOW - minutes_ago * MINUTE);
    let known: Vec<_> = lines.iter().filter_map(|line| serde_json::from_value(line.clone()).ok()).collect();
    let key = WaitingKey::of(&known).key(CONTROL, &DLQ.parse().unwrap(), written, "req-1");
    let text: String = lines.iter().flat_map(|line| [line.to_string(), "\n".to_owned()]).collect();
    cloud.put(&format!("{BUCKET}/{key}"), &text);
}

/// Returns the address of a group's page.
fn group(of: &[(GroupField, &str)]) -> String {
    let of = of.iter().fold(Filter::default(), |filter, (field, value)| filter.with(*field, *value));
    Query::of(PageKind::Group { of }).to_address()
}
