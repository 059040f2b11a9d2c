//! A queue, a requeue, Lambda's mappings, a subscriber, and trouble; the events one by one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::arn::Arn;
use redrive_core::batch::{
    Action, ActionId, Answer, Attempt, Delivery, Machine, Move, NotDone, Outcome, QueueAttributes, Sent,
    Window,
};
use redrive_core::failure::Failure;
use redrive_core::letter::{Attribute, Letter, MARK_ATTRIBUTE, Mark, Origins, SqsMessage};
use redrive_core::policy::{Jitter, Policy, Schedule};
use serde_json::json;
use sim_queue::{Message as Sending, QueueSettings};

use super::function::{
    Coming, Death, Kept, LAST_ACTION, Run, SOURCE_RECEIVES, Subscriber, Trouble, begins, machine,
    subscriptions, timeout, transient,
};
use super::journal::{Idle, Journal, Message, What};
use super::operator::{List, Operator};
use super::queue::{Content, Queue, Receipt};
use super::{Chance, MINUTE, Millis, at, seconds};

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
    pub fifo: bool,
    pub dlq: QueueSettings,
    pub requeue: Option<QueueSettings>,
    /// What the function believes of the limit in flight.
    pub believed_limit: u64,
    pub step_aside: bool,
    pub letters: Vec<Plan>,
    pub subscriber: Subscriber,
    pub mapping: Mapping,
    pub trouble: Trouble,
    pub operator: Operator,
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
    Show { requeue: bool },
    Poll { requeue: bool },
    Begin(Received),
    Answer(Coming),
    WakeAll,
}

/// A batch that waits for its invocation.
#[derive(Debug)]
struct Received {
    requeue: bool,
    instance: usize,
    began: Millis,
    death: Option<Death>,
    receipts: Vec<Receipt>,
}

pub struct Simulation<'w> {
    world: &'w World,
    /// The machine of each process: as many as may run, and some to take the place of those that die.
    machines: &'w [Machine],
    kept: Vec<Kept>,
    /// The next one that is to take the place of one that died.
    spare: usize,
    runs: BTreeMap<u64, Run<'w>>,
    now: Millis,
    chance: Chance,
    agenda: BinaryHeap<Reverse<(Millis, u64)>>,
    events: BTreeMap<u64, Event>,
    order: u64,
    dlq: Queue,
    requeue: Option<Queue>,
    polling: [bool; 2],
    running: [u32; 2],
    free: Vec<usize>,
    busy: usize,
    list: List,
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
        let throttle = if self.trouble.put_off { json!({ "maxReceivesPerSecond": 1 }) } else { json!({}) };
        let fifo = if self.step_aside { "step-aside" } else { "block" };
        let document = json!({ "default": { "jitter": self.jitter, "fifo": fifo, "deliveryPolicy": {
            "throttlePolicy": throttle, "healthyRetryPolicy": {
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
        Simulation::new(self, &self.machines(SPARE), false).run()
    }

    /// The same, with nothing written down but counts.
    pub fn count(&self) -> Story {
        Simulation::new(self, &self.machines(0), true).run()
    }

    /// Processes that may run at once: each of two mappings may run as many.
    fn processes(&self) -> usize {
        let mappings = if self.requeue.is_some() { 2 } else { 1 };
        usize::try_from(self.mapping.instances).unwrap() * mappings
    }

    fn machines(&self, spare: usize) -> Vec<Machine> {
        let requeue: Option<Arn> = self.requeue.as_ref().map(|_| self.arn(REQUEUE).parse().unwrap());
        (0..self.processes() + spare).map(|_| machine(self, requeue.clone())).collect()
    }

    /// The settings of both queues.
    pub fn queues(&mut self) -> impl Iterator<Item = &mut QueueSettings> {
        std::iter::once(&mut self.dlq).chain(&mut self.requeue)
    }

    fn arn(&self, standard: &str) -> String {
        let suffix = if self.fifo { ".fifo" } else { "" };
        format!("{standard}{suffix}")
    }
}

impl<'w> Simulation<'w> {
    fn new(world: &'w World, machines: &'w [Machine], counts_only: bool) -> Self {
        let queue = |arn: &str, settings| Queue::new(&world.arn(arn), world.fifo, settings);
        let processes = world.processes();
        let mut simulation = Self {
            world,
            machines,
            kept: vec![Kept::default(); machines.len()],
            spare: processes,
            runs: BTreeMap::new(),
            now: 0,
            chance: Chance::new(world.seed),
            agenda: BinaryHeap::new(),
            events: BTreeMap::new(),
            order: 0,
            dlq: queue(DLQ, world.dlq.clone()),
            requeue: world.requeue.clone().map(|settings| queue(REQUEUE, settings)),
            polling: [false; 2],
            running: [0; 2],
            free: (0..processes).collect(),
            busy: 0,
            list: List::default(),
            journal: Journal { counts_only, ..Journal::default() },
            peak_busy: 0,
            peak_waiting: 0,
            ids: vec![String::new(); world.letters.len()],
            shortcut: counts_only,
        };
        for (who, plan) in world.letters.iter().enumerate() {
            simulation.schedule(plan.arrives, Event::Arrive(who));
        }
        for when in &world.operator.wakes {
            simulation.schedule(*when, Event::WakeAll);
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
                Event::Show { requeue } => self.show(requeue),
                Event::Poll { requeue } => self.poll(requeue),
                Event::Begin(received) => self.begin(received),
                Event::Answer(coming) => self.answered(coming),
                Event::WakeAll => self.wake_all(),
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
            while let Some((expires, number, message)) = self.queue(requeue).messages.expire(now) {
                self.journal.note(message.content.who, Message { requeue, number }, expires, What::Lost);
                self.now = self.now.max(expires);
                self.want_poll(requeue);
            }
        }
    }

    fn arrive(&mut self, who: usize) {
        let plan = &self.world.letters[who];
        let letter = Rc::new(self.letter(who, plan));
        let moved = plan.moved;
        self.ids[who] = letter.id.to_string();
        let (now, sent) = (self.now, crate::model::since_begin(letter.sqs.sent));
        let mut message = Sending::new(Content { who, letter }, plan.group, sent);
        let number = if let Some(moved) = moved {
            message.receives = SOURCE_RECEIVES;
            message.first_received = moved.keeps_first_receive.then_some(sent);
            self.dlq.messages.take_moved(now, message)
        } else {
            self.dlq.messages.put(now, message, now)
        };
        self.sent(who, Message { requeue: false, number }, None, now);
    }

    /// Writes a message down that a queue took, and sees to it that it shows.
    fn sent(&mut self, who: usize, message: Message, due: Option<Millis>, shows: Millis) {
        self.schedule(shows, Event::Show { requeue: message.requeue });
        self.journal.note(who, message, self.now, What::Sent { due });
        let waiting = self.dlq.messages.len() + self.requeue.as_ref().map_or(0, |it| it.messages.len());
        self.peak_waiting = self.peak_waiting.max(waiting);
    }

    fn letter(&self, who: usize, plan: &Plan) -> Letter {
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
            let mark = json!({ "v": 1, "spent": plan.spent, "id": id, "first": first, "gen": 0 });
            attributes.insert(MARK_ATTRIBUTE.to_owned(), Attribute::string(mark.to_string()));
        }
        // A standard queue's message keeps its time when SQS moves it, a FIFO queue's does not.
        let age = plan.moved.filter(|_| !self.world.fifo).map_or(0, |moved| moved.age);
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

    /// Something may show now.
    fn show(&mut self, requeue: bool) {
        let now = self.now;
        if self.queue(requeue).messages.settle(now) {
            self.want_poll(requeue);
        }
    }

    /// An operator shows what waits.
    fn wake_all(&mut self) {
        let by_list = self.world.operator.by_list;
        let messages = if by_list { self.list.to_wake(self.now) } else { self.hidden() };
        let now = self.now;
        for (message, receipt) in messages {
            if self.queue(message.requeue).messages.change(now, receipt.handle, 0) == Ok(true) {
                self.journal.note(receipt.who, message, now, What::Woken);
                self.schedule(now, Event::Show { requeue: message.requeue });
            }
        }
    }

    /// What is hidden; of that, what is being handled only where stale handles show it.
    fn hidden(&self) -> Vec<(Message, Receipt)> {
        let under_way = |message: Message| {
            let runs = self.runs.values().map(|run| (run.requeue, &run.receipts));
            let waiting = self.events.values().filter_map(|event| match event {
                Event::Begin(received) => Some((received.requeue, &received.receipts)),
                _ => None,
            });
            let mut all = runs.chain(waiting).filter(|(requeue, _)| *requeue == message.requeue);
            all.any(|(_, receipts)| receipts.iter().any(|receipt| receipt.handle.number == message.number))
        };
        let of = |requeue: bool, queue: &Queue| {
            queue.hidden().map(move |receipt| (message(requeue, &receipt), receipt)).collect::<Vec<_>>()
        };
        let mut all = of(false, &self.dlq);
        all.extend(self.requeue.iter().flat_map(|queue| of(true, queue)));
        all.retain(|(message, _)| self.world.dlq.stale_shows || !under_way(*message));
        all
    }

    /// Lambda polls some time after a message has become visible.
    fn want_poll(&mut self, requeue: bool) {
        if self.polling[usize::from(requeue)] || self.queue(requeue).messages.is_empty() {
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
            let queue = self.queue(requeue);
            let receipts = queue.receive(now, mapping.batch);
            if receipts.is_empty() {
                break;
            }
            let shows = now + seconds(queue.messages.settings.visibility);
            self.schedule(shows, Event::Show { requeue });
            for receipt in &receipts {
                let receives = receipt.handle.receive;
                self.journal.note(receipt.who, message(requeue, receipt), now, What::Received { receives });
            }
            if self.chance.happens(self.world.trouble.throttled) {
                self.idle(requeue, &receipts, Idle::Throttled);
                continue;
            }
            let Some(instance) = self.free_instance() else { break };
            self.running[usize::from(requeue)] += 1;
            self.busy += 1;
            let began = now + self.chance.within(&mapping.window);
            let received = Received { requeue, instance, began, death: self.death(), receipts };
            // What an invocation takes beside its attempts.
            self.schedule(began + mapping.takes, Event::Begin(received));
        }
        self.peak_busy = self.peak_busy.max(self.busy);
    }

    /// Any of the instances that do nothing: Lambda makes no promise about which.
    fn free_instance(&mut self) -> Option<usize> {
        let any = self.chance.index(self.free.len())?;
        Some(self.free.swap_remove(any))
    }

    /// Where the next invocation dies.
    fn death(&mut self) -> Option<Death> {
        if !self.chance.happens(self.world.trouble.crash) {
            return None;
        }
        let action = u32::try_from(self.chance.within(&(1..=i64::from(LAST_ACTION)))).unwrap();
        Some(Death { action, effect: self.chance.happens(50) })
    }

    fn idle(&mut self, requeue: bool, receipts: &[Receipt], why: Idle) {
        for receipt in receipts {
            self.journal.note(receipt.who, message(requeue, receipt), self.now, What::Idle(why));
        }
    }

    fn begin(&mut self, received: Received) {
        let Received { requeue, instance, began, death, receipts } = received;
        let machines = self.machines;
        let letters = receipts.iter().enumerate().map(|(index, receipt)| receipt.letter(index)).collect();
        let deadline = Duration::from_millis(u64::try_from(timeout(self.world)).unwrap());
        let batch = machines[instance].begin(letters, deadline);
        let run =
            Run { requeue, instance, began: self.now, batch, receipts, death, actions: 0, under_way: 0 };
        self.journal.counts.busy += self.now - began;
        self.order += 1;
        self.drive(self.order, run);
    }

    fn answered(&mut self, coming: Coming) {
        let Coming { run: number, id, answer } = coming;
        let Some(mut run) = self.runs.remove(&number) else { return };
        run.under_way -= 1;
        run.batch.take(id, answer, run.now(self.now));
        self.drive(number, run);
    }

    /// Does what the machine asks until it waits, ends or dies.
    fn drive(&mut self, number: u64, mut run: Run<'w>) {
        loop {
            let asked = run.batch.poll(run.now(self.now));
            if asked.is_empty() {
                if run.under_way > 0 {
                    self.runs.insert(number, run);
                } else {
                    self.end(run);
                }
                return;
            }
            for (id, action) in asked {
                let control = matches!(action, Action::ReadOrders { .. } | Action::ListWaiting { .. });
                run.actions += u32::from(!control);
                let dies = run.death.filter(|death| !control && death.action == run.actions);
                if dies.is_some_and(|death| !death.effect) {
                    return self.die(run);
                }
                let (answer, took) = self.act(&mut run, action);
                if dies.is_some() {
                    return self.die(run);
                }
                self.give(number, &mut run, id, answer, took);
            }
        }
    }

    fn give(&mut self, number: u64, run: &mut Run<'_>, id: ActionId, answer: Answer, took: Millis) {
        if took == 0 {
            run.batch.take(id, answer, run.now(self.now));
            return;
        }
        run.under_way += 1;
        self.schedule(self.now + took, Event::Answer(Coming { run: number, id, answer }));
    }

    /// The process is gone, and another takes its place, as long as there are some.
    fn die(&mut self, mut run: Run<'_>) {
        self.idle(run.requeue, &run.receipts, Idle::Crashed);
        if self.spare < self.machines.len() {
            run.instance = self.spare;
            self.spare += 1;
        }
        self.leave(&run);
    }

    fn leave(&mut self, run: &Run<'_>) {
        self.journal.counts.invocations += 1;
        self.journal.counts.busy += self.now - run.began;
        self.free.push(run.instance);
        self.running[usize::from(run.requeue)] -= 1;
        self.busy -= 1;
        self.want_poll(false);
        if self.requeue.is_some() {
            self.want_poll(true);
        }
    }

    /// Lambda hears what it may delete, unless the function dies just then.
    fn end(&mut self, run: Run<'w>) {
        if run.death.is_some() {
            return self.die(run);
        }
        let Run { requeue, instance, began, batch, receipts, .. } = run;
        let now = self.now;
        let reports = batch.into_reports(at(now));
        for (report, receipt) in reports.iter().zip(&receipts) {
            let mut note = |what| self.journal.note(receipt.who, message(requeue, receipt), now, what);
            match &report.outcome {
                Outcome::Deferred(deferral) | Outcome::Requeued(deferral) => note(What::Waits {
                    due: super::since_begin(deferral.due),
                    hide: deferral.hide,
                    why: deferral.why,
                }),
                Outcome::Held => note(What::Held),
                Outcome::Failed(NotDone::OutOfTime) => note(What::Idle(Idle::OutOfTime)),
                _ => {}
            }
            if report.outcome.leaves_queue() {
                let messages = &mut self.queue(requeue).messages;
                if let Ok(Some(number)) = messages.to_delete(receipt.handle) {
                    messages.remove(now, number);
                }
                self.journal.note(receipt.who, message(requeue, receipt), now, What::Deleted);
            }
        }
        let empty = self.machines[instance].begin(Vec::new(), Duration::ZERO);
        self.leave(&Run {
            requeue,
            instance,
            began,
            batch: empty,
            receipts,
            death: None,
            actions: 0,
            under_way: 0,
        });
    }

    /// Does what the machine asks; the answer, and how long it takes.
    fn act(&mut self, run: &mut Run<'_>, action: Action) -> (Answer, Millis) {
        let answer = match action {
            Action::LookUpQueues { queues, again, .. } => {
                let known = queues.into_iter().map(|queue| {
                    let attributes = self.attributes(run.instance, &queue, again);
                    (queue, attributes)
                });
                Answer::Queues { known: known.collect::<HashMap<_, _>>(), unread: Vec::new() }
            }
            Action::LookUpSubscriptions { subscriptions: asked, .. } => {
                Answer::Subscriptions(subscriptions(asked, &self.dlq.arn))
            }
            Action::LookUpSharing { .. } => Answer::Shared(Vec::new()),
            Action::Discover { .. } | Action::Verify { .. } => unreachable!("no rule asks for it"),
            Action::Deliver { deliveries, window } => return self.deliver(run, &deliveries, window),
            Action::Move { moves, .. } => {
                Answer::Moved(moves.into_iter().map(|one| Some(self.move_away(run, &one))).collect())
            }
            Action::Archive { letters, .. } => {
                // One object takes all letters of an invocation, or none.
                let fails = self.chance.happens(self.world.trouble.archive_fails);
                let now = self.now;
                let results = letters.iter().map(|(letter, context)| {
                    let receipt = run.receipt(letter);
                    let archived = What::Archived { reason: context.reason };
                    let what = if fails { What::NotArchived } else { archived };
                    self.journal.note(receipt.who, message(run.requeue, receipt), now, what);
                    if fails { Err(transient("ServiceUnavailable")) } else { Ok(()) }
                });
                Answer::Archived(results.collect())
            }
            Action::Hide { letters, .. } => {
                let hide = |(letter, hide): &(Arc<Letter>, u64)| self.hide(run, letter, *hide);
                Answer::Hidden(letters.iter().map(hide).collect())
            }
            Action::ReadOrders { unless, .. } => {
                let operator = &self.world.operator;
                let fails = self.chance.happens(operator.reads_fail);
                let read = operator.read(self.now, unless.as_deref());
                Answer::Orders(if fails { Err(transient("SlowDown")) } else { Ok(read) })
            }
            Action::ListWaiting { letters, .. } => {
                for line in &letters {
                    let receipt = &run.receipts[line.receipt_handle.parse::<usize>().unwrap()];
                    self.list.add(message(run.requeue, receipt), receipt, line);
                }
                self.journal.counts.lists += 1;
                Answer::Listed(Ok(()))
            }
        };
        (answer, 0)
    }

    fn attributes(&mut self, instance: usize, arn: &Arn, again: bool) -> QueueAttributes {
        let now = self.now;
        let requeue = self.requeue.as_ref().is_some_and(|requeue| requeue.arn == *arn);
        if !requeue && self.dlq.arn != *arn {
            // The queue that SQS moved letters from.
            let source =
                QueueAttributes { max_receives: Some(SOURCE_RECEIVES), ..QueueAttributes::default() };
            return QueueAttributes { retention: Some(1_209_600), ..source };
        }
        let lag = self.queue(requeue).messages.settings.lag;
        let then = now - self.chance.within(&(0..=lag));
        let mut kept = std::mem::take(&mut self.kept[instance]);
        let attributes = kept.look_up(arn, again, now, || {
            self.journal.counts.readings += 1;
            let queue = &self.queue(requeue).messages;
            QueueAttributes {
                retention: Some(u64::try_from(queue.settings.retention).unwrap()),
                visibility_timeout: Some(u64::try_from(queue.settings.visibility).unwrap()),
                in_flight: u64::try_from(queue.counts(then).in_flight).unwrap(),
                ..QueueAttributes::default()
            }
        });
        self.kept[instance] = kept;
        attributes
    }

    /// Makes the attempts of a round; they end together.
    fn deliver(&mut self, run: &Run<'_>, deliveries: &[Delivery], window: Window) -> (Answer, Millis) {
        let now = self.now;
        let late = |delivery: &Delivery| {
            let turn = run.now(begins(run, delivery, now)).elapsed;
            turn >= window.latest_start(&delivery.destination.endpoint)
        };
        let begun: Vec<bool> = deliveries
            .iter()
            .map(|delivery| !late(delivery) && !self.chance.happens(self.world.trouble.out_of_time))
            .collect();
        let mut ends = now;
        for (delivery, begun) in deliveries.iter().zip(&begun) {
            let took = self.chance.within(&self.world.subscriber.takes);
            if *begun {
                ends = ends.max(begins(run, delivery, now) + took);
            }
        }
        let cut_off = ends > run.after(window.end);
        let end = ends.min(run.after(window.end)).max(now);
        let mut attempts = Vec::new();
        for (delivery, begun) in deliveries.iter().zip(begun) {
            let left_out = begun && self.chance.happens(self.world.trouble.left_out);
            let sent = if left_out {
                let wait = self.chance.within(&(0..=5 * MINUTE));
                Sent::LeftOut(Duration::from_millis(u64::try_from(wait).unwrap()))
            } else if begun {
                let receipt = run.receipt(&delivery.letter);
                let begin = begins(run, delivery, now);
                let fails = cut_off
                    || self.world.letters[receipt.who].poison
                    || self.world.subscriber.is_down(begin)
                    || self.chance.happens(self.world.subscriber.flaky);
                let attempt = What::Attempt {
                    number: delivery.retry.number,
                    planned: delivery.retry.planned.map(super::since_begin),
                    end,
                    delivered: !fails,
                };
                self.journal.note(receipt.who, message(run.requeue, receipt), begin, attempt);
                if fails { Sent::Failed(transient("Unreachable")) } else { Sent::Accepted }
            } else {
                Sent::NotStarted
            };
            attempts.push(Attempt { sent: Ok(sent), took: Duration::ZERO, unmarked: false });
        }
        (Answer::Delivered(attempts), end - now)
    }

    fn move_away(&mut self, run: &Run<'_>, one: &Move) -> Sent {
        let receipt = run.receipt(&one.letter);
        let (who, from, now) = (receipt.who, message(run.requeue, receipt), self.now);
        if self.chance.happens(self.world.trouble.send_fails) {
            self.journal.note(who, from, now, What::NotMoved);
            return Sent::Failed(transient("ServiceUnavailable"));
        }
        let due = one.mark.requeued.due.map(super::since_begin);
        let letter = Rc::new(self.moved(&one.letter, &one.mark));
        let sending = Sending::new(Content { who, letter }, receipt.group, now);
        let (delay, deduplication) = (seconds(one.delay), format!("{}-{}", one.letter.id, one.mark.spent));
        let (to, is_new) = self.queue(true).send(now, sending, delay, deduplication);
        if is_new {
            self.sent(who, Message { requeue: true, number: to }, due, now + delay);
        }
        self.journal.note(who, from, now, What::Moved { to, due });
        Sent::Accepted
    }

    /// A letter as the requeue has it: body and attributes unchanged, but for the mark.
    fn moved(&self, letter: &Letter, mark: &Mark) -> Letter {
        let mut sqs = letter.sqs.clone();
        sqs.queue = self.requeue.as_ref().unwrap().arn.clone();
        sqs.sent = at(self.now);
        sqs.message_id = format!("{}-{}", sqs.message_id, self.order);
        sqs.system.remove("DeadLetterQueueSourceArn");
        if self.shortcut {
            return Letter { sqs, mark: Some(mark.clone()), ..letter.clone() };
        }
        sqs.attributes.insert(MARK_ATTRIBUTE.to_owned(), mark.to_attribute());
        Letter::parse_requeued(sqs, Origins::none())
    }

    fn hide(&mut self, run: &Run<'_>, letter: &Letter, hide: u64) -> Result<(), Failure> {
        let now = self.now;
        let receipt = run.receipt(letter);
        let (who, message) = (receipt.who, message(run.requeue, receipt));
        let fails = self.chance.happens(self.world.trouble.hide_fails);
        let messages = &mut self.queue(run.requeue).messages;
        let hide = i64::try_from(hide).unwrap();
        let changed = if fails { Ok(false) } else { messages.change(now, receipt.handle, hide) };
        match changed {
            Ok(true) => {
                let until = now + seconds(hide);
                self.schedule(until, Event::Show { requeue: run.requeue });
                // Before anything else, letters near their end are hidden for the invocation only.
                let early = run.actions <= 2 && hide > 0;
                let what = if early { What::HiddenForInvocation { until } } else { What::Hidden { until } };
                self.journal.note(who, message, now, what);
                Ok(())
            }
            // A standard queue answers 200 to a handle that is no longer valid.
            Ok(false) if !fails => {
                self.journal.note(who, message, now, What::NotHidden);
                Ok(())
            }
            Ok(false) => {
                self.journal.note(who, message, now, What::NotHidden);
                Err(transient("ServiceUnavailable"))
            }
            Err(_) => {
                self.journal.note(who, message, now, What::NotHidden);
                Err(transient("InvalidParameterValue"))
            }
        }
    }
}

/// The message that was received.
fn message(requeue: bool, receipt: &Receipt) -> Message {
    Message { requeue, number: receipt.handle.number }
}

/// Processes that can take the place of those that die.
const SPARE: usize = 8;

/// What SNS leaves in a dead-letter queue.
const BODY: &str = r#"{"Type":"Notification","MessageId":"m{who}","TopicArn":"arn:aws:sns:eu-central-1:123456789012:orders","Message":"hello {who}","Timestamp":"2026-11-01T11:59:58.351Z","UnsubscribeURL":"https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn=arn:aws:sns:eu-central-1:123456789012:orders:43fe80b0-b10c-4081-9e18-5bdb8f9824e6"}"#;
