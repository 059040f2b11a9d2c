//! The streams of a command, whose readers may go away.
//!
//! `redrivectl archive list | head -1` has its line, and ends as if it had written the rest. But a command that acts is
//! asked for its work, not for its text: it goes on without a reader.

use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, OnceLock};

use crate::failed::Failed;

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

/// The stream for problems and progress. Nobody can be told that it is closed, so its errors do not count.
pub(crate) struct Problems(pub(crate) Box<dyn Write + Send>);

impl Write for Problems {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() != ErrorKind::Interrupted => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}
