//! One invocation: the machine of the function, with a virtual queue, subscriber and archive around it.
//!
//! This file has no code of the function: [`Batch`] decides, and this file answers its actions.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use redrive_core::arn::Arn;
use redrive_core::batch::{
    ActionAnswer, ActionId, Batch, BatchConfig, InvocationNow, OperatingMode, QueueAttributes,
    RequiredFreshness, Subscription, SubscriptionLookup,
};
use redrive_core::endpoint::Endpoint;
use redrive_core::failure::{Failure, FailureClass};
use redrive_core::letter::Letter;

use super::queue::ModelReceipt;
use super::world::ModelWorld;
use super::{MINUTE, ModelMillis, at, duration, seconds};

/// The place where an invocation dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvocationDeath {
    /// The number of the machine's action with which it dies, counted from 1. If the action is not reached,
    /// the invocation dies at the answer to Lambda.
    pub action: u32,
    /// True if the action has its effect.
    pub effect: bool,
}

/// The number of actions in the longest invocation, with actions for every step of a round.
pub const LAST_ACTION: u32 = 12;

/// An invocation under way.
pub struct ModelInvocation<'m> {
    pub requeue: bool,
    pub instance: usize,
    pub began: ModelMillis,
    /// The age of the instance at the beginning.
    pub age: Duration,
    pub batch: Batch<'m>,
    pub receipts: Vec<ModelReceipt>,
    /// The receipt handle of its first letter. Those of the others follow.
    pub first_handle: usize,
    pub death: Option<InvocationDeath>,
    pub actions: u32,
    /// The number of its first actions, which read the attributes of its queues.
    pub opening: u32,
    pub under_way: u32,
    /// The next time at which it is polled without an answer.
    pub turn: Option<ModelMillis>,
}

/// An answer on its way.
#[derive(Debug)]
pub struct ComingAnswer {
    pub run: u64,
    pub id: ActionId,
    pub answer: ActionAnswer,
}

impl ModelInvocation<'_> {
    pub fn now(&self, now: ModelMillis) -> InvocationNow {
        let elapsed = duration(now - self.began);
        InvocationNow { at: at(now), age: self.age + elapsed, elapsed }
    }

    /// Returns the virtual time that lies so far after the beginning, rounded up.
    pub fn after(&self, elapsed: Duration) -> ModelMillis {
        let micros = ModelMillis::try_from(elapsed.as_micros()).unwrap();
        self.began + micros.div_euclid(1_000) + ModelMillis::from(micros % 1_000 > 0)
    }

    pub fn receipt(&self, letter: &Letter) -> &ModelReceipt {
        &self.receipts[letter.sqs.receipt_handle.parse::<usize>().unwrap() - self.first_handle]
    }
}

/// Returns the settings of the function.
pub fn config(world: &ModelWorld, requeue: Option<Arn>) -> BatchConfig {
    BatchConfig {
        policy: world.policy(),
        mode: OperatingMode::Active,
        requeue,
        archive_queue: None,
        in_flight_limit: world.believed_limit,
        ceiling: world.ceiling,
        instances: world.mapping.instances,
        schedule_from: world.schedule_from.map(at),
        overrides: !world.operator.is_idle(),
        waiting_list: world.lists(),
        notice_topic: world
            .told
            .then(|| redrive_testing::arn("arn:aws:sns:eu-central-1:123456789012:notices")),
    }
}

/// Returns the time that Lambda gives an invocation: a sixth of the visibility timeout, as AWS recommends.
/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html>
pub fn timeout(world: &ModelWorld) -> ModelMillis {
    // The time is short if letters that go one a second are not to have their turn in time.
    if world.trouble.put_off { 5_000 } else { seconds(world.dlq.visibility) / 6 }
}

/// The attributes of queues that an instance keeps, as its look-ups do.
#[derive(Debug, Clone, Default)]
pub struct KeptQueues(HashMap<Arn, KeptAttributes>);

#[derive(Debug, Clone)]
struct KeptAttributes {
    /// The last answer.
    attributes: QueueAttributes,
    first_asked: ModelMillis,
    asked: ModelMillis,
    failed: bool,
}

impl KeptQueues {
    /// Returns the attributes of a queue, kept for a minute. A queue that did not answer is left alone for
    /// half of one, unless nothing but an answer suffices.
    pub fn look_up(
        &mut self,
        queue: &Arn,
        suffices: RequiredFreshness,
        (now, age): (ModelMillis, Duration),
        ask: impl FnOnce() -> Option<QueueAttributes>,
    ) -> QueueAttributes {
        let known = self.0.get(queue);
        if let Some(known) = known {
            let is_kept = now < known.asked + if known.failed { MINUTE / 2 } else { MINUTE };
            let does = match suffices {
                RequiredFreshness::Kept => is_kept,
                RequiredFreshness::New => is_kept && known.failed,
                RequiredFreshness::Answer => false,
            };
            if does {
                return known.attributes.clone();
            }
        }
        let last = known.map(|known| known.attributes.clone()).unwrap_or_default();
        let first_asked = known.map_or(now, |known| known.first_asked);
        let answer = ask().map(|attributes| QueueAttributes { read: Some(age), ..attributes });
        let failed = answer.is_none();
        let attributes = answer.unwrap_or(last);
        let kept = KeptAttributes { attributes: attributes.clone(), first_asked, asked: now, failed };
        self.0.insert(queue.clone(), kept);
        attributes
    }

    /// Returns the time since which a queue is asked.
    pub fn asked_since(&self, queue: &Arn) -> ModelMillis {
        self.0[queue].first_asked
    }
}

/// Returns the end of the ARN of a subscriber's subscription.
pub fn subscription_id(subscriber: usize) -> String {
    format!("{:06x}", 0x98_24e6 + subscriber)
}

/// Returns the number of the subscriber with this endpoint.
pub fn subscriber_at(endpoint: &Endpoint) -> usize {
    let Endpoint::Http(url) = endpoint else { return 0 };
    url.as_str().rsplit_once('/').unwrap().1.parse().unwrap()
}

/// Returns the number of the subscriber with this subscription.
pub fn subscriber_of(subscription: &Arn) -> usize {
    let arn = subscription.as_str();
    usize::from_str_radix(&arn[arn.len() - 6..], 16).unwrap() - 0x98_24e6
}

/// Returns SNS's answer for every subscription: it delivers to a queue or a web server, and its dead letters lie
/// in this queue.
pub fn subscriptions(asked: BTreeSet<Arn>, dlq: &Arn) -> HashMap<Arn, SubscriptionLookup> {
    let subscription = |arn: &Arn| Subscription {
        protocol: if subscriber_of(arn) == 0 { "sqs" } else { "https" }.to_owned(),
        endpoint: match subscriber_of(arn) {
            0 => WORKER.to_owned(),
            other => format!("https://web.example/{other}"),
        },
        topic: arn.as_str().rsplit_once(':').unwrap().0.to_owned(),
        dead_letter_target: Some(dlq.as_str().to_owned()),
        raw: false,
        pending: false,
        delivery_policy: None,
    };
    asked.into_iter().map(|arn| (arn.clone(), Ok(Some(subscription(&arn))))).collect()
}

pub fn transient(code: &str) -> Failure {
    Failure::ours(FailureClass::Transient, code)
}

/// The `maxReceiveCount` of the source queue of every letter that SQS moved.
pub const SOURCE_RECEIVES: u32 = 5;

const WORKER: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-worker";
