//! The form of log lines.
//!
//! A line is made in one piece and written at once: a letter's has thirty fields, and writing it field by field takes
//! several times as long.

use std::fmt::Debug;
use std::io::Write;

use jiff::Timestamp;
use serde::Serialize;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::clock::Clock;

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// Plain text, for `AWS_LAMBDA_LOG_FORMAT=Text`.
    Text,
}

/// Room for a letter's line.
const ROOM: usize = 1_024;

/// The field of an event that has its text.
const MESSAGE: &str = "message";

/// Writes a line for each event.
pub(super) struct Lines<W> {
    pub(super) format: LogFormat,
    /// The level of our own events.
    pub(super) level: LevelFilter,
    pub(super) clock: Clock,
    pub(super) writer: W,
}

impl<W> Lines<W> {
    /// Returns the level of events of a crate. Other crates log requests and answers, bodies among them, below WARN:
    /// their events are logged from WARN on, and only if our own are.
    fn level_of(&self, target: &str) -> LevelFilter {
        if target.starts_with("sns_redrive") { self.level } else { self.level.min(LevelFilter::WARN) }
    }
}

impl<W, T> Subscriber for Lines<W>
where
    W: Fn() -> T + Send + Sync + 'static,
    T: Write,
{
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= self.level_of(metadata.target())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn event(&self, event: &Event<'_>) {
        let (now, level) = (self.clock.now(), *event.metadata().level());
        let line = match self.format {
            LogFormat::Json => Json::line(event, level, now),
            LogFormat::Text => Text::line(event, level, now),
        };
        // Nobody is left to tell if the log is closed.
        let _ = (self.writer)().write_all(&line);
    }

    // Spans are not logged; an id must not be zero.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A line that is a JSON object.
struct Json(Vec<u8>);

impl Json {
    fn line(event: &Event<'_>, level: Level, now: Timestamp) -> Vec<u8> {
        let mut line = Vec::with_capacity(ROOM);
        let _ = write!(line, r#"{{"timestamp":"{now:.6}","level":"{level}""#);
        let mut line = Self(line);
        event.record(&mut line);
        line.0.extend_from_slice(b"}\n");
        line.0
    }

    /// Names are identifiers and dots, which need no escape; and nothing that is put here cannot be serialised.
    fn put(&mut self, field: &Field, value: &(impl Serialize + ?Sized)) {
        self.0.extend_from_slice(b",\"");
        self.0.extend_from_slice(field.name().as_bytes());
        self.0.extend_from_slice(b"\":");
        let _ = serde_json::to_writer(&mut self.0, value);
    }
}

impl Visit for Json {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, &value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, &value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, &format!("{value:?}"));
    }
}

/// A line of text: the message, then the fields by name.
struct Text(Vec<u8>);

impl Text {
    fn line(event: &Event<'_>, level: Level, now: Timestamp) -> Vec<u8> {
        let mut line = Vec::with_capacity(ROOM);
        let _ = write!(line, "{now:.6} {level:>5}");
        let mut line = Self(line);
        event.record(&mut line);
        line.0.push(b'\n');
        line.0
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = match field.name() {
            MESSAGE => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::{Value, json};

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(line)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, level: LevelFilter, log: impl FnOnce()) -> String {
        let lines = Log::default();
        let writer = lines.clone();
        tracing::subscriber::with_default(
            Lines { format, level, clock: Clock::system(), writer: move || writer.clone() },
            log,
        );
        let lines = lines.0.lock().unwrap().clone();
        String::from_utf8(lines).unwrap()
    }

    fn events() {
        let missing: Option<&str> = None;
        tracing::warn!(
            queue.arn = "a \"quoted\"\nname\u{1}\u{fc}",
            detail = %"displayed",
            count = 3_u64,
            below = -1,
            share = 0.5,
            ordered = Some(true),
            missing,
            "{} of them",
            2
        );
        tracing::debug!("details");
        tracing::warn!(target: "hyper", "of others");
        tracing::info!(target: "hyper", "a body");
        tracing::error_span!("a span").in_scope(|| tracing::info!("inside"));
    }

    #[test]
    fn a_line_is_one_json_object_with_its_fields() {
        let lines = logged(LogFormat::Json, LevelFilter::INFO, events);
        let mut lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for line in &mut lines {
            let time = line.as_object_mut().unwrap().remove("timestamp").unwrap();
            let time = time.as_str().unwrap().to_owned();
            assert_eq!(time.len(), "2026-11-01T11:59:58.351000Z".len(), "{time}");
            assert!(time.parse::<Timestamp>().is_ok());
        }
        let full = json!({
            "level": "WARN",
            "message": "2 of them",
            "queue.arn": "a \"quoted\"\nname\u{1}\u{fc}",
            "detail": "displayed",
            "count": 3,
            "below": -1,
            "share": 0.5,
            "ordered": true,
        });
        let others = json!({ "level": "WARN", "message": "of others" });
        assert_eq!(lines, [full, others, json!({ "level": "INFO", "message": "inside" })]);
    }

    #[test]
    fn a_line_of_text_has_the_message_before_its_fields() {
        let lines = logged(LogFormat::Text, LevelFilter::WARN, events);
        let lines: Vec<_> = lines.lines().map(|line| line.split_once("Z ").unwrap().1).collect();
        let fields = r#"queue.arn="a \"quoted\"\nname\u{1}ü" detail=displayed count=3 below=-1 share=0.5 ordered=true"#;
        assert_eq!(lines, [format!(" WARN 2 of them {fields}"), " WARN of others".to_owned()]);
    }

    #[test]
    fn events_of_others_are_logged_from_warn_on_if_ours_are() {
        // Lines below INFO are not compiled in.
        for (level, count) in [(LevelFilter::TRACE, 3), (LevelFilter::ERROR, 0), (LevelFilter::OFF, 0)] {
            let lines = logged(LogFormat::Json, level, events);
            assert_eq!(lines.lines().count(), count, "{level}: {lines}");
        }
    }
}
