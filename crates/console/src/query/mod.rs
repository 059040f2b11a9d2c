//! Queries: a page, its time range and its letters.
//!
//! A query has two forms with the same content: an address of the local door, and the parameters of the
//! widget. Both are pairs of a name and a text.
//!
//! | file | subject |
//! |---|---|
//! | `filter` | select letters by the values of their fields |
//! | `range` | time ranges |
//! | `page` | a page and what it shows |
//! | `pairs` | queries as pairs of a name and a text |

mod filter;
mod page;
mod pairs;
mod range;

use serde_json::{Map, Value};
use url::form_urlencoded;

pub use filter::{Filter, GroupField};
pub use page::{OneLetter, PageKind, Query, SortColumn};
pub use pairs::BadQuery;
pub(crate) use pairs::UnusedParameters;
pub use range::PageRange;

impl Query {
    /// Creates a query for a page over the default time range.
    #[must_use]
    pub fn of(page: PageKind) -> Self {
        Self { page, range: PageRange::default(), sort: None, refreshes: false }
    }

    /// Returns a query for another page over the same time range.
    #[must_use]
    pub fn to(&self, page: PageKind) -> Self {
        // A letter's page asks the log, which costs each time.
        let refreshes = self.refreshes && !matches!(page, PageKind::Letter(_));
        Self { page, range: self.range, sort: None, refreshes }
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
