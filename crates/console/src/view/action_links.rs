//! Actions on letters, rendered as links or commands.

use maud::{Markup, html};

use super::elements::ViewContext;
use super::link::action;
use crate::operator_action::{ActionVerb, PageAction};
use crate::page_host::PageHost;
use crate::query::GroupField;

/// Says how to use the commands, at a door that does not act.
pub(super) fn commands_only(view: &ViewContext<'_>) -> Markup {
    html! {
        @if !matches!(view.door, PageHost::Local(local) if local.operates) {
            p class="note" {
                "This page changes nothing: these are the commands to type. An override shows its letters and asks first. "
                "A replay with --dry-run counts what it would send; run it again without --dry-run to send."
            }
        }
    }
}

/// Shows actions on letters. Warns if the commands cannot express the whole filter and so touch more letters.
pub(super) fn actions(acts: &[PageAction], what: &str, view: &ViewContext<'_>) -> Markup {
    let Some(first) = acts.first() else { return html! {} };
    if !first.names_its_letters() {
        return html! {
            p class="note warning" {
                (what) " cannot name these letters, so it would apply to every letter. Narrow the group down first, by "
                "subscription, topic or queue."
            }
        };
    }
    let beyond: Vec<_> = first.beyond().into_iter().map(GroupField::name).collect();
    html! {
        p { @for act in acts { (action(act, view.account, view.door)) " " } }
        @if !beyond.is_empty() {
            p class="note warning" {
                (what) " cannot name the " (beyond.join(" and ")) ": it applies to letters with any value there."
            }
        }
    }
}

/// Returns the overrides for letters that wait. To an endpoint that asks for time, a retry at once is one more request that it
/// refuses.
pub(super) fn overrides(throttles: bool) -> &'static [ActionVerb] {
    if throttles {
        &[ActionVerb::Hold, ActionVerb::GiveUp]
    } else {
        &[ActionVerb::Retry, ActionVerb::Hold, ActionVerb::GiveUp]
    }
}
