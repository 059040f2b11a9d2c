//! Divides an archive into units. A unit is a limited run of objects that has one ledger.
//!
//! Every replay must divide the archive in the same way, or it would look a letter up in the wrong ledger. So
//! the cut of an hour of a queue is stored once, and then only grows at its end: later objects are cut behind
//! the last key. An object that appears late, with an earlier time in its key, belongs to the unit whose
//! range holds its key. Deleted objects change nothing. This module does no I/O.

use serde::{Deserialize, Serialize};

use super::version::VersionedDocument;

/// The greatest number of objects in a unit: one page of a listing.
const MAX_OBJECTS: u64 = 1000;

/// The greatest number of letters in a unit, unless a single object has more.
const MAX_LETTERS: u64 = 1000;

/// The greatest size of a unit in bytes, unless a single object is larger. A unit is held in memory.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The cut of an hour of a queue, as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UnitBoundaries {
    version: u8,
    /// The name of the first object of each unit. The first unit also holds any object before it.
    firsts: Vec<String>,
    /// The last name that was assigned to a unit.
    end: String,
}

impl VersionedDocument for UnitBoundaries {
    const VERSION: u8 = 1;

    fn version(&self) -> u8 {
        self.version
    }
}

/// The range of names in an hour that belong to a unit: from `first` up to, but without, `before`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NameRange {
    /// `None` for the hour's first unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) first: Option<String>,
    /// `None` for the hour's last unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<String>,
}

/// A builder of the cut of an hour. It takes the objects in the order of their names.
#[derive(Debug)]
pub(super) struct BoundaryBuilder {
    cuts: UnitBoundaries,
    /// The unit of the last object.
    unit: usize,
    /// The contents of the current unit so far.
    fill: UnitFill,
    is_changed: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct UnitFill {
    objects: u64,
    letters: u64,
    bytes: u64,
}

impl BoundaryBuilder {
    /// Continues a cut. `None` begins the hour's first cut.
    pub(super) fn new(cuts: Option<UnitBoundaries>) -> Self {
        let cuts = cuts.unwrap_or_else(|| UnitBoundaries {
            version: UnitBoundaries::VERSION,
            ..UnitBoundaries::default()
        });
        Self { cuts, unit: 0, fill: UnitFill::default(), is_changed: false }
    }

    /// Returns the number of the unit, from 0, that holds the next object.
    pub(super) fn push(&mut self, name: &str, bytes: u64, letters: u64) -> usize {
        let before = self.unit;
        if name > self.cuts.end.as_str() {
            self.unit = self.cuts.firsts.len().saturating_sub(1);
            if self.unit != before {
                self.fill = UnitFill::default();
            }
            if self.cuts.firsts.is_empty() || self.fill.is_full_with(bytes, letters) {
                self.unit = self.cuts.firsts.len();
                self.fill = UnitFill::default();
                self.cuts.firsts.push(name.to_owned());
            }
            name.clone_into(&mut self.cuts.end);
            self.is_changed = true;
        } else {
            self.unit = self.cuts.firsts.partition_point(|first| first.as_str() <= name).saturating_sub(1);
            if self.unit != before {
                self.fill = UnitFill::default();
            }
        }
        self.fill.objects += 1;
        self.fill.bytes += bytes;
        self.fill.letters += letters;
        self.unit
    }

    /// Returns the range of a unit.
    pub(super) fn range(&self, unit: usize) -> NameRange {
        let first = (unit > 0).then(|| self.cuts.firsts.get(unit).cloned()).flatten();
        NameRange { first, before: self.cuts.firsts.get(unit + 1).cloned() }
    }

    /// Returns the cut if it has changed.
    pub(super) fn changed(&self) -> Option<&UnitBoundaries> {
        self.is_changed.then_some(&self.cuts)
    }
}

impl UnitFill {
    fn is_full_with(self, bytes: u64, letters: u64) -> bool {
        self.objects > 0
            && (self.objects >= MAX_OBJECTS
                || self.letters + letters > MAX_LETTERS
                || self.bytes + bytes > MAX_BYTES)
    }
}

impl NameRange {
    /// Reports whether a name is in the range.
    pub(super) fn holds(&self, name: &str) -> bool {
        self.first.as_deref().is_none_or(|first| first <= name)
            && self.before.as_deref().is_none_or(|before| name < before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(cuts: Option<UnitBoundaries>, names: &[&str], letters: u64) -> (UnitBoundaries, Vec<usize>) {
        let mut cutter = BoundaryBuilder::new(cuts);
        let units = names.iter().map(|name| cutter.push(name, 10, letters)).collect();
        (cutter.cuts, units)
    }

    #[test]
    fn a_unit_ends_before_it_holds_too_much_and_a_large_object_is_one_by_itself() {
        assert_eq!(cut(None, &["a", "b", "c", "d", "e"], 400).1, [0, 0, 1, 1, 2]);
        assert_eq!(cut(None, &["a", "b", "c"], 5000).1, [0, 1, 2]);
        let mut cutter = BoundaryBuilder::new(None);
        let units: Vec<_> = (0..4).map(|name| cutter.push(&name.to_string(), MAX_BYTES / 2, 1)).collect();
        assert_eq!(units, [0, 0, 1, 1]);
        let names: Vec<_> = (1000..3500).map(|name| name.to_string()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let units = cut(None, &names, 0).1;
        assert_eq!((units[999], units[1000], units[2499]), (0, 1, 2));
    }

    #[test]
    fn what_comes_later_fills_the_last_unit_first_and_what_comes_late_moves_no_boundary() {
        let (cuts, _) = cut(None, &["b", "d", "f"], 400);
        let (cuts, units) = cut(Some(cuts), &["a", "b", "c", "d", "e", "f", "g", "h"], 400);
        assert_eq!(units, [0, 0, 0, 0, 0, 1, 1, 2]);
        // Deleting objects does not move a boundary either.
        assert_eq!(cut(Some(cuts), &["a", "e", "g", "h", "i"], 400).1, [0, 0, 1, 2, 2]);
    }

    proptest! {
        /// A name that was once in a unit stays in it, though other objects are added, deleted or late.
        #[test]
        fn a_name_never_changes_its_unit(
            rounds in prop::collection::vec(prop::collection::btree_map(0..500_u32, 1..900_u64, 0..60), 1..6),
        ) {
            let (mut cuts, mut known) = (None, std::collections::BTreeMap::new());
            for round in rounds {
                let mut cutter = BoundaryBuilder::new(cuts);
                for (name, letters) in round {
                    let name = format!("{name:03}");
                    let unit = cutter.push(&name, 1, letters);
                    prop_assert_eq!(*known.entry(name.clone()).or_insert(unit), unit, "{}", name);
                }
                for (name, unit) in &known {
                    prop_assert!(cutter.range(*unit).holds(name), "{} is not in {:?}", name, cutter.range(*unit));
                }
                cuts = Some(cutter.cuts);
            }
        }
    }
}
