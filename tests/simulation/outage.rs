//! Tests of outages: one dead endpoint starves nobody. The real function has letters for several endpoints,
//! one of which hangs, refuses or throttles. The time is virtual.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::SignedDuration;
use redrive_aws::clients::AwsClients;
use redrive_aws::clock::InstanceClock as FunctionClock;
use redrive_aws::settings::Settings;
use redrive_core::letter::SqsEvent;
use redrive_sim::lambda::{FunctionSettings, SimInvocationResult};
use redrive_sim::mapping::{MappingBatch, MappingOutcome, MappingSettings, SimMapping};
use redrive_sim::sns::{Protocol, SimSubscription, TopicSettings};
use redrive_sim::sqs::QueueSettings;
use redrive_sim::{
    AwsService, Caller, FaultHook, SandboxClock, SimAws, SimCall, SimClock, SimEntry, SimFault, SimMillis,
    WebAnswer, arn,
};
use serde_json::{Value, json};
use sns_redrive::function::RedriveFunction;

use crate::live::{own_patience, sdk_config, servers};
use crate::world::{HOUR, SECOND};

const DLQ: &str = "dlq";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutageTarget {
    Server,
    Function,
    Queue,
    Topic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutageFault {
    Hangs,
    Refuses,
    Throttles,
    /// A web server that answers 503 and asks to be left alone for so many seconds.
    Asks(u64),
}

#[derive(Debug, Clone, Copy)]
pub struct OutageSetup {
    pub kind: OutageTarget,
    pub fifo: bool,
    /// The delivery policy. `None` for the built-in one.
    pub delivery: Option<&'static str>,
    pub endpoints: usize,
    /// The fault of the first endpoint, and its end.
    pub outage: Option<(OutageFault, SimMillis)>,
    pub letters: usize,
    /// The time between their arrivals.
    pub apart: SimMillis,
    pub instances: usize,
    /// `true` if the monotonic clock of an instance stands still between its invocations.
    pub freezes: bool,
    /// The moment before which the wall clock of the instances is an hour ahead.
    pub set_right: Option<SimMillis>,
    /// The time that an endpoint takes for a request.
    pub takes: Duration,
    /// The end of the story.
    pub end: SimMillis,
}

/// The moments at which each endpoint took a letter, from the beginning of the story.
type TakenTimes = Vec<Vec<SimMillis>>;

/// What became of the letters.
#[derive(Debug, Clone, Default)]
pub struct OutageResult {
    pub taken: TakenTimes,
    /// The moments of requests to the first endpoint during its outage.
    pub in_vain: Vec<SimMillis>,
    /// The reasons why letters were archived.
    pub archived: Vec<String>,
}

impl OutageSetup {
    /// Returns by how much the wall clock of the instances is ahead.
    fn ahead(self, at: SimMillis) -> SimMillis {
        if self.set_right.is_some_and(|until| at < until) { HOUR } else { 0 }
    }

    fn dlq(self) -> String {
        if self.fifo { format!("{DLQ}.fifo") } else { DLQ.to_owned() }
    }

    fn topic(self, endpoint: usize) -> String {
        format!("topic-{endpoint}{}", if self.fifo { ".fifo" } else { "" })
    }

    /// Returns the name of the endpoint in the function's calls.
    fn name(self, endpoint: usize) -> String {
        match self.kind {
            OutageTarget::Server => format!("server-{endpoint}.example"),
            OutageTarget::Function => format!("function-{endpoint}"),
            OutageTarget::Queue if self.fifo => format!("queue-{endpoint}.fifo"),
            OutageTarget::Queue => format!("queue-{endpoint}"),
            OutageTarget::Topic => self.topic(endpoint),
        }
    }

    fn subscription(self, endpoint: usize) -> SimSubscription {
        let name = self.name(endpoint);
        let (protocol, to) = match self.kind {
            OutageTarget::Server => (Protocol::Http, format!("http://{name}/")),
            OutageTarget::Function => (Protocol::Lambda, arn("lambda", &format!("function:{name}"))),
            OutageTarget::Queue => (Protocol::Sqs, arn("sqs", &name)),
            OutageTarget::Topic => {
                (Protocol::Sqs, arn("sqs", &format!("witness{}", if self.fifo { ".fifo" } else { "" })))
            }
        };
        SimSubscription::new(&self.topic(endpoint), "subscription", protocol, &to).dead_letters(&self.dlq())
    }

    fn letter(self, number: usize) -> SimEntry {
        let endpoint = number % self.endpoints;
        let subscription = self.subscription(endpoint).arn;
        let link = format!(
            "https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn={subscription}"
        );
        let body = json!({
            "Type": "Notification", "MessageId": format!("message-{number}"), "Message": "hello",
            "TopicArn": arn("sns", &self.topic(endpoint)), "Timestamp": "2026-11-01T11:59:58.351Z",
            "UnsubscribeURL": link,
        });
        let entry = SimEntry::new("", body.to_string());
        let group = format!("group-{endpoint}-{}", number / self.endpoints % 50);
        if self.fifo { entry.fifo(&group, &format!("letter-{number}")) } else { entry }
    }

    fn furnish(self, aws: &SimAws, start: SimMillis) {
        let queue = QueueSettings { visibility: 360, ..QueueSettings::default() };
        aws.act("world", |it, _| {
            it.s3.create("archive");
            it.sqs.create(&self.dlq(), queue.clone());
            it.sqs.create(if self.fifo { "witness.fifo" } else { "witness" }, queue.clone());
            for endpoint in 0..self.endpoints {
                let name = self.name(endpoint);
                it.sns.create(&self.topic(endpoint), TopicSettings::default());
                it.sns.subscribe(self.subscription(endpoint));
                match self.kind {
                    OutageTarget::Server => {
                        let clock = aws.clock().clone();
                        it.web.serve(&name, move |_| match self.outage {
                            Some((OutageFault::Asks(seconds), until))
                                if endpoint == 0 && clock.millis() - start < until =>
                            {
                                WebAnswer::status(503).retry_after(seconds)
                            }
                            _ => WebAnswer::status(200),
                        });
                    }
                    OutageTarget::Function => {
                        it.lambda
                            .create(&name, FunctionSettings::default(), |_| SimInvocationResult::ok("null"));
                    }
                    OutageTarget::Queue => it.sqs.create(&name, queue.clone()),
                    OutageTarget::Topic => {}
                }
            }
        });
    }

    /// Returns the fault of a call, and records the letters that are taken by it.
    fn fault(self, call: &SimCall, at: SimMillis, told: &Mutex<OutageResult>) -> SimFault {
        if !call.caller.starts_with("fn-") {
            return SimFault::Pass;
        }
        let sends = ["POST", "Invoke", "SendMessageBatch", "PublishBatch"].contains(&call.operation.as_str());
        let endpoint = (0..self.endpoints).find(|endpoint| self.name(*endpoint) == call.target);
        let Some(endpoint) = endpoint.filter(|_| sends) else {
            return SimFault::Pass.after(Duration::from_millis(10));
        };
        let outage = self.outage.filter(|(_, until)| endpoint == 0 && at < *until);
        if outage.is_some() {
            told.lock().unwrap().in_vain.push(at);
        }
        match outage {
            Some((OutageFault::Asks(_), _)) => SimFault::Pass.after(self.takes),
            Some((OutageFault::Hangs, _)) => SimFault::HangBefore,
            Some((OutageFault::Refuses, _)) => SimFault::NoConnection,
            Some((OutageFault::Throttles, _)) if call.service == AwsService::Web => {
                SimFault::Nonsense(429, String::new())
            }
            Some((OutageFault::Throttles, _)) => SimFault::Throttle,
            None => {
                let letters = std::iter::repeat_n(at, call.entries.len().max(1));
                told.lock().unwrap().taken[endpoint].extend(letters);
                SimFault::Pass.after(self.takes)
            }
        }
    }

    /// Runs until the end.
    fn live(self) -> TakenTimes {
        self.tell().taken
    }

    /// Runs until the end, and tells all.
    pub fn tell(self) -> OutageResult {
        fastrand::seed(1);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(self.lives())
    }

    async fn lives(self) -> OutageResult {
        let aws = SimAws::new(SimClock::tokio("2026-11-01T12:00:00Z".parse().unwrap()), 1);
        let (start, clock) = (aws.clock().millis(), aws.clock().clone());
        let told = OutageResult { taken: vec![Vec::new(); self.endpoints], ..OutageResult::default() };
        let told = Arc::new(Mutex::new(told));
        let seen = Arc::clone(&told);
        aws.set_faults(FaultHook::new(move |call| self.fault(call, clock.millis() - start, &seen)));
        self.furnish(&aws, start);
        let settings =
            MappingSettings { concurrency: self.instances, ..MappingSettings::new(&self.dlq(), "redrive") };
        let mapping = SimMapping::new(&aws, settings);
        let idle = RefCell::new(
            (0..self.instances).map(|number| self.instance(&aws, number, start)).collect::<Vec<_>>(),
        );
        let arrive = async {
            for number in 0..self.letters {
                tokio::time::sleep(Duration::from_millis(u64::try_from(self.apart).unwrap())).await;
                let letter = self.letter(number);
                aws.act("sns", |it, cx| it.sqs.send_message(cx, &self.dlq(), &letter)).unwrap();
            }
            std::future::pending::<()>().await;
        };
        let handler = |batch: MappingBatch| {
            let (idle, aws) = (&idle, &aws);
            Box::pin(async move {
                let (instance, monotonic) = idle.borrow_mut().pop().unwrap();
                monotonic.thaw();
                let event: SqsEvent = serde_json::from_str(&batch.event).unwrap();
                let now = aws.clock().millis() - start;
                let deadline = u64::try_from(batch.deadline + self.ahead(now)).unwrap();
                let answer = instance.handle(event, &batch.request_id, deadline).await.unwrap();
                if self.freezes {
                    monotonic.freeze();
                }
                idle.borrow_mut().push((instance, monotonic));
                MappingOutcome::Answer(serde_json::to_string(&answer).unwrap())
            })
        };
        let all = async { tokio::join!(arrive, mapping.run(handler)) };
        let _ = tokio::time::timeout(Duration::from_millis(u64::try_from(self.end).unwrap()), all).await;
        let mut told = told.lock().unwrap().clone();
        aws.act("world", |it, _| {
            let objects = it.s3.objects("archive").into_iter().flatten();
            for (_, object) in objects.filter(|(key, _)| key.starts_with("letters/")) {
                for line in String::from_utf8_lossy(&object.bytes).lines() {
                    let record: Value = serde_json::from_str(line).unwrap();
                    told.archived.push(record["reason"].as_str().unwrap().to_owned());
                }
            }
        });
        told
    }

    fn instance(self, aws: &SimAws, number: usize, start: SimMillis) -> (RedriveFunction, SandboxClock) {
        let caller = Caller::new(&format!("fn-{number}"));
        let clients = own_patience(&AwsClients::from_config(&sdk_config(aws, &caller), false));
        let target = if self.kind == OutageTarget::Topic { "topic" } else { "origin" };
        let mut policy = json!({ "default": { "target": target } });
        if let Some(delivery) = self.delivery {
            policy["default"]["deliveryPolicy"] = serde_json::from_str(delivery).unwrap();
        }
        let policy = policy.to_string();
        let settings = Settings::read(|name: &str| match name {
            "REDRIVE_POLICY" => Some(policy.clone()),
            "ARCHIVE" => Some("s3://archive/letters".to_owned()),
            "MAX_CONCURRENCY" => Some(self.instances.to_string()),
            _ => None,
        });
        let (clock, monotonic) = (aws.clock().clone(), SandboxClock::default());
        let ticks = monotonic.clone();
        let wall = move || {
            let ahead = self.ahead(clock.millis() - start);
            clock.now() + SignedDuration::from_millis(ahead)
        };
        let clock = FunctionClock::from_fns(wall, move || ticks.elapsed());
        let function = RedriveFunction::new(settings.unwrap(), clients, clock, Arc::new(|_| {}));
        let servers = servers(aws, &caller);
        (function.map_redrive(|redrive| redrive.with_http(servers)), monotonic)
    }
}

/// Returns the number of letters that endpoints took within a time.
fn count<'t>(taken: impl IntoIterator<Item = &'t Vec<SimMillis>>, from: SimMillis, to: SimMillis) -> usize {
    taken.into_iter().flatten().filter(|at| (from..to).contains(*at)).count()
}

/// There are a hundred and fifty letters, a fifth of them for a server that takes connections and never
/// answers.
#[test]
fn letters_for_others_arrive_within_twenty_seconds_though_one_server_hangs() {
    let setup = OutageSetup {
        kind: OutageTarget::Server,
        fifo: false,
        delivery: None,
        endpoints: 5,
        outage: Some((OutageFault::Hangs, SimMillis::MAX)),
        letters: 150,
        apart: 0,
        instances: 2,
        freezes: true,
        set_right: None,
        takes: Duration::from_millis(50),
        end: 60 * SECOND,
    };
    let taken = setup.live();
    let last = taken.iter().flatten().max().copied();
    println!("the last one after {last:?} ms");
    assert_eq!(taken.iter().map(Vec::len).sum::<usize>(), 120);
    assert!(last.is_some_and(|last| last < 20 * SECOND), "the last one at {last:?}");
}

/// Returns letters for ten endpoints, which keep one instance busy for three quarters of its time.
fn load(kind: OutageTarget, fifo: bool, outage: Option<(OutageFault, SimMillis)>) -> OutageSetup {
    OutageSetup {
        kind,
        fifo,
        delivery: None,
        endpoints: 10,
        outage,
        letters: 1_500,
        // A batch from a FIFO queue has letters of few groups, which go one after the other.
        apart: if fifo { 500 } else { 70 },
        instances: 1,
        freezes: true,
        set_right: None,
        takes: Duration::from_millis(500),
        end: 90 * SECOND,
    }
}

#[test]
fn after_a_minute_the_others_have_nine_tenths_of_their_undisturbed_throughput() {
    let kinds = [OutageTarget::Server, OutageTarget::Function, OutageTarget::Queue, OutageTarget::Topic];
    for (kind, fifo) in kinds.iter().flat_map(|kind| [(*kind, false), (*kind, true)]) {
        let others = |outage| count(&load(kind, fifo, outage).live()[1..], 60 * SECOND, 90 * SECOND);
        let undisturbed = others(None);
        assert!(undisturbed > if fifo { 45 } else { 360 }, "{kind:?} {undisturbed}");
        for how in [OutageFault::Hangs, OutageFault::Refuses, OutageFault::Throttles] {
            let disturbed = others(Some((how, SimMillis::MAX)));
            println!("{kind:?}, FIFO {fifo}, {how:?}: {disturbed} of {undisturbed}");
            assert!(
                10 * disturbed >= 9 * undisturbed,
                "{kind:?} {fifo} {how:?}: {disturbed} of {undisturbed}"
            );
        }
    }
}

/// There are ten letters a second, one for each endpoint.
#[test]
fn a_minute_after_its_recovery_an_endpoint_has_its_full_rate() {
    let kinds = [OutageTarget::Server, OutageTarget::Function, OutageTarget::Queue, OutageTarget::Topic];
    let hows = [OutageFault::Hangs, OutageFault::Refuses, OutageFault::Throttles];
    let standard = kinds.iter().flat_map(|kind| hows.map(|how| (*kind, how, false)));
    for (kind, how, fifo) in standard.chain(kinds.map(|kind| (kind, OutageFault::Hangs, true))) {
        let back = 45 * SECOND;
        // Letters of a FIFO group go one after the other, so there are fewer.
        let (apart, least) = if fifo { (SECOND / 2, 2) } else { (SECOND / 10, 15) };
        let setup = OutageSetup { apart, end: back + 80 * SECOND, ..load(kind, fifo, Some((how, back))) };
        let taken = setup.live();
        let rate = |endpoint: usize| count([&taken[endpoint]], back + 60 * SECOND, setup.end);
        let (full, it) = (rate(1), rate(0));
        println!("{kind:?}, FIFO {fifo}, {how:?}: {it} of {full}");
        assert!(full > least && it >= full, "{kind:?} {fifo} {how:?}: {it} of {full}");
    }
}

/// The server has not been seen alive, and its answers take three seconds, so that only every second trial is long
/// enough. Another server takes its letters.
#[test]
fn six_minutes_after_its_recovery_a_slow_server_has_its_full_rate() {
    for back in [45, 200, 460] {
        let setup = OutageSetup {
            endpoints: 2,
            apart: SECOND,
            takes: Duration::from_secs(3),
            end: (back + 420) * SECOND,
            ..load(OutageTarget::Server, false, Some((OutageFault::Hangs, back * SECOND)))
        };
        let taken = setup.live();
        let rate = |endpoint: usize| count([&taken[endpoint]], (back + 360) * SECOND, setup.end);
        let (full, it) = (rate(1), rate(0));
        assert!(full > 25 && it >= full, "{back}: {it} of {full}");
    }
}
