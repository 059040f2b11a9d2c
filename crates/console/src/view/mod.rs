//! Renders plain data as HTML.
//!
//! | file | subject |
//! |---|---|
//! | `frame` | the frame of every page |
//! | `acts` | actions on letters |
//! | `now` | the present state |
//! | `waiting` | the waiting letters |
//! | `letter` | one letter |
//! | `groups`, `group` | groups of letters, and one group |
//! | `said` | the content of a letter |
//! | `log_query` | log queries, to copy |
//! | `parts` | times, values, charts, links between pages |
//! | `link` | links and actions, in the form of each door |
//! | `style` | the style |

mod acts;
mod frame;
mod group;
mod groups;
mod letter;
mod link;
mod log_query;
mod now;
mod parts;
mod said;
mod style;
mod waiting;

pub use frame::PageFrame;
pub use group::{KnownPolicy, group};
pub use groups::groups;
pub use letter::letter;
pub use link::{action, link};
pub use now::now;
pub use parts::ViewContext;
pub use style::STYLE;
pub use waiting::waiting;
