//! The batch machine: everything that is decided about a batch.
//!
//! It asks for actions, takes their answers, and ends in a report for every letter:
//!
//! ```text
//!  letters ──> Machine::begin ──> Batch ──poll──> actions: look up, verify, deliver, move, archive, hide
//!                                   ▲                  │
//!                                   └──take── answers <┘  carried out by the driver of the batch
//!                                   │
//!                                   └──> a Report for every letter ──> Lambda's answer, log, metrics
//! ```
//!
//! Nothing here makes a call or reads a clock: the time comes with every call ([`Now`]), and the facts about
//! queues and subscriptions come as answers. So the function, the simulation and the figures drive the same
//! code.
//!
//! No problem of a single letter fails the batch: every letter ends in exactly one [`Outcome`], and only
//! letters that are safe elsewhere may be deleted. Within a FIFO queue, letters of one group go one after the
//! other, in rounds: a letter that does not leave by delivery holds the rest of its group. A standard queue
//! is one round.
//!
//! | file | subject |
//! |---|---|
//! | `machine`, `config`, `knowledge` | the machine of an instance, from batch to batch |
//! | `run` | the stages of a batch, and which comes next |
//! | `opening`, `round`, `finish` | the stages, on what `state` holds |
//! | `action` | the actions and their answers |
//! | `case` | one letter and its disposition |
//! | `override` | rounds, and blocked groups |
//! | `time` | the division of an invocation's time |
//! | `moment` | the present by both clocks, and the age by which an instance forgets |
//! | `resolve`, `subscription` | whether a letter may go where its route leads |
//! | `throttle` | turns at an endpoint |
//! | `requests` | which messages share a request |
//! | `unmarked` | letters that have no room for their mark |
//! | `dispatch`, `calls` | the order in which requests begin |
//! | `purpose` | the purposes of requests |
//! | `foresight` | what becomes of a letter, said in advance |
//! | `health` | the health of endpoints: which are left alone, and when they are tried again |
//! | `in_flight`, `place` | hide or move |
//! | `ending`, `archiving`, `unarchived` | letters near their end, and those that are archived |
//! | `checkup` | the check of a queue's settings |
//! | `known_overrides` | the overrides that an instance knows |
//! | `control` | overrides in a batch, and the list of waiting letters |
//! | `outcome` | reports, and Lambda's answer |

mod action;
mod archiving;
mod calls;
mod case;
mod checkup;
mod config;
mod control;
mod dispatch;
mod ending;
mod finish;
mod foresight;
mod group_order;
mod health;
mod in_flight;
mod knowledge;
mod known_overrides;
mod machine;
mod moment;
mod opening;
mod outcome;
mod place;
mod purpose;
mod requests;
mod resolve;
mod round;
mod run;
mod state;
mod subscription;
mod throttle;
mod time;
mod unarchived;
mod unmarked;

pub use action::{
    Action, Answer, ArchiveContext, Attempt, CannotPack, Delivery, Known, Move, Notice, Now, OverridesRead,
    QueueAttributes, Sent, Suffices, Verification,
};
pub use calls::{CallTimes, Ended};
pub use config::{Config, Mode};
pub use dispatch::{Begin, Dispatch, Request};
pub use foresight::{Foresight, foresee};
pub use group_order::GroupOrder;
pub use health::{Change, Health};
pub use in_flight::{IN_FLIGHT_LIMIT, InFlightEstimate, MAX_DELAY, Place};
pub use known_overrides::KnownOverrides;
pub use machine::Machine;
pub use moment::{Age, Moment};
pub use outcome::{BatchItemFailure, NotDone, Outcome, Report, SqsBatchResponse, response};
pub use purpose::{CONCURRENT_REQUESTS, CONCURRENT_SINGLES, Purpose};
pub use requests::{MAX_ENTRIES, Unsent, requests, runs};
pub use state::{ActionId, Batch};
pub use subscription::{Check, Refusal, Subscription};
pub use time::{CALL_TIME, HTTP_TIMEOUT, Window};
