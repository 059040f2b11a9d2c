//! A world: everything that one seed decides.

use redrive_core::policy::{Jitter, OverrideAction, Schedule};
use redrive_sim::{SimMillis, arn};
use serde_json::json;

pub const SECOND: SimMillis = 1_000;
pub const MINUTE: SimMillis = 60 * SECOND;
pub const HOUR: SimMillis = 60 * MINUTE;

/// The names in the stories.
pub const DLQ: &str = "dlq";
pub const REQUEUE: &str = "requeue";
pub const ARCHIVE: &str = "archive";
pub const TOPIC: &str = "payments";

/// The circumstances of a story. Times count from its beginning, in milliseconds.
#[derive(Debug, Clone)]
pub struct SeededWorld {
    pub seed: u64,
    pub fifo: bool,
    /// `true` if the topic is FIFO and its queues are not.
    pub fifo_topic: bool,
    pub source: SeededSource,
    pub target: SeededTarget,
    pub schedule: Schedule,
    pub jitter: f64,
    /// The `maxReceivesPerSecond`.
    pub rate: Option<u32>,
    /// The `MAX_HIDE_SECONDS`.
    pub ceiling: u64,
    pub queue: SeededQueue,
    pub mapping: SeededMapping,
    /// The number of letters in flight that counts as SQS's limit, if there is a requeue.
    pub requeue: Option<u64>,
    /// `true` if a failing head of a FIFO group moves to the requeue, and its group goes on.
    pub steps_aside: bool,
    pub archive: ArchiveKind,
    pub archive_weather: Vec<SeededOutage>,
    pub subscribers: Vec<SeededSubscriber>,
    /// `true` if the function searches for the subscription of raw letters.
    pub discovers: bool,
    pub letters: Vec<SeededMessage>,
    /// The letters whose content every target refuses for good, and how.
    pub bad: Vec<usize>,
    pub refusal: SeededRefusal,
    pub trouble: SeededFaultRates,
    pub operator: SeededOperator,
    /// The call of the function at which its instance dies, counted from 0, and whether the call has its
    /// effect.
    pub cut_at: Option<(usize, bool)>,
}

/// What puts the letters into the dead-letter queue. If it is not SNS, there is one subscriber: the queue that
/// they come from, or the function that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeededSource {
    /// SNS, for a subscription.
    Topic,
    /// SQS, from a queue.
    Queue,
    /// Lambda, from asynchronous invocations, into the function's dead-letter queue.
    Function,
    /// Lambda, as records of them, into the destination for failures.
    Destination,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeededTarget {
    Origin,
    Topic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveKind {
    Bucket,
    Queue,
}

#[derive(Debug, Clone)]
pub struct SeededQueue {
    /// The retention in seconds.
    pub retention: u64,
    /// The visibility timeout in seconds.
    pub visibility: u64,
    pub whole_group: bool,
    /// The number of receives or deletes, of 10,000, that leave a copy.
    pub duplicates: u16,
    /// The age of readings.
    pub lag: SimMillis,
    pub old_handles: OldHandles,
}

/// What a standard queue does with an old receipt handle while a later receive hides the message. That it shows
/// the message was recorded, the rest is anybody's guess.
#[derive(Debug, Clone, Copy)]
pub struct OldHandles {
    pub show: bool,
    pub hide: bool,
    pub delete: bool,
}

/// How a service refuses the content of a message.
#[derive(Debug, Clone, Copy)]
pub struct SeededRefusal {
    /// `true` if it refuses the whole request for it, as SNS does.
    pub whole: bool,
    /// The number of the error code.
    pub form: usize,
}

#[derive(Debug, Clone)]
pub struct SeededMapping {
    pub batch: usize,
    /// The batching window in seconds.
    pub window: u64,
    pub concurrency: usize,
    /// The function's timeout in seconds.
    pub timeout: u64,
    /// The time by which the clock of each instance is ahead. Instances take them in turn.
    pub skews: Vec<SimMillis>,
    /// The moment from which on no clock is ahead or behind: those that were ahead are set back.
    pub set_right: Option<SimMillis>,
    /// `true` if the monotonic clock of an instance stands still between its invocations.
    pub freezes: bool,
    /// The spans in which it is off: each batch is then throttled, or nothing is received.
    pub off: Vec<(SimMillis, SimMillis)>,
    /// `true` if it receives nothing while it is off.
    pub is_disabled: bool,
}

impl SeededMapping {
    /// Returns by how much a clock with this skew is ahead at a moment of the story.
    pub fn skew_at(&self, skew: SimMillis, at: SimMillis) -> SimMillis {
        if self.set_right.is_some_and(|moment| at >= moment) { 0 } else { skew }
    }
}

/// A subscription of the topic that fails at first.
#[derive(Debug, Clone)]
pub struct SeededSubscriber {
    pub kind: SeededSubscriberKind,
    pub raw: bool,
    /// The `Retry-After` of a web server that throttles, in seconds.
    pub retry_after: Option<u64>,
    /// SNS's answer about the subscription once its letters are in the queue.
    pub state: SeededSubscriberState,
    pub weather: Vec<SeededOutage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeededSubscriberKind {
    Queue,
    Function,
    Stream,
    Server,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeededSubscriberState {
    Confirmed,
    /// It names another dead-letter queue.
    Elsewhere,
    Pending,
    Gone,
}

/// A time in which a service has a fault.
#[derive(Debug, Clone, Copy)]
pub struct SeededOutage {
    pub from: SimMillis,
    pub to: SimMillis,
    pub how: SeededFault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeededFault {
    Down,
    Refused,
    Throttled,
    Denied,
    Hangs,
    /// It takes seven and a half seconds.
    Slow,
    /// It works, but its answer is lost.
    Mute,
    /// Each entry of a batch fails.
    EachFails,
    /// It will never take this message.
    Never,
}

/// A published message, which is a letter for each subscriber.
#[derive(Debug, Clone, Copy)]
pub struct SeededMessage {
    pub at: SimMillis,
    pub group: u32,
}

/// The actions of an operator.
#[derive(Debug, Clone, Default)]
pub struct SeededOperator {
    /// The documents of overrides, in order. Each is valid until the next one.
    pub writes: Vec<(SimMillis, SeededDocument)>,
    /// The times at which every letter of every list of waiting letters is woken, even with old handles.
    pub wakes: Vec<SimMillis>,
    /// `true` if all overrides are retries, and letters are woken only while they are in force.
    pub only_retries: bool,
}

#[derive(Debug, Clone, Copy)]
pub enum SeededDocument {
    Override(SeededOverride),
    /// It cannot be read.
    Broken,
    Empty,
}

/// An override, given when its document is written.
#[derive(Debug, Clone, Copy)]
pub struct SeededOverride {
    pub action: OverrideAction,
    /// Its letter. `None` for all letters.
    pub letter: Option<usize>,
    /// The time for which it is in force.
    pub lasts: Option<SimMillis>,
}

/// The faults that occur now and then, in per cent of calls or batches.
#[derive(Debug, Clone, Copy, Default)]
pub struct SeededFaultRates {
    /// Batches that Lambda throttles.
    pub throttled: u8,
    /// Calls of the function at which its instance dies.
    pub cut: u8,
    /// Calls that hide letters.
    pub hide_fails: u8,
    /// Deletions by the mapping.
    pub delete_fails: u8,
    /// Deliveries whose answer is lost.
    pub lost: u8,
    /// Calls that take some seconds.
    pub slow: u8,
    /// Calls that archive letters.
    pub archive_fails: u8,
    /// Calls that read the attributes of queues and subscriptions.
    pub reads_fail: u8,
    /// No queue tells its attributes before this time.
    pub unread_until: SimMillis,
    /// Calls that ask SNS about a subscription and are never answered.
    pub lookups_hang: u8,
}

impl SeededOutage {
    pub fn is_on(&self, at: SimMillis) -> bool {
        (self.from..self.to).contains(&at)
    }
}

/// Returns the current outage.
pub fn weather(all: &[SeededOutage], at: SimMillis) -> Option<SeededFault> {
    all.iter().find(|outage| outage.is_on(at)).map(|outage| outage.how)
}

impl SeededWorld {
    /// Reports whether somebody gives overrides or wakes letters.
    pub fn is_operated(&self) -> bool {
        !self.operator.writes.is_empty() || !self.operator.wakes.is_empty()
    }

    /// Reports whether a copy of a letter can leave more copies.
    pub fn forks(&self) -> bool {
        self.target == SeededTarget::Topic || self.requeue.is_some()
    }

    /// Reports whether the archive refuses bad content: in SQS, and if letters that it refuses for days end soon.
    pub fn archive_refuses(&self) -> bool {
        self.archive == ArchiveKind::Queue && self.queue.retention <= 86_400
    }

    /// Reports whether anything is slow.
    pub fn hangs(&self) -> bool {
        let of_targets = self.subscribers.iter().flat_map(|one| &one.weather);
        let mut weather = of_targets.chain(&self.archive_weather);
        weather.any(|outage| matches!(outage.how, SeededFault::Hangs | SeededFault::Slow | SeededFault::Mute))
            || self.trouble.slow > 0
            || self.trouble.lookups_hang > 0
    }

    /// Returns the redrive policy.
    pub fn policy(&self) -> String {
        let Schedule { min, max, retries, no_delay, min_delay, max_delay, backoff } = self.schedule;
        let mut policy = json!({ "default": {
            "target": if self.target == SeededTarget::Topic { "topic" } else { "origin" },
            "deliveryPolicy": { "healthyRetryPolicy": {
                "minDelayTarget": min, "maxDelayTarget": max, "numRetries": retries,
                "numNoDelayRetries": no_delay, "numMinDelayRetries": min_delay,
                "numMaxDelayRetries": max_delay, "backoffFunction": backoff.name(),
            } },
            "jitter": self.jitter,
        } });
        if let [one] = self.subscribers.as_slice()
            && one.raw
        {
            let named = format!("{}:subscription-0", arn("sns", &self.topic()));
            policy["default"]["subscription"] = if self.discovers { "discover".into() } else { named.into() };
        }
        match self.source {
            SeededSource::Topic | SeededSource::Queue => {}
            // Such a letter does not name its function.
            SeededSource::Function => {
                policy["origins"] = json!({ "*": ["lambda-async"] });
                policy["default"]["target"] =
                    arn("lambda", &format!("function:{}", endpoint(self, 0))).into();
            }
            SeededSource::Destination => policy["origins"] = json!({ "*": ["lambda-destination"] }),
        }
        if self.steps_aside {
            policy["default"]["fifo"] = "step-aside".into();
        }
        if let Some(rate) = self.rate {
            policy["default"]["deliveryPolicy"]["throttlePolicy"] = json!({ "maxReceivesPerSecond": rate });
        }
        policy.to_string()
    }

    /// Returns the longest and the shortest wait before a retry.
    pub fn wait(&self, retry: u32) -> (SimMillis, SimMillis) {
        let wait = self.schedule.wait(retry, &Jitter::NONE).unwrap_or(0);
        let longest = SimMillis::try_from(wait).unwrap() * SECOND;
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "some days")]
        let shortest = (longest as f64 * (1.0 - self.jitter)) as SimMillis;
        (longest, shortest)
    }

    /// Returns the longest wait before any retry, with the pause that a web server may ask for.
    pub fn longest_wait(&self, subscriber: &SeededSubscriber) -> SimMillis {
        let waits = (1..=self.schedule.retries).map(|retry| self.wait(retry).0).max().unwrap_or(0);
        waits.max(self.pause(subscriber))
    }

    /// Returns the longest pause that the function grants a subscriber.
    pub fn pause(&self, subscriber: &SeededSubscriber) -> SimMillis {
        let asked = subscriber
            .retry_after
            .filter(|_| subscriber.kind == SeededSubscriberKind::Server)
            .unwrap_or(0)
            .min(self.schedule.max.into());
        SimMillis::try_from(asked).unwrap() * SECOND
    }

    /// Returns the greatest difference of a clock, ahead or behind.
    pub fn skew(&self) -> SimMillis {
        self.mapping.skews.iter().map(|skew| skew.abs()).max().unwrap_or(0)
    }

    /// Returns the time before the end of a letter's retention in which it is archived.
    pub fn margin(&self) -> SimMillis {
        SimMillis::try_from(expiry_margin(self.queue.retention)).unwrap() * SECOND
    }

    pub fn retention(&self) -> SimMillis {
        SimMillis::try_from(self.queue.retention).unwrap() * SECOND
    }

    /// Returns the name of the topic.
    pub fn topic(&self) -> String {
        if self.fifo_topic { format!("{TOPIC}.fifo") } else { self.name(TOPIC) }
    }

    /// Returns the name of a queue, by its kind.
    pub fn name(&self, name: &str) -> String {
        if self.fifo { format!("{name}.fifo") } else { name.to_owned() }
    }
}

/// Returns the promised margin before the end of a retention, both in seconds: an hour, or a 24th of a
/// retention of less than a day.
pub fn expiry_margin(retention: u64) -> u64 {
    (retention / 24).min(3_600)
}

/// Returns the name of a subscriber's endpoint.
pub fn endpoint(world: &SeededWorld, subscriber: usize) -> String {
    match world.subscribers[subscriber].kind {
        SeededSubscriberKind::Queue => world.name(&format!("worker-{subscriber}")),
        SeededSubscriberKind::Function => format!("notifier-{subscriber}"),
        SeededSubscriberKind::Stream => format!("stream-{subscriber}"),
        SeededSubscriberKind::Server => format!("server-{subscriber}.example"),
    }
}
