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
//! | what happens | in the shell | in `crates/core/src` |
//! |---|---|---|
//! | an event becomes messages, and a message a letter | `src/function.rs`, `src/redrive/mod.rs` | `letter/`, `policy/rules.rs` |
//! | the letter falls under a rule, and a retry is due | | `batch/open_batch.rs`, `batch/pending_letter.rs`, `batch/round.rs`, `policy/decide.rs` |
//! | its subscription is looked up, and says where it may go | `crates/aws/src/lookup/subscriptions.rs` | `batch/round.rs`, `batch/resolve.rs` |
//! | it gets a turn, and shares a request | | `batch/delivery.rs`, `batch/throttle.rs`, `batch/requests.rs` |
//! | the request begins, if a place is free, its endpoint is not down and no override holds the letter | | `batch/sending.rs`, `batch/dispatch.rs`, `batch/health/` |
//! | the letter is packed, and the request made | `src/redrive/actions.rs`; `payload.rs`, `dispatcher.rs` and a file for each kind of endpoint in `crates/aws/src/delivery/` | |
//! | the result counts for the endpoint and the letter | | `batch/sending.rs`, `batch/delivery.rs`, `batch/pending_letter.rs` |
//! | the report becomes a log line, and Lambda may delete the message | `src/telemetry/letter.rs`, `src/function.rs` | `batch/outcome.rs` |
//!
//! # The map
//!
//! Each module uses only modules below it in this list. No two files use each other.
//!
//! | module | subject |
//! |---|---|
//! | [`function`] | an event in, an answer out: joins the parts |
//! | [`replay_function`] | the same for the replay function: replays, and the turns and lanes of a state machine |
//! | [`redrive`] | drives the batch machine and carries out its actions |
//! | [`telemetry`] | reports become log lines and metrics |
//! | [`notices`] | notices of archived letters, sent to a topic |
//!
//! Below these are crates, each of which uses only those below it:
//!
//! | crate | subject |
//! |---|---|
//! | [`redrive_replay`] | from the archive back into delivery |
//! | [`redrive_archive`] | letters that cannot be saved, and the record's format |
//! | [`redrive_aws`] | what is done in AWS: settings and start, clients, look-ups, deliveries, signatures, overrides, the log |
//! | [`redrive_core`] | decides, and makes no calls |
//!
//! In `redrive-core`, in `crates/core/`, are:
//!
//! | module | subject |
//! |---|---|
//! | [`archive_notice`](redrive_core::archive_notice) | notices of archived letters: their counts, due times and text |
//! | [`batch`](redrive_core::batch) | the batch machine: asks for actions, takes answers, returns reports |
//! | [`policy`](redrive_core::policy) | the decision what happens, and when: overrides, rules, schedule |
//! | [`waiting`](redrive_core::waiting) | the list of waiting letters, and the keys that operators and the function share |
//! | [`letter`](redrive_core::letter) | the messages in the queue: origins, SNS messages, the mark |
//! | [`endpoint`](redrive_core::endpoint) | the targets of retries |
//! | [`arn`](redrive_core::arn), [`failure`](redrive_core::failure) | ARNs, parsed once; the meaning of a failure for a letter |
//! | [`shell`](redrive_core::shell) | others' texts in commands that operators copy |
//!
//! # The house
//!
//! The function is the package at the root. Everything else is in `crates/`, and only tests and proofs use the function.
//! An arrow means "uses":
//!
//! ```text
//!  deployed         sns-redrive ──> redrive-replay ──> redrive-archive ──> redrive-aws ──> redrive-core
//!                                                                               │
//!                                                                               └──> crc-fast (checksums)
//!
//!  for operators    redrive-ctl ──> redrive-console ──> redrive-replay
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
//! [`BatchMachine`](redrive_core::batch::BatchMachine), and at [`step`](redrive_core::policy::step) for the rule that decides which retry a letter is due for.

pub mod function;
pub mod notices;
pub mod redrive;
pub mod replay_function;
pub mod telemetry;
