//! Tests of instances that Lambda freezes between invocations, while only the wall clock runs on. The
//! mapping's own instance is idle for minutes and hours, and letters must come back as if it were not.

use std::time::Duration;

use crate::outage_result::OutageResult;
use crate::outage_setup::{OutageFault, OutageList, OutageSetup, OutageTarget};
use crate::world::{HOUR, MINUTE, SECOND};

/// Returns a few letters for one server that is down until then.
fn few(
    letters: usize,
    how: OutageFault,
    until: redrive_sim::SimMillis,
    delivery: Option<&'static str>,
) -> OutageSetup {
    OutageSetup {
        kind: OutageTarget::Server,
        fifo: false,
        delivery,
        endpoints: 1,
        outage: Some((how, until)),
        works: None,
        most: None,
        worker_fails_until: None,
        letters,
        apart: SECOND,
        list: OutageList::On,
        instances: 1,
        freezes: true,
        set_right: None,
        takes: Duration::from_millis(50),
        end: 5 * 24 * HOUR,
    }
}

/// Runs a setup with instances that freeze, and with instances that do not.
fn both(setup: OutageSetup) -> [OutageResult; 2] {
    [true, false].map(|freezes| OutageSetup { freezes, ..setup }.tell())
}

/// The retries of the built-in policy come after 0, 1, 1, 2, 4 minutes and so on. The last letter goes at its next
/// planned moment after the trial that finds the server.
#[test]
fn letters_for_a_server_that_hung_for_four_minutes_come_back_within_minutes() {
    for (told, name) in both(few(20, OutageFault::Hangs, 4 * MINUTE, None)).iter().zip(["frozen", "awake"]) {
        let taken = &told.taken[0];
        let after = |at: Option<&redrive_sim::SimMillis>| at.map(|at| (at - 4 * MINUTE) / SECOND);
        println!("{name}: {} taken, {:?} to {:?} s", taken.len(), after(taken.first()), after(taken.last()));
        assert_eq!((taken.len(), told.archived.len()), (20, 0), "{name}");
        assert!(taken.iter().all(|at| *at < 12 * MINUTE), "{name}: {taken:?}");
    }
}

/// A last retry waits for a request of full length. Each letter must get it.
#[test]
fn letters_with_two_retries_are_attempted_and_exhausted_and_do_not_expire() {
    const TWICE: &str = r#"{"healthyRetryPolicy":{"numRetries":2,"minDelayTarget":20,"maxDelayTarget":60}}"#;
    for (told, name) in both(few(5, OutageFault::Hangs, redrive_sim::SimMillis::MAX, Some(TWICE)))
        .iter()
        .zip(["frozen", "awake"])
    {
        println!("{name}: {} requests, {:?}", told.in_vain.len(), told.archived);
        assert_eq!(told.archived, ["exhausted"; 5], "{name}");
        assert!(told.in_vain.len() >= 5, "{name}: {:?}", told.in_vain);
    }
}

#[test]
fn a_server_that_asks_for_five_minutes_is_asked_again_after_five_minutes() {
    for (told, name) in both(few(3, OutageFault::Asks(300), 2 * MINUTE, None)).iter().zip(["frozen", "awake"])
    {
        println!("{name}: {:?} in vain, {:?} taken", told.in_vain, told.taken[0]);
        assert_eq!((told.taken[0].len(), told.archived.len()), (3, 0), "{name}");
        assert!(told.taken[0].iter().all(|at| (5 * MINUTE..20 * MINUTE).contains(at)), "{name}: {told:?}");
    }
}

#[test]
fn a_wall_clock_that_is_set_back_keeps_no_endpoint_down() {
    for freezes in [true, false] {
        let told =
            OutageSetup { freezes, set_right: Some(MINUTE), ..few(20, OutageFault::Hangs, 4 * MINUTE, None) }
                .tell();
        assert_eq!((told.taken[0].len(), told.archived.len()), (20, 0), "{freezes}");
        assert!(told.taken[0].iter().all(|at| *at < 15 * MINUTE), "{freezes}: {told:?}");
    }
}
