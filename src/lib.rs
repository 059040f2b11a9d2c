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
//! archive: no retry left, no way, or told <──┘
//! ```
//!
//! A letter that waits stays in its queue, hidden until its next retry is due, or moves to the requeue if too many
//! are hidden. There is no other state: the number of retries behind it follows from its timestamps, its receive
//! count and the mark that it carries. It leaves a queue only when its target, the archive or the requeue has it.
//! So a crash can repeat a letter but cannot lose one.
//!
//! `docs/SEMANTICS.md` says what users may rely on, `docs/decisions.md` says why it is so.
//!
//! # The way of a letter that is delivered
//!
//! The core decides and makes no calls; everything else does what the core asks for. An
//! [`Action`](redrive_core::batch::Action) and its answer pass between them. A delivered letter crosses that wall four
//! times: its subscription is asked for and told, and its request is asked for and its result told.
//!
//! | what happens | what makes calls | in `crates/core/src` |
//! |---|---|---|
//! | an event becomes messages, and a message a letter | `src/function.rs`, `src/redrive/mod.rs` | `batch/machine.rs`, `letter/` |
//! | the letter falls under a rule, and a retry is due | | `policy/rules.rs`, `policy/verdict.rs`, `policy/decide.rs` (the number of the retry), `batch/open_batch.rs`, `batch/round.rs`, `batch/pending_letter.rs` |
//! | its subscription is looked up, and says where it may go | `crates/aws/src/lookup/subscriptions.rs` | `batch/round.rs`, `policy/route.rs`, `batch/resolve.rs`, `batch/subscription.rs` |
//! | it gets a turn, and shares a request | | `batch/delivery.rs`, `batch/throttle.rs`, `batch/requests.rs` |
//! | the request begins, if a place is free, its endpoint is not down and no override holds the letter | | `batch/sending.rs`, `batch/dispatch.rs`, `batch/health/`, `batch/known_overrides.rs` |
//! | the letter is packed, and the request made | `src/redrive/actions.rs`; `payload.rs`, `dispatcher.rs` and a file for each kind of endpoint in `crates/aws/src/delivery/` | |
//! | the result counts for the endpoint and the letter | | `batch/sending.rs`, `batch/delivery.rs`, `batch/pending_letter.rs` |
//! | the report becomes a log line, and Lambda may delete the message | `src/telemetry/letter.rs`, `src/function.rs` | `batch/pending_letter.rs`, `batch/outcome.rs` |
//!
//! A letter that waits is hidden by `crates/aws/src/delivery/hide_letters.rs`, as `batch/in_flight.rs` and
//! `batch/parking.rs` decide. One that is archived goes by `batch/archiving.rs` to `crates/archive/src/store.rs`;
//! `object.rs` beside it makes the key.
//!
//! # A new kind of endpoint
//!
//! Begin with a variant of [`Endpoint`](redrive_core::endpoint::Endpoint) and a file in `crates/aws/src/delivery/`. The
//! compiler names most of the rest. It does not name: how its ARN is read (`arn.rs`, `policy/document.rs`), whether it
//! carries the mark and takes the raw text (`batch/unmarked.rs`, `batch/delivery.rs`, `policy/verdict.rs`), whether a
//! request waits until its letter is handled (`batch/packed_facts.rs`, `batch/dispatch.rs`), what its errors mean
//! (`failure.rs`), whether SNS can subscribe it (`batch/subscription.rs`), the rights that `redrivectl doctor` asks for
//! (`crates/ctl/src/doctor/`), the parameters that `serve` reads (`crates/ctl/src/serve/account.rs`), the parameter and
//! grant in `template.yaml`, and `crates/sim`.
//!
//! # The map
//!
//! Each module uses only modules below it in this list. No files use each other in a circle, in no crate that is
//! deployed or for operators.
//!
//! | module | subject |
//! |---|---|
//! | [`load_function`] | the function before it has its policy |
//! | [`function`] | an event in, an answer out: joins the parts |
//! | [`replay_function`] | the same for the replay function: replays, and the turns and lanes of a state machine |
//! | [`redrive`] | drives the batch machine and carries out its actions |
//! | [`telemetry`] | reports become log lines and metrics |
//! | [`notices`] | notices of archived letters and of endpoints, sent to a topic |
//!
//! Below these are crates, each of which uses only those below it:
//!
//! | crate | subject |
//! |---|---|
//! | [`redrive_replay`] | from the archive back into delivery |
//! | [`redrive_archive`] | letters that are given up: their records, the keys of their objects, and how they are listed |
//! | [`redrive_aws`] | what is done in AWS: settings and start, clients, look-ups, deliveries, signatures, overrides, the log |
//! | [`redrive_core`] | decides, and makes no calls |
//!
//! In `redrive-core`, in `crates/core/`, are:
//!
//! | module | subject |
//! |---|---|
//! | [`notice`](redrive_core::notice) | notices of archived letters and of endpoints: their counts, due times and text |
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
//! The two functions are the package at the root; the widget, a third, is in `redrive-console`. All other packages are
//! in `crates/`, except for the fuzzers. Only tests and proofs use the package at the root. An arrow means "uses"; each
//! package also uses what is further right:
//!
//! ```text
//!  deployed         sns-redrive ──> redrive-replay ──> redrive-archive ──> redrive-aws ──> redrive-core
//!                                                                               │
//!                                                   crc-fast, for the SDK <······┘
//!
//!  for operators    redrive-ctl ──> redrive-console ──> redrive-replay
//!                     the tool        its pages, the widget
//!
//!  for tests        redrive-proof ──> redrive-laws ──> redrive-sim ──> redrive-sim-queue
//!                     measures, breaks   what must hold   an AWS account in memory
//!                   redrive-model ──> redrive-testing   redrive-support, redrive-console-law, redrive-console-tests
//!                     months of decisions   what tests share: letters; SDK; the pages' laws and tests
//! ```
//!
//! `main.rs` only runs [`function::RedriveFunction`], by [`load_function::FunctionLoader`], and `bin/replay.rs` only runs
//! [`replay_function::ReplayFunction`]. Start reading at [`redrive::Redrive::handle`], then at
//! [`Batch::poll`](redrive_core::batch::Batch::poll), [`Rule::decide`](redrive_core::policy::Rule::decide), and
//! [`step`](redrive_core::policy::step), the rule that decides which retry a letter is due for.

pub mod function;
pub mod load_function;
pub mod notices;
pub mod redrive;
pub mod replay_function;
pub mod telemetry;
