//! The log: its lines on standard output, and which are written.
//!
//! A line is one JSON object with `timestamp` and `level`, as Lambda's log controls need it.
//! <https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-logformat.html>

mod lines;
mod output;

use std::io::Write;

use tracing::Span;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

pub use lines::LogFormat;
pub use output::{together, write};

use crate::clients::NoRootCertificates;
use crate::clock::InstanceClock;
use crate::settings::BadSettings;

/// The beginnings of our own events' targets: those of the function, and of the crates that it is made of.
const OUR_CRATES: [&str; 2] = ["sns_redrive", "redrive_"];

/// Installs logging for the process, according to Lambda's own variables `AWS_LAMBDA_LOG_LEVEL` and
/// `AWS_LAMBDA_LOG_FORMAT`. A second call changes nothing.
pub(crate) fn init(variable: impl Fn(&str) -> Option<String>) {
    let format = match variable("AWS_LAMBDA_LOG_FORMAT").as_deref() {
        Some("Text" | "text") => LogFormat::Text,
        _ => LogFormat::Json,
    };
    let level = level(variable("AWS_LAMBDA_LOG_LEVEL").as_deref());
    // Only tests have another subscriber already, and it stays.
    let _ = tracing::subscriber::set_global_default(subscriber(format, level, || output::StandardOutput));
}

/// Returns the subscriber behind [`init`], with any writer.
pub fn subscriber<T: Write + 'static>(
    format: LogFormat,
    level: LevelFilter,
    writer: impl Fn() -> T + Send + Sync + 'static,
) -> impl tracing::Subscriber + Send + Sync {
    // Other crates log requests and answers, bodies among them, below WARN: their events are logged from WARN on, and only
    // if our own are.
    let filter = Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_targets(OUR_CRATES.map(|prefix| (prefix, level)));
    registry().with(filter).with(lines::LineWriter { format, clock: InstanceClock::system(), writer })
}

/// Returns the span of an invocation, whose lines have its request id. It has the highest level, so that it is there
/// whichever level lines must have.
#[must_use]
pub fn invocation(request_id: &str) -> Span {
    tracing::error_span!("invocation", request_id)
}

/// Returns the level for one of Lambda's names. It is INFO without a name, and for those below: no line of such a level is
/// compiled in.
fn level(name: Option<&str>) -> LevelFilter {
    match name.map(str::to_ascii_uppercase).as_deref() {
        Some("WARN") => LevelFilter::WARN,
        Some("ERROR" | "FATAL") => LevelFilter::ERROR,
        _ => LevelFilter::INFO,
    }
}

/// Logs that the function refuses to start because of its settings.
pub(crate) fn bad_settings(faults: &BadSettings) {
    for fault in &faults.0 {
        tracing::error!(setting = fault.variable, detail = fault.problem, "bad setting");
    }
}

/// Logs that the system has no certificate to verify servers with.
pub(crate) fn no_root_certificates(why: &NoRootCertificates) {
    tracing::warn!(detail = why.0, "no root certificates: the function can reach no server over TLS");
}
