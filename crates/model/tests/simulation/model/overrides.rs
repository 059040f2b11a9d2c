//! The laws of every story with an operator in it.

use redrive_core::policy::OverrideAction;

use super::journal::FactKind;
use super::life::{LawJudgement, MODEL_CLOCK_TOLERANCE, lives};
use super::simulation::ModelStory;
use super::world::ModelWorld;
use super::{SECOND, seconds};

/// Promise P2, with an override to retry in force and letters woken at any time: no attempt is lost by it.
pub fn overrides_lose_no_attempt(world: &ModelWorld, story: &ModelStory) -> LawJudgement {
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

/// An attempt on an override that fails does not change the next planned time, to the second.
pub fn overrides_keep_the_plan(world: &ModelWorld, story: &ModelStory) -> LawJudgement {
    let latency = world.mapping.late.end() + world.mapping.takes + SECOND;
    for life in lives(world, story) {
        for message in life.messages() {
            let facts: Vec<_> = life.about(message).collect();
            for (index, fact) in facts.iter().enumerate() {
                let FactKind::Attempt { number, planned: Some(planned), end, delivered: false, .. } =
                    fact.what
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
                    FactKind::Waits { due, .. } => Some(due),
                    _ => None,
                });
                if waits.is_some_and(|due| due != planned) {
                    return life.fault(&format!("waits for another moment than {planned}"));
                }
                let next = later.iter().find_map(|fact| match fact.what {
                    FactKind::Attempt { planned: None, .. } => Some(fact.at),
                    _ => None,
                });
                if next.is_some_and(|next| next < planned - MODEL_CLOCK_TOLERANCE) {
                    return life.fault(&format!("a retry before {planned}"));
                }
                let received = later.iter().find(|fact| matches!(fact.what, FactKind::Received { .. }));
                let ceiling = end + seconds(world.ceiling);
                if received.is_none_or(|fact| fact.at > planned.max(end).min(ceiling) + latency) {
                    return life.fault(&format!("was not seen again at {planned}"));
                }
            }
        }
    }
    Ok(())
}

/// Overrides in force and wakes at any time repeat no number, since attempts ahead of the plan have none.
pub fn overrides_repeat_no_number(world: &ModelWorld, story: &ModelStory) -> LawJudgement {
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

/// Overrides cause no hot loop: a letter is received for its plan and for each time that it is woken, and no
/// more often.
pub fn overrides_make_no_hot_loop(world: &ModelWorld, story: &ModelStory) -> LawJudgement {
    for life in lives(world, story) {
        let hops = |k| life.wait(k).div_euclid(seconds(world.ceiling)) + 2;
        let planned: i64 = (life.plan().spent + 1..=world.schedule.retries).map(hops).sum();
        let woken = life.count(|what| *what == FactKind::Woken);
        let receives = life.count(|what| matches!(what, FactKind::Received { .. }));
        // Letters that find out whether their endpoint is back.
        let scouts = life.count(FactKind::is_scout);
        let most = usize::try_from(planned).unwrap() + 2 * woken + scouts + 2;
        if receives > most {
            return life.fault(&format!("received {receives} times, at most {most} expected"));
        }
    }
    Ok(())
}

/// Promise P10: no attempt begins while a hold is older than a quarter of a minute. This holds within an
/// invocation too, for the letters that wait for their turn or place.
pub fn no_attempt_begins_under_an_old_hold(world: &ModelWorld, story: &ModelStory) -> LawJudgement {
    for life in lives(world, story) {
        for given in world.operator.overrides.iter().filter(|given| given.is_about(life.who)) {
            let held = given.from + 15 * SECOND + 1..given.to;
            let begun = life.attempts().into_iter().find(|attempt| held.contains(&attempt.begin));
            if let Some(attempt) = begun.filter(|_| given.action == OverrideAction::Hold) {
                return life.fault(&format!("an attempt at {} though it is held, {held:?}", attempt.begin));
            }
        }
    }
    Ok(())
}
