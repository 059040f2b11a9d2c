//! The laws: the facts that hold for every letter in every world.

mod attempts;
mod counts;
mod overrides;
mod safety;

use std::collections::BTreeMap;

use sns_redrive::policy::OverrideAction;

use self::attempts::{
    a_letter_comes_again_when_its_server_asked_for_it, bad_letters_cost_their_neighbours_nothing_but_time,
    no_attempt_comes_early_or_is_one_too_many, no_letter_is_given_up_early,
    undisturbed_letters_get_each_retry_once,
};
use self::counts::{Judged, hops, on_override, overridden, owed};
use self::overrides::{
    no_attempt_begins_under_a_hold, only_an_override_archives_as_overridden,
    overrides_to_retry_take_no_retry_away,
};
use self::safety::{
    groups_keep_their_order, no_letter_ends_twice_without_a_cause, nobody_gets_what_he_did_not_ask_for,
    nobody_is_paged_for_nothing, nothing_is_lost, nothing_is_removed_before_it_is_safe,
    what_is_seen_near_its_end_leaves,
};
use crate::live::Story;
use crate::lives::{Life, What, lives};
use crate::world::{REQUEUE, Source, World};

/// The number of letters by their end.
pub type Tally = BTreeMap<String, usize>;

/// The laws, in the order in which they are judged.
const LAWS: [fn(&Life<'_>) -> Judged; 13] = [
    nobody_gets_what_he_did_not_ask_for,
    nothing_is_removed_before_it_is_safe,
    nothing_is_lost,
    what_is_seen_near_its_end_leaves,
    no_letter_ends_twice_without_a_cause,
    no_attempt_comes_early_or_is_one_too_many,
    no_letter_is_given_up_early,
    undisturbed_letters_get_each_retry_once,
    a_letter_comes_again_when_its_server_asked_for_it,
    bad_letters_cost_their_neighbours_nothing_but_time,
    no_attempt_begins_under_a_hold,
    only_an_override_archives_as_overridden,
    overrides_to_retry_take_no_retry_away,
];

/// Judges a story, and counts the ends of its letters.
pub fn judge(world: &World, story: &Story) -> Result<Tally, String> {
    let lives = lives(world, story);
    let mut tally = Tally::new();
    for life in &lives {
        LAWS.iter().try_for_each(|law| law(life))?;
        let end = match life.end().map(|end| &end.what) {
            Some(What::Delivered) => "delivered",
            Some(What::Archived { reason }) => reason,
            _ if life.is_refused_everywhere() => "refused by the archive too",
            _ => "lost in a margin that was disturbed",
        };
        *tally.entry(end.to_owned()).or_default() += 1;
        let is_calm = life.count(|what| matches!(what, What::Disturbed { .. })) == 0;
        let (hold, retry) = (OverrideAction::Hold, OverrideAction::Retry);
        let held = overridden(life, hold, 0).into_iter().any(|(from, to)| {
            let keeps = |what: &What| match what {
                What::Received { .. } => true,
                What::Hidden { seconds, .. } => *seconds > 30,
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
            ("back in its queue", end == "delivered" && world.source == Source::Queue),
            ("invoked again", end == "delivered" && world.source == Source::Function),
            ("invoked by its record", end == "delivered" && world.source == Source::Destination),
            ("refused for its content", end == "permanent" && life.is_bad()),
            ("delivered beside one that is refused", end == "delivered" && !world.bad.is_empty()),
            (
                "archived beside one that is refused",
                !world.bad.is_empty() && !life.is_bad() && !life.archived().is_empty(),
            ),
            (
                "moved beside one that is refused",
                !world.bad.is_empty() && life.messages().iter().any(|(_, _, queue)| *queue == REQUEUE),
            ),
            ("from a FIFO topic to a standard queue", end == "delivered" && world.fifo_topic),
            ("gone before it was hidden", life.count(|what| matches!(what, What::HiddenInVain { .. })) > 0),
            ("woken in the middle of an attempt", life.is_woken_in_a_run()),
        ];
        for (mark, _) in marks.iter().filter(|(_, is)| *is) {
            *tally.entry((*mark).to_owned()).or_default() += 1;
        }
    }
    groups_keep_their_order(world, &lives)?;
    nobody_is_paged_for_nothing(world, story)?;
    Ok(tally)
}
