//! The world as the reader of its journal must know it.

use std::sync::Arc;

use redrive_laws::letters::WorldNames;
use redrive_sim::SimEvent;

use super::account::WEB_CALLER;
use super::state::{ProofWorld, ProofWorldState};
use crate::TRACE;
use crate::loss::faults::FaultSite;

impl ProofWorld {
    /// Reads the events since the last read.
    pub(super) fn read(&self, state: &mut ProofWorldState) {
        let records = self.aws.take_journal();
        for record in &records {
            if let SimEvent::Hidden { id, handle, seconds: 0, .. } = &record.event
                && record.by.starts_with("fn-")
                && self.network.wakes(&record.by, handle)
            {
                state.woken.insert(Arc::clone(id));
            }
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
