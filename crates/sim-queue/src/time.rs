//! Time in a queue.

/// Milliseconds since any time that the user chooses.
pub type QueueMillis = i64;
