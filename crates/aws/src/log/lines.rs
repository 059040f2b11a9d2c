//! The form of log lines, as a layer of `tracing-subscriber`.
//!
//! A line is made in one piece and written at once: a letter's has thirty fields, and writing it field by field takes
//! several times as long. Fields of a span are formatted once, when it begins, and copied into each of its lines.

use std::fmt::Debug;
use std::io::Write;

use serde::Serialize;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::clock::InstanceClock;

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// Plain text, for `AWS_LAMBDA_LOG_FORMAT=Text`.
    Text,
}

/// Room for a letter's line.
const LINE_CAPACITY: usize = 1_024;

/// The field of an event that has its text.
const MESSAGE: &str = "message";

/// Writes a line for each event.
pub(super) struct LineWriter<W> {
    pub(super) format: LogFormat,
    pub(super) clock: InstanceClock,
    pub(super) writer: W,
}

/// The fields of a span, as they stand in its lines.
struct SpanFields(Vec<u8>);

impl<W> LineWriter<W> {
    /// Returns the line of an event.
    fn line<S>(&self, event: &Event<'_>, context: &Context<'_, S>) -> Vec<u8>
    where
        S: Subscriber + for<'s> LookupSpan<'s>,
    {
        let (now, level) = (self.clock.now(), event.metadata().level());
        let mut line = Vec::with_capacity(LINE_CAPACITY);
        let _ = match self.format {
            LogFormat::Json => write!(line, r#"{{"timestamp":"{now:.6}","level":"{level}""#),
            LogFormat::Text => write!(line, "{now:.6} {level:>5}"),
        };
        self.format.put(&mut line, |fields| event.record(fields));
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(SpanFields(fields)) = span.extensions().get() {
                line.extend_from_slice(fields);
            }
        }
        line.extend_from_slice(match self.format {
            LogFormat::Json => b"}\n",
            LogFormat::Text => b"\n",
        });
        line
    }
}

impl<S, W, T> Layer<S> for LineWriter<W>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    W: Fn() -> T + Send + Sync + 'static,
    T: Write,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Vec::new();
        self.format.put(&mut fields, |visitor| attributes.record(visitor));
        span.extensions_mut().insert(SpanFields(fields));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(SpanFields(fields)) = span.extensions_mut().get_mut() {
            self.format.put(fields, |visitor| values.record(visitor));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        // Nobody is left to tell if the log is closed.
        let _ = (self.writer)().write_all(&self.line(event, &context));
    }
}

impl LogFormat {
    /// Adds fields to a line.
    fn put(self, line: &mut Vec<u8>, record: impl FnOnce(&mut dyn Visit)) {
        match self {
            Self::Json => record(&mut JsonLine(line)),
            Self::Text => record(&mut TextLine(line)),
        }
    }
}

/// A line that is a JSON object.
struct JsonLine<'l>(&'l mut Vec<u8>);

impl JsonLine<'_> {
    /// Names are identifiers and dots, which need no escape; and nothing that is put here cannot be serialised.
    fn put(&mut self, field: &Field, value: &(impl Serialize + ?Sized)) {
        self.0.extend_from_slice(b",\"");
        self.0.extend_from_slice(field.name().as_bytes());
        self.0.extend_from_slice(b"\":");
        let _ = serde_json::to_writer(&mut *self.0, value);
    }
}

impl Visit for JsonLine<'_> {
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
        self.put(field, &format_args!("{value:?}"));
    }
}

/// A line of text: the message, then the fields by name.
struct TextLine<'l>(&'l mut Vec<u8>);

impl Visit for TextLine<'_> {
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

    use jiff::Timestamp;
    use serde_json::{Value, json};
    use tracing::level_filters::LevelFilter;

    use super::super::subscriber;
    use super::*;

    /// What was written, each write for itself.
    #[derive(Clone, Default)]
    struct WrittenLog(Arc<Mutex<Vec<String>>>);

    impl Write for WrittenLog {
        fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().push(String::from_utf8(line.to_vec()).unwrap());
            Ok(line.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, level: LevelFilter, log: impl FnOnce()) -> String {
        let lines = WrittenLog::default();
        let writer = lines.clone();
        tracing::subscriber::with_default(subscriber(format, level, move || writer.clone()), log);
        let lines = lines.0.lock().unwrap();
        assert!(
            lines.iter().all(|line| line.find('\n') == Some(line.len() - 1)),
            "not line by line: {lines:?}"
        );
        lines.concat()
    }

    fn events() {
        let missing: Option<&str> = None;
        tracing::warn!(
            queue.arn = "a \"quoted\"\nname\u{1}\u{fc}",
            detail = %"displayed",
            count = 3_u64,
            below = -1,
            share = 0.5,
            overridden = Some(true),
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
            "overridden": true,
        });
        let others = json!({ "level": "WARN", "message": "of others" });
        assert_eq!(lines, [full, others, json!({ "level": "INFO", "message": "inside" })]);
    }

    #[test]
    fn a_line_of_text_has_the_message_before_its_fields() {
        let lines = logged(LogFormat::Text, LevelFilter::WARN, events);
        let lines: Vec<_> = lines.lines().map(|line| line.split_once("Z ").unwrap().1).collect();
        let fields = r#"queue.arn="a \"quoted\"\nname\u{1}ü" detail=displayed count=3 below=-1 share=0.5 overridden=true"#;
        assert_eq!(lines, [format!(" WARN 2 of them {fields}"), " WARN of others".to_owned()]);
    }

    #[test]
    fn fields_of_the_spans_around_an_event_reach_its_line() {
        let in_spans = || {
            super::super::invocation("req-\"1\"").in_scope(|| {
                tracing::info!(count = 1, "first");
                let inner = tracing::error_span!("inner", step = 2, late = tracing::field::Empty);
                inner.record("late", true);
                inner.in_scope(|| tracing::error!(target: "hyper", "of others"));
                tracing::error!(parent: None, "of nobody");
            });
            tracing::error!("outside");
        };
        let lines = logged(LogFormat::Json, LevelFilter::INFO, in_spans);
        let fields = |line: &str| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            let line = line.as_object_mut().unwrap();
            line.retain(|name, _| !["timestamp", "level"].contains(&name.as_str()));
            json!(line)
        };
        let expected = [
            json!({ "message": "first", "count": 1, "request_id": "req-\"1\"" }),
            json!({ "message": "of others", "step": 2, "late": true, "request_id": "req-\"1\"" }),
            json!({ "message": "of nobody" }),
            json!({ "message": "outside" }),
        ];
        assert_eq!(lines.lines().map(fields).collect::<Vec<_>>(), expected);

        let lines = logged(LogFormat::Text, LevelFilter::ERROR, in_spans);
        let lines: Vec<_> = lines.lines().map(|line| line.split_once("Z ").unwrap().1).collect();
        let first = r#"ERROR of others step=2 late=true request_id="req-\"1\"""#;
        assert_eq!(lines, [first, "ERROR of nobody", "ERROR outside"]);
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
