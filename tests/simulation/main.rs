//! The promises, shown of the function itself: the real handler with the real SDK lives through random worlds in the
//! simulated account, weeks in a moment.
//!
//! `WORLDS` says how many worlds; `SEED` names one of them, to see it again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(unreachable_pub, reason = "one program")]

mod laws;
mod live;
mod lives;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};

use laws::judge;
use live::live;
use world::World;

/// Worlds that are lived through where nobody says how many.
const WORLDS: u64 = 500;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Judges these worlds, on every processor.
fn obey(worlds: impl Fn(u64) -> World + Sync, count: u64) {
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..count,
    };
    let next = AtomicU64::new(seeds.start);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let world = worlds(seed);
            let begun = std::time::Instant::now();
            let story = live(&world);
            let lived = begun.elapsed();
            let judged = judge(&world, &story);
            if std::env::var("TIMES").is_ok() { println!("TIME {seed} {lived:?} {:?} calls {} records {} runs {}", begun.elapsed(), story.calls, story.journal.len(), story.runs.len()); }
            if let Err(why) = judged {
                if std::env::var("GO_ON").is_ok() { println!("SEED={seed} {}", why.lines().next().unwrap()); continue; }
                panic!("SEED={seed}\n{world:#?}\n{why}\nSEED={seed}");
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
}

#[test]
fn random_worlds_obey_the_laws() {
    obey(World::of, number("WORLDS").unwrap_or(WORLDS));
}

#[test]
fn two_runs_of_a_seed_have_the_same_journal() {
    for seed in 0..number("WORLDS").unwrap_or(WORLDS) / 20 {
        let world = World::of(seed);
        assert_eq!(live(&world).digest, live(&world).digest, "SEED={seed}");
    }
}

#[test]
fn an_instance_may_die_at_every_call() {
    for seed in 0..20 {
        let mut world = World::small(seed);
        let calls = live(&world).calls;
        for call in 0..calls {
            for after in [false, true] {
                world.cut_at = Some((call, after));
                let story = live(&world);
                if let Err(why) = judge(&world, &story) {
                    panic!("small world {seed}, call {call}, after its effect: {after}\n{world:#?}\n{why}");
                }
            }
        }
    }
}
