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
//! | `replays` | shows, stops and frees replays |
//! | `sent_letters` | tells which archived letters were sent |
//! | `input_records` | finds given records in the archive |
//! | `rounds` | the turns: what the replay does next, and the lanes of a round |
//! | `lane` | sends the letters of a lane, several units at the same time |
//! | `drive`, `progress` | the state of a replay that somebody has taken up |
//! | `judgement` | judges a step |
//! | `unit_runner` | works on units, one after the other |
//! | `reading`, `worker` | reads and sends one unit |
//! | `recent_letters` | recognises letters that were archived twice |
//! | `replayer`, `worker_context` | the equipment that all of them share |
//! | `plan`, `unit_boundaries`, `unit` | finds the units that hold the selection |
//! | `assign` | divides units among workers |
//! | `ledger` | the knowledge about a unit's letters |
//! | `replay_stages` | the arithmetic of steps |
//! | `letters`, `letter` | chooses the records that become letters |
//! | `requeue` | sends letters to the requeue |
//! | `deployed`, `redriver` | the function that then redrives them: its settings, whether it works, and its policy |
//! | `replay_state`, `replay_store`, `version` | the stored objects |
//! | `control`, `error` | the observer of a replay, and its errors |

mod assign;
mod control;
mod deployed;
mod drive;
mod dry_run;
mod error;
mod in_process;
mod input_records;
mod judgement;
mod lane;
mod ledger;
mod letter;
mod letters;
mod plan;
mod progress;
mod reading;
mod recent_letters;
mod redriver;
mod replay_stages;
mod replay_state;
mod replay_store;
mod replayer;
mod replays;
mod request;
mod requeue;
mod rounds;
mod run;
mod sent_letters;
mod successors;
mod unit;
mod unit_boundaries;
mod unit_runner;
mod version;
mod worker;
mod worker_context;

pub use control::ReplayControl;
pub use deployed::{DeployedSettings, quiet_log_level};
pub use error::{ErrorKind, ReplayError};
pub use lane::{LaneDone, RoundLane};
pub use letter::{NotReplayable, RecordLocation};
pub use letters::{InputRecord, ReplaySource};
pub use redriver::{PolicyOfLanes, RedriverReader, RedriverState};
pub use replay_state::{OperatorNote, ReplayCounts, ReplayPosition, ReplayState, ReplayStatus};
pub use replayer::{ArchiveReplayer, ReplayEnvironment};
pub use replays::StoredReplays;
pub use request::{DEFAULT_RAMP, EventRequest, ReplayRequest, ReplaySelection, ResumeRequest};
pub use rounds::{ReplayResumption, TurnAnswer, TurnKind};
pub use run::began;
pub use sent_letters::SentLetters;
pub use successors::{BadSuccessors, Successors};
