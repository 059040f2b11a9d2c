//! The laws of replays, by the journal of the account around them.
//!
//! A replay sends the selected letters of an archive to the requeue. It is broken when a selected letter is missing
//! or another is sent, a repetition has no cause or no count, a group loses its order, a replay does not end, a step
//! begins early or has more letters than it may, a number is false, or the archive changes.

mod ramp;
mod reader;
mod replay_books;

pub use reader::ReplayReader;
pub use replay_books::{BEFORE, BucketObjects, ReplayBooks, ReplayVerdict, identity, latest};
