//! The policy: what should happen to a letter, and when.
//!
//! The redrive policy says which rule a letter falls under; the rule's schedule and the letter's own history
//! say whether a retry is due. [`Policy::decide`] answers before anything is done, [`Verdict::after_failure`]
//! once a delivery has failed. Both are pure: the present is an argument, jitter comes from a hash, and the
//! same letter at the same time always gets the same answer.

mod decide;
mod decision;
mod delivery;
mod document;
mod fields;
mod json;
mod letter_clock;
mod letter_target;
mod matcher;
mod overrides;
mod retention;
mod route;
mod rule;
mod rules;
mod schedule;
mod verdict;

pub use decide::{ReceiveFacts, RetryStep, VISIBILITY_CEILING, plus, seconds_until, step};
pub use decision::{ArchiveReason, Decision, DeferReason, Deferral, Retry};
pub use delivery::{DeliveryPolicy, DeliverySpec};
pub use document::{BadPolicy, DEFAULT_RULE};
pub use fields::DocumentFault;
pub use json::{after_mark, read_json};
pub use letter_target::LetterTarget;
pub use matcher::rounds_numbers;
pub use overrides::{
    BadOverrides, MAX_OVERRIDES, MAX_OVERRIDES_BYTES, OVERRIDES_VERSION, Override, OverrideAction,
    OverrideAnswer, OverrideReach, Overrides, RETRY_IN_FORCE, ReachAnswer,
};
pub use retention::{
    DEFAULT_RETENTION, LEAST_RETENTION, MAX_UNREAD_TIME, Retention, ask_again_after, expiry_margin, is_kept,
};
pub use route::{Route, SubscriptionVoucher};
pub use rule::{FifoHandling, RecordDelimiter, Rule, RuleAction, SubscriptionSpec, TargetSpec};
pub use rules::Policy;
pub use schedule::{Backoff, Jitter, MAX_DELAY_SECONDS, MAX_RETRIES, RetryPhase, Schedule};
pub use verdict::{LetterFacts, MAX_PASSES, NOT_JSON, SCOUT_SECONDS, Verdict};
