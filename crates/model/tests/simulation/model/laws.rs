//! The laws that every story must obey.
//!
//! Each law answers with the first letter that breaks it, and its whole life.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::policy::{ArchiveReason, OverrideAction};

use super::journal::{FactKind, IdleReason, ModelMessage, StoryFact};
use super::life::{LawJudgement, MODEL_CLOCK_TOLERANCE, StoryAttempt, StoryLife, lives};
use super::queue::ModelQueue;
use super::simulation::ModelStory;
use super::world::ModelWorld;
use super::{DAY, MINUTE, ModelMillis, SECOND, seconds};

/// Promise P1: every letter is delivered, archived, or still queued; and a message is deleted only after its
/// letter is safe elsewhere.
pub fn every_letter_is_accounted_for(world: &ModelWorld, story: &ModelStory) -> LawJudgement {
    let queued: BTreeSet<usize> =
        story.dlq.whose().chain(story.requeue.iter().flat_map(ModelQueue::whose)).collect();
    for life in lives(world, story) {
        let lost = life.facts.iter().any(|fact| fact.what == FactKind::Lost);
        if !(life.is_delivered() || !life.archived().is_empty() || queued.contains(&life.who) || lost) {
            return life.fault("vanished");
        }
        for message in life.messages() {
            let mut safe = false;
            for fact in life.about(message) {
                safe |= matches!(
                    fact.what,
                    FactKind::Attempt { delivered: true, .. }
                        | FactKind::Archived { .. }
                        | FactKind::Moved { .. }
                );
                if fact.what == FactKind::Deleted && !safe {
                    return life.fault("deleted before it was safe elsewhere");
                }
            }
        }
    }
    Ok(())
}

/// Promise P4: SQS drops no letter that the function saw, undisturbed, within the margin before; and no
/// letter is hidden into that margin. While the retention was never read, it is hidden for a tenth of its age
/// at most, within a minute and a quarter of an hour.
pub fn nothing_is_lost_that_was_seen_in_time(world: &ModelWorld, story: &ModelStory) -> LawJudgement {
    for life in lives(world, story) {
        for message in life.messages() {
            let safe = life.safe_until(message);
            let facts: Vec<_> = life.about(message).collect();
            for (index, fact) in life.facts.iter().enumerate().filter(|(_, fact)| fact.message == message) {
                if let FactKind::Hidden { until } = fact.what
                    && life.was_unread(message, index).is_some()
                {
                    let age = fact.at - life.kept_since(message);
                    let most = (age / 10).clamp(MINUTE, 15 * MINUTE);
                    if until > fact.at + most + SECOND {
                        return life.fault(&format!("hidden for longer than {most} by a guess"));
                    }
                }
            }
            for (index, fact) in facts.iter().enumerate() {
                // Fractions of a second are rounded up. A letter that the archive did not accept is given to
                // it again.
                let unarchived = index > 0 && facts[index - 1].what == FactKind::NotArchived;
                let before = facts[..index].iter().rev();
                let mut before = before.take_while(|fact| !matches!(fact.what, FactKind::Received { .. }));
                let unread = before.any(|fact| matches!(fact.what, FactKind::RetentionUnread { .. }));
                if let FactKind::Hidden { until } = fact.what
                    && until > fact.at
                    && until > safe + SECOND
                    && !unarchived
                    && !unread
                {
                    return life.fault(&format!("hidden until {until}, safe is {safe}"));
                }
            }
            let is_safe = facts.iter().any(|fact| {
                matches!(fact.what, FactKind::Attempt { delivered: true, .. } | FactKind::Archived { .. })
            });
            let is_lost = !is_safe && facts.last().is_some_and(|fact| fact.what == FactKind::Lost);
            let seen = facts.iter().rposition(|fact| matches!(fact.what, FactKind::Received { .. }));
            let Some(seen) = seen.filter(|seen| is_lost && facts[*seen].at >= safe) else { continue };
            let disturbed = facts[seen..].iter().any(|fact| {
                matches!(
                    fact.what,
                    FactKind::Idle(IdleReason::Throttled | IdleReason::Crashed)
                        | FactKind::NotArchived
                        | FactKind::NotHidden
                        | FactKind::RetentionUnread { .. }
                )
            });
            if !disturbed {
                return life.fault("lost, though the function saw it in time");
            }
        }
    }
    Ok(())
}

/// If the function always runs, no letter is ever lost.
pub fn nothing_is_lost(world: &ModelWorld, story: &ModelStory) -> LawJudgement {
    for life in lives(world, story) {
        let safe = life.is_delivered() || !life.archived().is_empty();
        if !safe && life.facts.iter().any(|fact| fact.what == FactKind::Lost) {
            return life.fault("lost");
        }
    }
    Ok(())
}

/// Promises P2 and P4: a letter is `exhausted` only after the last retry has failed, and not before its time.
/// It is `expiring` only if it would next become visible within the margin.
pub fn nothing_is_archived_early(world: &ModelWorld, story: &ModelStory) -> LawJudgement {
    let last = world.schedule.retries;
    for life in lives(world, story) {
        let longest = (1..=last).map(|k| life.wait(k)).max().unwrap_or(0);
        for (index, fact) in life.facts.iter().enumerate() {
            let FactKind::Archived { reason } = fact.what else { continue };
            let before = &life.facts[..index];
            match reason {
                ArchiveReason::Exhausted => {
                    let failed = before.iter().any(|one| {
                        one.message == fact.message
                            && matches!(one.what, FactKind::Attempt { number, planned: None, .. } if number == last)
                    });
                    if !failed || fact.at < life.earliest(last) {
                        return life.fault("exhausted too early");
                    }
                    if life.source_was_unread(fact.message, index) {
                        return life.fault("exhausted by a guess of its receives");
                    }
                }
                ArchiveReason::Expiring if life.was_unread(fact.message, index).is_some() => {
                    let asked = life.was_unread(fact.message, index).unwrap();
                    let wait = longest.min(15 * MINUTE).max(seconds(world.dlq.visibility));
                    let is_early = fact.at < asked + 10 * MINUTE
                        || fact.at + wait + SECOND <= life.safe_by_default(fact.message);
                    if is_early || life.is_held_at(fact.at) {
                        return life.fault("expiring by a guess");
                    }
                }
                ArchiveReason::Expiring => {
                    // The decision may be up to a batch's time old, and a throttle policy puts off by ten
                    // minutes at most. A letter that was not begun in time would become visible with its
                    // queue's own timeout.
                    let trouble = world.trouble.out_of_time > 0 || world.trouble.put_off;
                    let shows = if trouble { seconds(world.dlq.visibility) } else { 0 };
                    // While its source queue has not told its maximum receive count, it comes back to ask again.
                    let asks = if life.source_was_unread(fact.message, index) { 15 * MINUTE } else { 0 };
                    // The wait for its schedule can be as long as a letter is hidden.
                    let is_before = fact.at < life.point(life.plan().spent + 1);
                    let longest = if life.begins().is_some() && is_before { DAY } else { longest };
                    let wait = longest.min(seconds(world.ceiling)).max(seconds(600)).max(shows).max(asks);
                    if fact.at + wait + SECOND <= life.safe_until(fact.message) {
                        return life.fault("expiring too early");
                    }
                }
                ArchiveReason::GivenUp if life.is_overridden(OverrideAction::GiveUp) => {}
                other => return life.fault(&format!("archived as {other:?}")),
            }
        }
    }
    Ok(())
}

/// Promise P2, whatever happens: no retry comes before its planned time, none after a later one, none beyond
/// the last, and no letter is archived without an attempt except at the end of the retention.
pub fn attempts_are_honest(world: &ModelWorld, story: &ModelStory) -> LawJudgement {
    for life in lives(world, story) {
        for message in life.messages() {
            let attempts: Vec<_> = life.attempts().into_iter().filter(|one| one.message == message).collect();
            // Until its source queue tells how many receives are its own, a letter seems to have more.
            let unsure = life.count(|what| *what == FactKind::SourceUnread) > 0;
            // Of a message that was received again before it was handled, the later receive may be handled first.
            let is_later = |one: &StoryAttempt, other: &StoryAttempt| {
                one.receives < other.receives && one.begin <= other.begin && one.number > other.number
            };
            if !unsure && attempts.iter().any(|other| attempts.iter().any(|one| is_later(one, other))) {
                return life.fault("a retry after a later one");
            }
        }
        for attempt in life.attempts() {
            if let Some(planned) = attempt.planned {
                // Without an override, it is an attempt after the moment of the retry before.
                let too_soon = attempt.number <= life.plan().spent
                    || attempt.number >= world.schedule.retries
                    || attempt.begin < life.earliest(attempt.number);
                // What waits in the requeue goes as soon as its endpoint is back.
                let may_be_back = world.lists() && attempt.message.requeue;
                // A letter that its queue would drop before its schedule begins goes at once.
                let shown = attempt.begin + seconds(world.ceiling) + SECOND;
                let is_last_chance = life.begins().is_some() && shown > life.safe_until(attempt.message);
                let is_asked_for = life.is_overridden(OverrideAction::Retry) || may_be_back || is_last_chance;
                if planned <= attempt.begin - SECOND || (too_soon && !is_asked_for) {
                    return life.fault("an attempt ahead of a retry that no override asked for");
                }
                continue;
            }
            if attempt.number <= life.plan().spent || attempt.number > world.schedule.retries {
                return life.fault("a retry that the schedule does not have");
            }
            if attempt.begin < life.earliest(attempt.number) {
                return life.fault(&format!("retry {} before its time", attempt.number));
            }
        }
    }
    Ok(())
}

/// Promise P2, undisturbed: each retry is made once, numbered without a gap, at its time. Being moved to the
/// requeue, and on within it, is no disturbance.
pub fn undisturbed_letters_get_each_retry_once(world: &ModelWorld, story: &ModelStory) -> LawJudgement {
    let latency = world.mapping.late.end() + world.mapping.takes + world.subscriber.takes.end();
    lives(world, story).iter().try_for_each(|life| each_retry_once(life, latency))
}

/// The same law for the first letter of each FIFO group: those behind it must not hold it up.
pub fn heads_of_groups_get_each_retry_once(world: &ModelWorld, story: &ModelStory) -> LawJudgement {
    let rounds = i64::try_from(world.mapping.batch).unwrap();
    let latency = world.mapping.late.end() + world.mapping.takes + rounds * world.subscriber.takes.end();
    let lives = lives(world, story);
    let mut heads: BTreeMap<u32, &StoryLife<'_>> = BTreeMap::new();
    for life in &lives {
        let head = heads.entry(life.plan().group).or_insert(life);
        if life.plan().arrives < head.plan().arrives {
            *head = life;
        }
    }
    heads.into_values().try_for_each(|head| each_retry_once(head, latency))
}

fn each_retry_once(life: &StoryLife<'_>, latency: ModelMillis) -> LawJudgement {
    let world = life.world;
    let (first, last) = (life.plan().spent + 1, world.schedule.retries);
    if life.plan().moved.is_some_and(|moved| moved.keeps_first_receive) {
        // SQS counted the source queue's time too, so there may be more attempts, but not fewer.
        let numbers: BTreeSet<u32> = life.numbers().into_iter().collect();
        if !life.is_delivered() && !numbers.into_iter().eq(first..=last) {
            return life.fault("a moved letter lacks attempts");
        }
        return Ok(());
    }
    let attempts = life.attempts();
    let delivered = life.is_delivered();
    // Their moments stand, however long attempts take.
    let is_by_time = life.has_earlier_receives();
    let made = u32::try_from(attempts.len()).unwrap();
    let numbers: Vec<u32> = attempts.iter().map(|attempt| attempt.number).collect();
    if !is_by_time && life.ends_in_the_slack(latency) {
        // The first retry of each stay in a queue may be made twice. None is left out.
        let mut distinct = numbers.clone();
        distinct.dedup();
        let whole = distinct.iter().copied().eq(first..first + u32::try_from(distinct.len()).unwrap());
        let repeated = numbers.len() - distinct.len();
        if !whole || repeated > life.messages().len() || (!delivered && distinct.last() != Some(&last)) {
            return life.fault(&format!("retries {numbers:?} of {last}, the first of which may repeat"));
        }
        return Ok(());
    }
    if is_by_time && attempts.iter().any(|attempt| attempt.planned.is_some()) {
        return life.fault("an attempt without a number");
    }
    if numbers != (first..first + made).collect::<Vec<_>>() {
        return life.fault(&format!("retries {numbers:?}"));
    }
    if !delivered && made != last + 1 - first {
        return life.fault(&format!("retries {numbers:?} of {last}"));
    }
    let archived: Vec<_> = life.archived().into_iter().map(|(reason, _)| reason).collect();
    let expected = if delivered { vec![] } else { vec![ArchiveReason::Exhausted] };
    if archived != expected {
        return life.fault(&format!("archived as {archived:?}"));
    }
    // Hops count from the planned times, which makes up for the time that attempts took before.
    let hops = |wait: ModelMillis| wait.div_euclid(seconds(world.ceiling)) + 1;
    let earliest_first = life.point(first) - MODEL_CLOCK_TOLERANCE;
    let latest_first = life.point(first).max(life.plan().arrives) + SECOND + latency * hops(life.wait(first));
    if let Some(attempt) = attempts.first()
        && !(earliest_first..=latest_first).contains(&attempt.begin)
    {
        return life.fault("its first retry is not on time");
    }
    for pair in attempts.windows(2) {
        let wait = life.wait(pair[1].number);
        if is_by_time {
            let point = life.point(pair[1].number);
            let most = point + SECOND + latency * hops(wait);
            if !(point - MODEL_CLOCK_TOLERANCE..=most).contains(&pair[1].begin) {
                return life.fault(&format!("retry {} is not on time: {point}..{most}", pair[1].number));
            }
            continue;
        }
        let least = pair[0].end + wait.min(seconds(world.ceiling)) - MODEL_CLOCK_TOLERANCE;
        let most = pair[0].end + wait + SECOND + latency * hops(wait);
        if !(least..=most).contains(&pair[1].begin) {
            return life.fault(&format!("retry {} is not on time: {least}..{most}", pair[1].number));
        }
    }
    Ok(())
}

/// Promise P2: whatever brings a letter back before its time, no retry of its plan is made later than a quarter
/// of an hour after its moment, and none is left out unless the next one follows while an attempt is made.
pub fn early_returns_move_no_plan(world: &ModelWorld, story: &ModelStory) -> LawJudgement {
    let latency = world.mapping.late.end() + world.mapping.takes + world.subscriber.takes.end();
    for life in lives(world, story).iter().filter(|life| life.plan().moved.is_none()) {
        // Four days may have counted.
        if life.archived().iter().any(|(reason, _)| *reason == ArchiveReason::Expiring) {
            continue;
        }
        let attempts = life.attempts();
        let delivered = attempts.iter().find(|attempt| attempt.delivered).map(|attempt| attempt.number);
        let last = delivered.unwrap_or(world.schedule.retries);
        for number in life.plan().spent + 1..=last {
            let made = attempts.iter().find(|attempt| attempt.number == number);
            let point = life.point(number);
            let Some(made) = made else {
                if number < last && life.wait(number + 1) <= 2 * latency + 2 * SECOND {
                    continue;
                }
                return life.fault(&format!("retry {number} was not made"));
            };
            if made.begin > point + 15 * MINUTE {
                return life.fault(&format!("retry {number} was planned for {point}"));
            }
        }
    }
    Ok(())
}

/// Promise P4: a queue that does not tell its retention costs no retry and adds none. When it tells it at last,
/// each letter may come back once before its time.
pub fn unread_retentions_add_no_attempts(world: &ModelWorld, story: &ModelStory) -> LawJudgement {
    for life in lives(world, story).iter().filter(|life| life.plan().moved.is_none()) {
        let left = usize::try_from(world.schedule.retries - life.plan().spent).unwrap();
        let made = life.attempts().len();
        if made > left + 2 * life.messages().len() {
            return life.fault(&format!("{made} attempts, {left} were left"));
        }
    }
    Ok(())
}

/// Each letter ends exactly once: it is delivered or archived, and never both.
pub fn each_letter_ends_once(world: &ModelWorld, story: &ModelStory) -> LawJudgement {
    for life in lives(world, story) {
        let deliveries = life.attempts().iter().filter(|attempt| attempt.delivered).count();
        if deliveries + life.archived().len() != 1 {
            return life.fault("does not end exactly once");
        }
    }
    Ok(())
}

/// Promise P6: within one queue, no letter of a group is attempted while an earlier one of the group lies
/// there undelivered and not archived. So first deliveries keep their order.
pub fn groups_keep_their_order(world: &ModelWorld, story: &ModelStory) -> LawJudgement {
    let lives = lives(world, story);
    let mut groups: BTreeMap<(bool, u32), BTreeMap<u64, usize>> = BTreeMap::new();
    for fact in &story.journal.facts {
        let key = (fact.message.requeue, world.letters[fact.who].group);
        groups.entry(key).or_default().insert(fact.message.number, fact.who);
    }
    for ((requeue, _), members) in groups {
        // The time from which each message no longer holds its group.
        let mut gone: Vec<(ModelMillis, usize)> = Vec::new();
        for (number, who) in members {
            let life = &lives[who];
            let message = ModelMessage { requeue, number };
            let begins =
                life.attempts().into_iter().filter(|one| one.message == message).map(|one| one.begin);
            if let Some(begin) = begins.min()
                && let Some((_, earlier)) = gone.iter().find(|(gone, _)| begin < *gone)
            {
                let earlier = lives[*earlier].fault("").unwrap_err();
                return life.fault(&format!("passed an earlier one of its group, {earlier}"));
            }
            let ends = life.facts.iter().filter_map(|fact| match fact.what {
                FactKind::Attempt { end, delivered: true, .. } => Some(end),
                FactKind::Archived { .. } | FactKind::Lost => Some(fact.at),
                // The letter steps aside while the batch goes on. The journal notes at the batch's end that
                // it was sent.
                FactKind::Moved { .. } if fact.message == message => Some(stepped_aside(life, fact)),
                _ => None,
            });
            gone.push((ends.min().unwrap_or(ModelMillis::MAX), who));
        }
    }
    Ok(())
}

/// Returns the time when a letter that is moved stepped aside: after its last attempt.
fn stepped_aside(life: &StoryLife<'_>, moved: &StoryFact) -> ModelMillis {
    let ends = life.attempts().into_iter().filter(|one| one.message == moved.message && one.end <= moved.at);
    ends.map(|one| one.end).max().unwrap_or(moved.at)
}

/// Returns the number of letters in flight that the function may not know of: those that are hidden while its
/// number is old (up to a minute old when it is read, and kept for up to another), and those that are being
/// handled.
pub fn unknown_in_flight(world: &ModelWorld, story: &ModelStory, requeue: bool) -> usize {
    let hidden = |fact: &&StoryFact| {
        fact.message.requeue == requeue && matches!(fact.what, FactKind::Hidden { until } if until > fact.at)
    };
    let mut hidden: Vec<ModelMillis> =
        story.journal.facts.iter().filter(hidden).map(|fact| fact.at).collect();
    hidden.sort_unstable();
    let within = |(index, begin): (usize, &ModelMillis)| {
        hidden.partition_point(|at| *at <= begin + world.dlq.lag + MINUTE) - index
    };
    let most = hidden.iter().enumerate().map(within).max().unwrap_or(0);
    let handled = world.mapping.batch * world.mapping.instances as usize;
    most + handled
}

/// With spill on, a queue has no more in flight than the three quarters up to which letters are hidden, plus
/// the letters that the function may not know of. So it stays below its limit while these are fewer than a
/// quarter.
pub fn spill_bounds_what_is_in_flight(world: &ModelWorld, story: &ModelStory) -> LawJudgement {
    for (requeue, queue) in [(false, Some(&story.dlq)), (true, story.requeue.as_ref())] {
        let Some(queue) = queue else { continue };
        let believed = usize::try_from(world.believed_limit).unwrap();
        let bound = believed / 4 * 3 + unknown_in_flight(world, story, requeue);
        let (peak, limit) = (queue.messages.peak, queue.messages.settings.in_flight);
        if peak > bound || (bound < limit && peak >= limit) {
            return Err(format!("{peak} in flight, at most {bound} expected (requeue: {requeue})"));
        }
    }
    Ok(())
}

/// Returns the longest time that a letter lay in its queue, due and not received.
pub fn longest_overdue(world: &ModelWorld, story: &ModelStory) -> ModelMillis {
    let mut longest = 0;
    for life in lives(world, story) {
        for message in life.messages() {
            let mut visible = None;
            for fact in life.about(message) {
                match fact.what {
                    FactKind::Sent { due } => visible = Some(due.unwrap_or(fact.at).max(fact.at)),
                    FactKind::Hidden { until } | FactKind::HiddenForInvocation { until } => {
                        visible = Some(until);
                    }
                    FactKind::Received { .. } => {
                        longest = longest.max(fact.at - visible.take().unwrap_or(fact.at));
                    }
                    _ => {}
                }
            }
            longest = longest.max(story.end - visible.unwrap_or(story.end));
        }
    }
    longest
}
