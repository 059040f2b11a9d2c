//! Plain data becomes HTML.
//!
//! | file | subject |
//! |---|---|
//! | `frame` | what stands around every page |
//! | `link` | links and actions, as the door has them |
//! | `style` | the style |

mod frame;
mod link;
mod style;

pub use frame::Frame;
pub use link::{action, link};
pub use style::STYLE;
