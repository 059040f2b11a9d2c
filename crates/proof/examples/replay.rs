//! A benchmark of replays, against an account where every call takes 10 ms: how fast the workers read and
//! send letters, how much memory and processor time they take, and how long a dry run of a large archive
//! takes.
//!
//! `replay --function FILE [--write PAGE]`, where FILE is the replay function.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a tool for measuring"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region, SharedCredentialsProvider};
use futures_util::future::join_all;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use redrive_archive::ArchiveRecord;
use redrive_aws::clients::AwsClients;
use redrive_core::batch::ArchiveContext;
use redrive_core::letter::{Letter, SqsMessage};
use redrive_core::policy::ArchiveReason;
use redrive_proof::{Sandbox, SandboxEnd};
use redrive_replay::{
    ArchiveReplayer, EventRequest, RecordLocation, ReplayControl, ReplayEnvironment, ReplayRequest,
    ReplayResumption, ReplaySource, ReplayState, RoundLane, TurnKind,
};
use redrive_sim::sqs::QueueSettings;
use redrive_sim::{Caller, FaultHook, SimAws, SimClock, SimEvent, SimFault};
use serde_json::{Value, json};
use sns_redrive::replay_function::LANE_WORKERS;

/// The function's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The letters that are sent, and the bytes of a body.
const LETTERS: usize = 40_000;
const BYTES: usize = 2_048;

/// The letters, and the hours over which they reach, where only calls take time: a worker makes one call at a
/// time.
const LATENCY_BOUND_LETTERS: usize = 240_000;
const HOURS: usize = 120;

/// The letters and objects of the archive that is only counted.
const COUNTED: usize = 10_000_000;
const OBJECTS: usize = 100_000;

/// The letters and objects of the archive that is only planned, with a thousand letters a unit.
const PLANNED: usize = 50_000_000;
const PLANNED_OBJECTS: usize = 500_000;

const LATENCY: Duration = Duration::from_millis(10);
const BUCKET: &str = "my-bucket";
const QUEUE: &str = "payments-dlq";
const REQUEUE: &str = "payments-requeue";

/// The start of the account's clock where only calls take time.
const START: &str = "2026-11-20T12:00:00Z";

/// The time of an invocation, of which a worker reserves 20 s.
const INVOCATION_TIMEOUT: Duration = Duration::from_mins(15);

/// An operator that never stops a replay.
struct IdleOperator;

impl ReplayControl for IdleOperator {
    fn stop(&self) -> bool {
        false
    }

    fn progress(&self, _: &ReplayState) {}

    fn left_out(&self, at: &RecordLocation, why: &str) {
        println!("{at}: {why}");
    }
}

fn main() {
    redrive_proof::panics_are_failures();
    let argument = |name: &str| std::env::args().skip_while(|it| it != name).nth(1);
    let function = PathBuf::from(argument("--function").expect("--function FILE"));
    let mut text = "| letters an object | workers | s | letters a second | processor ms for 1,000 letters | most memory of one, MB | requests for 1,000 letters |\n\
        |---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for (an_object, workers) in [(100, 1), (100, 4), (10, 1), (10, 4)] {
        writeln!(text, "| {an_object} | {workers} {}", processes(&function, an_object, workers)).unwrap();
    }
    text.push_str(
        "\n| workers | s, by calls alone | letters a second | s of its rounds | letters a second | times one |\n\
        |---:|---:|---:|---:|---:|---:|\n",
    );
    let mut one = None;
    for workers in [1, 4, 16, 100] {
        let (took, rounds) = calls_alone(workers);
        let (took, rounds) = (took.as_secs_f64(), rounds.as_secs_f64());
        let times = *one.get_or_insert(rounds) / rounds;
        let (speed, speed_of_rounds) =
            (count(LATENCY_BOUND_LETTERS) / took, count(LATENCY_BOUND_LETTERS) / rounds);
        writeln!(
            text,
            "| {workers} | {took:.1} | {speed:.0} | {rounds:.1} | {speed_of_rounds:.0} | {times:.2} |"
        )
        .unwrap();
    }
    let (took, requests) = dry_run();
    writeln!(text, "\nA dry run of {COUNTED} letters in {OBJECTS} objects by the index: {took:.1} s, {requests} requests.").unwrap();
    text.push_str(&plan(&function));
    println!("{text}");
    if let Some(path) = argument("--write") {
        let page = std::fs::read_to_string(&path).unwrap();
        let page =
            redrive_proof::put(&page, "replay", &format!("{}\n\n{text}", redrive_proof::circumstances()));
        std::fs::write(&path, page).unwrap();
    }
}

/// Starts a process of the replay function in an account.
fn start(function: &Path, url: &str) -> Sandbox {
    let variables = [
        ("AWS_ENDPOINT_URL", url.to_owned()),
        ("AWS_REGION", redrive_sim::REGION.to_owned()),
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
        ("ARCHIVE", format!("s3://{BUCKET}/dead-letters")),
        ("REQUEUE_ARN", redrive_sim::arn("sqs", REQUEUE)),
        ("REDRIVE_POLICY", r#"{"default":{"target":"topic"}}"#.to_owned()),
    ];
    let variables: Vec<_> = variables.map(|(name, value)| (name.to_owned(), value)).into();
    Sandbox::start(function, &variables, Stdio::null())
}

/// Returns the answer to an invocation of the process.
fn call(sandbox: &mut Sandbox, event: &Value) -> Value {
    match sandbox.invoke(event.to_string(), INVOCATION_TIMEOUT) {
        SandboxEnd::Answer(text, _) => serde_json::from_str(&text).unwrap(),
        ended => panic!("{ended:?}"),
    }
}

/// Returns the lanes of a turn.
fn lanes(aws: &SimAws, key: &str) -> Vec<Value> {
    aws.act("bench", |it, _| {
        let text = String::from_utf8(it.s3.objects(BUCKET).unwrap()[key].bytes.clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    })
}

/// Measures how long the first turn of a large replay takes, and how much memory that turn and one of its
/// lanes take.
fn plan(function: &Path) -> String {
    let aws = account(SimClock::real(), PLANNED, PLANNED / PLANNED_OBJECTS, 24, 0);
    let door = aws.listen(&Caller::new("worker")).unwrap();
    let (mut of_turn, mut of_lane) = (start(function, &door.url()), start(function, &door.url()));
    let began = Instant::now();
    let turn = call(
        &mut of_turn,
        &json!({ "turn": { "begin": { "all": true, "rate": 100_000 }, "workers": 100, "by": "bench" } }),
    );
    let took = began.elapsed().as_secs_f64();
    let replay = &turn["replay"];
    assert_eq!((&replay["letters"], &turn["next"]), (&json!(PLANNED), &json!("send")));
    let lane = lanes(&aws, turn["key"].as_str().unwrap()).remove(0);
    fill(&aws, replay["id"].as_str().unwrap());
    let began = Instant::now();
    let sent = call(&mut of_lane, &json!({ "lane": lane }))["sent"].as_u64().unwrap();
    let took_lane = began.elapsed().as_secs_f64();
    assert!(sent > 10_000, "{sent} letters");
    let memory = |sandbox: &Sandbox| sandbox.memory("VmHWM").unwrap() / 1024 / 1024;
    format!(
        "\nThe plan of {PLANNED} letters in {PLANNED_OBJECTS} objects: first turn {took:.1} s, {} MB; a lane of {sent} letters \
         {took_lane:.1} s, {} MB.\n",
        memory(&of_turn),
        memory(&of_lane)
    )
}

/// Puts letters into the objects of the first step of a replay.
fn fill(aws: &SimAws, id: &str) {
    aws.act("bench", |it, cx| {
        let objects = it.s3.objects(BUCKET).unwrap();
        let units = &objects[&format!("dead-letters-control/replays/{id}/units.jsonl")].bytes;
        let mut of_hours = BTreeMap::<String, Vec<Value>>::new();
        for line in units.split(|byte| *byte == b'\n').take(PLANNED / 100 / 1000) {
            let unit: Value = serde_json::from_slice(line).unwrap();
            of_hours.entry(unit["hour"].as_str().unwrap().to_owned()).or_default().push(unit);
        }
        let is_of = |unit: &Value, name: &str| {
            unit["first"].as_str().is_none_or(|first| name >= first)
                && unit["before"].as_str().is_none_or(|before| name < before)
        };
        let is_of_step = |key: &&String| {
            let name = key.rsplit('/').next().unwrap();
            let of_hour = of_hours.get(name.get(..11).unwrap_or_default()).into_iter().flatten();
            key.contains("/date=") && of_hour.into_iter().any(|unit| is_of(unit, name))
        };
        let keys: Vec<_> = objects.keys().filter(is_of_step).cloned().collect();
        // This is before the replay's cut-off.
        let at = Timestamp::from_millisecond(cx.now - 86_400_000).unwrap();
        let an_object = PLANNED / PLANNED_OBJECTS;
        for (object, key) in keys.iter().enumerate() {
            let numbers = object * an_object..(object + 1) * an_object;
            let text: String = numbers.map(|number| line(number, at, BYTES)).collect();
            it.s3.place((BUCKET, key), text.as_bytes(), cx.now - 3_600_000);
        }
    });
}

/// Measures a replay by a state machine that has a process of the replay function for each lane.
fn processes(function: &Path, an_object: usize, workers: usize) -> String {
    let aws = account(SimClock::real(), LETTERS, an_object, 8, BYTES);
    let door = aws.listen(&Caller::new("worker")).unwrap();
    let mut sandboxes: Vec<_> = (0..workers).map(|_| start(function, &door.url())).collect();
    let wish = json!({ "all": true, "ramp": [100], "rate": 1_000_000, "threshold": 100, "settleSeconds": 0 });
    let _ = aws.take_journal();
    let began = Instant::now();
    let mut turn =
        call(&mut sandboxes[0], &json!({ "turn": { "begin": wish, "workers": workers, "by": "bench" } }));
    while turn["next"] == "send" {
        let lanes = lanes(&aws, turn["key"].as_str().unwrap());
        std::thread::scope(|scope| {
            for (lane, sandbox) in lanes.into_iter().zip(&mut sandboxes) {
                scope.spawn(move || call(sandbox, &json!({ "lane": lane })));
            }
        });
        let next = json!({ "id": turn["id"], "holder": turn["holder"], "workers": workers });
        turn = call(&mut sandboxes[0], &json!({ "turn": next }));
    }
    let took = began.elapsed().as_secs_f64();
    assert_eq!(
        (&turn["replay"]["status"], &turn["replay"]["counts"]["sent"]),
        (&json!("done"), &json!(LETTERS))
    );
    let requests = aws.take_journal().iter().filter(|it| matches!(it.event, SimEvent::Called(_))).count();
    let processor: Duration = sandboxes.iter().map(Sandbox::processor_time).sum();
    let memory = sandboxes.iter().filter_map(|it| it.memory("VmHWM")).max().unwrap();
    format!(
        "| {took:.1} | {:.0} | {:.0} | {} | {} |",
        count(LETTERS) / took,
        processor.as_secs_f64() * 1000.0 / (count(LETTERS) / 1000.0),
        memory / 1024 / 1024,
        requests * 1000 / LETTERS
    )
}

/// Measures how long a replay by lanes takes in this process, and its rounds alone, on a clock that only
/// calls advance.
fn calls_alone(workers: usize) -> (Duration, Duration) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap().block_on(async {
        let aws = account(SimClock::tokio(START.parse().unwrap()), LATENCY_BOUND_LETTERS, 100, HOURS, 200);
        let replay = replay(&aws, connected(&aws), LANE_WORKERS);
        let request =
            json!({ "all": true, "ramp": [100], "rate": 1_000_000, "threshold": 100, "settleSeconds": 0 });
        let wish = EventRequest::from_json(request).unwrap();
        let (began, mut rounds) = (tokio::time::Instant::now(), Duration::ZERO);
        let mut turn = replay.first_turn(&wish, workers, None, &IdleOperator).await.unwrap();
        while turn.next == TurnKind::Send {
            let lanes = lanes(&aws, &turn.key).into_iter().map(serde_json::from_value);
            let lanes: Vec<RoundLane> = lanes.map(Result::unwrap).collect();
            let round_began = tokio::time::Instant::now();
            join_all(lanes.iter().map(|lane| replay.lane(lane, None, &IdleOperator))).await;
            rounds += round_began.elapsed();
            let of = ReplayResumption { id: turn.id.clone(), holder: turn.holder.clone() };
            turn = replay.next_turn(&of, workers, None, &IdleOperator).await.unwrap();
        }
        assert_eq!(turn.replay.counts.sent, LATENCY_BOUND_LETTERS as u64);
        (began.elapsed(), rounds)
    })
}

/// Returns the seconds and the requests of a dry run.
fn dry_run() -> (f64, usize) {
    let aws = account(SimClock::real(), COUNTED, COUNTED / OBJECTS, 24, 0);
    let door = aws.listen(&Caller::new("worker")).unwrap();
    let url = door.url();
    let clients = AwsClients::from_environment(|name| match name {
        "AWS_ENDPOINT_URL" => Some(url.clone()),
        "AWS_REGION" => Some(redrive_sim::REGION.to_owned()),
        "AWS_ACCESS_KEY_ID" => Some("AKIDEXAMPLE".to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some("secret".to_owned()),
        _ => None,
    });
    let replay = replay(&aws, clients.unwrap(), 4);
    let request = ReplayRequest::from_json(json!({ "all": true, "dryRun": true })).unwrap();
    let _ = aws.take_journal();
    let began = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let state =
        runtime.block_on(replay.dry_run(&request, &ReplaySource::Archive, None, &IdleOperator)).unwrap();
    assert_eq!(state.counts.sent, COUNTED as u64);
    let requests = aws.take_journal().iter().filter(|it| matches!(it.event, SimEvent::Called(_))).count();
    (began.elapsed().as_secs_f64(), requests)
}

fn replay(aws: &SimAws, clients: AwsClients, workers: usize) -> ArchiveReplayer {
    let clock = aws.clock().clone();
    ArchiveReplayer::new(ReplayEnvironment {
        clients,
        bucket: BUCKET.to_owned(),
        prefix: "dead-letters".to_owned(),
        control_bucket: BUCKET.to_owned(),
        control_prefix: "dead-letters-control".to_owned(),
        requeue: redrive_sim::arn("sqs", REQUEUE).parse().unwrap(),
        clock: redrive_aws::clock::InstanceClock::from_fn(move || clock.now()),
        by: "bench".to_owned(),
        workers,
    })
}

/// Creates clients without a socket.
fn connected(aws: &SimAws) -> AwsClients {
    let credentials = Credentials::new("AKIDEXAMPLE", "secret", None, None, "bench");
    let config = aws_types::SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(redrive_sim::REGION))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(aws.connector(&Caller::new("worker")))
        .build();
    AwsClients::from_config(&config, false)
}

#[expect(clippy::cast_precision_loss, reason = "some thousands")]
fn count(number: usize) -> f64 {
    number as f64
}

/// Creates an account whose archive has letters over so many hours. Letters without bytes are only counted
/// and have no lines.
fn account(clock: SimClock, letters: usize, an_object: usize, hours: usize, bytes: usize) -> SimAws {
    let aws = SimAws::new(clock, 1);
    aws.set_faults(FaultHook::new(|_| SimFault::Pass.after(LATENCY)));
    let began = aws.clock().now() - Duration::from_hours(24 * 6);
    let objects = letters / an_object;
    let between = Duration::from_hours(hours as u64) / u32::try_from(objects).unwrap();
    aws.act("bench", |it, cx| {
        it.s3.create(BUCKET);
        let tags = [("sns-redrive".to_owned(), "requeue".to_owned())].into();
        it.sqs.create(QUEUE, QueueSettings::default());
        it.sqs.create(REQUEUE, QueueSettings { tags, retention: 1_209_600, ..QueueSettings::default() });
        for object in 0..objects {
            let at = began + between * u32::try_from(object).unwrap();
            let time = at.to_zoned(TimeZone::UTC);
            let (date, time) = (time.strftime("%Y-%m-%d"), time.strftime("%Y%m%dT%H%M%SZ"));
            let name = format!("{time}-{object:06}.2-n{an_object}-r0.jsonl");
            let key = format!("dead-letters/queue={QUEUE}/date={date}/{name}");
            let first = object * an_object;
            let lines = if bytes > 0 { first..first + an_object } else { 0..0 };
            let text: String = lines.map(|number| line(number, at, bytes)).collect();
            it.s3.place((BUCKET, &key), text.as_bytes(), cx.now - 3_600_000);
        }
    });
    aws
}

/// Returns a letter as a line of the archive.
fn line(number: usize, at: Timestamp, bytes: usize) -> String {
    let envelope = |message: &str| {
        json!({
            "Type": "Notification",
            "MessageId": format!("512a856d-6e86-45b6-a7a3-{number:012x}"),
            "TopicArn": redrive_sim::arn("sns", "payments"),
            "Message": message,
            "Timestamp": "2026-11-01T11:59:58.351Z",
            "SignatureVersion": "1",
            "Signature": "c2FtcGxl".repeat(43),
            "SigningCertURL": "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem",
            "UnsubscribeURL": format!("https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn={}",
                redrive_sim::arn("sns", "payments:43fe80b0-b10c-4081-9e18-5bdb8f9824e6")),
        })
        .to_string()
    };
    let body = envelope(&"x".repeat(bytes.saturating_sub(envelope("").len())));
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
        "eventSourceARN": redrive_sim::arn("sqs", QUEUE),
        "awsRegion": redrive_sim::REGION,
    }] });
    let now = Timestamp::UNIX_EPOCH;
    let message = SqsMessage::all_of(serde_json::from_value(event).unwrap(), now).unwrap().remove(0);
    let context = ArchiveContext {
        reason: ArchiveReason::Exhausted,
        detail: None,
        rule: "default".to_owned(),
        target: None,
        retry: None,
        failure: None,
        override_id: None,
    };
    ArchiveRecord::of(&Letter::parse(message), &context, at).to_line().unwrap()
}
