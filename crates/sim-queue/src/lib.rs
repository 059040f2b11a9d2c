//! The lives of the messages in one SQS queue: delayed, visible, in flight, and gone.
//!
//! The user defines the content of a message: the account in `redrive-sim` uses bodies and attributes, the simulation
//! of a model what it needs. Time comes in as an argument, and nothing happens by itself: a user calls
//! [`SimMessages::settle`] at the time that [`SimMessages::next_visible`] returns. Behaviour that AWS does not
//! specify is a setting, whose default is what was recorded on AWS.
//!
//! <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html>

#![allow(clippy::missing_errors_doc, reason = "a queue refuses what [`Refused`] says")]

mod deduplication;
mod message;
mod settings;
#[cfg(test)]
mod tests;
mod time;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use deduplication::{DEDUPLICATION, Deduplication};
use message::SimMessageState;
pub use message::{ReceiptRefusal, ReceiptState, SimMessage, SimMessageCounts, SimReceipt};
pub use settings::{
    MAX_ATTRIBUTES, MAX_BYTES, MAX_DELAY, MAX_ENTRIES, MAX_IN_FLIGHT, MAX_VISIBILITY, QueueRedrive,
    QueueSettings,
};
pub use time::QueueMillis;

/// A FIFO group.
#[derive(Debug)]
struct SimFifoGroup {
    /// The groups with lower turns come first.
    turn: u64,
    members: BTreeSet<u64>,
}

/// The messages of a queue, with contents `C` and groups `G`.
#[derive(Debug)]
pub struct SimMessages<C, G> {
    /// True if it is a FIFO queue.
    pub is_fifo: bool,
    /// The settings.
    pub settings: QueueSettings,
    /// The largest number of messages that were in flight at once.
    pub peak: usize,
    all: BTreeMap<u64, SimMessage<C, G>>,
    /// The messages that can be received, in the order in which they will be.
    visible: BTreeSet<(QueueMillis, u64)>,
    /// The times when hidden and delayed messages become visible.
    timers: BTreeSet<(QueueMillis, u64)>,
    expiry: BTreeSet<(QueueMillis, u64)>,
    groups: BTreeMap<G, SimFifoGroup>,
    /// The turn of the FIFO group that comes next.
    turn: u64,
    counts: SimMessageCounts,
    history: VecDeque<(QueueMillis, SimMessageCounts)>,
    next: u64,
}

impl<C, G: Ord + Clone> SimMessages<C, G> {
    /// Returns an empty queue.
    ///
    /// # Panics
    ///
    /// If AWS refuses the settings.
    #[must_use]
    pub fn new(is_fifo: bool, settings: QueueSettings) -> Self {
        settings.check();
        Self {
            is_fifo,
            settings,
            peak: 0,
            all: BTreeMap::new(),
            visible: BTreeSet::new(),
            timers: BTreeSet::new(),
            expiry: BTreeSet::new(),
            groups: BTreeMap::new(),
            turn: 0,
            counts: SimMessageCounts::default(),
            history: VecDeque::new(),
            next: 0,
        }
    }

    // -----------------------------------------------------------------------------------------
    // The messages in the queue

    /// Returns the number of messages that are in the queue, in whatever state.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Reports whether the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns a message.
    #[must_use]
    pub fn get(&self, number: u64) -> Option<&SimMessage<C, G>> {
        self.all.get(&number)
    }

    /// Returns the messages in whatever state, by their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &SimMessage<C, G>)> {
        self.all.iter().map(|(number, message)| (*number, message))
    }

    /// Returns the last receipt of each message that is in flight.
    pub fn in_flight(&self) -> impl Iterator<Item = (SimReceipt, &SimMessage<C, G>)> {
        let in_flight =
            self.iter().filter(|(_, message)| matches!(message.state, SimMessageState::InFlight(_)));
        in_flight.map(|(number, message)| (SimReceipt { number, receive: message.receives }, message))
    }

    /// Returns the time when a message next becomes visible, or `None` if none is hidden or delayed.
    #[must_use]
    pub fn next_visible(&self) -> Option<QueueMillis> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Returns the time when the retention of a message next ends.
    #[must_use]
    pub fn next_expiry(&self) -> Option<QueueMillis> {
        self.expiry.first().map(|(at, _)| *at)
    }

    /// Returns the numbers of messages at this time, which may lie no further back than the lag of readings.
    #[must_use]
    pub fn counts(&self, then: QueueMillis) -> SimMessageCounts {
        let known = self.history.iter().rev().find(|(since, _)| *since <= then);
        known.map_or_else(SimMessageCounts::default, |(_, counts)| *counts)
    }

    /// Returns how many more messages may be in flight.
    #[must_use]
    pub fn room(&self) -> usize {
        self.settings.in_flight.saturating_sub(self.counts.in_flight)
    }

    // -----------------------------------------------------------------------------------------
    // Putting messages into the queue

    /// Adds a message that becomes visible at the time `shows`, and returns its number.
    pub fn put(&mut self, now: QueueMillis, message: SimMessage<C, G>, shows: QueueMillis) -> u64 {
        self.add(now, message, SimMessageState::Delayed(shows))
    }

    /// Adds a message as if it were received just now, by its last receive.
    pub fn place(&mut self, now: QueueMillis, message: SimMessage<C, G>) -> u64 {
        let until = now + self.settings.visibility * 1000;
        self.add(now, SimMessage { received: now, ..message }, SimMessageState::InFlight(until))
    }

    /// Adds a message that SQS moves here. A standard queue goes on counting its retention, a FIFO queue
    /// begins anew.
    pub fn take_moved(&mut self, now: QueueMillis, mut message: SimMessage<C, G>) -> u64 {
        if self.is_fifo {
            message.sent = now;
        }
        if !self.settings.keeps_first_receive {
            message.first_received = None;
        }
        self.add(now, message, SimMessageState::Delayed(now))
    }

    fn add(&mut self, now: QueueMillis, mut message: SimMessage<C, G>, state: SimMessageState) -> u64 {
        let number = self.next;
        self.next += 1;
        (message.expires, message.state) = (message.sent + self.settings.retention * 1000, state);
        self.expiry.insert((message.expires, number));
        if self.is_fifo {
            let turn = self.turn;
            let new = || SimFifoGroup { turn, members: BTreeSet::new() };
            self.groups.entry(message.group.clone()).or_insert_with(new).members.insert(number);
            self.turn += 1;
        }
        self.all.insert(number, message);
        self.enter(number, state, now);
        number
    }

    // -----------------------------------------------------------------------------------------
    // Receiving

    /// Makes the messages visible that were hidden or delayed until now. Returns whether there were any.
    pub fn settle(&mut self, now: QueueMillis) -> bool {
        let mut any = false;
        while let Some((at, number)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.show(number, at);
            any = true;
        }
        any
    }

    /// Makes a message visible from this time on, even if it is hidden: an at-least-once duplicate on demand.
    pub fn show(&mut self, number: u64, now: QueueMillis) {
        let place = match self.settings.shuffled.filter(|_| !self.is_fifo) {
            Some(seed) => any_place(seed, number, now),
            None => now,
        };
        if let Some(message) = self.all.get_mut(&number) {
            message.is_ghost = false;
        }
        self.change_state(number, SimMessageState::Visible(place), now);
    }

    /// Returns the first messages that a receiver could get, if the limit in flight allows. `busy` are FIFO
    /// groups that the receiver leaves out.
    #[must_use]
    pub fn ready(&self, at_most: usize, busy: &BTreeSet<G>) -> Vec<u64> {
        if !self.is_fifo {
            return self.visible.iter().map(|(_, number)| *number).take(at_most).collect();
        }
        let groups = self.groups.iter().filter(|(name, _)| !busy.contains(*name));
        let mut groups: Vec<_> = groups.map(|(_, group)| group).collect();
        groups.sort_by_key(|group| group.turn);
        groups.into_iter().flat_map(|group| self.heads(&group.members)).take(at_most).collect()
    }

    /// Returns the messages of a FIFO group that can be received now, in their order.
    fn heads(&self, group: &BTreeSet<u64>) -> Vec<u64> {
        let state = |number: &u64| self.all.get(number).map(|message| message.state);
        if self.settings.whole_group
            && group.iter().any(|it| matches!(state(it), Some(SimMessageState::InFlight(_))))
        {
            return Vec::new();
        }
        group
            .iter()
            .take_while(|it| matches!(state(it), Some(SimMessageState::Visible(_))))
            .copied()
            .collect()
    }

    /// Hands out a message and hides it until this time.
    pub fn receive(
        &mut self,
        now: QueueMillis,
        number: u64,
        until: QueueMillis,
    ) -> Option<(SimReceipt, &SimMessage<C, G>)> {
        let message = self.all.get_mut(&number)?;
        // A group that was served goes behind the others. Recorded.
        if let Some(group) = self.groups.get_mut(&message.group) {
            group.turn = self.turn;
            self.turn += 1;
        }
        message.receives += 1;
        message.received = now;
        message.first_received.get_or_insert(now);
        self.change_state(number, SimMessageState::InFlight(until), now);
        let message = self.all.get(&number)?;
        Some((SimReceipt { number, receive: message.receives }, message))
    }

    // -----------------------------------------------------------------------------------------
    // Requests with a receipt

    /// Returns what a receipt can still be used for.
    #[must_use]
    pub fn resolve(&self, receipt: SimReceipt) -> ReceiptState {
        match self.all.get(&receipt.number) {
            Some(message) if message.receives == receipt.receive && !message.is_ghost => {
                match message.state {
                    SimMessageState::InFlight(_) => ReceiptState::Valid,
                    _ => ReceiptState::Expired,
                }
            }
            _ => ReceiptState::Stale,
        }
    }

    /// Hides a message for so many seconds from now on. Returns whether that had an effect.
    pub fn change(
        &mut self,
        now: QueueMillis,
        receipt: SimReceipt,
        seconds: i64,
    ) -> Result<bool, ReceiptRefusal> {
        let until = now + seconds * 1000;
        let message = self.all.get(&receipt.number).filter(|message| !message.is_ghost);
        let Some(message) = message else {
            return Err(if self.is_fifo { ReceiptRefusal::NoLongerValid } else { ReceiptRefusal::Gone });
        };
        if self.resolve(receipt) != ReceiptState::Valid {
            let QueueSettings { stale_shows, stale_hides, .. } = self.settings;
            let is_taken = if seconds == 0 { stale_shows } else { stale_hides };
            let is_hidden = matches!(message.state, SimMessageState::InFlight(_));
            if self.is_fifo {
                return Err(ReceiptRefusal::NoLongerValid);
            } else if !is_taken || !is_hidden {
                return Ok(false);
            }
        }
        if until - message.received > MAX_VISIBILITY * 1000 {
            return Err(ReceiptRefusal::TooLong);
        }
        self.change_state(receipt.number, SimMessageState::InFlight(until), now);
        Ok(true)
    }

    /// Returns the message that a receipt deletes, or `None` if a standard queue accepts the request and does
    /// nothing. The last receipt deletes the message even after it has become visible again.
    pub fn to_delete(&self, receipt: SimReceipt) -> Result<Option<u64>, ReceiptRefusal> {
        let deletes = match self.resolve(receipt) {
            ReceiptState::Valid => true,
            _ if self.is_fifo => return Err(ReceiptRefusal::NoLongerValid),
            ReceiptState::Expired => true,
            ReceiptState::Stale => {
                let known = self.all.get(&receipt.number).filter(|message| !message.is_ghost);
                self.settings.stale_deletes && known.is_some()
            }
        };
        Ok(deletes.then_some(receipt.number))
    }

    // -----------------------------------------------------------------------------------------
    // Removing messages

    /// Removes a message.
    pub fn remove(&mut self, now: QueueMillis, number: u64) -> Option<SimMessage<C, G>> {
        let message = self.all.remove(&number)?;
        self.leave(number, message.state);
        self.record(now);
        self.expiry.remove(&(message.expires, number));
        if let Some(group) = self.groups.get_mut(&message.group) {
            group.members.remove(&number);
            if group.members.is_empty() {
                self.groups.remove(&message.group);
            }
        }
        Some(message)
    }

    /// Deletes a message of which a server that does not know of the deletion keeps a copy, so that it
    /// becomes visible again.
    pub fn leave_ghost(&mut self, number: u64) {
        if let Some(message) = self.all.get_mut(&number) {
            message.is_ghost = true;
        }
    }

    /// Removes the next message whose retention has ended by now, in flight or not, at the time when it
    /// ended.
    pub fn expire(&mut self, now: QueueMillis) -> Option<(QueueMillis, u64, SimMessage<C, G>)> {
        let (at, number) = self.expiry.first().copied().filter(|(at, _)| *at <= now)?;
        self.settle(at);
        Some((at, number, self.remove(at, number)?))
    }

    // -----------------------------------------------------------------------------------------
    // States

    fn change_state(&mut self, number: u64, to: SimMessageState, now: QueueMillis) {
        let Some(message) = self.all.get_mut(&number) else { return };
        let from = std::mem::replace(&mut message.state, to);
        self.leave(number, from);
        self.enter(number, to, now);
    }

    fn enter(&mut self, number: u64, state: SimMessageState, now: QueueMillis) {
        match state {
            SimMessageState::Visible(place) => {
                self.visible.insert((place, number));
                self.counts.visible += 1;
            }
            SimMessageState::Delayed(at) => {
                self.timers.insert((at, number));
                self.counts.delayed += 1;
            }
            SimMessageState::InFlight(at) => {
                self.timers.insert((at, number));
                self.counts.in_flight += 1;
                self.peak = self.peak.max(self.counts.in_flight);
            }
        }
        self.record(now);
    }

    fn leave(&mut self, number: u64, state: SimMessageState) {
        match state {
            SimMessageState::Visible(place) => {
                self.visible.remove(&(place, number));
                self.counts.visible -= 1;
            }
            SimMessageState::Delayed(at) => {
                self.timers.remove(&(at, number));
                self.counts.delayed -= 1;
            }
            SimMessageState::InFlight(at) => {
                self.timers.remove(&(at, number));
                self.counts.in_flight -= 1;
            }
        }
    }

    /// Keeps the numbers of messages for readings that lag.
    fn record(&mut self, now: QueueMillis) {
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

/// Returns a place among the visible messages that does not depend on the order of time: `SplitMix64` of all
/// arguments.
fn any_place(seed: u64, number: u64, now: QueueMillis) -> QueueMillis {
    let mut x = seed.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)) ^ now.cast_unsigned();
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (x ^ (x >> 31)).cast_signed()
}
