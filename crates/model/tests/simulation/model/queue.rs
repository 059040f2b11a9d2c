//! A queue of letters, whose messages live like those of every queue in `redrive-sim`.

use std::collections::BTreeSet;
use std::rc::Rc;

use redrive_core::arn::Arn;
use redrive_core::letter::Letter;
use redrive_sim_queue::{Deduplication, QueueSettings, SimMessage, SimMessages};

use super::{ModelMillis, at};

/// The content of a message.
#[derive(Debug, Clone)]
pub struct ModelLetter {
    /// The number of its letter in the world.
    pub who: usize,
    pub letter: Rc<Letter>,
}

#[derive(Debug)]
pub struct ModelQueue {
    pub arn: Arn,
    pub messages: SimMessages<ModelLetter, u32>,
    deduplication: Deduplication<u64>,
}

/// A received message.
#[derive(Debug, Clone)]
pub struct ModelReceipt {
    pub handle: redrive_sim_queue::SimReceipt,
    pub who: usize,
    pub group: u32,
    pub first_received: ModelMillis,
    pub letter: Rc<Letter>,
}

impl ModelReceipt {
    fn new(handle: redrive_sim_queue::SimReceipt, message: &SimMessage<ModelLetter, u32>) -> Self {
        let ModelLetter { who, letter } = message.content.clone();
        let first_received = message.first_received.unwrap_or(message.received);
        Self { handle, who, group: message.group, first_received, letter }
    }

    /// Returns the letter as the function gets it.
    pub fn letter(&self, handle: usize) -> Letter {
        let mut letter = Letter::clone(&self.letter);
        letter.sqs.receipt_handle = handle.to_string();
        letter.sqs.receive_count = self.handle.receive;
        letter.sqs.first_received = at(self.first_received);
        letter
    }
}

impl ModelQueue {
    pub fn new(arn: &str, fifo: bool, settings: QueueSettings) -> Self {
        Self {
            arn: arn.parse().unwrap(),
            messages: SimMessages::new(fifo, settings),
            deduplication: Deduplication::default(),
        }
    }

    /// Accepts a message, with its delay. Returns its number, and whether it is a new one. A FIFO queue
    /// answers a repetition like the first message, and keeps only one.
    pub fn send(
        &mut self,
        now: ModelMillis,
        message: SimMessage<ModelLetter, u32>,
        delay: ModelMillis,
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
    pub fn receive(&mut self, now: ModelMillis, at_most: usize) -> Vec<ModelReceipt> {
        let until = now + self.messages.settings.visibility * 1000;
        let ready = self.messages.ready(at_most.min(self.messages.room()), &BTreeSet::new());
        let received = ready.into_iter().filter_map(|number| {
            let (handle, message) = self.messages.receive(now, number, until)?;
            Some(ModelReceipt::new(handle, message))
        });
        received.collect()
    }

    /// Returns the newest receipt of each hidden message.
    pub fn hidden(&self) -> impl Iterator<Item = ModelReceipt> {
        self.messages.in_flight().map(|(handle, message)| ModelReceipt::new(handle, message))
    }

    /// Returns the numbers of the letters that lie here.
    pub fn whose(&self) -> impl Iterator<Item = usize> {
        self.messages.iter().map(|(_, message)| message.content.who)
    }
}
