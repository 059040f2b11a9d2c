//! What happens when an endpoint that was down takes a letter again: those that wait for it do not sit out their delays.
//!
//! ```text
//!   two minutes of failures,           it takes a letter
//!   not one success                    ┌─────────────────────────────────────────────────────┐
//!        │                             │                                                     │
//!        └──> down ── a scout every ───┘   recovered ── each batch that it takes wakes ─── the list is at its end
//!             nine minutes                 more of those that were listed before             or it fails again
//! ```
//!
//! All instances share one document ([`crate::waiting::Recoveries`]): since when an endpoint is down, when it was back, and how
//! far the list of waiting letters has been claimed. An instance claims some hundred letters by moving that *place*, with a
//! write that fails if another was faster, so that no letter is woken twice. It wakes them a few at a time, as many as the
//! endpoint has just taken.
//!
//! It is advice, like the list: where the document or the list cannot be read or written, letters wait for their schedules.
//!
//! | file | subject |
//! |---|---|
//! | `failing_endpoints` | the endpoints that this instance sees fail |
//! | `known_recoveries` | the document, as this instance knows it |
//! | `endpoint_change`, `telling` | what the topic of notices is told: claimed in the document, so that one instance tells it |
//! | `endpoint_tally` | what became of a batch's letters, by endpoint |
//! | `wake_pace` | how many letters are woken |
//! | `recovery_memory` | all that an instance remembers of this |
//! | `waking`, `recovery_task` | the calls at the end of a batch, and how far they are |
//! | `scouts`, `scouting` | letters that find out whether their endpoint is back |
//! | `claiming` | which letters of the list this instance takes |
//! | `unlisted_letters` | the lines that it has not listed yet: a busy instance joins those of ten invocations |

mod claiming;
mod endpoint_change;
mod endpoint_tally;
mod failing_endpoints;
mod known_recoveries;
mod recovery_memory;
mod recovery_task;
mod scouting;
mod scouts;
mod telling;
mod unlisted_letters;
mod wake_pace;
mod waking;

pub use endpoint_change::{ChangeKind, EndpointChange};
pub(super) use recovery_memory::RecoveryMemory;
pub(super) use recovery_task::RecoveryTask;
pub(super) use unlisted_letters::ListingInvocation;
