//! Replay: sends letters from the archive to delivery again.
//!
//! An operator has repaired a target and wants the archived letters delivered after all. A replay selects
//! letters of the archive and sends each to the requeue, with a mark that gives it a fresh budget of retries.
//! From there they are handled like any other letter. The archive itself is never changed.
//!
//! ```text
//!  archive ──select──> letters ──pack──> requeue ──> the function: rule, target, schedule
//!                         │
//!                         └── units and ledgers: what is under way, what was sent
//! ```
//!
//! - **Units.** The archive is divided into units: limited runs of objects of one queue and hour, the same
//!   for every replay. Each unit has one ledger with all that replays know of its letters. So no replay reads
//!   what others did elsewhere, and memory grows neither with the archive nor with its history.
//! - **Claims.** A worker writes into the ledger which letters it sends, on the condition that nobody else
//!   has written there since it read the ledger. Its claim expires by S3's own clock.
//! - **Resumable.** A replay can be continued where it ended, after the 15 minutes of a Lambda function, a
//!   Ctrl-C or a crash. A crash can repeat the letters that were under way, which are counted, but loses
//!   none.
//! - **Slow at first.** The selection is sent in steps, each only if not too many letters of the one before
//!   came back. The last step is watched as well.
//! - **Each letter once**, by queue ARN and SQS message id, even with several replays at the same time.
//!
//! | file | does |
//! |---|---|
//! | `request`, `successors` | the request of a replay |
//! | `run` | begins or continues a replay |
//! | `in_process` | does a whole replay in one process: turns and lanes, one after the other |
//! | `dry_run` | counts the letters that would be sent |
//! | `kept` | shows, stops and frees replays |
//! | `sent` | tells which archived letters were sent |
//! | `given` | finds given records in the archive |
//! | `rounds` | the turns: what the replay does next, and the lanes of a round |
//! | `lane` | sends the letters of a lane, several units at the same time |
//! | `drive`, `progress` | the state of a replay that somebody has taken up |
//! | `judgement` | judges a step |
//! | `part` | works on units, one after the other |
//! | `reading`, `worker` | reads and sends one unit |
//! | `met` | recognises letters that were archived twice |
//! | `parts`, `bench` | the equipment that all of them share |
//! | `plan`, `cut`, `unit` | finds the units that hold the selection |
//! | `division` | divides units among workers |
//! | `ledger` | the knowledge about a unit's letters |
//! | `ramp` | the arithmetic of steps |
//! | `letters`, `letter` | chooses the records that become letters |
//! | `requeue` | sends letters to the requeue |
//! | `deployed`, `redriver` | the function that then redrives them: its settings, whether it works, and its policy |
//! | `state`, `store`, `version` | the stored objects |
//! | `control`, `error` | the observer of a replay, and its errors |

mod bench;
mod control;
mod cut;
mod deployed;
mod division;
mod drive;
mod dry_run;
mod error;
mod given;
mod in_process;
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

pub use control::ReplayControl;
pub use deployed::{DeployedSettings, level_without_metrics};
pub use error::{ErrorKind, ReplayError};
pub use kept::StoredReplays;
pub use lane::{LaneDone, RoundLane};
pub use letter::{NotReplayable, RecordLocation};
pub use letters::{InputRecord, ReplaySource};
pub use parts::{ArchiveReplayer, ReplayEnvironment};
pub use redriver::{RedriverReader, RedriverState};
pub use request::{DEFAULT_RAMP, EventRequest, ReplayRequest, ReplaySelection, ResumeRequest};
pub use rounds::{MachineTurn, ReplayResumption, TurnKind};
pub use run::began;
pub use sent::SentLetters;
pub use state::{OperatorNote, ReplayCounts, ReplayPosition, ReplayState, ReplayStatus};
pub use successors::{BadSuccessors, Successors};
