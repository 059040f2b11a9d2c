//! The calls of a thousand letters, and their costs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::letters::{SizedPart, event};
use crate::page::FigureTable;
use crate::run::{BenchProcess, OperationCount};

const LETTERS: usize = 1_000;

/// The bytes of a letter, and the least bytes of SNS's message in it.
const LETTER_BYTES: usize = 1_500;
const MESSAGE_BYTES: usize = 500;

/// One route of letters.
struct CostCase {
    name: &'static str,
    policy: Value,
    topics: usize,
    batch: usize,
    /// The operation that counts, and its calls.
    expected: (&'static str, usize),
    stay: bool,
}

/// Prices in USD, us-east-1, November 2026: a request of SQS and of SNS, a PUT of S3, an invocation, a
/// second of 256 MB on arm64, a byte of log.
///
/// <https://aws.amazon.com/sqs/pricing/>, <https://aws.amazon.com/sns/pricing/>,
/// <https://aws.amazon.com/s3/pricing/>, <https://aws.amazon.com/lambda/pricing/>,
/// <https://aws.amazon.com/cloudwatch/pricing/>
const SQS: f64 = 0.40e-6;
const SNS: f64 = 0.50e-6;
const S3_PUT: f64 = 0.005e-3;
const INVOCATION: f64 = 0.20e-6;
const SECOND: f64 = 0.25 * 0.000_013_333_4;
const LOG_BYTE: f64 = 0.50e-9;

/// The seconds of an invocation (assumed), and those of a letter: 30 µs with a seventh of a core.
const INVOCATION_SECONDS: f64 = 0.05;
const LETTER_SECONDS: f64 = 0.000_2;

/// The messages that SQS hands over, or deletes, in one request.
const SQS_BATCH: usize = 10;

fn cases() -> Vec<CostCase> {
    let to = |target: &str| json!({ "default": { "target": target } });
    let archive = json!({ "default": { "action": "archive" } });
    let later = json!({ "default": { "deliveryPolicy": { "healthyRetryPolicy": {
        "minDelayTarget": 60, "maxDelayTarget": 600, "numRetries": 3 } } } });
    let mut cases = Vec::new();
    for batch in [10, 100, 1_000] {
        let full = LETTERS / 10;
        // The letters are of ten topics in turn: ten letters in a row have ten different targets.
        let mixed = LETTERS / batch * (batch / 10).div_ceil(10).max(1) * 10;
        let case = |name, policy: &Value, topics, expected, stay| CostCase {
            name,
            policy: policy.clone(),
            topics,
            batch,
            expected,
            stay,
        };
        cases.push(case("to the failed queue", &to("origin"), 1, ("SendMessageBatch", full), false));
        cases.push(case("to one topic", &to("topic"), 1, ("PublishBatch", full), false));
        cases.push(case("to ten topics", &to("topic"), 10, ("PublishBatch", mixed), false));
        cases.push(case("hidden", &later, 1, ("ChangeMessageVisibilityBatch", full), true));
        cases.push(case("archived", &archive, 1, ("PutObject", LETTERS / batch), false));
    }
    cases.sort_by_key(|case| (case.name, case.batch));
    cases
}

/// Returns the table, or a list of what is not as it must be.
pub(crate) fn table(binary: &Path) -> Result<FigureTable, Vec<String>> {
    let mut table = FigureTable::new(
        "cost",
        "| letters are | batch | invocations | calls that do it | bytes a letter | other calls | of the mapping | log, bytes a letter | USD a million |",
    );
    let mut faults = Vec::new();
    let (mut most, mut puts, mut mixed) = (0, 0, Vec::new());
    for case in cases() {
        let (row, calls, fault) = run(binary, &case);
        table.rows.push(row);
        faults.extend(fault);
        if case.expected.0 == "PutObject" {
            puts = puts.max(calls.div_ceil(LETTERS / case.batch));
        } else if case.topics == 1 {
            most = most.max(calls);
        } else {
            mixed.push((calls, case.batch, calls <= case.expected.1));
        }
    }
    table.aim("100 calls for 1,000 letters: republished, sent back, hidden", most, most <= 100);
    table.aim("one PUT an invocation for letters that are archived", puts, puts <= 1);
    let listed: Vec<_> =
        mixed.iter().map(|(calls, batch, _)| format!("{calls} by batches of {batch}")).collect();
    table.aim(
        "1,000 letters of ten topics, mixed: as few calls as the batch allows",
        listed.join(", "),
        mixed.iter().all(|(.., met)| *met),
    );
    if faults.is_empty() { Ok(table) } else { Err(faults) }
}

/// Measures a case; returns the row, the calls that count, and a message if something is not as it must be.
fn run(binary: &Path, case: &CostCase) -> (String, usize, Option<String>) {
    let mut run = BenchProcess::of_function(binary, &case.policy, Duration::ZERO, case.topics);
    let invocations = LETTERS / case.batch;
    let mut kept = 0;
    for _ in 0..invocations {
        let event = event(case.batch, LETTER_BYTES, SizedPart::Body, case.topics);
        run.place(&event);
        kept += run.invoke(event).1;
    }
    // Another thread reads the log.
    std::thread::sleep(Duration::from_millis(50));
    let ((logged, lines), counts) = (run.take_logged(), run.take_counts());
    let (operation, expected) = case.expected;
    let of = |operation: &str| counts.get(operation).copied().unwrap_or_default();
    // The function looks at the queue once, and at each subscription that letters go to once. It would look
    // at the queue again after a minute, but no case takes that long.
    let lookups =
        1 + if case.policy["default"]["target"] == "origin" || case.policy["default"]["target"] == "topic" {
            case.topics
        } else {
            0
        };
    let others: usize = total(&counts) - of(operation).calls;
    let entries = if operation == "PutObject" { LETTERS } else { of(operation).entries };
    let expected_kept = if case.stay { LETTERS } else { 0 };
    // A send carries the letter and little else. A hiding carries only the receipt handle, of about 300
    // bytes.
    let bytes = of(operation).bytes / LETTERS;
    let fitting =
        if operation == "ChangeMessageVisibilityBatch" { 300..500 } else { MESSAGE_BYTES..2 * LETTER_BYTES };
    // The log has a line for each letter, and one with the metrics of each invocation.
    let told = lines >= LETTERS + invocations;
    let found = (of(operation).calls, entries, others, kept, fitting.contains(&bytes), told);
    let wanted = (expected, LETTERS, lookups, expected_kept, true, true);
    let fault = (found != wanted).then(|| {
        format!(
            "{}, batches of {}: {operation} calls, entries, other calls, letters kept, bytes and log lines as they must be: {found:?}, not {wanted:?}; {bytes} bytes a letter; {counts:?}",
            case.name, case.batch
        )
    });
    // The mapping receives the letters and, unless they stay, deletes them.
    let mapping = LETTERS / SQS_BATCH * if case.stay { 1 } else { 2 };
    let price = match operation {
        "PublishBatch" => SNS,
        "PutObject" => S3_PUT,
        _ => SQS,
    };
    // Look-ups are left out: the function makes them once a minute or less, however many letters there are.
    let thousand = float(of(operation).calls) * price
        + float(mapping) * SQS
        + float(invocations) * INVOCATION
        + (float(invocations) * INVOCATION_SECONDS + float(LETTERS) * LETTER_SECONDS) * SECOND
        + float(logged) * LOG_BYTE;
    let row = format!(
        "| {} | {} | {invocations} | {} {operation} | {bytes} | {others} | {mapping} | {} | {:.2} |",
        case.name,
        case.batch,
        of(operation).calls,
        logged / LETTERS,
        thousand * 1_000.0
    );
    (row, of(operation).calls, fault)
}

fn total(counts: &BTreeMap<String, OperationCount>) -> usize {
    counts.values().map(|count| count.calls).sum()
}

fn float(count: usize) -> f64 {
    f64::from(u32::try_from(count).expect("a count of thousands"))
}
