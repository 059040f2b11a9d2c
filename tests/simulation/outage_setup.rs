//! An outage that the real function lives through: letters for several endpoints, one of which hangs, refuses or
//! throttles. The time is virtual.

use std::cell::RefCell;
use std::collections::VecDeque;
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
use redrive_sim::sqs::{QueueRedrive, QueueSettings, ReceiveRequest};
use redrive_sim::{
    AwsService, Caller, FaultHook, SandboxClock, SimAws, SimCall, SimClock, SimEntry, SimFault, SimMillis,
    WebAnswer, arn,
};
use serde_json::{Value, json};
use sns_redrive::function::RedriveFunction;

use crate::attempts_log::AttemptsLog;
use crate::live::{own_patience, sdk_config, servers};
use crate::outage_result::OutageResult;
use crate::world::{HOUR, SECOND};

const DLQ: &str = "dlq";
const CONTROL: &str = "control";

/// How the text of every letter begins, before its number and a dot.
const TOKEN: &str = "letter-";

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

/// What becomes of the list of waiting letters and of the document of recoveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutageList {
    On,
    /// `WAITING_LIST=off`.
    Off,
    /// S3 denies every call for them. The overrides can be read.
    Denied,
    /// S3 denies these calls and those for the overrides.
    AllDenied,
    /// Every call for them takes so long.
    Slow(Duration),
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
    /// During the outage the endpoint works at the end of each so long time for so long.
    pub works: Option<(SimMillis, SimMillis)>,
    /// The number of requests that the first endpoint takes in a second after its outage. It throttles all others.
    pub most: Option<usize>,
    /// The time before which the worker of the queues fails with each letter, so that SQS moves it to the dead-letter queue: an
    /// endpoint that accepts everything, and gives it back. Without it nobody reads the queues.
    pub worker_fails_until: Option<SimMillis>,
    pub letters: usize,
    /// The time between their arrivals.
    pub apart: SimMillis,
    pub list: OutageList,
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

    /// Returns the group of a letter, of fifty for each endpoint.
    pub fn group(self, number: usize) -> String {
        format!("group-{}-{}", number % self.endpoints, number / self.endpoints % 50)
    }

    fn letter(self, number: usize) -> SimEntry {
        let endpoint = number % self.endpoints;
        let subscription = self.subscription(endpoint).arn;
        let link = format!(
            "https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn={subscription}"
        );
        let body = json!({
            "Type": "Notification", "MessageId": format!("message-{number}"),
            "Message": format!("{TOKEN}{number}."),
            "TopicArn": arn("sns", &self.topic(endpoint)), "Timestamp": "2026-11-01T11:59:58.351Z",
            "UnsubscribeURL": link,
        });
        let entry = SimEntry::new("", body.to_string());
        if self.fifo { entry.fifo(&self.group(number), &format!("letter-{number}")) } else { entry }
    }

    fn furnish(self, aws: &SimAws, start: SimMillis) {
        let queue = QueueSettings { visibility: 360, ..QueueSettings::default() };
        aws.act("world", |it, _| {
            it.s3.create("archive");
            it.s3.create(CONTROL);
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
                    OutageTarget::Queue => {
                        let redrive = QueueRedrive { queue: self.dlq(), max_receives: 1 };
                        let redrive = self.worker_fails_until.map(|_| redrive);
                        it.sqs.create(&name, QueueSettings { redrive, ..queue.clone() });
                    }
                    OutageTarget::Topic => {}
                }
            }
        });
    }

    /// Returns the fault of the first endpoint at a moment.
    fn fault_at(self, at: SimMillis) -> Option<OutageFault> {
        let (how, _) = self.outage.filter(|(_, until)| at < *until)?;
        let works = self.works.is_some_and(|(every, lasts)| at % every >= every - lasts);
        (!works).then_some(how)
    }

    /// Returns the fault of a call, and records the letters that are taken by it.
    fn fault(self, call: &SimCall, at: SimMillis, story: &Mutex<OutageStory>) -> SimFault {
        if !call.caller.starts_with("fn-") {
            return SimFault::Pass;
        }
        let sends = ["POST", "Invoke", "SendMessageBatch", "PublishBatch"].contains(&call.operation.as_str());
        let endpoint = (0..self.endpoints).find(|endpoint| self.name(*endpoint) == call.target);
        let Some(endpoint) = endpoint.filter(|_| sends) else {
            return self.fault_of_list(call).after(Duration::from_millis(10));
        };
        let throttle = || match call.service {
            AwsService::Web => SimFault::Nonsense(429, String::new()),
            _ => SimFault::Throttle,
        };
        let story = &mut *story.lock().unwrap();
        let fault = self.fault_at(at).filter(|_| endpoint == 0);
        if fault.is_some() {
            story.result.in_vain.push(at);
        }
        match fault {
            Some(OutageFault::Asks(_)) => SimFault::Pass.after(self.takes),
            Some(OutageFault::Hangs) => SimFault::HangBefore,
            Some(OutageFault::Refuses) => SimFault::NoConnection,
            Some(OutageFault::Throttles) => throttle(),
            None if endpoint == 0 && !self.has_room(&mut story.lately, at) => throttle().after(self.takes),
            None => {
                story.result.letters.extend(numbers(call).into_iter().map(|number| (at, number)));
                SimFault::Pass.after(self.takes)
            }
        }
    }

    /// Reports whether an endpoint that took requests at these moments takes one more.
    fn has_room(self, lately: &mut VecDeque<SimMillis>, at: SimMillis) -> bool {
        let Some(most) = self.most else { return true };
        while lately.front().is_some_and(|first| at - first >= SECOND) {
            lately.pop_front();
        }
        let has_room = lately.len() < most;
        if has_room {
            lately.push_back(at);
        }
        has_room
    }

    fn fault_of_list(self, call: &SimCall) -> SimFault {
        let is_control = call.service == AwsService::S3 && call.target.starts_with(CONTROL);
        let is_override = call.target.ends_with("overrides.json");
        match self.list {
            OutageList::AllDenied if is_control => SimFault::Denied,
            OutageList::Denied if is_control && !is_override => SimFault::Denied,
            OutageList::Slow(wait) if is_control && !is_override => SimFault::Pass.after(wait),
            _ => SimFault::Pass,
        }
    }

    /// Runs until the end, and tells all.
    pub fn tell(self) -> OutageResult {
        fastrand::seed(1);
        let log = AttemptsLog::default();
        let _guard = tracing::subscriber::set_default(log.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let result = runtime.unwrap().block_on(self.lives());
        OutageResult { attempts: log.attempts(), unplanned: log.unplanned(), ..result }
    }

    async fn lives(self) -> OutageResult {
        let aws = SimAws::new(SimClock::tokio("2026-11-01T12:00:00Z".parse().unwrap()), 1);
        let (start, clock) = (aws.clock().millis(), aws.clock().clone());
        let story = Arc::new(Mutex::new(OutageStory::default()));
        let seen = Arc::clone(&story);
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
                story.lock().unwrap().result.arrived.push(aws.clock().millis() - start);
                aws.act("sns", |it, cx| it.sqs.send_message(cx, &self.dlq(), &letter)).unwrap();
            }
            std::future::pending::<()>().await;
        };
        let work = async {
            while let Some(until) = self.worker_fails_until {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let now = aws.clock().millis() - start;
                let done = self.work(&aws, now < until).map(|number| (now, number));
                story.lock().unwrap().result.worked.extend(done);
            }
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
                // An hour of letters makes millions of records.
                drop(aws.take_journal());
                MappingOutcome::Answer(serde_json::to_string(&answer).unwrap())
            })
        };
        let all = async { tokio::join!(arrive, work, mapping.run(handler)) };
        let _ = tokio::time::timeout(Duration::from_millis(u64::try_from(self.end).unwrap()), all).await;
        let mut result = story.lock().unwrap().result.clone();
        result.taken = result.taken_by(self.endpoints);
        aws.act("world", |it, _| {
            let objects = it.s3.objects("archive").into_iter().flatten();
            for (_, object) in objects.filter(|(key, _)| key.starts_with("letters/")) {
                for line in String::from_utf8_lossy(&object.bytes).lines() {
                    let record: Value = serde_json::from_str(line).unwrap();
                    result.archived.push(record["reason"].as_str().unwrap().to_owned());
                }
            }
        });
        result
    }

    /// Lets the worker of the queues receive what is there. Returns the numbers of the letters that it is done with.
    fn work(self, aws: &SimAws, fails: bool) -> impl Iterator<Item = usize> {
        let mut done = Vec::new();
        aws.act("worker", |it, cx| {
            for endpoint in 0..self.endpoints {
                let queue = self.name(endpoint);
                let receive =
                    || ReceiveRequest { at_most: 10, visibility: Some(1), ..ReceiveRequest::default() };
                loop {
                    let received = it.sqs.receive_message(cx, &queue, receive()).unwrap();
                    if received.is_empty() {
                        break;
                    }
                    for message in received.iter().filter(|_| !fails) {
                        it.sqs.delete_message(cx, &queue, &message.handle).unwrap();
                        done.extend(number(&message.payload.body));
                    }
                }
            }
        });
        done.into_iter()
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
            "CONTROL" => Some(format!("s3://{CONTROL}/redrive")),
            "WAITING_LIST" if self.list == OutageList::Off => Some("off".to_owned()),
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

/// What is known while it happens.
#[derive(Debug, Default)]
struct OutageStory {
    result: OutageResult,
    /// The moments of the last second at which the first endpoint took a request.
    lately: VecDeque<SimMillis>,
}

/// Returns the number of the letter with this text.
fn number(text: &str) -> Option<usize> {
    text.split_once(TOKEN)?.1.split_once('.')?.0.parse().ok()
}

/// Returns the numbers of the letters that a request sends.
fn numbers(call: &SimCall) -> Vec<usize> {
    if call.entries.is_empty() {
        return number(&String::from_utf8_lossy(&call.body)).into_iter().collect();
    }
    call.entries.iter().filter_map(|entry| number(&entry.body)).collect()
}
