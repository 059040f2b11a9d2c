//! The reader: `redrive-sim`'s journal becomes the record of a replay.

use std::collections::HashMap;
use std::sync::Arc;

use redrive_sim::{SimCall, SimEvent, SimFault, SimMillis, SimRecord};

use super::replay_books::{BucketObjects, ReplayBooks, is_ledger};
use crate::letters::finished_call::FinishedCall;
use crate::letters::{CallEffect, CallResponse, RunId, WorldScene};

/// A reader of the journal of one replay.
#[derive(Debug)]
pub struct ReplayReader<S> {
    /// The world.
    pub scene: S,
    /// The record of its letters.
    pub books: ReplayBooks,
    /// The bucket as far as the journal was read.
    pub objects: BucketObjects,
    /// `true` if the letters are archived.
    is_full: bool,
    /// The invocation of each process.
    runs: HashMap<Arc<str>, RunId>,
}

impl<S: WorldScene> ReplayReader<S> {
    /// Creates a reader of a world with these objects in its bucket.
    pub fn new(scene: S, books: ReplayBooks, objects: BucketObjects) -> Self {
        let is_full = !objects.is_empty();
        Self { scene, books, objects, is_full, runs: HashMap::new() }
    }

    /// Records which invocation a process works on from now on.
    pub fn begin(&mut self, caller: &Arc<str>, run: RunId) {
        self.runs.insert(Arc::clone(caller), run);
    }

    /// Reads events, which come after all that were read before.
    pub fn read(&mut self, records: &[SimRecord]) {
        for (index, record) in records.iter().enumerate() {
            let SimEvent::Answered { call, fault, status, effects } = &record.event else { continue };
            let Some(run) = self.runs.get(&call.caller).copied() else { continue };
            let effects = &records[index - effects..index];
            let ended = FinishedCall { call, fault, status: *status, effects, has_failed: false, run };
            let names = self.scene.names();
            match call.operation.as_str() {
                "PutObject" => self.put(&ended, record.at),
                "SendMessageBatch" if call.target == names.requeue => self.sent(&ended, record.at),
                "GetQueueAttributes"
                    if call.target == names.requeue
                        && matches!(fault, SimFault::Pass | SimFault::Nonsense(200, _))
                        && *status == Some(200) =>
                {
                    self.books.looked(record.at);
                }
                _ => {}
            }
        }
    }

    /// Records the letters that a call sends.
    fn sent(&mut self, ended: &FinishedCall<'_>, at: SimMillis) {
        let is_heard = ended.response() == CallResponse::Done;
        for entry in &ended.call.entries {
            let Some(who) = self.scene.letters(&entry.body).first().copied() else {
                self.books.broken("what is no letter comes to the requeue".to_owned());
                continue;
            };
            if let Err(wrong) = self.scene.moves(who, entry) {
                self.books.broken(format!("letter {who}: {wrong}"));
            }
            if ended.effect(|text| self.scene.letters(text).contains(&who)) == CallEffect::Taken {
                self.books.arrived(who, ended.run, is_heard, at, &self.objects);
            }
        }
    }

    /// Records an object that the function writes.
    fn put(&mut self, ended: &FinishedCall<'_>, at: SimMillis) {
        let call = ended.call;
        if call.parameter("if-match").is_none() && call.parameter("if-none-match").is_none() {
            self.books.broken(format!("{} without a condition", call.summary()));
        }
        if self.is_full && !call.target.contains(&self.scene.names().control) {
            self.books.broken(format!("{}, but a replay does not change the archive", call.summary()));
        }
        if is_ledger(&call.target) && *ended.fault != SimFault::Pass {
            self.books.unwritten(ended.run);
        }
        if ended.status == Some(200) {
            let text = String::from_utf8_lossy(&call.body).into_owned();
            let before = self.objects.insert(call.target.clone(), text.clone());
            if is_state(call)
                && let Some(before) = before
            {
                self.books.kept(&before, &text, at);
            }
        }
    }
}

/// Reports whether a call is about the state of a replay.
fn is_state(call: &SimCall) -> bool {
    call.target.ends_with("/replay.json")
}
