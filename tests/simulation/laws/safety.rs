//! The laws about where letters end, and their excuses.

use redrive_laws::letters::{FaultSubject, FunctionRun, Ledger, LifeEvent, RunEnd, TimedFact};
use redrive_sim::{AwsService, SimMillis};

use super::counts::LawResult;
use crate::live::SeededStory;
use crate::lives::Life;
use crate::world::{ARCHIVE, SECOND, SeededFault, SeededSubscriberState, SeededWorld};

/// P5: a letter is sent only if SNS confirms its subscription.
pub fn nobody_gets_what_he_did_not_ask_for(life: &Life<'_>) -> LawResult {
    let confirmed = life.world.subscribers[life.subscriber].state == SeededSubscriberState::Confirmed;
    if !confirmed && life.count(|what| what.is_attempt() || what.is_delivery()) > 0 {
        return life.broken("was sent to a subscription that does not confirm it");
    }
    Ok(())
}

/// P1, P4: Reports whether a letter may be lost: the last margin of its queue was disturbed.
pub fn may_be_lost(life: &Life<'_>) -> bool {
    let world = life.world;
    // An archive in SQS refuses its content too, and nobody else takes it.
    if life.is_refused_everywhere() {
        return true;
    }
    // One that never came to the queue is lost.
    let Some((last, ..)) = life.carried().pop() else { return false };
    let end = last.at + world.retention();
    // An archive that works again gets a letter within half of the time that is left, and a batch may take
    // long.
    let run_time = SimMillis::try_from(world.mapping.timeout + world.mapping.window).unwrap() * SECOND;
    let enough = world.margin() / 4;
    let back = world.archive_weather.iter().all(|outage| {
        let (from, to) = (life.story.start + outage.from, life.story.start + outage.to);
        to + world.margin() / 2 <= end || from >= end
    });
    let hangs = world.archive_weather.iter().any(|outage| outage.how == SeededFault::Hangs)
        || world
            .subscribers
            .iter()
            .flat_map(|one| &one.weather)
            .any(|outage| outage.how == SeededFault::Hangs)
        || world.trouble.lookups_hang > 0;
    let in_time = if hangs {
        2 * run_time
    } else {
        SimMillis::try_from(world.mapping.window).unwrap() * SECOND + 6 * SECOND
    };
    let since =
        end - world.margin() - SimMillis::try_from(world.queue.visibility).unwrap() * SECOND - run_time;
    let off = world.mapping.off.iter().any(|(_, to)| life.story.start + to > since);
    let mut all = life.facts.iter().chain(life.ledger.everywhere());
    let disturbed = all.any(|fact| match fact.what {
        LifeEvent::Disturbed(FaultSubject::Read) => false,
        // Effects of the archive's weather are judged above.
        LifeEvent::Disturbed(FaultSubject::Archive) => fact.at >= since && world.trouble.archive_fails > 0,
        // A copy that another run gets makes the first one's handle stale.
        LifeEvent::Duplicated | LifeEvent::Woken | LifeEvent::Throttled | LifeEvent::Disturbed(_) => {
            fact.at >= since
        }
        // A run that dies near the end has hidden its letters only for its own time.
        LifeEvent::Handed => {
            let died = fact.run.map(|run| &life.ledger.runs()[run]);
            let died = died.filter(|run| run.ending != RunEnd::Heard && run.ended >= since);
            died.is_some_and(|run| !comes_back(life, run, end - 2 * run_time))
        }
        _ => false,
    });
    disturbed || off || !back || in_time > enough
}

/// Reports whether a run that died had hidden the letter until a moment before this one.
fn comes_back(life: &Life<'_>, died: &FunctionRun, before: SimMillis) -> bool {
    life.facts.iter().filter(|fact| (died.from..died.to).contains(&fact.order)).any(|fact| {
        matches!(fact.what, LifeEvent::Hidden { seconds, done: true, .. } if fact.at + seconds * SECOND < before)
    })
}

/// P1: a run that sees a letter within the last margin removes it, whatever keeps the letter from its
/// attempt.
pub fn what_is_seen_near_its_end_leaves(life: &Life<'_>) -> LawResult {
    let world = life.world;
    for (sent, message, _) in life.carried() {
        let near = sent.at + world.retention() - world.margin() + SECOND + world.skew();
        for fact in life.about(message).filter(|fact| fact.what == LifeEvent::Kept) {
            let Some(run) = fact.run.map(|run| &life.ledger.runs()[run]).filter(|run| run.began >= near)
            else {
                continue;
            };
            let archive = life.ledger.faulty_calls().iter().any(|it| {
                let by_run = it.caller == run.caller && (run.began..=run.ended).contains(&it.at);
                by_run && (it.service == AwsService::S3 || it.target == world.name(ARCHIVE))
            });
            if !archive {
                return life.broken(&format!("was kept by the run at {}", run.began - life.story.start));
            }
        }
    }
    Ok(())
}

/// P8: a run counts a letter as stuck, for which somebody is paged, only if one of its calls had a fault, or the
/// queue dropped the letter meanwhile.
pub fn nobody_is_paged_for_nothing(world: &SeededWorld, story: &SeededStory, ledger: &Ledger) -> LawResult {
    for (number, run) in story.runs.iter().enumerate().filter(|(_, run)| run.stuck > 0 && !world.hangs()) {
        let is_of_run = |at: SimMillis| (run.began..=run.ended).contains(&at);
        let faulty = ledger.faulty_calls().iter().any(|it| it.caller == run.caller && is_of_run(it.at));
        let of = &ledger.runs()[number];
        let is_dropped =
            |fact: &TimedFact| fact.what == LifeEvent::Expired && (of.from..of.to).contains(&fact.order);
        let dropped = ledger.letters().any(|letter| letter.facts.iter().any(is_dropped));
        if !faulty && !dropped {
            let began = run.began - story.start;
            return Err(format!(
                "{} letters are stuck after the run at {began}, and nothing failed\n",
                run.stuck
            ));
        }
    }
    Ok(())
}
