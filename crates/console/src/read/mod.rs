//! The data of pages, read from the account.
//!
//! | file | subject |
//! |---|---|
//! | `now` | the present state |
//! | `waiting` | the waiting letters |
//! | `letter` | one letter |
//! | `groups` | letters in groups, and one group |
//! | `collect` | collects a page's letters, from the archive and the list |
//! | `index` | counts letters by the archive's keys |
//! | `letters` | letters as pages show them |
//! | `policy` | the function's own policy |
//! | `said` | the content of a letter |
//! | `tally` | counts over time |
//! | `times` | the time limits of a page |

mod collect;
mod groups;
mod index;
mod letter;
mod letters;
mod now;
mod policy;
mod said;
mod tally;
mod times;
mod waiting;

pub(crate) use collect::{LIST_REQUESTS, Listed, REQUESTS as COLLECT_REQUESTS, collect, read_waiting};
pub use groups::{Common, Counted, Group, Groups, OneGroup, Value};
pub(crate) use index::GROUPS;
pub(crate) use letter::{LOOKS, letter};
pub use letter::{Letter, Line, Log, Replayed, query as letter_query, searched_from};
pub use letters::{ArchivedLetter, Fields, WaitingOne};
pub use now::{Alarm, Now, QueueNow, Series, part_of};
pub(crate) use now::{REQUESTS as NOW_REQUESTS, now};
pub(crate) use policy::policy;
pub use said::{Mask, Said};
pub use tally::{Count, Left, PARTS, Span};
pub(crate) use times::Times;
pub use waiting::{Waiting, WaitingGroup};
