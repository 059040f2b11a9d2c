//! The streams of a command, whose readers may go away.
//!
//! `redrivectl archive list | head -1` has its line, and ends as if it had written the rest. But a command that acts is
//! asked for its work, not for its text: it goes on without a reader.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::failed::Failed;
use sns_redrive::shell::is_obeyed;

/// The first error of the stream for results, if there was one.
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
    /// [`Failed::Output`].
    pub(crate) fn check(&self) -> Result<(), Failed> {
        match self.0.get() {
            None => Ok(()),
            Some((kind, why)) => Err(Failed::Output(io::Error::new(*kind, why.clone()))),
        }
    }

    fn note(&self, error: &io::Error) {
        let _ = self.0.set((error.kind(), error.to_string()));
    }
}

/// Returns an error of writing, unless the reader is gone: then a command that has done its work has succeeded.
pub(crate) fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    written.or_else(|error| if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

/// The stream for results, which notes its first error.
pub(crate) struct Results {
    pub(crate) to: Box<dyn Write + Send>,
    pub(crate) unwritten: WriteFailure,
    /// True if the command goes on without a reader.
    pub(crate) goes_on: bool,
}

impl Results {
    fn noted<T>(&self, done: io::Result<T>, instead: T) -> io::Result<T> {
        match done {
            // The caller repeats such a write.
            Err(error) if error.kind() != ErrorKind::Interrupted => {
                self.unwritten.note(&error);
                if self.goes_on { Ok(instead) } else { Err(error) }
            }
            done => done,
        }
    }
}

impl Write for Results {
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

/// The stream for results as JSON. Characters that a terminal obeys or hides are escaped: a letter's subject must not
/// move the operator's cursor, and the value stays the same.
pub(crate) struct Json {
    pub(crate) to: Box<dyn Write + Send>,
    /// The beginning of a character whose end comes with the next bytes.
    pub(crate) cut: Vec<u8>,
}

impl Write for Json {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = [std::mem::take(&mut self.cut).as_slice(), bytes].concat();
        let text = match std::str::from_utf8(&text) {
            Ok(text) => text,
            Err(error) if error.error_len().is_none() => {
                let (whole, cut) = text.split_at(error.valid_up_to());
                self.cut = cut.to_vec();
                std::str::from_utf8(whole).unwrap_or_default()
            }
            // JSON is text.
            Err(error) => return Err(io::Error::new(ErrorKind::InvalidData, error)),
        };
        let mut escaped = String::with_capacity(text.len());
        for c in text.chars() {
            // Below that JSON has no such characters but between values.
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

/// The stream for problems and progress. Nobody can be told that it is closed, so its errors do not count.
#[derive(Clone)]
pub(crate) struct Problems(Arc<Mutex<Box<dyn Write + Send>>>);

impl Problems {
    pub(crate) fn to(stream: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Mutex::new(stream)))
    }
}

impl fmt::Debug for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Problems").finish_non_exhaustive()
    }
}

impl Write for Problems {
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
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Wherever the bytes of a character are cut.
    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_the_value_stays_the_same() {
        let value = serde_json::json!({ "subject": "a\u{202e}b\u{9b}2J\u{7f}\u{e0041}\u{1b}[2J ä € 😀", "next": "\n" });
        let text = format!("{value}\n");
        for size in 1..8 {
            let page = Page::default();
            let mut json = Json { to: Box::new(page.clone()), cut: Vec::new() };
            text.as_bytes().chunks(size).for_each(|part| json.write_all(part).unwrap());
            let written = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
            let line = written.strip_suffix('\n').unwrap();
            assert!(!line.chars().any(is_obeyed), "{line:?}");
            assert!(line.contains("\\udb40\\udc41") && line.contains("ä € 😀"), "{line}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(line).unwrap(), value);
        }
    }
}
