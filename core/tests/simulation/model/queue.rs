//! An SQS queue, as AWS documents it.
//!
//! <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html>

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;

use redrive_core::arn::Arn;
use redrive_core::letter::Letter;

use super::{MINUTE, Millis, at, seconds};

/// No message is hidden for longer than 12 hours, counted from its receive.
const VISIBILITY_LIMIT: Millis = 43_200_000;

/// How long a FIFO queue remembers a deduplication id.
const DEDUPLICATION: Millis = 5 * MINUTE;

/// What a queue is set to, and what SQS does with it.
#[derive(Debug, Clone)]
pub struct Settings {
    pub fifo: bool,
    pub retention: u64,
    /// The queue's own visibility timeout, seconds.
    pub timeout: u64,
    /// Messages that may be in flight.
    pub limit: u64,
    /// How old `ApproximateNumberOfMessagesNotVisible` may be.
    pub lag: Millis,
    /// FIFO: whether a group is blocked as a whole while one of its messages is in flight; else what lies
    /// before that message can be received. Both were seen.
    pub whole_group: bool,
    /// Standard: messages come in any order.
    pub shuffled: bool,
}

#[derive(Debug)]
pub struct Queue {
    pub arn: Arn,
    pub settings: Settings,
    messages: BTreeMap<u64, Message>,
    visible: BTreeSet<(Millis, u64)>,
    groups: BTreeMap<u32, BTreeSet<u64>>,
    expiry: BTreeSet<(Millis, u64)>,
    deduplication: HashMap<String, (Millis, u64)>,
    in_flight: u64,
    past: VecDeque<(Millis, u64)>,
    next: u64,
    pub peak: u64,
    pub peak_length: usize,
}

#[derive(Debug)]
pub struct Message {
    /// Whose letter it is: its number in the world.
    pub who: usize,
    pub group: u32,
    pub letter: Rc<Letter>,
    receives: u32,
    first_received: Option<Millis>,
    received: Millis,
    expires: Millis,
    state: State,
    /// Changes whenever the state does; a timer or a receipt of an older state is void.
    epoch: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Delayed,
    Visible(Millis),
    InFlight,
}

/// What a sender says of a message.
#[derive(Debug)]
pub struct Sending {
    pub who: usize,
    pub group: u32,
    pub letter: Rc<Letter>,
    pub delay: Millis,
    /// Receives that SQS kept when it moved the message here.
    pub receives: u32,
    pub first_received: Option<Millis>,
    pub deduplication: Option<String>,
}

/// When something may become visible: the message, its epoch then, and the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timer {
    pub number: u64,
    pub epoch: u32,
    pub at: Millis,
}

/// A received message.
#[derive(Debug, Clone)]
pub struct Receipt {
    pub number: u64,
    epoch: u32,
    pub who: usize,
    pub group: u32,
    pub received: Millis,
    pub letter: Rc<Letter>,
}

/// SQS refuses a change of visibility.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    BeyondTheLimit,
    ReceiptExpired,
}

impl Queue {
    pub fn new(arn: &str, settings: Settings) -> Self {
        Self {
            arn: arn.parse().unwrap(),
            settings,
            messages: BTreeMap::new(),
            visible: BTreeSet::new(),
            groups: BTreeMap::new(),
            expiry: BTreeSet::new(),
            deduplication: HashMap::new(),
            in_flight: 0,
            past: VecDeque::new(),
            next: 0,
            peak: 0,
            peak_length: 0,
        }
    }

    /// Takes a message; its number, and when it becomes visible. A FIFO queue answers a repetition as if
    /// it were the first, and keeps one. The letter's `SentTimestamp` counts.
    pub fn send(&mut self, now: Millis, sending: Sending) -> (u64, Option<Timer>) {
        let Sending { who, group, letter, delay, receives, first_received, deduplication } = sending;
        if let Some(id) = deduplication.filter(|_| self.settings.fifo) {
            match self.deduplication.get(&id) {
                Some((sent, number)) if now < sent + DEDUPLICATION => return (*number, None),
                _ => self.deduplication.insert(id, (now, self.next)),
            };
        }
        assert!(delay == 0 || !self.settings.fifo, "FIFO queues delay no single message");
        assert!((0..=seconds(900)).contains(&delay), "DelaySeconds {delay} ms");
        let number = self.next;
        self.next += 1;
        let expires = super::since_begin(letter.sqs.sent) + seconds(self.settings.retention);
        let message = Message {
            who,
            group,
            letter,
            receives,
            first_received,
            received: now,
            expires,
            state: State::Delayed,
            epoch: 0,
        };
        self.messages.insert(number, message);
        self.expiry.insert((expires, number));
        if self.settings.fifo {
            self.groups.entry(group).or_default().insert(number);
        }
        self.peak_length = self.peak_length.max(self.messages.len());
        (number, Some(Timer { number, epoch: 0, at: now + delay }))
    }

    /// A timer has rung: the message is visible, unless it changed since.
    pub fn show(&mut self, timer: Timer, any_order: i64) -> bool {
        let Some(message) = self.messages.get(&timer.number).filter(|one| one.epoch == timer.epoch) else {
            return false;
        };
        debug_assert!(!matches!(message.state, State::Visible(_)));
        let order = if self.settings.shuffled { any_order } else { timer.at };
        self.set(timer.number, State::Visible(order), timer.at);
        true
    }

    pub fn has_visible(&self) -> bool {
        !self.visible.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub fn len(&self) -> usize {
        self.messages.len()
    }

    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Whose letters lie here.
    pub fn whose(&self) -> impl Iterator<Item = usize> {
        self.messages.values().map(|message| message.who)
    }

    /// Receives messages; at the limit in flight there are none, as for Lambda's long polls.
    pub fn receive(&mut self, now: Millis, at_most: usize) -> (Vec<Receipt>, Vec<Timer>) {
        let room = usize::try_from(self.settings.limit.saturating_sub(self.in_flight)).unwrap();
        let at_most = at_most.min(room);
        let numbers: Vec<u64> = if self.settings.fifo {
            self.groups.values().flat_map(|group| self.receivable(group)).take(at_most).collect()
        } else {
            self.visible.iter().map(|(_, number)| *number).take(at_most).collect()
        };
        let (mut receipts, mut timers) = (Vec::new(), Vec::new());
        for number in numbers {
            let epoch = self.set(number, State::InFlight, now);
            let timeout = seconds(self.settings.timeout);
            let Some(message) = self.messages.get_mut(&number) else { continue };
            message.receives += 1;
            message.received = now;
            let first = *message.first_received.get_or_insert(now);
            let sqs = &mut Rc::make_mut(&mut message.letter).sqs;
            (sqs.receive_count, sqs.first_received) = (message.receives, at(first));
            let Message { who, group, ref letter, .. } = *message;
            let letter = Rc::clone(letter);
            receipts.push(Receipt { number, epoch, who, group, received: now, letter });
            timers.push(Timer { number, epoch, at: now + timeout });
        }
        (receipts, timers)
    }

    /// The messages of a FIFO group that can be received now, in their order.
    fn receivable(&self, group: &BTreeSet<u64>) -> Vec<u64> {
        let state = |number: &u64| self.messages.get(number).map(|message| message.state);
        if self.settings.whole_group && group.iter().any(|number| state(number) == Some(State::InFlight)) {
            return Vec::new();
        }
        group.iter().take_while(|number| matches!(state(number), Some(State::Visible(_)))).copied().collect()
    }

    /// `ChangeMessageVisibility`.
    pub fn change(
        &mut self,
        now: Millis,
        receipt: &mut Receipt,
        hide: u64,
    ) -> Result<Option<Timer>, Refused> {
        let Some(message) = self.messages.get(&receipt.number).filter(|one| one.epoch == receipt.epoch)
        else {
            return if self.settings.fifo { Err(Refused::ReceiptExpired) } else { Ok(None) };
        };
        if now + seconds(hide) - message.received > VISIBILITY_LIMIT {
            return Err(Refused::BeyondTheLimit);
        }
        receipt.epoch = self.set(receipt.number, State::InFlight, now);
        Ok(Some(Timer { number: receipt.number, epoch: receipt.epoch, at: now + seconds(hide) }))
    }

    /// `ChangeMessageVisibility` to 0, by whoever has the receipt. A stale one may be passed over, or show a message that
    /// is being handled.
    pub fn wake(&mut self, now: Millis, receipt: &Receipt, stale_shows: bool) -> Option<Timer> {
        let message = self.messages.get(&receipt.number)?;
        let valid = message.epoch == receipt.epoch || (stale_shows && !self.settings.fifo);
        if !valid || message.state != State::InFlight {
            return None;
        }
        let epoch = self.set(receipt.number, State::InFlight, now);
        Some(Timer { number: receipt.number, epoch, at: now })
    }

    /// What is hidden: the newest receipt of each message.
    pub fn hidden(&self) -> Vec<Receipt> {
        let hidden = self.messages.iter().filter(|(_, message)| message.state == State::InFlight);
        let receipt = |(number, message): (&u64, &Message)| Receipt {
            number: *number,
            epoch: message.epoch,
            who: message.who,
            group: message.group,
            received: message.received,
            letter: Rc::clone(&message.letter),
        };
        hidden.map(receipt).collect()
    }

    /// `DeleteMessage`.
    pub fn delete(&mut self, now: Millis, receipt: &Receipt) {
        if self.messages.get(&receipt.number).is_some_and(|message| message.epoch == receipt.epoch) {
            self.remove(receipt.number, now);
        }
    }

    /// When the retention of a message ends first.
    pub fn next_expiry(&self) -> Option<Millis> {
        self.expiry.first().map(|(expires, _)| *expires)
    }

    /// Drops the message whose retention ended first; its number, and whose it was.
    pub fn expire(&mut self) -> Option<(u64, usize)> {
        let (expires, number) = *self.expiry.first()?;
        let message = self.remove(number, expires)?;
        Some((number, message.who))
    }

    /// `ApproximateNumberOfMessagesNotVisible` as it was then.
    pub fn not_visible(&self, then: Millis) -> u64 {
        let known = self.past.iter().rev().find(|(since, _)| *since <= then);
        known.map_or(0, |(_, in_flight)| *in_flight)
    }

    /// Brings a message into a state; its new epoch.
    fn set(&mut self, number: u64, state: State, now: Millis) -> u32 {
        let Some(message) = self.messages.get_mut(&number) else { return 0 };
        let before = std::mem::replace(&mut message.state, state);
        message.epoch += 1;
        let epoch = message.epoch;
        self.count(number, before, Some(state), now);
        epoch
    }

    fn remove(&mut self, number: u64, now: Millis) -> Option<Message> {
        let message = self.messages.remove(&number)?;
        self.expiry.remove(&(message.expires, number));
        if let Some(group) = self.groups.get_mut(&message.group) {
            group.remove(&number);
            if group.is_empty() {
                self.groups.remove(&message.group);
            }
        }
        self.count(number, message.state, None, now);
        Some(message)
    }

    fn count(&mut self, number: u64, before: State, after: Option<State>, now: Millis) {
        if let State::Visible(order) = before {
            self.visible.remove(&(order, number));
        }
        if let Some(State::Visible(order)) = after {
            self.visible.insert((order, number));
        }
        let (was, is) = (before == State::InFlight, after == Some(State::InFlight));
        if was == is {
            return;
        }
        self.in_flight = if is { self.in_flight + 1 } else { self.in_flight - 1 };
        self.peak = self.peak.max(self.in_flight);
        match self.past.back_mut() {
            Some(last) if last.0 == now => last.1 = self.in_flight,
            _ => self.past.push_back((now, self.in_flight)),
        }
        while self.past.get(1).is_some_and(|(since, _)| *since < now - self.settings.lag - MINUTE) {
            self.past.pop_front();
        }
    }
}
