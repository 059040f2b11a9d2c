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
    /// The column that its table is sorted by; `None` for the page's own order.
    pub sort: Option<SortColumn>,
    /// True if the page loads itself again every 30 seconds.
    pub refreshes: bool,
}

/// A column that tables of groups are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortColumn {
    /// The name, in the order of the alphabet.
    Name,
    /// The letters that wait, most first.
    Waiting,
    /// The letters that were archived, most first.
    Archived,
    /// The letters that need a person, most first.
    NeedYou,
    /// The first of the letters, the earliest first.
    Since,
}

impl SortColumn {
    /// Every column.
    pub const ALL: [Self; 5] = [Self::Name, Self::Waiting, Self::Archived, Self::NeedYou, Self::Since];

    /// Returns the column's name in addresses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Waiting => "waiting",
            Self::Archived => "archived",
            Self::NeedYou => "need",
            Self::Since => "since",
        }
    }
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
    /// The project's own words, and what they mean.
    Words,
    /// The letters, targets, topics and queues whose names contain a text.
    Find {
        /// The text.
        text: String,
    },
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
