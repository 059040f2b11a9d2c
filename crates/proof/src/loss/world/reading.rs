//! The world as the reader of its journal must know it.

use redrive_laws::letters::{Names, Scene, Who};
use redrive_sim::{Call, Entry, Event, Service};
use serde_json::Value;

use super::account::WEB_CALLER;
use super::state::{State, World};
use crate::TRACE;
use crate::loss::faults::Site;
use crate::loss::letters::{Letter, subscription, token};

/// The letters of a world, with its names.
#[derive(Debug)]
pub(in crate::loss) struct Letters {
    pub(in crate::loss) names: Names,
    pub(in crate::loss) all: Vec<Letter>,
}

impl World {
    /// Reads the events since the last read.
    pub(super) fn read(&self, state: &mut State) {
        let records = self.aws.take_journal();
        for record in &records {
            let Event::Called(call) = &record.event else { continue };
            if call.caller.strip_prefix("fn-").is_none() && *call.caller != *WEB_CALLER {
                continue;
            }
            let site = self.network.site(call);
            *state.calls.entry(site.name().to_owned()).or_default() += 1;
            if call.parameter("trace") == Some(TRACE) {
                let what = format!("{} carries the function's own trace", call.summary());
                state.reader.ledger.stranger(what);
            }
            if site == Site::Store && call.parameter("if-none-match").is_none() {
                state.reader.ledger.stranger(format!("{} without If-None-Match", call.summary()));
            }
        }
        state.reader.read(&records);
    }

    /// Returns the names of the world.
    pub(super) fn names(config: &super::Config) -> Names {
        Names {
            dlq: config.named("payments-dlq"),
            requeue: config.named("payments-requeue"),
            archive: config.named("payments-archive"),
            control: "-control/".to_owned(),
            source: config.named("payments-billing"),
            poster: WEB_CALLER.to_owned(),
            ..Names::default()
        }
    }
}

impl Scene for Letters {
    fn names(&self) -> &Names {
        &self.names
    }

    fn letters(&self, text: &str) -> Vec<Who> {
        token(text).filter(|who| *who < self.all.len()).into_iter().collect()
    }

    fn arrives(&self, who: Who, call: &Call, entry: &Entry) -> Result<Option<usize>, String> {
        let letter = &self.all[who];
        if call.service == Service::Web {
            letter.is_posted(call)?;
            return letter.arrives("POST", "payments", entry);
        }
        letter.arrives(&call.operation, &call.target, entry)
    }

    fn moves(&self, who: Who, entry: &Entry) -> Result<Option<usize>, String> {
        self.all[who].moves(entry)
    }

    fn rests(&self, who: Who, entry: &Entry) -> Result<Option<String>, String> {
        self.all[who].rests(entry)
    }

    fn is_recorded(&self, who: Who, record: &Value) -> Result<(), String> {
        self.all[who].is_recorded(record)
    }

    fn is_delivered(&self, _: Who, _: &str, _: &Entry) -> Result<(), String> {
        Ok(())
    }

    fn subscription(&self, who: Who) -> String {
        let letter = &self.all[who];
        subscription(letter.kind, letter.fifo)
    }

    fn may_be_refused(&self, _: &Call) -> bool {
        false
    }
}
