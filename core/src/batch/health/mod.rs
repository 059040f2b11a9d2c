//! The health of endpoints: what an instance has learnt of each from answers and time-outs.
//!
//! What counts is the time that failures cost, since it is time that one endpoint takes from the letters of all others.
//! An endpoint that fails at once goes on being tried along each letter's own schedule. One that hangs is left alone:
//!
//! ```text
//!         a time-out, or 3 s of failures                  the pause is over
//!   up ─────────────────────────────────────────> down ──────────────────────> trial: one request
//!    ^                                             ^                              │        │
//!    │                                             └──────── it costs a second ───┘        │ it is taken
//!    └── 16 <── 8 <── 4 <── 2 requests under way, each time that one is taken <────────────┘
//! ```
//!
//! A pause is twenty times as long as what led to it took, 40 s at most, so that trials cost a twentieth of the time, and
//! letters come back within a minute once the endpoint works again; it is longer where the endpoint asks for that. A trial is
//! short for that. Every second one is twice as long, every fourth four times, so that an endpoint is found that answers
//! slower than it did. A request that may take all the time that an endpoint has is made once in twenty times what it
//! costs. Last retries wait for that one.
//!
//! | file | subject |
//! |---|---|
//! | `table` | the endpoints that an instance remembers |
//! | `known` | what is known of one of them: its state, and how it changes |
//! | `trials` | how long a trial may take |

mod known;
mod table;
#[cfg(test)]
mod tests;
mod trials;

pub use known::Change;
pub(super) use known::{Admission, Made};
pub use table::Health;
