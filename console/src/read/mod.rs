//! The data of pages, read from the account.
//!
//! | file | subject |
//! |---|---|
//! | `now` | what happens now |
//! | `waiting` | the letters that wait hidden |
//! | `letter` | one letter |
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
mod letter;
mod letters;
mod now;
mod policy;
mod said;
mod sweep;
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
