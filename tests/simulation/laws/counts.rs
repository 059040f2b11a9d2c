//! What laws count: the events that excuse an attempt more or less, and the spans of overrides.

use redrive_core::policy::OverrideAction;
use redrive_laws::letters::{FaultSubject, LifeEvent, RunEnd, TimedFact};
use redrive_sim::SimMillis;

use crate::lives::{Attempt, Life};
use crate::world::{SECOND, SeededDocument, SeededFault, SeededSource, SeededSubscriberKind};

/// A broken law, in words.
pub type LawResult = Result<(), String>;

/// The slack of points in time: a point counts as reached one second early.
pub const SLACK: SimMillis = SECOND;

/// The time after which an override counts, including the time of a reading.
pub const HEARD: SimMillis = 16 * SECOND;

/// The time for which an instance obeys an override to retry or to give up that it can no longer read.
pub const OBEYED_UNREAD: SimMillis = 600 * SECOND;

/// Returns the spans in which an override of this kind about the letter was in a readable document and in force.
/// An instance may obey it for `patience` longer after an unreadable document replaced it.
pub fn overridden(
    life: &Life<'_>,
    action: OverrideAction,
    patience: SimMillis,
) -> Vec<(SimMillis, SimMillis)> {
    let start = life.story.start;
    let writes = &life.world.operator.writes;
    let mut all = Vec::new();
    for (place, (at, document)) in writes.iter().enumerate() {
        let SeededDocument::Override(override_) = document else { continue };
        if override_.action != action || override_.letter.is_some_and(|letter| letter != life.letter) {
            continue;
        }
        let next = writes.get(place + 1);
        let replaced = next.map_or(SimMillis::MAX / 2, |(at, document)| match document {
            SeededDocument::Broken => {
                let good = writes[place + 1..].iter().find(|(_, it)| !matches!(it, SeededDocument::Broken));
                (at + patience).min(good.map_or(SimMillis::MAX / 2, |(at, _)| *at))
            }
            _ => *at,
        });
        let ends = override_.lasts.map_or(SimMillis::MAX / 2, |lasts| at + lasts);
        all.push((start + at, start + replaced.min(ends)));
    }
    all
}

/// Returns the attempts that an override of this kind may have caused.
pub fn on_override(life: &Life<'_>, action: OverrideAction) -> Vec<Attempt> {
    let (skew, spans) = (life.world.skew(), overridden(life, action, OBEYED_UNREAD));
    let is = |attempt: &Attempt| {
        spans.iter().any(|(from, to)| (from - skew..=to + HEARD + skew).contains(&attempt.at))
    };
    life.attempts().into_iter().filter(is).collect()
}

/// Returns the number of events after which a letter may be handled once more.
pub fn causes(life: &Life<'_>) -> usize {
    // A slow request may be cut off after it has had its effect.
    life.disturbed(&[FaultSubject::Unheard, FaultSubject::Delete, FaultSubject::Slow])
        + life.deaths()
        + life.copies()
}

/// Returns the number of attempts by an instance whose clock is behind that of the one that hid the letter before. It
/// takes the planned moment for an early return, and its attempt has no number.
pub fn by_slow_clocks(life: &Life<'_>) -> usize {
    let is_behind = |attempt: &&Attempt| {
        let mut before = life.facts.iter().rev().filter(|fact| fact.order < attempt.order);
        let hidden = before.find(|fact| matches!(fact.what, LifeEvent::Hidden { done: true, .. }));
        let ahead = |run: usize| life.story.runs[run].ahead;
        hidden.and_then(|fact| fact.run).is_some_and(|run| ahead(attempt.run) + SLACK < ahead(run))
    };
    life.attempts().iter().filter(is_behind).count()
}

/// Returns how often the first retry may be repeated. A batching window delivers a letter after its receive,
/// and a clock that is ahead shows a later time. So the first receive can make an attempt although it came
/// before the planned moment.
pub fn first_twice(life: &Life<'_>) -> usize {
    let first =
        |is: fn(&LifeEvent) -> bool| life.facts.iter().find(|fact| is(&fact.what)).map(|fact| fact.at);
    let sent = first(|what| matches!(what, LifeEvent::Queued { .. }));
    let received = first(|what| matches!(what, LifeEvent::Received { .. }));
    let (Some(sent), Some(received)) = (sent, received) else { return 0 };
    let may_be_late = life.world.mapping.window > 0 || life.world.skew() > SLACK;
    usize::from(may_be_late && received + SLACK < sent + life.world.wait(1).0)
}

/// Returns how often the first retry of a letter that SQS moved may be repeated. SQS's time of the first receive is
/// that in the source queue, so the letter seems to have been received before that retry here too.
pub fn brought_along(life: &Life<'_>) -> usize {
    let messages = life.carried();
    let (SeededSource::Queue, Some((sent, _, _))) = (life.world.source, messages.first()) else { return 0 };
    let (longest, shortest) = life.world.wait(1);
    let before = |fact: &&TimedFact| {
        let is_received = matches!(fact.what, LifeEvent::Received { .. });
        is_received && fact.at < sent.at + shortest - SLACK - life.world.skew()
    };
    let ceiling = SimMillis::try_from(life.world.ceiling).unwrap() * SECOND;
    let expected = usize::try_from((longest + ceiling - 1) / ceiling).unwrap();
    expected.saturating_sub(life.facts.iter().filter(before).count())
}

/// Returns how many retries may be repeated since a letter came late: the receives that its schedule expects did not
/// take place.
pub fn repeated(life: &Life<'_>) -> usize {
    let is_late = !life.world.mapping.off.is_empty() || caused(life, usize::MAX) > 0;
    if is_late { hops(life) } else { 0 }
}

/// Returns the number of receives before a place in the journal after which something kept the letter from an attempt.
fn caused(life: &Life<'_>, before: usize) -> usize {
    let kept = is_kept_from_attempts(life);
    let attempts = life.attempts();
    let mut count = 0;
    for fact in life.facts.iter().filter(|fact| fact.order < before) {
        if !matches!(fact.what, LifeEvent::Received { .. }) {
            continue;
        }
        let mut after = life.facts.iter().filter(|it| it.order > fact.order && it.message == fact.message);
        let next = after.find(|it| matches!(it.what, LifeEvent::Handed | LifeEvent::Received { .. }));
        let run = next.and_then(|it| it.run);
        let ran = run.is_some_and(|run| life.ledger.runs()[run].ending == RunEnd::Heard);
        let attempted = attempts.iter().any(|attempt| Some(attempt.run) == run);
        count += usize::from(!attempted && (kept || !ran));
    }
    count
}

/// Reports whether something may keep a letter from its attempt at any receive.
pub fn is_kept_from_attempts(life: &Life<'_>) -> bool {
    let world = life.world;
    // A clock that is behind takes a letter for early.
    world.hangs()
        || world.skew() > SLACK
        || is_left_alone(life)
        || !life.is_first_of_group()
        || world.rate.is_some()
        || life.disturbed(&[FaultSubject::Read, FaultSubject::Hide]) > 0
        || life.copies() > 0
        // While it has never read the overrides, an instance attempts nothing for ten minutes.
        || world.operator.writes.iter().any(|(_, document)| matches!(document, SeededDocument::Broken))
        || !overridden(life, OverrideAction::Hold, OBEYED_UNREAD).is_empty()
}

/// Returns the least number of attempts before a place in the journal at which a letter is exhausted: its retries,
/// less the receives that something kept from their attempt.
pub fn owed(life: &Life<'_>, before: usize) -> usize {
    let retries = usize::try_from(life.world.schedule.retries).unwrap();
    retries.saturating_sub(caused(life, before)).max(1).saturating_sub(unseen_attempts(life))
}

/// Returns how many attempts may have failed without a call to the endpoint: a subscription could not be looked up.
pub fn unseen_attempts(life: &Life<'_>) -> usize {
    life.disturbed(&[FaultSubject::Read])
}

/// Returns how often a letter was received without an attempt.
pub fn hops(life: &Life<'_>) -> usize {
    let received = life.count(|what| matches!(what, LifeEvent::Received { .. }));
    received.saturating_sub(life.attempts().len())
}

/// Reports whether the endpoint costs time in one of its outages, and is left alone for a while then.
pub fn is_left_alone(life: &Life<'_>) -> bool {
    let one = &life.world.subscribers[life.subscriber];
    one.weather.iter().any(|outage| match outage.how {
        SeededFault::Down
        | SeededFault::Refused
        | SeededFault::Throttled
        | SeededFault::Hangs
        | SeededFault::Mute => true,
        // Without entries the whole call fails.
        SeededFault::EachFails => {
            matches!(one.kind, SeededSubscriberKind::Function | SeededSubscriberKind::Server)
        }
        SeededFault::Denied | SeededFault::Slow | SeededFault::Never => false,
    })
}
