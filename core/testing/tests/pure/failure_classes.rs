//! The meaning of an error for a letter.

use redrive_core::failure::FailureClass::{self, ActionRequired, Permanent, Throttling, Transient};

#[test]
fn the_names_in_logs_are_fixed() {
    let names = [Throttling, Transient, Permanent, ActionRequired].map(FailureClass::name);
    assert_eq!(names, ["throttling", "transient", "permanent", "action_required"]);
}
