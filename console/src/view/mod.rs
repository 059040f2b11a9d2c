//! Plain data becomes HTML.
//!
//! | file | subject |
//! |---|---|
//! | `frame` | what stands around every page |
//! | `groups`, `group` | letters in groups, and one group |
//! | `said` | what a letter says |
//! | `log_query` | queries of the log, to copy |
//! | `parts` | times, values, charts, links between pages |
//! | `link` | links and actions, as the door has them |
//! | `style` | the style |

mod frame;
mod group;
mod groups;
mod link;
mod log_query;
mod parts;
mod said;
mod style;

pub use frame::Frame;
pub use group::{Known, group};
pub use groups::groups;
pub use link::{action, link};
pub use parts::View;
pub use style::STYLE;
