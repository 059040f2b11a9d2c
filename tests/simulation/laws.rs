//! The laws: the facts that hold for every letter in every world.

use std::collections::BTreeMap;

use sim::Millis;
use sns_redrive::policy::OrderAction;

use crate::hook::is_to_archive;
use crate::live::Story;
use crate::lives::{Attempt, Disturbed, Fact, Life, What, lives};
use crate::world::{
    ARCHIVE, DLQ, Document, How, Kind, Outage, REQUEUE, SECOND, Source, State, Subscriber, Target, World,
    weather,
};

/// A broken law, in words.
pub type Judged = Result<(), String>;

/// The number of letters by their end.
pub type Tally = BTreeMap<String, usize>;

/// The slack of points in time: a point counts as reached one second early.
const SLACK: Millis = SECOND;

/// The laws, in the order in which they are judged.
const LAWS: [fn(&Life<'_>) -> Judged; 12] = [
    nobody_gets_what_he_did_not_ask_for,
    nothing_is_removed_before_it_is_safe,
    nothing_is_lost,
    what_is_seen_near_its_end_leaves,
    no_letter_ends_twice_without_a_cause,
    no_attempt_comes_early_or_is_one_too_many,
    no_letter_is_given_up_early,
    undisturbed_letters_get_each_retry_once,
    a_letter_comes_again_when_its_server_asked_for_it,
    no_attempt_begins_under_a_hold,
    only_an_order_archives_as_ordered,
    orders_to_retry_take_no_retry_away,
];

/// The time after which an order counts, including the time of a reading.
const HEARD: Millis = 16 * SECOND;

/// The time for which an instance obeys an order to retry or to archive that it can no longer read.
const PATIENCE: Millis = 600 * SECOND;

/// Judges a story, and counts the ends of its letters.
pub fn judge(world: &World, story: &Story) -> Result<Tally, String> {
    let lives = lives(world, story);
    let mut tally = Tally::new();
    for life in &lives {
        LAWS.iter().try_for_each(|law| law(life))?;
        let end = match life.end().map(|end| &end.what) {
            Some(What::Delivered) => "delivered",
            Some(What::Archived { reason }) => reason,
            _ => "lost in a margin that was disturbed",
        };
        *tally.entry(end.to_owned()).or_default() += 1;
        let is_calm = life.count(|what| matches!(what, What::Disturbed { .. })) == 0;
        let (hold, retry) = (OrderAction::Hold, OrderAction::Retry);
        let held = ordered(life, hold, 0).into_iter().any(|(from, to)| {
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
            ("retried on an order", !on_order(life, retry).is_empty()),
            ("found by a search", end == "delivered" && world.discovers),
            ("back in its queue", end == "delivered" && world.source == Source::Queue),
            ("invoked again", end == "delivered" && world.source == Source::Function),
            ("invoked by its record", end == "delivered" && world.source == Source::Destination),
        ];
        for (mark, _) in marks.iter().filter(|(_, is)| *is) {
            *tally.entry((*mark).to_owned()).or_default() += 1;
        }
    }
    groups_keep_their_order(world, &lives)?;
    Ok(tally)
}

/// P5, P7: a letter reaches only the endpoint of its own subscription, if SNS confirms it, with its message.
fn nobody_gets_what_he_did_not_ask_for(life: &Life<'_>) -> Judged {
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
fn nothing_is_removed_before_it_is_safe(life: &Life<'_>) -> Judged {
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
fn nothing_is_lost(life: &Life<'_>) -> Judged {
    if life.end().is_some() {
        return Ok(());
    }
    let world = life.world;
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
fn what_is_seen_near_its_end_leaves(life: &Life<'_>) -> Judged {
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
fn no_letter_ends_twice_without_a_cause(life: &Life<'_>) -> Judged {
    let ends = life.count(|what| matches!(what, What::Delivered | What::Archived { .. }));
    let causes = causes(life);
    if ends > 1 + causes {
        return life.broken(&format!("ended {ends} times, with {causes} causes"));
    }
    Ok(())
}

/// Returns the spans in which an order of this kind about the letter was in a readable document and in force.
/// An instance may obey it for `patience` longer after an unreadable document replaced it.
fn ordered(life: &Life<'_>, action: OrderAction, patience: Millis) -> Vec<(Millis, Millis)> {
    let start = life.story.start;
    let writes = &life.world.operator.writes;
    let mut all = Vec::new();
    for (place, (at, document)) in writes.iter().enumerate() {
        let Document::Order(order) = document else { continue };
        if order.action != action || order.letter.is_some_and(|letter| letter != life.letter) {
            continue;
        }
        let next = writes.get(place + 1);
        let replaced = next.map_or(Millis::MAX / 2, |(at, document)| match document {
            Document::Broken => {
                let good = writes[place + 1..].iter().find(|(_, it)| !matches!(it, Document::Broken));
                (at + patience).min(good.map_or(Millis::MAX / 2, |(at, _)| *at))
            }
            _ => *at,
        });
        let ends = order.lasts.map_or(Millis::MAX / 2, |lasts| at + lasts);
        all.push((start + at, start + replaced.min(ends)));
    }
    all
}

/// Returns the attempts that an order of this kind may have caused.
fn on_order(life: &Life<'_>, action: OrderAction) -> Vec<Attempt> {
    let (skew, spans) = (life.world.skew(), ordered(life, action, PATIENCE));
    let is = |attempt: &Attempt| {
        spans.iter().any(|(from, to)| (from - skew..=to + HEARD + skew).contains(&attempt.at))
    };
    life.attempts().into_iter().filter(is).collect()
}

/// P10: a hold counts 15 s after it was written, even in a run that has begun, as long as the orders can be
/// read.
fn no_attempt_begins_under_a_hold(life: &Life<'_>) -> Judged {
    let world = life.world;
    for (from, to) in ordered(life, OrderAction::Hold, 0) {
        let heard = from + HEARD + 2 * world.skew();
        for attempt in life.attempts() {
            let by = &life.story.runs[attempt.run].caller;
            let unread = life.story.disturbances.iter().any(|it| {
                let is_reading = it.call.caller == *by && it.call.operation == "GetObject";
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

/// P10: a letter is archived as ordered only if the order was in the document when its run began, or later.
fn only_an_order_archives_as_ordered(life: &Life<'_>) -> Judged {
    let archived = life.archived().into_iter().filter(|(_, reason)| *reason == "ordered");
    for (fact, _) in archived {
        let runs = life.story.runs.iter().filter(|run| (run.from..run.to).contains(&fact.index));
        let began = runs.map(|run| run.began).min().unwrap_or(fact.at);
        let unread = life.story.disturbances.iter().any(|it| it.call.operation == "GetObject");
        let patience = if unread { PATIENCE } else { 0 };
        let skew = life.world.skew();
        let stood = ordered(life, OrderAction::Archive, PATIENCE)
            .into_iter()
            .any(|(from, to)| from <= fact.at + skew && began - HEARD - patience - skew <= to);
        if !stood {
            return life.broken("archived as ordered, and nobody ordered it");
        }
    }
    Ok(())
}

/// P2, P10: if only orders to retry disturb a letter, it gets at least all its retries.
fn orders_to_retry_take_no_retry_away(life: &Life<'_>) -> Judged {
    let world = life.world;
    let is_calm = life.count(|what| matches!(what, What::Disturbed { .. } | What::Duplicated { .. })) == 0;
    let left_alone = is_left_alone(life);
    let by_itself = world.skew() == 0 && world.rate.is_none() && world.requeue.is_none() && !left_alone;
    if !world.operator.only_retries || !is_calm || !by_itself || !life.is_first_of_group() {
        return Ok(());
    }
    let (attempts, retries) = (life.attempts().len(), usize::try_from(world.schedule.retries).unwrap());
    if life.archived().iter().any(|(_, reason)| *reason == "exhausted") && attempts < retries {
        return life.broken(&format!("{attempts} attempts of {retries}, with an order to retry"));
    }
    Ok(())
}

/// Returns the number of events after which a letter may be handled once more.
fn causes(life: &Life<'_>) -> usize {
    // A slow request may be cut off after it has had its effect.
    let by = [Disturbed::Died, Disturbed::Unheard, Disturbed::Delete, Disturbed::Slow];
    life.disturbed(&by) + life.count(|what| matches!(what, What::Duplicated { .. } | What::Woken { .. }))
}

/// P2: no first retry comes before its planned moment, and none after the last except one per disturbance. The laws
/// of the pure machine judge the moments of all others.
fn no_attempt_comes_early_or_is_one_too_many(life: &Life<'_>) -> Judged {
    let world = life.world;
    let attempts = life.attempts();
    let retries = usize::try_from(world.schedule.retries).unwrap();
    let by = [Disturbed::Hide];
    // An instance remembers letters that the archive did not take. Each other instance makes the last attempt
    // again.
    let others = if life.disturbed(&[Disturbed::Archive]) > 0 { life.instances() - 1 } else { 0 };
    let causes = causes(life);
    // A clock that is ahead sets a moment for the requeue that is later than the letter's first receive there, and
    // a batching window can end after that moment: see `first_twice`.
    let ahead = if world.skew() > SLACK || world.mapping.window > 0 {
        life.messages().len().saturating_sub(1)
    } else {
        0
    };
    let most = retries * if world.forks() { 1 + causes } else { 1 }
        + causes
        + life.disturbed(&by)
        + repeated(life)
        + ahead
        + first_twice(life)
        + brought_along(life)
        + others
        + on_order(life, OrderAction::Retry).len();
    if attempts.len() > most {
        return life.broken(&format!("{} attempts, {most} at most", attempts.len()));
    }
    let messages = life.messages();
    let [(sent, _, _)] = messages.as_slice() else { return Ok(()) };
    let early = on_order(life, OrderAction::Retry);
    if let Some(first) = attempts.first().filter(|first| early.iter().all(|it| it.index != first.index)) {
        let due = sent.at + world.wait(1).1;
        if first.at < due - SLACK - world.skew() {
            return life.broken(&format!("the first attempt is not due before {due}"));
        }
    }
    Ok(())
}

/// Returns how often the first retry may be repeated. A batching window delivers a letter after its receive,
/// and a clock that is ahead shows a later time. So the first receive can make an attempt although it came
/// before the planned moment.
fn first_twice(life: &Life<'_>) -> usize {
    let first = |is: fn(&What) -> bool| life.facts.iter().find(|fact| is(&fact.what)).map(|fact| fact.at);
    let sent = first(|what| matches!(what, What::Sent { .. }));
    let received = first(|what| matches!(what, What::Received { .. }));
    let (Some(sent), Some(received)) = (sent, received) else { return 0 };
    let may_be_late = life.world.mapping.window > 0 || life.world.skew() > SLACK;
    usize::from(may_be_late && received + SLACK < sent + life.world.wait(1).0)
}

/// Returns how often the first retry of a letter that SQS moved may be repeated. SQS's time of the first receive is
/// that in the source queue, so the letter seems to have been received before that retry here too.
fn brought_along(life: &Life<'_>) -> usize {
    let messages = life.messages();
    let (Source::Queue, Some((sent, _, _))) = (life.world.source, messages.first()) else { return 0 };
    let (longest, shortest) = life.world.wait(1);
    let before = |fact: &&Fact| {
        let is_received = matches!(fact.what, What::Received { .. });
        is_received && fact.at < sent.at + shortest - SLACK - life.world.skew()
    };
    let ceiling = Millis::try_from(life.world.ceiling).unwrap() * SECOND;
    let expected = usize::try_from((longest + ceiling - 1) / ceiling).unwrap();
    expected.saturating_sub(life.facts.iter().filter(before).count())
}

/// Returns how many retries may be repeated since a letter came late: the receives that its schedule expects did not
/// take place.
fn repeated(life: &Life<'_>) -> usize {
    let is_late = !life.world.mapping.off.is_empty() || !caused(life, usize::MAX).is_empty();
    if is_late { hops(life) } else { 0 }
}

/// Returns the receives before a place in the journal after which something kept the letter from an attempt.
fn caused(life: &Life<'_>, before: usize) -> Vec<usize> {
    let world = life.world;
    // A clock that is behind takes a letter for early.
    let kept = world.hangs()
        || world.skew() > SLACK
        || is_left_alone(life)
        || !life.is_first_of_group()
        || world.rate.is_some()
        || life.disturbed(&[Disturbed::Read, Disturbed::Hide]) > 0
        || life.count(|what| matches!(what, What::Duplicated { .. } | What::Woken { .. })) > 0
        // While it has never read the orders, an instance attempts nothing for ten minutes.
        || world.operator.writes.iter().any(|(_, document)| matches!(document, Document::Broken))
        || !ordered(life, OrderAction::Hold, PATIENCE).is_empty();
    let attempts = life.attempts();
    let mut all = Vec::new();
    for fact in life.facts.iter().filter(|fact| fact.index < before) {
        let What::Received { message, .. } = &fact.what else { continue };
        let run = life.story.runs.iter().position(|run| run.from >= fact.index && run.ids.contains(message));
        let again = life.facts.iter().find(|later| {
            later.index > fact.index
                && matches!(&later.what, What::Received { message: it, .. } if it == message)
        });
        let run = run.filter(|run| again.is_none_or(|again| life.story.runs[*run].from < again.index));
        let ran = run.is_some_and(|run| life.story.runs[run].kept.is_some());
        let attempted = attempts.iter().any(|attempt| Some(attempt.run) == run);
        if !attempted && (kept || !ran) {
            all.push(fact.index);
        }
    }
    all
}

/// Returns the least number of attempts before a place in the journal at which a letter is exhausted: its retries,
/// less the receives that something kept from their attempt.
fn owed(life: &Life<'_>, before: usize) -> usize {
    let retries = usize::try_from(life.world.schedule.retries).unwrap();
    // If a subscription could not be looked up, the attempt failed without a call to the endpoint.
    let unseen = life.disturbed(&[Disturbed::Read]);
    retries.saturating_sub(caused(life, before).len()).max(1).saturating_sub(unseen)
}

/// Returns how often a letter was received without an attempt.
fn hops(life: &Life<'_>) -> usize {
    let received = life.count(|what| matches!(what, What::Received { .. }));
    received.saturating_sub(life.attempts().len())
}

/// P2, P4: `exhausted` comes only after the last retry's moment and as many attempts as the receives allow,
/// `expiring` only near the end, and every other reason has its cause.
fn no_letter_is_given_up_early(life: &Life<'_>) -> Judged {
    let world = life.world;
    let subscriber = &world.subscribers[life.subscriber];
    let messages = life.messages();
    for (fact, reason) in life.archived() {
        let before: Vec<_> = life.attempts().into_iter().filter(|one| one.index < fact.index).collect();
        match reason {
            // Another law covers ordered archiving.
            "again" | "ordered" => {}
            "exhausted" => {
                let least = owed(life, fact.index);
                if before.len() < least {
                    return life.broken(&format!("exhausted after {} attempts of {least}", before.len()));
                }
                // Retries may have been left out before, but the last one was made.
                let is_receive =
                    |one: &&Fact| one.index < fact.index && matches!(one.what, What::Received { .. });
                let received = life.facts.iter().rfind(is_receive);
                let unsettled = life.disturbed(&[Disturbed::Archive, Disturbed::Read]) + causes(life);
                let made = before.last().zip(received).is_some_and(|(last, it)| last.index > it.index);
                // A letter whose last retry was to publish it comes back as the copy that failed.
                let came_back = world.target == Target::Topic
                    && before.last().is_some_and(|last| {
                        messages.iter().any(|(sent, ..)| (last.index..fact.index).contains(&sent.index))
                    });
                if unsettled == 0 && !made && !came_back {
                    return life.broken("exhausted without an attempt in the end");
                }
                if let [(sent, _, _)] = messages.as_slice() {
                    let all: Millis = (1..=world.schedule.retries).map(|retry| world.wait(retry).1).sum();
                    if fact.at < sent.at + all - SLACK - world.skew() {
                        return life.broken("exhausted before its last retry was due");
                    }
                }
            }
            "expiring" => {
                let Some((sent, _, queue)) = messages.iter().rfind(|(sent, _, _)| sent.index < fact.index)
                else {
                    continue;
                };
                // The requeue counts from the first arrival, and an unknown retention counts as four days.
                let known = *queue == DLQ && world.requeue.is_none() && world.target == Target::Origin;
                let longest = world.longest_wait(subscriber);
                let ceiling = Millis::try_from(world.ceiling).unwrap() * SECOND;
                let timeout = Millis::try_from(world.queue.visibility).unwrap() * SECOND;
                let put_off = 600 * SECOND;
                let wait = longest.min(ceiling).max(timeout).max(put_off) + SECOND + world.skew();
                if known && fact.at + wait < sent.at + world.retention() - world.margin() {
                    return life.broken("expiring, though there was time");
                }
            }
            "refused" if subscriber.state != State::Confirmed => {}
            // The search finds no subscription that confirms it.
            "unrecognised" if subscriber.state != State::Confirmed && world.discovers => {}
            "permanent" if subscriber.weather.iter().any(|outage| is_permanent(subscriber, outage)) => {}
            reason => return life.broken(&format!("archived as {reason}")),
        }
    }
    Ok(())
}

/// Reports whether the endpoint costs time in one of its outages, and is left alone for a while then.
fn is_left_alone(life: &Life<'_>) -> bool {
    let one = &life.world.subscribers[life.subscriber];
    one.weather.iter().any(|outage| match outage.how {
        How::Down | How::Refused | How::Throttled | How::Hangs | How::Mute => true,
        // Without entries the whole call fails.
        How::EachFails => matches!(one.kind, Kind::Function | Kind::Server),
        How::Denied | How::Slow | How::Never => false,
    })
}

/// Reports whether an outage makes a subscriber refuse letters for good. A web server that denies something
/// does.
fn is_permanent(subscriber: &Subscriber, outage: &Outage) -> bool {
    outage.how == How::Never || (subscriber.kind == Kind::Server && outage.how == How::Denied)
}

/// P2: an undisturbed letter gets as many attempts as the schedule has retries, each at its time.
fn undisturbed_letters_get_each_retry_once(life: &Life<'_>) -> Judged {
    let world = life.world;
    let disturbed = life.count(|what| matches!(what, What::Disturbed { .. } | What::Duplicated { .. })) > 0
        || world.is_operated();
    // A letter that comes too early by a slow clock is received once more.
    let skewed = world.skew() > 0 && hops(life) > 0;
    if disturbed || skewed || !life.is_first_of_group() || world.rate.is_some() || world.requeue.is_some() {
        return Ok(());
    }
    let attempts = life.attempts();
    let retries = usize::try_from(world.schedule.retries).unwrap();
    let archived: Vec<_> = life.archived().into_iter().map(|(_, reason)| reason).collect();
    // An endpoint that costs time is left alone for a while. A letter that comes in that time uses up a
    // retry.
    let left_alone = is_left_alone(life);
    let least = retries.saturating_sub(if left_alone { hops(life) } else { 0 }).max(1);
    // A wait slightly longer than a whole number of ceilings has its retry made twice.
    let again = first_twice(life) + brought_along(life);
    let exactly = least..=retries + repeated(life) + again;
    if archived == ["exhausted"] && !exactly.contains(&attempts.len()) {
        return life.broken(&format!("{} attempts of {retries}", attempts.len()));
    }
    // The first retry may be repeated in the place of the second.
    if world.target == Target::Topic || hops(life) > 0 || again > 0 {
        return Ok(());
    }
    // Other letters of the batch, or other batches, may take all of their time; if nothing hangs, that of
    // some retries.
    let others = if world.hangs() { 4 * world.mapping.timeout } else { 20 };
    let late = Millis::try_from(world.mapping.window + others + 2).unwrap() * SECOND;
    let pause = world.pause(&world.subscribers[life.subscriber]);
    if archived == ["expiring"] {
        let waits = (1..=world.schedule.retries).scan(0, |time, retry| {
            *time += world.wait(retry).0.max(pause) + late;
            Some(*time)
        });
        let least = waits.take_while(|time| *time < world.retention() - world.margin()).count();
        if attempts.len() < least {
            return life.broken(&format!("expiring after {} attempts of {least}", attempts.len()));
        }
    }
    for (retry, pair) in (2..).zip(attempts.windows(2)) {
        let (longest, shortest) = world.wait(retry);
        let longest = longest.max(pause);
        let (least, most) = (pair[0].at + shortest - SLACK, pair[0].last + longest + late);
        if !(least - 2 * world.skew()..=most + 2 * world.skew()).contains(&pair[1].at) {
            return life.broken(&format!("retry {retry} is not on time"));
        }
    }
    Ok(())
}

/// P2: a web server that throttles a letter gets it again after the time that it names, as far as the schedule
/// and the queue allow that.
fn a_letter_comes_again_when_its_server_asked_for_it(life: &Life<'_>) -> Judged {
    let (world, one) = (life.world, &life.world.subscribers[life.subscriber]);
    let pause = world.pause(one).min(Millis::try_from(world.ceiling).unwrap() * SECOND);
    let disturbed = life
        .count(|what| matches!(what, What::Disturbed { .. } | What::Duplicated { .. } | What::Woken { .. }));
    let messages = life.messages();
    let ([(sent, ..)], 0, Target::Origin) = (messages.as_slice(), disturbed, world.target) else {
        return Ok(());
    };
    let end = sent.at + world.retention() - world.margin();
    let on_order = on_order(life, OrderAction::Retry);
    for pair in life.attempts().windows(2) {
        let was_throttled = weather(&one.weather, pair[0].last - life.story.start) == Some(How::Throttled);
        let again = pair[0].last + pause;
        let ordered = on_order.iter().any(|it| it.index == pair[1].index);
        if was_throttled && again < end && !ordered && pair[1].at < again - SLACK - 2 * world.skew() {
            return life.broken(&format!("came again before {}", again - life.story.start));
        }
    }
    Ok(())
}

/// P6: within a group nothing is attempted or archived before all earlier letters have ended. Where heads step
/// aside, that is so in the requeue.
fn groups_keep_their_order(world: &World, lives: &[Life<'_>]) -> Judged {
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
