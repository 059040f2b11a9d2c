//! The form of an action.

use maud::{Markup, html};
use redrive_console::{ActionObject, ActionVerb, PageAction};

use super::elements::{commands, framed, reason, rows};
use crate::serve::action::{FormFault, FormField, WHY, fields};
use crate::serve::fields::FormFields;
use crate::serve::session::ServeSession;
use crate::tables::harmless;

/// Renders the form of an action, with what was typed already and what is wrong with it. The form is sent to the action's
/// address, which names the letters; the address is URL-encoded.
pub(in crate::serve) fn form(
    session: &ServeSession,
    act: &PageAction,
    typed: &FormFields,
    fault: Option<&FormFault>,
) -> String {
    let is_edit = act.doing == ActionVerb::Edit;
    let (rare, often): (Vec<_>, Vec<_>) = fields(act).into_iter().partition(|field| field.is_rare);
    let at = |name: &str| fault.filter(|fault| fault.field == Some(name)).map(|fault| fault.says.as_str());
    let is_open = rare.iter().any(|field| !typed.text(field.name).is_empty() || at(field.name).is_some());
    let content = html! {
        @if let Some(fault) = fault {
            p class="warning" role="alert" {
                @if fault.field.is_some() { "Nothing was done: see the field below." } @else { (harmless(&fault.says)) }
            }
        }
        p { (does(act.doing)) }
        (subject(act))
        (beyond(act))
        form method="post" action=(act.to_address()) {
            @if !is_edit { (reason(typed.text(WHY), at(WHY))) }
            @for field in &often { (text_field(field, typed.text(field.name), at(field.name))) }
            @if !rare.is_empty() {
                details open[is_open] {
                    summary { "More" }
                    @for field in &rare { (text_field(field, typed.text(field.name), at(field.name))) }
                }
            }
            p {
                button type="submit" class="main" { @if is_edit { "Read the letter" } @else { "Preview" } }
                " "
                span class="hint" { "Nothing is done yet." }
            }
        }
        (commands(act.command(session.account.stack.as_deref()).lines()))
    };
    framed(session, act.doing.title(), &content)
}

fn text_field(field: &FormField, typed: &str, fault: Option<&str>) -> Markup {
    let (hint, list) = (format!("{}-hint", field.name), format!("{}-list", field.name));
    html! {
        p class="field" {
            label for=(field.name) { (field.label) }
            input id=(field.name) name=(field.name) type="text" autocomplete="off" value=(harmless(typed))
                list=[(!field.offers.is_empty()).then_some(&list)]
                aria-invalid=[fault.map(|_| "true")] aria-describedby=(hint);
            span id=(hint) class="hint" {
                @if let Some(fault) = fault { span class="error" { (harmless(fault)) } " " }
                (field.hint)
            }
            @if !field.offers.is_empty() {
                datalist id=(list) { @for offer in field.offers { option value=(offer) {} } }
            }
        }
    }
}

/// Warns if an action touches more letters than the group on the page.
pub(super) fn beyond(act: &PageAction) -> Markup {
    let beyond: Vec<_> = act.beyond().into_iter().map(redrive_console::GroupField::name).collect();
    html! {
        @if !beyond.is_empty() {
            p class="warning" role="note" {
                strong { "More letters than the group: " }
                "the command cannot name " (beyond.join(", ")) ". It affects letters with any value there."
            }
        }
    }
}

/// Names the letters, the override or the replay of an action.
pub(super) fn subject(act: &PageAction) -> Markup {
    let one = |what: &'static str, id: &str| vec![(what, harmless(id))];
    let list = match &act.on {
        ActionObject::Letters { of, since, until } => {
            let fields = of.iter().map(|(field, value)| {
                (field.name(), if value.is_empty() { "(none)".to_owned() } else { harmless(value) })
            });
            let mut list: Vec<_> = fields.collect();
            if list.is_empty() {
                list.push(("letters", "all of them".to_owned()));
            }
            list.extend(since.map(|since| ("archived since", since.to_string())));
            list.extend(until.map(|until| ("archived before", until.to_string())));
            list
        }
        ActionObject::Archived { id, .. } | ActionObject::Waiting { id } => one("letter", id),
        ActionObject::Override(id) => one("override", id),
        ActionObject::Replay(id) => one("replay", id),
    };
    rows(list.iter().map(|(name, value)| (*name, value.as_str())))
}

fn does(doing: ActionVerb) -> &'static str {
    match doing {
        ActionVerb::Hold => {
            "No attempts for these letters, until the override ends or is released. Letters that expire are still archived."
        }
        ActionVerb::Retry => {
            "The function tries each of these letters as soon as it receives it, whatever the schedule says."
        }
        ActionVerb::GiveUp => {
            "These letters go to the archive, with the reason given-up. They can be replayed later."
        }
        ActionVerb::Replay => {
            "These archived letters are sent again, through the requeue: a few at first, then the rest."
        }
        ActionVerb::Edit => {
            "You read the letter from the archive, edit it and see the difference. Then it is sent again."
        }
        ActionVerb::Release => "The override is taken back. The letters of a hold wake.",
        ActionVerb::Stop => {
            "The replay stops after the letters under way, wherever it runs. It can go on later."
        }
        ActionVerb::Resume => "The replay goes on where it stopped.",
    }
}
