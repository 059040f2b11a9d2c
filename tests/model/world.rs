//! A queue, a requeue, Lambda's mappings, a subscriber, and trouble; the events one by one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::RangeInclusive;
use std::rc::Rc;

use serde_json::json;
use sns_redrive::letter::{Attribute, Letter, MARK_ATTRIBUTE, Origins, SqsMessage};
use sns_redrive::policy::{Facts, Jitter, Policy, Schedule};

use super::function::{
    Case, Disposition, Instance, Reach, Run, SOURCE_RECEIVES, Settings, Subscriber, Trouble,
};
use super::journal::{Idle, Journal, Message, What};
use super::queue::{self, Queue, Sending, Timer};
use super::{Chance, Millis, at, seconds};

const DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:orders-dlq";
const REQUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:orders-requeue";
const SOURCE: &str = "arn:aws:sqs:eu-central-1:123456789012:orders-worker";

/// Nothing lives through more events than this; a letter that circulates for ever shows so.
const MANY: u64 = 300_000;

/// A letter that is going to arrive.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub arrives: Millis,
    pub group: u32,
    /// No attempt ever succeeds.
    pub poison: bool,
    /// Retries behind it by its mark.
    pub spent: u32,
    pub moved: Option<Moved>,
}

/// What is left of a letter's time in the queue that SQS moved it from.
#[derive(Debug, Clone, Copy, Default)]
pub struct Moved {
    /// How long it lay there.
    pub age: Millis,
    /// SQS keeps the time of the first receive.
    pub keeps_first_receive: bool,
}

/// Lambda's mapping of a queue.
#[derive(Debug, Clone)]
pub struct Mapping {
    pub batch: usize,
    /// Received for so long before the function sees it.
    pub window: RangeInclusive<Millis>,
    /// Visible for so long before it is received.
    pub late: RangeInclusive<Millis>,
    /// Most invocations at once.
    pub instances: u32,
    /// When the mapping is off: from, until.
    pub off: Vec<(Millis, Millis)>,
    /// How long an invocation takes beside its attempts.
    pub takes: Millis,
}

#[derive(Debug, Clone)]
pub struct World {
    pub seed: u64,
    pub schedule: Schedule,
    pub jitter: f64,
    pub ceiling: u64,
    pub dlq: queue::Settings,
    pub requeue: Option<queue::Settings>,
    /// What the function believes of the limit in flight.
    pub believed_limit: u64,
    pub step_aside: bool,
    pub letters: Vec<Plan>,
    pub subscriber: Subscriber,
    pub mapping: Mapping,
    pub trouble: Trouble,
    /// Nothing is looked at after this.
    pub until: Option<Millis>,
}

/// What came of a world.
#[derive(Debug)]
pub struct Story {
    pub journal: Journal,
    pub dlq: Queue,
    pub requeue: Option<Queue>,
    pub end: Millis,
    pub peak_busy: usize,
    pub peak_waiting: usize,
    /// The ids of the letters, as the function knows them.
    pub ids: Vec<String>,
}

#[derive(Debug)]
enum Event {
    Arrive(usize),
    Wake { requeue: bool, timer: Timer },
    Poll { requeue: bool },
    Begin(Batch),
    End(Batch),
}

#[derive(Debug)]
struct Batch {
    requeue: bool,
    instance: usize,
    began: Millis,
    reach: Reach,
    cases: Vec<Case>,
}

pub struct Simulation<'w> {
    world: &'w World,
    settings: Settings,
    now: Millis,
    chance: Chance,
    agenda: BinaryHeap<Reverse<(Millis, u64)>>,
    events: BTreeMap<u64, Event>,
    order: u64,
    dlq: Queue,
    requeue: Option<Queue>,
    polling: [bool; 2],
    running: [u32; 2],
    instances: Vec<Instance>,
    free: Vec<usize>,
    journal: Journal,
    peak_busy: usize,
    peak_waiting: usize,
    ids: Vec<String>,
    /// Moved letters are made from their letter instead of being read from the message again.
    shortcut: bool,
}

impl World {
    pub fn policy(&self) -> Policy {
        let s = &self.schedule;
        let document = json!({ "default": { "jitter": self.jitter, "deliveryPolicy": { "healthyRetryPolicy": {
            "minDelayTarget": s.min, "maxDelayTarget": s.max, "numRetries": s.retries,
            "numNoDelayRetries": s.no_delay, "numMinDelayRetries": s.min_delay,
            "numMaxDelayRetries": s.max_delay, "backoffFunction": s.backoff.name() } } } });
        Policy::parse(&document.to_string()).unwrap()
    }

    /// The wait before retry `k` of a letter.
    pub fn wait(&self, id: &str, k: u32) -> Millis {
        seconds(self.schedule.wait(k, &Jitter::new(self.jitter, id)).unwrap())
    }

    /// Lives until every queue is empty.
    pub fn live(&self) -> Story {
        Simulation::new(self, false).run()
    }

    /// The same, with nothing written down but counts.
    pub fn count(&self) -> Story {
        Simulation::new(self, true).run()
    }
}

impl<'w> Simulation<'w> {
    fn new(world: &'w World, counts_only: bool) -> Self {
        let settings = Settings {
            policy: world.policy(),
            ceiling: world.ceiling,
            in_flight_limit: world.believed_limit,
            instances: world.mapping.instances,
            requeue: world.requeue.as_ref().map(|requeue| requeue.retention),
            step_aside: world.step_aside,
        };
        let suffix = if world.dlq.fifo { ".fifo" } else { "" };
        let queue = |arn: &str, settings| Queue::new(&format!("{arn}{suffix}"), settings);
        let processes = world.mapping.instances * if world.requeue.is_some() { 2 } else { 1 };
        let mut simulation = Self {
            world,
            now: 0,
            chance: Chance::new(world.seed),
            agenda: BinaryHeap::new(),
            events: BTreeMap::new(),
            order: 0,
            dlq: queue(DLQ, world.dlq.clone()),
            requeue: world.requeue.clone().map(|settings| queue(REQUEUE, settings)),
            polling: [false; 2],
            running: [0; 2],
            instances: vec![Instance::new(&settings); processes as usize],
            free: (0..processes as usize).collect(),
            settings,
            journal: Journal { counts_only, ..Journal::default() },
            peak_busy: 0,
            peak_waiting: 0,
            ids: vec![String::new(); world.letters.len()],
            shortcut: counts_only,
        };
        for (who, plan) in world.letters.iter().enumerate() {
            simulation.schedule(plan.arrives, Event::Arrive(who));
        }
        simulation
    }

    fn run(mut self) -> Story {
        while let Some(Reverse((now, order))) = self.agenda.pop() {
            assert!(self.shortcut || self.order < MANY, "letters circulate for ever");
            if self.world.until.is_some_and(|until| now > until) {
                break;
            }
            self.expire(now);
            self.now = now;
            let Some(event) = self.events.remove(&order) else { continue };
            match event {
                Event::Arrive(who) => self.arrive(who),
                Event::Wake { requeue, timer } => self.wake(requeue, timer),
                Event::Poll { requeue } => self.poll(requeue),
                Event::Begin(batch) => self.begin(batch),
                Event::End(batch) => self.end(batch),
            }
        }
        Story {
            journal: self.journal,
            dlq: self.dlq,
            requeue: self.requeue,
            end: self.now,
            peak_busy: self.peak_busy,
            peak_waiting: self.peak_waiting,
            ids: self.ids,
        }
    }

    fn schedule(&mut self, when: Millis, event: Event) {
        self.order += 1;
        self.agenda.push(Reverse((when, self.order)));
        self.events.insert(self.order, event);
    }

    fn queue(&mut self, requeue: bool) -> &mut Queue {
        match &mut self.requeue {
            Some(queue) if requeue => queue,
            _ => &mut self.dlq,
        }
    }

    /// Drops what SQS would have dropped by now.
    fn expire(&mut self, now: Millis) {
        for requeue in [false, true] {
            if requeue && self.requeue.is_none() {
                continue;
            }
            while let Some(expires) = self.queue(requeue).next_expiry().filter(|expires| *expires <= now) {
                if let Some((number, who)) = self.queue(requeue).expire() {
                    self.journal.note(who, Message { requeue, number }, expires, What::Lost);
                    self.now = self.now.max(expires);
                    self.want_poll(requeue);
                }
            }
        }
    }

    fn arrive(&mut self, who: usize) {
        let plan = &self.world.letters[who];
        let letter = Rc::new(self.letter(who, plan));
        let moved = plan.moved;
        self.ids[who] = letter.id.to_string();
        let sent = crate::model::since_begin(letter.sqs.sent);
        let sending = Sending {
            who,
            group: plan.group,
            letter,
            delay: 0,
            receives: if moved.is_some() { SOURCE_RECEIVES } else { 0 },
            first_received: moved.filter(|moved| moved.keeps_first_receive).map(|_| sent),
            deduplication: None,
        };
        self.send(false, sending, None);
    }

    fn send(&mut self, requeue: bool, sending: Sending, due: Option<Millis>) -> u64 {
        let (now, who) = (self.now, sending.who);
        let (number, timer) = self.queue(requeue).send(now, sending);
        if let Some(timer) = timer {
            self.schedule(timer.at, Event::Wake { requeue, timer });
            self.journal.note(who, Message { requeue, number }, now, What::Sent { due });
        }
        let waiting = self.dlq.len() + self.requeue.as_ref().map_or(0, Queue::len);
        self.peak_waiting = self.peak_waiting.max(waiting);
        number
    }

    fn letter(&self, who: usize, plan: &Plan) -> Letter {
        let mut system = BTreeMap::new();
        if self.dlq.settings.fifo {
            system.insert("MessageGroupId".to_owned(), format!("group-{}", plan.group));
        }
        if plan.moved.is_some() {
            system.insert("DeadLetterQueueSourceArn".to_owned(), SOURCE.to_owned());
        }
        let mut attributes = BTreeMap::new();
        if plan.spent > 0 {
            let first = at(self.now).as_millisecond();
            let id = format!("letter-{who}");
            let mark = json!({ "v": 1, "spent": plan.spent, "id": id, "first": first, "gen": 0 });
            attributes.insert(MARK_ATTRIBUTE.to_owned(), Attribute::string(mark.to_string()));
        }
        // A standard queue's message keeps its time when SQS moves it, a FIFO queue's does not.
        let age = plan.moved.filter(|_| !self.dlq.settings.fifo).map_or(0, |moved| moved.age);
        let body =
            if plan.moved.is_some() { format!("{who}") } else { BODY.replace("{who}", &who.to_string()) };
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
        })
    }

    fn wake(&mut self, requeue: bool, timer: Timer) {
        let order = i64::try_from(self.chance.next() >> 16).unwrap();
        if self.queue(requeue).show(timer, order) {
            self.want_poll(requeue);
        }
    }

    /// Lambda polls some time after a message has become visible.
    fn want_poll(&mut self, requeue: bool) {
        if self.polling[usize::from(requeue)] || self.queue(requeue).is_empty() {
            return;
        }
        self.polling[usize::from(requeue)] = true;
        let late = self.chance.within(&self.world.mapping.late);
        self.schedule(self.now + late, Event::Poll { requeue });
    }

    fn poll(&mut self, requeue: bool) {
        let mapping = &self.world.mapping;
        let off = mapping.off.iter().find(|(from, until)| (*from..*until).contains(&self.now));
        if let Some((_, until)) = off {
            self.schedule(*until, Event::Poll { requeue });
            return;
        }
        self.polling[usize::from(requeue)] = false;
        while self.running[usize::from(requeue)] < mapping.instances {
            let now = self.now;
            let (receipts, timers) = self.queue(requeue).receive(now, mapping.batch);
            if receipts.is_empty() {
                break;
            }
            for timer in timers {
                self.schedule(timer.at, Event::Wake { requeue, timer });
            }
            let cases: Vec<_> = receipts.into_iter().map(|receipt| Case::new(receipt, requeue)).collect();
            for case in &cases {
                let receives = case.receipt.letter.sqs.receive_count;
                self.journal.note(case.receipt.who, case.message, now, What::Received { receives });
            }
            if self.chance.happens(self.world.trouble.throttled) {
                self.idle(&cases, now, Idle::Throttled);
                continue;
            }
            let Some(instance) = self.free_instance() else { break };
            self.running[usize::from(requeue)] += 1;
            let began = now + self.chance.within(&mapping.window);
            let batch = Batch { requeue, instance, began, reach: self.reach(), cases };
            self.schedule(began, Event::Begin(batch));
        }
        self.peak_busy = self.peak_busy.max(self.instances.len() - self.free.len());
    }

    /// Any of the instances that do nothing: Lambda makes no promise about which.
    fn free_instance(&mut self) -> Option<usize> {
        let any = self.chance.index(self.free.len())?;
        Some(self.free.swap_remove(any))
    }

    /// How far the next invocation gets.
    fn reach(&mut self) -> Reach {
        if !self.chance.happens(self.world.trouble.crash) {
            return Reach::Answered;
        }
        *self.chance.pick(&[Reach::Nothing, Reach::Delivered, Reach::Moved, Reach::Hidden])
    }

    fn idle(&mut self, cases: &[Case], now: Millis, why: Idle) {
        for case in cases {
            self.journal.note(case.receipt.who, case.message, now, What::Idle(why));
        }
    }

    fn begin(&mut self, mut batch: Batch) {
        let mut end = self.now;
        if batch.reach == Reach::Nothing {
            self.idle(&batch.cases, self.now, Idle::Crashed);
        } else {
            let retention = self.queue(batch.requeue).settings.retention;
            let facts = Facts { retention, ceiling: self.world.ceiling, ..Facts::default() };
            end = self.run_with(facts).deliver(&mut batch.cases, batch.began);
        }
        self.schedule(end + self.world.mapping.takes, Event::End(batch));
    }

    fn run_with(&mut self, facts: Facts) -> Run<'_> {
        Run {
            settings: &self.settings,
            letters: &self.world.letters,
            subscriber: &self.world.subscriber,
            trouble: self.world.trouble,
            facts,
            journal: &mut self.journal,
            chance: &mut self.chance,
        }
    }

    /// The letters have been sent where they were due; now the rest is moved, hidden, archived and, once
    /// Lambda has its answer, deleted.
    fn end(&mut self, batch: Batch) {
        let Batch { requeue, instance, began, reach, mut cases } = batch;
        let now = self.now;
        self.journal.counts.invocations += 1;
        self.journal.counts.busy += now - began;
        self.free.push(instance);
        self.running[usize::from(requeue)] -= 1;
        if reach == Reach::Delivered {
            self.idle(&cases, now, Idle::Crashed);
        }
        if reach >= Reach::Delivered && self.dlq.settings.fifo {
            // A head that stepped aside was sent before its group went on.
            self.move_away(&cases);
        }
        if reach >= Reach::Moved {
            self.place(&mut cases, requeue, instance);
            if !self.dlq.settings.fifo {
                self.move_away(&cases);
            }
            if reach == Reach::Moved {
                self.idle(&cases, now, Idle::Crashed);
            }
        }
        if reach >= Reach::Hidden {
            self.hide(&cases, requeue);
            self.archive(&mut cases);
            if reach == Reach::Hidden {
                self.idle(&cases, now, Idle::Crashed);
            }
        }
        if reach == Reach::Answered {
            for case in &cases {
                if matches!(
                    case.disposition,
                    Disposition::Delivered | Disposition::Archive(_) | Disposition::Requeue(..)
                ) {
                    self.queue(requeue).delete(now, &case.receipt);
                    self.journal.note(case.receipt.who, case.message, now, What::Deleted);
                }
            }
        }
        self.want_poll(false);
        if self.requeue.is_some() {
            self.want_poll(true);
        }
    }

    fn place(&mut self, cases: &mut [Case], requeue: bool, instance: usize) {
        let now = self.now;
        let mut estimate = self.instances[instance].estimate(requeue).clone();
        if cases.iter().any(|case| matches!(case.disposition, Disposition::Defer(_)))
            && estimate.wants_reading(at(now))
        {
            let lag = self.queue(requeue).settings.lag;
            let then = now - self.chance.within(&(0..=lag));
            let in_flight = self.queue(requeue).not_visible(then);
            estimate.set(in_flight, at(now));
            self.journal.counts.readings += 1;
        }
        self.run_with(Facts::default()).place(cases, &mut estimate, now);
        *self.instances[instance].estimate(requeue) = estimate;
        for case in &*cases {
            let (deferral, hide) = match case.disposition {
                Disposition::Defer(deferral) => (deferral, deferral.hide),
                Disposition::Requeue(deferral, delay) => (deferral, delay),
                _ => continue,
            };
            let due = super::since_begin(deferral.due);
            let waits = What::Waits { due, hide, why: deferral.why };
            self.journal.note(case.receipt.who, case.message, now, waits);
        }
    }

    fn move_away(&mut self, cases: &[Case]) {
        for case in cases {
            let Disposition::Requeue(deferral, delay) = case.disposition else { continue };
            let (spent, due) = deferral.for_mark();
            let letter = &case.receipt.letter;
            let mark = letter.mark_for_requeue(spent, due);
            let moved = self.moved(letter, &mark);
            let sending = Sending {
                who: case.receipt.who,
                group: case.receipt.group,
                letter: Rc::new(moved),
                delay: seconds(delay),
                receives: 0,
                first_received: None,
                deduplication: Some(format!("{}-{spent}", letter.id)),
            };
            let due = due.map(super::since_begin);
            let (who, message, now) = (case.receipt.who, case.message, self.now);
            let to = self.send(true, sending, due);
            self.journal.note(who, message, now, What::Moved { to, due });
        }
    }

    /// A letter as the requeue has it: body and attributes unchanged, but for the mark.
    fn moved(&self, letter: &Letter, mark: &sns_redrive::letter::Mark) -> Letter {
        let mut sqs = letter.sqs.clone();
        sqs.queue = self.requeue.as_ref().unwrap().arn.clone();
        sqs.sent = at(self.now);
        sqs.system.remove("DeadLetterQueueSourceArn");
        if self.shortcut {
            return Letter { sqs, mark: Some(mark.clone()), ..letter.clone() };
        }
        sqs.attributes.insert(MARK_ATTRIBUTE.to_owned(), mark.to_attribute());
        Letter::parse_requeued(sqs, Origins::none())
    }

    fn hide(&mut self, cases: &[Case], requeue: bool) {
        let now = self.now;
        for case in cases {
            let Some(hide) = case.hiding(now) else { continue };
            let who = case.receipt.who;
            let fails = self.chance.happens(self.world.trouble.hide_fails);
            let changed = if fails { Ok(None) } else { self.queue(requeue).change(now, &case.receipt, hide) };
            match changed {
                Ok(Some(timer)) => {
                    self.schedule(timer.at, Event::Wake { requeue, timer });
                    self.journal.note(who, case.message, now, What::Hidden { until: timer.at });
                }
                Ok(None) | Err(_) => self.journal.note(who, case.message, now, What::NotHidden),
            }
        }
    }

    /// One object takes all letters of an invocation, or none.
    fn archive(&mut self, cases: &mut [Case]) {
        let fails = self.chance.happens(self.world.trouble.archive_fails);
        for case in cases {
            let Disposition::Archive(reason) = case.disposition else { continue };
            let what = if fails {
                case.disposition = Disposition::OutOfTime;
                What::NotArchived
            } else {
                What::Archived { reason }
            };
            self.journal.note(case.receipt.who, case.message, self.now, what);
        }
    }
}

/// What SNS leaves in a dead-letter queue.
const BODY: &str = r#"{"Type":"Notification","MessageId":"m{who}","TopicArn":"arn:aws:sns:eu-central-1:123456789012:orders","Message":"hello","Timestamp":"2026-11-01T11:59:58.351Z","UnsubscribeURL":"https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn=arn:aws:sns:eu-central-1:123456789012:orders:43fe80b0-b10c-4081-9e18-5bdb8f9824e6"}"#;
