//! A queue, a requeue, Lambda's mappings, a subscriber, and trouble.

use std::ops::RangeInclusive;

use redrive_core::policy::{Jitter, Policy, Schedule};
use redrive_sim_queue::QueueSettings;
use serde_json::json;

use super::operator::ModelOperator;
use super::{ModelMillis, seconds};

pub(super) const DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-dlq";
pub(super) const REQUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-requeue";

/// The plan of a letter that is going to arrive.
#[derive(Debug, Clone, Default)]
pub struct ArrivalPlan {
    pub arrives: ModelMillis,
    /// The subscriber that it goes to: 0 for the first, or one of the others.
    pub to: usize,
    pub group: u32,
    /// True if no attempt ever succeeds.
    pub poison: bool,
    /// The retries behind it by its mark.
    pub spent: u32,
    pub moved: Option<SourceTraces>,
}

/// The traces of a letter's time in the queue that SQS moved it from.
#[derive(Debug, Clone, Copy, Default)]
pub struct SourceTraces {
    /// The time that it lay there.
    pub age: ModelMillis,
    /// True if SQS keeps the time of the first receive.
    pub keeps_first_receive: bool,
}

/// Lambda's mapping of a queue.
#[derive(Debug, Clone)]
pub struct ModelMapping {
    pub batch: usize,
    /// The time between a receive and the function's start.
    pub window: RangeInclusive<ModelMillis>,
    /// The time between becoming visible and the receive.
    pub late: RangeInclusive<ModelMillis>,
    /// The largest number of invocations at once.
    pub instances: u32,
    /// The times when the mapping is off: from, until.
    pub off: Vec<(ModelMillis, ModelMillis)>,
    /// The time that an invocation takes beside its attempts.
    pub takes: ModelMillis,
}

/// The way in which a subscriber fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureStyle {
    /// It refuses at once.
    AtOnce,
    /// It does not answer.
    Hanging,
    /// SNS does not answer about its subscription.
    LookUpHanging,
    /// The certificate of its topic does not come.
    CertificateHanging,
}

/// The target of the letters.
#[derive(Debug, Clone)]
pub struct ModelSubscriber {
    /// The times when it is down: from, until.
    pub outages: Vec<(ModelMillis, ModelMillis)>,
    /// How it fails while it is down.
    pub fails: FailureStyle,
    /// The percentage of attempts that fail at random.
    pub flaky: u8,
    /// The time that an attempt takes.
    pub takes: RangeInclusive<ModelMillis>,
}

impl ModelSubscriber {
    pub fn is_down(&self, now: ModelMillis) -> bool {
        self.outages.iter().any(|(from, until)| (*from..*until).contains(&now))
    }
}

/// The things that go wrong, in per cent.
#[derive(Debug, Clone, Copy, Default)]
pub struct TroubleRates {
    /// A batch is received, and the function does not run.
    pub throttled: u8,
    /// The function dies, somewhere.
    pub crash: u8,
    /// There is no time for a letter.
    pub out_of_time: u8,
    /// A service refuses a whole request, for the content of one of its letters.
    pub refused_whole: u8,
    /// Letters go one a second, and few of them in time.
    pub put_off: bool,
    pub hide_fails: u8,
    /// A letter that is hidden comes back before its time.
    pub comes_back: u8,
    /// A queue does not tell its attributes.
    pub reads_fail: u8,
    /// No queue tells its attributes before this time.
    pub unread_until: ModelMillis,
    pub send_fails: u8,
    pub archive_fails: u8,
    /// A control object cannot be read or written.
    pub control_fails: u8,
}

#[derive(Debug, Clone)]
pub struct ModelWorld {
    pub seed: u64,
    pub schedule: Schedule,
    pub jitter: f64,
    pub ceiling: u64,
    pub fifo: bool,
    pub dlq: QueueSettings,
    pub requeue: Option<QueueSettings>,
    /// The limit in flight that the function believes in.
    pub believed_limit: u64,
    pub step_aside: bool,
    pub letters: Vec<ArrivalPlan>,
    pub subscriber: ModelSubscriber,
    /// The number of letters that it takes in a second. It refuses more.
    pub takes_a_second: Option<u32>,
    /// The `maxReceivesPerSecond` of the policy.
    pub limit: Option<u32>,
    /// Further subscribers, which are web servers.
    pub others: Vec<ModelSubscriber>,
    pub mapping: ModelMapping,
    pub trouble: TroubleRates,
    pub operator: ModelOperator,
    /// True if waiting letters are listed, and woken when their endpoint is back.
    pub listed: bool,
    /// The time that a call for a control object takes.
    pub control_takes: ModelMillis,
    /// True if a topic is told of endpoints that go down or come back.
    pub told: bool,
    /// The time until which the function only observes.
    pub observed_until: ModelMillis,
    /// `SCHEDULE_FROM`.
    pub schedule_from: Option<ModelMillis>,
    /// The time after which nothing is simulated.
    pub until: Option<ModelMillis>,
}

impl ModelWorld {
    pub fn policy(&self) -> Policy {
        let s = &self.schedule;
        let limit = self.limit.or(self.trouble.put_off.then_some(1));
        let throttle = limit.map_or(json!({}), |limit| json!({ "maxReceivesPerSecond": limit }));
        let fifo = if self.step_aside { "step-aside" } else { "block" };
        let is_verified =
            (0..=self.others.len()).any(|to| self.subscriber(to).fails == FailureStyle::CertificateHanging);
        let document = json!({ "default": { "jitter": self.jitter, "fifo": fifo, "verifySignature": is_verified,
            "deliveryPolicy": {
            "throttlePolicy": throttle, "healthyRetryPolicy": {
            "minDelayTarget": s.min, "maxDelayTarget": s.max, "numRetries": s.retries,
            "numNoDelayRetries": s.no_delay, "numMinDelayRetries": s.min_delay,
            "numMaxDelayRetries": s.max_delay, "backoffFunction": s.backoff.name() } } } });
        Policy::parse(&document.to_string()).unwrap()
    }

    /// Returns the wait before retry `k` of a letter.
    pub fn wait(&self, id: &str, k: u32) -> ModelMillis {
        seconds(self.schedule.wait(k, &Jitter::new(self.jitter, id)).unwrap())
    }

    /// Returns the subscriber with this number.
    pub fn subscriber(&self, number: usize) -> &ModelSubscriber {
        number.checked_sub(1).map_or(&self.subscriber, |other| &self.others[other])
    }

    /// Reports whether a subscriber fails in this way now.
    pub fn fails(&self, number: usize, how: FailureStyle, now: ModelMillis) -> bool {
        let subscriber = self.subscriber(number);
        subscriber.fails == how && subscriber.is_down(now)
    }

    /// Reports whether waiting letters are listed.
    pub fn lists(&self) -> bool {
        self.listed || !self.operator.is_idle()
    }

    /// Returns the settings of both queues.
    pub fn queues(&mut self) -> impl Iterator<Item = &mut QueueSettings> {
        std::iter::once(&mut self.dlq).chain(&mut self.requeue)
    }

    pub(super) fn arn(&self, standard: &str) -> String {
        let suffix = if self.fifo { ".fifo" } else { "" };
        format!("{standard}{suffix}")
    }
}
