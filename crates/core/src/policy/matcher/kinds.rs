//! What the fields of a letter can hold, so that a pattern that can match nothing is refused.
//!
//! Such a pattern is a mistake, and an expensive one: a hold that matches nothing lets everything go.

use super::decimal::Decimal;
use super::draft::TARGET;
use super::json_view::MatchValue;
use super::values::{NumberRange, WantedValue};
use super::view::VIEW;
use crate::arn::{Arn, ArnKind};
use crate::endpoint::TargetName;
use crate::letter::{MARK_ATTRIBUTE, Origin};

/// The names of all operators.
pub(super) const OPERATORS: [&str; 9] = [
    "prefix",
    "suffix",
    "equals-ignore-case",
    "wildcard",
    "anything-but",
    "numeric",
    "exists",
    "cidr",
    "exactly",
];

/// What a place in a letter can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldKind {
    /// The fields of the letter.
    Letter,
    /// The same, and the target.
    LetterAndTarget,
    /// The name of a target.
    Target,
    /// One of [`Origin::NAMES`].
    Origin,
    /// The ARN of a topic, subscription or queue.
    Arn(ArnKind),
    /// A text that every letter has.
    Id,
    /// The subject, which is a text or absent.
    Subject,
    /// A text, or absent, inside something else.
    Text,
    /// A number of retries.
    Count,
    /// Message attributes, by name.
    Attributes,
    /// One message attribute.
    Attribute,
    /// The parts of an error.
    Error,
    /// Whatever the message holds.
    Any,
}

impl FieldKind {
    /// Returns what a field can hold. An error says why there is no such field.
    pub(super) fn field(self, name: &str) -> Result<Self, String> {
        let is_operator = OPERATORS.contains(&name);
        match (self, name) {
            (Self::Letter, "origin") => Ok(Self::Origin),
            (Self::Letter, "letterId") => Ok(Self::Id),
            (Self::Letter, "queueArn") => Ok(Self::Arn(ArnKind::Queue)),
            (Self::Letter, "topicArn") => Ok(Self::Arn(ArnKind::Topic)),
            (Self::Letter, "subscriptionArn") => Ok(Self::Arn(ArnKind::Subscription)),
            (Self::Letter, "subject") => Ok(Self::Subject),
            (Self::Error, "code" | "message") => Ok(Self::Text),
            (Self::Letter, "messageAttributes") => Ok(Self::Attributes),
            (Self::Letter, "retry") => Ok(Self::Count),
            (Self::Letter, "error") => Ok(Self::Error),
            (Self::Letter, "message") | (Self::Any, _) => Ok(Self::Any),
            (Self::LetterAndTarget, TARGET) => Ok(Self::Target),
            (Self::LetterAndTarget, name) => Self::Letter.field(name),
            (Self::Letter, TARGET) => Err(format!(
                "has no field {name:?}: the target of a letter follows from its rule, so only overrides can ask for it"
            )),
            (Self::Letter, _) => {
                let fields: Vec<_> = VIEW.into_iter().filter(|field| *field != TARGET).collect();
                Err(format!("has no field {name:?}; fields of a letter are {}", fields.join(", ")))
            }
            (Self::Error, _) => Err(format!("has no field {name:?}; it has code and message")),
            (Self::Attributes, MARK_ATTRIBUTE) => {
                Err(format!("has no {name:?}: patterns do not see the mark of this software"))
            }
            (Self::Attributes, _) => Ok(Self::Attribute),
            (Self::Attribute, _) if is_operator => Err(format!(
                "holds {name} where a list belongs: write [{{\"{name}\": ...}}], or \"name.{name}\" if that is the \
                 attribute's name"
            )),
            (Self::Attribute, _) => Ok(Self::Any),
            (_, _) if is_operator => {
                Err(format!("holds {name} where a list belongs: write [{{\"{name}\": ...}}]"))
            }
            (_, _) => Err(format!("has no fields, so {name:?} can match nothing: write a list of values")),
        }
    }

    /// Says why a list cannot stand for it, if that is so.
    pub(super) fn refuses_list(self) -> Option<&'static str> {
        match self {
            Self::Letter | Self::LetterAndTarget => Some("must be an object with at least one field"),
            Self::Attributes => {
                Some("holds attributes by name, so a list can match nothing: ask for an attribute")
            }
            Self::Error => Some("holds code and message, so a list can match nothing: ask for one of them"),
            _ => None,
        }
    }

    /// Says why an entry of its list can match nothing, if that is so.
    pub(super) fn refuses(self, wanted: &WantedValue, told: &str) -> Option<String> {
        let never = |why: &str| Some(format!("{why}, so {told} can match nothing"));
        match (self, wanted) {
            // What an anything-but excludes was looked at before.
            (
                Self::Attribute
                | Self::Any
                | Self::Letter
                | Self::LetterAndTarget
                | Self::Attributes
                | Self::Error,
                _,
            )
            | (
                Self::Subject | Self::Target | Self::Text | Self::Arn(ArnKind::Topic | ArnKind::Subscription),
                WantedValue::Absent,
            )
            | (_, WantedValue::Exists | WantedValue::AnythingBut(_)) => None,
            (_, WantedValue::Absent) => never("is in every letter"),
            (Self::Count, WantedValue::Number(number)) if is_count(number) => None,
            (Self::Count, WantedValue::Numeric(range)) if has_count(range) => None,
            (Self::Count, _) => never("is a whole number"),
            (
                _,
                WantedValue::Null | WantedValue::Bool(_) | WantedValue::Number(_) | WantedValue::Numeric(_),
            ) => never("is a text"),
            (Self::Origin, wanted) => {
                let takes = |name: &&str| wanted.takes(&MatchValue::Text((*name).into()));
                let none = format!("is one of {}", Origin::NAMES.join(", "));
                if Origin::NAMES.iter().any(takes) { None } else { never(&none) }
            }
            (Self::Arn(kind), wanted) => arn_refuses(kind, wanted, told),
            (Self::Target, wanted) => target_refuses(wanted),
            (Self::Id | Self::Subject | Self::Text, _) => None,
        }
    }
}

impl FieldKind {
    /// Reports whether it is of a field of the letter itself that may be absent and is no list.
    pub(super) fn is_plain(self) -> bool {
        matches!(self, Self::Subject | Self::Target | Self::Arn(ArnKind::Topic | ArnKind::Subscription))
    }
}

fn is_count(number: &Decimal) -> bool {
    number.is_whole() && number.floor().is_some_and(|count| u32::try_from(count).is_ok())
}

/// Reports whether a number of retries is in a range.
fn has_count(range: &NumberRange) -> bool {
    let low = range.low.as_ref().and_then(|(low, _)| low.floor()).unwrap_or(0);
    let counts = [low, low.saturating_add(1)].map(|count| Decimal::of(&count.to_string()));
    counts.iter().any(|count| is_count(count) && range.contains(count))
}

/// A URL is known by its scheme, host and a digest only. The rest of it can be a secret, so it is not told.
fn target_refuses(wanted: &WantedValue) -> Option<String> {
    let why = "is an ARN, or the scheme, the host and a digest of a URL";
    let never = |what: &str| Some(format!("{why}, so {what} can match nothing"));
    let of_path = |text: &str| if has_path(text) { never("a path") } else { None };
    let is_name = |text: &str| text.parse::<Arn>().is_ok() || TargetName::is_of_url(text);
    match wanted {
        WantedValue::Text(text) | WantedValue::EqualsIgnoreCase(text) if is_name(text) => None,
        WantedValue::Text(text) | WantedValue::EqualsIgnoreCase(text) if text.starts_with("http") => {
            Some(format!("{why}: write {:?}", TargetName::read(text).as_str()))
        }
        WantedValue::Text(text) | WantedValue::EqualsIgnoreCase(text) if text.contains([':', '/', '#']) => {
            never("something else")
        }
        WantedValue::Text(text) | WantedValue::EqualsIgnoreCase(text) => {
            Some(format!("{why}: write {{\"suffix\": \":{text}\"}} for a name"))
        }
        WantedValue::Prefix(text) | WantedValue::PrefixOfAnyCase(text) => of_path(text),
        WantedValue::Suffix(text) | WantedValue::SuffixOfAnyCase(text) if text.contains('?') => {
            never("a query")
        }
        WantedValue::Wildcard(wildcard) => of_path(wildcard.beginning()),
        WantedValue::Cidr(_) => never("an address"),
        _ => None,
    }
}

/// Reports whether a beginning of a URL has something behind the host.
fn has_path(beginning: &str) -> bool {
    beginning.split_once("://").is_some_and(|(_, rest)| rest.contains(['/', '?', '@']))
}

fn arn_refuses(kind: ArnKind, wanted: &WantedValue, told: &str) -> Option<String> {
    let (thing, service) = match kind {
        ArnKind::Queue => ("a queue", "sqs"),
        ArnKind::Subscription => ("a subscription", "sns"),
        _ => ("a topic", "sns"),
    };
    let never = |hint: &str| Some(format!("is the ARN of {thing}, so {told} can match nothing{hint}"));
    let is_whole = |text: &str| text.parse::<Arn>().is_ok_and(|arn| arn.kind() == kind);
    let beginning = |text: &str| if may_begin_arn(text, service) { None } else { never("") };
    match wanted {
        WantedValue::Text(text) if is_whole(text) => None,
        WantedValue::Text(text) if text.is_empty() || text.contains([':', '*']) => never(""),
        WantedValue::Text(text) => never(&format!(": write {{\"suffix\": \":{text}\"}} for a name")),
        WantedValue::EqualsIgnoreCase(text) if is_whole(&text.to_ascii_lowercase()) => None,
        WantedValue::Prefix(text)
        | WantedValue::Suffix(text)
        | WantedValue::PrefixOfAnyCase(text)
        | WantedValue::SuffixOfAnyCase(text)
            if text.contains('*') =>
        {
            never(": only {\"wildcard\": \"...\"} takes * for any characters")
        }
        WantedValue::Prefix(text) => beginning(text),
        WantedValue::PrefixOfAnyCase(text) => beginning(&text.to_ascii_lowercase()),
        WantedValue::Wildcard(wildcard) if wildcard.literal().is_none_or(is_whole) => {
            beginning(wildcard.beginning())
        }
        WantedValue::EqualsIgnoreCase(_) | WantedValue::Wildcard(_) | WantedValue::Cidr(_) => never(""),
        _ => None,
    }
}

/// Reports whether an ARN of a service can begin with a text.
fn may_begin_arn(text: &str, service: &str) -> bool {
    let mut parts = text.split(':');
    let last = text.matches(':').count();
    let fits = |at: usize, part: Option<&str>, whole: &str| match part {
        None => true,
        Some(part) if at == last => whole.starts_with(part),
        Some(part) => part == whole,
    };
    let arn = fits(0, parts.next(), "arn");
    let partition = parts.next();
    arn && partition.is_none_or(|partition| "aws".starts_with(partition) || partition.starts_with("aws"))
        && fits(2, parts.next(), service)
}
