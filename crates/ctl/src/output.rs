//! The streams of a command. Their readers may go away.
//!
//! In `redrivectl archive list | head -1` the reader has its line, and the command ends as if it had written
//! the rest. But a command that acts is there for its work, not for its text: it continues without a reader.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use redrive_core::shell::is_obeyed;
use serde_json::Value;

use crate::command_end::CommandEnd;
use crate::command_failure::CommandFailure;
use crate::tables::TextStyle;

/// The result of a command. A command returns it, and prints it last.
pub(crate) trait CommandResult {
    /// Returns the result as lines of text, for a person.
    fn text(&self, style: TextStyle) -> String;

    /// Returns the result as JSON, for a script.
    fn json(&self) -> Value;

    /// Returns how the command ended.
    fn finished(&self) -> CommandEnd;
}

/// The first error of the stream for results, if any.
#[derive(Debug, Clone, Default)]
pub struct WriteFailure(Arc<OnceLock<(ErrorKind, String)>>);

impl WriteFailure {
    /// Reports whether nobody reads the results any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.get().is_some_and(|(kind, _)| *kind == ErrorKind::BrokenPipe)
    }

    /// Checks that all results could be written.
    ///
    /// # Errors
    ///
    /// [`CommandFailure::Output`].
    pub(crate) fn check(&self) -> Result<(), CommandFailure> {
        match self.0.get() {
            None => Ok(()),
            Some((kind, why)) => Err(CommandFailure::Output(io::Error::new(*kind, why.clone()))),
        }
    }

    fn note(&self, error: &io::Error) {
        let _ = self.0.set((error.kind(), error.to_string()));
    }
}

/// Returns an error of writing, unless the reader is gone: a command that has done its work has then
/// succeeded.
pub(crate) fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    written.or_else(|error| if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

/// The stream for results, which notes its first error.
pub(crate) struct ResultStream {
    pub(crate) to: Box<dyn Write + Send>,
    pub(crate) unwritten: WriteFailure,
    /// True if the command continues without a reader.
    pub(crate) goes_on: bool,
}

impl ResultStream {
    fn noted<T>(&self, done: io::Result<T>, instead: T) -> io::Result<T> {
        match done {
            // The caller repeats an interrupted write.
            Err(error) if error.kind() != ErrorKind::Interrupted => {
                self.unwritten.note(&error);
                if self.goes_on { Ok(instead) } else { Err(error) }
            }
            done => done,
        }
    }
}

impl Write for ResultStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.goes_on && self.unwritten.check().is_err() {
            return Ok(bytes.len());
        }
        let written = self.to.write(bytes);
        self.noted(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.to.flush();
        self.noted(flushed, ())
    }
}

/// The stream for results as JSON. It escapes characters that a terminal obeys or hides, so that a letter's
/// subject cannot move the operator's cursor. The escaped JSON has the same value.
pub(crate) struct JsonStream {
    pub(crate) to: Box<dyn Write + Send>,
    /// The first bytes of a character. The rest comes with the next write.
    pub(crate) cut: Vec<u8>,
}

impl Write for JsonStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = [std::mem::take(&mut self.cut).as_slice(), bytes].concat();
        let text = match std::str::from_utf8(&text) {
            Ok(text) => text,
            Err(error) if error.error_len().is_none() => {
                let (whole, cut) = text.split_at(error.valid_up_to());
                self.cut = cut.to_vec();
                std::str::from_utf8(whole).unwrap_or_default()
            }
            // JSON is text, so other bytes are a fault.
            Err(error) => return Err(io::Error::new(ErrorKind::InvalidData, error)),
        };
        let mut escaped = String::with_capacity(text.len());
        for c in text.chars() {
            // JSON already escapes lower control characters inside of texts. Those that are left stand
            // between values.
            if c >= '\u{7f}' && is_obeyed(c) {
                let units = c
                    .encode_utf16(&mut [0; 2])
                    .iter()
                    .map(|unit| format!("\\u{unit:04x}"))
                    .collect::<Vec<_>>();
                escaped.push_str(&units.concat());
            } else {
                escaped.push(c);
            }
        }
        self.to.write_all(escaped.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// The stream for problems and progress. If it is closed nobody can be told, so its errors are ignored.
#[derive(Clone)]
pub(crate) struct ProblemStream(Arc<Mutex<Box<dyn Write + Send>>>);

impl ProblemStream {
    pub(crate) fn to(stream: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Mutex::new(stream)))
    }
}

impl fmt::Debug for ProblemStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProblemStream").finish_non_exhaustive()
    }
}

impl Write for ProblemStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes) {
            Err(error) if error.kind() != ErrorKind::Interrupted => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).flush();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct OutputBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for OutputBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The bytes of a character may be split anywhere.
    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_the_value_stays_the_same() {
        let value = serde_json::json!({ "subject": "a\u{202e}b\u{9b}2J\u{7f}\u{e0041}\u{1b}[2J ä € 😀", "next": "\n" });
        let text = format!("{value}\n");
        for size in 1..8 {
            let page = OutputBuffer::default();
            let mut json = JsonStream { to: Box::new(page.clone()), cut: Vec::new() };
            text.as_bytes().chunks(size).for_each(|part| json.write_all(part).unwrap());
            let written = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
            let line = written.strip_suffix('\n').unwrap();
            assert!(!line.chars().any(is_obeyed), "{line:?}");
            assert!(line.contains("\\udb40\\udc41") && line.contains("ä € 😀"), "{line}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(line).unwrap(), value);
        }
    }
}
