//! The health of endpoints, which an instance has learnt from answers and time-outs.
//!
//! The measure is the time that failures cost, since one endpoint takes this time from the letters of all
//! others. An endpoint that fails at once is still tried along each letter's own schedule. An endpoint that
//! hangs is left alone:
//!
//! ```text
//!         a time-out, or 3 s of failures                  the pause is over
//!   up ─────────────────────────────────────────> down ──────────────────────> trial: one request
//!    ^                                             ^                              │        │
//!    │                                             └──────── it costs a second ───┘        │ it is taken
//!    └── 16 <── 8 <── 4 <── 2 requests under way, each time that one is taken <────────────┘
//! ```
//!
//! A pause is twenty times as long as the failures that led to it, 40 s at most. So a short trial costs a
//! twentieth of the time, all trials together some ninth, and letters come back within a minute once the
//! endpoint works again. The pause is longer if the endpoint asks for that. Trials are short so that they
//! cost little. Every second trial is twice as long, every fourth four times, so that an endpoint is found
//! that answers more slowly than before. A request that may take all the time that an endpoint has is made
//! once in twenty times what it costs. Last retries wait for that one.
//!
//! | file | subject |
//! |---|---|
//! | `table` | the endpoints that an instance remembers |
//! | `known` | one of these endpoints: its state, and how it changes |
//! | `trials` | the time that a trial may take |

mod known;
mod table;
#[cfg(test)]
mod tests;
mod trials;

pub use known::Change;
pub(super) use known::{Admission, Made};
pub use table::Health;
