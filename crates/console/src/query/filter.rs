//! Filters: select letters by the values of their fields.

use std::collections::BTreeMap;

/// A field of a letter by which letters are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupField {
    /// The topic that the letter was published to.
    Topic,
    /// The subscription that failed.
    Subscription,
    /// The endpoint of its retries.
    Target,
    /// The error code of its last failure.
    Error,
    /// The error code by which Lambda or `EventBridge` gave up on it; SNS names none. The list of waiting letters does not
    /// have it.
    Cause,
    /// The policy's rule that it falls under.
    Rule,
    /// The reason why it was archived.
    Reason,
    /// The dead-letter queue that it came from.
    Queue,
}

/// The values that letters must have in some fields. An empty value selects letters without a value.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Filter(BTreeMap<GroupField, String>);

impl GroupField {
    /// Every field.
    pub const ALL: [Self; 8] = [
        Self::Topic,
        Self::Subscription,
        Self::Target,
        Self::Error,
        Self::Cause,
        Self::Rule,
        Self::Reason,
        Self::Queue,
    ];

    /// Returns the field's name in addresses and on pages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Topic => "topic",
            Self::Subscription => "subscription",
            Self::Target => "target",
            Self::Error => "error",
            Self::Cause => "cause",
            Self::Rule => "rule",
            Self::Reason => "reason",
            Self::Queue => "queue",
        }
    }

    /// Reports whether waiting letters have no value of the field, because the list does not name it.
    #[must_use]
    pub fn is_archived_only(self) -> bool {
        matches!(self, Self::Reason | Self::Cause)
    }

    /// Returns the field with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name() == name)
    }
}

impl Filter {
    /// Returns the value that letters must have in a field.
    #[must_use]
    pub fn get(&self, field: GroupField) -> Option<&str> {
        self.0.get(&field).map(String::as_str)
    }

    /// Reports whether the filter selects every letter.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the fields and their values.
    pub fn iter(&self) -> impl Iterator<Item = (GroupField, &str)> {
        self.0.iter().map(|(field, value)| (*field, value.as_str()))
    }

    /// Returns the filter with a value for one more field.
    #[must_use]
    pub fn with(&self, field: GroupField, value: impl Into<String>) -> Self {
        let mut fields = self.0.clone();
        fields.insert(field, value.into());
        Self(fields)
    }

    /// Returns the filter without a condition on a field.
    #[must_use]
    pub fn without(&self, field: GroupField) -> Self {
        let mut fields = self.0.clone();
        fields.remove(&field);
        Self(fields)
    }

    /// Reports whether the filter selects a letter with these values. A topic may be given by its ARN or by
    /// its name, since the archive's keys and the commands use names.
    pub fn takes<'v>(&self, value: impl Fn(GroupField) -> Option<&'v str>) -> bool {
        self.iter().all(|(field, wanted)| {
            let value = value(field).unwrap_or_default();
            let is_named = field == GroupField::Topic && !wanted.is_empty() && !wanted.contains(':');
            value == wanted || (is_named && value.rsplit(':').next() == Some(wanted))
        })
    }
}
