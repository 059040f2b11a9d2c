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
//!  SqsMessage ──parse──> Letter ──decide──> Decision ──do──> Outcome ──> SqsBatchResponse
//!                                              │                │
//!                        target: retry now <───┤                └──> telemetry: a log line a letter,
//!                   visibility: hide, later <──┤                      an object of metrics a batch
//!          archive: no retry left, or no way <─┘
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
//! | module | what it holds | knows of |
//! |---|---|---|
//! | [`letter`] | what lies in the queue: origins, SNS messages, the mark | nothing outside; pure |
//! | [`policy`] | what should happen, and when: rules, schedule, decision | letters; pure |
//! | [`redrive`] | doing it: a batch in, an outcome for every letter out | all of these |
//! | [`delivery`] | where retries go: topics, queues, functions, web servers, streams; subscriptions | AWS, letters; no policy |
//! | [`signature`] | whether SNS wrote a letter | letters; fetches certificates |
//! | [`archive`] | where letters rest that cannot be saved, and the record's format | AWS, letters; no schedule |
//! | [`replay`] | from the archive back into delivery | archive, requeue; policy for targets only |
//! | [`visibility`] | hiding | AWS |
//! | [`telemetry`] | facts to log lines and metrics | reports of [`redrive`] |
//! | [`failure`] | what an error of AWS means, decided in one place | AWS |
//! | [`settings`] | environment to [`Settings`](settings::Settings) | policy |
//! | [`clients`] | the AWS clients: TLS, tries, time-outs | AWS; faults of settings |
//! | [`clock`] | the present, which comes in from outside | |
//! | [`arn`] | ARNs, parsed once | |
//! | [`function`] | joins the parts: an event in, an answer out | all |
//!
//! `letter`, `policy`, `arn` and the classes of `failure` are the crate `redrive-core`, in `core/`: what is decided
//! depends on nothing that does.
//! `main.rs` reads the settings, makes the clients and runs [`function::Function`]; nothing else.
//! Start reading at [`redrive::Redrive::handle`], and at [`policy::step`] for the rule that says
//! which retry a letter is due for.

pub mod archive;
pub mod clients;
pub mod clock;
pub mod delivery;
pub mod function;
pub mod lookup;
pub mod redrive;
pub mod replay;
pub mod settings;
pub mod signature;
pub mod telemetry;

pub use redrive_core::{arn, batch, endpoint, failure, letter, policy};
