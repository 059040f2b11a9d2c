//! What letters cost by docs/limits.md and docs/compare.md, computed from what the function does: calls that the
//! account counts, lines of its log, and metrics in them.

use std::collections::BTreeSet;

use redrive_support::{EntryFault, FunctionWorld, NOW, RecordBuilder, SimCall, SimFault, TestInvocation};
use serde_json::json;

const LIMITS: &str = include_str!("../../docs/limits.md");
const COMPARE: &str = include_str!("../../docs/compare.md");

/// What is asked of the sum, in USD.
const MOST: f64 = 5.50;

const MILLION: f64 = 1_000_000.0;

/// List prices in USD, us-east-1: a million requests of SQS and of Lambda, a GB-second on arm64, a thousand PUTs of S3, a
/// GB of logs, a metric for a month.
/// <https://aws.amazon.com/sqs/pricing/>, <https://aws.amazon.com/lambda/pricing/>, <https://aws.amazon.com/s3/pricing/>,
/// <https://aws.amazon.com/cloudwatch/pricing/>
const SQS: f64 = 0.40;
const INVOCATIONS: f64 = 0.20;
const GB_SECOND: f64 = 0.000_013_333_4;
const PUTS: f64 = 0.005;
const LOG: f64 = 0.50;
const METRIC: f64 = 0.30;

/// Assumed: the milliseconds of an invocation, and the bytes of the two lines that Lambda writes for each.
const MILLISECONDS: f64 = 50.0;
const LAMBDA_BYTES: usize = 500;

/// `CloudWatch` counts this many bytes for each line besides its text.
/// <https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutLogEvents.html>
const LINE_BYTES: usize = 26;

/// The calls that are made by letter. Others read settings of a queue or a subscription once in minutes.
const BY_LETTER: [&str; 3] = ["SendMessageBatch", "ChangeMessageVisibilityBatch", "PutObject"];
const BY_INSTANCE: [&str; 2] = ["GetQueueAttributes", "GetSubscriptionAttributes"];

fn float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap())
}

#[derive(Default)]
struct Counted {
    /// Letters, or attempts of letters.
    letters: usize,
    invocations: usize,
    requests: usize,
    puts: usize,
    log_bytes: usize,
    metrics: BTreeSet<(String, String)>,
}

impl Counted {
    fn invocation(&mut self, ran: &TestInvocation, calls: &[SimCall]) {
        self.invocations += 1;
        let (by_letter, others): (Vec<_>, Vec<_>) =
            calls.iter().partition(|call| BY_LETTER.contains(&&*call.operation));
        assert!(others.iter().all(|call| BY_INSTANCE.contains(&&*call.operation)), "{others:?}");
        let puts = by_letter.iter().filter(|call| call.operation == "PutObject").count();
        self.puts += puts;
        // Lambda receives the batch, and deletes what is done.
        let deletes = usize::from(ran.kept.len() < ran.letters().len());
        self.requests += by_letter.len() - puts + 1 + deletes;
        // The id of an invocation is longer than that of a test.
        let id = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
        let text = format!("{}{}", ran.text, ran.metrics).replace("req-1", id);
        self.log_bytes += text.len() + LINE_BYTES * (text.lines().count() + 2) + LAMBDA_BYTES;
        for directive in ran.metrics()["_aws"]["CloudWatchMetrics"].as_array().unwrap() {
            let dimensions = directive["Dimensions"].to_string();
            let names = directive["Metrics"].as_array().unwrap().iter().map(|it| it["Name"].to_string());
            self.metrics.extend(names.map(|name| (dimensions.clone(), name)));
        }
    }

    fn of_million(&self, count: usize) -> f64 {
        float(count) * MILLION / float(self.letters)
    }

    fn sqs(&self) -> f64 {
        self.of_million(self.requests) / MILLION * SQS
    }

    fn invoking(&self) -> f64 {
        self.of_million(self.invocations) / MILLION * INVOCATIONS
    }

    fn running(&self) -> f64 {
        self.of_million(self.invocations) * MILLISECONDS / 1000.0 / 4.0 * GB_SECOND
    }

    fn logs(&self) -> f64 {
        self.of_million(self.log_bytes) / 1e9 * LOG
    }
}

/// Handles a hundred letters of 2 KB, in full batches. Each fails twice, and one of them once more, which ends its
/// schedule. Returns what was counted in all, and of the first two attempts.
async fn counted(batch: usize) -> (Counted, Counted) {
    let schedule =
        json!({ "minDelayTarget": 60, "maxDelayTarget": 60, "numRetries": 3, "numNoDelayRetries": 1 });
    let policy = json!({ "default": { "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": schedule } } });
    let settings = [("AWS_LAMBDA_FUNCTION_NAME", "sns-redrive"), ("REDRIVE_POLICY", &*policy.to_string())];
    let (mut all, mut failed) = (Counted::default(), Counted::default());
    let ids: Vec<_> = (0..100).map(|nth| format!("3f2504e0-4f89-41d3-9a0c-0305e82c33{nth:02}")).collect();
    for ids in ids.chunks(batch) {
        let world = FunctionWorld::new(&settings);
        for round in 1..=3 {
            let posts = ids.iter().map(|id| {
                let post = RecordBuilder::envelope(id).message(&format!("{id}{}", "x".repeat(2_000)));
                post.sent(NOW).received(round)
            });
            world.cloud.script(move |call| match &*call.operation {
                "SendMessageBatch" => {
                    let failing = if round < 3 { "xx" } else { "82c3342xx" };
                    SimFault::except(call, failing, EntryFault::service("InternalError", "oh"))
                }
                _ => SimFault::Pass,
            });
            let ran = world.run(&posts.collect::<Vec<_>>()).await;
            let calls = world.cloud.journal();
            world.cloud.forget();
            all.invocation(&ran, &calls);
            if round < 3 {
                failed.invocation(&ran, &calls);
                assert_eq!(ran.kept.len(), batch);
            } else {
                assert!(ran.kept.is_empty(), "{}", ran.text);
            }
            world.pass(60);
        }
    }
    (all.letters, failed.letters) = (100, 200);
    assert_eq!((all.puts, failed.puts), (1, 0));
    (all, failed)
}

/// Returns the last cell of a table's row.
fn said(table: &str, row: &str) -> String {
    let line = table.lines().find(|line| line.starts_with(&format!("| {row} |")));
    let line = line.unwrap_or_else(|| panic!("no row {row}"));
    line.trim_end_matches(" |").rsplit(" | ").next().unwrap().trim_matches('*').to_owned()
}

#[tokio::test]
async fn a_million_letters_cost_what_the_limits_say() {
    let (counted, _) = counted(10).await;
    let (_, table) = LIMITS.split_once("\nA million letters of 2 KB,").unwrap();
    let rows = [
        ("SQS: receive, send, hide, delete | 900,000 | 0.40 a million", counted.sqs()),
        ("Lambda, invocations | 300,000 | 0.20 a million", counted.invoking()),
        ("Lambda, arm64, 256 MB, 50 ms each (assumed) | 3,750 GB-s | 0.0000133334", counted.running()),
        ("S3, PUT | 10,000 | 0.005 a thousand", counted.of_million(counted.puts) / 1000.0 * PUTS),
        (
            &*format!("logs | {:.1} GB | 0.50 a GB", counted.of_million(counted.log_bytes) / 1e9),
            counted.logs(),
        ),
        (&*format!("metrics | {} | 0.30", counted.metrics.len()), float(counted.metrics.len()) * METRIC),
    ];
    for (row, cost) in &rows {
        assert_eq!(said(table, row), format!("{cost:.2}"), "{row}");
    }
    let sum: f64 = rows.iter().map(|(_, cost)| cost).sum();
    assert_eq!(said(table, "**together** | |"), format!("{sum:.2}"));
    assert!(sum < MOST, "{sum}");
    assert_eq!(counted.metrics.iter().filter(|(of, _)| of.contains("FunctionName")).count(), 3);
}

#[tokio::test]
async fn a_failed_retry_costs_what_the_comparison_says() {
    let (_, full) = counted(10).await;
    let (all_alone, alone) = counted(1).await;
    let sum = |it: &Counted| it.sqs() + it.invoking() + it.running() + it.logs();
    let row = format!("sns-redrive, batches of ten | logs {:.2}", full.logs());
    assert_eq!(said(COMPARE, &row), format!("{:.2}", sum(&full)));
    let list = full.of_million(full.invocations) / 1000.0 * PUTS;
    let row = format!(
        "the same, waits above two minutes | and {list:.2} for the [list of waiting letters](limits.md#cost)"
    );
    assert_eq!(said(COMPARE, &row), format!("{:.2}", sum(&full) + list));
    let list = alone.of_million(alone.invocations) / 1000.0 * PUTS;
    let row = format!(
        "the same, each letter alone; with the list | logs {:.2}, SQS {:.2}; list {list:.2}",
        alone.logs(),
        alone.sqs()
    );
    assert_eq!(said(COMPARE, &row), format!("{:.2}; {:.2}", sum(&alone), sum(&alone) + list));
    let batches_of_one = format!("SQS and invocations cost {:.2}", all_alone.sqs() + all_alone.invoking());
    assert!(LIMITS.contains(&batches_of_one), "{batches_of_one}");
}
