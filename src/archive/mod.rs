//! Where letters rest that cannot be saved.
//!
//! A letter is archived before its message may be deleted, so an archive answers for every letter:
//! it has it, or it says why not and the letter stays in its queue. Storing a letter twice is
//! harmless; losing one is not.

mod lines;
mod queue;
mod read;
mod record;
mod s3;
mod select;
mod store;
mod walk;

pub use queue::RECORD_ATTRIBUTE;
pub use read::{BadRecord, Identity};
pub use record::{
    RECORD_VERSION, Record, RecordedAttribute, RecordedCause, RecordedError, RecordedMessage, RecordedRetry,
};
pub use select::{Pattern, Selection, Undecided};
pub use store::{Archive, Batch};
pub use walk::{Archived, Found, Tally, Unread, Walk, WhyUnread};
