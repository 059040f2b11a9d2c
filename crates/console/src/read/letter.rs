//! One letter: its record, its line on the list of waiting letters, and its lines in the log.

use aws_sdk_cloudwatchlogs::types::{QueryStatus, ResultField};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use redrive_archive::{
    ArchiveObject, ArchiveWalk, ErasedRecord, LetterIdentity, LocatedRecord, Selection, WalkItem, is_archived,
};
use redrive_aws::clients::failure_of_call;
use redrive_core::policy::Override;
use redrive_core::waiting::Recoveries;
use redrive_replay::{SentLetters, StoredReplays, began};
use serde_json::Value;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::collect::{
    MAX_ARCHIVE_BYTES, MAX_ARCHIVE_OBJECTS, passed_over, read_waiting, refusal, sweep, too_late, unread,
};
use super::content::ShownContent;
use super::failing_targets::override_in_force;
use super::index::KeyCounts;
use super::letter_counts::ChartSpan;
use super::letters::{ArchivedLetter, WaitingOne};
use super::time_limits::PageDeadlines;
use crate::account::{BucketPrefix, ConsoleAccount, ConsoleClients};
use crate::query::{Filter, OneLetter};

/// The most log lines of a page.
const MAX_LOG_LINES: i32 = 500;

/// The pause between two requests for the result of a log query.
const QUERY_POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(300);

/// How long before the page's time range the log search begins.
const LOG_SEARCH_LEAD: SignedDuration = SignedDuration::from_hours(1);

/// The most requests for the result of a log query.
pub(crate) const MAX_QUERY_POLLS: u32 = 7;

/// One letter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LetterHistory {
    /// The record and the content; `None` if it is not in the archive.
    pub archived: Option<(ArchivedLetter, Option<ShownContent>)>,
    /// The latest replay that sent it; `None` if no replay did, or if that is unknown.
    pub replayed: Option<LetterReplay>,
    /// The line on the list of waiting letters.
    pub waiting: Option<WaitingOne>,
    /// The lines in the log.
    pub log: LetterLog,
    /// When its endpoint took letters again, if that was after the last attempt of this one, and it is not down.
    pub back_since: Option<Timestamp>,
    /// The override that holds it, if that is in force.
    pub held_by: Option<String>,
}

impl LetterHistory {
    /// Takes note of when its endpoint took letters again, and of the override that holds it.
    pub(crate) fn note(&mut self, endpoints: &Recoveries, overrides: &[Override], now: Timestamp) {
        let held_by = self.waiting.as_ref().and_then(|it| it.held_by.as_deref());
        let held_by = held_by.and_then(|held_by| override_in_force(held_by, overrides, now));
        self.held_by = held_by.map(|it| it.id.clone());
        let archived =
            self.archived.as_ref().map(|(archived, _)| (&archived.fields.target, archived.archived));
        let waits = || self.waiting.as_ref().and_then(|it| Some((&it.fields.target, it.hidden?)));
        let Some((Some(target), tried)) = archived.or_else(waits) else { return };
        let known: Vec<_> = endpoints.iter().filter(|known| known.target.as_str() == target).collect();
        if known.iter().all(|known| known.down_since.is_none()) {
            self.back_since =
                known.iter().filter_map(|known| known.recovered_at).filter(|at| *at > tried).max();
        }
    }
}

/// A replay that sent a letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterReplay {
    /// The id of the replay.
    pub id: String,
    /// The moment when the replay began. The letter was sent later; no record says when.
    pub began: Option<Timestamp>,
}

/// The log lines of a letter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LetterLog {
    /// The account does not name the log group, or the query failed.
    #[default]
    None,
    /// The query with this id has not ended.
    Running(String),
    /// The lines, the oldest first.
    Lines {
        /// The lines in the order of time.
        lines: Vec<LetterLogLine>,
        /// True if there may be more.
        more: bool,
    },
}

/// A line of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LetterLogLine {
    /// The time of the line.
    pub at: Option<Timestamp>,
    /// The outcome of an invocation for the letter.
    pub outcome: String,
    /// The reason of the outcome.
    pub reason: Option<String>,
    /// The number of the retry, and the number of retries in the schedule.
    pub retry: Option<(String, String)>,
    /// When the letter is due again.
    pub due: Option<String>,
    /// The endpoint.
    pub target: Option<String>,
    /// The code of the failure.
    pub error: Option<String>,
    /// How long the attempt took, milliseconds.
    pub took: Option<String>,
    /// The queue.
    pub queue: Option<String>,
    /// The message id that SQS gave it. A letter gets another message id in the requeue, and a stranger can
    /// repeat a letter's id.
    pub message: Option<String>,
}

/// Reads one letter.
pub(crate) async fn letter(
    account: &ConsoleAccount,
    clients: &ConsoleClients,
    one: &OneLetter,
    span: &ChartSpan,
    times: PageDeadlines,
) -> (LetterHistory, Vec<String>) {
    let mut missing = Vec::new();
    let every = Filter::default();
    let (archived, waiting, log) = tokio::join!(
        archived(account, clients, one, span, times),
        read_waiting(account, clients, &every, account.clock.now(), times.listed),
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
        LetterLog::None
    });
    (LetterHistory { archived, replayed, waiting, log, back_since: None, held_by: None }, missing)
}

type LetterReading = (ArchivedLetter, Option<ShownContent>, Result<Option<LetterReplay>, String>);

/// Returns the record, and the replay that sent it. If the question about replays fails or takes too long,
/// the record stays.
async fn archived(
    account: &ConsoleAccount,
    clients: &ConsoleClients,
    one: &OneLetter,
    span: &ChartSpan,
    times: PageDeadlines,
) -> Result<Option<LetterReading>, String> {
    let found = timeout_at(times.end, find(account, clients, one, span, times)).await;
    let Some(found) = found.unwrap_or_else(|_| Err(too_late("the archive")))? else { return Ok(None) };
    let replayed = timeout_at(times.end, replayed(account, clients, &found)).await;
    let replayed = replayed.unwrap_or_else(|_| Err(too_late("whether a replay has sent it")));
    let said = ShownContent::of(&found.record, &account.bodies);
    Ok(Some((ArchivedLetter::from(&*found), said, replayed)))
}

/// Finds the record: in the named object, or else in the newest objects of the time range.
async fn find(
    account: &ConsoleAccount,
    clients: &ConsoleClients,
    one: &OneLetter,
    span: &ChartSpan,
    times: PageDeadlines,
) -> Result<Option<Box<LocatedRecord>>, String> {
    let Some(archive) = &account.archive else { return Ok(None) };
    let (objects, left_out) = match &one.key {
        Some(key) if is_archived(&archive.prefix, key) => {
            let list =
                clients.s3.list_objects_v2().bucket(&archive.bucket).prefix(key).max_keys(1).send().await;
            let list = list.map_err(|error| unread("its object", &failure_of_call(&error)))?;
            let bytes = list.contents().first().and_then(|object| object.size()?.try_into().ok());
            if bytes.is_some_and(|bytes: u64| bytes > MAX_ARCHIVE_BYTES) {
                return Err(format!(
                    "its object: it is larger than the {} MiB that a page reads",
                    MAX_ARCHIVE_BYTES >> 20
                ));
            }
            (vec![ArchiveObject::new(key.as_str(), 0, None)], 0)
        }
        Some(_) => {
            return Err("the object that the address names: it does not belong to the archive".to_owned());
        }
        None => {
            let mut index = KeyCounts::default();
            sweep(account, clients, &Filter::default(), span, times.listed, &mut index).await?;
            index.to_read(MAX_ARCHIVE_OBJECTS as usize, MAX_ARCHIVE_BYTES)
        }
    };
    let selection = Selection::default();
    let mut walk = ArchiveWalk::over(clients.s3.clone(), &archive.bucket, objects, &selection);
    let (mut failed, mut refused) = (0_u64, None);
    while let Some(found) = walk.next().await {
        match found {
            WalkItem::Letter(found)
                if found.record.letter_id == one.id || found.record.message.message_id == one.id =>
            {
                return Ok(Some(found));
            }
            WalkItem::Erased(erased) if is_erased(&erased.record, one) => {
                return Err(format!("its record: the letter was erased at {}", erased.record.erased.at));
            }
            WalkItem::Unread(bad) if one.key.is_some() => return Err(format!("its object: {}", bad.why)),
            WalkItem::Unread(bad) if !bad.why.is_gone() => {
                failed += 1;
                refused = refused.or_else(|| refusal(&bad));
            }
            WalkItem::Letter(_) | WalkItem::Erased(_) | WalkItem::Unread(_) => {}
        }
    }
    // The letter may be in an object that was passed over, so "not found" would be wrong.
    let passed_over: Vec<_> = passed_over(failed, refused.as_deref(), left_out).collect();
    if passed_over.is_empty() { Ok(None) } else { Err(passed_over.join("; ")) }
}

/// Reports whether the line of an erased letter stands for this one, by its message id: its own id is erased.
fn is_erased(erased: &ErasedRecord, one: &OneLetter) -> bool {
    LetterIdentity::of(erased.queue_arn.as_str(), &one.id) == erased.erased.letter
}

/// Returns the latest replay that sent a letter.
async fn replayed(
    account: &ConsoleAccount,
    clients: &ConsoleClients,
    found: &LocatedRecord,
) -> Result<Option<LetterReplay>, String> {
    let Some(BucketPrefix { bucket, prefix }) = &account.control else { return Ok(None) };
    let replays =
        StoredReplays::new(clients.s3.clone(), bucket, prefix, account.clock.clone(), String::new());
    let mut sent = SentLetters::new(replays);
    let by = sent.by(found).await.map_err(|error| format!("whether a replay has sent it: {error}"))?;
    Ok(by.map(|id| LetterReplay { id: id.to_owned(), began: began(id) }))
}

/// Starts a log query, or asks for the result of the one that an earlier request for this page started.
async fn log(
    account: &ConsoleAccount,
    clients: &ConsoleClients,
    one: &OneLetter,
    span: &ChartSpan,
    until: Instant,
) -> Result<LetterLog, String> {
    let Some(group) = &account.log_group else { return Ok(LetterLog::None) };
    let id = match one.log_query.clone() {
        Some(id) => id,
        None => {
            timeout_at(until, ask(clients, group, &one.id, span)).await.map_err(|_| too_late("the log"))??
        }
    };
    for _ in 0..MAX_QUERY_POLLS {
        let looked = timeout_at(until, clients.logs.get_query_results().query_id(&id).send()).await;
        let Ok(answer) = looked else { break };
        let answer =
            answer.map_err(|error| unread("the log (logs:GetQueryResults)", &failure_of_call(&error)))?;
        match answer.status() {
            Some(QueryStatus::Complete) => {
                let found = answer.results();
                let lines = found.iter().filter_map(|fields| line(fields, &one.id)).collect();
                let more = i32::try_from(found.len()).is_ok_and(|found| found >= MAX_LOG_LINES);
                return Ok(LetterLog::Lines { lines, more });
            }
            Some(QueryStatus::Running | QueryStatus::Scheduled) => {}
            status => {
                return Err(format!(
                    "the log: the query ended as {}",
                    status.map_or("unknown", |it| it.as_str())
                ));
            }
        }
        if Instant::now() + QUERY_POLL_INTERVAL >= until {
            break;
        }
        sleep_until(Instant::now() + QUERY_POLL_INTERVAL).await;
    }
    Ok(LetterLog::Running(id))
}

/// Returns the start of the log search. It is before the page's time range, because attempts come before the
/// archive.
#[must_use]
pub fn searched_from(from: Timestamp) -> Timestamp {
    from.saturating_sub(LOG_SEARCH_LEAD).unwrap_or(from)
}

/// Starts a log query, and returns its id.
async fn ask(
    clients: &ConsoleClients,
    group: &str,
    letter: &str,
    span: &ChartSpan,
) -> Result<String, String> {
    let from = searched_from(span.from).as_second();
    let call =
        clients.logs.start_query().log_group_name(group).query_string(query(letter)).limit(MAX_LOG_LINES);
    let asked = call.start_time(from).end_time(span.to.as_second()).send().await;
    let asked = asked.map_err(|error| unread("the log (logs:StartQuery)", &failure_of_call(&error)))?;
    Ok(asked.query_id().unwrap_or_default().to_owned())
}

/// Returns the query for every line about a letter. The saved query `one-letter` is the same.
#[must_use]
pub fn query(id: &str) -> String {
    let id = crate::text::literal(id);
    format!(
        "fields @timestamp, @message, outcome, reason, `retry.number`, `retry.of`, due, `target.arn`, `target.url`, `error.code`, \
         attempt_ms, `queue.arn`, `sqs.message_id`\n| filter ispresent(outcome)\n| filter `letter.id` = {id} or `sqs.message_id` = {id}\n\
         | sort @timestamp asc\n| limit 500"
    )
}

/// Returns a line about a letter. `CloudWatch` parses the lines' JSON into fields. The local stack's log
/// service does not, and returns lines about other letters too: then the JSON is parsed and checked here.
fn line(fields: &[ResultField], id: &str) -> Option<LetterLogLine> {
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
    Some(LetterLogLine {
        at,
        outcome: get("outcome")?,
        reason: get("reason"),
        retry: get("retry.number").zip(get("retry.of")),
        due: get("due"),
        target: get("target.arn").or_else(|| get("target.url")),
        error: get("error.code"),
        took: get("attempt_ms"),
        queue: get("queue.arn"),
        message: get("sqs.message_id"),
    })
}
