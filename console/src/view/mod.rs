//! Plain data becomes HTML.
//!
//! | file | subject |
//! |---|---|
//! | `frame` | what stands around every page |
//! | `acts` | what can be done about letters |
//! | `now` | what happens now |
//! | `waiting` | the letters that wait hidden |
//! | `letter` | one letter |
//! | `groups`, `group` | letters in groups, and one group |
//! | `said` | what a letter says |
//! | `log_query` | queries of the log, to copy |
//! | `parts` | times, values, charts, links between pages |
//! | `link` | links and actions, as the door has them |
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

pub use frame::Frame;
pub use group::{Known, group};
pub use groups::groups;
pub use letter::letter;
pub use link::{action, link};
pub use now::now;
pub use parts::View;
pub use style::STYLE;
pub use waiting::waiting;
