//! The operator `wildcard`.

/// A text with `*`, each of which stands for any characters, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wildcard {
    /// The text before the first `*`, or the whole text if there is none.
    first: String,
    /// The texts after each `*`.
    rest: Vec<String>,
}

impl Wildcard {
    /// Reads a text in which `\*` and `\\` stand for the characters themselves. An error says what is wrong with it.
    pub(super) fn of(text: &str) -> Result<Self, &'static str> {
        let mut parts = vec![String::new()];
        let mut after_star = false;
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            let is_star = character == '*';
            if is_star && after_star {
                return Err("must not have two * in a row");
            }
            after_star = is_star;
            if is_star {
                parts.push(String::new());
                continue;
            }
            let literal = match character {
                '\\' => match characters.next() {
                    Some(escaped @ ('*' | '\\')) => escaped,
                    _ => return Err("must have * or \\ after a \\"),
                },
                other => other,
            };
            if let Some(part) = parts.last_mut() {
                part.push(literal);
            }
        }
        let first = parts.remove(0);
        Ok(Self { first, rest: parts })
    }

    /// Returns what a text that it takes begins with.
    pub(super) fn beginning(&self) -> &str {
        &self.first
    }

    /// Returns the text if it has no `*`.
    pub(super) fn literal(&self) -> Option<&str> {
        self.rest.is_empty().then_some(&self.first)
    }

    /// Reports whether it takes a text. No byte is looked for twice: the earliest place of a part leaves most for the
    /// parts that follow.
    pub(super) fn takes(&self, text: &str) -> bool {
        let Some((last, middle)) = self.rest.split_last() else { return text == self.first };
        let within = text.strip_prefix(self.first.as_str()).and_then(|rest| rest.strip_suffix(last.as_str()));
        let after = |rest: &str, part: &String| {
            let found = rest.find(part.as_str())?;
            rest.get(found + part.len()..).map(str::len)
        };
        let Some(within) = within else { return false };
        let left = middle.iter().try_fold(within, |rest, part| {
            let left = after(rest, part)?;
            rest.get(rest.len() - left..)
        });
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use redrive_testing::holds;

    use super::*;

    /// The meaning, letter by letter.
    fn naive(pattern: &[char], text: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['*', rest @ ..] => (0..=text.len()).any(|skipped| naive(rest, &text[skipped..])),
            ['\\', one, rest @ ..] | [one, rest @ ..] => text.first() == Some(one) && naive(rest, &text[1..]),
        }
    }

    #[test]
    fn it_takes_what_its_stars_stand_for() {
        for (pattern, yes, no) in [
            ("", &[""][..], &["a"][..]),
            ("*", &["", "a", "ab"], &[]),
            ("a*", &["a", "ab"], &["", "ba"]),
            ("*b*", &["b", "abc", "bb"], &["", "a"]),
            ("ab*ba", &["abba", "abxba"], &["aba", "ab"]),
            ("a\\*b", &["a*b"], &["ab", "axb", "a\\*b"]),
            ("a\\\\*", &["a\\", "a\\b"], &["a", "a*"]),
            ("\\**", &["*", "*a"], &["", "a"]),
            ("é*ü", &["éü", "éaü"], &["eü"]),
        ] {
            let wildcard = Wildcard::of(pattern).unwrap();
            assert!(yes.iter().all(|text| wildcard.takes(text)), "{pattern} {yes:?}");
            assert!(!no.iter().any(|text| wildcard.takes(text)), "{pattern} {no:?}");
        }
        for bad in ["**", "a**b", "\\a", "\\", "a\\"] {
            assert!(Wildcard::of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn it_means_what_is_meant_letter_by_letter() {
        let part = || prop::sample::select(vec!["a", "b", "ab", "*", "\\*", "\\\\"]);
        let texts = prop::collection::vec(prop::sample::select(vec!['a', 'b', '*', '\\']), 0..9);
        holds(6_000, &(prop::collection::vec(part(), 0..7), texts), |(parts, text)| {
            if let Ok(wildcard) = Wildcard::of(&parts.concat()) {
                let pattern: Vec<_> = parts.concat().chars().collect();
                let joined: String = text.iter().collect();
                prop_assert_eq!(wildcard.takes(&joined), naive(&pattern, &text), "{:?} {}", parts, joined);
            }
            Ok(())
        });
    }
}
