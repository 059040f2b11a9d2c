//! What the programs of sns-redrive do in AWS. Each module uses only modules below it in this list.
//!
//! | module | subject |
//! |---|---|
//! | [`start`] | the start of all functions: settings, clients, the log |
//! | [`log`] | the log: its lines on standard output, and which are written |
//! | [`signature`] | the check that SNS wrote a letter |
//! | [`control`] | the overrides of operators, and the list of waiting letters |
//! | [`policy_object`] | the redrive policy as an object in S3 |
//! | [`lookup`] | queues and subscriptions: asked once, kept for a while, cut off at a deadline |
//! | [`delivery`] | makes requests, with a file for each kind of endpoint; hiding |
//! | [`clients`] | the AWS clients, their HTTP client, the meaning of their errors |
//! | [`settings`] | the environment becomes [`Settings`](settings::Settings) |
//! | [`under_way`] | calls under way at the same time |
//! | [`clock`] | the present time |

pub mod clients;
pub mod clock;
pub mod control;
pub mod delivery;
pub mod log;
pub mod lookup;
pub mod policy_object;
pub mod settings;
pub mod signature;
pub mod start;
pub mod under_way;
