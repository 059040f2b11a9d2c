//! Previews: what an action would do, by its own command, before anybody confirms it.

use redrive_console::ActionVerb;

use crate::overrides::MatchCounts;
use crate::tables::{count, harmless, thousands};

/// A preview of an action.
#[derive(Debug, Clone)]
pub(super) struct ActionPreview {
    /// The letters that it touches, as far as anybody knows.
    pub(super) letters: u64,
    /// True if it touches at most so many.
    pub(super) is_bound: bool,
    /// True if nobody has checked whether each of them can go.
    pub(super) is_unchecked: bool,
    /// The preview, line by line.
    pub(super) rows: Vec<(&'static str, String)>,
    /// The overrides in force: their id, what they do, with which letters, and why.
    pub(super) overrides: Vec<[String; 4]>,
    /// The difference that was edited.
    pub(super) difference: Option<String>,
    /// What keeps the letters from their attempt when they are sent, in words.
    pub(super) held: Option<String>,
    /// Further messages of the commands.
    pub(super) notes: String,
    /// The other facts that the confirmation is about.
    pub(super) facts: Vec<(&'static str, String)>,
}

impl ActionPreview {
    /// Returns the number of letters in words, and whether they were checked.
    pub(super) fn size(&self) -> String {
        let unchecked = if self.is_unchecked { ", not checked" } else { "" };
        format!("{}{unchecked}", self.letters_in_words())
    }

    /// Returns the number of letters in words.
    pub(super) fn letters_in_words(&self) -> String {
        format!("{}{}", most(!self.is_bound), count(self.letters, "letter"))
    }

    pub(super) fn is_unchecked(&self) -> bool {
        self.is_unchecked
    }

    /// Says what has changed since another preview of the same action was shown; empty where nothing has.
    ///
    /// Fewer letters are no change, and neither are more by less than a tenth: letters come and go all the time, and anyone who
    /// has confirmed an action on 1,000 letters means it for 1,050 as well. Whatever else was shown must be the same: the
    /// overrides in force, how the replay stands, whether all could be read.
    pub(super) fn changed_since(&self, shown: &Self) -> Vec<String> {
        let mut changed = Vec::new();
        let more = self.letters.saturating_sub(shown.letters);
        if more > 0 && more.saturating_mul(10) >= shown.letters {
            changed.push(format!("It affects {} now; it was {}.", self.size(), thousands(shown.letters)));
        }
        for ((what, now), (_, then)) in self.facts.iter().zip(&shown.facts) {
            if now != then {
                changed.push(format!("{what}: {now}; it was: {then}."));
            }
        }
        changed
    }
}

/// Returns the words before a number of letters that is only a bound.
pub(super) fn most(is_exact: bool) -> &'static str {
    if is_exact { "" } else { "at most " }
}

impl ActionPreview {
    pub(super) fn new(touched: MatchCounts, rows: Vec<(&'static str, String)>, notes: String) -> Self {
        let unread = ("Parts of the list that could not be read", thousands(touched.unread));
        let facts = vec![unread, noted(&notes)];
        // A letter that was delivered since is on the list until it was due.
        Self {
            letters: touched.woken(),
            is_bound: true,
            is_unchecked: false,
            rows,
            overrides: Vec::new(),
            difference: None,
            held: None,
            notes,
            facts,
        }
    }

    /// Reports whether it would do nothing: a replay without letters sends none, but an override is also for letters that
    /// are not on the list.
    pub(super) fn is_idle(&self, doing: ActionVerb) -> bool {
        self.letters == 0 && matches!(doing, ActionVerb::Replay | ActionVerb::Edit | ActionVerb::Resume)
    }
}

/// Returns what the notes say, apart from numbers, which go on all the time.
pub(super) fn noted(notes: &str) -> (&'static str, String) {
    let lines = notes.lines().map(|line| harmless(&line.replace(|c: char| c.is_ascii_digit(), "")));
    ("Notes, apart from their numbers", listed(lines))
}

pub(super) fn listed(texts: impl Iterator<Item = String>) -> String {
    let texts: Vec<_> = texts.collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(letters: u64, overrides: &str) -> ActionPreview {
        let facts = vec![("Overrides in force", overrides.to_owned())];
        ActionPreview {
            letters,
            is_bound: false,
            is_unchecked: false,
            rows: Vec::new(),
            overrides: Vec::new(),
            difference: None,
            held: None,
            notes: String::new(),
            facts,
        }
    }

    #[test]
    fn fewer_letters_or_a_few_more_are_no_change() {
        let shown = seen(100, "none");
        for same in [0, 99, 100, 109] {
            assert!(seen(same, "none").changed_since(&shown).is_empty(), "{same}");
        }
        assert_eq!(seen(110, "none").changed_since(&shown), ["It affects 110 letters now; it was 100."]);
        assert_eq!(seen(1, "none").changed_since(&seen(0, "none")), ["It affects 1 letter now; it was 0."]);
        let changed = seen(100, "o1").changed_since(&shown);
        assert_eq!(changed, ["Overrides in force: o1; it was: none."]);
    }

    #[test]
    fn another_note_is_a_change_and_another_number_in_it_is_none() {
        let noting = |notes: &str| ActionPreview::new(MatchCounts::default(), Vec::new(), notes.to_owned());
        let shown = noting("redrivectl: replay r of the same letters is unfinished: 3 sent\n");
        let same = noting("redrivectl: replay r of the same letters is unfinished: 14 sent\n");
        assert!(same.changed_since(&shown).is_empty());
        for other in [String::new(), format!("{}redrivectl: the list is old\n", shown.notes)] {
            assert_eq!(noting(&other).changed_since(&shown).len(), 1, "{other}");
        }
    }
}
