//! The laws about attempts: how many there are, and when.

use redrive_core::policy::OverrideAction;
use redrive_laws::letters::{CallEffect, FaultSubject, LifeEvent, SentPlace, TimedFact};
use redrive_sim::SimMillis;

use super::counts::{
    LawResult, SLACK, brought_along, by_slow_clocks, causes, first_twice, hops, is_left_alone, on_override,
    owed, repeated,
};
use crate::lives::Life;
use crate::world::{
    DLQ, SECOND, SeededFault, SeededOutage, SeededSubscriber, SeededSubscriberKind, SeededSubscriberState,
    SeededTarget, weather,
};

/// Returns how many attempts a letter may have beyond its schedule.
pub fn excused(life: &Life<'_>) -> usize {
    let world = life.world;
    // What was hidden for a short time only, until its queue told more, comes back early once.
    let by = [FaultSubject::Hide, FaultSubject::Read];
    // An instance remembers letters that the archive did not take. Each other instance makes the last attempt
    // again.
    let others = if life.disturbed(&[FaultSubject::Archive]) > 0 { life.instances() - 1 } else { 0 };
    // A clock that is ahead sets a moment for the requeue that is later than the letter's first receive there, and
    // a batching window can end after that moment: see `first_twice`.
    let ahead = if world.skew() > SLACK || world.mapping.window > 0 {
        life.carried().len().saturating_sub(1)
    } else {
        0
    };
    causes(life)
        + life.disturbed(&by)
        + repeated(life)
        + ahead
        + by_slow_clocks(life)
        + first_twice(life)
        + brought_along(life)
        + others
        + on_override(life, OverrideAction::Retry).len()
        + life.scouts()
        + life.woken()
}

/// P2: no first retry comes before its planned moment. The laws of the pure machine judge the moments of all
/// others.
pub fn no_first_attempt_comes_early(life: &Life<'_>) -> LawResult {
    let world = life.world;
    let messages = life.carried();
    let [(sent, _, _)] = messages.as_slice() else { return Ok(()) };
    let attempts = life.attempts();
    let early = on_override(life, OverrideAction::Retry);
    if let Some(first) = attempts.first().filter(|first| early.iter().all(|it| it.order != first.order)) {
        let due = sent.at + world.wait(1).1;
        if first.at < due - SLACK - world.skew() {
            return life.broken(&format!("the first attempt is not due before {due}"));
        }
    }
    Ok(())
}

/// P2, P4: `exhausted` comes only after the last retry's moment and as many attempts as the receives allow,
/// `expiring` only near the end, and every other reason has its cause.
pub fn no_letter_is_given_up_early(life: &Life<'_>) -> LawResult {
    let world = life.world;
    let subscriber = &world.subscribers[life.subscriber];
    let messages = life.carried();
    for (fact, reason) in life.archived() {
        let before: Vec<_> = life.attempts().into_iter().filter(|one| one.order < fact.order).collect();
        match reason {
            // Another law covers letters that were given up.
            "given-up" => {}
            "exhausted" => {
                let least = owed(life, fact.order);
                if before.len() < least {
                    return life.broken(&format!("exhausted after {} attempts of {least}", before.len()));
                }
                // Retries may have been left out before, but the last one was made.
                let is_receive = |one: &&TimedFact| {
                    one.order < fact.order && matches!(one.what, LifeEvent::Received { .. })
                };
                let received = life.facts.iter().rfind(is_receive);
                let unsettled = life.disturbed(&[FaultSubject::Archive, FaultSubject::Read]) + causes(life);
                let made = before.last().zip(received).is_some_and(|(last, it)| last.order > it.order);
                // A letter whose last retry was to publish it comes back as the copy that failed.
                let came_back = world.target == SeededTarget::Topic
                    && before.last().is_some_and(|last| {
                        messages.iter().any(|(sent, ..)| (last.order..fact.order).contains(&sent.order))
                    });
                if unsettled == 0 && !made && !came_back {
                    return life.broken("exhausted without an attempt in the end");
                }
                if let [(sent, _, _)] = messages.as_slice() {
                    let all: SimMillis = (1..=world.schedule.retries).map(|retry| world.wait(retry).1).sum();
                    if fact.at < sent.at + all - SLACK - world.skew() {
                        return life.broken("exhausted before its last retry was due");
                    }
                }
            }
            "expiring" => {
                let Some((sent, _, queue)) = messages.iter().rfind(|(sent, _, _)| sent.order < fact.order)
                else {
                    continue;
                };
                // The requeue counts from the first arrival, and an unknown retention counts as four days.
                let known = *queue == world.name(DLQ)
                    && world.requeue.is_none()
                    && world.target == SeededTarget::Origin;
                let longest = world.longest_wait(subscriber);
                let ceiling = SimMillis::try_from(world.ceiling).unwrap() * SECOND;
                let timeout = SimMillis::try_from(world.queue.visibility).unwrap() * SECOND;
                let put_off = 600 * SECOND;
                let wait = longest.min(ceiling).max(timeout).max(put_off) + SECOND + world.skew();
                if known && fact.at + wait < sent.at + world.retention() - world.margin() {
                    return life.broken("expiring, though there was time");
                }
            }
            "refused" if subscriber.state != SeededSubscriberState::Confirmed => {}
            // The search finds no subscription that confirms it.
            "unrecognised" if subscriber.state != SeededSubscriberState::Confirmed && world.discovers => {}
            "permanent" if life.is_bad() => {}
            // The archive refused it, got it without its record, and died or was not heard.
            "unknown" if life.is_bad() && world.archive_refuses() => {}
            "permanent" if subscriber.weather.iter().any(|outage| is_permanent(subscriber, outage)) => {}
            reason => return life.broken(&format!("archived as {reason}")),
        }
    }
    Ok(())
}

/// Reports whether an outage makes a subscriber refuse letters for good. A web server that denies something
/// does.
fn is_permanent(subscriber: &SeededSubscriber, outage: &SeededOutage) -> bool {
    outage.how == SeededFault::Never
        || (subscriber.kind == SeededSubscriberKind::Server && outage.how == SeededFault::Denied)
}

/// P2: an undisturbed letter gets as many attempts as the schedule has retries, each at its time.
pub fn undisturbed_letters_get_each_retry_once(life: &Life<'_>) -> LawResult {
    let world = life.world;
    let disturbed = !life.is_calm()
        || life.count(|what| *what == LifeEvent::Duplicated) > 0
        || world.is_operated()
        || life.scouts() + life.woken() > 0;
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
    if world.target == SeededTarget::Topic || hops(life) > 0 || again > 0 {
        return Ok(());
    }
    // Other letters of the batch, or other batches, may take all of their time; if nothing hangs, that of
    // some retries.
    let others = if world.hangs() { 4 * world.mapping.timeout } else { 20 };
    let late = SimMillis::try_from(world.mapping.window + others + 2).unwrap() * SECOND;
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
pub fn a_letter_comes_again_when_its_server_asked_for_it(life: &Life<'_>) -> LawResult {
    let (world, one) = (life.world, &life.world.subscribers[life.subscriber]);
    let pause = world.pause(one).min(SimMillis::try_from(world.ceiling).unwrap() * SECOND);
    let disturbed = !life.is_calm() || life.copies() > 0;
    let messages = life.carried();
    let ([(sent, ..)], false, SeededTarget::Origin) = (messages.as_slice(), disturbed, world.target) else {
        return Ok(());
    };
    let end = sent.at + world.retention() - world.margin();
    let on_override = on_override(life, OverrideAction::Retry);
    for pair in life.attempts().windows(2) {
        let was_throttled =
            weather(&one.weather, pair[0].last - life.story.start) == Some(SeededFault::Throttled);
        let again = pair[0].last + pause;
        let overridden = on_override.iter().any(|it| it.order == pair[1].order);
        if was_throttled && again < end && !overridden && pair[1].at < again - SLACK - 2 * world.skew() {
            return life.broken(&format!("came again before {}", again - life.story.start));
        }
    }
    Ok(())
}

/// A letter whose content is refused costs those in its request nothing but time: while their endpoint works, the
/// first attempt delivers them, and it takes one call more than without.
pub fn bad_letters_cost_their_neighbours_nothing_but_time(life: &Life<'_>) -> LawResult {
    let (world, one) = (life.world, &life.world.subscribers[life.subscriber]);
    let disturbed = !life.is_calm() || life.copies() > 0;
    if disturbed || world.hangs() || world.is_operated() || one.state != SeededSubscriberState::Confirmed {
        return Ok(());
    }
    let attempts = life.attempts();
    for (place, attempt) in attempts.iter().enumerate() {
        let is_up = |at: SimMillis| weather(&one.weather, at - life.story.start).is_none();
        if !is_up(attempt.at) || !is_up(attempt.last) {
            continue;
        }
        let is_call = |fact: &&TimedFact| fact.what == LifeEvent::Called && fact.run == Some(attempt.run);
        let calls = life.facts.iter().filter(is_call).count();
        // The whole request, and the letter alone.
        let most = if world.bad.is_empty() { 1 } else { 2 };
        if calls > most {
            return life.broken(&format!("{calls} calls in one attempt, {most} at most"));
        }
        let next = attempts.get(place + 1).map_or(usize::MAX, |next| next.order);
        let arrived = life.facts.iter().any(|fact| {
            let is_there = fact.what.is_delivery()
                || matches!(
                    fact.what,
                    LifeEvent::Sent { place: SentPlace::Topic, effect: CallEffect::Taken, .. }
                );
            is_there && (attempt.order..next).contains(&fact.order)
        });
        if !arrived && !life.is_bad() {
            return life.broken("was not delivered by an attempt at an endpoint that works");
        }
    }
    Ok(())
}
