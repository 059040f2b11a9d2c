//! The meaning of an error for a letter.

use redrive_core::failure::Failure;
use redrive_core::failure::FailureClass::{self, ActionRequired, Permanent, Throttling, Transient};

#[test]
fn the_names_in_logs_are_fixed() {
    let names = [Throttling, Transient, Permanent, ActionRequired].map(FailureClass::name);
    assert_eq!(names, ["throttling", "transient", "permanent", "action_required"]);
}

#[test]
fn only_a_redirection_is_said_to_be_one() {
    let advice = |class, code: &str| Failure::ours(class, code).advice();
    assert!(advice(ActionRequired, "Http302").is_some_and(|advice| advice.contains("redirects")));
    assert_eq!(advice(ActionRequired, "NoSuchThing"), None);
    assert_eq!(advice(Transient, "Http302"), None);
}

#[test]
fn denied_is_what_permissions_are_missing_for() {
    for code in
        ["AccessDenied", "AccessDeniedException", "AuthorizationError", "Http403", "KMSAccessDeniedException"]
    {
        assert!(Failure::ours(ActionRequired, code).is_denied(), "{code}");
    }
    for (class, code) in [(ActionRequired, "NotFound"), (Permanent, "AccessDenied"), (Transient, "Http503")] {
        assert!(!Failure::ours(class, code).is_denied(), "{code}");
    }
}
