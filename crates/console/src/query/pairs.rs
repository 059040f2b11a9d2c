//! Queries as pairs of a name and a text.

use jiff::Timestamp;

use super::filter::{Filter, GroupField};
use super::page::{OneLetter, PageKind, Query, SortColumn};
use super::range::PageRange;

/// The longest text of a parameter, bytes. A key of S3 has at most 1,024.
const MAX_PARAMETER_BYTES: usize = 2048;

/// The parameter that a search is for, and the value for pages that load themselves again.
const TEXT: &str = "text";
const REFRESHES: &str = "on";

/// The reason why a query is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadQuery {
    /// There is no page of this name.
    #[error("there is no page {0:?}; there are now, groups, group, waiting, letter, find and words")]
    Page(String),
    /// The parameters are not an object.
    #[error("the parameters must be a JSON object")]
    NoObject,
    /// A parameter is not a text.
    #[error("the parameter {0:?} must be a text")]
    NoText(String),
    /// A page has no parameter of this name.
    #[error("the page has no parameter {0:?}")]
    Unknown(String),
    /// A parameter is given twice.
    #[error("the parameter {0:?} is given twice")]
    Twice(String),
    /// A parameter is too long.
    #[error("the parameter {0:?} must be at most 2048 bytes long")]
    TooLong(String),
    /// The time range cannot be read.
    #[error(
        "range must be a time such as 30m, 3h or 14d, at most 366d; from and to go together, and from comes first"
    )]
    Range,
    /// The field to group by cannot be read.
    #[error("by must be topic, subscription, target, error, cause, rule, reason or queue")]
    By,
    /// The column to sort by cannot be read.
    #[error("sort must be name, waiting, archived, need or since")]
    Sort,
    /// Whether the page loads itself again cannot be read.
    #[error("refresh must be on, or be left out")]
    Refresh,
    /// Waiting letters do not have the field.
    #[error("the list of letters that wait has no {0}: by must be another field")]
    ArchivedOnly(&'static str),
    /// A parameter is missing.
    #[error("the page needs the parameter {0:?}")]
    Missing(&'static str),
    /// No command can name the letters of the action.
    #[error(
        "no command names these letters alone, it would be for every letter: narrow the group down, by subscription or topic"
    )]
    TooWide,
}

/// Returns the page's name and the parameters of a query.
pub(super) fn write(query: &Query) -> (&'static str, Vec<(&'static str, String)>) {
    let mut pairs = Vec::new();
    let name = match &query.page {
        PageKind::Now => "now",
        PageKind::Groups { by, of } => {
            pairs.push(("by", by.name().to_owned()));
            pairs.extend(fields(of));
            "groups"
        }
        PageKind::Group { of } => {
            pairs.extend(fields(of));
            "group"
        }
        PageKind::Waiting { by, of } => {
            pairs.push(("by", by.name().to_owned()));
            pairs.extend(fields(of));
            "waiting"
        }
        PageKind::Letter(OneLetter { id, key, log_query }) => {
            pairs.push(("id", id.clone()));
            pairs.extend(key.clone().map(|key| ("key", key)));
            pairs.extend(log_query.clone().map(|id| ("log", id)));
            "letter"
        }
        PageKind::Words => "words",
        PageKind::Find { text } => {
            pairs.push((TEXT, text.clone()));
            "find"
        }
    };
    match query.range {
        PageRange::Between(from, to) => pairs.extend([("from", from.to_string()), ("to", to.to_string())]),
        past @ PageRange::Past(_) => pairs.extend(past.name().map(|name| ("range", name))),
    }
    pairs.extend(query.sort.map(|sort| ("sort", sort.name().to_owned())));
    pairs.extend(query.refreshes.then(|| ("refresh", REFRESHES.to_owned())));
    (name, pairs)
}

fn fields(of: &Filter) -> impl Iterator<Item = (&'static str, String)> {
    of.iter().map(|(field, value)| (field.name(), value.to_owned()))
}

/// Reads a page's name and its parameters.
pub(super) fn read(page: &str, pairs: impl IntoIterator<Item = (String, String)>) -> Result<Query, BadQuery> {
    let mut left = UnusedParameters::new(pairs)?;
    let range = left.range()?;
    let sort = left.sort()?;
    let refreshes = match left.take("refresh").as_deref() {
        None => false,
        Some(REFRESHES) => true,
        Some(_) => return Err(BadQuery::Refresh),
    };
    let page = match page {
        "" | "now" => PageKind::Now,
        "groups" => PageKind::Groups { by: left.by(GroupField::Target)?, of: left.filter() },
        "group" => PageKind::Group { of: left.filter() },
        "waiting" => match left.by(GroupField::Target)? {
            by if by.is_archived_only() => return Err(BadQuery::ArchivedOnly(by.name())),
            by => PageKind::Waiting { by, of: left.filter() },
        },
        "letter" => PageKind::Letter(OneLetter {
            id: left.take("id").filter(|id| !id.is_empty()).ok_or(BadQuery::Missing("id"))?,
            key: left.take("key"),
            log_query: left.take("log"),
        }),
        "words" => PageKind::Words,
        "find" => PageKind::Find { text: left.take(TEXT).unwrap_or_default().trim().to_owned() },
        other => return Err(BadQuery::Page(other.chars().take(40).collect())),
    };
    left.end()?;
    Ok(Query { page, range, sort, refreshes })
}

/// Parameters that the reader has not used yet.
pub(crate) struct UnusedParameters(Vec<(String, String)>);

impl UnusedParameters {
    pub(crate) fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self, BadQuery> {
        let mut left: Vec<(String, String)> = Vec::new();
        for (name, text) in pairs {
            let name = short(name);
            if text.len() > MAX_PARAMETER_BYTES {
                return Err(BadQuery::TooLong(name));
            }
            if left.iter().any(|(other, _)| *other == name) {
                return Err(BadQuery::Twice(name));
            }
            left.push((name, text));
        }
        Ok(Self(left))
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let place = self.0.iter().position(|(other, _)| other == name)?;
        Some(self.0.swap_remove(place).1)
    }

    pub(crate) fn filter(&mut self) -> Filter {
        GroupField::ALL.into_iter().fold(Filter::default(), |filter, field| match self.take(field.name()) {
            Some(value) => filter.with(field, value),
            None => filter,
        })
    }

    pub(crate) fn end(self) -> Result<(), BadQuery> {
        self.0.into_iter().next().map_or(Ok(()), |(name, _)| Err(BadQuery::Unknown(name)))
    }

    fn by(&mut self, default: GroupField) -> Result<GroupField, BadQuery> {
        self.take("by").map_or(Ok(default), |name| GroupField::named(&name).ok_or(BadQuery::By))
    }

    fn sort(&mut self) -> Result<Option<SortColumn>, BadQuery> {
        let named = |name: String| {
            SortColumn::ALL.into_iter().find(|column| column.name() == name).ok_or(BadQuery::Sort)
        };
        self.take("sort").map(named).transpose()
    }

    fn range(&mut self) -> Result<PageRange, BadQuery> {
        let moment = |text: Option<String>| {
            text.map(|text| text.parse::<Timestamp>().map_err(|_| BadQuery::Range)).transpose()
        };
        let (from, to) = (moment(self.take("from"))?, moment(self.take("to"))?);
        match (self.take("range"), from, to) {
            (None, None, None) => Ok(PageRange::default()),
            (Some(past), None, None) => PageRange::past(&past).ok_or(BadQuery::Range),
            (None, Some(from), Some(to)) => PageRange::between(from, to).ok_or(BadQuery::Range),
            _ => Err(BadQuery::Range),
        }
    }
}

/// Returns the first 40 characters of a name, for error messages.
fn short(name: String) -> String {
    if name.chars().count() > 40 { name.chars().take(40).collect() } else { name }
}
