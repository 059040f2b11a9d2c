//! An SQS queue, as far as an event source mapping and the function see it.
//!
//! - A message that is received is hidden for the queue's visibility timeout, or for as long as
//!   `ChangeMessageVisibility` says. Its receipt handle is the last one only.
//! - Messages in flight are counted, and at the limit nothing is handed over.
//! - In a FIFO queue a group hands its messages over from the first one on, up to one that is in flight, and
//!   none while an invocation works on the group.
//! - A FIFO queue takes a deduplication id once in five minutes.
//!
//! Unlike SQS, it hands over no two copies of one letter at once: what is sent could not be told apart.
//!
//! <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html>

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::ledger::{Message as Number, Who};
use super::letters::Attributes;

/// Milliseconds since 1970.
pub type Millis = u64;

/// How long a FIFO queue or topic remembers a deduplication id.
const REMEMBERED: Millis = 300_000;

/// A queue.
#[derive(Debug)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Whether it is FIFO.
    pub fifo: bool,
    visibility: Millis,
    limit: usize,
    messages: HashMap<Number, Message>,
    /// When messages of a standard queue show.
    shown: BTreeSet<(Millis, Number)>,
    groups: BTreeMap<String, VecDeque<Number>>,
    /// Groups that an invocation works on.
    busy: HashSet<String>,
    known: Repetitions,
    /// The group that is looked at first.
    turn: usize,
}

/// A message.
#[derive(Debug, Clone)]
pub struct Message {
    /// Its number.
    pub number: Number,
    /// The letter.
    pub who: Who,
    /// The body.
    pub body: Arc<str>,
    /// The attributes.
    pub attributes: Arc<Attributes>,
    /// The group.
    pub group: Option<String>,
    /// The X-Ray header.
    pub trace: Option<String>,
    /// `DeadLetterQueueSourceArn`.
    pub source: Option<String>,
    /// `SentTimestamp`.
    pub sent: Millis,
    /// `ApproximateFirstReceiveTimestamp`.
    pub first_received: Millis,
    /// `ApproximateReceiveCount`.
    pub receives: u32,
    shown: Millis,
}

/// Deduplication ids of the last five minutes.
#[derive(Debug, Default)]
pub struct Repetitions(HashMap<String, Millis>);

impl Repetitions {
    /// Whether an id comes for the first time.
    pub fn is_new(&mut self, id: &str, now: Millis) -> bool {
        if self.0.get(id).is_some_and(|seen| now < seen + REMEMBERED) {
            return false;
        }
        self.0.insert(id.to_owned(), now);
        true
    }
}

impl Message {
    /// The receipt handle of the last receive.
    #[must_use]
    pub fn handle(&self) -> String {
        format!("receipt-{}-{}", self.number, self.receives)
    }
}

impl Queue {
    /// An empty queue.
    #[must_use]
    pub fn new(name: String, visibility: Millis, limit: usize) -> Self {
        Self {
            fifo: name.strip_suffix(".fifo").is_some(),
            name,
            visibility,
            limit,
            messages: HashMap::new(),
            shown: BTreeSet::new(),
            groups: BTreeMap::new(),
            busy: HashSet::new(),
            known: Repetitions::default(),
            turn: 0,
        }
    }

    /// Whether a FIFO queue has not seen this id lately.
    pub fn is_new(&mut self, id: &str, now: Millis) -> bool {
        self.known.is_new(id, now)
    }

    /// Takes a message, to be shown after `delay` milliseconds.
    pub fn put(&mut self, mut message: Message, delay: Millis) {
        message.shown = message.sent + delay;
        let number = message.number;
        if self.fifo {
            let group = message.group.clone().unwrap_or_default();
            self.groups.entry(group).or_default().push_back(number);
        } else {
            self.shown.insert((message.shown, number));
        }
        self.messages.insert(number, message);
    }

    /// Hands messages over.
    pub fn receive(&mut self, most: usize, most_bytes: usize, now: Millis) -> Vec<Message> {
        let most = most.min(self.limit.saturating_sub(self.in_flight(now)));
        let numbers = if self.fifo { self.heads(most, now) } else { self.visible(most, now) };
        let (mut bytes, mut received) = (0, Vec::new());
        let mut letters = HashSet::new();
        for number in numbers {
            let Some(message) = self.messages.get_mut(&number) else { continue };
            if !letters.insert(message.who) {
                // In a FIFO queue none behind it may go before it.
                if self.fifo {
                    break;
                }
                continue;
            }
            bytes += message.body.len() + 1_000;
            if bytes > most_bytes && !received.is_empty() {
                break;
            }
            self.shown.remove(&(message.shown, number));
            message.receives += 1;
            message.shown = now + self.visibility;
            if message.receives == 1 {
                message.first_received = now;
            }
            if self.fifo {
                self.busy.insert(message.group.clone().unwrap_or_default());
            } else {
                self.shown.insert((message.shown, number));
            }
            received.push(message.clone());
        }
        received
    }

    fn visible(&self, most: usize, now: Millis) -> Vec<Number> {
        self.shown
            .iter()
            .take_while(|(shown, _)| *shown <= now)
            .take(most)
            .map(|(_, number)| *number)
            .collect()
    }

    fn heads(&mut self, most: usize, now: Millis) -> Vec<Number> {
        self.turn = self.turn.wrapping_add(7);
        let skip = self.turn % self.groups.len().max(1);
        let groups = self.groups.iter().skip(skip).chain(self.groups.iter().take(skip));
        let visible = |number: &&Number| self.messages.get(number).is_some_and(|it| it.shown <= now);
        groups
            .filter(|(group, _)| !self.busy.contains(*group))
            .flat_map(|(_, members)| members.iter().take_while(visible))
            .take(most)
            .copied()
            .collect()
    }

    /// An invocation has ended: the mapping works on these groups no more.
    pub fn release<'g>(&mut self, groups: impl Iterator<Item = &'g str>) {
        for group in groups {
            self.busy.remove(group);
        }
    }

    /// Changes a message's visibility.
    ///
    /// # Errors
    ///
    /// SQS's code.
    pub fn hide(&mut self, handle: &str, seconds: i64, now: Millis) -> Result<(), &'static str> {
        let fifo = self.fifo;
        let Some(message) = self.by_handle(handle) else { return Err("ReceiptHandleIsInvalid") };
        let Ok(millis) = u64::try_from(seconds * 1000) else { return Err("InvalidParameterValue") };
        if seconds > 43_200 || (fifo && message.shown <= now) {
            return Err("InvalidParameterValue");
        }
        let (number, before) = (message.number, message.shown);
        message.shown = now + millis;
        if !fifo {
            self.shown.remove(&(before, number));
            self.shown.insert((now + millis, number));
        }
        Ok(())
    }

    /// Deletes a message; an old handle deletes nothing.
    pub fn delete(&mut self, handle: &str) -> bool {
        let Some(message) = self.by_handle(handle) else { return false };
        let (number, shown, group) = (message.number, message.shown, message.group.clone());
        self.messages.remove(&number);
        self.shown.remove(&(shown, number));
        if self.fifo {
            let group = group.unwrap_or_default();
            if let Some(members) = self.groups.get_mut(&group) {
                members.retain(|member| *member != number);
                if members.is_empty() {
                    self.groups.remove(&group);
                }
            }
        }
        true
    }

    /// `ApproximateNumberOfMessagesNotVisible`.
    #[must_use]
    pub fn in_flight(&self, now: Millis) -> usize {
        self.messages.values().filter(|message| message.receives > 0 && message.shown > now).count()
    }

    /// The messages in it.
    pub fn numbers(&self) -> impl Iterator<Item = Number> {
        self.messages.keys().copied()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The message whose last handle this is.
    fn by_handle(&mut self, handle: &str) -> Option<&mut Message> {
        let (number, receives) = handle.strip_prefix("receipt-")?.split_once('-')?;
        let message = self.messages.get_mut(&number.parse().ok()?)?;
        (receives.parse() == Ok(message.receives)).then_some(message)
    }
}

impl Message {
    /// A message that nobody has received yet.
    #[must_use]
    pub fn new(number: Number, who: Who, body: Arc<str>, attributes: Arc<Attributes>, sent: Millis) -> Self {
        Self {
            number,
            who,
            body,
            attributes,
            group: None,
            trace: None,
            source: None,
            sent,
            first_received: 0,
            receives: 0,
            shown: 0,
        }
    }
}
