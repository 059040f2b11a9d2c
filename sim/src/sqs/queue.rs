//! One queue and the life of its messages: delayed, visible, in flight, and gone.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use super::parts::{Counts, Handle, Message, Received, State};
use super::settings::{DEDUPLICATION, QueueSettings};
use crate::clock::Millis;
use crate::cx::Cx;
use crate::ledger::{Event, Payload};
use crate::names::arn;

/// A queue.
#[derive(Debug)]
pub struct Queue {
    /// The name.
    pub name: Arc<str>,
    /// Whether it is a FIFO queue.
    pub is_fifo: bool,
    /// The settings.
    pub settings: QueueSettings,
    pub(super) messages: BTreeMap<u64, Message>,
    /// The messages that can be received, in the order in which they will be.
    visible: BTreeSet<(Millis, u64)>,
    /// The moments when hidden and delayed messages show.
    timers: BTreeSet<(Millis, u64)>,
    pub(super) expiry: BTreeSet<(Millis, u64)>,
    groups: BTreeMap<String, BTreeSet<u64>>,
    deduplication: HashMap<String, (Millis, Arc<str>, String)>,
    /// The handles of placed messages, with their messages and receives.
    pub(super) aliases: HashMap<String, (u64, u32)>,
    counts: Counts,
    history: VecDeque<(Millis, Counts)>,
    next: u64,
    /// The most messages that were in flight at once.
    pub peak: usize,
}

impl Queue {
    /// Returns an empty queue.
    pub(super) fn new(name: &str, settings: QueueSettings) -> Self {
        Self {
            name: name.into(),
            is_fifo: name.strip_suffix(".fifo").is_some(),
            settings,
            messages: BTreeMap::new(),
            visible: BTreeSet::new(),
            timers: BTreeSet::new(),
            expiry: BTreeSet::new(),
            groups: BTreeMap::new(),
            deduplication: HashMap::new(),
            aliases: HashMap::new(),
            counts: Counts::default(),
            history: VecDeque::new(),
            next: 0,
            peak: 0,
        }
    }

    /// Returns the queue's ARN.
    #[must_use]
    pub fn arn(&self) -> String {
        arn("sqs", &self.name)
    }

    /// Returns the number of messages that are in the queue, in whatever state.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns whether nothing lies in the queue.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns ids and contents of what is in the queue, in whatever state.
    pub fn contents(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Payload>)> {
        self.messages.values().map(|message| (&message.id, &message.payload))
    }

    /// Returns when something shows next; `None` where nothing is hidden or delayed.
    #[must_use]
    pub fn next_visible(&self) -> Option<Millis> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Returns the numbers of messages that an observer reads, as old as the settings say.
    #[must_use]
    pub fn reading(&self, now: Millis) -> Counts {
        let then = now - self.settings.lag;
        let known = self.history.iter().rev().find(|(since, _)| *since <= then);
        known.map_or_else(Counts::default, |(_, counts)| *counts)
    }

    /// Takes a message. A FIFO queue answers a repetition with the first message's id and takes nothing.
    pub(super) fn put(
        &mut self,
        cx: &mut Cx<'_>,
        payload: Payload,
        delay: i64,
    ) -> (Arc<str>, Option<String>) {
        if let Some(key) = payload.deduplication.as_ref().filter(|_| self.is_fifo)
            && let Some((sent, id, sequence)) = self.deduplication.get(key)
            && cx.now < sent + DEDUPLICATION
        {
            let (id, sequence) = (Arc::clone(id), sequence.clone());
            let name = Arc::clone(&self.name);
            cx.log(Event::Swallowed { name, id: Arc::clone(&id), body: payload.body });
            return (id, Some(sequence));
        }
        let id = cx.id();
        let payload = Arc::new(payload);
        let number = self.add(cx.now, |sequence| Message {
            id: Arc::clone(&id),
            payload: Arc::clone(&payload),
            sender: Arc::clone(&cx.by),
            source: None,
            sequence,
            sent: cx.now,
            receives: 0,
            first_received: None,
            received: cx.now,
            expires: 0,
            state: State::Delayed(cx.now + delay * 1000),
            is_ghost: false,
        });
        let sequence = self.messages.get(&number).and_then(|message| message.sequence.clone());
        if let Some(key) = &payload.deduplication {
            let first = (cx.now, Arc::clone(&id), sequence.clone().unwrap_or_default());
            self.deduplication.insert(key.clone(), first);
        }
        cx.log(Event::Sent { queue: Arc::clone(&self.name), id: Arc::clone(&id), payload, delay });
        self.settle(cx.now);
        (id, sequence)
    }

    /// Takes a message that SQS moves here: a standard queue goes on counting its retention, a FIFO queue begins anew
    /// and puts the message's id in the place of the deduplication id.
    pub(super) fn take_moved(&mut self, now: Millis, from: &str, mut message: Message) {
        message.source = Some(from.into());
        message.state = State::Delayed(now);
        if self.is_fifo {
            message.sent = now;
            let deduplication = Some(message.id.to_string());
            message.payload = Arc::new(Payload { deduplication, ..(*message.payload).clone() });
        }
        if !self.settings.keeps_first_receive {
            message.first_received = None;
        }
        self.add(now, |sequence| Message { sequence, ..message });
        self.settle(now);
    }

    pub(super) fn add(&mut self, now: Millis, make: impl FnOnce(Option<String>) -> Message) -> u64 {
        let number = self.next;
        self.next += 1;
        let sequence =
            self.is_fifo.then(|| (18_880_000_000_000_000_000_u128 + u128::from(number) * 256).to_string());
        let mut message = make(sequence);
        message.expires = message.sent + self.settings.retention * 1000;
        self.expiry.insert((message.expires, number));
        if self.is_fifo {
            let group = message.payload.group.clone().unwrap_or_default();
            self.groups.entry(group).or_default().insert(number);
        }
        let state = message.state;
        self.messages.insert(number, message);
        self.enter(number, state, now);
        number
    }

    /// Shows what was hidden or delayed until now.
    pub(super) fn settle(&mut self, now: Millis) {
        while let Some((at, number)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.change(number, State::Visible(at), at);
        }
    }

    /// Returns the first messages that a receiver could get now, if the limit in flight allows. `busy` are FIFO groups
    /// that the receiver leaves alone.
    pub(super) fn ready(&mut self, cx: &mut Cx<'_>, at_most: usize, busy: &BTreeSet<String>) -> Vec<u64> {
        self.settle(cx.now);
        if self.is_fifo {
            let groups = self.groups.iter().filter(|(name, _)| !busy.contains(*name));
            let mut groups: Vec<_> = groups.map(|(_, group)| group).collect();
            groups.sort_by_key(|group| group.first().copied());
            return groups.into_iter().flat_map(|group| self.heads(group)).take(at_most).collect();
        }
        let numbers = self.visible.iter().map(|(_, number)| *number);
        if !self.settings.shuffled {
            return numbers.take(at_most).collect();
        }
        let mut numbers: Vec<u64> = numbers.collect();
        cx.rng.shuffle(&mut numbers);
        numbers.truncate(at_most);
        numbers
    }

    /// Returns the messages of a FIFO group that can be received now, in their order.
    fn heads(&self, group: &BTreeSet<u64>) -> Vec<u64> {
        let state = |number: &u64| self.messages.get(number).map(|message| message.state);
        if self.settings.whole_group && group.iter().any(|it| matches!(state(it), Some(State::InFlight(_)))) {
            return Vec::new();
        }
        group.iter().take_while(|it| matches!(state(it), Some(State::Visible(_)))).copied().collect()
    }

    /// Returns how many more messages may be in flight.
    pub(super) fn room(&self) -> usize {
        self.settings.in_flight.saturating_sub(self.counts.in_flight)
    }

    /// Returns how often a message was received.
    pub(super) fn receives(&self, number: u64) -> u32 {
        self.messages.get(&number).map_or(0, |message| message.receives)
    }

    /// Returns the content of a message.
    pub(super) fn payload(&self, number: u64) -> Option<&Payload> {
        self.messages.get(&number).map(|message| &*message.payload)
    }

    /// Returns the bytes of a message.
    pub(super) fn size(&self, number: u64) -> usize {
        self.messages.get(&number).map_or(0, |it| it.payload.size())
    }

    /// Hands a message out and hides it.
    pub(super) fn hand_out(&mut self, cx: &mut Cx<'_>, number: u64, seconds: i64) -> Option<Received> {
        let again = !self.is_fifo && cx.chance(self.settings.duplicates);
        let message = self.messages.get_mut(&number)?;
        message.receives += 1;
        message.received = cx.now;
        let first = *message.first_received.get_or_insert(cx.now);
        let handle: Arc<str> = format!("{}#{number}#{}", self.name, message.receives).into();
        let received = Received {
            id: Arc::clone(&message.id),
            handle: Arc::clone(&handle),
            payload: Arc::clone(&message.payload),
            sender: Arc::clone(&message.sender),
            sent: message.sent,
            receives: message.receives,
            first_received: first,
            source: message.source.clone(),
            sequence: message.sequence.clone(),
        };
        let (queue, id, count) = (Arc::clone(&self.name), Arc::clone(&message.id), message.receives);
        cx.log(Event::Received { queue, id: Arc::clone(&id), count, handle });
        // A server of the queue that has not heard of the receive shows the message to the next who asks.
        let until = if again { cx.now } else { cx.now + seconds * 1000 };
        if again {
            cx.log(Event::Duplicated { queue: Arc::clone(&self.name), id });
        }
        self.change(number, State::InFlight(until), cx.now);
        self.settle(cx.now);
        Some(received)
    }

    /// Returns the use of a receipt handle.
    pub(super) fn resolve(&mut self, now: Millis, handle: &str) -> Handle {
        self.settle(now);
        let parts = handle.strip_prefix(&*self.name).and_then(|rest| rest.strip_prefix('#'));
        let parts = parts.and_then(|rest| rest.split_once('#'));
        let parts =
            parts.and_then(|(number, count)| Some((number.parse().ok()?, count.parse::<u32>().ok()?)));
        let parts = parts.or_else(|| self.aliases.get(handle).copied());
        let Some((number, count)) = parts else { return Handle::Unknown };
        match self.messages.get(&number) {
            Some(message) if message.receives == count && !message.is_ghost => match message.state {
                State::InFlight(_) => Handle::Valid(number),
                _ => Handle::Expired(number),
            },
            _ => Handle::Stale,
        }
    }

    /// Returns how long a message has been away since its receive, in milliseconds.
    pub(super) fn away(&self, now: Millis, number: u64) -> Millis {
        self.messages.get(&number).map_or(0, |message| now - message.received)
    }

    /// Hides a message, received by this handle, for so many seconds from now on.
    pub(super) fn hide(&mut self, cx: &mut Cx<'_>, number: u64, handle: &str, seconds: i64) {
        let Some(message) = self.messages.get(&number) else { return };
        let (queue, id) = (Arc::clone(&self.name), Arc::clone(&message.id));
        cx.log(Event::Hidden { queue, id, handle: handle.to_owned(), seconds });
        self.change(number, State::InFlight(cx.now + seconds * 1000), cx.now);
        self.settle(cx.now);
    }

    /// Deletes a message. A standard queue may keep a copy on a server that has not heard of it.
    pub(super) fn delete(&mut self, cx: &mut Cx<'_>, number: u64) {
        let again = !self.is_fifo && cx.chance(self.settings.duplicates);
        let Some(message) = self.messages.get_mut(&number) else { return };
        let (queue, id) = (Arc::clone(&self.name), Arc::clone(&message.id));
        cx.log(Event::Deleted { queue: Arc::clone(&queue), id: Arc::clone(&id) });
        if again {
            message.is_ghost = true;
            cx.log(Event::Duplicated { queue, id });
        } else {
            self.remove(number, cx.now);
        }
    }

    /// Shows a message once more, though it is hidden: an at-least-once duplicate on demand.
    pub(super) fn show_again(&mut self, cx: &mut Cx<'_>, number: u64) {
        let Some(message) = self.messages.get(&number) else { return };
        cx.log(Event::Duplicated { queue: Arc::clone(&self.name), id: Arc::clone(&message.id) });
        self.change(number, State::Visible(cx.now), cx.now);
    }

    /// Removes a message.
    pub(super) fn remove(&mut self, number: u64, now: Millis) -> Option<Message> {
        let state = self.messages.get(&number)?.state;
        self.leave(number, state);
        self.record(now);
        let message = self.messages.remove(&number)?;
        self.expiry.remove(&(message.expires, number));
        let group = message.payload.group.clone().unwrap_or_default();
        if let Some(members) = self.groups.get_mut(&group) {
            members.remove(&number);
            if members.is_empty() {
                self.groups.remove(&group);
            }
        }
        Some(message)
    }

    fn change(&mut self, number: u64, to: State, now: Millis) {
        let Some(message) = self.messages.get_mut(&number) else { return };
        let from = std::mem::replace(&mut message.state, to);
        if matches!(to, State::Visible(_)) {
            message.is_ghost = false;
        }
        self.leave(number, from);
        self.enter(number, to, now);
    }

    fn enter(&mut self, number: u64, state: State, now: Millis) {
        match state {
            State::Visible(at) => {
                self.visible.insert((at, number));
                self.counts.visible += 1;
            }
            State::Delayed(at) => {
                self.timers.insert((at, number));
                self.counts.delayed += 1;
            }
            State::InFlight(at) => {
                self.timers.insert((at, number));
                self.counts.in_flight += 1;
                self.peak = self.peak.max(self.counts.in_flight);
            }
        }
        self.record(now);
    }

    fn leave(&mut self, number: u64, state: State) {
        match state {
            State::Visible(at) => {
                self.visible.remove(&(at, number));
                self.counts.visible -= 1;
            }
            State::Delayed(at) => {
                self.timers.remove(&(at, number));
                self.counts.delayed -= 1;
            }
            State::InFlight(at) => {
                self.timers.remove(&(at, number));
                self.counts.in_flight -= 1;
            }
        }
    }

    /// Keeps the numbers of messages for readings that lag.
    fn record(&mut self, now: Millis) {
        match self.history.back_mut() {
            Some(last) if last.0 == now => last.1 = self.counts,
            _ => self.history.push_back((now, self.counts)),
        }
        let then = now - self.settings.lag;
        while self.history.get(1).is_some_and(|(since, _)| *since <= then) {
            self.history.pop_front();
        }
    }
}
