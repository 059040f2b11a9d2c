//! Routes a request to its answer.

use std::rc::Rc;
use std::time::Duration;

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body;
use hyper::{Method, Request, StatusCode};
use redrive_console::{PageKind, Query, show};
use tokio::time::timeout;

use super::action::{ServeAction, act};
use super::answer::ServeAnswer;
use super::edit;
use super::fields::FormFields;
use super::guard::AdmittedTarget;
use super::jobs::JobPhase;
use super::session::ServeSession;
use super::{job_work, view};

/// The longest form, bytes. An edited letter has up to a mebibyte, and the form's encoding may triple it.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
const LONGEST_FORM: usize = 4 << 20;

/// How long a form may take to arrive.
const FORM_WITHIN: Duration = Duration::from_secs(10);

/// How long an answer waits for a job's preview or check. Most take less time, so the browser sees their
/// result at once.
const MAX_JOB_WAIT: Duration = Duration::from_secs(2);

/// The seconds after which a page loads again, if its visitor wants that.
const REFRESH_SECONDS: u32 = 30;

/// The seconds after which a job's page loads again.
const RELOAD_SECONDS: u32 = 2;

/// Answers a request.
pub(super) async fn answer<B>(session: &Rc<ServeSession>, request: Request<B>) -> ServeAnswer
where
    B: Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (head, body) = request.into_parts();
    let path = match session.guard.admit(&head.method, &head.uri, &head.headers) {
        Err(refusal) => return ServeAnswer::refused(refusal),
        Ok(AdmittedTarget::Icon) => return ServeAnswer::nothing(),
        Ok(AdmittedTarget::Bare) => return ServeAnswer::to(session.guard.address()),
        Ok(AdmittedTarget::Path(path)) => path,
    };
    let posts = head.method == Method::POST;
    let query = head.uri.query().unwrap_or_default();
    if !session.operates && (posts || matches!(path, "act" | "job" | "jobs")) {
        let text = "redrivectl serve was started to show only. To act on letters, start it with --operate.";
        return message(session, "Read-only", text).with(StatusCode::FORBIDDEN);
    }
    match (path, posts) {
        ("act", false) => form(session, query),
        ("job", false) => job(session, query),
        ("jobs", false) => ServeAnswer::page(view::jobs(session)),
        ("act" | "job", true) => {
            let form = match fields(body).await {
                Ok(form) => form,
                Err(refused) => return refused,
            };
            if path == "act" { begin(session, query, form).await } else { decide(session, form).await }
        }
        (_, true) => {
            message(session, "Not found", "This address takes no forms.").with(StatusCode::NOT_FOUND)
        }
        (page, false) => shown(session, page, query).await,
    }
}

/// Shows a page.
async fn shown(session: &Rc<ServeSession>, path: &str, query: &str) -> ServeAnswer {
    let query = match Query::from_address(path, query) {
        Ok(query) => query,
        Err(bad) => return message(session, "Not found", &bad.to_string()).with(StatusCode::NOT_FOUND),
    };
    if query.page == PageKind::Now {
        session.examine();
    }
    let shown = show(&query, &session.account, &session.door()).await;
    let page = ServeAnswer::page(shown.html);
    if query.refreshes { page.again_after(REFRESH_SECONDS) } else { page }
}

/// Reads a form.
async fn fields<B>(body: B) -> Result<FormFields, ServeAnswer>
where
    B: Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let read = std::pin::pin!(Limited::new(body, LONGEST_FORM).collect());
    match timeout(FORM_WITHIN, read).await {
        Ok(Ok(form)) => Ok(FormFields::read(&form.to_bytes())),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let text = format!("A form has at most {LONGEST_FORM} bytes.");
            Err(ServeAnswer::text(StatusCode::PAYLOAD_TOO_LARGE, text))
        }
        Ok(Err(_)) => Err(ServeAnswer::text(StatusCode::BAD_REQUEST, "The form could not be read.")),
        Err(_) => Err(ServeAnswer::text(StatusCode::REQUEST_TIMEOUT, "The form did not come in time.")),
    }
}

/// Shows the form of an action.
fn form(session: &ServeSession, query: &str) -> ServeAnswer {
    match act(query) {
        Ok(act) if act.doing == redrive_console::ActionVerb::Edit && !session.shows_bodies() => {
            let text = "To edit letters, start redrivectl serve with --bodies.";
            message(session, "Bodies are hidden", text).with(StatusCode::FORBIDDEN)
        }
        Ok(act) => ServeAnswer::form(view::form(session, &act, &FormFields::default(), None)),
        Err(bad) => message(session, "Bad address", &bad).with(StatusCode::BAD_REQUEST),
    }
}

/// Begins an action: prepares its preview.
async fn begin(session: &Rc<ServeSession>, query: &str, form: FormFields) -> ServeAnswer {
    let typed = form.clone();
    let action = match ServeAction::read(query, form) {
        Ok(action) => action,
        Err(bad) => {
            // What was typed stays.
            let page = act(query).map(|act| ServeAnswer::form(view::form(session, &act, &typed, Some(&bad))));
            let page = page.unwrap_or_else(|_| message(session, "Nothing was done", &bad.says));
            return page.with(StatusCode::BAD_REQUEST);
        }
    };
    if action.act.doing == redrive_console::ActionVerb::Edit && !session.shows_bodies() {
        return message(session, "Bodies are hidden", "Nothing was done.").with(StatusCode::FORBIDDEN);
    }
    let begun = session.jobs.borrow_mut().begin(action, session.account.clock.now());
    let Some(id) = begun else { return too_many(session) };
    job_work::begin(session, id);
    settled(session, id).await;
    to(id)
}

/// Confirms a job, stops it, or gives it an edited letter.
async fn decide(session: &Rc<ServeSession>, mut form: FormFields) -> ServeAnswer {
    let id = form.take("id").and_then(|id| id.parse().ok()).unwrap_or_default();
    let now = session.account.clock.now();
    let what = form.take("do");
    if matches!(what.as_deref(), Some("edit" | "confirm")) && session.jobs.borrow().is_full() {
        return too_many(session);
    }
    let decided = session.job(id, |job| match what.as_deref() {
        Some("stop") => {
            job.stop();
            Ok(None)
        }
        Some("edit") => {
            let JobPhase::Edits(record) = &job.phase else { return Err("It was edited already.".to_owned()) };
            let edited = edit::edited(record, session.mask(), &mut form)?;
            let why = form.take("why");
            job.action.reason(why)?;
            job.action.record = Some(edited);
            job.moves_to(JobPhase::Looks);
            Ok(Some(true))
        }
        Some("confirm") => match job.confirm(&form.take("nonce").unwrap_or_default(), now) {
            Ok(()) => Ok(Some(false)),
            Err(not) => Err(format!("{not}. Nothing was done by this confirmation.")),
        },
        _ => Err("There is no such decision.".to_owned()),
    });
    match decided {
        None => no_job(session),
        Some(Err(why)) => message(session, "Nothing was done", &why).with(StatusCode::CONFLICT),
        Some(Ok(next)) => {
            match next {
                Some(true) => job_work::begin(session, id),
                Some(false) => job_work::carry_out(session, id),
                None => {}
            }
            settled(session, id).await;
            to(id)
        }
    }
}

/// Shows the state of a job.
fn job(session: &Rc<ServeSession>, query: &str) -> ServeAnswer {
    let mut query = FormFields::read(query.as_bytes());
    let id = query.take("id").and_then(|id| id.parse().ok()).unwrap_or_default();
    let stays = query.take("stay").is_some();
    let jobs = session.jobs.borrow();
    let Some(job) = jobs.get(id) else {
        drop(jobs);
        return no_job(session);
    };
    let page = ServeAnswer::form(view::job(session, id, job, stays));
    if job.is_under_way() && !stays { page.again_after(RELOAD_SECONDS) } else { page }
}

/// Waits until a job's preview or check is done, but not for long. A command that runs gets a moment to end.
async fn settled(session: &ServeSession, id: u64) {
    let wait = async {
        loop {
            let moves = session.job(id, |job| job.is_under_way().then(|| Rc::clone(&job.moves)));
            let Some(Some(moves)) = moves else { return };
            moves.notified().await;
        }
    };
    // If it takes longer, the page shows the present phase.
    let _ = timeout(MAX_JOB_WAIT, wait).await;
}

fn to(id: u64) -> ServeAnswer {
    ServeAnswer::to(format!("job?id={id}"))
}

fn too_many(session: &ServeSession) -> ServeAnswer {
    let text = "Too many actions are under way. Wait for one to end, or stop one.";
    message(session, "Nothing was done", text).with(StatusCode::TOO_MANY_REQUESTS)
}

fn no_job(session: &ServeSession) -> ServeAnswer {
    let text = "There is no such action. Actions are kept in the memory of redrivectl serve, the latest 50.";
    message(session, "Not found", text).with(StatusCode::NOT_FOUND)
}

fn message(session: &ServeSession, title: &str, text: &str) -> ServeAnswer {
    ServeAnswer::page(view::message(session, title, text))
}
