//! The life of a world: its events, one by one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

use redrive_core::arn::Arn;
use redrive_core::batch::{BatchConfig, InstanceMemory};
use redrive_core::letter::{Letter, MARK_ATTRIBUTE, MessageAttribute, SqsMessage};
use redrive_sim_queue::SimMessage as Sending;
use redrive_testing::made_for;

use super::control::ModelControl;
use super::function::{InvocationDeath, KeptQueues, LAST_ACTION, SOURCE_RECEIVES, config, subscription_id};
use super::journal::{FactKind, IdleReason, ModelMessage, StoryJournal};
use super::queue::{ModelLetter, ModelQueue, ModelReceipt};
use super::state::{ModelEvent, ReceivedBatch, Simulation, message};
use super::world::{ArrivalPlan, DLQ, ModelWorld, REQUEUE};
use super::{ModelMillis, SeededRandom, at, seconds};

const SOURCE: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-worker";

/// The largest number of events in a story. A letter that circulates for ever exceeds it.
const MAX_STORY_EVENTS: u64 = 300_000;

/// The number of processes that can replace those that die.
const SPARE_PROCESSES: usize = 8;

/// The result of living through a world.
#[derive(Debug)]
pub struct ModelStory {
    pub journal: StoryJournal,
    pub dlq: ModelQueue,
    pub requeue: Option<ModelQueue>,
    pub end: ModelMillis,
    pub peak_busy: usize,
    pub peak_waiting: usize,
    /// The ids of the letters, as the function knows them.
    pub ids: Vec<String>,
}

impl ModelWorld {
    /// Lives until every queue is empty.
    pub fn live(&self) -> ModelStory {
        self.run(SPARE_PROCESSES, false)
    }

    /// Lives until every queue is empty, and keeps only counts.
    pub fn count(&self) -> ModelStory {
        self.run(0, true)
    }

    fn run(&self, spare: usize, counts_only: bool) -> ModelStory {
        let requeue: Option<Arn> = self.requeue.as_ref().map(|_| self.arn(REQUEUE).parse().unwrap());
        let config = config(self, requeue);
        let mut memories: Vec<_> =
            (0..self.processes() + spare).map(|_| InstanceMemory::new(&config)).collect();
        Simulation::new(self, &config, &mut memories, counts_only).run()
    }

    /// Returns the number of processes that may run at once: each of two mappings may run as many.
    fn processes(&self) -> usize {
        let mappings = if self.requeue.is_some() { 2 } else { 1 };
        usize::try_from(self.mapping.instances).unwrap() * mappings
    }
}

impl<'w> Simulation<'w> {
    fn new(
        world: &'w ModelWorld,
        config: &'w BatchConfig,
        memories: &'w mut [InstanceMemory],
        counts_only: bool,
    ) -> Self {
        let queue = |arn: &str, settings| ModelQueue::new(&world.arn(arn), world.fifo, settings);
        let processes = world.processes();
        let mut simulation = Self {
            world,
            config,
            kept: vec![KeptQueues::default(); memories.len()],
            ages: vec![<_>::default(); memories.len()],
            memories: memories.iter_mut().map(Some).collect(),
            spare: processes,
            runs: BTreeMap::new(),
            now: 0,
            chance: SeededRandom::new(world.seed),
            agenda: BinaryHeap::new(),
            events: BTreeMap::new(),
            order: 0,
            dlq: queue(DLQ, world.dlq.clone()),
            requeue: world.requeue.clone().map(|settings| queue(REQUEUE, settings)),
            polling: [false; 2],
            running: [0; 2],
            free: (0..processes).collect(),
            busy: 0,
            control: ModelControl::default(),
            taken: (0, 0),
            journal: StoryJournal { counts_only, ..StoryJournal::default() },
            peak_busy: 0,
            peak_waiting: 0,
            ids: vec![String::new(); world.letters.len()],
            shortcut: counts_only,
        };
        for (who, plan) in world.letters.iter().enumerate() {
            simulation.schedule(plan.arrives, ModelEvent::Arrive(who));
        }
        for when in &world.operator.wakes {
            simulation.schedule(*when, ModelEvent::WakeAll);
        }
        simulation
    }

    fn run(mut self) -> ModelStory {
        while let Some(Reverse((now, order))) = self.agenda.peek().copied() {
            if self.expire(now) {
                continue;
            }
            self.agenda.pop();
            assert!(self.shortcut || self.order < MAX_STORY_EVENTS, "letters circulate for ever");
            if self.world.until.is_some_and(|until| now > until) {
                break;
            }
            (self.now, self.journal.run) = (now, 0);
            let Some(event) = self.events.remove(&order) else { continue };
            match event {
                ModelEvent::Arrive(who) => self.arrive(who),
                ModelEvent::Show { requeue } => self.show(requeue),
                ModelEvent::Poll { requeue } => self.poll(requeue),
                ModelEvent::Begin(received) => self.begin(received),
                ModelEvent::Answer(coming) => self.answered(coming),
                ModelEvent::Turn(run) => self.turn_comes(run),
                ModelEvent::WakeAll => self.wake_all(),
                ModelEvent::ComeBack { requeue, receipt } => self.wake(requeue, &receipt, FactKind::CameBack),
            }
        }
        ModelStory {
            journal: self.journal,
            dlq: self.dlq,
            requeue: self.requeue,
            end: self.now,
            peak_busy: self.peak_busy,
            peak_waiting: self.peak_waiting,
            ids: self.ids,
        }
    }

    /// Drops the next message that SQS has dropped by now, and returns whether there was one: its group is polled
    /// before the next message is dropped.
    fn expire(&mut self, now: ModelMillis) -> bool {
        let ends = [Some(&self.dlq), self.requeue.as_ref()].map(|queue| queue?.messages.next_expiry());
        let Some(first) = ends.into_iter().flatten().min().filter(|first| *first <= now) else {
            return false;
        };
        let requeue = ends[0] != Some(first);
        let Some((expires, number, message)) = self.queue(requeue).messages.expire(first) else {
            return false;
        };
        self.journal.note(message.content.who, ModelMessage { requeue, number }, expires, FactKind::Lost);
        self.now = self.now.max(expires);
        self.want_poll(requeue);
        true
    }

    fn arrive(&mut self, who: usize) {
        let plan = &self.world.letters[who];
        let letter = Rc::new(self.letter(who, plan));
        let moved = plan.moved;
        self.ids[who] = letter.id.to_string();
        let (now, sent) = (self.now, crate::model::since_begin(letter.sqs.sent));
        let mut message = Sending::new(ModelLetter { who, letter }, plan.group, sent);
        let number = if let Some(moved) = moved {
            message.receives = SOURCE_RECEIVES;
            message.first_received = moved.keeps_first_receive.then_some(sent);
            self.dlq.messages.take_moved(now, message)
        } else {
            self.dlq.messages.put(now, message, now)
        };
        self.sent(who, ModelMessage { requeue: false, number }, None, now);
    }

    fn letter(&self, who: usize, plan: &ArrivalPlan) -> Letter {
        let mut system = BTreeMap::new();
        if self.world.fifo {
            system.insert("MessageGroupId".to_owned(), format!("group-{}", plan.group));
        }
        if plan.moved.is_some() {
            system.insert("DeadLetterQueueSourceArn".to_owned(), SOURCE.to_owned());
        }
        let mut attributes = BTreeMap::new();
        if plan.spent > 0 {
            let first = at(self.now).as_millisecond();
            let id = format!("letter-{who}");
            let message = if plan.moved.is_some() { format!("{who}") } else { format!("hello {who}") };
            let mark = made_for(&message, redrive_testing::mark(plan.spent, &id, first));
            attributes.insert(MARK_ATTRIBUTE.to_owned(), MessageAttribute::string(mark.to_string()));
        }
        // When SQS moves a message, a standard queue's message keeps its time, a FIFO queue's does not.
        let age = plan.moved.filter(|_| !self.world.fifo).map_or(0, |moved| moved.age);
        let body = if plan.moved.is_some() { format!("{who}") } else { envelope(who, plan.to) };
        Letter::parse(SqsMessage {
            message_id: format!("message-{who}"),
            receipt_handle: "handle".to_owned(),
            body,
            queue: self.dlq.arn.clone(),
            sent: at(self.now - age),
            first_received: at(self.now),
            receive_count: 1,
            system,
            attributes,
            unread: None,
        })
    }

    /// Handles a message that may become visible now.
    fn show(&mut self, requeue: bool) {
        let now = self.now;
        if self.queue(requeue).messages.settle(now) {
            self.want_poll(requeue);
        }
    }

    /// Shows all waiting letters, as an operator does.
    fn wake_all(&mut self) {
        let by_list = self.world.operator.by_list;
        let messages = if by_list { self.control.to_wake(self.now) } else { self.hidden() };
        for (message, receipt) in messages {
            self.wake(message.requeue, &receipt, FactKind::Woken);
        }
    }

    /// Shows a message, if its receipt is still valid.
    pub(super) fn wake(&mut self, requeue: bool, receipt: &ModelReceipt, what: FactKind) {
        let now = self.now;
        if self.queue(requeue).messages.change(now, receipt.handle, 0) == Ok(true) {
            self.journal.note(receipt.who, message(requeue, receipt), now, what);
            self.schedule(now, ModelEvent::Show { requeue });
        }
    }

    /// Returns the hidden messages. Those that are being handled are among them only if stale handles can
    /// show them.
    fn hidden(&self) -> Vec<(ModelMessage, ModelReceipt)> {
        let under_way = |message: ModelMessage| {
            let runs = self.runs.values().map(|run| (run.requeue, &run.receipts));
            let waiting = self.events.values().filter_map(|event| match event {
                ModelEvent::Begin(received) => Some((received.requeue, &received.receipts)),
                _ => None,
            });
            let mut all = runs.chain(waiting).filter(|(requeue, _)| *requeue == message.requeue);
            all.any(|(_, receipts)| receipts.iter().any(|receipt| receipt.handle.number == message.number))
        };
        let of = |requeue: bool, queue: &ModelQueue| {
            queue.hidden().map(move |receipt| (message(requeue, &receipt), receipt)).collect::<Vec<_>>()
        };
        let mut all = of(false, &self.dlq);
        all.extend(self.requeue.iter().flat_map(|queue| of(true, queue)));
        all.retain(|(message, _)| self.world.dlq.stale_shows || !under_way(*message));
        all
    }

    /// Schedules Lambda's poll, some time after a message has become visible.
    pub(super) fn want_poll(&mut self, requeue: bool) {
        if self.polling[usize::from(requeue)] || self.queue(requeue).messages.is_empty() {
            return;
        }
        self.polling[usize::from(requeue)] = true;
        let late = self.chance.within(&self.world.mapping.late);
        self.schedule(self.now + late, ModelEvent::Poll { requeue });
    }

    fn poll(&mut self, requeue: bool) {
        let mapping = &self.world.mapping;
        let off = mapping.off.iter().find(|(from, until)| (*from..*until).contains(&self.now));
        if let Some((_, until)) = off {
            self.schedule(*until, ModelEvent::Poll { requeue });
            return;
        }
        self.polling[usize::from(requeue)] = false;
        while self.running[usize::from(requeue)] < mapping.instances {
            let now = self.now;
            let queue = self.queue(requeue);
            let receipts = queue.receive(now, mapping.batch);
            if receipts.is_empty() {
                break;
            }
            let shows = now + seconds(queue.messages.settings.visibility);
            self.schedule(shows, ModelEvent::Show { requeue });
            for receipt in &receipts {
                let receives = receipt.handle.receive;
                self.journal.note(
                    receipt.who,
                    message(requeue, receipt),
                    now,
                    FactKind::Received { receives },
                );
            }
            // To a queue, observing looks the same.
            if now < self.world.observed_until || self.chance.happens(self.world.trouble.throttled) {
                self.idle(requeue, &receipts, IdleReason::Throttled);
                continue;
            }
            let Some(instance) = self.free_instance() else { break };
            self.running[usize::from(requeue)] += 1;
            self.busy += 1;
            let began = now + self.chance.within(&mapping.window);
            let received = ReceivedBatch { requeue, instance, began, death: self.death(), receipts };
            // An invocation takes this time beside its attempts.
            self.schedule(began + mapping.takes, ModelEvent::Begin(received));
        }
        self.peak_busy = self.peak_busy.max(self.busy);
    }

    /// Returns any of the idle instances: Lambda makes no promise about which it uses.
    fn free_instance(&mut self) -> Option<usize> {
        let any = self.chance.index(self.free.len())?;
        Some(self.free.swap_remove(any))
    }

    /// Returns the place where the next invocation dies.
    fn death(&mut self) -> Option<InvocationDeath> {
        if !self.chance.happens(self.world.trouble.crash) {
            return None;
        }
        let action = u32::try_from(self.chance.within(&(1..=i64::from(LAST_ACTION)))).unwrap();
        Some(InvocationDeath { action, effect: self.chance.happens(50) })
    }

    pub(super) fn idle(&mut self, requeue: bool, receipts: &[ModelReceipt], why: IdleReason) {
        for receipt in receipts {
            self.journal.note(receipt.who, message(requeue, receipt), self.now, FactKind::Idle(why));
        }
    }
}

/// Returns the envelope of a letter for this subscriber. Each of the others has a topic of its own.
fn envelope(who: usize, to: usize) -> String {
    let topic = if to == 0 { "payments".to_owned() } else { format!("payments-{to}") };
    BODY.replace("{who}", &who.to_string()).replace("{to}", &subscription_id(to)).replace("{topic}", &topic)
}

/// The envelope that SNS leaves in a dead-letter queue.
const BODY: &str = r#"{"Type":"Notification","MessageId":"m{who}","TopicArn":"arn:aws:sns:eu-central-1:123456789012:{topic}","Message":"hello {who}","Timestamp":"2026-11-01T11:59:58.351Z","UnsubscribeURL":"https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn=arn:aws:sns:eu-central-1:123456789012:{topic}:43fe80b0-b10c-4081-9e18-5bdb8f{to}"}"#;
