//! The event source mapping: it takes messages from a queue, hands them to a function in batches and deletes
//! those that the function does not return.
//!
//! A user drives it: with [`SimMapping::take`] and [`SimMapping::settle`] around the user's own runs, or with one
//! of the drivers.

mod batch;
mod driver;
mod event;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use batch::{MappingBatch, MappingOutcome};

use crate::call::{AwsService, SimCall};
use crate::clock::{SimMillis, millis};
use crate::faults::SimFault;
use crate::journal::{SimEvent, SimPayload};
use crate::lambda::{MAX_BYTES, MAX_PASSES, passed};
use crate::message::SimEntry;
use crate::sqs::{MESSAGE_OVERHEAD, ReceiveRequest, ReceivedSqsMessage};
use crate::world::SimAws;

/// The name of all mappings as callers.
const CALLER: &str = "mapping";

/// The number of batches at once that a mapping begins with, and the number that it adds in a minute while
/// there is work.
/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html>
const SCALING: (usize, usize) = (5, 300);

/// The milliseconds until a failed poll is repeated, unless the fault itself waits longer: as a disabled mapping does.
const REPOLL_DELAY: SimMillis = 1_000;

/// The settings of a mapping.
#[derive(Debug, Clone)]
pub struct MappingSettings {
    /// The queue's name.
    pub queue: String,
    /// The function's name.
    pub function: String,
    /// `BatchSize`.
    pub batch_size: usize,
    /// `MaximumBatchingWindowInSeconds`.
    pub window: Duration,
    /// `MaximumConcurrency`; 1 is a function with a reserved concurrency of one, without its throttles.
    pub concurrency: usize,
    /// `ReportBatchItemFailures`.
    pub partial: bool,
    /// The function's timeout.
    pub timeout: Duration,
    /// `RecursiveLoop: Allow`.
    pub allow_loops: bool,
    /// The function that gives a message its key. A batch gets only the first message with a key: see
    /// [`ReceiveRequest::apart`].
    pub apart: Option<fn(&SimPayload) -> Option<u64>>,
}

impl MappingSettings {
    /// Creates settings with AWS's defaults, except that partial answers are on.
    #[must_use]
    pub fn new(queue: &str, function: &str) -> Self {
        Self {
            queue: queue.to_owned(),
            function: function.to_owned(),
            batch_size: 10,
            window: Duration::ZERO,
            concurrency: 1_000,
            partial: true,
            timeout: Duration::from_mins(1),
            allow_loops: false,
            apart: None,
        }
    }

    /// Panics if Lambda refuses such a mapping.
    /// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-parameters.html>
    fn check(&self, aws: &SimAws) {
        let Self { queue, batch_size, window, concurrency, timeout, .. } = self;
        let (largest, longest) = if queue.strip_suffix(".fifo").is_some() { (10, 0) } else { (10_000, 300) };
        assert!((1..=largest).contains(batch_size), "{queue}: no batch has {batch_size} messages");
        assert!(window.as_secs() <= longest, "{queue}: no batching window has {window:?}");
        assert!(
            *batch_size <= 10 || window.as_secs() >= 1,
            "{queue}: more than 10 messages need a batching window"
        );
        assert!((1..=1_000).contains(concurrency), "{queue}: the concurrency cannot be {concurrency}");
        assert!(timeout.as_secs() <= 900, "{queue}: no function has {timeout:?}");
        let visibility = aws.act("lambda", |it, _| Some(it.sqs.queue(queue)?.messages.settings.visibility));
        let hidden = visibility.and_then(|seconds| u64::try_from(seconds).ok());
        assert!(
            hidden.is_none_or(|hidden| hidden >= timeout.as_secs()),
            "{queue}: shorter hidden than a run takes"
        );
    }
}

/// A mapping. Clones are the same mapping.
#[derive(Debug, Clone)]
pub struct SimMapping {
    aws: SimAws,
    settings: Arc<MappingSettings>,
    state: Arc<Mutex<SimMappingState>>,
}

#[derive(Debug, Default)]
struct SimMappingState {
    collected: Vec<ReceivedSqsMessage>,
    bytes: usize,
    since: SimMillis,
    running: usize,
    /// FIFO: the groups of a batch under way, which no other batch gets.
    busy: BTreeSet<String>,
    /// The time when the present work began. Idle mappings scale down.
    working_since: Option<SimMillis>,
    again: Option<SimMillis>,
}

impl SimMapping {
    /// Returns a mapping in this account.
    ///
    /// # Panics
    ///
    /// If Lambda refuses the settings.
    #[must_use]
    pub fn new(aws: &SimAws, settings: MappingSettings) -> Self {
        settings.check(aws);
        Self { aws: aws.clone(), settings: Arc::new(settings), state: Arc::default() }
    }

    /// Takes a batch for a run of the function, if there is one now. The messages are hidden from their
    /// receive on, which may be long before the run if there is a batching window.
    #[must_use]
    pub fn take(&self) -> Option<MappingBatch> {
        let settings = &*self.settings;
        let aws = &self.aws;
        aws.advance();
        let now = aws.clock().millis();
        let mut state = self.state();
        if state.running >= self.most(now, &state) {
            return None;
        }
        self.collect(now, &mut state);
        if state.collected.is_empty() {
            if state.running == 0 {
                state.working_since = None;
            }
            return None;
        }
        let is_full = state.collected.len() >= settings.batch_size || state.bytes >= MAX_BYTES;
        if !is_full && now < state.since + millis(settings.window) {
            return None;
        }
        state.working_since.get_or_insert(now);
        let messages = std::mem::take(&mut state.collected);
        state.bytes = 0;
        drop(state);
        let batch = self.begin(now, messages)?;
        self.state().running += 1;
        Some(batch)
    }

    /// Ends a run: deletes the messages that the function has not returned.
    pub fn settle(&self, batch: &MappingBatch, outcome: &MappingOutcome) {
        let kept = batch.kept(outcome, self.settings.partial);
        let all = 0..batch.messages.len();
        let (kept, failed) = match kept {
            Ok(kept) => (kept, None),
            Err(why) => (all.clone().collect(), Some(why)),
        };
        let id = |index: &usize| Arc::clone(&batch.messages[*index].id);
        let event = SimEvent::BatchEnded { queue: self.queue(), kept: kept.iter().map(id).collect(), failed };
        self.aws.act(CALLER, |_, cx| cx.log(event));
        let deleted: Vec<_> = all.filter(|index| !kept.contains(index)).collect();
        for ten in deleted.chunks(10) {
            self.delete(batch, ten);
        }
        let mut state = self.state();
        state.running -= 1;
        state.release(&batch.messages);
    }

    /// Returns the time when the mapping has work again, unless something changes before.
    #[must_use]
    fn wake(&self) -> Option<SimMillis> {
        let now = self.aws.clock().millis();
        let state = self.state();
        if state.running >= self.most(now, &state) {
            // Only the end of a run makes room, or the next step of scaling.
            let since = state.working_since.filter(|_| state.running < self.settings.concurrency)?;
            return Some(now + 60_000 - (now - since) % 60_000);
        }
        let window = (!state.collected.is_empty()).then(|| state.since + millis(self.settings.window));
        let again = state.again;
        drop(state);
        let shows = |services: &mut crate::Services, _: &mut crate::SimContext<'_>| {
            let queue = services.sqs.queue(&self.settings.queue);
            let next = queue.and_then(crate::sqs::SimQueue::next_visible);
            // What shows before the next poll has to wait for it.
            let next = next.map(|at| at.max(again.unwrap_or(at)));
            next.into_iter().chain(services.next_due()).min()
        };
        let shows = self.aws.locked(CALLER, now, shows);
        window.into_iter().chain(again).chain(shows).min()
    }

    /// Returns how many batches may run at once.
    fn most(&self, now: SimMillis, state: &SimMappingState) -> usize {
        let minutes = state.working_since.map_or(0, |since| (now - since) / 60_000);
        let scaled = SCALING.0 + SCALING.1 * usize::try_from(minutes).unwrap_or(0);
        scaled.min(self.settings.concurrency)
    }

    /// Receives the messages that fit into the next batch.
    fn collect(&self, now: SimMillis, state: &mut SimMappingState) {
        let settings = &*self.settings;
        let room = settings.batch_size.saturating_sub(state.collected.len());
        if room == 0 || state.again.is_some_and(|again| now < again) {
            return;
        }
        state.again = None;
        let ready = |services: &mut crate::Services, cx: &mut crate::SimContext<'_>| {
            services.sqs.can_receive(cx, &settings.queue, &state.busy)
        };
        if !self.aws.locked(CALLER, now, ready) {
            return;
        }
        let call = SimCall::new(&CALLER.into(), AwsService::Sqs, "ReceiveMessage", &settings.queue);
        let (wait, fault) = self.aws.fault(&call).split();
        if fault != SimFault::Pass {
            state.again = Some(now + millis(wait).max(REPOLL_DELAY));
            return;
        }
        let max_bytes = MAX_BYTES.saturating_sub(state.bytes);
        let receive = ReceiveRequest {
            at_most: room,
            max_bytes,
            apart: settings.apart,
            is_long: true,
            ..ReceiveRequest::default()
        };
        let more = self.aws.locked(CALLER, now, |services, cx| {
            services.sqs.poll(cx, &settings.queue, receive, &state.busy, &state.collected)
        });
        if state.collected.is_empty() {
            state.since = now;
        }
        state.bytes += more.iter().map(|it| it.payload.size() + MESSAGE_OVERHEAD).sum::<usize>();
        if settings.queue.strip_suffix(".fifo").is_some() {
            state.busy.extend(more.iter().filter_map(|it| it.payload.group.clone()));
        }
        state.collected.extend(more);
    }

    /// Begins a run, unless Lambda throttles it or stops a loop. In these cases the messages stay hidden and
    /// the receive counts.
    fn begin(&self, now: SimMillis, messages: Vec<ReceivedSqsMessage>) -> Option<MappingBatch> {
        let settings = &*self.settings;
        let call = SimCall::new(&CALLER.into(), AwsService::Lambda, "Invoke", &settings.function);
        let fault = self.aws.fault(&call).split().1;
        let mut stopped = Vec::new();
        let batch = self.aws.locked(CALLER, now, |_, cx| {
            let mut trace: Option<(String, u32)> = None;
            let mut taken = Vec::new();
            for message in messages {
                let id = Arc::clone(&message.id);
                let came = passed(message.payload.trace.as_deref(), &settings.function, || id.to_string());
                if came.1 > MAX_PASSES && !settings.allow_loops {
                    cx.log(SimEvent::LoopStopped { function: settings.function.as_str().into() });
                    stopped.push(message);
                    continue;
                }
                if trace.as_ref().is_none_or(|(_, count)| *count < came.1) {
                    trace = Some(came);
                }
                taken.push(message);
            }
            let (trace, _) = trace?;
            let ids: Vec<_> = taken.iter().map(|message| Arc::clone(&message.id)).collect();
            cx.log(SimEvent::Batch { queue: self.queue(), ids: ids.clone() });
            if fault != SimFault::Pass {
                let failed = Some("throttled".to_owned());
                cx.log(SimEvent::BatchEnded { queue: self.queue(), kept: ids, failed });
                stopped.extend(taken);
                return None;
            }
            Some(MappingBatch::new(&settings.queue, taken, cx.id(), trace))
        });
        self.state().release(&stopped);
        let batch = batch?;
        Some(MappingBatch { deadline: now + millis(settings.timeout), ..batch })
    }

    /// Deletes up to ten messages. The faults see it as a call of the caller `mapping`.
    fn delete(&self, batch: &MappingBatch, indexes: &[usize]) {
        let mut call =
            SimCall::new(&CALLER.into(), AwsService::Sqs, "DeleteMessageBatch", &self.settings.queue);
        for (number, index) in indexes.iter().enumerate() {
            let handle = Some(batch.messages[*index].handle.to_string());
            call.entries.push(SimEntry { id: number.to_string(), handle, ..SimEntry::default() });
        }
        let failing = match self.aws.fault(&call).split().1 {
            SimFault::Pass | SimFault::HangAfter | SimFault::ResetAfter | SimFault::BreakOff(_) => Vec::new(),
            SimFault::Entries(failing) => failing,
            _ => return,
        };
        self.aws.act(CALLER, |services, cx| {
            cx.failing = failing;
            // A message that is not deleted becomes visible again.
            let _ = services.sqs.delete_message_batch(cx, &self.settings.queue, &call.entries);
        });
    }

    fn queue(&self) -> Arc<str> {
        self.settings.queue.as_str().into()
    }

    fn state(&self) -> MutexGuard<'_, SimMappingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SimMappingState {
    fn release(&mut self, messages: &[ReceivedSqsMessage]) {
        for group in messages.iter().filter_map(|message| message.payload.group.as_ref()) {
            self.busy.remove(group);
        }
    }
}
