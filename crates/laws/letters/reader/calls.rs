//! The ends of calls.

use std::sync::Arc;

use redrive_sim::{SimCall, SimEvent, SimFault, SimRecord};
use serde_json::Value;

use super::{InvokedMessage, LetterReader, entries};
use crate::letters::facts::{
    CallEffect, CallResponse, LetterNumber, LifeEvent, MessageNumber, RunId, SentPlace,
};
use crate::letters::finished_call::FinishedCall;
use crate::letters::world_scene::WorldScene;

impl<S: WorldScene> LetterReader<S> {
    /// Records the result of a call.
    pub(super) fn answered(&mut self, ended: &FinishedCall<'_>) {
        let (call, response) = (ended.call, ended.response());
        let names = self.scene.names();
        let is_expected = match (call.operation.as_str(), ended.status) {
            ("PutObject", Some(412)) | ("GetObject" | "GetSubscriptionAttributes", Some(404)) => true,
            _ => self.scene.may_be_refused(call),
        };
        if *ended.fault == SimFault::Pass && ended.status.is_some_and(|it| it >= 400) && !is_expected {
            let (what, status) = (call.summary(), ended.status.unwrap_or_default());
            self.ledger.stranger(format!("{what} is answered with {status}"));
        }
        let reads = ["GetObject", "ListObjectsV2", "ListSubscriptions"].contains(&call.operation.as_str());
        if response == CallResponse::Nothing || reads && response != CallResponse::Done {
            self.ledger.trouble();
        }
        if response == (CallResponse::Refused { for_good: false }) {
            self.ledger.refused();
        }
        match (call.operation.as_str(), self.place(call)) {
            ("GetQueueAttributes", _) if call.target == names.source => self.counted(ended),
            ("GetSubscriptionAttributes", _) => self.asked(ended),
            ("ChangeMessageVisibilityBatch", _) => self.hidden(ended),
            ("PutObject", Some(SentPlace::Archive)) => self.stored(ended),
            (_, Some(place)) => self.called_with(ended, place),
            _ => {}
        }
    }

    /// Records the letters whose queue could not be asked for its maximum receive count.
    fn counted(&mut self, ended: &FinishedCall<'_>) {
        let caller = &ended.call.caller;
        if ended.response() == CallResponse::Done {
            self.uncounted.remove(caller);
            return;
        }
        self.uncounted.insert(Arc::clone(caller));
        for InvokedMessage { who, message, .. } in &self.batches[ended.run] {
            self.ledger.fact(*who, *message, Some(ended.run), LifeEvent::Uncounted);
        }
    }

    /// Records the letters whose subscription could not be asked.
    fn asked(&mut self, ended: &FinishedCall<'_>) {
        let response = ended.response();
        if response == CallResponse::Done {
            return;
        }
        for InvokedMessage { who, message, .. } in &self.batches[ended.run] {
            if self.scene.subscription(*who) == ended.call.target {
                self.ledger.fact(*who, *message, Some(ended.run), LifeEvent::Unchecked { response });
            }
        }
        if response == (CallResponse::Refused { for_good: true }) {
            let unknown = self.unknown.entry(Arc::clone(&ended.call.caller)).or_default();
            unknown.insert(ended.call.target.clone());
        }
    }

    /// Records the letters that a call sends to a place.
    fn called_with(&mut self, ended: &FinishedCall<'_>, place: SentPlace) {
        let call = ended.call;
        for (index, entry) in entries(call).iter().enumerate() {
            let Some(who) = self.letter_in(call, &entry.body) else { continue };
            let effect = ended.effect(|text| self.scene.letters(text).contains(&who));
            let Some((run, handed)) = self.handed_to(ended, who, None) else { continue };
            handed.left += usize::from(effect == CallEffect::Taken);
            let message = handed.message;
            let mut reason = None;
            let checked = match place {
                SentPlace::Requeue => self.scene.moves(who, entry),
                SentPlace::Archive => self.scene.rests(who, entry).map(|with| {
                    reason = with;
                    None
                }),
                SentPlace::Target | SentPlace::Topic => self.scene.arrives(who, call, entry),
            };
            let (spent, wrong) = checked.map_or_else(|wrong| (None, Some(wrong)), |spent| (spent, None));
            let response = ended.response_of(index, effect != CallEffect::None);
            let is_refused = response != ended.response() && !matches!(ended.fault, SimFault::Entries(_));
            let wrong = wrong.or_else(|| is_refused.then(|| "the service refuses it".to_owned()));
            let what = LifeEvent::Sent { place, effect, response, wrong, spent, reason };
            self.ledger.fact(who, message, Some(run), what);
        }
    }

    /// Records the letters in an archived object.
    fn stored(&mut self, ended: &FinishedCall<'_>) {
        let call = ended.call;
        let effect = match ended.status {
            Some(412) => CallEffect::Swallowed,
            Some(200) => CallEffect::Taken,
            _ => CallEffect::None,
        };
        for line in String::from_utf8_lossy(&call.body).lines() {
            let record: Value = serde_json::from_str(line).unwrap_or_default();
            let body = record["message"]["body"].as_str().unwrap_or_default();
            let message = record["message"]["messageId"].as_str().and_then(|id| self.number(id));
            let Some(who) = self.letter_in(call, body) else { continue };
            let Some((run, handed)) = self.handed_to(ended, who, message) else { continue };
            handed.left += usize::from(effect == CallEffect::Taken);
            let message = handed.message;
            let wrong = self.scene.is_recorded(who, &record).err();
            let of = self.scene.subscription(who);
            if self.unknown.get(&call.caller).is_some_and(|unknown| unknown.contains(&of)) {
                let response = CallResponse::Refused { for_good: true };
                self.ledger.fact(who, message, Some(run), LifeEvent::Unchecked { response });
            }
            let reason = record["reason"].as_str().map(str::to_owned);
            let (place, response) = (SentPlace::Archive, ended.response());
            let what = LifeEvent::Sent { place, effect, response, wrong, spent: None, reason };
            self.ledger.fact(who, message, Some(run), what);
        }
    }

    /// Returns the letter in a body, or records that there is none.
    fn letter_in(&mut self, call: &SimCall, body: &str) -> Option<LetterNumber> {
        let who = self.scene.letters(body).first().copied();
        if who.is_none() {
            self.ledger.stranger(format!("{} of what is no letter", call.summary()));
        }
        who
    }

    fn handed_to(
        &mut self,
        ended: &FinishedCall<'_>,
        who: LetterNumber,
        message: Option<MessageNumber>,
    ) -> Option<(RunId, &mut InvokedMessage)> {
        // Asked twice, since a result that is returned stays borrowed.
        if self.handed(ended.run, who, message).is_none() {
            let (what, run) = (ended.call.summary(), ended.run);
            self.ledger.stranger(format!("{what} of letter {who}, which invocation {run} has not"));
        }
        self.handed(ended.run, who, message)
    }

    /// Records the letters that a call hides.
    fn hidden(&mut self, ended: &FinishedCall<'_>) {
        for (index, entry) in ended.call.entries.iter().enumerate() {
            let handle = entry.handle.as_deref().unwrap_or_default();
            let runs = self.runs.get(&ended.call.caller).into_iter().flatten().rev();
            let mut handed = runs.flat_map(|run| self.batches[*run].iter().map(move |handed| (*run, handed)));
            let seconds = entry.visibility.unwrap_or(-1);
            let found =
                handed.find(|(run, handed)| &*handed.handle == handle && (*run == ended.run || seconds > 0));
            if found.is_none() && seconds == 0 {
                self.woken(handle);
                continue;
            }
            let Some((run, handed)) = found else {
                let what = format!("hides {handle}, which invocation {} has not", ended.run);
                self.ledger.stranger(what);
                continue;
            };
            let InvokedMessage { who, message, .. } = *handed;
            let is_of = |id: &Arc<str>| self.numbers.get(id) == Some(&message);
            let done = |record: &SimRecord| matches!(&record.event, SimEvent::Hidden { id, .. } if is_of(id));
            let done = ended.effects.iter().any(done);
            // A standard queue accepts a receipt handle that is no longer valid.
            let stale = |record: &SimRecord| matches!(&record.event, SimEvent::Stale { handle: it, .. } if it == handle);
            let response = ended.response_of(index, done || ended.effects.iter().any(stale));
            self.ledger.fact(who, message, Some(run), LifeEvent::Hidden { seconds, done, response });
        }
    }

    /// Records that the function makes a letter visible that some batch had before.
    fn woken(&mut self, handle: &str) {
        let mut all = self.batches.iter().flatten();
        match all.find(|handed| &*handed.handle == handle).map(|handed| (handed.who, handed.message)) {
            Some((who, message)) => self.ledger.fact(who, message, None, LifeEvent::Woken),
            None => self.ledger.stranger(format!("wakes {handle}, which no invocation had")),
        }
    }
}
