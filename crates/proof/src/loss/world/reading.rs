//! The world as the reader of its journal must know it.

use redrive_laws::letters::{LetterNumber, WorldNames, WorldScene};
use redrive_sim::{AwsService, SimCall, SimEntry, SimEvent};
use serde_json::Value;

use super::account::WEB_CALLER;
use super::state::{ProofWorld, ProofWorldState};
use crate::TRACE;
use crate::loss::faults::FaultSite;
use crate::loss::letters::{ProofLetter, subscription, token};

/// The letters of a world, with its names.
#[derive(Debug)]
pub(in crate::loss) struct Letters {
    pub(in crate::loss) names: WorldNames,
    pub(in crate::loss) all: Vec<ProofLetter>,
}

impl ProofWorld {
    /// Reads the events since the last read.
    pub(super) fn read(&self, state: &mut ProofWorldState) {
        let records = self.aws.take_journal();
        for record in &records {
            let SimEvent::Called(call) = &record.event else { continue };
            if call.caller.strip_prefix("fn-").is_none() && *call.caller != *WEB_CALLER {
                continue;
            }
            let site = self.network.site(call);
            *state.calls.entry(site.name().to_owned()).or_default() += 1;
            if call.parameter("trace") == Some(TRACE) {
                let what = format!("{} carries the function's own trace", call.summary());
                state.reader.ledger.stranger(what);
            }
            if site == FaultSite::Store && call.parameter("if-none-match").is_none() {
                state.reader.ledger.stranger(format!("{} without If-None-Match", call.summary()));
            }
        }
        state.reader.read(&records);
    }

    /// Returns the names of the world.
    pub(super) fn names(config: &super::WorldConfig) -> WorldNames {
        WorldNames {
            dlq: config.named("payments-dlq"),
            requeue: config.named("payments-requeue"),
            archive: config.named("payments-archive"),
            control: "-control/".to_owned(),
            source: config.named("payments-billing"),
            poster: WEB_CALLER.to_owned(),
            ..WorldNames::default()
        }
    }
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
