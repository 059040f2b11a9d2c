//! The faults of calls, and what they disturb.

use std::sync::Arc;

use redrive_sim::{AwsService, SimCall, SimFault};

use super::{LetterReader, MAPPING};
use crate::letters::facts::{FaultSubject, LetterNumber, LifeEvent};
use crate::letters::ledger::FaultyCall;
use crate::letters::world_scene::WorldScene;

impl<S: WorldScene> LetterReader<S> {
    /// Records what a call with a fault disturbs.
    pub(super) fn faulty(&mut self, call: &SimCall, fault: &SimFault) {
        let is_functions = self.is_functions(call);
        if !is_functions && *call.caller != *MAPPING {
            return;
        }
        self.ledger.faulty(FaultyCall {
            at: self.ledger.now(),
            caller: Arc::clone(&call.caller),
            service: call.service,
            operation: call.operation.clone(),
            target: call.target.clone(),
        });
        let (is_slow, course) = split(fault);
        let mut what = Vec::new();
        what.extend(match call.operation.as_str() {
            // The function waits for a look-up only until the attempt's time is over.
            "GetQueueAttributes" | "GetSubscriptionAttributes" | "ListSubscriptions" => {
                Some(FaultSubject::Read)
            }
            _ if *course == SimFault::Pass => None,
            "DeleteMessageBatch" => Some(FaultSubject::Delete),
            "ChangeMessageVisibilityBatch" => Some(FaultSubject::Hide),
            _ if call.service == AwsService::S3 || call.target == self.scene.names().archive => {
                Some(FaultSubject::Archive)
            }
            _ => None,
        });
        if matches!(course, SimFault::ResetAfter | SimFault::HangAfter | SimFault::CutAfter) && is_functions {
            what.push(FaultSubject::Unheard);
        }
        let letters = self.mentions(call);
        if is_slow && !letters.is_empty() {
            what.push(FaultSubject::Slow);
        }
        for what in what {
            if letters.is_empty() {
                // A call that names no letter concerns all letters.
                self.ledger.note_everywhere(LifeEvent::Disturbed(what));
            }
            for who in &letters {
                self.ledger.note(*who, None, None, LifeEvent::Disturbed(what));
            }
        }
    }

    /// Returns the letters of a call as often as it names them: a batch may have a message and its duplicate.
    fn mentions(&self, call: &SimCall) -> Vec<LetterNumber> {
        let mut letters = Vec::new();
        for line in String::from_utf8_lossy(&call.body).lines() {
            letters.extend(self.scene.letters(line));
        }
        for entry in &call.entries {
            letters.extend(self.scene.letters(&entry.body));
            let Some(handle) = entry.handle.as_deref() else { continue };
            let mut handed = self.batches.iter().rev().flatten();
            letters.extend(handed.find(|it| &*it.handle == handle).map(|it| it.who));
        }
        letters
    }
}

/// Returns whether a request waits, and its further course.
fn split(fault: &SimFault) -> (bool, &SimFault) {
    match fault {
        SimFault::Slow(_, then) => (true, split(then).1),
        other => (false, other),
    }
}
