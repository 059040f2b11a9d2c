//! The ledger of a unit: one object with all that replays know of the unit's letters.
//!
//! It is written before letters are sent, which are then listed as `sending`, and once more afterwards. So
//! after a crash it shows which letters may have been sent. Each write has the condition that nobody else has
//! written since, so two workers never send letters of one unit at the same time. This module does no I/O.

use std::collections::{HashMap, HashSet};

use redrive_archive::LetterIdentity;
use serde::{Deserialize, Serialize};

use super::replay_state::ReplayCounts;
use super::version::VersionedDocument;

/// The stored knowledge about a unit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UnitLedger {
    version: u8,
    /// The worker that is at work on the unit, or died while it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) claim: Option<UnitClaim>,
    /// The work of each replay on the unit's letters.
    entries: Vec<ReplayEntry>,
}

/// The claim of a worker on a unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UnitClaim {
    /// The replay's id.
    pub(super) replay: String,
    /// A text that tells two workers of one replay apart.
    pub(super) worker: String,
    /// The number of the write. It makes the object differ with each write, so that the `ETag` shows who
    /// wrote last.
    pub(super) number: u64,
}

/// The work of one replay on the letters of a unit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReplayEntry {
    pub(super) replay: String,
    /// The letters that SQS has accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) sent: Vec<LetterIdentity>,
    /// The letters that SQS has refused. This replay does not send them again, but another may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) refused: Vec<LetterIdentity>,
    /// The letters that SQS may have accepted. This replay sends them again, others leave them alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) sending: Vec<LetterIdentity>,
    /// The letters that it has begun to send, by [`LetterIdentity::of_letter`]: a letter that comes back lies in another
    /// place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) ids: Vec<LetterIdentity>,
    /// The letters that are archived in this unit and in another unit of the hour, and were sent from there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) doubles: Vec<LetterIdentity>,
    /// The counts of the unit, if the replay has finished it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) done: Option<ReplayCounts>,
    /// The number of letters that may have been sent twice.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) repeated: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The knowledge about a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KnownLetter<'l> {
    /// SQS has accepted it, or has refused it from this replay.
    Done,
    /// This replay may have sent it.
    Again,
    /// Another replay, with this id, was cut off while it sent the letter.
    InDoubt(&'l str),
}

impl VersionedDocument for UnitLedger {
    const VERSION: u8 = 1;

    fn version(&self) -> u8 {
        self.version
    }
}

impl UnitLedger {
    /// Creates an empty ledger.
    pub(super) fn new() -> Self {
        Self { version: Self::VERSION, ..Self::default() }
    }

    /// Returns the work of a replay on this unit.
    pub(super) fn entry(&self, replay: &str) -> Option<&ReplayEntry> {
        self.entries.iter().find(|entry| entry.replay == replay)
    }

    /// Returns the entry of a replay for changes, and adds it if there is none.
    pub(super) fn entry_mut(&mut self, replay: &str) -> &mut ReplayEntry {
        let place = self.entries.iter().position(|entry| entry.replay == replay).unwrap_or_else(|| {
            self.entries.push(ReplayEntry { replay: replay.to_owned(), ..ReplayEntry::default() });
            self.entries.len() - 1
        });
        &mut self.entries[place]
    }

    /// Returns the ids of other replays that may have sent letters without knowing it.
    pub(super) fn in_doubt_of(&self, own: &str) -> impl Iterator<Item = &str> {
        let others = self.entries.iter().filter(move |entry| entry.replay != own);
        others.filter(|entry| !entry.sending.is_empty()).map(|entry| entry.replay.as_str())
    }

    /// Returns the knowledge about the unit's letters that counts for a replay. With `again` only the
    /// replay's own entry counts. Letters in doubt of a freed replay count as not sent.
    pub(super) fn known(
        &self,
        own: &str,
        again: bool,
        freed: &HashSet<String>,
    ) -> HashMap<LetterIdentity, KnownLetter<'_>> {
        let mut known = HashMap::new();
        for entry in &self.entries {
            let is_own = entry.replay == own;
            if again && !is_own {
                continue;
            }
            // A letter that one replay has sent is sent, even if it is in doubt for another.
            let doubt = if is_own { KnownLetter::Again } else { KnownLetter::InDoubt(&entry.replay) };
            if is_own || !freed.contains(&entry.replay) {
                for letter in &entry.sending {
                    known.entry(*letter).or_insert(doubt);
                }
            }
            let refused = entry.refused.iter().filter(|_| is_own);
            for letter in entry.sent.iter().chain(&entry.doubles).chain(refused) {
                known.insert(*letter, KnownLetter::Done);
            }
        }
        known
    }

    /// Returns the ids of replays, each with the letters that it has sent from this unit.
    pub(super) fn sent_by(&self) -> impl Iterator<Item = (&str, &[LetterIdentity])> {
        self.entries.iter().map(|entry| (entry.replay.as_str(), entry.sent.as_slice()))
    }

    /// Returns the letters that any replay, or only the replay `only`, has sent from this unit.
    pub(super) fn sent<'l>(&'l self, only: Option<&'l str>) -> impl Iterator<Item = &'l LetterIdentity> {
        let entries = self.entries.iter().filter(move |entry| only.is_none_or(|only| entry.replay == only));
        entries.flat_map(|entry| &entry.sent)
    }

    /// Claims the unit for a worker.
    pub(super) fn claim(&mut self, replay: &str, worker: &str) {
        let number = self.claim.as_ref().map_or(0, |claim| claim.number) + 1;
        self.claim = Some(UnitClaim { replay: replay.to_owned(), worker: worker.to_owned(), number });
    }
}

impl ReplayEntry {
    /// Records that these letters are being sent.
    pub(super) fn begin(&mut self, letters: Vec<LetterIdentity>) {
        let doubtful: HashSet<_> = self.sending.iter().copied().collect();
        self.repeated += letters.iter().filter(|letter| doubtful.contains(letter)).count() as u64;
        // Letters in doubt that are not sent now stay in doubt.
        let now: HashSet<_> = letters.iter().copied().collect();
        self.sending.retain(|letter| !now.contains(letter));
        self.sending.extend(letters);
    }

    /// Records the results of letters. Letters without a result stay in doubt; those in `not_sent` are
    /// removed from `sending`.
    pub(super) fn end(
        &mut self,
        sent: &[LetterIdentity],
        refused: &[LetterIdentity],
        not_sent: &[LetterIdentity],
    ) {
        let settled: HashSet<_> = sent.iter().chain(refused).chain(not_sent).collect();
        self.sending.retain(|letter| !settled.contains(letter));
        self.sent.extend(sent);
        self.refused.extend(refused);
    }

    /// Returns the counts of the unit so far, as far as they follow from this entry.
    pub(super) fn counts(&self) -> ReplayCounts {
        let (sent, refused) = (self.sent.len() as u64, self.refused.len() as u64);
        ReplayCounts {
            sent,
            refused,
            repeated: self.repeated,
            in_doubt: self.in_doubt(),
            ..ReplayCounts::default()
        }
    }

    /// Returns the number of letters that it may have sent.
    pub(super) fn in_doubt(&self) -> u64 {
        self.sending.len() as u64
    }

    /// Returns the number of letters that were sent or refused.
    pub(super) fn handled(&self) -> u64 {
        (self.sent.len() + self.refused.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> LetterIdentity {
        LetterIdentity::of("queue", name)
    }

    fn freed(replays: &[&str]) -> HashSet<String> {
        replays.iter().map(|&replay| replay.to_owned()).collect()
    }

    #[test]
    fn what_one_replay_sent_no_other_sends_unless_it_sends_again() {
        let mut ledger = UnitLedger::new();
        let entry = ledger.entry_mut("one");
        entry.begin(vec![id("a"), id("b"), id("c"), id("d")]);
        entry.end(&[id("a")], &[id("b")], &[id("d")]);
        let none = freed(&[]);
        let known = ledger.known("two", false, &none);
        assert_eq!(
            known,
            HashMap::from([(id("a"), KnownLetter::Done), (id("c"), KnownLetter::InDoubt("one"))])
        );
        assert_eq!(ledger.known("two", true, &none), HashMap::new());
        let own = [(id("a"), KnownLetter::Done), (id("b"), KnownLetter::Done), (id("c"), KnownLetter::Again)];
        assert_eq!(ledger.known("one", false, &none), HashMap::from(own));
        assert_eq!(ledger.known("one", true, &none), HashMap::from(own));
        assert_eq!(ledger.in_doubt_of("two").collect::<Vec<_>>(), ["one"]);
        // After the replay was freed, only the letter in doubt is sent.
        let known = ledger.known("two", false, &freed(&["one"]));
        assert_eq!(known, HashMap::from([(id("a"), KnownLetter::Done)]));
        assert_eq!(ledger.known("one", false, &freed(&["one"])), HashMap::from(own));
    }

    #[test]
    fn nothing_is_written_of_what_did_not_happen() {
        let mut ledger = UnitLedger::new();
        ledger.entry_mut("one").begin(vec![id("a")]);
        let json = serde_json::to_string(&ledger).unwrap();
        for absent in ["repeated", "doubles", "done"] {
            assert!(!json.contains(absent), "{json}");
        }
    }

    #[test]
    fn sent_by_one_outweighs_in_doubt_by_another_in_either_order() {
        for order in [["one", "two"], ["two", "one"]] {
            let mut ledger = UnitLedger::new();
            for replay in order {
                let entry = ledger.entry_mut(replay);
                entry.begin(vec![id("a")]);
                if replay == "one" {
                    entry.end(&[id("a")], &[], &[]);
                }
            }
            let known = ledger.known("three", false, &freed(&[]));
            assert_eq!(known, HashMap::from([(id("a"), KnownLetter::Done)]), "{order:?}");
        }
    }

    #[test]
    fn letters_that_are_sent_once_more_are_counted() {
        let mut entry = ReplayEntry::default();
        entry.begin(vec![id("a"), id("b")]);
        entry.begin(vec![id("b"), id("c")]);
        assert_eq!((entry.repeated, entry.sending.clone()), (1, vec![id("a"), id("b"), id("c")]));
        entry.end(&[id("b"), id("c")], &[], &[]);
        assert_eq!((entry.handled(), entry.sending), (2, vec![id("a")]));
    }

    #[test]
    fn it_reads_back_as_written_and_a_newer_one_is_refused() {
        let mut ledger = UnitLedger::new();
        ledger.claim("one", "worker");
        ledger.entry_mut("one").begin(vec![id("a")]);
        let text = serde_json::to_string(&ledger).unwrap();
        assert_eq!(super::super::version::read::<UnitLedger>(&text), Ok(ledger));
        let newer = text.replace("\"version\":1", "\"version\":2");
        let unusable = super::super::version::read::<UnitLedger>(&newer);
        assert_eq!(unusable, Err(super::super::version::UnusableDocument::Newer));
        let other = super::super::version::read::<UnitLedger>("{\"version\":2,\"other\":[]}");
        assert_eq!(other, Err(super::super::version::UnusableDocument::Newer), "whatever its form");
    }
}
