//! Divides the units of a stage among workers. This module does no I/O.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::progress::Units;
use super::ramp::Stage;
use super::state::Place;
use super::unit::Unit;

/// A unit, by its position in the plan, and how much of it the stage allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) unit: usize,
    pub(super) most: Option<u64>,
}

/// The work of one worker, in order: units of one hour of a queue, or of a whole FIFO queue.
pub(super) type Part = Vec<Task>;

/// Returns the parts of a stage that are still to be done.
pub(super) fn parts(
    units: &[Unit],
    stages: &[Stage],
    place: &Place,
    known: &Units,
    in_order: bool,
) -> Vec<Part> {
    let first = usize::try_from(place.units).unwrap_or(usize::MAX);
    let is_last = place.stage + 1 >= stages.len();
    let end = stages.get(place.stage).map_or(u64::MAX, |stage| stage.end);
    let (mut parts, mut before): (Vec<Part>, u64) = (Vec::new(), 0);
    let mut part_of: HashMap<(&str, &str), usize> = HashMap::new();
    for (number, unit) in units.iter().enumerate() {
        let starts = before;
        before += unit.letters;
        if !is_last && starts >= end {
            break;
        }
        if number < first || known.ahead.contains_key(&(number as u64)) {
            continue;
        }
        let most = (!is_last && before > end).then_some(end - starts);
        let task = Task { unit: number, most };
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
pub(super) fn lanes(units: &[Unit], parts: Vec<Part>, lanes: usize) -> Vec<Vec<Part>> {
    let mut divided: Vec<(u64, Vec<Part>)> = vec![(0, Vec::new()); lanes];
    let letters = |part: &Part| -> u64 {
        // Reading an object of a unit takes time even if none of its letters is selected.
        part.iter().map(|task| task.most.unwrap_or(units[task.unit].letters).max(1)).sum()
    };
    let mut parts: Vec<_> = parts.into_iter().map(|part| (letters(&part), part)).collect();
    parts.sort_by_key(|(letters, _)| Reverse(*letters));
    for (letters, part) in parts {
        if let Some((sum, lane)) = divided.iter_mut().min_by_key(|(sum, _)| *sum) {
            *sum += letters;
            lane.push(part);
        }
    }
    divided.into_iter().map(|(_, lane)| lane).collect()
}

/// Returns a lane's share of a whole. The shares of all lanes add up to the whole.
pub(super) fn share(whole: u64, lane: usize, lanes: usize) -> u64 {
    let (lane, lanes) = (lane as u64, lanes.max(1) as u64);
    whole / lanes + u64::from(lane < whole % lanes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::cut::Range;
    use super::super::ramp::stages;
    use super::super::state::Counts;
    use super::*;

    fn unit(queue: &str, hour: &str, number: usize, letters: u64) -> Unit {
        let (queue, hour) = (queue.to_owned(), hour.to_owned());
        Unit { queue, hour, number, range: Range { first: None, before: None }, letters, exact: true }
    }

    fn units() -> Vec<Unit> {
        vec![
            unit("a", "20261101T10", 0, 60),
            unit("a", "20261101T10", 1, 40),
            unit("a", "20261101T11", 0, 50),
            unit("b", "20261101T10", 0, 50),
        ]
    }

    fn place(stage: usize, units: u64) -> Place {
        Place { units, stage, ..Place::default() }
    }

    #[test]
    fn a_part_is_an_hour_of_a_queue_or_a_fifo_queue_and_ends_where_the_stage_does() {
        let task = |unit, most| Task { unit, most };
        let steps = stages(&[40, 100], 200);
        assert_eq!(
            parts(&units(), &steps, &place(0, 0), &Units::default(), false),
            [[task(0, None), task(1, Some(20))]]
        );
        let rest = parts(&units(), &steps, &place(steps.len() - 1, 1), &Units::default(), false);
        assert_eq!(rest, [[task(1, None)], [task(2, None)], [task(3, None)]]);
        let rest = parts(&units(), &steps, &place(steps.len() - 1, 1), &Units::default(), true);
        assert_eq!(rest, [vec![task(1, None), task(2, None)], vec![task(3, None)]]);
    }

    #[test]
    fn what_is_known_to_be_behind_it_is_no_part() {
        let mut known = Units::default();
        known.ahead.insert(2, Counts::default());
        let rest = parts(&units(), &stages(&[100], 200), &place(4, 1), &known, false);
        let task = |unit| Task { unit, most: None };
        assert_eq!(rest, [[task(1)], [task(3)]]);
    }

    #[test]
    fn the_first_units_of_all_hours_go_first() {
        let order: Vec<_> =
            spread(units()).into_iter().map(|unit| (unit.queue, unit.hour, unit.number)).collect();
        let order: Vec<_> =
            order.iter().map(|(queue, hour, number)| (&queue[..], &hour[9..], *number)).collect();
        assert_eq!(order, [("a", "10", 0), ("a", "11", 0), ("b", "10", 0), ("a", "10", 1)]);
        let task = |unit, most| Task { unit, most };
        let some = parts(&spread(units()), &stages(&[85, 100], 200), &place(0, 0), &Units::default(), false);
        assert_eq!(some, [vec![task(0, None), task(3, Some(10))], vec![task(1, None)], vec![task(2, None)]]);
    }

    #[test]
    fn lanes_are_of_about_the_same_size() {
        let all = parts(&units(), &stages(&[100], 200), &place(4, 0), &Units::default(), false);
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
            let all = parts(&units, &[], &place(0, 0), &Units::default(), false);
            let divided = lanes(&units, all.clone(), count);
            prop_assert_eq!(divided.len(), count);
            let mut found: Vec<_> = divided.into_iter().flatten().collect();
            found.sort_by_key(|part| part[0].unit);
            prop_assert_eq!(found, all);
            prop_assert_eq!((0..count).map(|lane| share(whole, lane, count)).sum::<u64>(), whole);
        }
    }
}
