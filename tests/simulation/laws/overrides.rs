//! The laws about the overrides of operators.

use redrive_core::policy::OverrideAction;
use redrive_laws::letters::LifeEvent;

use super::counts::{HEARD, LawResult, OBEYED_UNREAD, is_left_alone, overridden};
use crate::lives::Life;

/// P10: a hold counts 15 s after it was written, even in a run that has begun, as long as the overrides can be
/// read.
pub fn no_attempt_begins_under_a_hold(life: &Life<'_>) -> LawResult {
    let world = life.world;
    for (from, to) in overridden(life, OverrideAction::Hold, 0) {
        let heard = from + HEARD + 2 * world.skew();
        for attempt in life.attempts() {
            let by = &life.story.runs[attempt.run].caller;
            let unread = life.ledger.faulty_calls().iter().any(|it| {
                let is_reading = it.caller == *by && it.operation == "GetObject";
                is_reading && (from - HEARD..=attempt.at).contains(&it.at)
            });
            if (heard..to - 2 * world.skew()).contains(&attempt.at) && !unread {
                return life
                    .broken(&format!("was attempted at {}, under a hold", attempt.at - life.story.start));
            }
        }
    }
    Ok(())
}

/// P10: a letter is archived as given-up only if the override was in the document when its run began, or later.
pub fn only_an_override_archives_as_overridden(life: &Life<'_>) -> LawResult {
    let archived = life.archived().into_iter().filter(|(_, reason)| *reason == "given-up");
    for (fact, _) in archived {
        let runs = life.ledger.runs().iter().filter(|run| (run.from..run.to).contains(&fact.order));
        let began = runs.map(|run| run.began).min().unwrap_or(fact.at);
        let unread = life.ledger.faulty_calls().iter().any(|it| it.operation == "GetObject");
        let patience = if unread { OBEYED_UNREAD } else { 0 };
        let skew = life.world.skew();
        let stood = overridden(life, OverrideAction::GiveUp, OBEYED_UNREAD)
            .into_iter()
            .any(|(from, to)| from <= fact.at + skew && began - HEARD - patience - skew <= to);
        if !stood {
            return life.broken("archived as given-up, and nobody overridden it");
        }
    }
    Ok(())
}

/// P2, P10: if only overrides to retry disturb a letter, it gets at least all its retries.
pub fn overrides_to_retry_take_no_retry_away(life: &Life<'_>) -> LawResult {
    let world = life.world;
    let is_calm = life.is_calm() && life.count(|what| *what == LifeEvent::Duplicated) == 0;
    let left_alone = is_left_alone(life);
    let by_itself = world.skew() == 0 && world.rate.is_none() && world.requeue.is_none() && !left_alone;
    if !world.operator.only_retries || !is_calm || !by_itself || !life.is_first_of_group() {
        return Ok(());
    }
    let (attempts, retries) = (life.attempts().len(), usize::try_from(world.schedule.retries).unwrap());
    if life.archived().iter().any(|(_, reason)| *reason == "exhausted") && attempts < retries {
        return life.broken(&format!("{attempts} attempts of {retries}, with an override to retry"));
    }
    Ok(())
}
