//! The time that 100,000 waiting letters take to wake, by the operator's tool as a process of its own.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use redrive_sim::sqs::{PresetMessage, QueueSettings};
use redrive_sim::{Caller, FaultHook, SimAws, SimClock, SimEvent, SimFault, SimPayload};
use serde_json::json;

use crate::page::{FigureTable, thousands};

const LETTERS: usize = 100_000;

/// The letters of an object of the list: as many as the smallest batch has, so there are many objects.
const BATCH: usize = 10;

const LATENCY: Duration = Duration::from_millis(10);

/// The time in which the tool must ask for all of them at its own rate.
const TIME_GOAL: Duration = Duration::from_mins(5);

/// The name of the tool as a caller.
const OPERATOR: &str = "operator";
const BUCKET: &str = "my-bucket";
const QUEUE: &str = "payments-dlq";

/// The visibility timeout of a letter that waits as long as possible.
const HIDDEN: Duration = Duration::from_hours(12);

pub(crate) fn table(tool: &Path) -> FigureTable {
    let head = "| letters a second asked for | preview, s | in all, s | asked to wake, a second | requests to wake | requests to read |";
    let mut table = FigureTable::new("wake", head);
    for rate in [None, Some("10000")] {
        let told = run(tool, rate);
        assert!(rate.is_some() || told.whole <= TIME_GOAL, "{:?} is more than {TIME_GOAL:?}", told.whole);
        assert_eq!(told.wakes, LETTERS / BATCH, "requests to wake");
        table.rows.push(format!(
            "| {} | {:.1} | {:.1} | {} | {} | {} |",
            rate.unwrap_or("500, the default"),
            told.preview.as_secs_f64(),
            told.whole.as_secs_f64(),
            thousands(told.a_second),
            told.wakes,
            told.reads,
        ));
    }
    table
}

/// The measurements of one command.
struct WakeTimes {
    /// The time until the override was written.
    preview: Duration,
    whole: Duration,
    /// The letters asked to wake a second, from the first request to the last.
    a_second: f64,
    wakes: usize,
    reads: usize,
}

fn run(tool: &Path, rate: Option<&str>) -> WakeTimes {
    let aws = account();
    let door = aws.listen(&Caller::new(OPERATOR)).expect("a port of loopback is free");
    let _ = aws.take_journal();
    let (started, begun) = (Instant::now(), aws.clock().millis());
    let mut command = Command::new(tool);
    command
        .args(["retry", "--all", "--why", "bench", "--by", "bench", "--yes", "--json"])
        .args(["--control", &format!("s3://{BUCKET}/control"), "--endpoint-url", &door.url()])
        .args(rate.map(|rate| format!("--rate={rate}")))
        .env_clear()
        .envs([("AWS_REGION", "eu-central-1"), ("AWS_EC2_METADATA_DISABLED", "true"), ("HOME", "/nowhere")])
        .envs([("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", "secret")]);
    let ended = command.output().unwrap_or_else(|error| panic!("{}: {error}", tool.display()));
    let whole = started.elapsed();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let told: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("an answer in JSON");
    assert_eq!(told["wake"]["asked"], LETTERS, "{}", told["wake"]);

    let (mut written, mut wakes, mut reads) = (begun, Vec::new(), 0);
    for record in aws.take_journal() {
        let SimEvent::Called(call) = record.event else { continue };
        match call.operation.as_str() {
            "PutObject" => written = record.at,
            "ChangeMessageVisibilityBatch" => wakes.push(record.at),
            _ => reads += 1,
        }
    }
    let visible =
        aws.act("bench", |it, cx| it.sqs.queue(QUEUE).expect("the queue is there").reading(cx.now).visible);
    assert_eq!(visible, LETTERS, "letters that are visible");
    let millis = |millis: i64| Duration::from_millis(millis.try_into().expect("time goes on"));
    let (first, last) = (wakes[0], wakes[wakes.len() - 1]);
    WakeTimes {
        preview: millis(written - begun),
        whole,
        a_second: crate::stat::per_second(LETTERS, millis(last - first)),
        wakes: wakes.len(),
        reads,
    }
}

/// Creates an account with a queue of hidden letters, and the list of them.
fn account() -> SimAws {
    let aws = SimAws::new(SimClock::real(), 1);
    aws.set_faults(FaultHook::new(|_| SimFault::Pass.after(LATENCY)));
    let now = aws.clock().now();
    let hidden_since = now - Duration::from_hours(1);
    aws.act("bench", |it, cx| {
        let visibility = HIDDEN.as_secs().try_into().expect("a few hours");
        let settings = QueueSettings { retention: 1_209_600, visibility, lag: 0, ..QueueSettings::default() };
        it.sqs.create(QUEUE, settings);
        it.s3.create(BUCKET);
        for object in 0..LETTERS / BATCH {
            let mut lines = String::new();
            for index in object * BATCH..(object + 1) * BATCH {
                // The handle is as long as those of SQS.
                let handle = format!("AQEB{index:0>340}");
                let line = json!({
                    "letterId": format!("{index:032x}/{}", redrive_sim::arn("sns", "payments:43fe80b0-b10c-4081-9e18-5bdb8f9824e6")),
                    "messageId": format!("{index:032x}"), "receiptHandle": handle,
                    "queueArn": redrive_sim::arn("sqs", QUEUE), "topicArn": redrive_sim::arn("sns", "payments"),
                    "target": redrive_sim::arn("sqs", "payments-worker"), "rule": "default", "error": "503",
                    "retry": { "number": 9, "of": 12 },
                    "since": hidden_since.to_string(), "due": (hidden_since + HIDDEN).to_string(),
                });
                writeln!(lines, "{line}").expect("a text takes all");
                let placed = PresetMessage {
                    id: format!("{index:032x}"),
                    handle,
                    payload: SimPayload { body: "x".to_owned(), ..SimPayload::default() },
                    sender: "sns".to_owned(),
                    sent: cx.now,
                    receives: 9,
                    first_received: cx.now,
                    source: None,
                };
                it.sqs.place(cx, QUEUE, placed).expect("the queue is there");
            }
            let written = format!("{:.3}", hidden_since + LATENCY * u32::try_from(object).expect("not so many"));
            let (hour, time) = (&written[..13], written.replace(['-', ':'], ""));
            let key = format!("control/waiting/queue={QUEUE}/hour={hour}/{time}-{object}.jsonl");
            it.s3.place((BUCKET, &key), lines.as_bytes(), cx.now);
        }
    });
    aws
}
