//! The data of pages, read from the account.
//!
//! | file | subject |
//! |---|---|
//! | `now` | the present state |
//! | `queue_metrics` | the metrics of the queues |
//! | `stack_alarms` | the alarms that are on |
//! | `waiting` | the waiting letters |
//! | `letter` | one letter |
//! | `find` | the result of a search |
//! | `groups` | letters in groups, and one group |
//! | `collect` | collects a page's letters, from the archive and the list |
//! | `index` | counts letters by the archive's keys |
//! | `letters` | letters as pages show them |
//! | `policy` | the function's own policy |
//! | `present_verdict` | what the present state means, in one sentence |
//! | `failing_targets` | the endpoints that fail |
//! | `lifecycle` | how long the archive keeps letters |
//! | `error_words` | the codes of failures, in words |
//! | `content` | the content of a letter |
//! | `letter_counts` | counts over time |
//! | `time_limits` | the time limits of a page |

mod collect;
mod content;
mod error_words;
mod failing_targets;
mod find;
mod groups;
mod index;
mod letter;
mod letter_counts;
mod letters;
mod lifecycle;
mod now;
mod policy;
mod present_verdict;
mod queue_metrics;
mod stack_alarms;
mod time_limits;
mod waiting;

pub(crate) use collect::{
    LIST_REQUESTS, REQUESTS as COLLECT_REQUESTS, WaitingListPart, collect, read_overrides, read_recoveries,
    read_waiting,
};
pub use content::{ContentMask, ShownContent};
pub use error_words::{ErrorWords, bare_code, error_words, mend, reason_words};
pub use failing_targets::{FailingTarget, TargetState, needs_person};
pub use find::SearchResult;
pub use groups::{CommonValue, CountMethod, GroupValue, OneGroup, PageGroup, PageGroups};
pub(crate) use index::MAX_KEY_GROUPS;
pub use letter::{
    LetterHistory, LetterLog, LetterLogLine, LetterReplay, query as letter_query, searched_from,
};
pub(crate) use letter::{MAX_QUERY_POLLS, letter};
pub use letter_counts::{BoundedCount, ChartSpan, CountBound, PARTS, TimedCount, UnreplayedCount};
pub use letters::{ArchivedLetter, LetterFields, WaitingOne};
pub use lifecycle::lifecycle_rules;
pub use now::PresentState;
pub(crate) use now::{REQUESTS as NOW_REQUESTS, now};
pub(crate) use policy::policy;
pub(crate) use present_verdict::DANGER_SECONDS;
pub use present_verdict::{PresentVerdict, VerdictLevel, VerdictSince};
pub use queue_metrics::{MetricSeries, QueueNow, part_of};
pub use stack_alarms::{Alarm, is_alarm_of_stack};
pub(crate) use time_limits::PageDeadlines;
pub use waiting::{WaitingGroup, WaitingSummary};
