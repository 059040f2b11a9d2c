//! What the reader must know of a world.

use redrive_sim::{SimCall, SimEntry};
use serde_json::Value;

use super::facts::LetterNumber;

/// The names of a world, and its letters.
#[derive(Debug, Clone, Default)]
pub struct WorldNames {
    /// The dead-letter queue.
    pub dlq: String,
    /// The requeue.
    pub requeue: String,
    /// The queue that is the archive, if one is.
    pub archive: String,
    /// What the names of control objects have in them.
    pub control: String,
    /// The topic to which letters are published again if SNS has yet to deliver them then.
    pub topic: Option<String>,
    /// The queue that gets everything from that topic.
    pub witness: String,
    /// The queue from which SQS moves letters.
    pub source: String,
    /// The topic of notices.
    pub notices: String,
    /// The caller of the door that all processes share to post.
    pub poster: String,
}

/// A world, as far as its reader must know it.
pub trait WorldScene {
    /// Returns the names.
    fn names(&self) -> &WorldNames;

    /// Returns the letters whose texts are in a text.
    fn letters(&self, text: &str) -> Vec<LetterNumber>;

    /// Checks that an entry of a call is this letter, whole and at its target; returns the number of the
    /// retry by its mark, if it has one.
    ///
    /// # Errors
    ///
    /// The error says what is wrong.
    fn arrives(&self, who: LetterNumber, call: &SimCall, entry: &SimEntry) -> Result<Option<usize>, String>;

    /// Checks that a message for the requeue is this letter; returns the retries behind it by its mark.
    ///
    /// # Errors
    ///
    /// The error says what is wrong.
    fn moves(&self, who: LetterNumber, entry: &SimEntry) -> Result<Option<usize>, String>;

    /// Checks that a message for an archive queue is this letter; returns the reason if the message has the
    /// record.
    ///
    /// # Errors
    ///
    /// The error says what is wrong.
    fn rests(&self, who: LetterNumber, entry: &SimEntry) -> Result<Option<String>, String>;

    /// Checks that the message can be rebuilt from an archived record.
    ///
    /// # Errors
    ///
    /// The error says what is wrong.
    fn is_recorded(&self, who: LetterNumber, record: &Value) -> Result<(), String>;

    /// Checks what an endpoint got from SNS.
    ///
    /// # Errors
    ///
    /// The error says what is wrong.
    fn is_delivered(&self, who: LetterNumber, to: &str, entry: &SimEntry) -> Result<(), String>;

    /// Returns the ARN of a letter's subscription.
    fn subscription(&self, who: LetterNumber) -> String;

    /// Reports whether a service of this world refuses such calls by itself.
    fn may_be_refused(&self, call: &SimCall) -> bool;
}
