//! Renders the pages of actions as HTML.
//!
//! | file | subject |
//! |---|---|
//! | `form` | the form before an action begins |
//! | `job` | the state of an action |
//! | `parts` | parts that these pages share |

mod form;
mod job;
mod parts;

pub(super) use form::{form, refused};
pub(super) use job::{job, jobs};
pub(super) use parts::message;
