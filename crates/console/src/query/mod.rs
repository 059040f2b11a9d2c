//! Queries: a page, its time range and its letters.
//!
//! A query has two forms with the same content: an address of the local door, and the parameters of the
//! widget. Both are pairs of a name and a text.
//!
//! | file | subject |
//! |---|---|
//! | `filter` | select letters by the values of their fields |
//! | `range` | time ranges |
//! | `pairs` | queries as pairs of a name and a text |

mod filter;
mod pairs;
mod range;

use serde_json::{Map, Value};
use url::form_urlencoded;

pub use filter::{Filter, GroupField};
pub use pairs::BadQuery;
pub(crate) use pairs::UnusedParameters;
pub use range::PageRange;

/// A request for a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The page.
    pub page: PageKind,
    /// The time range that it shows.
    pub range: PageRange,
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageKind {
    /// The present state of every queue.
    Now,
    /// Letters that were archived or keep failing, grouped by a field.
    Groups {
        /// The field to group by.
        by: GroupField,
        /// The filter that selects the letters.
        of: Filter,
    },
    /// One of these groups.
    Group {
        /// The filter that selects the letters.
        of: Filter,
    },
    /// The letters that wait.
    Waiting {
        /// The field to group by.
        by: GroupField,
        /// The filter that selects the letters.
        of: Filter,
    },
    /// One letter.
    Letter(OneLetter),
}

/// One letter, and where to look for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OneLetter {
    /// The letter's own id, or the message id that SQS gave it.
    pub id: String,
    /// The key of the archive object with its record, if known.
    pub key: Option<String>,
    /// The id of the log query that an earlier request for this page started.
    pub log_query: Option<String>,
}

impl Query {
    /// Creates a query for a page over the default time range.
    #[must_use]
    pub fn of(page: PageKind) -> Self {
        Self { page, range: PageRange::default() }
    }

    /// Returns a query for another page over the same time range.
    #[must_use]
    pub fn to(&self, page: PageKind) -> Self {
        Self { page, range: self.range }
    }

    /// Reads an address of the local door: the path behind the token, and the part after the question mark.
    /// An empty path is the page *now*.
    ///
    /// # Errors
    ///
    /// [`BadQuery`] if there is no such page, or a parameter is unknown, invalid or given twice.
    pub fn from_address(path: &str, query: &str) -> Result<Self, BadQuery> {
        let pairs = form_urlencoded::parse(query.as_bytes());
        pairs::read(path.trim_matches('/'), pairs.map(|(name, text)| (name.into_owned(), text.into_owned())))
    }

    /// Returns the query as a relative address: `groups?by=error&range=3h`.
    #[must_use]
    pub fn to_address(&self) -> String {
        let (page, pairs) = pairs::write(self);
        address(page, &pairs)
    }

    /// Reads the parameters of a widget: a JSON object of texts, with the page's name as `page`. Without a
    /// name it is the page *now*.
    ///
    /// # Errors
    ///
    /// See [`Query::from_address`].
    pub fn from_parameters(json: &Value) -> Result<Self, BadQuery> {
        let Value::Object(fields) = json else { return Err(BadQuery::NoObject) };
        let mut pairs = Vec::new();
        let mut page = String::new();
        for (name, value) in fields {
            let Value::String(text) = value else { return Err(BadQuery::NoText(name.clone())) };
            if name == "page" { page.clone_from(text) } else { pairs.push((name.clone(), text.clone())) }
        }
        pairs::read(&page, pairs)
    }

    /// Returns the query as the parameters of a widget.
    #[must_use]
    pub fn to_parameters(&self) -> Value {
        let (page, pairs) = pairs::write(self);
        let mut fields = Map::from_iter([("page".to_owned(), Value::from(page))]);
        fields.extend(pairs.into_iter().map(|(name, text)| (name.to_owned(), Value::from(text))));
        Value::Object(fields)
    }
}

/// Returns a relative address with these parameters.
pub(crate) fn address(page: &str, pairs: &[(&'static str, String)]) -> String {
    if pairs.is_empty() {
        return page.to_owned();
    }
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    format!("{page}?{query}")
}
