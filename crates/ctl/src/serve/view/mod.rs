//! Renders the pages of actions as HTML.
//!
//! | file | subject |
//! |---|---|
//! | `form` | the form before an action begins |
//! | `job` | the state of an action |
//! | `elements` | parts that these pages share |

mod elements;
mod form;
mod job;

pub(super) use elements::message;
pub(super) use form::form;
pub(super) use job::{job, jobs};
