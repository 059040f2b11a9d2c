//! Texts that others wrote, as a terminal and a shell take them.
//!
//! An id in a forged document, a prefix or an answer of AWS may stand in a command that an operator copies. Every command
//! that is printed is made here, so that a shell reads exactly the words that were meant.

/// Returns a text without what a terminal would obey: a letter's id or a topic in a forged letter must not move the
/// operator's cursor. Each such character becomes U+FFFD.
#[must_use]
pub fn harmless(text: &str) -> String {
    text.chars().map(|c| if is_obeyed(c) { '\u{fffd}' } else { c }).collect()
}

/// Reports whether a terminal obeys a character, or does not show it.
#[must_use]
pub fn is_obeyed(c: char) -> bool {
    c.is_control() || is_format(c)
}

/// Returns a text as one word of a command line, with quotes only if it needs them. The word is the [`harmless`] text: a
/// line break in it must not look like the next command.
#[must_use]
pub fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    // zsh takes `=ls` for the path of a program.
    if !text.is_empty() && !text.starts_with('=') && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", harmless(text).replace('\'', r"'\''"))
}

/// Returns these words as a command line that can be pasted into a shell: sh, bash, dash or zsh.
#[must_use]
pub fn command_line<W: AsRef<str>>(words: impl IntoIterator<Item = W>) -> String {
    words.into_iter().map(|text| word(text.as_ref())).collect::<Vec<_>>().join(" ")
}

/// Characters that turn the direction of what follows, or that cannot be seen: `Default_Ignorable_Code_Point` and `Bidi_Control`,
/// <https://www.unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt>, further the ends of lines and paragraphs and what
/// brackets annotations.
fn is_format(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use proptest::collection::vec;
    use proptest::test_runner::{Config, TestRunner};
    use redrive_testing::shell::{ShellToken, hostile, tokens};

    use super::*;

    #[test]
    fn what_strangers_wrote_cannot_command_the_terminal() {
        assert_eq!(harmless("a\x1b[2Jb\u{202e}c\nd"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d");
        for hidden in [
            '\u{ad}',
            '\u{61c}',
            '\u{1160}',
            '\u{180e}',
            '\u{200b}',
            '\u{2029}',
            '\u{2066}',
            '\u{206a}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{ffa0}',
            '\u{fff9}',
            '\u{e0041}',
        ] {
            assert_eq!(harmless(&format!("a{hidden}b")), "a\u{fffd}b", "{hidden:?}");
        }
        assert_eq!(harmless("ä € 😀 한 ✓ \u{fffd}"), "ä € 😀 한 ✓ \u{fffd}");
    }

    #[test]
    fn quotes_stand_where_a_shell_needs_them() {
        for (text, expected) in [
            ("s3://bucket/control", "s3://bucket/control"),
            ("", "''"),
            ("x; curl", "'x; curl'"),
            ("it's", r"'it'\''s'"),
            ("=ls", "'=ls'"),
            ("--match={}", "'--match={}'"),
        ] {
            assert_eq!(word(text), expected);
        }
        assert_eq!(command_line(["redrivectl", "replay", "a b"]), "redrivectl replay 'a b'");
    }

    #[test]
    fn a_shell_reads_the_words_that_were_meant() {
        let lines = RefCell::new(Vec::new());
        let law = |words: Vec<String>| {
            let line = command_line(&words);
            let meant: Vec<_> = words.iter().map(|word| harmless(word)).collect();
            let read: Vec<_> = meant.iter().cloned().map(ShellToken::Word).collect();
            assert_eq!(tokens(&line), Ok(read), "{line}");
            lines.borrow_mut().push((line, meant));
            Ok(())
        };
        let mut runner = TestRunner::new(Config { cases: 512, ..Config::default() });
        runner.run(&vec(hostile(), 1..6), law).unwrap();
        let lines = lines.into_inner();
        // The shells of this machine say the same.
        for shell in ["sh", "bash", "dash", "zsh"] {
            let Some(read) = by(shell, &lines) else {
                assert_ne!(shell, "sh", "every system has one");
                continue;
            };
            let meant: Vec<_> = lines.iter().flat_map(|(_, meant)| meant.clone()).collect();
            assert_eq!(read, meant, "{shell}");
        }
    }

    /// Returns the words that a shell reads in these lines; `None` if the machine has no such shell.
    fn by(shell: &str, lines: &[(String, Vec<String>)]) -> Option<Vec<String>> {
        let child = Command::new(shell).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.ok()?;
        let script: Vec<_> = lines.iter().map(|(line, _)| format!("printf '%s\\0' {line}\n")).collect();
        let script = script.concat();
        let mut stdin = child.stdin.take().unwrap();
        let writes = std::thread::spawn(move || stdin.write_all(script.as_bytes()).unwrap());
        let output = child.wait_with_output().unwrap();
        writes.join().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let words = text.strip_suffix('\0').unwrap_or_default();
        Some(words.split('\0').map(str::to_owned).collect())
    }
}
