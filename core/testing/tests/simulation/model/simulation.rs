//! The life of a world: its events, one by one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;
use std::time::Duration;

use redrive_core::arn::Arn;
use redrive_core::batch::{Action, ActionId, Answer, Machine, NotDone, Outcome, Suffices};
use redrive_core::letter::{Attribute, Letter, MARK_ATTRIBUTE, SqsMessage};
use serde_json::json;
use sim_queue::Message as Sending;

use super::function::{Coming, Death, Kept, LAST_ACTION, Run, SOURCE_RECEIVES, machine, timeout};
use super::journal::{Idle, Journal, Message, What};
use super::operator::List;
use super::queue::{Content, Queue, Receipt};
use super::state::{Event, Received, Simulation, message};
use super::world::{DLQ, Plan, REQUEUE, World};
use super::{Chance, Millis, at, duration, seconds};

const SOURCE: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-worker";

/// The largest number of events in a story. A letter that circulates for ever exceeds it.
const MANY: u64 = 300_000;

/// The number of processes that can replace those that die.
const SPARE: usize = 8;

/// The result of living through a world.
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

impl World {
    /// Lives until every queue is empty.
    pub fn live(&self) -> Story {
        Simulation::new(self, &self.machines(SPARE), false).run()
    }

    /// Lives until every queue is empty, and keeps only counts.
    pub fn count(&self) -> Story {
        Simulation::new(self, &self.machines(0), true).run()
    }

    /// Returns the number of processes that may run at once: each of two mappings may run as many.
    fn processes(&self) -> usize {
        let mappings = if self.requeue.is_some() { 2 } else { 1 };
        usize::try_from(self.mapping.instances).unwrap() * mappings
    }

    fn machines(&self, spare: usize) -> Vec<Machine> {
        let requeue: Option<Arn> = self.requeue.as_ref().map(|_| self.arn(REQUEUE).parse().unwrap());
        (0..self.processes() + spare).map(|_| machine(self, requeue.clone())).collect()
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
            ages: vec![<_>::default(); machines.len()],
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
        while let Some(Reverse((now, order))) = self.agenda.peek().copied() {
            if self.expire(now) {
                continue;
            }
            self.agenda.pop();
            assert!(self.shortcut || self.order < MANY, "letters circulate for ever");
            if self.world.until.is_some_and(|until| now > until) {
                break;
            }
            (self.now, self.journal.run) = (now, 0);
            let Some(event) = self.events.remove(&order) else { continue };
            match event {
                Event::Arrive(who) => self.arrive(who),
                Event::Show { requeue } => self.show(requeue),
                Event::Poll { requeue } => self.poll(requeue),
                Event::Begin(received) => self.begin(received),
                Event::Answer(coming) => self.answered(coming),
                Event::WakeAll => self.wake_all(),
                Event::ComeBack { requeue, receipt } => self.wake(requeue, &receipt, What::CameBack),
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

    /// Drops the next message that SQS has dropped by now, and returns whether there was one: its group is polled
    /// before the next message is dropped.
    fn expire(&mut self, now: Millis) -> bool {
        let ends = [Some(&self.dlq), self.requeue.as_ref()].map(|queue| queue?.messages.next_expiry());
        let Some(first) = ends.into_iter().flatten().min().filter(|first| *first <= now) else {
            return false;
        };
        let requeue = ends[0] != Some(first);
        let Some((expires, number, message)) = self.queue(requeue).messages.expire(first) else {
            return false;
        };
        self.journal.note(message.content.who, Message { requeue, number }, expires, What::Lost);
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
        // When SQS moves a message, a standard queue's message keeps its time, a FIFO queue's does not.
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
        let messages = if by_list { self.list.to_wake(self.now) } else { self.hidden() };
        for (message, receipt) in messages {
            self.wake(message.requeue, &receipt, What::Woken);
        }
    }

    /// Shows a message, if its receipt is still valid.
    fn wake(&mut self, requeue: bool, receipt: &Receipt, what: What) {
        let now = self.now;
        if self.queue(requeue).messages.change(now, receipt.handle, 0) == Ok(true) {
            self.journal.note(receipt.who, message(requeue, receipt), now, what);
            self.schedule(now, Event::Show { requeue });
        }
    }

    /// Returns the hidden messages. Those that are being handled are among them only if stale handles can
    /// show them.
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

    /// Schedules Lambda's poll, some time after a message has become visible.
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
            // An invocation takes this time beside its attempts.
            self.schedule(began + mapping.takes, Event::Begin(received));
        }
        self.peak_busy = self.peak_busy.max(self.busy);
    }

    /// Returns any of the idle instances: Lambda makes no promise about which it uses.
    fn free_instance(&mut self) -> Option<usize> {
        let any = self.chance.index(self.free.len())?;
        Some(self.free.swap_remove(any))
    }

    /// Returns the place where the next invocation dies.
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
        let (began_at, age) = (self.now, self.age_of(instance));
        let run = Run {
            requeue,
            instance,
            began: began_at,
            age,
            batch,
            receipts,
            death,
            actions: 0,
            opening: 0,
            under_way: 0,
        };
        self.journal.counts.busy += self.now - began;
        self.order += 1;
        self.drive(self.order, run);
    }

    /// Returns the age of an instance that begins to work. In every other world its monotonic clock has stood
    /// still since it worked last, as in a sandbox that Lambda freezes.
    fn age_of(&mut self, instance: usize) -> Duration {
        let (age, worked) = &mut self.ages[instance];
        let monotonic = if self.world.seed.is_multiple_of(2) { *worked } else { self.now };
        age.at(at(self.now), duration(monotonic))
    }

    fn answered(&mut self, coming: Coming) {
        let Coming { run: number, id, answer } = coming;
        let Some(mut run) = self.runs.remove(&number) else { return };
        run.under_way -= 1;
        run.batch.take(id, answer, run.now(self.now));
        self.drive(number, run);
    }

    /// Carries out the machine's actions until it waits, ends or dies.
    fn drive(&mut self, number: u64, mut run: Run<'w>) {
        self.journal.run = number;
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
                let control = matches!(action, Action::ReadOverrides { .. } | Action::ListWaiting { .. });
                run.actions += u32::from(!control);
                let again = matches!(action, Action::LookUpQueues { suffices: Suffices::Answer, .. });
                run.opening += u32::from(again || (run.actions == 1 && !control));
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

    /// Removes the process. Another takes its place, as long as there are some.
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
        self.ages[run.instance].1 += self.now - run.began;
        self.free.push(run.instance);
        self.running[usize::from(run.requeue)] -= 1;
        self.busy -= 1;
        self.want_poll(false);
        if self.requeue.is_some() {
            self.want_poll(true);
        }
    }

    /// Tells Lambda which messages it may delete, unless the function dies just then.
    fn end(&mut self, run: Run<'w>) {
        if run.death.is_some() {
            return self.die(run);
        }
        let Run { requeue, instance, began, age, batch, receipts, .. } = run;
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
            age,
            batch: empty,
            receipts,
            death: None,
            actions: 0,
            opening: 0,
            under_way: 0,
        });
    }
}

/// The envelope that SNS leaves in a dead-letter queue.
const BODY: &str = r#"{"Type":"Notification","MessageId":"m{who}","TopicArn":"arn:aws:sns:eu-central-1:123456789012:payments","Message":"hello {who}","Timestamp":"2026-11-01T11:59:58.351Z","UnsubscribeURL":"https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn=arn:aws:sns:eu-central-1:123456789012:payments:43fe80b0-b10c-4081-9e18-5bdb8f9824e6"}"#;
