//! Tests of outages: one dead endpoint starves nobody.

use std::time::Duration;

use redrive_sim::SimMillis;

use crate::outage_setup::{OutageFault, OutageList, OutageSetup, OutageTarget};
use crate::world::SECOND;

/// Returns the number of letters that endpoints took within a time.
fn count<'t>(taken: impl IntoIterator<Item = &'t Vec<SimMillis>>, from: SimMillis, to: SimMillis) -> usize {
    taken.into_iter().flatten().filter(|at| (from..to).contains(*at)).count()
}

/// There are a hundred and fifty letters, a fifth of them for a server that takes connections and never
/// answers.
#[test]
fn letters_for_others_arrive_within_twenty_seconds_though_one_server_hangs() {
    let setup = OutageSetup {
        kind: OutageTarget::Server,
        fifo: false,
        delivery: None,
        endpoints: 5,
        outage: Some((OutageFault::Hangs, SimMillis::MAX)),
        works: None,
        most: None,
        worker_fails_until: None,
        letters: 150,
        apart: 0,
        list: OutageList::On,
        instances: 2,
        freezes: true,
        set_right: None,
        takes: Duration::from_millis(50),
        end: 60 * SECOND,
    };
    let taken = setup.tell().taken;
    let last = taken.iter().flatten().max().copied();
    println!("the last one after {last:?} ms");
    assert_eq!(taken.iter().map(Vec::len).sum::<usize>(), 120);
    assert!(last.is_some_and(|last| last < 20 * SECOND), "the last one at {last:?}");
}

/// Returns letters for ten endpoints, which keep one instance busy for three quarters of its time.
fn load(kind: OutageTarget, fifo: bool, outage: Option<(OutageFault, SimMillis)>) -> OutageSetup {
    OutageSetup {
        kind,
        fifo,
        delivery: None,
        endpoints: 10,
        outage,
        works: None,
        most: None,
        worker_fails_until: None,
        letters: 1_500,
        // A batch from a FIFO queue has letters of few groups, which go one after the other.
        apart: if fifo { 500 } else { 70 },
        list: OutageList::On,
        instances: 1,
        freezes: true,
        set_right: None,
        takes: Duration::from_millis(500),
        end: 90 * SECOND,
    }
}

#[test]
fn after_a_minute_the_others_have_nine_tenths_of_their_undisturbed_throughput() {
    let kinds = [OutageTarget::Server, OutageTarget::Function, OutageTarget::Queue, OutageTarget::Topic];
    for (kind, fifo) in kinds.iter().flat_map(|kind| [(*kind, false), (*kind, true)]) {
        let others = |outage| count(&load(kind, fifo, outage).tell().taken[1..], 60 * SECOND, 90 * SECOND);
        let undisturbed = others(None);
        assert!(undisturbed > if fifo { 45 } else { 360 }, "{kind:?} {undisturbed}");
        for how in [OutageFault::Hangs, OutageFault::Refuses, OutageFault::Throttles] {
            let disturbed = others(Some((how, SimMillis::MAX)));
            println!("{kind:?}, FIFO {fifo}, {how:?}: {disturbed} of {undisturbed}");
            assert!(
                10 * disturbed >= 9 * undisturbed,
                "{kind:?} {fifo} {how:?}: {disturbed} of {undisturbed}"
            );
        }
    }
}

/// There are ten letters a second, one for each endpoint.
#[test]
fn a_minute_after_its_recovery_an_endpoint_has_its_full_rate() {
    let kinds = [OutageTarget::Server, OutageTarget::Function, OutageTarget::Queue, OutageTarget::Topic];
    let hows = [OutageFault::Hangs, OutageFault::Refuses, OutageFault::Throttles];
    let standard = kinds.iter().flat_map(|kind| hows.map(|how| (*kind, how, false)));
    for (kind, how, fifo) in standard.chain(kinds.map(|kind| (kind, OutageFault::Hangs, true))) {
        let back = 45 * SECOND;
        // Letters of a FIFO group go one after the other, so there are fewer.
        let (apart, least) = if fifo { (SECOND / 2, 2) } else { (SECOND / 10, 15) };
        let setup = OutageSetup { apart, end: back + 80 * SECOND, ..load(kind, fifo, Some((how, back))) };
        let taken = setup.tell().taken;
        let rate = |endpoint: usize| count([&taken[endpoint]], back + 60 * SECOND, setup.end);
        let (full, it) = (rate(1), rate(0));
        println!("{kind:?}, FIFO {fifo}, {how:?}: {it} of {full}");
        assert!(full > least && it >= full, "{kind:?} {fifo} {how:?}: {it} of {full}");
    }
}

/// The server has not been seen alive, and its answers take three seconds, so that only every second trial is long
/// enough. Another server takes its letters.
#[test]
fn six_minutes_after_its_recovery_a_slow_server_has_its_full_rate() {
    for back in [45, 200, 460] {
        let setup = OutageSetup {
            endpoints: 2,
            apart: SECOND,
            takes: Duration::from_secs(3),
            end: (back + 420) * SECOND,
            ..load(OutageTarget::Server, false, Some((OutageFault::Hangs, back * SECOND)))
        };
        let taken = setup.tell().taken;
        let rate = |endpoint: usize| count([&taken[endpoint]], (back + 360) * SECOND, setup.end);
        let (full, it) = (rate(1), rate(0));
        assert!(full > 25 && it >= full, "{back}: {it} of {full}");
    }
}
