//! One invocation: the machine of the function, with a virtual queue, subscriber and archive around it.
//!
//! This file has no code of the function: [`Machine`] decides, and this file answers its actions.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use redrive_core::arn::Arn;
use redrive_core::batch::{
    ActionId, Answer, Batch, Config, Delivery, Known, Machine, Mode, Now, QueueAttributes, Subscription,
    Suffices,
};
use redrive_core::failure::{Failure, FailureClass};
use redrive_core::letter::Letter;

use super::queue::Receipt;
use super::world::World;
use super::{MINUTE, Millis, at, duration, seconds};

/// The place where an invocation dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Death {
    /// The number of the machine's action with which it dies, counted from 1. If the action is not reached,
    /// the invocation dies at the answer to Lambda.
    pub action: u32,
    /// True if the action has its effect.
    pub effect: bool,
}

/// The number of actions in the longest invocation, with actions for every step of a round.
pub const LAST_ACTION: u32 = 12;

/// An invocation under way.
pub struct Run<'m> {
    pub requeue: bool,
    pub instance: usize,
    pub began: Millis,
    /// The age of the instance at the beginning.
    pub age: Duration,
    pub batch: Batch<'m>,
    pub receipts: Vec<Receipt>,
    pub death: Option<Death>,
    pub actions: u32,
    /// The number of its first actions, which read the attributes of its queues.
    pub opening: u32,
    pub under_way: u32,
}

/// An answer on its way.
#[derive(Debug)]
pub struct Coming {
    pub run: u64,
    pub id: ActionId,
    pub answer: Answer,
}

impl Run<'_> {
    pub fn now(&self, now: Millis) -> Now {
        let elapsed = duration(now - self.began);
        Now { at: at(now), age: self.age + elapsed, elapsed }
    }

    /// Returns the virtual time that lies so far after the beginning.
    pub fn after(&self, elapsed: Duration) -> Millis {
        self.began + Millis::try_from(elapsed.as_millis()).unwrap()
    }

    /// Returns the number of a letter in its batch, which is its receipt handle.
    pub fn index(letter: &Letter) -> usize {
        letter.sqs.receipt_handle.parse().unwrap()
    }

    pub fn receipt(&self, letter: &Letter) -> &Receipt {
        &self.receipts[Self::index(letter)]
    }
}

/// Creates the machine of an instance of the function.
pub fn machine(world: &World, requeue: Option<Arn>) -> Machine {
    Machine::new(Config {
        policy: world.policy(),
        mode: Mode::Active,
        requeue,
        archive_queue: None,
        in_flight_limit: world.believed_limit,
        ceiling: world.ceiling,
        instances: world.mapping.instances,
        overrides: !world.operator.is_idle(),
        waiting_list: !world.operator.is_idle(),
    })
}

/// Returns the time that Lambda gives an invocation: a sixth of the visibility timeout, as AWS recommends.
/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html>
pub fn timeout(world: &World) -> Millis {
    // The time is short if letters that go one a second are not to have their turn in time.
    if world.trouble.put_off { 5_000 } else { seconds(world.dlq.visibility) / 6 }
}

/// The attributes of queues that an instance keeps, as its look-ups do.
#[derive(Debug, Clone, Default)]
pub struct Kept(HashMap<Arn, KeptAttributes>);

#[derive(Debug, Clone)]
struct KeptAttributes {
    /// The last answer.
    attributes: QueueAttributes,
    first_asked: Millis,
    asked: Millis,
    failed: bool,
}

impl Kept {
    /// Returns the attributes of a queue, kept for a minute. A queue that did not answer is left alone for
    /// half of one, unless nothing but an answer suffices.
    pub fn look_up(
        &mut self,
        queue: &Arn,
        suffices: Suffices,
        (now, age): (Millis, Duration),
        ask: impl FnOnce() -> Option<QueueAttributes>,
    ) -> QueueAttributes {
        let known = self.0.get(queue);
        if let Some(known) = known {
            let is_kept = now < known.asked + if known.failed { MINUTE / 2 } else { MINUTE };
            let does = match suffices {
                Suffices::Kept => is_kept,
                Suffices::New => is_kept && known.failed,
                Suffices::Answer => false,
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
    pub fn asked_since(&self, queue: &Arn) -> Millis {
        self.0[queue].first_asked
    }
}

/// Returns SNS's answer for every subscription: it delivers to a queue, and its dead letters lie in this one.
pub fn subscriptions(asked: BTreeSet<Arn>, dlq: &Arn) -> HashMap<Arn, Known> {
    let subscription = |arn: &Arn| Subscription {
        protocol: "sqs".to_owned(),
        endpoint: WORKER.to_owned(),
        topic: arn.as_str().rsplit_once(':').unwrap().0.to_owned(),
        dead_letter_target: Some(dlq.as_str().to_owned()),
        raw: false,
        pending: false,
        delivery_policy: None,
    };
    asked.into_iter().map(|arn| (arn.clone(), Ok(Some(subscription(&arn))))).collect()
}

/// Returns the time when the attempt of a delivery begins.
pub fn begins(run: &Run<'_>, delivery: &Delivery, now: Millis) -> Millis {
    run.after(delivery.not_before).max(now)
}

pub fn transient(code: &str) -> Failure {
    Failure::ours(FailureClass::Transient, code)
}

/// The `maxReceiveCount` of the source queue of every letter that SQS moved.
pub const SOURCE_RECEIVES: u32 = 5;

const WORKER: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-worker";
