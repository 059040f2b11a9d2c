//! Parts of the pages of actions.

use maud::{Markup, html};
use redrive_console::PageAction;
use redrive_console::view::PageFrame;

use crate::serve::session::ServeSession;
use crate::tables::harmless;

/// Puts the console's frame around a page.
pub(super) fn framed(session: &ServeSession, title: &str, content: &Markup) -> String {
    let door = session.door();
    PageFrame { title, has_heading: false, query: None, account: &session.account, door: &door, footer: None }
        .put(content)
}

/// Renders a page with one message.
pub(in crate::serve) fn message(session: &ServeSession, title: &str, text: &str) -> String {
    framed(session, title, &html! { @for line in text.lines() { p { (harmless(line)) } } })
}

/// Links back to the form of an action, to try again.
pub(super) fn again(act: &PageAction) -> Markup {
    html! { p { a href=(act.to_address()) { "Fill in the form again" } } }
}

/// Renders names and values, one pair below the other. The values must be harmless already.
pub(super) fn rows<'r>(rows: impl IntoIterator<Item = (&'r str, &'r str)>) -> Markup {
    html! { dl class="rows" { @for (name, value) in rows { div { dt { (name) } dd { (value) } } } } }
}

/// Shows the commands that do the same, one a line.
pub(super) fn commands<'l>(lines: impl IntoIterator<Item = &'l str>) -> Markup {
    let lines: Vec<_> = lines.into_iter().map(harmless).collect();
    html! {
        p { @if lines.len() > 1 { "The commands that do the same:" } @else { "The command that does the same:" } }
        pre class="command" { code { (lines.join("\n")) } }
    }
}

/// Shows the printed output of a command.
pub(super) fn printed(text: &str) -> Markup {
    let lines: Vec<_> = text.lines().map(harmless).collect();
    html! { pre { (lines.join("\n")) } }
}

/// Renders the field for the reason, with what was typed and what is wrong with it.
pub(super) fn reason(typed: &str, fault: Option<&str>) -> Markup {
    html! {
        p class="field" {
            label for="why" { "Why" }
            input id="why" name="why" type="text" required maxlength="1000" autocomplete="off" value=(harmless(typed))
                aria-invalid=[fault.map(|_| "true")] aria-describedby="why-hint";
            span id="why-hint" class="hint" {
                @if let Some(fault) = fault { span class="error" { (harmless(fault)) } " " }
                "required; kept with your name for others to read"
            }
        }
    }
}
