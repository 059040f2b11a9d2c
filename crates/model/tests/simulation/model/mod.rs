//! A model of everything around the decisions, to live through weeks in milliseconds.
//!
//! It is a discrete-event simulation with a virtual clock: nothing happens between two events, and the same
//! seed gives the same story. The function's environment is modelled, except for the queues, which are those
//! of `redrive-sim`. All decisions are made by the real [`BatchMachine`](redrive_core::batch::BatchMachine), and the model
//! carries out its actions.
//!
//! | file | contents |
//! |---|---|
//! | [`queue`] | a queue of letters, whose messages live as those of `redrive-sim` do |
//! | [`function`] | one invocation of the machine |
//! | [`world`] | a queue, a requeue, Lambda's mappings, subscribers, trouble |
//! | [`state`] | the state of a world that lives, and the events to come |
//! | [`actions`] | the machine's actions, carried out |
//! | [`simulation`] | the life of a world: its events one by one |
//! | [`invocation`] | the life of an invocation |
//! | [`operator`] | overrides and waking |
//! | [`control`] | the list of waiting letters, and the document of recoveries |
//! | [`journal`] | the events, letter by letter |
//! | [`life`] | one letter's life, as the laws see it |
//! | [`laws`], [`overrides`] | the laws of every journal, and those of journals with overrides |
//! | [`worlds`] | random worlds |
//! | [`endpoints`] | worlds with several subscribers, and their laws |
//! | [`crowd`] | many subscribers of which some do not work, and what that costs the others |
//! | [`outage`] | outages of many letters, where one letter stands for thousands |
//! | [`recovery`] | how soon letters arrive once their endpoint is back |
//! | [`figures`] | the page of figures |
#![allow(unreachable_pub, reason = "a test program has no other crate")]

pub mod actions;
pub mod control;
pub mod crowd;
pub mod endpoints;
pub mod figures;
pub mod function;
pub mod invocation;
pub mod journal;
pub mod laws;
pub mod life;
pub mod operator;
pub mod outage;
pub mod overrides;
pub mod queue;
pub mod recovery;
pub mod simulation;
pub mod state;
pub mod world;
pub mod worlds;

use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::time::Duration;

use jiff::Timestamp;

/// Virtual time: milliseconds since the world began.
pub type ModelMillis = i64;

pub const SECOND: ModelMillis = 1_000;
pub const MINUTE: ModelMillis = 60 * SECOND;
pub const HOUR: ModelMillis = 60 * MINUTE;
pub const DAY: ModelMillis = 24 * HOUR;

/// The time at which every world begins.
const WORLD_BEGIN: ModelMillis = redrive_testing::NOW;

/// Returns a virtual time as the real code sees it.
pub fn at(millis: ModelMillis) -> Timestamp {
    redrive_testing::at(WORLD_BEGIN + millis)
}

/// Returns the virtual time of a time in the real code.
pub fn since_begin(point: Timestamp) -> ModelMillis {
    point.as_millisecond() - WORLD_BEGIN
}

/// Returns whole seconds as virtual time.
pub fn seconds<N: TryInto<ModelMillis, Error: Debug>>(seconds: N) -> ModelMillis {
    seconds.try_into().unwrap() * SECOND
}

/// Returns the duration of so many milliseconds.
pub fn duration(millis: ModelMillis) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap())
}

/// Random numbers, the same for the same seed: `SplitMix64`.
#[derive(Debug, Clone)]
pub struct SeededRandom(u64);

impl SeededRandom {
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

    pub fn within(&mut self, range: &RangeInclusive<ModelMillis>) -> ModelMillis {
        let width = u64::try_from(range.end() - range.start()).unwrap() + 1;
        range.start() + i64::try_from(self.next() % width).unwrap()
    }

    /// Returns any of so many, if there are any.
    pub fn index(&mut self, of: usize) -> Option<usize> {
        let of = u64::try_from(of).unwrap();
        (of > 0).then(|| usize::try_from(self.next() % of).unwrap())
    }

    pub fn happens(&mut self, percent: u8) -> bool {
        percent > 0 && self.next() % 100 < u64::from(percent)
    }
}
