//! Links and actions, in the form of each door.

use maud::{Markup, html};

use crate::account::ConsoleAccount;
use crate::operator_action::PageAction;
use crate::page_host::{LocalConsole, PageHost};
use crate::query::{PageKind, Query};
use crate::text::harmless;

/// Returns a link to another page. The widget has no page for a single letter, so there a letter is plain
/// text. The widget's links are buttons: the dashboard listens for clicks on the element before
/// `cwdb-action`, and the keyboard can reach and press a button, but not an `a` without an address.
#[must_use]
pub fn link(text: &str, to: &Query, door: &PageHost) -> Markup {
    titled_link(text, None, to, door)
}

/// Returns a link with a short text. Its title is the whole text.
#[must_use]
pub fn titled_link(text: &str, title: Option<&str>, to: &Query, door: &PageHost) -> Markup {
    let (text, title) = (harmless(text), title.map(harmless));
    match door {
        PageHost::Widget(_) if matches!(to.page, PageKind::Letter(_)) => {
            html! { span title=[title] { (text) } }
        }
        PageHost::Local(_) => html! { a href=(to.to_address()) title=[title] { (text) } },
        PageHost::Widget(widget) => html! {
            button type="button" class="link" title=[title] { (text) }
            cwdb-action action="call" endpoint=(widget.endpoint) display="widget" {
                (to.to_parameters().to_string())
            }
        },
    }
}

/// Returns an action: a link to its form if the door acts, otherwise its command.
#[must_use]
pub fn action(act: &PageAction, account: &ConsoleAccount, door: &PageHost) -> Markup {
    if let PageHost::Local(LocalConsole { operates: true, .. }) = door {
        return html! { a class="act" href=(act.to_address()) { (act.title()) } };
    }
    html! {
        details class="act" {
            summary { (act.title()) }
            pre { code { (act.trial(account.stack.as_deref())) } }
        }
    }
}
