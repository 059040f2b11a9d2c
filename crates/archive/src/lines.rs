//! Cuts bytes that come in pieces into lines, holding no more than one line and one piece.

use bytes::Bytes;

use super::read::BadRecord;

/// The greatest length of a line that is read, in bytes. SQS takes messages of 1 MiB; a byte takes at most
/// six in JSON (`\u0000`), and the rest of a record is small.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
pub(super) const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;

/// Splits pieces of bytes into lines.
#[derive(Debug, Default)]
pub(super) struct LineSplitter {
    piece: Bytes,
    /// The beginning of the line that the current piece continues.
    begun: Vec<u8>,
    /// `true` if that line is already too long.
    too_long: bool,
}

impl LineSplitter {
    /// Takes the next piece. The caller must have taken all lines of the previous piece.
    pub(super) fn feed(&mut self, piece: Bytes) {
        self.piece = piece;
    }

    /// Returns the next whole line without its line end, or `None` if it needs another piece.
    pub(super) fn next(&mut self) -> Option<Result<String, BadRecord>> {
        let end = self.piece.iter().position(|byte| *byte == b'\n');
        let part = match end {
            Some(end) => self.piece.split_to(end + 1).slice(..end),
            None => std::mem::take(&mut self.piece),
        };
        if self.begun.len() + part.len() > MAX_LINE_BYTES {
            self.too_long = true;
            self.begun = Vec::new();
        } else if !self.too_long {
            self.begun.extend_from_slice(&part);
        }
        end.map(|_| self.finish())
    }

    /// Returns the text after the last line end, if there is any.
    pub(super) fn rest(&mut self) -> Option<Result<String, BadRecord>> {
        (self.too_long || !self.begun.is_empty()).then(|| self.finish())
    }

    fn finish(&mut self) -> Result<String, BadRecord> {
        let line = std::mem::take(&mut self.begun);
        if std::mem::take(&mut self.too_long) {
            return Err(BadRecord::TooLong);
        }
        String::from_utf8(line).map_err(|_| BadRecord::NotText)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<Result<String, BadRecord>> {
        let mut lines = LineSplitter::default();
        let mut found = Vec::new();
        for piece in pieces {
            lines.feed(Bytes::copy_from_slice(piece));
            while let Some(line) = lines.next() {
                found.push(line);
            }
        }
        found.extend(lines.rest());
        found
    }

    fn text(line: &str) -> String {
        line.to_owned()
    }

    #[test]
    fn lines_are_the_same_however_the_bytes_come() {
        let whole = "one\n\ntw\u{f6}\nthree".as_bytes();
        let expected = ["one", "", "tw\u{f6}", "three"].map(|line| Ok(line.to_owned()));
        for size in 1..=whole.len() {
            let pieces: Vec<_> = whole.chunks(size).collect();
            assert_eq!(lines(&pieces), expected, "pieces of {size}");
        }
        assert_eq!(lines(&[b"one\n"]), [Ok(text("one"))]);
        assert_eq!(lines(&[]), []);
    }

    #[test]
    fn a_line_that_is_no_text_or_too_long_does_not_hide_the_next() {
        assert_eq!(lines(&[b"\xff\xfe\nnext\n"]), [Err(BadRecord::NotText), Ok(text("next"))]);
        let long = vec![b'x'; MAX_LINE_BYTES / 2 + 1];
        assert_eq!(lines(&[&long, &long, b"\nnext"]), [Err(BadRecord::TooLong), Ok(text("next"))]);
        assert_eq!(lines(&[&long, &long]), [Err(BadRecord::TooLong)]);
        let longest = vec![b'x'; MAX_LINE_BYTES];
        assert_eq!(lines(&[&longest, b"\n"]).len(), 1);
        assert!(lines(&[&longest, b"\n"])[0].is_ok());
    }
}
