//! The archive: the place for letters that cannot be delivered.
//!
//! A letter must be archived before its message may be deleted. So an archive answers for every letter:
//! either it has the letter, or it says why not, and the letter stays in its queue. Storing a letter twice is
//! harmless, losing one is not.

mod bucket;
mod erased;
mod index;
mod letter_identity;
mod lines;
mod listing;
mod object;
mod queue;
mod read;
mod record;
mod retention;
mod select;
mod selection_times;
mod store;
mod sweep;
mod unread;
mod walk;

pub use erased::{ErasedRecord, Erasure};
pub use index::{IndexGroup, ObjectIndex, topic_hash};
pub use letter_identity::LetterIdentity;
pub use listing::{ArchiveListing, days};
pub use object::folder;
pub use object::{
    ArchiveObject, FIRST_STORED, KeyRange, hours_of, is_archived, is_day, keys_of, keys_with, queues_folder,
};
pub use read::BadRecord;
pub use record::{
    ArchiveRecord, RECORD_VERSION, RecordedAttribute, RecordedCause, RecordedError, RecordedMessage,
    RecordedRetry,
};
pub use retention::{ArchiveRetention, LifecycleEffect, LifecycleRule, lifecycle_rules};
pub use select::{LetterPattern, SelectedCount, Selection};
pub use store::{Archive, ArchiveInvocation};
pub use sweep::{ArchiveSweep, SweepEnd};
pub use unread::{UnreadItem, WhyUnread};
pub use walk::{ArchiveWalk, LocatedErasure, LocatedRecord, WalkCounts, WalkItem};
