//! Links and actions, as the door has them.

use maud::{Markup, html};

use crate::account::Account;
use crate::act::Act;
use crate::door::{Door, Local};
use crate::query::{Page, Query};
use crate::text::harmless;

/// Returns a link to another page. The widget shows no single letters, so there a letter is no link. A link of the widget is
/// a button: the dashboard listens to clicks on the element before `cwdb-action`, and the keyboard reaches and clicks a
/// button, but no `a` without an address.
#[must_use]
pub fn link(text: &str, to: &Query, door: &Door) -> Markup {
    let text = harmless(text);
    match door {
        Door::Widget(_) if matches!(to.page, Page::Letter(_)) => html! { (text) },
        Door::Local(_) => html! { a href=(to.to_address()) { (text) } },
        Door::Widget(widget) => html! {
            button type="button" class="link" { (text) }
            cwdb-action action="call" endpoint=(widget.endpoint) display="widget" {
                (to.to_parameters().to_string())
            }
        },
    }
}

/// Returns an action: a link to its form where the door operates, else the command to type.
#[must_use]
pub fn action(act: &Act, account: &Account, door: &Door) -> Markup {
    if let Door::Local(Local { operates: true, .. }) = door {
        return html! { a class="act" href=(act.to_address()) { (act.doing.title()) } };
    }
    html! {
        details class="act" {
            summary { (act.doing.title()) }
            pre { code { (act.trial(account.stack.as_deref())) } }
        }
    }
}
