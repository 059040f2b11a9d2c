//! What pages show, read from the account as plain data.
//!
//! | file | subject |
//! |---|---|
//! | `groups` | letters in groups, and one group |
//! | `collect` | the letters that a page is about, from the archive and the list |
//! | `index` | letters as the keys of an archive count them |
//! | `sweep` | the listing of an archive over a time range |
//! | `letters` | letters, as pages know them |
//! | `policy` | the function's own policy |
//! | `said` | what a letter says |
//! | `tally` | letters that are counted, over time |
//! | `times` | the time that a page may take |

mod collect;
mod groups;
mod index;
mod letters;
mod policy;
mod said;
mod sweep;
mod tally;
mod times;

pub(crate) use collect::{REQUESTS as COLLECT_REQUESTS, collect, read_orders, read_waiting};
pub use groups::{Common, Counted, Group, Groups, OneGroup, Value};
pub use letters::{ArchivedLetter, Fields, WaitingOne};
pub(crate) use policy::policy;
pub use said::Said;
pub use tally::{Count, PARTS, Span};
pub(crate) use times::Times;
