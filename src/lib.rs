//! The life of a letter.
//!
//! SNS gives up on a delivery and drops the message into a dead-letter queue. Lambda reads the queue
//! and hands a batch to this function. Each message becomes a letter, the policy decides about it,
//! the decision is carried out, and Lambda is told which messages it may delete:
//!
//! ```text
//!  Lambda's event                                                        Lambda's answer
//!       │                                                                       ▲
//!       ▼                                                                       │
//!  SqsMessage ──> Letter ──> Decision ──> Action ──> Outcome ──> SqsBatchResponse
//!                                           │           │
//!                    delivery: retry now <──┤           └──> telemetry: a log line a letter,
//!            delivery: hide, retry later <──┤                an object of metrics a batch
//!      archive: no retry left, or no way <──┘
//! ```
//!
//! A letter that waits stays in its queue, hidden until its next retry is due. There is no other
//! state: how many retries it has behind it follows from its timestamps, its receive count and the
//! mark it got when it was last sent. It leaves the queue only when its target or the archive has it,
//! so a crash can repeat a letter and cannot lose one.
//!
//! What users may rely on is written down in `docs/SEMANTICS.md`, why it is so in
//! `docs/decisions.md`.
//!
//! # The map
//!
//! Each module knows only modules that stand below it in this list; no two files know each other.
//!
//! | module | subject |
//! |---|---|
//! | [`function`] | an event in, an answer out: joins the parts |
//! | [`replay_function`] | the same for the replay function: replays, and the turns and lanes of a state machine |
//! | [`start`] | what all functions begin with: settings, clients, the log |
//! | [`redrive`] | drives the batch machine and carries out what it asks for |
//! | [`telemetry`] | reports become log lines and metrics |
//! | [`replay`] | from the archive back into delivery |
//! | [`archive`] | letters that cannot be saved, and the record's format |
//! | [`notices`] | the topic that hears of archived letters |
//! | [`control`] | the orders of operators, and the list of waiting letters |
//! | [`signature`] | whether SNS wrote a letter |
//! | [`lookup`] | queues and subscriptions: asked once, kept for a while, given up at a deadline |
//! | [`delivery`] | retries on their way, a file for each kind of endpoint; hiding |
//! | [`clients`] | the AWS clients, their HTTP client, what their errors mean |
//! | [`settings`] | the environment becomes [`Settings`](settings::Settings) |
//! | [`clock`] | the present, which comes in from outside |
//!
//! Below these lies the crate `redrive-core`, in `core/`, which decides and calls nobody:
//!
//! | module | subject |
//! |---|---|
//! | [`archive_notice`] | notices of archived letters: what they count, when they are due, how they read |
//! | [`batch`] | the batch machine: asks for actions, takes answers, ends in reports |
//! | [`policy`] | what should happen, and when: orders, rules, schedule, decision |
//! | [`waiting`] | the list of waiting letters, and the keys of what operators and the function share |
//! | [`letter`] | what lies in the queue: origins, SNS messages, the mark |
//! | [`endpoint`] | where a retry can go |
//! | [`arn`], [`failure`] | ARNs, parsed once; what a failure means for a letter |
//!
//! `main.rs` runs [`function::Function`], `bin/replay.rs` [`replay_function::ReplayFunction`]; nothing else.
//! Start reading at [`redrive::Redrive::handle`], then at [`batch::Batch::poll`], and at [`policy::step`] for the rule
//! that says which retry a letter is due for.

pub mod archive;
pub mod clients;
pub mod clock;
pub mod control;
pub mod delivery;
pub mod function;
pub mod lookup;
pub mod notices;
pub mod redrive;
pub mod replay;
pub mod replay_function;
pub mod settings;
pub mod signature;
pub mod start;
pub mod telemetry;

pub use redrive_core::{archive_notice, arn, batch, endpoint, failure, letter, policy, waiting};
