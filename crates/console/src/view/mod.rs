//! Renders plain data as HTML.
//!
//! | file | subject |
//! |---|---|
//! | `frame` | the frame of every page |
//! | `action_links` | actions on letters |
//! | `now` | the present state |
//! | `waiting` | the waiting letters |
//! | `letter` | one letter |
//! | `groups`, `group` | groups of letters, and one group |
//! | `find` | the result of a search |
//! | `words` | the glossary |
//! | `content` | the content of a letter |
//! | `log_query` | log queries, to copy |
//! | `elements` | times, values, charts, links between pages |
//! | `link` | links and actions, in the form of each door |
//! | `style` | the style |

mod action_links;
mod content;
mod elements;
mod find;
mod frame;
mod group;
mod groups;
mod letter;
mod link;
mod log_query;
mod now;
mod style;
mod waiting;
mod words;

pub use elements::ViewContext;
pub use find::find;
pub use frame::PageFrame;
pub use group::{KnownPolicy, group};
pub use groups::groups;
pub use letter::letter;
pub use link::{action, link, titled_link};
pub use now::now;
pub use style::STYLE;
pub use waiting::waiting;
pub use words::words;
