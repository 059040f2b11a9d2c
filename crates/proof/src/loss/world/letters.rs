//! The letters of a world, as the reader of its journal must know them.

use redrive_laws::letters::{LetterNumber, WorldNames, WorldScene};
use redrive_sim::{AwsService, SimCall, SimEntry};
use serde_json::Value;

use crate::loss::letters::{ProofLetter, subscription, token};

/// The letters of a world, with its names.
#[derive(Debug)]
pub(in crate::loss) struct Letters {
    pub(in crate::loss) names: WorldNames,
    pub(in crate::loss) all: Vec<ProofLetter>,
}

impl WorldScene for Letters {
    fn names(&self) -> &WorldNames {
        &self.names
    }

    fn letters(&self, text: &str) -> Vec<LetterNumber> {
        token(text).filter(|who| *who < self.all.len()).into_iter().collect()
    }

    fn arrives(&self, who: LetterNumber, call: &SimCall, entry: &SimEntry) -> Result<Option<usize>, String> {
        let letter = &self.all[who];
        if call.service == AwsService::Web {
            letter.is_posted(call)?;
            return letter.arrives("POST", "payments", entry);
        }
        letter.arrives(&call.operation, &call.target, entry)
    }

    fn moves(&self, who: LetterNumber, entry: &SimEntry) -> Result<Option<usize>, String> {
        self.all[who].moves(entry)
    }

    fn rests(&self, who: LetterNumber, entry: &SimEntry) -> Result<Option<String>, String> {
        self.all[who].rests(entry)
    }

    fn is_recorded(&self, who: LetterNumber, record: &Value) -> Result<(), String> {
        self.all[who].is_recorded(record)
    }

    fn is_delivered(&self, _: LetterNumber, _: &str, _: &SimEntry) -> Result<(), String> {
        Ok(())
    }

    fn subscription(&self, who: LetterNumber) -> String {
        let letter = &self.all[who];
        subscription(letter.kind, letter.fifo)
    }

    fn may_be_refused(&self, _: &SimCall) -> bool {
        false
    }
}
