//! The life of a letter.
//!
//! SNS gives up on a delivery and puts the message into a dead-letter queue. Lambda reads the queue and hands
//! a batch to this function. Each message becomes a letter, the policy decides about it, the decision is
//! carried out, and Lambda is told which messages it may delete:
//!
//! ```text
//!  Lambda's event                                                        Lambda's answer
//!       │                                                                       ▲
//!       ▼                                                                       │
//!  SqsMessage ──> Letter ──> Decision ──> Action ──> Outcome ──> SqsBatchResponse
//!                                           │           │
//!                        send: retry now <──┤           └──> telemetry: a log line a letter,
//!                   hide: retry it later <──┤                an object of metrics a batch
//!      archive: no retry left, or no way <──┘
//! ```
//!
//! A letter that waits stays in its queue, hidden until its next retry is due. There is no other state: the
//! number of retries behind it follows from its timestamps, its receive count and the mark that it got when
//! it was last sent. It leaves the queue only when its target or the archive has it. So a crash can repeat a
//! letter but cannot lose one.
//!
//! `docs/SEMANTICS.md` says what users may rely on, `docs/decisions.md` says why it is so.
//!
//! # The way of a letter that is delivered
//!
//! Between deciding and doing it crosses the wall four times: its subscription is asked for and told, and its
//! request is asked for and its result told.
//!
//! | what happens | here | in `crates/core/src` |
//! |---|---|---|
//! | an event becomes messages, and a message a letter | `function.rs`, `redrive/mod.rs` | `letter/`, `policy/rules.rs` |
//! | the letter falls under a rule, and a retry is due | | `batch/opening.rs`, `batch/case.rs`, `batch/round.rs`, `policy/decide.rs` |
//! | its subscription is looked up, and says where it may go | `lookup/subscriptions.rs` | `batch/round.rs`, `batch/resolve.rs` |
//! | it gets a turn, and shares a request | | `batch/delivery.rs`, `batch/throttle.rs`, `batch/requests.rs` |
//! | the request begins, if a place is free, its endpoint is not down and no override holds the letter | | `batch/sending.rs`, `batch/dispatch.rs`, `batch/health/` |
//! | the letter is packed, and the request made | `redrive/act.rs`, `delivery/payload.rs`, `delivery/dispatcher.rs`, and a file for each kind of endpoint | |
//! | the result counts for the endpoint and the letter | | `batch/sending.rs`, `batch/delivery.rs`, `batch/case.rs` |
//! | the report becomes a log line, and Lambda may delete the message | `telemetry/letter.rs`, `function.rs` | `batch/outcome.rs` |
//!
//! # The map
//!
//! Each module uses only modules below it in this list. No two files use each other.
//!
//! | module | subject |
//! |---|---|
//! | [`function`] | an event in, an answer out: joins the parts |
//! | [`replay_function`] | the same for the replay function: replays, and the turns and lanes of a state machine |
//! | [`start`] | the start of all functions: settings, clients, the log |
//! | [`redrive`] | drives the batch machine and carries out its actions |
//! | [`telemetry`] | reports become log lines and metrics |
//! | [`replay`] | from the archive back into delivery |
//! | [`archive`] | letters that cannot be saved, and the record's format |
//! | [`notices`] | notices of archived letters, sent to a topic |
//! | [`control`] | the overrides of operators, and the list of waiting letters |
//! | [`signature`] | the check that SNS wrote a letter |
//! | [`lookup`] | queues and subscriptions: asked once, kept for a while, cut off at a deadline |
//! | [`delivery`] | makes requests, with a file for each kind of endpoint; hiding |
//! | [`clients`] | the AWS clients, their HTTP client, the meaning of their errors |
//! | [`settings`] | the environment becomes [`Settings`](settings::Settings) |
//! | `under_way` | calls under way at the same time |
//! | [`clock`] | the present time |
//!
//! Below these is the crate `redrive-core`, in `crates/core/`. It decides and makes no calls:
//!
//! | module | subject |
//! |---|---|
//! | [`archive_notice`] | notices of archived letters: their counts, due times and text |
//! | [`batch`] | the batch machine: asks for actions, takes answers, returns reports |
//! | [`policy`] | the decision what happens, and when: overrides, rules, schedule |
//! | [`waiting`] | the list of waiting letters, and the keys that operators and the function share |
//! | [`letter`] | the messages in the queue: origins, SNS messages, the mark |
//! | [`endpoint`] | the targets of retries |
//! | [`arn`], [`failure`] | ARNs, parsed once; the meaning of a failure for a letter |
//! | [`shell`] | others' texts in commands that operators copy |
//!
//! # The house
//!
//! The function is the package at the root. Everything else is in `crates/`, and nobody but tests and tools uses the
//! function. An arrow means "uses":
//!
//! ```text
//!  deployed         sns-redrive ──> redrive-core            decides: no SDK, no clock, no tokio
//!                        │
//!                        └────────> crc-fast (checksums)    the CRCs that S3 checks
//!
//!  for operators    redrive-ctl ──> redrive-console ──> sns-redrive
//!                     the tool        its pages, the widget
//!
//!  for tests        redrive-proof, redrive-support ──> redrive-sim ──> redrive-sim-queue
//!                     what measures and breaks           an AWS account in memory
//!                   redrive-laws, redrive-console-law, redrive-testing
//!                     what must hold, what tests share
//! ```
//!
//! `main.rs` only runs [`function::RedriveFunction`], and `bin/replay.rs` only runs
//! [`replay_function::ReplayFunction`]. Start reading at [`redrive::Redrive::handle`], then at
//! [`batch::Batch::poll`], and at [`policy::step`] for the rule that decides which retry a letter is due for.

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
mod under_way;

pub use redrive_core::{archive_notice, arn, batch, endpoint, failure, letter, policy, shell, waiting};
