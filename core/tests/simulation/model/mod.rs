//! A model of everything around the decisions, to live through weeks in milliseconds.
//!
//! It is a discrete-event simulation with a virtual clock: nothing happens between two events, and the same seed gives
//! the same story. What surrounds the function is modelled, but for the queues, which are those of `sim`; and all that is
//! decided is the real [`Machine`](redrive_core::batch::Machine): the model answers what it asks.
//!
//! | file | what it is |
//! |---|---|
//! | [`queue`] | a queue of letters, whose messages live as those of `sim` do |
//! | [`function`] | one invocation of the machine, and what goes wrong with it |
//! | [`world`] | a queue, a requeue, Lambda's mappings, subscribers, trouble |
//! | [`simulation`] | the life of a world: its events one by one |
//! | [`actions`] | what the machine asks for, carried out |
//! | [`operator`] | orders and waking |
//! | [`journal`] | what happened, letter by letter |
//! | [`life`] | one letter's life, as the laws look at it |
//! | [`laws`], [`orders`] | what must be true of every journal; what must be where orders are given |
//! | [`worlds`] | random worlds |
//! | [`outage`] | outages of many letters, where one letter stands for thousands |
//! | [`figures`] | the page of figures |
#![allow(dead_code, unreachable_pub, reason = "not every test uses every part")]

pub mod actions;
pub mod figures;
pub mod function;
pub mod journal;
pub mod laws;
pub mod life;
pub mod operator;
pub mod orders;
pub mod outage;
pub mod queue;
pub mod simulation;
pub mod world;
pub mod worlds;

use std::fmt::Debug;
use std::ops::RangeInclusive;

use jiff::Timestamp;

/// Virtual time: milliseconds since the world began.
pub type Millis = i64;

pub const SECOND: Millis = 1_000;
pub const MINUTE: Millis = 60 * SECOND;
pub const HOUR: Millis = 60 * MINUTE;
pub const DAY: Millis = 24 * HOUR;

/// The moment at which every world begins.
const BEGIN: Millis = redrive_testing::NOW;

/// A moment of virtual time as the real code sees it.
pub fn at(millis: Millis) -> Timestamp {
    redrive_testing::at(BEGIN + millis)
}

/// The moment of virtual time that the real code means.
pub fn since_begin(point: Timestamp) -> Millis {
    point.as_millisecond() - BEGIN
}

/// Whole seconds as virtual time.
pub fn seconds<N: TryInto<Millis, Error: Debug>>(seconds: N) -> Millis {
    seconds.try_into().unwrap() * SECOND
}

/// Chance, the same for the same seed: `SplitMix64`.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    pub fn within(&mut self, range: &RangeInclusive<Millis>) -> Millis {
        let width = u64::try_from(range.end() - range.start()).unwrap() + 1;
        range.start() + i64::try_from(self.next() % width).unwrap()
    }

    /// Any of so many, if there are any.
    pub fn index(&mut self, of: usize) -> Option<usize> {
        let of = u64::try_from(of).unwrap();
        (of > 0).then(|| usize::try_from(self.next() % of).unwrap())
    }

    pub fn pick<'t, T>(&mut self, things: &'t [T]) -> &'t T {
        let index = self.index(things.len()).unwrap();
        &things[index]
    }

    pub fn happens(&mut self, percent: u8) -> bool {
        percent > 0 && self.next() % 100 < u64::from(percent)
    }
}
