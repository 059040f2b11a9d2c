//! The batch machine: everything that is decided about a batch.
//!
//! It asks for actions, takes their answers, and ends in a report for every letter:
//!
//! ```text
//!  letters ──> BatchMachine::begin ──> Batch ──poll──> actions: look up, verify, send, move, archive, hide
//!                                   ▲                  │
//!                                   └──take── answers <┘  carried out by the driver of the batch
//!                                   │
//!                                   └──> a LetterReport for every letter ──> Lambda's answer, log, metrics
//! ```
//!
//! The batch decides about each request too: which letters share it, when it begins and how long it may take,
//! and what its answer means. It asks for one request at a time ([`Action::Send`]), so that what an answer
//! shows, or an override that was read meanwhile, counts for the next one.
//!
//! Nothing here makes a call or reads a clock: the time comes with every call ([`InvocationNow`]), and the facts about
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
//! | `machine`, `config` | the machine of an instance, from batch to batch |
//! | `memory`, `knowledge` | what an instance remembers from batch to batch |
//! | `run` | the stages of a batch, and which comes next |
//! | `open_batch`, `round`, `delivery`, `finish` | the stages, on what `state` holds |
//! | `action`, `send_request`, `send_result` | the actions and their answers |
//! | `pending_letter` | one letter and its disposition |
//! | `group_order` | rounds, and blocked groups |
//! | `time` | the division of an invocation's time |
//! | `moment` | the present by both clocks, and the age by which an instance forgets |
//! | `resolve`, `subscription` | whether a letter may go where its route leads |
//! | `known_targets` | where subscriptions lead |
//! | `questions` | the two passes of a round: letters do not wait for look-ups that hang |
//! | `throttle` | turns at an endpoint |
//! | `outgoing`, `packed_facts` | letters on their way out, and their size |
//! | `unmarked`, `unmarked_letters` | letters that have no room for their mark |
//! | `sending` | messages on their way to a result each: one request after the other |
//! | `requests` | which messages share a request |
//! | `dispatch`, `function_calls` | the order in which requests begin |
//! | `purpose` | the purposes of requests |
//! | `foresight` | what becomes of a letter, said in advance |
//! | `health` | the health of endpoints: which are left alone, and when they are tried again |
//! | `in_flight`, `parking` | hide or move |
//! | `expiry`, `archiving`, `unarchived` | letters near their end, and those that are archived |
//! | `queue_check` | the check of a queue's settings |
//! | `known_overrides` | the overrides that an instance knows |
//! | `control` | overrides in a batch, and the list of waiting letters |
//! | `recovery` | endpoints that are down or back, and the letters that are woken for them |
//! | `outcome` | reports, and Lambda's answer |

mod action;
mod archiving;
mod config;
mod control;
mod delivery;
mod dispatch;
mod expiry;
mod finish;
mod foresight;
mod function_calls;
mod group_order;
mod health;
mod in_flight;
mod knowledge;
mod known_overrides;
mod known_targets;
mod machine;
mod memory;
mod moment;
mod open_batch;
mod outcome;
mod outgoing;
mod packed_facts;
mod parking;
mod pending_letter;
mod purpose;
mod questions;
mod queue_check;
mod recovery;
mod requests;
mod resolve;
mod round;
mod run;
mod send_request;
mod send_result;
mod sending;
mod state;
mod subscription;
mod throttle;
mod time;
mod unarchived;
mod unmarked;
mod unmarked_letters;

pub use action::{
    Action, ActionAnswer, ArchiveContext, BatchNotice, CannotPack, Delivery, DocumentRead, DocumentWrite,
    InvocationNow, QueueAttributes, RequestEnd, RequestResult, RequeueMove, RequiredFreshness, SendRequest,
    SendResult, SignatureResult, SubscriptionLookup, WaitingKeys,
};
pub use config::{BatchConfig, OperatingMode};
pub use foresight::{LetterForecast, foresee};
pub use group_order::GroupOrder;
pub use health::{Health, HealthChange};
pub use in_flight::{IN_FLIGHT_LIMIT, InFlightEstimate, MAX_DELAY, WaitingPlace};
pub use known_targets::KnownTargets;
pub use machine::BatchMachine;
pub use memory::InstanceMemory;
pub use moment::{InstanceAge, Moment};
pub use outcome::{BatchItemFailure, LetterReport, NotDone, Outcome, SqsBatchResponse, response};
pub use packed_facts::{PackedFacts, recorded_trace};
pub use purpose::{CONCURRENT_REQUESTS, CONCURRENT_SINGLES, RequestPurpose};
pub use recovery::{ChangeKind, EndpointChange};
pub use requests::{MAX_ENTRIES, UnsentMessage, runs};
pub use sending::{NextRequest, SendingState};
pub use state::{ActionId, Batch};
pub use subscription::{Subscription, SubscriptionCheck, SubscriptionRefusal};
pub use time::{CALL_TIME, HTTP_TIMEOUT, RoundWindow};
