//! The health of endpoints, which an instance has learnt from answers and time-outs.
//!
//! The measure is the time that failures cost, since an endpoint takes this time from the letters of all others.
//! Everything that does not work is paid from one allowance of the instance, a twentieth of its time: attempts that
//! fail, trials of endpoints that are down, and questions without an answer, such as look-ups that hang. What fails at
//! the same time costs its time once, so that forty endpoints that hang take no more than one.
//!
//! ```text
//!         a failure of a second or more,                  it has rested, and something
//!         or any while nothing is left                    is left of the allowance
//!   up ─────────────────────────────────────────> down ──────────────────────> trial: one request
//!    ^                                             ^                              │        │
//!    │                                             └──────── it costs a second ───┘        │ it is taken
//!    └── 16 <── 8 <── 4 <── 2 requests under way, each time that one is taken <────────────┘
//! ```
//!
//! An endpoint that fails at once is still tried along each letter's own schedule, as long as something is left. One
//! that hangs rests for twenty times as long as it took, 40 s at most. Its letters are left out until their own next
//! planned moments: if all came back soon, an endpoint that is down for hours would keep the function busy. Trials are
//! short, so that they cost little. Every second one is twice as long, every fourth four times, so that an endpoint is
//! found that answers more slowly than before. Last retries get the full time. While nothing is left, an attempt at an
//! endpoint that is not known to be down gets three seconds.
//!
//! An endpoint that is slow but works gets a tenth of the time while batches are full and others wait: its letters are
//! put off to the next full minute, and go together.
//!
//! | file | subject |
//! |---|---|
//! | `table` | the endpoints that an instance remembers |
//! | `endpoint_health`, `health_change` | one of these endpoints: its state, and how it changes |
//! | `allowance` | the part of the time that is spent on what does not work |
//! | `trials` | the time that a trial may take |
//! | `slow` | how slow an endpoint is |
//! | `questions`, `hung_questions` | what is asked before letters are sent, and what hung |

mod allowance;
mod endpoint_health;
mod health_change;
mod hung_questions;
mod questions;
mod slow;
mod table;
#[cfg(test)]
mod tests;
mod trials;

pub(super) use endpoint_health::{RequestAdmission, RequestCandidate};
pub use health_change::HealthChange;
pub(super) use hung_questions::LookupQuestion;
pub(super) use questions::{QuestionEnd, QuestionTurn};
pub(super) use table::FULL_BATCH;
pub use table::Health;
