//! Many subscribers of which some do not work, or are slow, and what that costs the letters of the others.

use std::fmt::{Display, Formatter, Result};

use redrive_core::batch::IN_FLIGHT_LIMIT;

use super::journal::FactKind;
use super::world::{ArrivalPlan, FailureStyle, ModelMapping, ModelSubscriber, ModelWorld};
use super::worlds::filling;
use super::{DAY, MINUTE, ModelMillis, SECOND, SeededRandom};

/// The time for which letters arrive.
const ARRIVAL_TIME: ModelMillis = 10 * MINUTE;

/// The trouble of some subscribers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrowdTrouble {
    Fails(FailureStyle),
    /// They work, and take so long.
    Slow(ModelMillis),
    /// They refuse after so long.
    Refuses(ModelMillis),
}

/// Subscribers of which some have trouble, and eight letters a second for all of them.
#[derive(Debug, Clone, Copy)]
pub struct SubscriberCrowd {
    pub of: usize,
    pub troubled: usize,
    pub trouble: CrowdTrouble,
    /// The percentage of attempts that fail at those without trouble.
    pub flaky: u8,
}

/// What became of the letters of healthy subscribers that arrived from the second minute on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthyLetters {
    pub letters: usize,
    /// The number that was delivered by the end.
    pub delivered: usize,
    /// The time from arrival to delivery, of the one in the middle and of the last but a hundredth. Those that were not
    /// delivered count as infinite.
    pub median: ModelMillis,
    pub slowest: ModelMillis,
}

impl SubscriberCrowd {
    fn world(self) -> ModelWorld {
        let subscriber = |number: usize| {
            let is_troubled = number >= self.of - self.troubled;
            let works = ModelSubscriber {
                outages: vec![],
                fails: FailureStyle::AtOnce,
                flaky: self.flaky,
                takes: 10..=30,
            };
            match self.trouble {
                _ if !is_troubled => works,
                CrowdTrouble::Slow(takes) => ModelSubscriber { takes: takes..=takes, ..works },
                CrowdTrouble::Refuses(takes) => ModelSubscriber { flaky: 100, takes: takes..=takes, ..works },
                CrowdTrouble::Fails(fails) => ModelSubscriber { outages: vec![(0, DAY)], fails, ..works },
            }
        };
        let mut world = filling(0, IN_FLIGHT_LIMIT, 0);
        let mut chance = SeededRandom::new(7);
        let letters = (0..8 * ARRIVAL_TIME / SECOND).map(|who| {
            let to = chance.index(self.of).unwrap();
            ArrivalPlan { arrives: who * SECOND / 8, to, ..ArrivalPlan::default() }
        });
        world.letters = letters.collect();
        (world.requeue, world.until) = (None, Some(ARRIVAL_TIME));
        world.mapping = ModelMapping { batch: 10, instances: 2, late: 0..=20, takes: 5, ..world.mapping };
        world.subscriber = subscriber(0);
        world.others = (1..self.of).map(subscriber).collect();
        world
    }

    /// Lives through that time.
    pub fn lives(self) -> HealthyLetters {
        let world = self.world();
        let story = world.live();
        let healthy = self.of - self.troubled;
        let mut taken: Vec<_> = world.letters.iter().map(|_| ModelMillis::MAX).collect();
        for fact in &story.journal.facts {
            if let FactKind::Attempt { delivered: true, end, .. } = fact.what {
                taken[fact.who] = end.min(taken[fact.who]);
            }
        }
        let of_healthy =
            world.letters.iter().zip(taken).filter(|(plan, _)| plan.to < healthy && plan.arrives >= MINUTE);
        let mut waits: Vec<_> = of_healthy.map(|(plan, taken)| taken.saturating_sub(plan.arrives)).collect();
        waits.sort_unstable();
        HealthyLetters {
            letters: waits.len(),
            delivered: waits.iter().filter(|wait| **wait <= ARRIVAL_TIME).count(),
            median: waits[waits.len() / 2],
            slowest: waits[waits.len() * 99 / 100],
        }
    }

    /// Reports whether those with trouble work, but slowly.
    pub fn is_slow(self) -> bool {
        matches!(self.trouble, CrowdTrouble::Slow(_))
    }

    /// Returns the crowds of the table.
    pub fn all() -> Vec<Self> {
        let crowd = |troubled, of, trouble| Self { of, troubled, trouble, flaky: 0 };
        let hanging = |troubled, of, fails| crowd(troubled, of, CrowdTrouble::Fails(fails));
        vec![
            hanging(0, 40, FailureStyle::Hanging),
            hanging(1, 5, FailureStyle::Hanging),
            hanging(1, 40, FailureStyle::Hanging),
            hanging(5, 40, FailureStyle::Hanging),
            hanging(20, 40, FailureStyle::Hanging),
            hanging(39, 40, FailureStyle::Hanging),
            crowd(20, 40, CrowdTrouble::Refuses(900)),
            crowd(20, 40, CrowdTrouble::Refuses(100)),
            crowd(1, 5, CrowdTrouble::Slow(10 * SECOND)),
            crowd(10, 40, CrowdTrouble::Slow(3 * SECOND)),
            hanging(1, 5, FailureStyle::LookUpHanging),
            hanging(20, 40, FailureStyle::LookUpHanging),
            hanging(1, 5, FailureStyle::CertificateHanging),
            hanging(20, 40, FailureStyle::CertificateHanging),
        ]
    }
}

impl Display for SubscriberCrowd {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} of {} {:?}", self.troubled, self.of, self.trouble)
    }
}

/// Returns the table of what the crowds cost the letters of others.
pub fn table() -> String {
    let line = |crowd: &SubscriberCrowd| {
        let HealthyLetters { letters, delivered, median, slowest } = crowd.lives();
        format!("{crowd}: {delivered} of {letters}, {median} ms, {slowest} ms\n")
    };
    SubscriberCrowd::all().iter().map(line).collect()
}
