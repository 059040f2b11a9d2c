//! Replay: from the archive back into delivery.
//!
//! An operator has repaired what failed, and wants the archived letters to go out after all. A replay
//! selects letters of the archive and sends each to the requeue, with a mark that gives it a fresh budget
//! of retries; from there it takes the ordinary way. The archive itself is never changed.
//!
//! ```text
//!  archive ──select──> letters ──pack──> requeue ──> the function: rule, target, schedule
//!                         │
//!                         └── manifest and ledger: what is under way, what was sent
//! ```
//!
//! - **One at a time.** A lock in the archive keeps a second replay out.
//! - **Resumable.** A ledger names the letters of each batch, before it is sent and after. Whoever starts the
//!   same replay again goes on where it ended, be it after the 15 minutes of a Lambda, a Ctrl-C or a crash. A
//!   crash can repeat the letters of one batch, and loses none.
//! - **Slow at first.** The selection goes out in steps, and each only if the one before did not come back.
//! - **Each letter once**, by queue ARN and SQS message id, also over several replays.
//!
//! | file | does |
//! |---|---|
//! | `request` | what is asked for |
//! | `run` | begins or goes on |
//! | `steps` | goes through the steps, batch by batch |
//! | `resources` | archive, requeue and clock, for both |
//! | `letters`, `letter` | which letters, one after the other |
//! | `requeue` | sends them |
//! | `manifest` | how it stands, and the arithmetic of steps |
//! | `lock`, `store` | what lies in the bucket |
//! | `control`, `error` | who watches, and why it cannot go on |

mod control;
mod error;
mod letter;
mod letters;
mod lock;
mod manifest;
mod request;
mod requeue;
mod resources;
mod run;
mod steps;
mod store;

pub use control::Control;
pub use error::ReplayError;
pub use letter::{At, NotReplayable};
pub use letters::{Input, Source};
pub use manifest::{Counts, Manifest, Status, StepResult};
pub use request::{DEFAULT_RAMP, Request, Select};
pub use run::{Parts, Replay};
