//! Queries: a page, its time range, and the letters that it is about.
//!
//! A query has two forms that say the same: an address of the local door, and the parameters of the widget. Both are pairs
//! of a name and a text.
//!
//! | file | subject |
//! |---|---|
//! | `filter` | letters by the values of their fields |
//! | `range` | time ranges |
//! | `pairs` | queries as pairs of a name and a text |

mod filter;
mod pairs;
mod range;

use serde_json::{Map, Value};
use url::form_urlencoded;

pub use filter::{Field, Filter};
pub use pairs::BadQuery;
pub(crate) use pairs::Left;
pub use range::Range;

/// A page that somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The page.
    pub page: Page,
    /// The time that it shows.
    pub range: Range,
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Page {
    /// The present state, queue by queue.
    Now,
    /// Letters that were archived or keep failing, in groups by a field.
    Groups {
        /// The field.
        by: Field,
        /// The letters.
        of: Filter,
    },
    /// One group of them.
    Group {
        /// The letters.
        of: Filter,
    },
    /// The letters that wait hidden.
    Waiting {
        /// The field by which they are counted.
        by: Field,
        /// The letters.
        of: Filter,
    },
    /// One letter.
    Letter(OneLetter),
}

/// One letter, and where it is looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OneLetter {
    /// Its id: the letter's own, or SQS's message id.
    pub id: String,
    /// The key of the archive object that holds it, where that is known.
    pub key: Option<String>,
    /// The id of the log query that was begun for it.
    pub log_query: Option<String>,
}

impl Query {
    /// A page over the time range that pages have by themselves.
    #[must_use]
    pub fn of(page: Page) -> Self {
        Self { page, range: Range::default() }
    }

    /// Returns another page over the same time.
    #[must_use]
    pub fn to(&self, page: Page) -> Self {
        Self { page, range: self.range }
    }

    /// Reads an address of the local door: the path behind the token, and what stands behind the question mark. An empty
    /// path is the page *now*.
    ///
    /// # Errors
    ///
    /// [`BadQuery`]: there is no such page, or a parameter is unknown, bad or there twice.
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

    /// Reads the parameters of a widget: an object of texts, with the page's name as `page`. An object without it is the page
    /// *now*.
    ///
    /// # Errors
    ///
    /// As [`Query::from_address`].
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
