//! A pattern and a letter, walked together.
//!
//! A place in a pattern stands beside the values that a letter has at its path. Of a list, one element must be what the
//! pattern asks, all fields of it together. No value has two paths, so no pair of a pattern's place and a letter's value
//! is looked at twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::draft::{PatternDraft, TARGET};
use super::json_view::{MatchObject, MatchValue};
use super::steps;
use super::values::WantedValues;

/// The pattern of one rule.
#[derive(Debug, Default)]
pub(super) struct Pattern {
    root: PatternLevel,
    /// The number of lists that take an absent field.
    flags: usize,
    /// True if it asks for something of the message, which may be large.
    pub(super) is_about_message: bool,
    /// True if it asks for the target, which it can take a look-up to know.
    pub(super) is_about_target: bool,
}

/// What a pattern asks of one place.
#[derive(Debug, Default)]
struct PatternLevel {
    leaf: Option<PatternLeaf>,
    fields: Vec<(String, PatternLevel)>,
    /// Of each choice, one alternative must fit.
    choices: Vec<Vec<PatternLevel>>,
    /// The fields below, which may be absent, that are looked for from here.
    absences: Vec<FieldAbsence>,
    /// True if everything below may be absent.
    may_be_absent: bool,
}

/// The list of a field.
#[derive(Debug)]
struct PatternLeaf {
    values: Arc<WantedValues>,
    /// The flag that is set while the field is absent, if that fits.
    absence: Option<usize>,
    /// True if the field may be absent, and no list is on the way to it.
    may_miss: bool,
}

/// A field that may be absent.
#[derive(Debug)]
struct FieldAbsence {
    path: Vec<String>,
    flag: usize,
    /// True if it must be absent.
    must: bool,
}

/// Something with members.
pub(super) trait MemberLookup {
    /// Returns a member by its name.
    fn member(&self, name: &str) -> Option<&MatchValue<'_>>;

    /// Returns whether a member fits of which nothing is known. `None` says that it is known, or known to be absent.
    fn assumed(&self, _name: &str) -> Option<bool> {
        None
    }
}

impl MemberLookup for MatchObject<'_> {
    fn member(&self, name: &str) -> Option<&MatchValue<'_>> {
        self.get(name)
    }
}

impl Pattern {
    /// Prepares a pattern whose choices are settled: if fields may be absent, the only choice is at its root, between
    /// patterns without choices.
    pub(super) fn of(draft: PatternDraft) -> Self {
        let is_about_message = draft.names("message");
        let is_about_target = draft.names(TARGET);
        let mut flags = 0;
        let mut root = PatternLevel::of(draft, &mut flags);
        if flags > 0 {
            let patterns = if root.choices.is_empty() {
                vec![&mut root]
            } else {
                root.choices.iter_mut().flatten().collect()
            };
            patterns.into_iter().for_each(PatternLevel::place_absences);
        }
        // The message comes last: it may be large.
        root.fields.sort_by_key(|(name, _)| name == "message");
        Self { root, flags, is_about_message, is_about_target }
    }

    /// Reports whether a letter is what it asks.
    pub(super) fn matches(&self, letter: &impl MemberLookup) -> bool {
        self.root.fits(letter, &mut vec![false; self.flags])
    }
}

impl PatternLevel {
    fn of(draft: PatternDraft, flags: &mut usize) -> Self {
        let leaf = draft.leaf.map(|leaf| {
            let absence = leaf.absent.then(|| std::mem::replace(flags, *flags + 1));
            PatternLeaf { values: leaf.values, absence, may_miss: leaf.may_miss }
        });
        let fields: Vec<_> =
            draft.fields.into_iter().map(|(name, draft)| (name, Self::of(draft, flags))).collect();
        let of_choice =
            |choice: Vec<PatternDraft>| choice.into_iter().map(|draft| Self::of(draft, flags)).collect();
        let choices: Vec<Vec<_>> = draft.choices.into_iter().map(of_choice).collect();
        let may_be_absent = leaf.as_ref().is_none_or(|leaf| leaf.absence.is_some() || leaf.may_miss)
            && choices.is_empty()
            && fields.iter().all(|(_, level)| level.may_be_absent);
        Self { leaf, fields, choices, absences: Vec::new(), may_be_absent }
    }

    /// Reports whether an object, or the letter, is what is asked.
    fn fits(&self, members: &(impl MemberLookup + ?Sized), absent: &mut [bool]) -> bool {
        for absence in &self.absences {
            let is_absent = !is_there(members, &absence.path);
            if let Some(flag) = absent.get_mut(absence.flag) {
                *flag = is_absent;
            }
            if absence.must && !is_absent {
                return false;
            }
        }
        let fits = |(name, level): &(String, Self)| {
            steps::count(1);
            let known = || match members.member(name) {
                Some(value) => level.takes(value, absent),
                None => level.is_absent(absent),
            };
            members.assumed(name).unwrap_or_else(known)
        };
        if !self.fields.iter().all(fits) {
            return false;
        }
        self.choices.iter().all(|choice| choice.iter().any(|level| level.fits(members, absent)))
    }

    /// Reports whether a value is what is asked.
    fn takes(&self, value: &MatchValue<'_>, absent: &mut [bool]) -> bool {
        let leaf = self.leaf.as_ref().is_none_or(|leaf| leaf.is_absent(absent) || take(&leaf.values, value));
        leaf && (self.has_no_fields() || self.fields_are_absent(absent) || self.takes_inside(value, absent))
    }

    fn takes_inside(&self, value: &MatchValue<'_>, absent: &mut [bool]) -> bool {
        steps::count(1);
        match value {
            MatchValue::Object(object) => self.fits(object, absent),
            MatchValue::List(all) | MatchValue::Several(all) => {
                all.iter().any(|value| self.takes_inside(value, absent))
            }
            _ => false,
        }
    }

    fn has_no_fields(&self) -> bool {
        self.fields.is_empty() && self.choices.is_empty()
    }

    /// Reports whether everything that is asked is absent and may be.
    fn is_absent(&self, absent: &[bool]) -> bool {
        steps::count(1);
        self.may_be_absent
            && self.leaf.as_ref().is_none_or(|leaf| leaf.may_miss || leaf.is_absent(absent))
            && self.fields_are_absent(absent)
    }

    fn fields_are_absent(&self, absent: &[bool]) -> bool {
        self.choices.is_empty()
            && self.fields.iter().all(|(_, level)| level.may_be_absent && level.is_absent(absent))
    }

    /// Decides from where each field that may be absent is looked for.
    ///
    /// `EventBridge` goes through the fields of a pattern in the order of their paths. A field that is there chooses an
    /// element of each list on its way; an absent one is then looked for in these elements, and in all elements of
    /// other lists.
    fn place_absences(&mut self) {
        let (mut there, mut absent) = (BTreeMap::new(), Vec::new());
        self.collect(&mut Vec::new(), &mut there, &mut absent);
        for (path, flag, must) in absent {
            let whole = path.join(".");
            let has_chosen = |from: &usize| {
                let first = path.get(..*from).and_then(|place| there.get(place));
                first.is_some_and(|first: &String| *first < whole)
            };
            let from = (1..path.len()).rev().find(has_chosen).unwrap_or(0);
            let (place, rest) = path.split_at(from);
            if let Some(level) = self.level_at(place) {
                level.absences.push(FieldAbsence { path: rest.to_vec(), flag, must });
            }
        }
    }

    /// Collects the first path below each place of a field that must be there, and the paths of the fields that may be
    /// absent.
    fn collect(
        &self,
        path: &mut Vec<String>,
        there: &mut BTreeMap<Vec<String>, String>,
        absent: &mut Vec<(Vec<String>, usize, bool)>,
    ) {
        if let Some(leaf) = &self.leaf {
            if let Some(flag) = leaf.absence {
                absent.push((path.clone(), flag, leaf.values.is_empty()));
            } else {
                let whole = path.join(".");
                for from in 1..path.len() {
                    let first = there.entry(path[..from].to_vec()).or_insert_with(|| whole.clone());
                    if whole < *first {
                        first.clone_from(&whole);
                    }
                }
            }
        }
        for (name, level) in &self.fields {
            path.push(name.clone());
            level.collect(path, there, absent);
            path.pop();
        }
    }

    fn level_at(&mut self, path: &[String]) -> Option<&mut Self> {
        let [name, rest @ ..] = path else { return Some(self) };
        let (_, level) = self.fields.iter_mut().find(|(other, _)| other == name)?;
        level.level_at(rest)
    }
}

impl PatternLeaf {
    fn is_absent(&self, absent: &[bool]) -> bool {
        self.absence.is_some_and(|flag| absent.get(flag) == Some(&true))
    }
}

/// Reports whether values take a value or an element of it.
fn take(values: &WantedValues, value: &MatchValue<'_>) -> bool {
    match value {
        MatchValue::List(all) | MatchValue::Several(all) => all.iter().any(|value| take(values, value)),
        MatchValue::Object(_) => false,
        value => values.take(value),
    }
}

/// Reports whether there is a value at a path that is neither a list nor an object, in any element of lists.
fn is_there(members: &(impl MemberLookup + ?Sized), path: &[String]) -> bool {
    steps::count(1);
    let [name, rest @ ..] = path else { return false };
    members.member(name).is_some_and(|value| is_below(value, rest))
}

fn is_below(value: &MatchValue<'_>, path: &[String]) -> bool {
    match value {
        MatchValue::List(all) | MatchValue::Several(all) => {
            steps::count(all.len());
            all.iter().any(|value| is_below(value, path))
        }
        MatchValue::Object(object) => is_there(object, path),
        _ => path.is_empty(),
    }
}
