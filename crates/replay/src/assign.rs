//! Divides the units of a replay among workers. This module does no I/O.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::progress::UnitResults;
use super::replay_state::{ReplayCounts, ReplayPosition};
use super::unit::Unit;

/// A unit, by its position in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnitTask {
    pub(super) unit: usize,
    /// `true` if letters of it may have been sent. They go again, even if no others may.
    pub(super) is_doubtful: bool,
}

/// The work of one worker, in order: units of one hour of a queue, or of a whole FIFO queue.
pub(super) type WorkerTasks = Vec<UnitTask>;

/// Returns the parts that are still to be done, up to the unit in which `reach` letters end. Fewer may be
/// left to send in these units than the index knows, so the stage may not be at its end after them.
pub(super) fn parts(
    units: &[Unit],
    place: &ReplayPosition,
    known: &UnitResults,
    reach: u64,
    in_order: bool,
) -> Vec<WorkerTasks> {
    let first = usize::try_from(place.units).unwrap_or(usize::MAX);
    let (mut parts, mut before): (Vec<WorkerTasks>, u64) = (Vec::new(), 0);
    let mut part_of: HashMap<(&str, &str), usize> = HashMap::new();
    for (number, unit) in units.iter().enumerate().skip(first) {
        if known.ahead.contains_key(&(number as u64)) {
            continue;
        }
        let partly = known.partly.get(&(number as u64));
        let is_doubtful = partly.is_some_and(|counts| counts.in_doubt > 0);
        if before >= reach && !is_doubtful {
            continue;
        }
        before = before
            .saturating_add(unit.letters.saturating_sub(partly.map_or(0, ReplayCounts::handled)).max(1));
        let task = UnitTask { unit: number, is_doubtful };
        let hour = if in_order { "" } else { unit.hour.as_str() };
        let part = *part_of.entry((unit.queue.as_str(), hour)).or_insert(parts.len());
        match parts.get_mut(part) {
            Some(part) => part.push(task),
            None => parts.push(vec![task]),
        }
    }
    parts
}

/// Sorts units into the order in which they are sent: the first of every hour, then the second of every hour,
/// and so on. So each stage has letters of all hours, several workers can share it, and the first letters are
/// a sample of all.
pub(super) fn spread(units: Vec<Unit>) -> Vec<Unit> {
    let mut hours: HashMap<(String, String), usize> = HashMap::new();
    let ranked = units.into_iter().map(|unit| {
        let rank = hours.entry((unit.queue.clone(), unit.hour.clone())).or_default();
        *rank += 1;
        (*rank, unit)
    });
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, unit)| unit).collect()
}

/// Divides parts among lanes with about the same number of letters each. The same parts always give the same
/// lanes.
pub(super) fn lanes(units: &[Unit], parts: Vec<WorkerTasks>, lanes: usize) -> Vec<Vec<WorkerTasks>> {
    divide(units, parts, lanes).into_iter().map(|(_, lane)| lane).collect()
}

/// Returns the number of letters in each of the [`lanes`].
pub(super) fn letters_of_lanes(units: &[Unit], parts: Vec<WorkerTasks>, lanes: usize) -> Vec<u64> {
    divide(units, parts, lanes).into_iter().map(|(letters, _)| letters).collect()
}

fn divide(units: &[Unit], parts: Vec<WorkerTasks>, lanes: usize) -> Vec<(u64, Vec<WorkerTasks>)> {
    let mut divided: Vec<(u64, Vec<WorkerTasks>)> = vec![(0, Vec::new()); lanes];
    let letters = |part: &WorkerTasks| -> u64 {
        // Reading an object of a unit takes time even if none of its letters is selected.
        part.iter().map(|task| units[task.unit].letters.max(1)).sum()
    };
    let mut parts: Vec<_> = parts.into_iter().map(|part| (letters(&part), part)).collect();
    parts.sort_by_key(|(letters, _)| Reverse(*letters));
    for (letters, part) in parts {
        if let Some((sum, lane)) = divided.iter_mut().min_by_key(|(sum, _)| *sum) {
            *sum += letters;
            lane.push(part);
        }
    }
    divided
}

/// Divides a number in the proportion of the lanes' letters. The shares add up to it.
pub(super) fn shares(whole: u64, letters: &[u64]) -> Vec<u64> {
    let all = letters.iter().sum::<u64>().max(1);
    let up_to = move |letters: u64| {
        u64::try_from(u128::from(whole) * u128::from(letters) / u128::from(all)).unwrap_or(whole)
    };
    let mut before = 0;
    let share = |letters: &u64| {
        let first = up_to(before);
        before += letters;
        up_to(before) - first
    };
    letters.iter().map(share).collect()
}

/// Returns a lane's share of a whole. The shares of all lanes add up to the whole.
pub(super) fn share(whole: u64, lane: usize, lanes: usize) -> u64 {
    let (lane, lanes) = (lane as u64, lanes.max(1) as u64);
    whole / lanes + u64::from(lane < whole % lanes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::unit_boundaries::NameRange;
    use super::*;

    fn unit(queue: &str, hour: &str, number: usize, letters: u64) -> Unit {
        let (queue, hour) = (queue.to_owned(), hour.to_owned());
        Unit { queue, hour, number, range: NameRange { first: None, before: None }, letters, exact: true }
    }

    fn units() -> Vec<Unit> {
        vec![
            unit("a", "20261101T10", 0, 60),
            unit("a", "20261101T10", 1, 40),
            unit("a", "20261101T11", 0, 50),
            unit("b", "20261101T10", 0, 50),
        ]
    }

    fn place(units: u64) -> ReplayPosition {
        ReplayPosition { units, ..ReplayPosition::default() }
    }

    fn task(unit: usize) -> UnitTask {
        UnitTask { unit, is_doubtful: false }
    }

    #[test]
    fn a_part_is_an_hour_of_a_queue_or_a_fifo_queue_and_goes_as_far_as_the_stage_may_need() {
        let of = |place: &ReplayPosition, reach, in_order| {
            parts(&units(), place, &UnitResults::default(), reach, in_order)
        };
        assert_eq!(of(&place(0), 60, false), [[task(0)]]);
        assert_eq!(of(&place(0), 61, false), [[task(0), task(1)]]);
        assert_eq!(of(&place(1), u64::MAX, false), [[task(1)], [task(2)], [task(3)]]);
        assert_eq!(of(&place(1), u64::MAX, true), [vec![task(1), task(2)], vec![task(3)]]);
        assert_eq!(of(&place(1), 0, false), [[]; 0]);
    }

    #[test]
    fn letters_that_may_have_been_sent_are_always_reached() {
        let mut known = UnitResults::default();
        known.partly.insert(0, ReplayCounts { sent: 55, ..ReplayCounts::default() });
        known.partly.insert(3, ReplayCounts { sent: 1, in_doubt: 2, ..ReplayCounts::default() });
        let doubtful = UnitTask { unit: 3, is_doubtful: true };
        assert_eq!(parts(&units(), &place(0), &known, 0, false), [[doubtful]]);
        assert_eq!(parts(&units(), &place(0), &known, 5, false), [[task(0)], [doubtful]]);
        assert_eq!(parts(&units(), &place(0), &known, 6, false), [vec![task(0), task(1)], vec![doubtful]]);
    }

    #[test]
    fn what_is_known_to_be_behind_it_is_no_part() {
        let mut known = UnitResults::default();
        known.ahead.insert(2, ReplayCounts::default());
        let rest = parts(&units(), &place(1), &known, u64::MAX, false);
        assert_eq!(rest, [[task(1)], [task(3)]]);
    }

    #[test]
    fn the_first_units_of_all_hours_go_first() {
        let order: Vec<_> =
            spread(units()).into_iter().map(|unit| (unit.queue, unit.hour, unit.number)).collect();
        let order: Vec<_> =
            order.iter().map(|(queue, hour, number)| (&queue[..], &hour[9..], *number)).collect();
        assert_eq!(order, [("a", "10", 0), ("a", "11", 0), ("b", "10", 0), ("a", "10", 1)]);
        let some = parts(&spread(units()), &place(0), &UnitResults::default(), 170, false);
        assert_eq!(some, [vec![task(0), task(3)], vec![task(1)], vec![task(2)]]);
    }

    #[test]
    fn lanes_are_of_about_the_same_size() {
        let all = parts(&units(), &place(0), &UnitResults::default(), u64::MAX, false);
        let divided = lanes(&units(), all, 2);
        let letters: Vec<u64> = divided
            .iter()
            .map(|lane| lane.iter().flatten().map(|task| units()[task.unit].letters).sum())
            .collect();
        assert_eq!(letters, [100, 100]);
    }

    proptest! {
        #[test]
        fn every_part_is_in_one_lane_and_the_shares_are_the_whole(
            letters in prop::collection::vec(0..5_000_u64, 0..40), count in 1..12_usize, whole in 0..100_000_u64,
        ) {
            let units: Vec<_> =
                letters.iter().enumerate().map(|(at, letters)| unit("a", &format!("{at:011}"), 0, *letters)).collect();
            let all = parts(&units, &place(0), &UnitResults::default(), u64::MAX, false);
            let divided = lanes(&units, all.clone(), count);
            prop_assert_eq!(divided.len(), count);
            let mut found: Vec<_> = divided.into_iter().flatten().collect();
            found.sort_by_key(|part| part[0].unit);
            prop_assert_eq!(&found, &all);
            prop_assert_eq!((0..count).map(|lane| share(whole, lane, count)).sum::<u64>(), whole);
            let of_lanes = letters_of_lanes(&units, all, count);
            let none = u64::from(letters.is_empty()) * whole;
            prop_assert_eq!(shares(whole, &of_lanes).iter().sum::<u64>() + none, whole);
        }
    }
}
