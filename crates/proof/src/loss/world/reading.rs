//! The facts of the ledger, read from the account's journal.

use std::sync::Arc;

use redrive_sim::{Call, Entry, EntryFault, Event, Fault as Course, Record};
use serde_json::Value;

use super::account::{WEB_CALLER, letter_in};
use super::state::{Handed, State, World};
use crate::TRACE;
use crate::loss::faults::Site;
use crate::loss::ledger::{Effect, Message, Place, Response, Run, What, Who};
use crate::loss::letters::{subscription, token};

/// A finished call of the function.
#[derive(Debug, Clone, Copy)]
struct Ended<'a> {
    call: &'a Call,
    site: Site,
    fault: &'a Course,
    status: Option<u16>,
    effects: &'a [Record],
    run: Run,
}

impl World {
    /// Reads the events since the last read.
    pub(super) fn read(&self, state: &mut State) {
        let records = self.aws.take_journal();
        for (index, record) in records.iter().enumerate() {
            match &record.event {
                Event::Called(call) if state.is_functions(call) => {
                    let site = self.network.site(call);
                    *state.calls.entry(site.name().to_owned()).or_default() += 1;
                    if call.parameter("trace") == Some(TRACE) {
                        let what = format!("{} carries the function's own trace", call.summary());
                        state.ledger.stranger(what);
                    }
                    if site == Site::Store && call.parameter("if-none-match").is_none() {
                        state.ledger.stranger(format!("{} without If-None-Match", call.summary()));
                    }
                }
                Event::Answered { call, fault, status, effects } if state.is_functions(call) => {
                    let site = self.network.site(call);
                    let effects = &records[index - effects..index];
                    let Some(run) = state.run_of(call) else { continue };
                    self.note(state, Ended { call, site, fault, status: *status, effects, run });
                }
                Event::BatchEnded { kept, failed, .. } => {
                    state.settled.kept.extend(kept.iter().map(Arc::clone));
                    state.settled.failed.clone_from(failed);
                }
                Event::Deleted { id, .. } if &*record.by == "mapping" => {
                    state.settled.deleted.insert(Arc::clone(id));
                }
                _ => {}
            }
        }
    }

    /// Records the result of a call.
    fn note(&self, state: &mut State, ended: Ended<'_>) {
        let expected = match ended.site {
            Site::Store | Site::Waiting => ended.status == Some(412),
            Site::Subscription | Site::Overrides => ended.status == Some(404),
            _ => false,
        };
        if *ended.fault == Course::Pass && ended.status.is_some_and(|it| it >= 400) && !expected {
            let (what, status) = (ended.call.summary(), ended.status.unwrap_or_default());
            state.ledger.stranger(format!("{what} is answered with {status}"));
        }
        let is_unread =
            matches!(ended.site, Site::Overrides | Site::Subscriptions) && ended.response() != Response::Done;
        if is_unread || ended.response() == Response::Nothing {
            state.ledger.trouble();
        }
        match ended.site {
            Site::QueueAttributes if ended.call.target == self.config.named("payments-billing") => {
                state.counted(ended);
            }
            Site::QueueAttributes
            | Site::RequeueAttributes
            | Site::Subscriptions
            | Site::Overrides
            | Site::Waiting
            | Site::Notice => {}
            Site::Subscription => state.asked(ended),
            Site::Hide => state.hidden(ended),
            Site::Store => state.stored(ended),
            Site::Post | Site::Invoke | Site::InvokeAndWait => {
                let body = String::from_utf8_lossy(&ended.call.body).into_owned();
                state.sent(ended, &[Entry::new("", body)], &self.config.named("payments-requeue"));
            }
            _ => state.sent(ended, &ended.call.entries, &self.config.named("payments-requeue")),
        }
    }
}

impl Ended<'_> {
    /// Returns the answer that the function gets to the call as a whole.
    fn response(self) -> Response {
        match self.fault {
            Course::Pass | Course::Entries(_) => Response::Done,
            Course::Throttle | Course::Unavailable | Course::FunctionError => {
                Response::Refused { for_good: false }
            }
            // A web server's 4xx is a refusal for good, except 429.
            Course::Denied => Response::Refused { for_good: self.site == Site::Post },
            Course::Refuse(_) => Response::Refused { for_good: true },
            _ => Response::Nothing,
        }
    }

    /// Returns the answer that the function gets for an entry.
    fn response_of(self, index: usize, is_done: bool) -> Response {
        match (self.response(), self.fault) {
            (Response::Done, Course::Entries(failing)) if failing.iter().any(|(of, _)| *of == index) => {
                let is_senders =
                    |fault: &EntryFault| matches!(fault, EntryFault::Failed { sender: true, .. });
                let for_good = failing.iter().any(|(of, fault)| *of == index && is_senders(fault));
                Response::Refused { for_good }
            }
            (Response::Done, _) if !is_done => Response::Refused { for_good: true },
            (response, _) => response,
        }
    }

    /// Returns the effect of the call on a letter, and the id of its new message if a queue took it.
    fn effect(self, who: Who) -> (Effect, Option<Arc<str>>) {
        let is_of = |body: &str| token(body) == Some(who);
        let taken = match self.site {
            Site::Post => self.status.is_some_and(|status| status < 300),
            Site::Invoke => self.status == Some(202),
            Site::InvokeAndWait => self.status == Some(200) && *self.fault != Course::FunctionError,
            _ => false,
        };
        let of_event = |record: &Record| match &record.event {
            Event::Sent { id, payload, .. } if is_of(&payload.body) => {
                Some((Effect::Taken, Some(Arc::clone(id))))
            }
            Event::Published { message, .. } if is_of(message) => Some((Effect::Taken, None)),
            Event::Streamed { data, .. } if is_of(&String::from_utf8_lossy(data)) => {
                Some((Effect::Taken, None))
            }
            Event::Swallowed { body, .. } if is_of(body) => Some((Effect::Swallowed, None)),
            _ => None,
        };
        let of_events = self.effects.iter().find_map(of_event);
        of_events.unwrap_or((if taken { Effect::Taken } else { Effect::None }, None))
    }
}

impl State {
    /// Reports whether the function made a call.
    fn is_functions(&self, call: &Call) -> bool {
        self.runs.contains_key(&call.caller) || &*call.caller == WEB_CALLER
    }

    /// Returns the invocation that made a call. The web server does not know who posts: the call is by the
    /// last invocation that has the letter.
    fn run_of(&self, call: &Call) -> Option<Run> {
        if &*call.caller != WEB_CALLER {
            return self.runs.get(&call.caller)?.last().copied();
        }
        let who = letter_in(call)?;
        self.batches.iter().rposition(|batch| batch.handed.iter().any(|handed| handed.who == who))
    }

    /// Returns the invocation and the message that a letter is sent from. If the letter has two messages,
    /// returns the one that was sent less often. A call that was given up may arrive when its process already
    /// works on the next batch.
    fn handed(&mut self, run: Run, who: Who, number: Option<Message>) -> Option<(Run, &mut Handed)> {
        let fits =
            |handed: &&mut Handed| handed.who == who && number.is_none_or(|number| handed.message == number);
        let has = |run: &&Run| self.batches[**run].handed.iter().any(|handed| handed.who == who);
        let run = self.runs.get(&self.batches[run].caller)?.iter().rev().find(has).copied()?;
        let handed = self.batches[run].handed.iter_mut().filter(fits).min_by_key(|handed| handed.left)?;
        Some((run, handed))
    }

    /// Records the letters whose queue could not be asked for its maximum receive count.
    fn counted(&mut self, ended: Ended<'_>) {
        let caller = &ended.call.caller;
        if ended.response() == Response::Done {
            self.uncounted.remove(caller);
            return;
        }
        self.uncounted.insert(Arc::clone(caller));
        for Handed { who, message, .. } in self.batches[ended.run].handed.clone() {
            self.ledger.fact(who, message, Some(ended.run), What::Uncounted);
        }
    }

    /// Records the letters whose subscription could not be asked.
    fn asked(&mut self, ended: Ended<'_>) {
        let response = ended.response();
        if response == Response::Done {
            return;
        }
        for Handed { who, message, .. } in self.batches[ended.run].handed.clone() {
            let letter = &self.letters[who];
            if subscription(letter.kind, letter.fifo) == ended.call.target {
                self.ledger.fact(who, message, Some(ended.run), What::Unchecked { response });
            }
        }
        if response == (Response::Refused { for_good: true }) {
            let unknown = self.unknown.entry(Arc::clone(&ended.call.caller)).or_default();
            unknown.insert(ended.call.target.clone());
        }
    }

    /// Records the letters that a call sends to a place.
    fn sent(&mut self, ended: Ended<'_>, entries: &[Entry], requeue: &str) {
        let (call, site) = (ended.call, ended.site);
        let place = match site {
            Site::Requeue => Place::Requeue,
            Site::ArchiveMessage => Place::Archive,
            _ => Place::Target,
        };
        for (index, entry) in entries.iter().enumerate() {
            let Some(who) = token(&entry.body).filter(|who| *who < self.letters.len()) else {
                self.ledger.stranger(format!("{} of what is no letter", call.summary()));
                continue;
            };
            let (effect, became) = ended.effect(who);
            let Some((run, handed)) = self.handed(ended.run, who, None) else {
                let what =
                    format!("{} of letter {who}, which invocation {} has not", call.summary(), ended.run);
                self.ledger.stranger(what);
                continue;
            };
            handed.left += usize::from(effect == Effect::Taken);
            let message = handed.message;
            let letter = &self.letters[who];
            let mut reason = None;
            let checked = match site {
                Site::Requeue => letter.moves(entry),
                Site::ArchiveMessage => letter.rests(entry).map(|with| {
                    reason = with;
                    None
                }),
                Site::Post => letter.is_posted(call).and_then(|()| letter.arrives("POST", "payments", entry)),
                _ => letter.arrives(&call.operation, &call.target, entry),
            };
            let (spent, wrong) = checked.map_or_else(|wrong| (None, Some(wrong)), |spent| (spent, None));
            let response = ended.response_of(index, effect != Effect::None);
            let is_refused = response != ended.response() && !matches!(ended.fault, Course::Entries(_));
            let wrong = wrong.or_else(|| is_refused.then(|| "the service refuses it".to_owned()));
            if let Some(id) = became.filter(|_| place == Place::Requeue) {
                // The letter is a new message in the requeue.
                let number = self.number(&id, who);
                let (queue, spent) = (requeue.to_owned(), spent.unwrap_or_default());
                self.ledger.fact(who, number, None, What::Queued { queue, spent });
            }
            let what = What::Sent { place, effect, response, wrong, spent, reason };
            self.ledger.fact(who, message, Some(run), what);
        }
    }

    /// Records the letters that a call hides.
    fn hidden(&mut self, ended: Ended<'_>) {
        for (index, entry) in ended.call.entries.iter().enumerate() {
            let handle = entry.handle.as_deref().unwrap_or_default();
            let runs = self.runs.get(&ended.call.caller).into_iter().flatten().rev();
            let mut handed =
                runs.flat_map(|run| self.batches[*run].handed.iter().map(move |handed| (*run, handed)));
            let Some((run, handed)) = handed.find(|(_, handed)| &*handed.handle == handle) else {
                let what = format!("hides {handle}, which invocation {} has not", ended.run);
                self.ledger.stranger(what);
                continue;
            };
            let Handed { who, message, .. } = *handed;
            let is_of = |id: &Arc<str>| self.numbers.get(id) == Some(&message);
            let done = |record: &Record| matches!(&record.event, Event::Hidden { id, .. } if is_of(id));
            let done = ended.effects.iter().any(done);
            // A standard queue accepts a receipt handle that is no longer valid.
            let stale =
                |record: &Record| matches!(&record.event, Event::Stale { handle: it, .. } if it == handle);
            let response = ended.response_of(index, done || ended.effects.iter().any(stale));
            let seconds = entry.visibility.unwrap_or(-1);
            self.ledger.fact(who, message, Some(run), What::Hidden { seconds, done, response });
        }
    }

    /// Records the letters in an archived object.
    fn stored(&mut self, ended: Ended<'_>) {
        let call = ended.call;
        let effect = match ended.status {
            Some(412) => Effect::Swallowed,
            Some(200) => Effect::Taken,
            _ => Effect::None,
        };
        for line in String::from_utf8_lossy(&call.body).lines() {
            let record: Value = serde_json::from_str(line).unwrap_or_default();
            let body = record["message"]["body"].as_str().unwrap_or_default();
            let id = record["message"]["messageId"].as_str().unwrap_or_default();
            let number = self.numbers.get(id).copied();
            let Some(who) = token(body).filter(|who| *who < self.letters.len()) else {
                self.ledger.stranger(format!("{} of what is no letter", call.summary()));
                continue;
            };
            let Some((run, handed)) = self.handed(ended.run, who, number) else {
                let what =
                    format!("{} of letter {who}, which invocation {} has not", call.summary(), ended.run);
                self.ledger.stranger(what);
                continue;
            };
            handed.left += usize::from(effect == Effect::Taken);
            let message = handed.message;
            let letter = &self.letters[who];
            let wrong = letter.is_recorded(&record).err();
            let of = subscription(letter.kind, letter.fifo);
            if self.unknown.get(&call.caller).is_some_and(|unknown| unknown.contains(&of)) {
                let response = Response::Refused { for_good: true };
                self.ledger.fact(who, message, Some(run), What::Unchecked { response });
            }
            let reason = record["reason"].as_str().map(str::to_owned);
            let (place, response) = (Place::Archive, ended.response());
            let what = What::Sent { place, effect, response, wrong, spent: None, reason };
            self.ledger.fact(who, message, Some(run), what);
        }
    }
}
