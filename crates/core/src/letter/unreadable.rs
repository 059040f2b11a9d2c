//! What is kept of a record that could not be read.

/// A record that could not be read.
#[derive(Clone, PartialEq, Eq)]
pub struct UnreadableRecord {
    /// The record as it came, byte for byte, but without its receipt handle, which is secret.
    pub record: String,
    /// The fault, with its place in the event. It quotes nothing of the record.
    pub problem: String,
    /// False if the record has no message id, so that another name stands in its place.
    pub named: bool,
}

/// Hides the record.
impl std::fmt::Debug for UnreadableRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnreadableRecord").field("problem", &self.problem).finish_non_exhaustive()
    }
}
