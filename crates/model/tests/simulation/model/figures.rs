//! The tables of `docs/figures.md`: outages in the model, and the cost of waiting.

use std::fmt::Write as _;

use redrive_core::batch::{IN_FLIGHT_LIMIT, MAX_DELAY};
use redrive_core::policy::VISIBILITY_CEILING;

use super::journal::CallCounts;
use super::outage::{BATCH_LETTERS, BATCH_TIME, ModelOutage, OutageToll};
use super::recovery::RecoverySetup;
use super::{DAY, HOUR, MINUTE, ModelMillis, SECOND};

/// The price of a million requests in USD, for standard queues in us-east-1 after the free tier. Each 64 KB
/// count as one request.
/// <https://aws.amazon.com/sqs/pricing/>
const SQS_MILLION: f64 = 0.40;
/// The price in USD of a million writes or listings of S3, and of a million reads, in us-east-1.
/// <https://aws.amazon.com/s3/pricing/>
const S3_WRITES_MILLION: f64 = 5.0;
const S3_READS_MILLION: f64 = 0.40;
/// The price in USD of a million invocations, and of a GB-second on arm64, in us-east-1.
/// <https://aws.amazon.com/lambda/pricing/>
const LAMBDA_MILLION: f64 = 0.20;
const LAMBDA_GB_SECOND: f64 = 0.000_013_333_4;
/// The memory that the template gives the function, in GB.
const FUNCTION_MEMORY_GB: f64 = 0.25;

/// The number of letters in a call of SQS.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-batch-api-actions.html>
const LETTERS_PER_CALL: f64 = 10.0;

const CALLS_PER_MOVE: f64 = 3.0 / LETTERS_PER_CALL;
const CALLS_PER_HIDE: f64 = 2.0 / LETTERS_PER_CALL;

/// A table of the page. Its name is that of its place in the page.
pub struct OutageTable {
    pub name: &'static str,
    pub head: &'static str,
    pub rows: Vec<String>,
}

impl OutageTable {
    /// Returns the table in Markdown, with every column except the first aligned to the right.
    pub fn text(&self) -> String {
        let columns = self.head.matches('|').count() - 1;
        let rules: String = (0..columns).map(|column| if column < 1 { "---|" } else { "---:|" }).collect();
        format!("{}\n|{rules}\n{}\n", self.head, self.rows.join("\n"))
    }

    /// Puts the table into its place in the page.
    pub fn put_into(&self, page: &str) -> String {
        let (begin, end) = (format!("<!-- table: {} -->\n", self.name), "<!-- end -->");
        let from = page.find(&begin).expect("the page has a place for each table") + begin.len();
        let until = from + page[from..].find(end).expect("the place ends");
        format!("{}{}{}", &page[..from], self.text(), &page[until..])
    }
}

/// Returns every table. The outages take a minute or two in a debug build.
pub fn tables() -> Vec<OutageTable> {
    let (mut letters, mut calls, mut without) = (Vec::new(), Vec::new(), Vec::new());
    let mut all = ModelOutage::all();
    all.sort_by_key(|outage| (outage.rate, outage.lasts));
    for outage in all {
        let rows = rows(outage);
        letters.push(rows.letters);
        calls.push(rows.calls);
        without.push(rows.without);
    }
    vec![
        OutageTable { name: "letters", head: LETTERS, rows: letters },
        OutageTable { name: "calls", head: CALLS, rows: calls },
        OutageTable { name: "without spill", head: LETTERS, rows: without },
        recoveries(),
        waiting(),
    ]
}

/// Returns how soon letters arrive once their endpoint is back, with the list of waiting letters and without.
fn recoveries() -> OutageTable {
    let rows = RecoverySetup::all().into_iter().map(|(name, setup)| recovery(name, &setup)).collect();
    OutageTable { name: "recoveries", head: RECOVERIES, rows }
}

const RECOVERIES: &str = "| outage | first | last after it | first, without the list | last after it | woken \
    | attempts | of them early | objects of the list | USD | USD, without the list |";

/// Returns the row of one outage.
pub fn recovery(name: &str, setup: &RecoverySetup) -> String {
    let (with, without) = (setup.toll(), RecoverySetup { listed: false, ..setup.clone() }.toll());
    assert_eq!(with.delivered + with.archived, setup.letters, "none is delivered twice: {with:?}");
    let mut row = format!("| {name} |");
    for cell in [
        span(with.first_after),
        span(with.last_after),
        span(without.first_after),
        span(without.last_after),
        number(with.woken),
        number(with.attempts),
        number(with.early),
        number(with.lists),
        dollars(with.cost),
        dollars(without.cost),
    ] {
        write!(row, " {cell} |").unwrap();
    }
    row
}

/// Returns the cost of an outage in USD, with the calls that are made in fact: instances of the template's size get few letters
/// at a time.
pub fn recovery_cost(counts: &CallCounts) -> f64 {
    let hides = (counts.hidden / 10).max(counts.hidden.min(counts.invocations));
    let sqs = counts.invocations + hides + counts.deleted.div_ceil(10) + counts.woken.div_ceil(10);
    let writes = counts.lists + counts.control_writes + counts.control_listings;
    let seconds = real(u64::try_from(counts.busy).unwrap()) / 1_000.0;
    let millions = real(sqs + counts.readings) * SQS_MILLION
        + real(writes) * S3_WRITES_MILLION
        + real(counts.control_reads) * S3_READS_MILLION
        + real(counts.invocations) * LAMBDA_MILLION;
    millions / 1e6 + seconds * FUNCTION_MEMORY_GB * LAMBDA_GB_SECOND
}

/// Returns a time in seconds, or longer than a quarter of an hour in minutes or hours.
fn span(millis: ModelMillis) -> String {
    match millis {
        ..0 => "-".to_owned(),
        0..1_000_000 => format!("{}.{} s", millis / SECOND, millis % SECOND / 100),
        _ => duration(millis),
    }
}

/// The rows of one outage.
pub struct FigureRows {
    pub letters: String,
    pub calls: String,
    pub without: String,
}

pub fn rows(outage: ModelOutage) -> FigureRows {
    let with = outage.toll();
    let without = ModelOutage { spill: false, ..outage }.toll();
    assert_eq!((with.lost, without.lost), (0, 0), "SQS drops nothing");
    FigureRows {
        letters: letters(&outage, &with),
        calls: calls(&outage, &with, &without),
        without: letters(&outage, &without),
    }
}

const LETTERS: &str = "| failed a second, for | letters | waiting, peak | delivered | archived | attempts a letter \
    | in flight, DLQ | in flight, requeue | instances | delivered after |";

fn letters(outage: &ModelOutage, toll: &OutageToll) -> String {
    let mut row = format!("| {} |", name(outage));
    for cell in [
        number(toll.letters),
        number(toll.peak_backlog),
        percent(toll.delivered, toll.letters),
        percent(toll.archived, toll.letters),
        format!("{:.1}", ratio(toll.attempts, toll.letters)),
        number(toll.peak_dlq),
        number(toll.peak_requeue),
        toll.instances.to_string(),
        duration(toll.delivered_after),
    ] {
        write!(row, " {cell} |").unwrap();
    }
    row
}

const CALLS: &str = "| failed a second, for | received | hidden | moved | deleted | SQS requests | SQS, USD \
    | Lambda, USD | S3, USD | without a requeue, USD |";

fn calls(outage: &ModelOutage, with: &OutageToll, without: &OutageToll) -> String {
    let mut row = format!("| {} |", name(outage));
    for cell in [
        number(with.received),
        number(with.hidden),
        number(with.moved),
        number(with.deleted),
        number(whole(requests(with))),
        dollars(sqs(with)),
        dollars(lambda(with)),
        dollars(lists(with)),
        dollars(sqs(without) + lambda(without) + lists(without)),
    ] {
        write!(row, " {cell} |").unwrap();
    }
    row
}

fn requests(toll: &OutageToll) -> f64 {
    let letters = toll.received + toll.hidden + toll.moved + toll.deleted;
    real(letters) / LETTERS_PER_CALL + real(toll.readings)
}

fn sqs(toll: &OutageToll) -> f64 {
    requests(toll) / 1e6 * SQS_MILLION
}

/// Returns the cost of the list of waiting letters, if no instance joined the lines of several invocations.
fn lists(toll: &OutageToll) -> f64 {
    real(toll.long_hides) / 1e6 * S3_WRITES_MILLION
}

/// Returns the cost of full batches, whose time is that of their letters.
fn lambda(toll: &OutageToll) -> f64 {
    handling(real(toll.received))
}

fn handling(letters: f64) -> f64 {
    let batches = letters / real(BATCH_LETTERS);
    let seconds = batches * real(u64::try_from(BATCH_TIME / SECOND).unwrap());
    batches / 1e6 * LAMBDA_MILLION + seconds * FUNCTION_MEMORY_GB * LAMBDA_GB_SECOND
}

/// Returns the costs of hiding and of moving, by the length of the wait.
pub fn waiting() -> OutageTable {
    let waits = [MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, 11 * HOUR + 30 * MINUTE, DAY, 4 * DAY, 13 * DAY];
    let row = |wait: ModelMillis| {
        let seconds = u64::try_from(wait / SECOND).unwrap();
        let (hidings, moves) = (seconds.div_ceil(VISIBILITY_CEILING), seconds.div_ceil(MAX_DELAY));
        let million = |times: u64, requests: f64| {
            let letters = real(times) * 1e6;
            dollars(letters * requests / 1e6 * SQS_MILLION + handling(letters))
        };
        let rate = real(IN_FLIGHT_LIMIT) / real(seconds);
        format!(
            "| {} | {hidings} | {} | {moves} | {} | {} |",
            duration(wait),
            million(hidings, CALLS_PER_HIDE),
            million(moves, CALLS_PER_MOVE),
            if rate < 10.0 { format!("{rate:.1}") } else { number(whole(rate)) },
        )
    };
    OutageTable { name: "waiting", head: WAITING, rows: waits.into_iter().map(row).collect() }
}

const WAITING: &str = "| wait | hidden, times | USD a million letters | moved, times | USD a million letters \
    | letters a second that fit when hidden |";

fn name(outage: &ModelOutage) -> String {
    format!("{}, {}", grouped(outage.rate), duration(outage.lasts))
}

fn duration(millis: ModelMillis) -> String {
    let minutes = (millis + MINUTE / 2) / MINUTE;
    match (minutes / (24 * 60), minutes / 60, minutes % 60) {
        (0, 0, minutes) => format!("{minutes} min"),
        (days, hours, 0) if hours % 24 == 0 => format!("{days} d"),
        (_, hours, 0) => format!("{hours} h"),
        (_, hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

/// Returns three figures and a unit.
fn number(count: u64) -> String {
    match count {
        0..1_000_000 => grouped(count),
        1_000_000..1_000_000_000 => format!("{} million", figures(real(count) / 1e6)),
        _ => format!("{} billion", figures(real(count) / 1e9)),
    }
}

fn figures(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.0} %", ratio(part, whole) * 100.0)
}

fn dollars(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { grouped(whole(value)) }
}

fn ratio(part: u64, whole: u64) -> f64 {
    real(part) / real(whole)
}

#[expect(clippy::cast_precision_loss, reason = "figures of three digits")]
fn real(count: u64) -> f64 {
    count as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts")]
fn whole(value: f64) -> u64 {
    value.round() as u64
}
