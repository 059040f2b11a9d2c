//! What must be true of every story.
//!
//! Each law answers with the first letter that breaks it, and its whole life.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use redrive_core::batch::MAX_DELAY;
use redrive_core::policy::{ArchiveReason, OrderAction, expiry_margin};

use super::journal::{Fact, Idle, Message, What};
use super::queue::Queue;
use super::world::{Story, World};
use super::{MINUTE, Millis, SECOND, seconds};

/// A broken law, in words.
pub type Judged = Result<(), String>;

/// A point counts as reached one second early.
const SLACK: Millis = SECOND;

/// One letter's life under a world.
pub struct Life<'s> {
    world: &'s World,
    story: &'s Story,
    who: usize,
    facts: Vec<&'s Fact>,
}

#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    pub message: Message,
    pub number: u32,
    pub planned: Option<Millis>,
    pub begin: Millis,
    pub end: Millis,
    pub delivered: bool,
}

/// Every letter's life.
pub fn lives<'s>(world: &'s World, story: &'s Story) -> Vec<Life<'s>> {
    let mut facts: Vec<Vec<&Fact>> = vec![Vec::new(); world.letters.len()];
    for fact in &story.journal.facts {
        facts[fact.who].push(fact);
    }
    let life = |(who, facts)| Life { world, story, who, facts };
    facts.into_iter().enumerate().map(life).collect()
}

impl Life<'_> {
    pub fn attempts(&self) -> Vec<Attempt> {
        let attempt = |fact: &&Fact| match fact.what {
            What::Attempt { number, planned, end, delivered } => {
                Some(Attempt { message: fact.message, number, planned, begin: fact.at, end, delivered })
            }
            _ => None,
        };
        self.facts.iter().filter_map(attempt).collect()
    }

    pub fn numbers(&self) -> Vec<u32> {
        self.attempts().iter().map(|attempt| attempt.number).collect()
    }

    pub fn archived(&self) -> Vec<(ArchiveReason, Millis)> {
        let archived = |fact: &&Fact| match fact.what {
            What::Archived { reason } => Some((reason, fact.at)),
            _ => None,
        };
        self.facts.iter().filter_map(archived).collect()
    }

    pub fn is_delivered(&self) -> bool {
        self.attempts().iter().any(|attempt| attempt.delivered)
    }

    pub fn moves(&self) -> usize {
        self.facts.iter().filter(|fact| matches!(fact.what, What::Moved { .. })).count()
    }

    /// When a retry may be made at the earliest. A letter that steps aside is shown at once, since FIFO queues delay none;
    /// one that was moved so often that the last second of its wait is left shows a second early. Where its next retry is
    /// due within the second of slack, it is made then, and the next point counts from there. So it is each time that a
    /// letter was not begun in time: it comes back after a second.
    fn earliest(&self, number: u32) -> Millis {
        let moves = i64::try_from(self.moves()).unwrap();
        let early = if self.world.fifo {
            moves
        } else {
            let waits = self.plan().spent + 1..=number;
            let leave_a_second = waits.filter(|k| self.leaves_a_second(*k)).count();
            let came_back = self.facts.iter().filter(|fact| fact.what == What::Idle(Idle::OutOfTime)).count();
            moves.min(i64::try_from(leave_a_second + came_back).unwrap())
        };
        self.point(number) - SLACK * (1 + early)
    }

    /// Whether so little of a wait is left after moves of the longest delay that it falls into the second of slack.
    fn leaves_a_second(&self, k: u32) -> bool {
        let (wait, delay) = (self.wait(k), seconds(MAX_DELAY));
        let latency = self.world.mapping.late.end() + self.world.mapping.takes;
        wait > delay && wait % delay <= SLACK + (wait / delay + 1) * latency
    }

    fn plan(&self) -> &super::world::Plan {
        &self.world.letters[self.who]
    }

    fn wait(&self, k: u32) -> Millis {
        self.world.wait(&self.story.ids[self.who], k)
    }

    /// When SQS took it first; what SQS moves from a standard queue keeps its time.
    fn sent(&self) -> Millis {
        let age = self.plan().moved.filter(|_| !self.world.fifo).map_or(0, |moved| moved.age);
        self.plan().arrives - age
    }

    /// When a retry is planned.
    fn point(&self, number: u32) -> Millis {
        self.sent() + (self.plan().spent + 1..=number).map(|k| self.wait(k)).sum::<Millis>()
    }

    /// When its queue is about to drop it, and how long before that it must not be hidden any more.
    fn safe_until(&self, message: Message) -> Millis {
        let settings = match &self.world.requeue {
            Some(settings) if message.requeue => settings,
            _ => &self.world.dlq,
        };
        let retention = u64::try_from(settings.retention).unwrap();
        let since =
            if message.requeue && self.plan().spent == 0 { self.sent() } else { self.sent_in_dlq(message) };
        since + seconds(retention - expiry_margin(retention))
    }

    /// A mark's first arrival counts in the requeue.
    fn sent_in_dlq(&self, message: Message) -> Millis {
        if message.requeue { self.plan().arrives } else { self.sent() }
    }

    /// Whether an order of this kind is ever given of it.
    fn is_ordered(&self, action: OrderAction) -> bool {
        let orders = &self.world.operator.orders;
        orders.iter().any(|given| given.action == action && given.is_about(self.who))
    }

    fn count(&self, matches: impl Fn(&What) -> bool) -> usize {
        self.facts.iter().filter(|fact| matches(&fact.what)).count()
    }

    fn fault(&self, what: &str) -> Judged {
        let mut text = format!("letter {}: {what}\n", self.who);
        for fact in &self.facts {
            let place = if fact.message.requeue { "requeue" } else { "dlq" };
            writeln!(text, "  {:>12} {place} #{} {:?}", fact.at, fact.message.number, fact.what).unwrap();
        }
        Err(text)
    }

    /// Whether some wait before the first retry of a message ends so little above a whole number of
    /// ceilings that its last, tiny hiding falls into the second of slack: then that retry is made twice.
    fn ends_in_the_slack(&self, latency: Millis) -> bool {
        let ceiling = seconds(self.world.ceiling);
        let mut firsts: BTreeMap<Message, Millis> = BTreeMap::new();
        for fact in self.facts.iter().filter(|fact| matches!(fact.what, What::Received { .. })) {
            firsts.entry(fact.message).or_insert(fact.at);
        }
        self.facts.iter().any(|fact| {
            let What::Sent { due } = fact.what else { return false };
            let Some(first) = firsts.get(&fact.message) else { return false };
            let wait = due.unwrap_or_else(|| self.point(self.plan().spent + 1)) - first;
            let hops = wait / ceiling;
            hops > 0 && wait % ceiling <= SLACK + (hops + 1) * latency
        })
    }

    fn messages(&self) -> BTreeSet<Message> {
        self.facts.iter().map(|fact| fact.message).collect()
    }

    fn about(&self, message: Message) -> impl Iterator<Item = &&Fact> {
        self.facts.iter().filter(move |fact| fact.message == message)
    }
}

/// P1: every letter is delivered, archived, or still queued; and a message is deleted only after its letter
/// is safe elsewhere.
pub fn every_letter_is_accounted_for(world: &World, story: &Story) -> Judged {
    let queued: BTreeSet<usize> =
        story.dlq.whose().chain(story.requeue.iter().flat_map(Queue::whose)).collect();
    for life in lives(world, story) {
        let lost = life.facts.iter().any(|fact| fact.what == What::Lost);
        if !(life.is_delivered() || !life.archived().is_empty() || queued.contains(&life.who) || lost) {
            return life.fault("vanished");
        }
        for message in life.messages() {
            let mut safe = false;
            for fact in life.about(message) {
                safe |= matches!(
                    fact.what,
                    What::Attempt { delivered: true, .. } | What::Archived { .. } | What::Moved { .. }
                );
                if fact.what == What::Deleted && !safe {
                    return life.fault("deleted before it was safe elsewhere");
                }
            }
        }
    }
    Ok(())
}

/// P4: SQS drops nothing that the function saw, undisturbed, within the margin before; and nothing is
/// hidden into that margin.
pub fn nothing_is_lost_that_was_seen_in_time(world: &World, story: &Story) -> Judged {
    for life in lives(world, story) {
        for message in life.messages() {
            let safe = life.safe_until(message);
            let facts: Vec<_> = life.about(message).collect();
            for (index, fact) in facts.iter().enumerate() {
                // The rest of a second is rounded up. What the archive did not take is given to it again.
                let unarchived = index > 0 && facts[index - 1].what == What::NotArchived;
                if let What::Hidden { until } = fact.what
                    && until > fact.at
                    && until > safe + SECOND
                    && !unarchived
                {
                    return life.fault(&format!("hidden until {until}, safe is {safe}"));
                }
            }
            let is_safe = facts.iter().any(|fact| {
                matches!(fact.what, What::Attempt { delivered: true, .. } | What::Archived { .. })
            });
            let is_lost = !is_safe && facts.last().is_some_and(|fact| fact.what == What::Lost);
            let seen = facts.iter().rposition(|fact| matches!(fact.what, What::Received { .. }));
            let Some(seen) = seen.filter(|seen| is_lost && facts[*seen].at >= safe) else { continue };
            let disturbed = facts[seen..].iter().any(|fact| {
                matches!(fact.what, What::Idle(_) | What::Held | What::NotArchived | What::NotHidden)
            });
            if !disturbed {
                return life.fault("lost, though the function saw it in time");
            }
        }
    }
    Ok(())
}

/// Where the function always runs, nothing is ever lost.
pub fn nothing_is_lost(world: &World, story: &Story) -> Judged {
    for life in lives(world, story) {
        let safe = life.is_delivered() || !life.archived().is_empty();
        if !safe && life.facts.iter().any(|fact| fact.what == What::Lost) {
            return life.fault("lost");
        }
    }
    Ok(())
}

/// P2 and P4: `exhausted` only after the last retry has failed, and not before its time; `expiring` only
/// where the next waking would fall into the margin.
pub fn nothing_is_archived_early(world: &World, story: &Story) -> Judged {
    let last = world.schedule.retries;
    for life in lives(world, story) {
        let longest = (1..=last).map(|k| life.wait(k)).max().unwrap_or(0);
        for (index, fact) in life.facts.iter().enumerate() {
            let What::Archived { reason } = fact.what else { continue };
            let before = &life.facts[..index];
            match reason {
                ArchiveReason::Exhausted => {
                    let failed = before.iter().any(|one| {
                        one.message == fact.message
                            && matches!(one.what, What::Attempt { number, planned: None, .. } if number == last)
                    });
                    if !failed || fact.at < life.earliest(last) {
                        return life.fault("exhausted too early");
                    }
                }
                ArchiveReason::Expiring => {
                    // Decided up to a batch's time before; a throttle policy puts off by ten minutes at most.
                    // One that was not begun in time would show again with its queue's own timeout.
                    let trouble = world.trouble.out_of_time > 0 || world.trouble.put_off;
                    let shows = if trouble { seconds(world.dlq.visibility) } else { 0 };
                    let wait = longest.min(seconds(world.ceiling)).max(seconds(600)).max(shows);
                    if fact.at + wait + SECOND <= life.safe_until(fact.message) {
                        return life.fault("expiring too early");
                    }
                }
                ArchiveReason::Ordered if life.is_ordered(OrderAction::Archive) => {}
                other => return life.fault(&format!("archived as {other:?}")),
            }
        }
    }
    Ok(())
}

/// P2, whatever happens: no retry before its planned moment, none after a later one, none beyond the last,
/// and no archive without an attempt but at the end of the retention.
pub fn attempts_are_honest(world: &World, story: &Story) -> Judged {
    for life in lives(world, story) {
        for message in life.messages() {
            let attempts: Vec<_> = life.attempts().into_iter().filter(|one| one.message == message).collect();
            if !attempts.is_sorted_by_key(|attempt| attempt.number) {
                return life.fault("a retry after a later one");
            }
        }
        for attempt in life.attempts() {
            if let Some(planned) = attempt.planned {
                if !life.is_ordered(OrderAction::Retry) || planned <= attempt.begin - SECOND {
                    return life.fault("an attempt ahead of a retry that nobody ordered");
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

/// P2, undisturbed: each retry once, numbered without a gap, at its time. Being moved to the requeue, and
/// on within it, is no disturbance.
pub fn undisturbed_letters_get_each_retry_once(world: &World, story: &Story) -> Judged {
    let latency = world.mapping.late.end() + world.mapping.takes + world.subscriber.takes.end();
    lives(world, story).iter().try_for_each(|life| each_retry_once(life, latency))
}

/// The same of the first of each FIFO group: those behind it must not hold it up.
pub fn heads_of_groups_get_each_retry_once(world: &World, story: &Story) -> Judged {
    let rounds = i64::try_from(world.mapping.batch).unwrap();
    let latency = world.mapping.late.end() + world.mapping.takes + rounds * world.subscriber.takes.end();
    let lives = lives(world, story);
    let mut heads: BTreeMap<u32, &Life<'_>> = BTreeMap::new();
    for life in &lives {
        let head = heads.entry(life.plan().group).or_insert(life);
        if life.plan().arrives < head.plan().arrives {
            *head = life;
        }
    }
    heads.into_values().try_for_each(|head| each_retry_once(head, latency))
}

fn each_retry_once(life: &Life<'_>, latency: Millis) -> Judged {
    let world = life.world;
    let (first, last) = (life.plan().spent + 1, world.schedule.retries);
    if life.plan().moved.is_some_and(|moved| moved.keeps_first_receive) {
        // SQS counted the source queue's time too: an attempt more, never one fewer.
        let numbers: BTreeSet<u32> = life.numbers().into_iter().collect();
        if !life.is_delivered() && !numbers.into_iter().eq(first..=last) {
            return life.fault("a moved letter lacks attempts");
        }
        return Ok(());
    }
    let attempts = life.attempts();
    let delivered = life.is_delivered();
    let made = u32::try_from(attempts.len()).unwrap();
    let numbers: Vec<u32> = attempts.iter().map(|attempt| attempt.number).collect();
    if life.ends_in_the_slack(latency) {
        // The first retry of each stay in a queue may be made twice; none is left out.
        let mut distinct = numbers.clone();
        distinct.dedup();
        let whole = distinct.iter().copied().eq(first..first + u32::try_from(distinct.len()).unwrap());
        let repeated = numbers.len() - distinct.len();
        if !whole || repeated > life.messages().len() || (!delivered && distinct.last() != Some(&last)) {
            return life.fault(&format!("retries {numbers:?} of {last}, the first of which may repeat"));
        }
        return Ok(());
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
    // Hops count from the planned moments, so what attempts took before is made up for there.
    let hops = |wait: Millis| wait.div_euclid(seconds(world.ceiling)) + 1;
    let earliest_first = life.point(first) - SLACK;
    let latest_first = life.point(first).max(life.plan().arrives) + SECOND + latency * hops(life.wait(first));
    if let Some(attempt) = attempts.first()
        && !(earliest_first..=latest_first).contains(&attempt.begin)
    {
        return life.fault("its first retry is not on time");
    }
    for pair in attempts.windows(2) {
        let wait = life.wait(pair[1].number);
        let least = pair[0].end + wait.min(seconds(world.ceiling)) - SLACK;
        let most = pair[0].end + wait + SECOND + latency * hops(wait);
        if !(least..=most).contains(&pair[1].begin) {
            return life.fault(&format!("retry {} is not on time: {least}..{most}", pair[1].number));
        }
    }
    Ok(())
}

/// P2, with an order to retry in force and letters woken at any time: no attempt is lost by it.
pub fn orders_lose_no_attempt(world: &World, story: &Story) -> Judged {
    for life in lives(world, story).iter().filter(|life| !life.is_delivered()) {
        let attempts = life.attempts();
        let (spent, last) = (life.plan().spent, world.schedule.retries);
        if attempts.len() < usize::try_from(last - spent).unwrap() {
            return life.fault(&format!("{} attempts, {spent} of {last} were behind it", attempts.len()));
        }
        if !attempts.iter().any(|attempt| attempt.number == last && attempt.planned.is_none()) {
            return life.fault("its last retry was not made");
        }
    }
    Ok(())
}

/// An attempt on an order that fails leaves the next planned moment where it was, to the second.
pub fn orders_keep_the_plan(world: &World, story: &Story) -> Judged {
    let latency = world.mapping.late.end() + world.mapping.takes + SECOND;
    for life in lives(world, story) {
        for message in life.messages() {
            let facts: Vec<_> = life.about(message).collect();
            for (index, fact) in facts.iter().enumerate() {
                let What::Attempt { number, planned: Some(planned), end, delivered: false } = fact.what
                else {
                    continue;
                };
                if life.moves() == 0 && planned != life.point(number + 1) {
                    let point = life.point(number + 1);
                    return life
                        .fault(&format!("retry {} is planned for {planned}, not {point}", number + 1));
                }
                let later = &facts[index + 1..];
                let waits = later.iter().find_map(|fact| match fact.what {
                    What::Waits { due, .. } => Some(due),
                    _ => None,
                });
                if waits.is_some_and(|due| due != planned) {
                    return life.fault(&format!("waits for another moment than {planned}"));
                }
                let next = later.iter().find_map(|fact| match fact.what {
                    What::Attempt { planned: None, .. } => Some(fact.at),
                    _ => None,
                });
                if next.is_some_and(|next| next < planned - SLACK) {
                    return life.fault(&format!("a retry before {planned}"));
                }
                let received = later.iter().find(|fact| matches!(fact.what, What::Received { .. }));
                let ceiling = end + seconds(world.ceiling);
                if received.is_none_or(|fact| fact.at > planned.max(end).min(ceiling) + latency) {
                    return life.fault(&format!("was not seen again at {planned}"));
                }
            }
        }
    }
    Ok(())
}

/// An order in force and wakes at any time repeat no number: what comes ahead of the plan has none.
pub fn orders_repeat_no_number(world: &World, story: &Story) -> Judged {
    let latency = world.mapping.late.end() + world.mapping.takes + world.subscriber.takes.end();
    for life in lives(world, story) {
        let numbered = life.attempts().into_iter().filter(|attempt| attempt.planned.is_none());
        let numbers: Vec<u32> = numbered.map(|attempt| attempt.number).collect();
        let twice = life.plan().moved.is_some() || life.ends_in_the_slack(latency);
        if !twice && numbers.windows(2).any(|pair| pair[0] >= pair[1]) {
            return life.fault(&format!("retries {numbers:?}"));
        }
    }
    Ok(())
}

/// No hot loop: a letter is received for its plan and for each time that it is woken, and no more often.
pub fn orders_make_no_hot_loop(world: &World, story: &Story) -> Judged {
    for life in lives(world, story) {
        let hops = |k| life.wait(k).div_euclid(seconds(world.ceiling)) + 2;
        let planned: i64 = (life.plan().spent + 1..=world.schedule.retries).map(hops).sum();
        let woken = life.count(|what| *what == What::Woken);
        let receives = life.count(|what| matches!(what, What::Received { .. }));
        let most = usize::try_from(planned).unwrap() + 2 * woken + 2;
        if receives > most {
            return life.fault(&format!("received {receives} times, at most {most} expected"));
        }
    }
    Ok(())
}

/// No attempt is made of what an order holds, but by an invocation that began before its instance could know.
pub fn holds_hold(world: &World, story: &Story) -> Judged {
    let unknown = 15 * SECOND + super::function::timeout(world);
    for life in lives(world, story) {
        for given in world.operator.orders.iter().filter(|given| given.is_about(life.who)) {
            let held = given.from + unknown..given.to;
            let made = life.attempts().into_iter().any(|attempt| held.contains(&attempt.begin));
            if given.action == OrderAction::Hold && made {
                return life.fault(&format!("an attempt while it is held, {held:?}"));
            }
        }
    }
    Ok(())
}

/// Nobody gets a letter twice, nor is it archived after that.
pub fn each_letter_ends_once(world: &World, story: &Story) -> Judged {
    for life in lives(world, story) {
        let deliveries = life.attempts().iter().filter(|attempt| attempt.delivered).count();
        if deliveries + life.archived().len() != 1 {
            return life.fault("does not end exactly once");
        }
    }
    Ok(())
}

/// P6: within one queue, no letter of a group is attempted while an earlier one of the group lies there
/// undelivered and not archived. So first deliveries keep their order.
pub fn groups_keep_their_order(world: &World, story: &Story) -> Judged {
    let lives = lives(world, story);
    let mut groups: BTreeMap<(bool, u32), BTreeMap<u64, usize>> = BTreeMap::new();
    for fact in &story.journal.facts {
        let key = (fact.message.requeue, world.letters[fact.who].group);
        groups.entry(key).or_default().insert(fact.message.number, fact.who);
    }
    for ((requeue, _), members) in groups {
        // From when on each message does not hold its group any more.
        let mut gone: Vec<Millis> = Vec::new();
        for (number, who) in members {
            let life = &lives[who];
            let message = Message { requeue, number };
            let begins = life.attempts().into_iter().filter(|one| one.message == message);
            if begins.map(|one| one.begin).any(|begin| gone.iter().any(|gone| begin < *gone)) {
                return life.fault("passed an earlier one of its group");
            }
            let ends = life.facts.iter().filter_map(|fact| match fact.what {
                What::Attempt { end, delivered: true, .. } => Some(end),
                What::Archived { .. } | What::Lost => Some(fact.at),
                // It steps aside while the batch goes on; that it is sent is noted at the batch's end.
                What::Moved { .. } if fact.message == message => Some(stepped_aside(life, fact)),
                _ => None,
            });
            gone.push(ends.min().unwrap_or(Millis::MAX));
        }
    }
    Ok(())
}

/// When a letter that is moved stepped aside: after its last attempt.
fn stepped_aside(life: &Life<'_>, moved: &Fact) -> Millis {
    let ends = life.attempts().into_iter().filter(|one| one.message == moved.message && one.end <= moved.at);
    ends.map(|one| one.end).max().unwrap_or(moved.at)
}

/// What the function may not know of: what is hidden while its number in flight is old (a minute when it is
/// read, and kept for up to another), and what is being handled.
pub fn unknown_in_flight(world: &World, story: &Story, requeue: bool) -> usize {
    let hidden = |fact: &&Fact| {
        fact.message.requeue == requeue && matches!(fact.what, What::Hidden { until } if until > fact.at)
    };
    let mut hidden: Vec<Millis> = story.journal.facts.iter().filter(hidden).map(|fact| fact.at).collect();
    hidden.sort_unstable();
    let within = |(index, begin): (usize, &Millis)| {
        hidden.partition_point(|at| *at <= begin + world.dlq.lag + MINUTE) - index
    };
    let most = hidden.iter().enumerate().map(within).max().unwrap_or(0);
    let handled = world.mapping.batch * world.mapping.instances as usize;
    most + handled
}

/// With spill on, a queue has no more in flight than the three quarters up to which letters are hidden, and
/// what the function may not know of. So it stays below its limit while that is less than a quarter.
pub fn spill_bounds_what_is_in_flight(world: &World, story: &Story) -> Judged {
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

/// The longest that a letter lay in its queue, due and not received.
pub fn longest_overdue(world: &World, story: &Story) -> Millis {
    let mut longest = 0;
    for life in lives(world, story) {
        for message in life.messages() {
            let mut visible = None;
            for fact in life.about(message) {
                match fact.what {
                    What::Sent { due } => visible = Some(due.unwrap_or(fact.at).max(fact.at)),
                    What::Hidden { until } | What::HiddenForInvocation { until } => visible = Some(until),
                    What::Received { .. } => {
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
