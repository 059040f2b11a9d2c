//! The page of a job, and the list of jobs.

use maud::{Markup, html};
use redrive_console::ActionObject;
use redrive_console::text::ShortName;

use super::elements::{again, commands, framed, printed, reason, rows};
use super::form::{beyond, subject};
use crate::serve::action::ServeAction;
use crate::serve::edit::{self, EditableRecord};
use crate::serve::jobs::{JobEnding, JobPhase, JobQuestion, ServeJob};
use crate::serve::preview::ActionPreview;
use crate::serve::session::ServeSession;
use crate::tables::{harmless, utc};

/// Renders the state of a job. While the job is at work the page loads again by itself, unless `stays` is
/// set.
pub(in crate::serve) fn job(session: &ServeSession, id: u64, job: &ServeJob, stays: bool) -> String {
    let action = &job.action;
    let title = format!("{}: {}", action.act.doing.title(), heading(&job.phase));
    let content = html! {
        @match &job.phase {
            JobPhase::Looks => {
                p role="status" { "Preparing the preview." }
                (waits(id, stays))
                (stop(id, "Stop looking"))
            }
            JobPhase::Edits(record) => (edits(id, record, session)),
            JobPhase::Asks(asked) => (asks(id, job, asked)),
            JobPhase::Checks(_) => {
                p role="status" { "Checking whether something has changed since the preview." }
                (waits(id, stays))
                (stop(id, "Stop"))
            }
            JobPhase::Runs { since } => {
                p role="status" { "Under way since " (utc(*since)) " UTC." }
                (waits(id, stays))
                (output(job))
                (stop(id, "Stop"))
                p class="hint" {
                    "Stops it as Ctrl-C does: what is under way is finished. A replay of a state machine goes on; stop that on the \
                     page Now."
                }
            }
            JobPhase::Ended(JobEnding { is_whole, says }) => {
                div role="status" class=(if *is_whole { "done" } else { "warning" }) {
                    @for line in says.lines() { p { (harmless(line)) } }
                }
                (output(job))
                @if !is_whole { (again(&action.act)) }
            }
        }
        h2 { "The action" }
        (subject(&action.act))
        @if let Some(why) = action.why() { (rows([("why", harmless(why).as_str())])) }
        @let file = action.act.to_file(session.account.stack.as_deref()).unwrap_or_default();
        (commands(file.lines().chain([action.command(&session.further).as_str()])))
        p { a href="jobs" { "All actions of this session" } }
    };
    framed(session, &title, &content)
}

/// Renders the list of jobs.
pub(in crate::serve) fn jobs(session: &ServeSession) -> String {
    let jobs = session.jobs.borrow();
    let content = html! {
        @if jobs.iter().next().is_none() {
            p { "Nothing was done in this session." }
        } @else {
            table {
                caption { "Actions since redrivectl serve was started, the latest first" }
                thead { tr {
                    th scope="col" { "action" } th scope="col" { "state" } th scope="col" { "begun (UTC)" }
                    th scope="col" { "why" }
                } }
                tbody {
                    @for (id, job) in jobs.iter() {
                        tr {
                            th scope="row" { a href={ "job?id=" (id) } { (job.action.act.doing.title()) " " (id) } }
                            td { (heading(&job.phase)) }
                            td { (utc(job.began)) }
                            td { (harmless(job.action.why().unwrap_or_default())) }
                        }
                    }
                }
            }
        }
    };
    framed(session, "Actions", &content)
}

fn heading(phase: &JobPhase) -> &'static str {
    match phase {
        JobPhase::Looks => "looking",
        JobPhase::Edits(_) => "edit",
        JobPhase::Asks(_) => "confirm",
        JobPhase::Checks(_) => "checking",
        JobPhase::Runs { .. } => "under way",
        JobPhase::Ended(JobEnding { is_whole: true, .. }) => "done",
        JobPhase::Ended(_) => "ended",
    }
}

/// Says whether the page loads again by itself, with a link to change that.
fn waits(id: u64, stays: bool) -> Markup {
    html! {
        p {
            @if stays {
                a href={ "job?id=" (id) } { "Look again" }
            } @else {
                "This page looks again every 2 seconds. "
                a href={ "job?id=" (id) "&stay=1" } { "Let it stay as it is" }
            }
        }
    }
}

fn stop(id: u64, label: &str) -> Markup {
    html! {
        form method="post" action="job" {
            input type="hidden" name="id" value=(id);
            input type="hidden" name="do" value="stop";
            button type="submit" { (label) }
        }
    }
}

fn output(job: &ServeJob) -> Markup {
    let (out, err) = (job.out.text(), job.err.text());
    html! {
        @if !err.is_empty() { h2 { "Progress and notes" } (printed(&err)) }
        @if !out.is_empty() { h2 { "What it says" } (printed(&out)) }
    }
}

fn asks(id: u64, job: &ServeJob, asked: &JobQuestion) -> Markup {
    let JobQuestion { preview, changed, nonce, until } = asked;
    html! {
        @if !changed.is_empty() {
            div class="warning" role="alert" {
                p { strong { "Something has changed since you confirmed. Nothing was done." } }
                ul { @for change in changed { li { (harmless(change)) } } }
            }
        }
        (beyond(&job.action.act))
        (shown(preview))
        @if preview.is_idle(job.action.act.doing) {
            p class="none" { "There is no letter to send." }
            (stop(id, "Leave it"))
        } @else {
            form method="post" action="job" {
                input type="hidden" name="id" value=(id);
                input type="hidden" name="do" value="confirm";
                input type="hidden" name="nonce" value=(nonce.text());
                p { button type="submit" class="confirm" { (does_what(&job.action, preview)) } }
                p class="hint" {
                    "You can confirm this once, until " (utc(*until)) " UTC. Before anything is done, the preview is made \
                     again. If something has changed, the page asks you again."
                }
            }
        }
    }
}

/// Returns what the button does: `Hold at most 310 letters of refunds for 2h`.
fn does_what(action: &ServeAction, preview: &ActionPreview) -> String {
    // The command cannot name these.
    let beyond = action.act.beyond();
    let of: Vec<String> = match &action.act.on {
        ActionObject::Letters { of, .. } => of
            .iter()
            .filter(|(field, value)| !value.is_empty() && !beyond.contains(field))
            .map(|(_, value)| ShortName::of(value).name)
            .collect(),
        _ => Vec::new(),
    };
    let of: Vec<String> = of.into_iter().chain(action.typed_selection()).collect();
    let of = if of.is_empty() { String::new() } else { format!(" of {}", of.join(" and ")) };
    let lasts = action.lasts().map_or(String::new(), |lasts| format!(" for {}", harmless(lasts)));
    let unchecked = if preview.is_unchecked() { ", not checked" } else { "" };
    format!("{} {}{of}{lasts}{unchecked}", action.act.doing.title(), preview.letters_in_words())
}

fn shown(preview: &ActionPreview) -> Markup {
    html! {
        h2 { "What it would do" }
        (rows(preview.rows.iter().map(|(name, value)| (*name, value.as_str()))))
        @if let Some(difference) = &preview.difference { h2 { "What is edited" } (printed(difference)) }
        h2 { "Overrides that have not ended" }
        @if preview.overrides.is_empty() {
            p { "None." }
        } @else {
            table {
                caption { "The first override that matches a letter counts. A new override comes before all of these" }
                thead { tr {
                    th scope="col" { "override" } th scope="col" { "do" } th scope="col" { "letters" } th scope="col" { "why" }
                } }
                tbody {
                    @for [id, does, letters, why] in &preview.overrides {
                        tr { th scope="row" { (id) } td class="short" { (does) } td { code { (letters) } } td { (why) } }
                    }
                }
            }
        }
        @if !preview.notes.is_empty() { h2 { "Notes" } (printed(&preview.notes)) }
    }
}

/// Renders the form that edits a letter.
fn edits(id: u64, record: &str, session: &ServeSession) -> Markup {
    // Never happens: the server does not begin an edit while bodies are hidden.
    if !session.shows_bodies() {
        return html! { p { "Bodies are hidden." } };
    }
    let EditableRecord { body, attributes } = match edit::editable(record, session.mask()) {
        Ok(editable) => editable,
        Err(why) => return html! { p class="warning" { (why) } },
    };
    html! {
        form method="post" action="job" {
            input type="hidden" name="id" value=(id);
            input type="hidden" name="do" value="edit";
            (reason("", None))
            p class="field" {
                label for="body" { "Body" }
                // Browsers drop the first line break of a text area, so there is one to drop.
                textarea id="body" name=(edit::BODY) rows="20" spellcheck="false" { "\n" (body) }
            }
            @for (index, (name, kind, value)) in attributes.iter().enumerate() {
                p class="field" {
                    label for={ "attribute-" (index) } { "Attribute " (name) " (" (harmless(kind)) ")" }
                    textarea id={ "attribute-" (index) } name=(edit::field_of(name)) rows="1" spellcheck="false" {
                        "\n" (value)
                    }
                }
            }
            p {
                button type="submit" { "Preview" }
                " "
                span class="hint" { "Shows the difference. Nothing is done yet." }
            }
        }
        (stop(id, "Leave it"))
    }
}
