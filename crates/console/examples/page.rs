//! Measures what a page costs for an archive of ten million letters: time, requests and memory. The account
//! runs in a process of its own and answers each request after a tenth of a second. The measurement fails if
//! a page costs more than its limit.
//!
//! ```text
//! cargo run --release -p redrive-console --example page
//! ```

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a measurement")]

use std::process::Command;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use redrive_aws::clock::InstanceClock;
use redrive_console::{
    BodyVisibility, BucketPrefix, ConsoleAccount, ConsoleClients, LocalConsole, PageHost, Query, show,
};
use redrive_core::waiting::WaitingKey;
use redrive_support::SimFault;
use serde_json::json;

const OBJECTS: usize = 100_000;
/// The most memory of a process that shows a page.
const MOST_MEGABYTES: u64 = 64;
const LATENCY: Duration = Duration::from_millis(100);
/// Objects in the list of waiting letters, and the lines of each: more than the 12 MiB that a page reads.
const LISTS: i64 = 200;
const LINES: usize = 250;
const PAGES: [&str; 7] = [
    "groups?by=topic&range=14d",
    "groups?by=error&range=14d",
    "group?reason=exhausted&range=14d",
    "groups?by=topic&range=3h",
    "waiting?by=error",
    "letter?id=none&range=3h",
    "now",
];

fn main() {
    if let Some(url) = std::env::args().nth(1) {
        return measure(&url);
    }
    let cloud = redrive_support::TestAccount::new();
    fill(&cloud);
    cloud.script(|_| SimFault::Pass.after(LATENCY));
    let server = cloud.listen();
    println!(
        "| page | s | requests | of at most | most memory, MB | not read |\n|---|---:|---:|---:|---:|---|"
    );
    for page in PAGES {
        let this = std::env::current_exe().unwrap();
        let ran = Command::new(this).arg(server.url()).arg(page).status().unwrap();
        assert!(ran.success());
    }
}

/// Measures one page, in a process of its own.
fn measure(url: &str) {
    let address = std::env::args().nth(2).unwrap();
    let (path, query) = address.split_once('?').unwrap_or((&address, ""));
    let config = redrive_support::TestAccount::new().config(RetryConfig::standard());
    let config = config
        .into_builder()
        .endpoint_url(url)
        .http_client(redrive_aws::clients::https(redrive_aws::clock::InstanceClock::system()))
        .build();
    let account = ConsoleAccount {
        clients: ConsoleClients::from_config(&config, true),
        archive: Some(BucketPrefix { bucket: "my-bucket".to_owned(), prefix: "dead-letters".to_owned() }),
        control: Some(BucketPrefix { bucket: "my-bucket".to_owned(), prefix: "control".to_owned() }),
        stack: None,
        function: None,
        log_group: None,
        namespace: String::new(),
        queues: Vec::new(),
        requeue: None,
        grants: redrive_console::TargetGrants::default(),
        region: "eu-central-1".to_owned(),
        clock: InstanceClock::from_fn(now),
        bodies: BodyVisibility::Hidden,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let query = Query::from_address(path, query).unwrap();
    let shown = runtime.block_on(show(&query, &account, &PageHost::Local(LocalConsole::default())));
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    let megabytes = most.and_then(|kilobytes| kilobytes.parse::<u64>().ok()).unwrap_or_default() / 1024;
    let (took, unread) = (shown.took.as_secs_f64(), shown.unread.join(", "));
    assert!(shown.requests <= shown.limit, "{address}: {} requests of {}", shown.requests, shown.limit);
    assert!((1..=MOST_MEGABYTES).contains(&megabytes), "{address}: {megabytes} MB of {MOST_MEGABYTES}");
    // A debug build, or a busy machine, may take longer.
    assert!(cfg!(debug_assertions) || took <= 2.0, "{address}: {took} s");
    println!("| {address} | {took:.1} | {} | {} | {megabytes} | {unread} |", shown.requests, shown.limit);
}

fn now() -> Timestamp {
    redrive_support::at(redrive_support::NOW)
}

/// Ten million letters over thirteen days. The newest objects hold real records.
fn fill(cloud: &redrive_support::TestAccount) {
    let between = SignedDuration::from_hours(13 * 24) / i32::try_from(OBJECTS).unwrap();
    let first = now() - SignedDuration::from_hours(13 * 24);
    let letter =
        redrive_support::letter(&redrive_support::RecordBuilder::envelope("a").message(&"x".repeat(1_024)));
    let line = serde_json::to_string(&redrive_support::record(&letter, redrive_support::NOW)).unwrap();
    cloud.aws.act("bench", |it, cx| {
        for object in 0..OBJECTS {
            let time = (first + between * i32::try_from(object).unwrap()).to_zoned(TimeZone::UTC);
            let (date, name) = (time.strftime("%Y-%m-%d"), time.strftime("%Y%m%dT%H%M%S%.3fZ"));
            let index = "2-n100-r0.exhausted.3zhK6Xx3.60.refused.aB3dE6gh.40";
            let key = format!("dead-letters/queue=payments-dlq/date={date}/{name}-{object:06}.{index}.jsonl");
            let lines =
                if object + 200 > OBJECTS { lines(&line, object, time.timestamp()) } else { String::new() };
            it.s3.place(("my-bucket", &key), lines.as_bytes(), cx.now);
        }
        let queue = redrive_support::DLQ.parse().unwrap();
        for object in 0..LISTS {
            let written = now() - SignedDuration::from_secs(object * 10);
            let key = WaitingKey::default().key("control", &queue, written, &format!("r{object}"));
            it.s3.place(("my-bucket", &key), waiting_letters(object).as_bytes(), cx.now);
        }
    });
}

/// Returns waiting letters as the function lists them.
fn waiting_letters(object: i64) -> String {
    let letter = |number| {
        let one = json!({
            "letterId": format!("sns-{object}-{number}/{}", redrive_support::SUBSCRIPTION), "messageId": format!("w-{object}-{number}"),
            "receiptHandle": "x".repeat(400), "queueArn": redrive_support::DLQ, "topicArn": redrive_support::TOPIC,
            "subscriptionArn": redrive_support::SUBSCRIPTION, "target": redrive_support::WORKER, "rule": "default", "error": "503",
            "retry": { "number": 9, "of": 12 }, "since": redrive_support::at(redrive_support::NOW), "due": redrive_support::at(redrive_support::NOW + 3_600_000),
        });
        format!("{one}\n")
    };
    (0..LINES).map(letter).collect()
}

/// Returns a hundred records, each with a message of its own.
fn lines(line: &str, object: usize, at: Timestamp) -> String {
    let mut record: serde_json::Value = serde_json::from_str(line).unwrap();
    let mut lines = String::new();
    for number in 0..100 {
        record["message"]["messageId"] = format!("m-{object}-{number}").into();
        record["archivedAt"] = at.to_string().into();
        lines.push_str(&record.to_string());
        lines.push('\n');
    }
    lines
}
