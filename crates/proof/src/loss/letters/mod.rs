//! Letters of every kind, with checks of their arrival.

mod arrival;
mod kind;
mod writing;

pub use kind::{ProofLetterKind, is_refused, policy, subscription, subscriptions};
use redrive_laws::letters::LetterNumber;
use redrive_sim::SimAttributes;

const MARK: &str = "sns-redrive";
const TOKEN: &str = "letter-";
const TOKEN_DIGITS: usize = 7;

/// A letter as it was put into the dead-letter queue.
#[derive(Debug, Clone)]
pub struct ProofLetter {
    /// Its number.
    pub who: LetterNumber,
    /// Its kind.
    pub kind: ProofLetterKind,
    /// `true` if it lies in a FIFO queue.
    pub fifo: bool,
    /// The body.
    pub body: String,
    /// The attributes.
    pub attributes: SimAttributes,
    /// The group.
    pub group: Option<String>,
    /// The X-Ray header.
    pub trace: Option<String>,
    /// The queue from which SQS moved it.
    pub source: Option<String>,
    sns: Option<SnsContent>,
}

/// The message of SNS in a letter.
#[derive(Debug, Clone)]
struct SnsContent {
    id: String,
    message: String,
    subject: String,
    attributes: SimAttributes,
}

/// Returns a name, with the ending of FIFO queues and topics if it is of one.
#[must_use]
pub fn named(name: &str, fifo: bool) -> String {
    if fifo { format!("{name}.fifo") } else { name.to_owned() }
}

/// Returns the number of the letter whose token is in a text.
#[must_use]
pub fn token(text: &str) -> Option<LetterNumber> {
    let after = text.find(TOKEN)? + TOKEN.len();
    text.get(after..after + TOKEN_DIGITS)?.parse().ok()
}
