//! What a pattern asks, while it is read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::values::WantedValues;

/// The field that overrides alone can ask for: a letter's target follows from its rule.
pub(in crate::policy) const TARGET: &str = "target";

/// What a pattern asks of one place, while it is read.
#[derive(Debug, Clone, Default)]
pub(super) struct PatternDraft {
    pub(super) leaf: Option<DraftLeaf>,
    pub(super) fields: BTreeMap<String, PatternDraft>,
    /// The alternatives of each `$or`, about the same place.
    pub(super) choices: Vec<Vec<PatternDraft>>,
}

/// The list of a field.
#[derive(Debug, Clone)]
pub(super) struct DraftLeaf {
    pub(super) values: Arc<WantedValues>,
    /// True if the field may be absent, where it is looked for in elements of lists.
    pub(super) absent: bool,
    /// True if the field may be absent from the letter itself. No list is on the way to it.
    pub(super) may_miss: bool,
}

/// Returns a path in the field of this name.
fn under(name: &str, path: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{name}.{path}") }
}

impl PatternDraft {
    /// Reports whether it asks of a field at this place by this name.
    pub(super) fn names(&self, name: &str) -> bool {
        self.fields.contains_key(name) || self.choices.iter().flatten().any(|draft| draft.names(name))
    }

    fn below(&self) -> impl Iterator<Item = &Self> {
        self.fields.values().chain(self.choices.iter().flatten())
    }

    pub(super) fn has_absent(&self) -> bool {
        self.leaf.as_ref().is_some_and(|leaf| leaf.absent) || self.below().any(Self::has_absent)
    }

    pub(super) fn has_choice(&self) -> bool {
        !self.choices.is_empty() || self.fields.values().any(Self::has_choice)
    }

    /// Returns the number of patterns without choices that mean the same together, and the number of their fields.
    pub(super) fn combinations(&self) -> (usize, usize) {
        let sum = |choice: &Vec<Self>| {
            choice.iter().map(Self::combinations).fold((0, 0), |(patterns, fields): (usize, usize), more| {
                (patterns.saturating_add(more.0), fields.saturating_add(more.1))
            })
        };
        // Each pattern of one stands beside each of the other.
        let product = |one: (usize, usize), other: (usize, usize)| {
            let fields = one.1.saturating_mul(other.0).saturating_add(other.1.saturating_mul(one.0));
            (one.0.saturating_mul(other.0), fields)
        };
        let fields = self.fields.values().map(Self::combinations);
        fields.chain(self.choices.iter().map(sum)).fold((1, 1), product)
    }

    /// Returns the same with one choice between all combinations. An error is the path of a field that is asked for
    /// twice.
    pub(super) fn written_out(self) -> Result<Self, String> {
        Ok(Self { choices: vec![self.alternatives()?], ..Self::default() })
    }

    /// Returns all combinations.
    fn alternatives(self) -> Result<Vec<Self>, String> {
        let mut all = vec![Self { leaf: self.leaf, ..Self::default() }];
        let mut multiply = |more: Vec<Self>| -> Result<(), String> {
            let mut product = Vec::new();
            for one in std::mem::take(&mut all) {
                let (last, others) = more.split_last().ok_or_else(String::new)?;
                for other in others {
                    product.push(one.clone().and(other.clone())?);
                }
                product.push(one.and(last.clone())?);
            }
            all = product;
            Ok(())
        };
        for (name, draft) in self.fields {
            let named = |draft| Self { fields: BTreeMap::from([(name.clone(), draft)]), ..Self::default() };
            let all = draft.alternatives().map_err(|path| under(&name, &path))?;
            multiply(all.into_iter().map(named).collect())?;
        }
        for choice in self.choices {
            let all: Result<Vec<_>, _> = choice.into_iter().map(Self::alternatives).collect();
            multiply(all?.into_iter().flatten().collect())?;
        }
        Ok(all)
    }

    /// Returns what asks for both, of the same place.
    fn and(mut self, other: Self) -> Result<Self, String> {
        if self.leaf.is_some() && other.leaf.is_some() {
            return Err(String::new());
        }
        self.leaf = self.leaf.or(other.leaf);
        for (name, draft) in other.fields {
            let both = match self.fields.remove(&name) {
                Some(known) => known.and(draft).map_err(|path| under(&name, &path))?,
                None => draft,
            };
            self.fields.insert(name, both);
        }
        self.choices.extend(other.choices);
        Ok(self)
    }

    /// Writes combinations out where fields of one list element would otherwise be looked for in different ones: where
    /// an alternative is about a field that is asked for beside it too.
    pub(super) fn settled(self) -> Result<Self, String> {
        let mut seen: BTreeSet<&str> = self.fields.keys().map(String::as_str).collect();
        let mut collides = false;
        for choice in &self.choices {
            let names: BTreeSet<_> = choice.iter().flat_map(Self::first_names).collect();
            collides |= names.iter().any(|name| !seen.insert(name));
        }
        if collides {
            return self.written_out();
        }
        let fields = self.fields.into_iter().map(|(name, draft)| {
            let draft = draft.settled().map_err(|path| under(&name, &path))?;
            Ok((name, draft))
        });
        let settle = |choice: Vec<Self>| choice.into_iter().map(Self::settled).collect();
        Ok(Self {
            leaf: self.leaf,
            fields: fields.collect::<Result<_, String>>()?,
            choices: self.choices.into_iter().map(settle).collect::<Result<_, String>>()?,
        })
    }

    fn first_names(&self) -> Vec<&str> {
        let own = self.fields.keys().map(String::as_str);
        own.chain(self.choices.iter().flatten().flat_map(Self::first_names)).collect()
    }
}
