//! The four-phase schedule: the numbers that AWS documents as tables, and the laws as properties.

use proptest::prelude::*;
use redrive_core::policy::{Backoff, Jitter, MAX_DELAY_SECONDS, MAX_RETRIES, RetryPhase, Schedule};
use redrive_testing::holds;

fn waits(schedule: &Schedule) -> Vec<u64> {
    (1..=schedule.retries).map(|k| schedule.wait(k, &Jitter::NONE).unwrap()).collect()
}

/// Returns a schedule that has only a backoff phase.
fn backoff(backoff: Backoff, min: u32, max: u32, retries: u32) -> Schedule {
    Schedule { min, max, retries, backoff, ..Schedule::HTTP_DEFAULT }
}

/// Returns the number of retries of each phase, and its first and last wait.
fn phases(schedule: &Schedule) -> Vec<(RetryPhase, usize, u64, u64)> {
    let waits = waits(schedule);
    [RetryPhase::Immediate, RetryPhase::PreBackoff, RetryPhase::Backoff, RetryPhase::PostBackoff]
        .into_iter()
        .filter_map(|phase| {
            let of_phase: Vec<_> =
                (1..).zip(&waits).filter(|(k, _)| schedule.phase(*k) == Some(phase)).collect();
            let ((_, first), (_, last)) = (of_phase.first()?, of_phase.last()?);
            Some((phase, of_phase.len(), **first, **last))
        })
        .collect()
}

// ---------------------------------------------------------------------------------------------
// Numbers that AWS documents

#[test]
fn three_linear_retries_from_20_to_40_seconds_wait_20_30_40() {
    assert_eq!(waits(&backoff(Backoff::Linear, 20, 40, 3)), [20, 30, 40]);
}

#[test]
fn the_documented_sample_of_50_retries_has_3_2_10_and_35_in_its_phases() {
    let sample = Schedule {
        min: 1,
        max: 60,
        retries: 50,
        no_delay: 3,
        min_delay: 2,
        max_delay: 35,
        backoff: Backoff::Exponential,
    };
    let expected = [
        (RetryPhase::Immediate, 3, 0, 0),
        (RetryPhase::PreBackoff, 2, 1, 1),
        (RetryPhase::Backoff, 10, 1, 60),
        (RetryPhase::PostBackoff, 35, 60, 60),
    ];
    assert_eq!(phases(&sample), expected);
    assert_eq!(waits(&sample)[..15], [0, 0, 0, 1, 1, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
    assert_eq!(waits(&sample)[15..], [60; 35]);
}

#[test]
fn aws_managed_endpoints_get_100_015_retries_over_23_days() {
    let expected = [
        (RetryPhase::Immediate, 3, 0, 0),
        (RetryPhase::PreBackoff, 2, 1, 1),
        (RetryPhase::Backoff, 10, 1, 20),
        (RetryPhase::PostBackoff, 100_000, 20, 20),
    ];
    assert_eq!(phases(&Schedule::AWS_MANAGED), expected);
    let waits = waits(&Schedule::AWS_MANAGED);
    assert_eq!(waits.len(), 100_015);
    assert_eq!(waits[5..15], [1, 2, 4, 8, 16, 20, 20, 20, 20, 20]);
    assert_eq!(waits.iter().sum::<u64>(), 2_000_133);
    assert_eq!(2_000_133 / (24 * 3600), 23, "days");
}

#[test]
fn customer_managed_endpoints_get_50_retries_over_6_hours() {
    let expected = [
        (RetryPhase::PreBackoff, 2, 10, 10),
        (RetryPhase::Backoff, 10, 10, 600),
        (RetryPhase::PostBackoff, 38, 600, 600),
    ];
    assert_eq!(phases(&Schedule::CUSTOMER_MANAGED), expected);
    let waits = waits(&Schedule::CUSTOMER_MANAGED);
    assert_eq!(waits.len(), 50);
    assert_eq!(waits[2..12], [10, 20, 40, 80, 160, 320, 600, 600, 600, 600]);
    assert!(waits.iter().sum::<u64>() > 6 * 3600);
}

#[test]
fn http_endpoints_get_3_retries_20_seconds_apart() {
    assert_eq!(phases(&Schedule::HTTP_DEFAULT), [(RetryPhase::Backoff, 3, 20, 20)]);
}

// ---------------------------------------------------------------------------------------------
// Numbers of this software

#[test]
fn the_built_in_schedule_has_12_retries_within_a_day() {
    assert_eq!(
        waits(&Schedule::BUILT_IN),
        [0, 60, 60, 60, 161, 427, 1139, 3037, 8099, 21_600, 21_600, 21_600]
    );
    let phase = |k| Schedule::BUILT_IN.phase(k).unwrap().name();
    let names: Vec<_> = (1..=12).map(phase).collect();
    assert_eq!(names[..4], ["immediate", "pre-backoff", "pre-backoff", "backoff"]);
    assert_eq!(names[9..], ["backoff", "post-backoff", "post-backoff"]);
}

#[test]
fn the_four_functions_grow_from_least_to_greatest_each_in_its_way() {
    for (function, expected) in [
        // The range of the graph in AWS's documentation.
        (Backoff::Linear, [5, 34, 62, 90, 119, 147, 175, 204, 232, 260]),
        (Backoff::Arithmetic, [5, 11, 22, 39, 62, 90, 124, 164, 209, 260]),
        (Backoff::Geometric, [5, 8, 13, 19, 29, 45, 70, 109, 168, 260]),
        (Backoff::Exponential, [5, 10, 20, 40, 80, 160, 260, 260, 260, 260]),
    ] {
        assert_eq!(waits(&backoff(function, 5, 260, 10)), expected, "{}", function.name());
    }
}

#[test]
fn exponential_doubles_or_grows_faster_where_doubling_would_not_arrive() {
    assert_eq!(waits(&backoff(Backoff::Exponential, 1, 20, 10)), [1, 2, 4, 8, 16, 20, 20, 20, 20, 20]);
    assert_eq!(waits(&backoff(Backoff::Exponential, 1, 81, 5)), [1, 3, 9, 27, 81]);
    assert_eq!(waits(&backoff(Backoff::Exponential, 1, 16, 5)), [1, 2, 4, 8, 16]);
}

#[test]
fn a_backoff_phase_of_one_retry_waits_the_least_delay() {
    for function in Backoff::ALL {
        assert_eq!(waits(&backoff(function, 7, 900, 1)), [7], "{}", function.name());
        assert_eq!(waits(&backoff(function, 7, 900, 2)), [7, 900], "{}", function.name());
    }
}

#[test]
fn whole_numbers_stay_whole() {
    for function in [Backoff::Geometric, Backoff::Exponential] {
        for base in 2..=10_u64 {
            for retries in 2..=14_u32 {
                for min in [1, 2, 3, 5, 10, 20, 60] {
                    let exact: Vec<_> = (0..retries).map(|i| min * base.pow(i)).collect();
                    let max = *exact.last().unwrap();
                    if max > u64::from(MAX_DELAY_SECONDS) {
                        continue;
                    }
                    let (min, max) = (u32::try_from(min).unwrap(), u32::try_from(max).unwrap());
                    assert_eq!(waits(&backoff(function, min, max, retries)), exact, "{}", function.name());
                }
            }
        }
    }
}

#[test]
fn a_fraction_of_a_second_is_waited_as_a_whole_one() {
    let schedule = backoff(Backoff::Linear, 1, 2, 3);
    assert_eq!(schedule.delay(2), Some(1.5));
    assert_eq!(waits(&schedule), [1, 2, 2]);
}

#[test]
fn there_is_no_retry_before_the_first_and_none_after_the_last() {
    for schedule in [Schedule::BUILT_IN, Schedule { retries: 0, ..Schedule::HTTP_DEFAULT }] {
        for k in [0, schedule.retries + 1, u32::MAX] {
            assert_eq!(schedule.delay(k), None, "{k}");
            assert_eq!(schedule.wait(k, &Jitter::NONE), None, "{k}");
            assert_eq!(schedule.phase(k), None, "{k}");
        }
    }
}

// ---------------------------------------------------------------------------------------------
// Laws

/// Returns every schedule that a policy document can describe.
fn schedules() -> impl Strategy<Value = Schedule> {
    let delay = || prop_oneof![1_u32..=100, 1..=MAX_DELAY_SECONDS, Just(MAX_DELAY_SECONDS)];
    let count = || prop_oneof![3 => 0_u32..=5, 1 => 0_u32..=30_000];
    let functions = prop::sample::select(Backoff::ALL.to_vec());
    ((delay(), delay()), (count(), count(), count(), 0_u32..=MAX_RETRIES), functions).prop_map(
        |((a, b), (no_delay, min_delay, max_delay, in_backoff), backoff)| Schedule {
            min: a.min(b),
            max: a.max(b),
            retries: (no_delay + min_delay + max_delay + in_backoff % 50).min(MAX_RETRIES),
            no_delay,
            min_delay,
            max_delay,
            backoff,
        },
    )
}

/// Returns the retries that are worth a test: the edges of the phases, and some in between.
fn places(schedule: &Schedule) -> Vec<u32> {
    let Schedule { no_delay, min_delay, max_delay, retries, .. } = *schedule;
    let edges = [0, no_delay, no_delay + min_delay, retries - max_delay, retries, retries / 2, retries / 3];
    let mut places: Vec<_> = edges
        .iter()
        .flat_map(|k| [k.saturating_sub(1), *k, k + 1])
        .filter(|k| (1..=retries).contains(k))
        .collect();
    places.sort_unstable();
    places.dedup();
    places
}

#[test]
fn the_phases_follow_each_other_and_make_up_the_schedule() {
    holds(200, &schedules(), |schedule| {
        let count = |phase| (1..=schedule.retries).filter(|k| schedule.phase(*k) == Some(phase)).count();
        prop_assert_eq!(count(RetryPhase::Immediate), schedule.no_delay as usize);
        prop_assert_eq!(count(RetryPhase::PreBackoff), schedule.min_delay as usize);
        prop_assert_eq!(count(RetryPhase::Backoff), schedule.in_backoff() as usize);
        prop_assert_eq!(count(RetryPhase::PostBackoff), schedule.max_delay as usize);
        prop_assert!((1..=schedule.retries).is_sorted_by_key(|k| schedule.phase(k)));
        Ok(())
    });
}

#[test]
fn each_phase_has_its_delays() {
    holds(1_000, &schedules(), |schedule| {
        let (min, max) = (u64::from(schedule.min), u64::from(schedule.max));
        for k in places(&schedule) {
            let wait = schedule.wait(k, &Jitter::NONE).unwrap();
            match schedule.phase(k).unwrap() {
                RetryPhase::Immediate => prop_assert_eq!(wait, 0),
                RetryPhase::PreBackoff => prop_assert_eq!(wait, min),
                RetryPhase::Backoff => prop_assert!((min..=max).contains(&wait), "retry {k} waits {wait}"),
                RetryPhase::PostBackoff => prop_assert_eq!(wait, max),
            }
        }
        Ok(())
    });
}

#[test]
fn backoff_begins_at_the_least_delay_ends_at_the_greatest_and_never_shrinks() {
    let functions = prop::sample::select(Backoff::ALL.to_vec());
    let delays = (1..=MAX_DELAY_SECONDS, 1..=MAX_DELAY_SECONDS);
    holds(1_000, &(functions, delays, 2_u32..=60), |(function, (a, b), retries)| {
        let waits = waits(&backoff(function, a.min(b), a.max(b), retries));
        prop_assert_eq!(waits.first(), Some(&u64::from(a.min(b))));
        prop_assert_eq!(waits.last(), Some(&u64::from(a.max(b))));
        prop_assert!(waits.is_sorted(), "{waits:?}");
        Ok(())
    });
}

#[test]
fn nothing_overflows_at_100_015_retries_and_14_days() {
    for function in Backoff::ALL {
        for (min, max) in [(1, MAX_DELAY_SECONDS), (MAX_DELAY_SECONDS, MAX_DELAY_SECONDS)] {
            let waits = waits(&backoff(function, min, max, MAX_RETRIES));
            let name = function.name();
            assert_eq!(waits.len(), 100_015, "{name}");
            assert_eq!((waits[0], waits[100_014]), (u64::from(min), 1_209_600), "{name}");
            assert!(waits.is_sorted(), "{name}");
        }
    }
}

// ---------------------------------------------------------------------------------------------
// Jitter

#[test]
fn jitter_shortens_by_no_more_than_its_share_and_never_lengthens() {
    holds(2_000, &(schedules(), 0.0..=1.0_f64, "[a-z]{1,8}"), |(schedule, share, id)| {
        let jitter = Jitter::new(share, &id);
        for k in places(&schedule) {
            let (delay, wait) = (schedule.delay(k).unwrap(), schedule.wait(k, &jitter).unwrap());
            let unjittered = schedule.wait(k, &Jitter::NONE).unwrap();
            prop_assert!(wait <= unjittered && wait <= u64::from(schedule.max), "{wait} of {delay}");
            #[expect(clippy::cast_precision_loss, reason = "14 days in seconds")]
            let waited = wait as f64;
            prop_assert!(waited >= delay * (1.0 - share) - 1e-5, "{wait} of {delay} with {share}");
        }
        Ok(())
    });
}

/// Returns the waits of one letter along a schedule of equal, long delays.
fn jittered(id: &str, share: f64) -> Vec<u64> {
    let schedule = backoff(Backoff::Linear, 1_000_000, 1_000_000, 100);
    let jitter = Jitter::new(share, id);
    (1..=100).map(|k| schedule.wait(k, &jitter).unwrap()).collect()
}

#[test]
fn jitter_of_one_letter_is_always_the_same() {
    // The numbers are fixed: letters outlive deployments, so another version must find the same points.
    assert_eq!(jittered("letter-1", 0.5)[..4], [657_377, 750_469, 970_023, 916_506]);
    // This wait is so near to a whole second that the hash's lower bits decide.
    assert_eq!(jittered("letter-46", 1.0)[78], 128_078);
}

#[test]
fn jitter_spreads_letters_and_retries_evenly_over_its_share() {
    let by_retry = jittered("letter-1", 0.5);
    let by_letter: Vec<_> = (0..100).map(|n| jittered(&format!("letter-{n}"), 0.5)[0]).collect();
    for (what, waits) in [("retries of a letter", by_retry), ("letters", by_letter)] {
        // There are ten equal parts of the range from 500,000 to 1,000,000, and none of them may be empty.
        let parts: std::collections::BTreeSet<_> =
            waits.iter().map(|wait| (wait - 500_000).min(499_999) / 50_000).collect();
        assert_eq!(parts.len(), 10, "{what}: {waits:?}");
        let mean = waits.iter().sum::<u64>() / 100;
        assert!((700_000..800_000).contains(&mean), "{what}: mean {mean}");
    }
}

#[test]
fn full_jitter_can_leave_almost_nothing_and_none_leaves_all() {
    assert_eq!(jittered("letter-1", 0.0), vec![1_000_000; 100]);
    let full = jittered("letter-1", 1.0);
    assert!(full.iter().min().unwrap() < &50_000 && full.iter().max().unwrap() > &950_000, "{full:?}");
}
