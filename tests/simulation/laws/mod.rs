//! The laws: the facts that hold for every letter in every world. The crate of laws has those that hold in real time
//! too; here are their excuses, and the laws that only virtual time can judge.

mod attempts;
mod counts;
mod overrides;
mod safety;

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::policy::OverrideAction;
use redrive_laws::letters::{Circumstances, JudgedLetter, LifeEvent, MessageNumber};

use self::attempts::{
    a_letter_comes_again_when_its_server_asked_for_it, bad_letters_cost_their_neighbours_nothing_but_time,
    excused, no_first_attempt_comes_early, no_letter_is_given_up_early,
    undisturbed_letters_get_each_retry_once,
};
use self::counts::{
    LawResult, causes, hops, is_kept_from_attempts, on_override, overridden, owed, unseen_attempts,
};
use self::overrides::{
    no_attempt_begins_under_a_hold, only_an_override_archives_as_overridden,
    overrides_to_retry_take_no_retry_away,
};
use self::safety::{
    may_be_lost, nobody_gets_what_he_did_not_ask_for, nobody_is_paged_for_nothing,
    what_is_seen_near_its_end_leaves,
};
use crate::live::SeededStory;
use crate::lives::{Life, read};
use crate::world::{REQUEUE, SeededSource, SeededWorld};

/// The number of letters by their end.
pub type Tally = BTreeMap<String, usize>;

/// The laws of virtual time, in the order in which they are judged.
const LAWS: [fn(&Life<'_>) -> LawResult; 10] = [
    nobody_gets_what_he_did_not_ask_for,
    what_is_seen_near_its_end_leaves,
    no_first_attempt_comes_early,
    no_letter_is_given_up_early,
    undisturbed_letters_get_each_retry_once,
    a_letter_comes_again_when_its_server_asked_for_it,
    bad_letters_cost_their_neighbours_nothing_but_time,
    no_attempt_begins_under_a_hold,
    only_an_override_archives_as_overridden,
    overrides_to_retry_take_no_retry_away,
];

/// What the story of a world excuses.
struct StoryExcuses<'s> {
    world: &'s SeededWorld,
    story: &'s SeededStory,
}

impl StoryExcuses<'_> {
    fn of<T>(&self, letter: &JudgedLetter<'_>, excuse: impl FnOnce(&Life<'_>) -> T) -> T {
        excuse(&Life::new(self.world, self.story, *letter))
    }
}

impl Circumstances for StoryExcuses<'_> {
    fn may_be_lost(&self, letter: &JudgedLetter<'_>) -> bool {
        self.of(letter, may_be_lost)
    }

    fn have_copies(&self) -> bool {
        true
    }

    fn have_copied(&self, letter: &JudgedLetter<'_>) -> bool {
        self.of(letter, causes) > 0
    }

    fn excused_attempts(&self, letter: &JudgedLetter<'_>, _: Option<MessageNumber>) -> usize {
        self.of(letter, excused)
    }

    fn schedules(&self, letter: &JudgedLetter<'_>) -> usize {
        if self.world.forks() { 1 + self.of(letter, causes) } else { 1 }
    }

    fn keep_from_attempts(&self, letter: &JudgedLetter<'_>) -> bool {
        self.of(letter, is_kept_from_attempts)
    }

    fn unseen_attempts(&self, letter: &JudgedLetter<'_>) -> usize {
        self.of(letter, unseen_attempts)
    }

    /// A law of virtual time judges each reason.
    fn allow(&self, _: &JudgedLetter<'_>, _: &redrive_laws::letters::TimedFact, _: &str) -> Option<bool> {
        Some(true)
    }
}

/// Judges a story, and counts the ends of its letters.
pub fn judge(world: &SeededWorld, story: &SeededStory) -> Result<Tally, String> {
    let ledger = read(world, story);
    let given = StoryExcuses { world, story };
    if let Some(broken) = redrive_laws::letters::judge(&ledger, &BTreeSet::new(), &given).violations.first() {
        return Err(broken.to_string());
    }
    let lives: Vec<_> = ledger.letters().map(|letter| Life::new(world, story, letter)).collect();
    let mut tally = Tally::new();
    for life in &lives {
        LAWS.iter().try_for_each(|law| law(life))?;
        let end = match life.end() {
            Some(end) if end.what.is_delivery() => "delivered",
            Some(end) => life.reason(end).unwrap_or("unknown"),
            _ if life.is_refused_everywhere() => "refused by the archive too",
            _ => "lost in a margin that was disturbed",
        };
        *tally.entry(end.to_owned()).or_default() += 1;
        let is_calm = life.is_calm();
        let (hold, retry) = (OverrideAction::Hold, OverrideAction::Retry);
        let held = overridden(life, hold, 0).into_iter().any(|(from, to)| {
            let keeps = |what: &LifeEvent| match what {
                LifeEvent::Received { .. } => true,
                LifeEvent::Hidden { seconds, done, .. } => *done && *seconds > 30,
                _ => false,
            };
            life.facts.iter().any(|fact| (from..to).contains(&fact.at) && keeps(&fact.what))
        });
        let marks = [
            ("letters", true),
            ("undisturbed", is_calm),
            ("received without an attempt", hops(life) > 0),
            (
                "late, and owed several attempts",
                end == "exhausted" && !world.mapping.off.is_empty() && owed(life, usize::MAX) > 1,
            ),
            ("held", held),
            ("retried on an override", !on_override(life, retry).is_empty()),
            ("found by a search", end == "delivered" && world.discovers),
            ("back in its queue", end == "delivered" && world.source == SeededSource::Queue),
            ("invoked again", end == "delivered" && world.source == SeededSource::Function),
            ("invoked by its record", end == "delivered" && world.source == SeededSource::Destination),
            ("refused for its content", end == "permanent" && life.is_bad()),
            ("delivered beside one that is refused", end == "delivered" && !world.bad.is_empty()),
            (
                "archived beside one that is refused",
                !world.bad.is_empty() && !life.is_bad() && !life.archived().is_empty(),
            ),
            (
                "moved beside one that is refused",
                !world.bad.is_empty()
                    && life.carried().iter().any(|(_, _, queue)| *queue == world.name(REQUEUE)),
            ),
            ("from a FIFO topic to a standard queue", end == "delivered" && world.fifo_topic),
            ("gone before it was hidden", life.is_hidden_in_vain()),
            ("woken in the middle of an attempt", life.is_woken_in_a_run()),
        ];
        for (mark, _) in marks.iter().filter(|(_, is)| *is) {
            *tally.entry((*mark).to_owned()).or_default() += 1;
        }
    }
    nobody_is_paged_for_nothing(world, story, &ledger)?;
    Ok(tally)
}
