//! A page, and what it shows.

use super::filter::{Filter, GroupField};
use super::range::PageRange;

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
