//! The laws about where letters end: none is lost, goes astray, ends twice or overtakes another of its group.

use std::collections::BTreeMap;

use redrive_sim::{Event, Millis};

use super::counts::{Judged, causes};
use crate::hook::is_to_archive;
use crate::live::Story;
use crate::lives::{Disturbed, Fact, Life, What};
use crate::world::{ARCHIVE, How, REQUEUE, SECOND, State, World};

/// P5, P7: a letter reaches only the endpoint of its own subscription, if SNS confirms it, with its message.
pub fn nobody_gets_what_he_did_not_ask_for(life: &Life<'_>) -> Judged {
    for fact in &life.facts {
        if let What::Astray { to } = &fact.what {
            return life.broken(&format!("went astray to {to}"));
        }
        // P7: all but our mark is carried unchanged.
        if let What::Altered { message } = &fact.what {
            return life.broken(&format!("arrived as {message}"));
        }
    }
    let confirmed = life.world.subscribers[life.subscriber].state == State::Confirmed;
    let sent = life.count(|what| matches!(what, What::Called { .. } | What::Delivered | What::Published));
    if !confirmed && sent > 0 {
        return life.broken("was sent to a subscription that does not confirm it");
    }
    Ok(())
}

/// P1: a message is deleted only after its letter is delivered, archived or moved.
pub fn nothing_is_removed_before_it_is_safe(life: &Life<'_>) -> Judged {
    for (sent, message, _) in life.messages() {
        let is_safe = |fact: &&Fact| match &fact.what {
            What::Delivered | What::Published | What::Archived { .. } => true,
            What::Sent { message: other, .. } => *other != message,
            _ => false,
        };
        let safe = life.facts.iter().filter(|fact| fact.index > sent.index).find(is_safe);
        let is_deletion =
            |fact: &&Fact| matches!(&fact.what, What::Deleted { message: it } if *it == message);
        let deleted = life.facts.iter().find(is_deletion);
        if deleted.is_some_and(|deleted| safe.is_none_or(|safe| safe.index > deleted.index)) {
            return life.broken("was deleted before it was safe");
        }
    }
    Ok(())
}

/// P1, P4: each letter is delivered or archived, unless the last margin of its queue was disturbed.
pub fn nothing_is_lost(life: &Life<'_>) -> Judged {
    if life.end().is_some() {
        return Ok(());
    }
    let world = life.world;
    // An archive in SQS refuses its content too, and nobody else takes it.
    if life.is_refused_everywhere() {
        return Ok(());
    }
    let Some((last, message, _)) = life.messages().pop() else {
        return life.broken("never came to the queue");
    };
    let end = last.at + world.retention();
    // An archive that works again gets a letter within half of the time that is left, and a batch may take
    // long.
    let run = Millis::try_from(world.mapping.timeout + world.mapping.window).unwrap() * SECOND;
    let enough = world.margin() / 4;
    let back = world.archive_weather.iter().all(|outage| {
        let (from, to) = (life.story.start + outage.from, life.story.start + outage.to);
        to + world.margin() / 2 <= end || from >= end
    });
    let hangs = world.archive_weather.iter().any(|outage| outage.how == How::Hangs)
        || world.subscribers.iter().flat_map(|one| &one.weather).any(|outage| outage.how == How::Hangs)
        || world.trouble.lookups_hang > 0;
    let in_time =
        if hangs { 2 * run } else { Millis::try_from(world.mapping.window).unwrap() * SECOND + 6 * SECOND };
    let since = end - world.margin() - Millis::try_from(world.queue.visibility).unwrap() * SECOND - run;
    let off = world.mapping.off.iter().any(|(_, to)| life.story.start + to > since);
    let disturbed = life.facts.iter().any(|fact| {
        let what = match fact.what {
            // A run that dies near the end has hidden its letters only for its own time.
            What::Disturbed { what: Disturbed::Died } if comes_back(life, fact, end - 2 * run) => {
                return false;
            }
            // A copy that another run gets makes the first one's handle stale.
            What::Duplicated { .. } | What::Woken { .. } => return fact.at >= since,
            What::Disturbed { what } => what,
            _ => return false,
        };
        // Effects of the archive's weather are judged above.
        let weather = what == Disturbed::Archive && world.trouble.archive_fails == 0;
        fact.at >= since && !weather && !matches!(what, Disturbed::Read)
    });
    let excused = disturbed || off || !back || in_time > enough;
    if excused { Ok(()) } else { life.broken(&format!("was lost as message {message}")) }
}

/// Reports whether a run that died had hidden the letter until a moment before this one.
fn comes_back(life: &Life<'_>, died: &Fact, before: Millis) -> bool {
    let run = life.story.runs.iter().find(|run| run.kept.is_none() && run.to == died.index);
    run.is_some_and(|run| {
        life.facts.iter().filter(|fact| (run.from..run.to).contains(&fact.index)).any(
            |fact| matches!(fact.what, What::Hidden { seconds, .. } if fact.at + seconds * SECOND < before),
        )
    })
}

/// P1: a run that sees a letter within the last margin removes it, whatever keeps the letter from its
/// attempt.
pub fn what_is_seen_near_its_end_leaves(life: &Life<'_>) -> Judged {
    let world = life.world;
    for (sent, message, _) in life.messages() {
        let near = sent.at + world.retention() - world.margin() + SECOND + world.skew();
        for run in life.runs_of(&message).filter(|run| run.began >= near) {
            let Some(kept) = &run.kept else { continue };
            let archive = life.story.disturbances.iter().any(|it| {
                let by_run = it.call.caller == run.caller && (run.began..=run.ended).contains(&it.at);
                by_run && (is_to_archive(world, &it.call) || it.call.target == world.name(ARCHIVE))
            });
            if kept.iter().any(|id| **id == *message) && !archive {
                return life.broken(&format!("was kept by the run at {}", run.began - life.story.start));
            }
        }
    }
    Ok(())
}

/// A letter is delivered or archived only once, except for one more time per cause.
pub fn no_letter_ends_twice_without_a_cause(life: &Life<'_>) -> Judged {
    let ends = life.count(|what| matches!(what, What::Delivered | What::Archived { .. }));
    let causes = causes(life);
    if ends > 1 + causes {
        return life.broken(&format!("ended {ends} times, with {causes} causes"));
    }
    Ok(())
}

/// P6: within a group nothing is attempted or archived before all earlier letters have ended. Where heads step
/// aside, that is so in the requeue.
pub fn groups_keep_their_order(world: &World, lives: &[Life<'_>]) -> Judged {
    if !world.fifo {
        return Ok(());
    }
    let mut groups: BTreeMap<(usize, u32), Vec<(usize, &Life<'_>)>> = BTreeMap::new();
    for life in lives {
        let group = groups.entry((life.subscriber, world.letters[life.letter].group)).or_default();
        match life.messages().iter().find(|(.., queue)| *queue == REQUEUE) {
            _ if !world.steps_aside => group.push((0, life)),
            // A copy in the dead-letter queue is in no order with the one that stepped aside.
            Some((moved, ..)) if causes(life) == 0 => group.push((moved.index, life)),
            _ => {}
        }
    }
    for mut group in groups.into_values() {
        group.sort_by_key(|(since, _)| *since);
        for (place, (since, life)) in group.iter().enumerate() {
            let is_handled =
                |what: &What| matches!(what, What::Called { .. } | What::Delivered | What::Archived { .. });
            let first = life.facts.iter().find(|fact| fact.index > *since && is_handled(&fact.what));
            let Some(first) = first else { continue };
            for (_, head) in &group[..place] {
                let gone = head.facts.iter().find(|fact| {
                    matches!(fact.what, What::Delivered | What::Archived { .. } | What::Expired { .. })
                });
                if gone.is_none_or(|gone| gone.index > first.index) {
                    let head = head.broken("was overtaken").unwrap_err();
                    return life.broken(&format!("overtook its head\n{head}"));
                }
            }
        }
    }
    Ok(())
}

/// P8: a run counts a letter as stuck, for which somebody is paged, only if one of its calls had a fault, or the
/// queue dropped the letter meanwhile.
pub fn nobody_is_paged_for_nothing(world: &World, story: &Story) -> Judged {
    for run in story.runs.iter().filter(|run| run.stuck > 0 && !world.hangs()) {
        let is_of_run = |at: Millis| (run.began..=run.ended).contains(&at);
        let faulty = story.disturbances.iter().any(|it| it.call.caller == run.caller && is_of_run(it.at));
        let records = &story.journal[run.from..run.to];
        let dropped = records.iter().any(|record| matches!(record.event, Event::Expired { .. }));
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
