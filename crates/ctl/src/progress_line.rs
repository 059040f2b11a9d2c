//! The progress line of long work on a terminal.

use std::io::Write;

use crate::console::ToolEnvironment;

/// A progress line below the output. It is cleared before anything is printed, and at the end.
pub(crate) struct ProgressLine<'a> {
    err: &'a mut (dyn Write + Send),
    /// True if the line is shown.
    shows: bool,
    /// True while a line is on the screen.
    stands: bool,
}

/// The output of long work, with its progress line, which may be on the same screen.
pub(crate) struct ProgressOutput<'a> {
    out: &'a mut (dyn Write + Send),
    pub(crate) screen: ProgressLine<'a>,
}

impl<'a> ProgressLine<'a> {
    pub(crate) fn new(err: &'a mut (dyn Write + Send), shows: bool) -> Self {
        Self { err, shows, stands: false }
    }

    /// Replaces the line, if progress is shown. Failed writes do not stop the work.
    pub(crate) fn show(&mut self, line: &str) {
        if self.shows {
            self.stands = true;
            let _ = write!(self.err, "\r\x1b[K{line}");
            let _ = self.err.flush();
        }
    }

    /// Prints a line that stays.
    pub(crate) fn say(&mut self, line: &str) -> std::io::Result<()> {
        self.clear();
        writeln!(self.err, "redrivectl: {line}")
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.stands) {
            let _ = write!(self.err, "\r\x1b[K");
            let _ = self.err.flush();
        }
    }
}

impl Drop for ProgressLine<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

impl<'a> ProgressOutput<'a> {
    pub(crate) fn new(console: &'a mut ToolEnvironment) -> Self {
        Self { out: &mut *console.out, screen: ProgressLine::new(&mut *console.err, console.progress) }
    }
}

impl Write for ProgressOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.screen.clear();
        self.out.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
