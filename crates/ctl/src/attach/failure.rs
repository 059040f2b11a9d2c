//! The failures that end the command.

use crate::console::CommandFailure;
use crate::doctor::ReadError;

/// Returns the failure of bad input.
pub(super) fn bad(problem: String) -> CommandFailure {
    CommandFailure::Input(vec![problem])
}

/// Returns the failure of a read without which nothing can be done.
pub(super) fn needed(what: &str, error: &ReadError) -> CommandFailure {
    let why = format!("cannot read {what}: {} failed ({})", error.call, error.reason());
    if error.is_missing() || error.is_of_no_queue() {
        bad(why)
    } else {
        CommandFailure::of_call(why, error.is_denied())
    }
}
