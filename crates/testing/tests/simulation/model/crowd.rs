//! Many subscribers of which some do not work, or are slow, and what that costs the letters of the others.

use std::fmt::{Display, Formatter, Result};

use redrive_core::batch::IN_FLIGHT_LIMIT;

use super::journal::What;
use super::world::{Fails, Mapping, Plan, Subscriber, World};
use super::worlds::filling;
use super::{Chance, DAY, MINUTE, Millis, SECOND};

/// The time for which letters arrive.
const LASTS: Millis = 10 * MINUTE;

/// The trouble of some subscribers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    Fails(Fails),
    /// They work, and take so long.
    Slow(Millis),
    /// They refuse after so long.
    Refuses(Millis),
}

/// Subscribers of which some have trouble, and eight letters a second for all of them.
#[derive(Debug, Clone, Copy)]
pub struct Crowd {
    pub of: usize,
    pub troubled: usize,
    pub trouble: Trouble,
    /// The percentage of attempts that fail at those without trouble.
    pub flaky: u8,
}

/// What became of the letters of healthy subscribers that arrived from the second minute on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Healthy {
    pub letters: usize,
    /// The number that was delivered by the end.
    pub delivered: usize,
    /// The time from arrival to delivery, of the one in the middle and of the last but a hundredth. Those that were not
    /// delivered count as infinite.
    pub median: Millis,
    pub slowest: Millis,
}

impl Crowd {
    fn world(self) -> World {
        let subscriber = |number: usize| {
            let is_troubled = number >= self.of - self.troubled;
            let works =
                Subscriber { outages: vec![], fails: Fails::AtOnce, flaky: self.flaky, takes: 10..=30 };
            match self.trouble {
                _ if !is_troubled => works,
                Trouble::Slow(takes) => Subscriber { takes: takes..=takes, ..works },
                Trouble::Refuses(takes) => Subscriber { flaky: 100, takes: takes..=takes, ..works },
                Trouble::Fails(fails) => Subscriber { outages: vec![(0, DAY)], fails, ..works },
            }
        };
        let mut world = filling(0, IN_FLIGHT_LIMIT, 0);
        let mut chance = Chance::new(7);
        let letters = (0..8 * LASTS / SECOND).map(|who| {
            let to = chance.index(self.of).unwrap();
            Plan { arrives: who * SECOND / 8, to, ..Plan::default() }
        });
        world.letters = letters.collect();
        (world.requeue, world.until) = (None, Some(LASTS));
        world.mapping = Mapping { batch: 10, instances: 2, late: 0..=20, takes: 5, ..world.mapping };
        world.subscriber = subscriber(0);
        world.others = (1..self.of).map(subscriber).collect();
        world
    }

    /// Lives through that time.
    pub fn lives(self) -> Healthy {
        let world = self.world();
        let story = world.live();
        let healthy = self.of - self.troubled;
        let mut taken: Vec<_> = world.letters.iter().map(|_| Millis::MAX).collect();
        for fact in &story.journal.facts {
            if let What::Attempt { delivered: true, end, .. } = fact.what {
                taken[fact.who] = end.min(taken[fact.who]);
            }
        }
        let of_healthy =
            world.letters.iter().zip(taken).filter(|(plan, _)| plan.to < healthy && plan.arrives >= MINUTE);
        let mut waits: Vec<_> = of_healthy.map(|(plan, taken)| taken.saturating_sub(plan.arrives)).collect();
        waits.sort_unstable();
        Healthy {
            letters: waits.len(),
            delivered: waits.iter().filter(|wait| **wait <= LASTS).count(),
            median: waits[waits.len() / 2],
            slowest: waits[waits.len() * 99 / 100],
        }
    }

    /// Reports whether those with trouble work, but slowly.
    pub fn is_slow(self) -> bool {
        matches!(self.trouble, Trouble::Slow(_))
    }

    /// Returns the crowds of the table.
    pub fn all() -> Vec<Self> {
        let crowd = |troubled, of, trouble| Self { of, troubled, trouble, flaky: 0 };
        let hanging = |troubled, of, fails| crowd(troubled, of, Trouble::Fails(fails));
        vec![
            hanging(0, 40, Fails::Hanging),
            hanging(1, 5, Fails::Hanging),
            hanging(1, 40, Fails::Hanging),
            hanging(5, 40, Fails::Hanging),
            hanging(20, 40, Fails::Hanging),
            hanging(39, 40, Fails::Hanging),
            crowd(20, 40, Trouble::Refuses(900)),
            crowd(20, 40, Trouble::Refuses(100)),
            crowd(1, 5, Trouble::Slow(10 * SECOND)),
            crowd(10, 40, Trouble::Slow(3 * SECOND)),
            hanging(1, 5, Fails::LookUpHanging),
            hanging(20, 40, Fails::LookUpHanging),
            hanging(1, 5, Fails::CertificateHanging),
            hanging(20, 40, Fails::CertificateHanging),
        ]
    }
}

impl Display for Crowd {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} of {} {:?}", self.troubled, self.of, self.trouble)
    }
}

/// Returns the table of what the crowds cost the letters of others.
pub fn table() -> String {
    let line = |crowd: &Crowd| {
        let Healthy { letters, delivered, median, slowest } = crowd.lives();
        format!("{crowd}: {delivered} of {letters}, {median} ms, {slowest} ms\n")
    };
    Crowd::all().iter().map(line).collect()
}
