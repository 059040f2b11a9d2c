//! The line of progress of long work, on a terminal.

use std::io::Write;

use crate::console::Console;

/// A line of progress, which stands below what is printed. It is gone before anything is printed, and in the end.
pub(crate) struct Screen<'a> {
    err: &'a mut (dyn Write + Send),
    /// Whether somebody looks.
    shows: bool,
    /// Whether a line stands there.
    stands: bool,
}

/// The output of long work, with its line of progress, which may stand on the same screen.
pub(crate) struct Page<'a> {
    out: &'a mut (dyn Write + Send),
    pub(crate) screen: Screen<'a>,
}

impl<'a> Screen<'a> {
    pub(crate) fn new(err: &'a mut (dyn Write + Send), shows: bool) -> Self {
        Self { err, shows, stands: false }
    }

    /// Shows a line in the place of the one before; to a person only. Work goes on, also where nobody listens.
    pub(crate) fn show(&mut self, line: &str) {
        if self.shows {
            self.stands = true;
            let _ = write!(self.err, "\r\x1b[K{line}");
            let _ = self.err.flush();
        }
    }

    /// Says something that stays.
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

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

impl<'a> Page<'a> {
    pub(crate) fn new(console: &'a mut Console) -> Self {
        Self { out: &mut *console.out, screen: Screen::new(&mut *console.err, console.progress) }
    }
}

impl Write for Page<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.screen.clear();
        self.out.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
