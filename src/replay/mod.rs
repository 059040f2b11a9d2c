//! Replay: from the archive back into delivery.
//!
//! An operator has repaired what failed, and wants the archived letters to go out after all. A replay
//! selects letters of the archive and sends each to the requeue, with a mark that gives it a fresh budget
//! of retries; from there it takes the ordinary way. The archive itself is never changed.
//!
//! ```text
//!  archive ──select──> letters ──pack──> requeue ──> the function: rule, target, schedule
//!                         │
//!                         └── units and ledgers: what is under way, what was sent
//! ```
//!
//! - **Work is cut by what is stored.** A unit is a bounded run of archive objects of one queue and hour, cut alike by
//!   every replay. One ledger a unit holds what any replay knows of its letters: no replay reads what others did
//!   elsewhere, and memory grows neither with the archive nor with its history.
//! - **Claimed.** A worker writes into the ledger which letters it sends, on the condition that nobody else has
//!   written there since it read it. Its claim ends by S3's own clock.
//! - **Resumable.** Whoever goes on with a replay goes on where it ended, be it after the 15 minutes of a Lambda, a
//!   Ctrl-C or a crash. A crash can repeat the letters that were under way, which is counted, and loses none.
//! - **Slow at first.** The selection goes out in steps, and each only if the one before did not come back. The last
//!   step is watched as well.
//! - **Each letter once**, by queue ARN and SQS message id, also over several replays at once.
//!
//! | file | does |
//! |---|---|
//! | `request`, `successors` | what is asked for |
//! | `run` | begins or goes on |
//! | `dry_run` | counts what would be sent |
//! | `kept` | shows, stops and frees |
//! | `sent` | tells which archived letters were sent |
//! | `given` | finds records that are given in the archive |
//! | `drive`, `progress` | goes through the stages, several units at once |
//! | `rounds`, `lane` | the same by a state machine, in many functions at once |
//! | `judgement` | judges a step |
//! | `part` | works on units, one after the other |
//! | `reading`, `worker` | reads and sends one unit |
//! | `met` | recognises letters that were archived twice |
//! | `parts`, `bench` | what all of them work with |
//! | `plan`, `cut`, `unit` | which units hold the selection |
//! | `division` | divides them among workers |
//! | `ledger` | what is known of a unit's letters |
//! | `ramp` | the arithmetic of steps |
//! | `letters`, `letter` | which records become letters |
//! | `requeue` | sends them |
//! | `deployed`, `redriver` | the function that redrives them then: its settings, whether it is at work, and by which policy |
//! | `state`, `store`, `version` | what is kept |
//! | `control`, `error` | who watches, and why it cannot go on |

mod bench;
mod control;
mod cut;
mod deployed;
mod division;
mod drive;
mod dry_run;
mod error;
mod given;
mod judgement;
mod kept;
mod lane;
mod ledger;
mod letter;
mod letters;
mod met;
mod part;
mod parts;
mod plan;
mod progress;
mod ramp;
mod reading;
mod redriver;
mod request;
mod requeue;
mod rounds;
mod run;
mod sent;
mod state;
mod store;
mod successors;
mod unit;
mod version;
mod worker;

pub use control::Control;
pub use deployed::Deployed;
pub use error::{ErrorKind, ReplayError};
pub use kept::Replays;
pub use lane::{Lane, LaneDone};
pub use letter::{At, NotReplayable};
pub use letters::{Input, Source};
pub use parts::{Parts, Replay};
pub use redriver::{Redriver, Redriving};
pub use request::{DEFAULT_RAMP, Request, Resume, Select, Wish};
pub use rounds::{Resumption, Turn, TurnKind};
pub use sent::Sent;
pub use state::{Counts, Freed, Place, State, Status};
pub use successors::{BadSuccessors, Successors};
