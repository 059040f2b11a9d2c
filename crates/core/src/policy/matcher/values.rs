//! The values that the list of a field takes: exact ones and operators.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::address::{AddressRange, address_of};
use super::decimal::Decimal;
use super::json_view::MatchValue;
use super::steps;
use super::wildcard::Wildcard;

/// An entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WantedValue {
    Null,
    Bool(bool),
    Text(String),
    Number(Decimal),
    /// Any value.
    Exists,
    /// No value at all.
    Absent,
    Prefix(String),
    PrefixOfAnyCase(String),
    Suffix(String),
    SuffixOfAnyCase(String),
    EqualsIgnoreCase(String),
    Wildcard(Wildcard),
    Numeric(NumberRange),
    Cidr(AddressRange),
    /// Any value but these.
    AnythingBut(WantedValues),
}

/// The entries of a list that a value can be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct WantedValues {
    texts: BTreeSet<String>,
    /// Those of the texts that are addresses, which may be written in other ways.
    addresses: BTreeSet<IpAddr>,
    numbers: BTreeSet<Decimal>,
    others: Vec<WantedValue>,
}

/// A range of numbers. Each end is with or without the number itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NumberRange {
    pub(super) low: Option<(Decimal, bool)>,
    pub(super) high: Option<(Decimal, bool)>,
}

impl WantedValues {
    /// Returns the values that these entries take. Every notation of an exact IP address is the same to `EventBridge`,
    /// but `anything-but` excludes texts.
    pub(super) fn of(wanted: Vec<WantedValue>, excluded: bool) -> Self {
        let mut values = Self::default();
        for wanted in wanted {
            match wanted {
                WantedValue::Text(text) => {
                    values.addresses.extend(address_of(&text).filter(|_| !excluded));
                    values.texts.insert(text);
                }
                WantedValue::Number(number) => {
                    values.numbers.insert(number);
                }
                WantedValue::Absent => {}
                other => values.others.push(other),
            }
        }
        values
    }

    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.numbers.is_empty() && self.others.is_empty()
    }

    /// Reports whether one of them takes a value. It takes no list and no object.
    pub(super) fn take(&self, value: &MatchValue<'_>) -> bool {
        steps::count(1);
        let is_exact = match value {
            MatchValue::Text(text) => {
                let address = || address_of(text).is_some_and(|address| self.addresses.contains(&address));
                self.texts.contains(text.as_ref()) || (!self.addresses.is_empty() && address())
            }
            MatchValue::Number(number) => {
                !self.numbers.is_empty() && self.numbers.contains(&Decimal::of(number))
            }
            _ => false,
        };
        is_exact || self.others.iter().any(|wanted| wanted.takes(value))
    }
}

impl WantedValue {
    /// Reports whether it takes a value that is neither a list nor an object.
    pub(super) fn takes(&self, value: &MatchValue<'_>) -> bool {
        steps::count(1);
        match (self, value) {
            (Self::Exists, _) | (Self::Null, MatchValue::Null) => true,
            (Self::AnythingBut(values), value) => !values.take(value),
            (Self::Bool(wanted), MatchValue::Bool(is)) => wanted == is,
            (Self::Number(wanted), MatchValue::Number(number)) => *wanted == Decimal::of(number),
            (Self::Numeric(range), MatchValue::Number(number)) => range.contains(&Decimal::of(number)),
            (wanted, MatchValue::Text(text)) => wanted.takes_text(text),
            _ => false,
        }
    }

    fn takes_text(&self, text: &str) -> bool {
        match self {
            Self::Text(wanted) => wanted == text,
            Self::Prefix(prefix) => text.starts_with(prefix),
            Self::Suffix(suffix) => text.ends_with(suffix),
            Self::PrefixOfAnyCase(prefix) => after_prefix(text, prefix).is_some(),
            Self::SuffixOfAnyCase(suffix) => before_suffix(text, suffix).is_some(),
            Self::EqualsIgnoreCase(wanted) => after_prefix(text, wanted) == Some(""),
            Self::Wildcard(wildcard) => wildcard.takes(text),
            Self::Cidr(network) => address_of(text).is_some_and(|address| network.contains(address)),
            _ => false,
        }
    }
}

/// Returns what follows a prefix, each of whose characters may be in lower or upper case.
fn after_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let after = |text: &'a str, mut case: &mut dyn Iterator<Item = char>| {
        (&mut case).try_fold(text, |rest, one| rest.strip_prefix(one))
    };
    prefix.chars().try_fold(text, |rest, wanted| {
        after(rest, &mut wanted.to_lowercase()).or_else(|| after(rest, &mut wanted.to_uppercase()))
    })
}

/// Returns what precedes a suffix, each of whose characters may be in lower or upper case.
fn before_suffix<'a>(text: &'a str, suffix: &str) -> Option<&'a str> {
    let before = |text: &'a str, mut case: &mut dyn Iterator<Item = char>| {
        (&mut case).try_fold(text, |rest, one| rest.strip_suffix(one))
    };
    suffix.chars().rev().try_fold(text, |rest, wanted| {
        before(rest, &mut wanted.to_lowercase().rev())
            .or_else(|| before(rest, &mut wanted.to_uppercase().rev()))
    })
}

impl NumberRange {
    pub(super) fn contains(&self, number: &Decimal) -> bool {
        let above = |(low, with): &(Decimal, bool)| low < number || (*with && low == number);
        let below = |(high, with): &(Decimal, bool)| number < high || (*with && high == number);
        self.low.as_ref().is_none_or(above) && self.high.as_ref().is_none_or(below)
    }

    /// Reports whether no number is in it.
    pub(super) fn is_empty(&self) -> bool {
        let ends = self.low.as_ref().zip(self.high.as_ref());
        ends.is_some_and(|((low, with_low), (high, with_high))| {
            low > high || (low == high && !(*with_low && *with_high))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_character_may_be_in_lower_or_upper_case() {
        for (wanted, text, expected) in [
            ("abc", "aBC", true),
            ("ÄÖ", "äÖ", true),
            ("straße", "STRASSE", true),
            ("straße", "Straße", true),
            ("strasse", "straße", false),
            ("ΣΑΣ", "σας", false),
            ("ΣΑΣ", "σασ", true),
            ("", "", true),
            ("a", "ab", false),
        ] {
            assert_eq!(
                WantedValue::EqualsIgnoreCase(wanted.to_owned()).takes_text(text),
                expected,
                "{wanted} {text}"
            );
            let with = |more: &str| [more, text, more].concat();
            let [before, after] = [format!("x{text}"), format!("{text}x")];
            if expected {
                assert!(
                    WantedValue::PrefixOfAnyCase(wanted.to_owned()).takes_text(&after),
                    "{wanted} {text}"
                );
                assert!(
                    WantedValue::SuffixOfAnyCase(wanted.to_owned()).takes_text(&before),
                    "{wanted} {text}"
                );
                let inside = WantedValue::SuffixOfAnyCase(wanted.to_owned()).takes_text(&with("x"));
                assert_eq!(inside, wanted.is_empty(), "{wanted} {text}");
            }
        }
    }
}
