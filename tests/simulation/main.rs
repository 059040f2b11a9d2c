//! Tests of the promises on the function itself: the real handler with the real SDK runs through random
//! worlds in the simulated account, weeks in a moment.
//!
//! `WORLDS` sets the number of worlds. `SEED` selects one of them, to see it again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests")]
#![allow(unreachable_pub, reason = "one program")]

mod attempts_log;
mod frozen;
mod hook;
mod laws;
mod live;
mod lives;
mod outage;
mod outage_result;
mod outage_setup;
mod recovery;
mod scene;
mod seed;
mod world;

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use laws::{Tally, judge};
use live::{SeededStory, live};
use redrive_sim::{SimEvent, SimRecord};
use world::{REQUEUE, SeededWorld};

/// The default number of worlds.
const WORLDS: u64 = 500;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Returns the seeds of so many worlds, or the one that `SEED` names.
fn seeds(count: u64) -> Range<u64> {
    number("SEED").map_or(0..count, |seed| seed..seed + 1)
}

/// Runs a world and judges it. Returns the ends of its letters.
fn obey(world: &SeededWorld, story: &SeededStory) -> Tally {
    judge(world, story)
        .unwrap_or_else(|why| panic!("SEED={}\n{world:#?}\n{why}SEED={}", world.seed, world.seed))
}

/// Runs a world once more, and compares the journals.
fn same(world: &SeededWorld, first: &SeededStory) {
    let second = live(world);
    if first.digest != second.digest {
        let both = first.journal.iter().zip(&second.journal);
        let differ =
            both.map(|(one, two)| (format!("{one:?}"), format!("{two:?}"))).find(|(one, two)| one != two);
        panic!("SEED={}: {differ:#?}", world.seed);
    }
}

#[test]
fn random_worlds_obey_the_laws() {
    let worlds = number("WORLDS").unwrap_or(WORLDS);
    let seeds = seeds(worlds);
    let next = AtomicU64::new(seeds.start);
    let tally = Mutex::new(Tally::new());
    let work = || {
        while let Some(seed) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < seeds.end) {
            let world = SeededWorld::of(seed);
            let story = live(&world);
            // Each of `make soak`, a tenth otherwise.
            if number("WORLDS").is_some() || seed.is_multiple_of(10) {
                same(&world, &story);
            }
            for (end, count) in obey(&world, &story) {
                *tally.lock().unwrap().entry(end).or_default() += count;
            }
        }
    };
    std::thread::scope(|scope| {
        (0..std::thread::available_parallelism().map_or(1, usize::from))
            .for_each(|_| drop(scope.spawn(work)));
    });
    let tally = tally.into_inner().unwrap();
    println!("{tally:#?}");
    let (lost, all) =
        (tally.get("lost in a margin that was disturbed").copied().unwrap_or(0), tally["letters"]);
    assert!(lost * 50 <= all || number("SEED").is_some(), "{lost} of {all} letters are lost, and excused");
    let ends = [
        "delivered",
        "exhausted",
        "expiring",
        "refused",
        "permanent",
        "given-up",
        "undisturbed",
        "held",
        "retried on an override",
        "found by a search",
        "late, and owed several attempts",
        "back in its queue",
        "invoked again",
        "invoked by its record",
        "refused for its content",
        "delivered beside one that is refused",
        "from a FIFO topic to a standard queue",
        "gone before it was hidden",
        "woken in the middle of an attempt",
    ];
    let missing = ends.iter().find(|end| !tally.contains_key(**end));
    assert!(worlds < WORLDS || number("SEED").is_some() || missing.is_none(), "no letter is {missing:?}");
}

#[test]
fn two_runs_of_a_special_world_have_the_same_journal() {
    let special = [
        SeededWorld::small,
        SeededWorld::moved,
        SeededWorld::late,
        SeededWorld::slow,
        SeededWorld::crowded,
        SeededWorld::held,
    ]
    .into_iter();
    for world in special.flat_map(|of| seeds(3).map(of)) {
        same(&world, &live(&world));
    }
}

#[test]
fn an_instance_may_die_at_every_call() {
    let (few, late) = (seeds(20).map(SeededWorld::small), seeds(10).map(SeededWorld::late));
    for mut world in few.chain(late) {
        for call in 0..live(&world).calls {
            for has_effect in [false, true] {
                world.cut_at = Some((call, has_effect));
                obey(&world, &live(&world));
            }
        }
    }
}

#[test]
fn an_instance_may_die_at_every_call_while_letters_move_and_overrides_are_given() {
    let (mut moves, mut tally) = (0, Tally::new());
    for mut world in seeds(3).map(SeededWorld::moved) {
        for call in 0..live(&world).calls {
            for has_effect in [false, true] {
                world.cut_at = Some((call, has_effect));
                let story = live(&world);
                let requeue = world.name(REQUEUE);
                let is_move = |record: &&SimRecord| matches!(&record.event, SimEvent::Sent { queue, .. } if **queue == *requeue);
                moves += story.journal.iter().filter(is_move).count();
                for (end, count) in obey(&world, &story) {
                    *tally.entry(end).or_default() += count;
                }
            }
        }
    }
    println!("{moves} moves, {tally:#?}");
    let missing =
        ["held", "given-up", "retried on an override"].iter().find(|end| !tally.contains_key(**end));
    assert!(
        number("SEED").is_some() || moves > 0 && missing.is_none(),
        "{moves} moves, no letter is {missing:?}"
    );
}

/// Runs worlds, and demands that some of their letters end in each of these ways.
fn reach(worlds: impl Iterator<Item = SeededWorld>, ends: &[&str]) {
    let mut tally = Tally::new();
    for world in worlds {
        for (end, count) in obey(&world, &live(&world)) {
            *tally.entry(end).or_default() += count;
        }
    }
    println!("{tally:#?}");
    let missing = ends.iter().find(|end| !tally.contains_key(**end));
    assert!(missing.is_none() || number("SEED").is_some(), "no letter is {missing:?}");
}

/// Every kind of target, refusing the whole request and the entry alone, with each code.
#[test]
fn bad_letters_obey_the_laws() {
    let all = 8 * 2 * u64::try_from(hook::REFUSAL_CODES).unwrap();
    let ends = ["delivered", "permanent", "exhausted", "delivered beside one that is refused"];
    reach(seeds(all).map(SeededWorld::bad), &ends);
}

/// The archive in SQS and the requeue, in the same ways.
#[test]
fn letters_that_are_refused_on_the_way_obey_the_laws() {
    let all = 2 * 2 * u64::try_from(hook::REFUSAL_CODES).unwrap();
    let ends = [
        "refused by the archive too",
        "archived beside one that is refused",
        "moved beside one that is refused",
    ];
    reach(seeds(all).map(SeededWorld::bad_on_the_way), &ends);
}

#[test]
fn slow_groups_near_their_end_obey_the_laws() {
    reach(seeds(20).map(SeededWorld::slow), &["delivered", "expiring"]);
}

#[test]
fn overrides_count_in_runs_that_have_begun() {
    reach(seeds(8).map(SeededWorld::held), &["delivered", "held", "given-up"]);
}

#[test]
fn queues_that_tell_nothing_at_first_obey_the_laws() {
    reach(seeds(12).map(SeededWorld::silent), &["delivered", "held"]);
}

#[test]
fn crowds_near_their_end_obey_the_laws() {
    reach(seeds(20).map(SeededWorld::crowded), &["delivered", "expiring"]);
}
