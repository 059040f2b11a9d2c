//! P11 with the real function: an endpoint that is back gets its letters within minutes, in whatever way it failed.
//!
//! The model in `crates/model/tests/simulation/recoveries.rs` shows the same of the batch machine alone. Here are AWS's SDK,
//! the mapping, the objects in S3, and instances that know of each other by these only.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_sim::SimMillis;

use crate::outage_result::OutageResult;
use crate::outage_setup::{OutageFault, OutageList, OutageSetup, OutageTarget};
use crate::world::{HOUR, MINUTE, SECOND};

/// The longest time from the first letter that an endpoint takes again to the last one.
const SOON: SimMillis = 5 * MINUTE;

/// The retries of two hours and a half, and one to spare.
const SEVEN_OF_HALF_AN_HOUR: &str = r#"{ "healthyRetryPolicy": { "numRetries": 7, "numNoDelayRetries": 1,
    "minDelayTarget": 1800, "maxDelayTarget": 1800 } }"#;

/// Returns an outage of one server in which a letter fails every so often, with two instances of the function.
fn outage(apart: SimMillis, lasts: SimMillis) -> OutageSetup {
    OutageSetup {
        kind: OutageTarget::Server,
        fifo: false,
        delivery: None,
        endpoints: 1,
        outage: Some((OutageFault::Refuses, lasts)),
        works: None,
        most: None,
        worker_fails_until: None,
        letters: letters_of(apart, lasts),
        apart,
        list: OutageList::On,
        instances: 2,
        freezes: false,
        set_right: None,
        takes: Duration::from_millis(20),
        end: lasts + 24 * HOUR,
    }
}

/// Returns the number of letters that arrive in a time.
fn letters_of(apart: SimMillis, lasts: SimMillis) -> usize {
    usize::try_from(lasts / apart).unwrap()
}

/// Returns three hundred letters that fail within twenty minutes.
fn three_hundred() -> OutageSetup {
    outage(4 * SECOND, 20 * MINUTE)
}

/// Runs an outage, demands that each letter is taken exactly once and none archived, and returns the times from the end of
/// the outage to the first letter taken and from there to the last.
fn recover(name: &str, setup: OutageSetup) -> (SimMillis, SimMillis, OutageResult) {
    let told = setup.tell();
    let (_, end) = setup.outage.unwrap();
    let mut after = told.taken[0].iter().filter(|at| **at >= end);
    let first = after.next().unwrap_or(&end);
    let last = after.next_back().unwrap_or(first);
    let (first, last) = (first - end, last - first);
    println!(
        "{name}: {} letters, {} attempts, {} of them unplanned; the first after {first} ms, the last {last} ms later",
        told.letters.len(),
        told.attempts,
        told.unplanned,
    );
    each_once(name, setup, &told);
    (first, last, told)
}

/// Demands that each letter was taken exactly once, and none archived.
fn each_once(name: &str, setup: OutageSetup, told: &OutageResult) {
    assert_eq!(told.archived, [""; 0], "{name}");
    let wrong: Vec<_> = told.times().into_iter().enumerate().filter(|(_, times)| *times != 1).collect();
    assert_eq!((told.arrived.len(), wrong), (setup.letters, vec![]), "{name}: letters not taken once");
}

/// Returns the number of letters that were taken until then.
fn taken_until(told: &OutageResult, then: SimMillis) -> usize {
    told.letters.iter().filter(|(at, _)| *at < then).count()
}

/// Runs an outage with two and with four instances, that refuses and that hangs.
fn outages(base: OutageSetup, mut judge: impl FnMut(&str, SimMillis, SimMillis)) {
    let (_, end) = base.outage.unwrap();
    for how in [OutageFault::Refuses, OutageFault::Hangs] {
        for instances in [2, 4] {
            let name = format!("{how:?}, {instances} instances");
            let setup = OutageSetup { instances, outage: Some((how, end)), ..base };
            let (first, last, _) = recover(&name, setup);
            judge(&name, first, last);
        }
    }
}

#[test]
fn letters_arrive_within_minutes_once_their_endpoint_is_back() {
    let mut last_of = Vec::new();
    outages(three_hundred(), |name, first, last| {
        // The longest rest of an endpoint that hangs, and a trial.
        assert!(first <= MINUTE && last <= SOON, "{name}: {first}, {last}");
        last_of.push(last);
    });
    for pair in last_of.chunks(2) {
        assert!(pair[1] * 100 <= pair[0] * 105 + 5 * SECOND * 100, "four instances are slower: {pair:?}");
    }
}

#[test]
#[ignore = "takes half an hour of processor time: ten letters a second for an hour"]
fn an_hour_with_ten_letters_a_second() {
    outages(outage(SECOND / 10, HOUR), |name, first, last| {
        assert!(first <= MINUTE && last <= SOON, "{name}: {first}, {last}");
    });
}

/// They are written while letters are hidden, and claimed and read at the end of batches, in a second each.
#[test]
fn letters_arrive_within_minutes_though_each_call_of_s3_takes_its_time() {
    for millis in [50, 100, 200] {
        let list = OutageList::Slow(Duration::from_millis(millis));
        let (_, last, _) = recover(&format!("{millis} ms"), OutageSetup { list, ..three_hundred() });
        assert!(last <= SOON, "{millis} ms: {last}");
    }
}

/// By their schedules they would come hours later.
#[test]
fn a_scout_finds_within_ten_minutes_that_an_endpoint_is_back() {
    for freezes in [false, true] {
        let setup = OutageSetup { letters: 3, freezes, ..outage(SECOND, 5 * HOUR + 20 * MINUTE) };
        let (first, last, told) = recover("three letters", setup);
        assert!(first <= 10 * MINUTE + SECOND && last <= MINUTE, "{first}, {last}");
        // Seven of the retries each, and a scout of each of two instances every ten minutes.
        assert!(told.attempts <= 3 * 8 + 2 * 6 * 6, "{} attempts", told.attempts);
    }
}

/// Returns the times, in order, that letters for healthy endpoints took which arrived between two moments.
fn delays(setup: OutageSetup, told: &OutageResult, from: SimMillis, to: SimMillis) -> Vec<SimMillis> {
    let others = told.letters.iter().filter(|(_, letter)| letter % setup.endpoints != 0);
    let times = others.map(|(at, letter)| (told.arrived[*letter], at - told.arrived[*letter]));
    let mut delays: Vec<_> =
        times.filter(|(arrived, _)| (from..to).contains(arrived)).map(|(_, delay)| delay).collect();
    delays.sort_unstable();
    delays
}

/// One that hangs takes its twentieth of the time (P9), with the list as without it.
#[test]
fn letters_for_another_endpoint_arrive_at_once_during_the_outage_and_while_letters_are_woken() {
    let (apart, end) = (2 * SECOND, 20 * MINUTE);
    let cases = [
        (OutageFault::Refuses, OutageList::On),
        (OutageFault::Hangs, OutageList::On),
        (OutageFault::Hangs, OutageList::Off),
    ];
    let mut while_it_hangs = Vec::new();
    for (how, list) in cases {
        let (outage, letters) = (Some((how, end)), letters_of(apart, end + 3 * MINUTE));
        let setup = OutageSetup { endpoints: 2, outage, letters, list, ..self::outage(apart, end) };
        let (_, _, told) = recover(&format!("{how:?}, {list:?}"), setup);
        let [during, after] = [(0, end), (end, end + 3 * MINUTE)].map(|(from, to)| {
            let delays = delays(setup, &told, from, to);
            (delays[delays.len() / 2], delays[delays.len() * 99 / 100])
        });
        println!(
            "{how:?}, {list:?}: median and 99 of 100 during the outage {during:?} ms, after it {after:?} ms"
        );
        assert!(during.0 <= SECOND && after.1 <= 2 * SECOND, "{how:?}, {list:?}: {during:?}, {after:?}");
        match how {
            OutageFault::Hangs => while_it_hangs.push(during.1),
            _ => assert!(during.1 <= 2 * SECOND, "{how:?}: {during:?}"),
        }
    }
    assert!(while_it_hangs[0] * 2 <= while_it_hangs[1] * 3, "with and without the list: {while_it_hangs:?}");
}

/// It takes five requests a second, which for a queue are up to fifty letters. Each letter is woken about once.
#[test]
fn an_endpoint_with_a_limit_gets_no_fewer_letters_than_without_the_list() {
    let end = 20 * MINUTE;
    for kind in [OutageTarget::Server, OutageTarget::Queue] {
        let setup = OutageSetup { kind, most: Some(5), ..outage(2 * SECOND, end) };
        let [with, without] = [OutageList::On, OutageList::Off].map(|list| {
            let (_, _, told) = recover(&format!("{kind:?}, {list:?}"), OutageSetup { list, ..setup });
            let by = [1, 2, 3, 5, 10, 15].map(|minutes| taken_until(&told, end + minutes * MINUTE));
            println!("{kind:?}, {list:?}: {by:?}");
            (by, told)
        });
        let fewer = with.0.iter().zip(without.0).any(|(with, without)| *with < without);
        assert!(!fewer && with.0[0] > without.0[0], "{kind:?}: {:?} and {:?} without", with.0, without.0);
        assert!(with.1.unplanned * 4 <= setup.letters as u64 * 5, "{kind:?}: {}", with.1.unplanned);
        assert_eq!(without.1.unplanned, 0);
    }
}

/// It works for the last minute of each ten. A recovery counts a quarter of an hour after another, so every second of these
/// minutes wakes letters.
#[test]
fn letters_for_an_endpoint_that_works_one_minute_in_ten_use_its_minutes() {
    let setup = OutageSetup { works: Some((10 * MINUTE, MINUTE)), ..outage(10 * SECOND, HOUR) };
    let (_, last, _) = recover("one minute in ten, for an hour", setup);
    assert!(last <= 30 * MINUTE, "{last}");

    // For ever: most letters would be exhausted.
    let setup = OutageSetup { outage: Some((OutageFault::Refuses, SimMillis::MAX)), ..setup };
    let [with, without] = [OutageList::On, OutageList::Off].map(|list| {
        let told = OutageSetup { list, ..setup }.tell();
        let taken = [30, 60, 90, 120, 180].map(|minutes| taken_until(&told, minutes * MINUTE));
        let archived = told.archived.len();
        println!("{list:?}: {taken:?} of {} letters, {archived} archived", setup.letters);
        assert_eq!(told.letters.len() + archived, setup.letters, "{list:?}");
        taken[2]
    });
    assert!(with * 100 >= setup.letters * 97 && with > without, "{with} and {without} without");
}

/// The queue is there for one minute in ten, and takes every letter then. What its worker gives back waits for its planned moment,
/// or until the queue is there again, and counts as no loop.
#[test]
fn letters_that_a_queue_takes_and_its_worker_gives_back_lose_no_retry_by_being_woken() {
    let setup = OutageSetup {
        kind: OutageTarget::Queue,
        delivery: Some(SEVEN_OF_HALF_AN_HOUR),
        works: Some((10 * MINUTE, MINUTE)),
        worker_fails_until: Some(2 * HOUR),
        letters: 100,
        ..outage(10 * SECOND, 90 * MINUTE)
    };
    let [with, without] = [OutageList::On, OutageList::Off].map(|list| {
        let told = OutageSetup { list, ..setup }.tell();
        assert_eq!(told.archived, [""; 0], "{list:?}");
        let mut done: Vec<_> = told.worked.iter().map(|(_, letter)| *letter).collect();
        done.sort_unstable();
        assert_eq!(done, (0..setup.letters).collect::<Vec<_>>(), "{list:?}: letters not done once");
        let last = told.worked.iter().map(|(at, _)| *at).max().unwrap();
        println!(
            "{list:?}: {} attempts, {} unplanned, the last after {last} ms",
            told.attempts, told.unplanned
        );
        (last, told)
    });
    // In an hour and a half the queue is back five times.
    let letters = setup.letters as u64;
    assert!((letters..=3 * letters).contains(&with.1.unplanned), "{}", with.1.unplanned);
    assert_eq!(without.1.unplanned, 0);
    assert!(with.0 <= without.0 + MINUTE, "{} and {} without", with.0, without.0);
}

#[test]
fn heads_of_fifo_groups_are_woken_and_their_order_is_kept() {
    for kind in [OutageTarget::Queue, OutageTarget::Topic, OutageTarget::Server] {
        let [with, without] = [OutageList::On, OutageList::Off].map(|list| {
            let setup = OutageSetup { kind, fifo: true, list, ..outage(4 * SECOND, 20 * MINUTE) };
            let (_, last, told) = recover(&format!("{kind:?}, {list:?}"), setup);
            let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
            for (_, letter) in &told.letters {
                groups.entry(setup.group(*letter)).or_default().push(*letter);
            }
            assert_eq!(groups.len(), 50, "{kind:?}");
            assert!(groups.values().all(|group| group.is_sorted()), "{kind:?}, {list:?}: {groups:?}");
            (last, told)
        });
        assert!(with.0 <= SOON && with.1.unplanned > 0, "{kind:?}: {}", with.0);
        assert_eq!(without.1.unplanned, 0, "{kind:?}");
    }
}

/// The letters come by their schedules then, and in no other way.
#[test]
fn without_the_list_letters_come_by_their_schedules() {
    let setup = outage(6 * SECOND, 20 * MINUTE);
    let run = |list| recover(&format!("{list:?}"), OutageSetup { list, ..setup });
    let (_, last, off) = run(OutageList::Off);
    assert_eq!(off.unplanned, 0);
    assert!(last > 10 * MINUTE, "{last}");
    for list in [OutageList::Denied, OutageList::Slow(Duration::from_secs(3))] {
        let (_, slowly, told) = run(list);
        assert_eq!(told.attempts, off.attempts, "{list:?}");
        assert!(slowly <= last + 10 * SECOND && told.unplanned <= 4, "{list:?}: {slowly} and {last}");
    }
    // An instance that has never read the overrides hides letters for ten minutes first.
    let (_, last_of_all, _) = run(OutageList::AllDenied);
    assert!(last_of_all <= last + 10 * MINUTE, "{last_of_all} and {last}");
}

/// The wall clock is an hour ahead at first. What an instance saw then counts as what it was.
#[test]
fn instances_that_freeze_or_whose_clock_is_set_right_get_the_letters_out_as_soon() {
    let cases =
        [(true, None), (false, Some(5 * MINUTE)), (true, Some(10 * MINUTE)), (true, Some(25 * MINUTE))];
    for (freezes, set_right) in cases {
        let name = format!("freezes: {freezes}, set right at {set_right:?}");
        let setup = OutageSetup { freezes, set_right, ..outage(6 * SECOND, 20 * MINUTE) };
        let (_, last, _) = recover(&name, setup);
        assert!(last <= SOON, "{name}: {last}");
    }
}
