//! One letter: its record, its place on the list, and its lines in the log.

use aws_sdk_cloudwatchlogs::types::{QueryStatus, ResultField};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use sns_redrive::archive::{Archived, Found, Object, Selection, Walk};
use sns_redrive::clients::failure_of_call;
use sns_redrive::endpoint::TargetName;
use sns_redrive::replay::{Replays, Sent, began};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::collect::{BYTES, OBJECTS, passed_over, read_waiting, sweep, too_late, unread};
use super::index::Index;
use super::letters::{ArchivedLetter, WaitingOne};
use super::said::Said;
use super::tally::Span;
use super::times::Times;
use crate::account::{Account, Clients, Place};
use crate::query::{Filter, OneLetter};

/// Lines of the log that are shown.
const LINES: i32 = 500;

/// The time between two looks at a query of the log.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(300);

/// The time before the page's that the log is searched, too.
const BEFORE: SignedDuration = SignedDuration::from_hours(1);

/// Looks at a query of the log.
pub(crate) const LOOKS: u32 = 7;

/// One letter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Letter {
    /// Its record, and what it says; none where it was not found in the archive.
    pub archived: Option<(ArchivedLetter, Option<Said>)>,
    /// The latest replay that has sent it; none where none did, or that was not read.
    pub replayed: Option<Replayed>,
    /// Its line on the list of waiting letters.
    pub waiting: Option<WaitingOne>,
    /// Its lines in the log.
    pub log: Log,
}

/// A replay that has sent a letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// Its id.
    pub id: String,
    /// The moment at which it began. It sent the letter later: nothing tells when.
    pub began: Option<Timestamp>,
}

/// The lines of a letter in the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Log {
    /// The account does not name the log group, or it could not be asked.
    #[default]
    None,
    /// The query of this id is not at its end.
    Running(String),
    /// Its lines, the oldest first.
    Lines {
        /// The lines.
        lines: Vec<Line>,
        /// True if there may be more.
        more: bool,
    },
}

/// A line of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// Its moment.
    pub at: Option<Timestamp>,
    /// The outcome.
    pub outcome: String,
    /// More about it.
    pub reason: Option<String>,
    /// The number of the retry, and how many the schedule has.
    pub retry: Option<(String, String)>,
    /// The moment at which the letter is due again.
    pub due: Option<String>,
    /// The target.
    pub target: Option<String>,
    /// The code of the failure.
    pub error: Option<String>,
    /// The time that the attempt took, milliseconds.
    pub took: Option<String>,
    /// The queue.
    pub queue: Option<String>,
    /// SQS's id of the message. In the requeue a letter is another message, and a stranger can repeat a letter's id.
    pub message: Option<String>,
}

/// Reads one letter.
pub(crate) async fn letter(
    account: &Account,
    clients: &Clients,
    one: &OneLetter,
    span: &Span,
    times: Times,
) -> (Letter, Vec<String>) {
    let mut missing = Vec::new();
    let (archived, waiting, log) = tokio::join!(
        archived(account, clients, one, span, times),
        read_waiting(account, clients, account.clock.now(), times.listed),
        log(account, clients, one, span, times.end),
    );
    let found = archived.unwrap_or_else(|why| {
        missing.push(why);
        None
    });
    let (archived, replayed) =
        found.map_or((None, Ok(None)), |(letter, said, by)| (Some((letter, said)), by));
    let replayed = replayed.unwrap_or_else(|why| {
        missing.push(why);
        None
    });
    let list = waiting;
    let waiting = list.letters.into_iter().find(|letter| letter.id == one.id || letter.message_id == one.id);
    if waiting.is_none() {
        missing.extend(list.unread);
    }
    let log = log.unwrap_or_else(|why| {
        missing.push(why);
        Log::None
    });
    (Letter { archived, replayed, waiting, log }, missing)
}

type Record = (ArchivedLetter, Option<Said>, Result<Option<Replayed>, String>);

/// Returns its record, and the replay that has sent it. A record that was found stays, also if nobody could tell in time
/// whether it was replayed.
async fn archived(
    account: &Account,
    clients: &Clients,
    one: &OneLetter,
    span: &Span,
    times: Times,
) -> Result<Option<Record>, String> {
    let found = timeout_at(times.end, find(account, clients, one, span, times)).await;
    let Some(found) = found.unwrap_or_else(|_| Err(too_late("the archive")))? else { return Ok(None) };
    let replayed = timeout_at(times.end, replayed(account, clients, &found)).await;
    let replayed = replayed.unwrap_or_else(|_| Err(too_late("whether a replay has sent it")));
    let said = Said::of(&found.record, &account.bodies);
    Ok(Some((ArchivedLetter::from(&*found), said, replayed)))
}

/// Finds its record: in the object that is named, else in the newest of the time range.
async fn find(
    account: &Account,
    clients: &Clients,
    one: &OneLetter,
    span: &Span,
    times: Times,
) -> Result<Option<Box<Archived>>, String> {
    let Some(archive) = &account.archive else { return Ok(None) };
    let (objects, left_out) = match &one.key {
        Some(key) if is_below(archive, key) => {
            let list =
                clients.s3.list_objects_v2().bucket(&archive.bucket).prefix(key).max_keys(1).send().await;
            let list = list.map_err(|error| unread("its object", &failure_of_call(&error)))?;
            let bytes = list.contents().first().and_then(|object| object.size()?.try_into().ok());
            if bytes.is_some_and(|bytes: u64| bytes > BYTES) {
                return Err(format!(
                    "its object: it is larger than the {} MiB that a page reads",
                    BYTES >> 20
                ));
            }
            (vec![Object::new(key.as_str(), 0, None)], 0)
        }
        Some(_) => return Err("the object that the address names: it is none of the archive".to_owned()),
        None => {
            let mut index = Index::default();
            sweep(account, clients, &Filter::default(), span, times.listed, &mut index).await?;
            index.to_read(OBJECTS as usize, BYTES)
        }
    };
    let selection = Selection::default();
    let mut walk = Walk::over(clients.s3.clone(), &archive.bucket, objects, &selection);
    let mut failed = 0_u64;
    while let Some(found) = walk.next().await {
        match found {
            Found::Letter(found)
                if found.record.letter_id == one.id || found.record.message.message_id == one.id =>
            {
                return Ok(Some(found));
            }
            Found::Unread(bad) if one.key.is_some() => return Err(format!("its object: {}", bad.why)),
            Found::Unread(bad) if !bad.why.is_gone() => failed += 1,
            Found::Letter(_) | Found::Unread(_) => {}
        }
    }
    // The letter may lie in these.
    let passed_over: Vec<_> = passed_over(failed, left_out).collect();
    if passed_over.is_empty() { Ok(None) } else { Err(passed_over.join("; ")) }
}

fn is_below(archive: &Place, key: &str) -> bool {
    let prefix = archive.prefix.trim_matches('/');
    let rest = if prefix.is_empty() {
        Some(key)
    } else {
        key.strip_prefix(prefix).and_then(|it| it.strip_prefix('/'))
    };
    rest.is_some_and(|rest| rest.starts_with("queue="))
}

/// Returns the latest replay that has sent a letter.
async fn replayed(
    account: &Account,
    clients: &Clients,
    found: &Archived,
) -> Result<Option<Replayed>, String> {
    let Some(Place { bucket, prefix }) = &account.control else { return Ok(None) };
    let replays = Replays::new(clients.s3.clone(), bucket, prefix, account.clock.clone(), String::new());
    let mut sent = Sent::new(replays);
    let by = sent.by(found).await.map_err(|error| format!("whether a replay has sent it: {error}"))?;
    Ok(by.map(|id| Replayed { id: id.to_owned(), began: began(id) }))
}

/// Asks the log, or asks after the query that was begun before.
async fn log(
    account: &Account,
    clients: &Clients,
    one: &OneLetter,
    span: &Span,
    until: Instant,
) -> Result<Log, String> {
    let Some(group) = &account.log_group else { return Ok(Log::None) };
    let id = match one.log_query.clone() {
        Some(id) => id,
        None => {
            timeout_at(until, ask(clients, group, &one.id, span)).await.map_err(|_| too_late("the log"))??
        }
    };
    for _ in 0..LOOKS {
        let looked = timeout_at(until, clients.logs.get_query_results().query_id(&id).send()).await;
        let Ok(answer) = looked else { break };
        let answer =
            answer.map_err(|error| unread("the log (logs:GetQueryResults)", &failure_of_call(&error)))?;
        match answer.status() {
            Some(QueryStatus::Complete) => {
                let found = answer.results();
                let lines = found.iter().filter_map(|fields| line(fields, &one.id)).collect();
                let more = i32::try_from(found.len()).is_ok_and(|found| found >= LINES);
                return Ok(Log::Lines { lines, more });
            }
            Some(QueryStatus::Running | QueryStatus::Scheduled) => {}
            status => {
                return Err(format!(
                    "the log: the query ended as {}",
                    status.map_or("unknown", |it| it.as_str())
                ));
            }
        }
        if Instant::now() + PAUSE >= until {
            break;
        }
        sleep_until(Instant::now() + PAUSE).await;
    }
    Ok(Log::Running(id))
}

/// Returns the moment from which the log is searched: a letter may have been attempted some time before it was archived.
#[must_use]
pub fn searched_from(from: Timestamp) -> Timestamp {
    from.saturating_sub(BEFORE).unwrap_or(from)
}

/// Begins a query, and returns its id.
async fn ask(clients: &Clients, group: &str, letter: &str, span: &Span) -> Result<String, String> {
    let from = searched_from(span.from).as_second();
    let call = clients.logs.start_query().log_group_name(group).query_string(query(letter)).limit(LINES);
    let asked = call.start_time(from).end_time(span.to.as_second()).send().await;
    let asked = asked.map_err(|error| unread("the log (logs:StartQuery)", &failure_of_call(&error)))?;
    Ok(asked.query_id().unwrap_or_default().to_owned())
}

/// Returns the query that finds every line about a letter, as the saved query `one-letter` does.
#[must_use]
pub fn query(id: &str) -> String {
    let id = crate::text::literal(id);
    format!(
        "fields @timestamp, @message, outcome, reason, `retry.number`, `retry.of`, due, `target.arn`, `target.url`, `error.code`, \
         attempt_ms, `queue.arn`, `sqs.message_id`\n| filter ispresent(outcome)\n| filter `letter.id` = {id} or `sqs.message_id` = {id}\n\
         | sort @timestamp asc\n| limit 500"
    )
}

/// Returns a line about a letter. The fields of its JSON are read here where the service has not read them, as that of the
/// local stack; such a service does not know either which lines are about the letter.
fn line(fields: &[ResultField], id: &str) -> Option<Line> {
    let found = |name: &str| {
        let field = fields.iter().find(|field| field.field() == Some(name))?;
        field.value().filter(|value| !value.is_empty()).map(str::to_owned)
    };
    let message: Value =
        found("@message").and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default();
    let told = |name: &str| match &message[name] {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let get = |name: &str| found(name).or_else(|| told(name));
    let is_about = |name: &str| told(name).as_deref() == Some(id);
    if found("outcome").is_none() && !is_about("letter.id") && !is_about("sqs.message_id") {
        return None;
    }
    let at = get("@timestamp").and_then(|text| DateTime::strptime("%Y-%m-%d %H:%M:%S%.f", text).ok());
    let at = at.and_then(|at| at.to_zoned(TimeZone::UTC).ok()).map(|at| at.timestamp());
    Some(Line {
        at,
        outcome: get("outcome")?,
        reason: get("reason"),
        retry: get("retry.number").zip(get("retry.of")),
        due: get("due"),
        // The log may hold whole URLs of earlier versions.
        target: get("target.arn").or_else(|| Some(TargetName::read(&get("target.url")?).as_str().to_owned())),
        error: get("error.code"),
        took: get("attempt_ms"),
        queue: get("queue.arn"),
        message: get("sqs.message_id"),
    })
}
