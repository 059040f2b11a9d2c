//! How fast a worker of a replay reads and sends letters, and how long a dry run of a large archive takes, against an
//! account behind a socket of loopback, where every call takes 10 ms.
//!
//! `replay [--write PAGE]`
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool for measuring")]

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use sim::sqs::QueueSettings;
use sim::{Aws, Caller, Clock, Event, Fault, Faults};
use sns_redrive::archive::Record;
use sns_redrive::batch::ArchiveContext;
use sns_redrive::clients::Clients;
use sns_redrive::letter::{Letter, SqsMessage};
use sns_redrive::policy::ArchiveReason;
use sns_redrive::replay::{At, Control, Parts, Replay, Request, Source, State, Status};

/// The function's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Letters that are sent, and the bytes of a body.
const LETTERS: usize = 40_000;
const BYTES: usize = 2_048;

/// Letters and objects of the archive that is only counted.
const COUNTED: usize = 1_000_000;
const OBJECTS: usize = 10_000;

/// Hours over which an archive reaches; a worker has one at a time.
const HOURS: usize = 8;

const LATENCY: Duration = Duration::from_millis(10);
const BUCKET: &str = "graveyard";
const QUEUE: &str = "orders-dlq";
const REQUEUE: &str = "orders-requeue";

/// Whoever runs a replay, and lets it.
struct Nobody;

impl Control for Nobody {
    fn stop(&self) -> bool {
        false
    }

    fn progress(&self, _: &State) {}

    fn left_out(&self, at: &At, why: &str) {
        println!("{at}: {why}");
    }
}

/// The course of a replay.
struct Told {
    state: State,
    took: Duration,
    requests: usize,
}

fn main() {
    proof::panics_are_failures();
    let mut speed = "| letters an object | workers | s | letters a second | requests for 1,000 letters |\n|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for an_object in [100, 10] {
        for workers in [1, 4] {
            let told =
                run(&account(LETTERS, an_object, true), workers, json!({ "all": true, "ramp": [100] }));
            assert_eq!((told.state.status, told.state.counts.sent), (Status::Done, LETTERS as u64));
            let (took, per_thousand) = (told.took.as_secs_f64(), told.requests * 1000 / LETTERS);
            #[expect(clippy::cast_precision_loss, reason = "some thousands")]
            let rate = LETTERS as f64 / took;
            writeln!(speed, "| {an_object} | {workers} | {took:.1} | {rate:.0} | {per_thousand} |").unwrap();
        }
    }
    let told = run(&account(COUNTED, COUNTED / OBJECTS, false), 1, json!({ "all": true, "dryRun": true }));
    assert_eq!(told.state.counts.sent, COUNTED as u64);
    let dry_run = format!(
        "\nA dry run of {COUNTED} letters in {OBJECTS} objects by the index: {:.1} s, {} requests.\n",
        told.took.as_secs_f64(),
        told.requests
    );
    let text = speed + &dry_run;
    println!("{text}");
    if let Some(path) = std::env::args().skip_while(|it| it != "--write").nth(1) {
        let page = std::fs::read_to_string(&path).unwrap();
        let page = proof::put(&page, "replay", &format!("{}\n\n{text}", proof::circumstances()));
        std::fs::write(&path, page).unwrap();
    }
}

/// Replays an archive at the highest rate, as a process with a thread of its own.
fn run(aws: &Aws, workers: usize, request: Value) -> Told {
    let door = aws.listen(&Caller::new("worker")).unwrap();
    let url = door.url();
    let clients = Clients::from_environment(|name| match name {
        "AWS_ENDPOINT_URL" => Some(url.clone()),
        "AWS_REGION" => Some(sim::REGION.to_owned()),
        "AWS_ACCESS_KEY_ID" => Some("AKIDEXAMPLE".to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some("secret".to_owned()),
        _ => None,
    });
    let mut request = Request::from_json(request).unwrap();
    (request.rate, request.threshold, request.settle_seconds) = (10_000, 100, 0);
    let replay = Replay::new(Parts {
        clients: clients.unwrap(),
        bucket: BUCKET.to_owned(),
        prefix: "dead-letters".to_owned(),
        control_bucket: BUCKET.to_owned(),
        control_prefix: "dead-letters-control".to_owned(),
        requeue: sim::arn("sqs", REQUEUE).parse().unwrap(),
        clock: sns_redrive::clock::Clock::system(),
        by: "bench".to_owned(),
        workers,
    });
    let _ = aws.take_journal();
    let began = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let state = runtime.block_on(async {
        if request.dry_run {
            replay.dry_run(&request, &Source::Archive, None, &Nobody).await
        } else {
            replay.begin(&request, &Source::Archive, None, &Nobody).await
        }
    });
    let took = began.elapsed();
    let requests = aws.take_journal().iter().filter(|it| matches!(it.event, Event::Called(_))).count();
    Told { state: state.unwrap(), took, requests }
}

/// An account with an archive; letters that are only counted need no lines.
fn account(letters: usize, an_object: usize, lines: bool) -> Aws {
    let aws = Aws::new(Clock::real(), 1);
    aws.set_faults(Faults::new(|_| Fault::Pass.after(LATENCY)));
    let began = aws.clock().now() - Duration::from_hours(24);
    let objects = letters / an_object;
    let between = Duration::from_hours(HOURS as u64) / u32::try_from(objects).unwrap();
    aws.act("bench", |it, cx| {
        it.s3.create(BUCKET);
        for queue in [QUEUE, REQUEUE] {
            it.sqs.create(queue, QueueSettings { retention: 1_209_600, ..QueueSettings::default() });
        }
        for object in 0..objects {
            let at = began + between * u32::try_from(object).unwrap();
            let time = at.to_zoned(TimeZone::UTC);
            let (date, time) = (time.strftime("%Y-%m-%d"), time.strftime("%Y%m%dT%H%M%SZ"));
            let name = format!("{time}-{object:06}.2-n{an_object}-r0.jsonl");
            let key = format!("dead-letters/queue={QUEUE}/date={date}/{name}");
            let first = object * an_object;
            let lines = if lines { first..first + an_object } else { 0..0 };
            let text: String = lines.map(|number| line(number, at)).collect();
            it.s3.place((BUCKET, &key), text.as_bytes(), cx.now - 3_600_000);
        }
    });
    aws
}

/// A letter, as it is archived.
fn line(number: usize, at: Timestamp) -> String {
    let envelope = |message: &str| {
        json!({
            "Type": "Notification",
            "MessageId": format!("512a856d-6e86-45b6-a7a3-{number:012x}"),
            "TopicArn": sim::arn("sns", "orders"),
            "Message": message,
            "Timestamp": "2026-11-01T11:59:58.351Z",
            "SignatureVersion": "1",
            "Signature": "c2FtcGxl".repeat(43),
            "SigningCertURL": "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem",
            "UnsubscribeURL": format!("https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn={}",
                sim::arn("sns", "orders:43fe80b0-b10c-4081-9e18-5bdb8f9824e6")),
        })
        .to_string()
    };
    let body = envelope(&"x".repeat(BYTES - envelope("").len()));
    let event = json!({ "Records": [{
        "messageId": format!("b5a6c1ce-6e86-45b6-a7a3-{number:012x}"),
        "receiptHandle": "AQEB",
        "body": body,
        "attributes": {
            "ApproximateReceiveCount": "12",
            "SentTimestamp": "1793534398412",
            "SenderId": "AIDAIEXAMPLE",
            "ApproximateFirstReceiveTimestamp": "1793534398431",
        },
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": sim::arn("sqs", QUEUE),
        "awsRegion": sim::REGION,
    }] });
    let message = SqsMessage::all_of(serde_json::from_value(event).unwrap()).unwrap().remove(0);
    let context = ArchiveContext {
        reason: ArchiveReason::Exhausted,
        detail: None,
        rule: "default".to_owned(),
        target: None,
        retry: None,
        failure: None,
        order: None,
    };
    Record::of(&Letter::parse(message), &context, at).to_line().unwrap()
}
