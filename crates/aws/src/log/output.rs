//! Standard output, from which Lambda reads lines.
//!
//! Every line is written at once, so that a killed function has logged what it did. The lines of a batch's
//! letters are an exception: up to a thousand come together at the end, and a write for each would take
//! longer than making the line. A panic in between, which ends the process, would lose them.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of bytes at which held lines are written, even if more are to come.
const FLUSH_BYTES: usize = 64 * 1024;

static HELD: Mutex<HeldLines> = Mutex::new(HeldLines { lines: Vec::new(), holding: false });

/// The lines that are written later.
struct HeldLines {
    lines: Vec<u8>,
    holding: bool,
}

impl HeldLines {
    fn take(&mut self, lines: &[u8], to: &mut impl Write) {
        self.lines.extend_from_slice(lines);
        if !self.holding || self.lines.len() >= FLUSH_BYTES {
            self.write_out(to);
        }
    }

    /// Writes the held lines. If standard output is closed, the error cannot be reported anywhere.
    fn write_out(&mut self, to: &mut impl Write) {
        let _ = to.write_all(&self.lines);
        self.lines.clear();
    }
}

/// The writer of whole lines to standard output: one line of the log, or those of the metrics.
#[derive(Debug, Clone, Copy)]
pub(super) struct StandardOutput;

impl Write for StandardOutput {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        held().take(lines, &mut io::stdout().lock());
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        held().write_out(&mut io::stdout().lock());
        Ok(())
    }
}

/// Writes lines to standard output, raw.
pub fn write(lines: &str) {
    let _ = StandardOutput.write_all(lines.as_bytes());
}

/// A guard: until it is dropped, lines are collected and then written together.
#[must_use]
#[derive(Debug)]
pub struct OutputGuard(());

/// Begins to collect lines.
pub fn together() -> OutputGuard {
    held().holding = true;
    OutputGuard(())
}

impl Drop for OutputGuard {
    fn drop(&mut self) {
        let mut held = held();
        held.holding = false;
        held.write_out(&mut io::stdout().lock());
    }
}

fn held() -> MutexGuard<'static, HeldLines> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_at_once_or_together_and_never_more_than_a_bound_is_held() {
        let (mut held, mut written) = (HeldLines { lines: Vec::new(), holding: false }, Vec::new());
        held.take(b"alone\n", &mut written);
        assert_eq!(written, b"alone\n");
        held.holding = true;
        held.take(b"one\n", &mut written);
        assert_eq!(written, b"alone\n");
        let long = "x".repeat(FLUSH_BYTES);
        held.take(long.as_bytes(), &mut written);
        assert_eq!(written, format!("alone\none\n{long}").as_bytes());
        held.take(b"two\n", &mut written);
        held.write_out(&mut written);
        assert!(written.ends_with(b"xtwo\n") && held.lines.is_empty());
    }
}
