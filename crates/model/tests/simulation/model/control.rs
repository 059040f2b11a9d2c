//! The control objects: the list of waiting letters, and the document of recoveries.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use redrive_core::arn::Arn;
use redrive_core::batch::{DocumentRead, DocumentWrite, WaitingKeys};
use redrive_core::waiting::{WaitingKey, WaitingLetter, waiting_prefix};

use super::journal::ModelMessage;
use super::queue::ModelReceipt;
use super::state::message;
use super::{MINUTE, ModelMillis, since_begin};

/// The number of keys in a page of a listing.
const PAGE: usize = 1_000;

#[derive(Debug, Default)]
pub struct ModelControl {
    /// The objects of the list, by queue and key.
    objects: BTreeMap<(bool, String), Vec<WaitingLetter>>,
    /// What each receipt handle stands for.
    receipts: Vec<(ModelMessage, ModelReceipt)>,
    /// The newest line of each message: its receive, its receipt handle, and the time when the letter is due.
    newest: HashMap<ModelMessage, (u32, usize, ModelMillis)>,
    recoveries: Option<Vec<u8>>,
    /// The number of writes, which is the tag of the document.
    writes: usize,
}

impl ModelControl {
    /// Takes note of receipts, and returns the receipt handle of the first. Those of the others follow.
    pub fn receive(&mut self, requeue: bool, receipts: &[ModelReceipt]) -> usize {
        let first = self.receipts.len();
        self.receipts.extend(receipts.iter().map(|receipt| (message(requeue, receipt), receipt.clone())));
        first
    }

    /// Writes lines.
    pub fn list(&mut self, requeue: bool, queue: &Arn, at: Timestamp, lines: Vec<WaitingLetter>) {
        for line in &lines {
            let (message, receipt) = self.receipt(&line.receipt_handle);
            let (message, receives) = (*message, receipt.handle.receive);
            let newest = self.newest.entry(message).or_insert((0, 0, 0));
            if receives >= newest.0 {
                let handle = line.receipt_handle.parse().unwrap();
                *newest = (receives, handle, since_begin(line.due));
            }
        }
        let request = format!("request-{:08}", self.objects.len());
        let key = WaitingKey::of(&lines).key("", queue, at, &request);
        let key = key.strip_prefix(&waiting_prefix("", queue)).unwrap().to_owned();
        self.objects.insert((requeue, key), lines);
    }

    /// Returns what a receipt handle stands for.
    pub fn receipt(&self, handle: &str) -> &(ModelMessage, ModelReceipt) {
        &self.receipts[handle.parse::<usize>().unwrap()]
    }

    pub fn keys(&self, requeue: bool, after: Option<String>) -> WaitingKeys {
        let after = (requeue, after.unwrap_or_default());
        let range = self.objects.range((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded));
        let mut of_queue =
            range.take_while(|((other, _), _)| *other == requeue).map(|((_, key), _)| key.clone());
        let keys: Vec<_> = of_queue.by_ref().take(PAGE).collect();
        WaitingKeys { last: keys.last().cloned(), keys, is_cut: of_queue.next().is_some() }
    }

    pub fn lines(&self, requeue: bool, keys: &[String]) -> Vec<WaitingLetter> {
        let object = |key: &String| self.objects.get(&(requeue, key.clone())).cloned().unwrap_or_default();
        keys.iter().flat_map(object).collect()
    }

    pub fn read(&self, unless: Option<&str>) -> DocumentRead {
        let tag = self.writes.to_string();
        match &self.recoveries {
            None => DocumentRead::None,
            Some(_) if unless == Some(tag.as_str()) => DocumentRead::NotModified,
            Some(json) => DocumentRead::Document { json: json.clone(), tag: Some(tag) },
        }
    }

    pub fn write(&mut self, json: Vec<u8>, replaces: Option<&str>) -> DocumentWrite {
        let tag = self.recoveries.as_ref().map(|_| self.writes.to_string());
        if replaces != tag.as_deref() {
            return DocumentWrite::Conflict;
        }
        self.writes += 1;
        self.recoveries = Some(json);
        DocumentWrite::Written { tag: Some(self.writes.to_string()) }
    }

    /// Returns the messages that an operator wakes, without those that are due soon anyway.
    pub fn to_wake(&self, now: ModelMillis) -> Vec<(ModelMessage, ModelReceipt)> {
        let later = self.newest.values().filter(|(_, _, due)| *due > now + MINUTE);
        let mut all: Vec<_> = later.map(|(_, handle, _)| self.receipts[*handle].clone()).collect();
        all.sort_unstable_by_key(|(message, _)| *message);
        all
    }
}
