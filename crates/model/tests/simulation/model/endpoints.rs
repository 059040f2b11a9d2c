//! Worlds with several subscribers, and their laws.

use proptest::prelude::*;
use redrive_core::batch::IN_FLIGHT_LIMIT;
use redrive_core::policy::OverrideAction;

use super::journal::{FactKind, StoryFact};
use super::life::LawJudgement;
use super::operator::{ModelOperator, TimedOverride};
use super::simulation::ModelStory;
use super::world::{ArrivalPlan, FailureStyle, ModelMapping, ModelSubscriber, ModelWorld};
use super::worlds::filling;
use super::{DAY, HOUR, MINUTE, ModelMillis, SECOND};

/// Returns worlds with some healthy subscribers and one that always hangs, the last. Letters for all of them
/// arrive for a quarter of an hour, about as many as the instances can handle if each batch waited for the one
/// that hangs.
pub fn one_dead() -> impl Strategy<Value = ModelWorld> {
    let letters = prop::collection::vec((0..=15 * MINUTE, any::<u64>()), 400..=900);
    (any::<u64>(), letters, 2_usize..=5, 0..=SECOND, 1_u32..=2).prop_map(
        |(seed, letters, healthy, takes, instances)| {
            let plan = |(arrives, to): (ModelMillis, u64)| ArrivalPlan {
                arrives,
                to: usize::try_from(to % u64::try_from(healthy + 1).unwrap()).unwrap(),
                ..ArrivalPlan::default()
            };
            let dead = ModelSubscriber {
                outages: vec![(0, DAY)],
                fails: FailureStyle::Hanging,
                flaky: 0,
                takes: 0..=0,
            };
            let works =
                ModelSubscriber { outages: vec![], fails: FailureStyle::AtOnce, flaky: 0, takes: 0..=takes };
            let mut world = filling(0, IN_FLIGHT_LIMIT, 0);
            (world.seed, world.requeue, world.until) = (seed, None, Some(20 * MINUTE));
            world.letters = letters.into_iter().map(plan).collect();
            world.mapping = ModelMapping { batch: 10, instances, ..world.mapping };
            world.subscriber = works.clone();
            world.others = vec![works; healthy - 1];
            world.others.push(dead);
            world
        },
    )
}

/// Returns worlds with more letters for slow web servers than a batch sends at once, and an operator who
/// holds them.
pub fn crowded() -> impl Strategy<Value = ModelWorld> {
    let hold = (0..=3 * MINUTE, MINUTE..=10 * MINUTE).prop_map(|(from, lasts)| TimedOverride {
        action: OverrideAction::Hold,
        from,
        to: from + lasts,
        about: Vec::new(),
    });
    let letters =
        prop::collection::vec((prop_oneof![3 => Just(0), 1 => 0..=5 * MINUTE], 0_usize..=2), 120..=240);
    (any::<u64>(), letters, prop::collection::vec(hold, 1..=2), 5 * SECOND..=14 * SECOND, 100_usize..=200)
        .prop_map(|(seed, letters, overrides, takes, batch)| {
            let plan = |(arrives, to)| ArrivalPlan { arrives, to, ..ArrivalPlan::default() };
            let slow = ModelSubscriber {
                outages: vec![],
                fails: FailureStyle::AtOnce,
                flaky: 0,
                takes: 4 * SECOND..=takes,
            };
            let mut world = filling(0, IN_FLIGHT_LIMIT, 0);
            (world.seed, world.requeue, world.until) = (seed, None, Some(HOUR));
            world.dlq.visibility = 1_800;
            world.letters = letters.into_iter().map(plan).collect();
            world.mapping = ModelMapping { batch, instances: 1, ..world.mapping };
            world.subscriber = slow.clone();
            world.others = vec![slow; 2];
            world.operator = ModelOperator { overrides, ..ModelOperator::default() };
            world
        })
}

/// Promise P9: while the last subscriber hangs, the letters of all others are delivered as if that one were not
/// there: from the second minute on, at least nine tenths of them.
pub fn a_dead_endpoint_starves_no_other(world: &ModelWorld, story: &ModelStory) -> LawJudgement {
    let dead = world.others.len();
    let mut alone = world.clone();
    alone.letters.retain(|plan| plan.to != dead);
    let undisturbed = alone.live();
    let delivered = |story: &ModelStory, until: ModelMillis| {
        let in_time = |fact: &&StoryFact| match fact.what {
            FactKind::Attempt { delivered: true, end, .. } => (MINUTE..until).contains(&end),
            _ => false,
        };
        story.journal.facts.iter().filter(in_time).count()
    };
    // Those that are under way at both ends of a minute.
    let edge = world.mapping.batch * usize::try_from(world.mapping.instances).unwrap();
    for minute in 2..=15 {
        let [expected, made] = [&undisturbed, story].map(|story| delivered(story, minute * MINUTE));
        if made * 10 + edge * 10 < expected * 9 {
            return Err(format!("{made} of {expected} healthy letters delivered by minute {minute}"));
        }
    }
    Ok(())
}
