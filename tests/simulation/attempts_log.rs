//! A reader of the function's log that counts attempts: by retries, and those that took no number.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A reader of the lines that tell a letter's outcome. Clones are the same reader.
#[derive(Debug, Clone, Default)]
pub struct AttemptsLog(Arc<AttemptCounts>);

#[derive(Debug, Default)]
struct AttemptCounts {
    all: AtomicU64,
    unplanned: AtomicU64,
}

impl AttemptsLog {
    /// Returns the number of lines with an attempt.
    pub fn attempts(&self) -> u64 {
        self.0.all.load(Ordering::Relaxed)
    }

    /// Returns the number of those that were made before the planned moment (`retry.early`).
    pub fn unplanned(&self) -> u64 {
        self.0.unplanned.load(Ordering::Relaxed)
    }
}

impl Subscriber for AttemptsLog {
    fn enabled(&self, line: &Metadata<'_>) -> bool {
        line.is_event() && line.fields().field("retry.early").is_some()
    }

    fn event(&self, line: &Event<'_>) {
        line.record(&mut AttemptFields(&self.0));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The fields of a line, of which two count. A field without a value is not recorded.
struct AttemptFields<'c>(&'c AttemptCounts);

impl AttemptFields<'_> {
    fn count(&self, field: &Field) {
        match field.name() {
            "retry.number" => self.0.all.fetch_add(1, Ordering::Relaxed),
            "retry.early" => self.0.unplanned.fetch_add(1, Ordering::Relaxed),
            _ => return,
        };
    }
}

impl Visit for AttemptFields<'_> {
    fn record_u64(&mut self, field: &Field, _: u64) {
        self.count(field);
    }

    fn record_bool(&mut self, field: &Field, _: bool) {
        self.count(field);
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}
