//! A queue of letters, whose messages live like those of every queue in `redrive-sim`.

use std::collections::BTreeSet;
use std::rc::Rc;

use redrive_core::arn::Arn;
use redrive_core::letter::Letter;
use redrive_sim_queue::{Deduplication, Message, Messages, QueueSettings};

use super::{Millis, at};

/// The content of a message.
#[derive(Debug, Clone)]
pub struct Content {
    /// The number of its letter in the world.
    pub who: usize,
    pub letter: Rc<Letter>,
}

#[derive(Debug)]
pub struct Queue {
    pub arn: Arn,
    pub messages: Messages<Content, u32>,
    deduplication: Deduplication<u64>,
}

/// A received message.
#[derive(Debug, Clone)]
pub struct Receipt {
    pub handle: redrive_sim_queue::Receipt,
    pub who: usize,
    pub group: u32,
    pub first_received: Millis,
    pub letter: Rc<Letter>,
}

impl Receipt {
    fn new(handle: redrive_sim_queue::Receipt, message: &Message<Content, u32>) -> Self {
        let Content { who, letter } = message.content.clone();
        let first_received = message.first_received.unwrap_or(message.received);
        Self { handle, who, group: message.group, first_received, letter }
    }

    /// Returns the letter as the function gets it, with its place in the batch as the receipt handle.
    pub fn letter(&self, index: usize) -> Letter {
        let mut letter = Letter::clone(&self.letter);
        letter.sqs.receipt_handle = index.to_string();
        letter.sqs.receive_count = self.handle.receive;
        letter.sqs.first_received = at(self.first_received);
        letter
    }
}

impl Queue {
    pub fn new(arn: &str, fifo: bool, settings: QueueSettings) -> Self {
        Self {
            arn: arn.parse().unwrap(),
            messages: Messages::new(fifo, settings),
            deduplication: Deduplication::default(),
        }
    }

    /// Accepts a message, with its delay. Returns its number, and whether it is a new one. A FIFO queue
    /// answers a repetition like the first message, and keeps only one.
    pub fn send(
        &mut self,
        now: Millis,
        message: Message<Content, u32>,
        delay: Millis,
        deduplication: String,
    ) -> (u64, bool) {
        assert!(delay == 0 || !self.messages.is_fifo, "FIFO queues delay no single message");
        assert!((0..=redrive_sim_queue::MAX_DELAY * 1000).contains(&delay), "DelaySeconds {delay} ms");
        if self.messages.is_fifo
            && let Some(first) = self.deduplication.first(now, &deduplication)
        {
            return (*first, false);
        }
        let number = self.messages.put(now, message, now + delay);
        if self.messages.is_fifo {
            self.deduplication.remember(now, deduplication, number);
        }
        (number, true)
    }

    /// Receives messages. At the limit in flight there are none, as for Lambda's long polls.
    pub fn receive(&mut self, now: Millis, at_most: usize) -> Vec<Receipt> {
        let until = now + self.messages.settings.visibility * 1000;
        let ready = self.messages.ready(at_most.min(self.messages.room()), &BTreeSet::new());
        let received = ready.into_iter().filter_map(|number| {
            let (handle, message) = self.messages.receive(now, number, until)?;
            Some(Receipt::new(handle, message))
        });
        received.collect()
    }

    /// Returns the newest receipt of each hidden message.
    pub fn hidden(&self) -> impl Iterator<Item = Receipt> {
        self.messages.in_flight().map(|(handle, message)| Receipt::new(handle, message))
    }

    /// Returns the numbers of the letters that lie here.
    pub fn whose(&self) -> impl Iterator<Item = usize> {
        self.messages.iter().map(|(_, message)| message.content.who)
    }
}
