//! The batch machine: everything that is decided about a batch.
//!
//! It asks for actions, takes their answers, and ends in a report for every letter:
//!
//! ```text
//!  letters ──> Machine::begin ──> Batch ──poll──> actions: look up, verify, deliver, move, archive, hide
//!                                   ▲                  │
//!                                   └──take── answers <┘  carried out by whoever drives the batch
//!                                   │
//!                                   └──> a Report for every letter ──> Lambda's answer, log, metrics
//! ```
//!
//! Nothing here calls anybody or looks at a clock: the time comes with every call ([`Now`]), and what is known of queues
//! and subscriptions comes as answers. So the function, the simulation and the figures drive the same code.
//!
//! Nothing that happens to a single letter fails the batch: each ends in exactly one [`Outcome`], and only letters that
//! are safe elsewhere may be deleted. Within a FIFO queue letters of one group go one after the other, in rounds: a
//! letter that does not leave by delivery holds the rest of its group. A standard queue is one round.
//!
//! | file | subject |
//! |---|---|
//! | `run`, `round` | the stages of a batch, and which comes next |
//! | `action` | what is asked for and answered |
//! | `case` | one letter and what is to become of it |
//! | `order` | rounds, and who blocks whom |
//! | `time` | the division of an invocation's time |
//! | `resolve`, `subscription` | whether a letter may go where its route leads |
//! | `throttle` | turns at an endpoint |
//! | `in_flight`, `place` | hide or move |
//! | `ending`, `finish`, `unarchived` | letters near their end; archiving and hiding |
//! | `checkup` | what is wrong with a queue |
//! | `outcome` | reports, and Lambda's answer |

mod action;
mod case;
mod checkup;
mod ending;
mod finish;
mod in_flight;
mod order;
mod outcome;
mod place;
mod resolve;
mod round;
mod run;
mod subscription;
mod throttle;
mod time;
mod unarchived;

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

pub use action::{
    Action, Answer, ArchiveContext, Attempt, CannotPack, Delivery, Known, Move, Notice, Now, QueueAttributes,
    Sent, Verification,
};
pub use in_flight::{IN_FLIGHT_LIMIT, InFlightEstimate, MAX_DELAY, Place};
pub use order::Order;
pub use outcome::{NotDone, Outcome, Report, response};
pub use run::{ActionId, Batch};
pub use subscription::{Check, Refusal, Subscription};
pub use time::{CALL_TIME, HTTP_TIMEOUT, Window};

use crate::arn::Arn;
use crate::letter::{Letter, SqsMessage};
use crate::policy::Policy;
use throttle::Throttle;
use unarchived::Memory;

/// What one instance of the function decides by, from batch to batch.
#[derive(Debug)]
pub struct Machine {
    config: Config,
    knowledge: Mutex<Knowledge>,
}

/// The settings of a machine.
#[derive(Debug)]
pub struct Config {
    /// The redrive policy.
    pub policy: Policy,
    /// Whether anything is done at all.
    pub mode: Mode,
    /// The queue for letters that cannot wait in their own; its marks are believed on where a letter came from.
    pub requeue: Option<Arn>,
    /// The archive, where it is a queue.
    pub archive_queue: Option<Arn>,
    /// Messages in flight that SQS allows in a queue.
    pub in_flight_limit: u64,
    /// The longest that a message is hidden at once, seconds.
    pub ceiling: u64,
    /// How many instances of the function may run at once; they share rate limits.
    pub instances: u32,
}

/// Whether anything is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Retry, archive, hide.
    Active,
    /// Decide and log, touch nothing. A letter can expire meanwhile.
    Observe,
}

/// What an instance has learnt.
#[derive(Debug)]
struct Knowledge {
    /// Letters in flight in the queues that feed the function: the dead-letter queue and the requeue.
    estimates: HashMap<Arn, InFlightEstimate>,
    /// The reading of each queue that last triggered the warning of many letters in flight.
    warned: HashMap<Arn, Timestamp>,
    /// Queues that were looked at already.
    checked: HashSet<Arn>,
    unarchived: Memory,
    throttle: Throttle,
}

impl Config {
    /// How many instances may deliver at once. The requeue has a mapping of its own, with as many instances again.
    fn deliverers(&self) -> u32 {
        if self.requeue.is_some() { self.instances.saturating_mul(2) } else { self.instances }
    }
}

impl Machine {
    /// A machine that has learnt nothing yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let knowledge = Knowledge {
            estimates: HashMap::new(),
            warned: HashMap::new(),
            checked: HashSet::new(),
            unarchived: Memory::default(),
            throttle: Throttle::new(config.deliverers()),
        };
        Self { config, knowledge: Mutex::new(knowledge) }
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Understands a message of one of the queues that feed the function.
    #[must_use]
    pub fn read(&self, message: SqsMessage) -> Letter {
        self.config.policy.read(message, self.config.requeue.as_ref())
    }

    /// Begins a batch of letters of one queue. `deadline` is when Lambda ends the invocation, counted from now.
    #[must_use]
    pub fn begin(&self, letters: Vec<Letter>, deadline: Duration) -> Batch<'_> {
        Batch::new(self, letters, deadline)
    }

    /// Letters of a queue in flight, as far as this instance can tell.
    #[must_use]
    pub fn in_flight(&self, queue: &Arn) -> u64 {
        self.knowledge().estimate(&self.config, queue).in_flight()
    }

    /// Nothing panics while this is held, but a lock that is poisoned must not end the function.
    fn knowledge(&self) -> MutexGuard<'_, Knowledge> {
        self.knowledge.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
