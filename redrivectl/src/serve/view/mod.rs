//! The pages of actions, rendered: plain data becomes HTML.
//!
//! | file | subject |
//! |---|---|
//! | `form` | what is asked before an action begins |
//! | `job` | how far an action is |
//! | `parts` | what they share |

mod form;
mod job;
mod parts;

pub(super) use form::{form, refused};
pub(super) use job::{job, jobs};
pub(super) use parts::message;
