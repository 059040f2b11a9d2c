//! The life of an invocation: its actions and answers, until it ends or dies.

use std::time::Duration;

use redrive_core::batch::{Action, ActionAnswer, ActionId, Batch, NotDone, Outcome, RequiredFreshness};

use super::function::{ComingAnswer, ModelInvocation, timeout};
use super::journal::{FactKind, IdleReason};
use super::state::{ModelEvent, ReceivedBatch, Simulation, message};
use super::{ModelMillis, at, duration};

impl<'w> Simulation<'w> {
    pub(super) fn begin(&mut self, received: ReceivedBatch) {
        let ReceivedBatch { requeue, instance, began, death, receipts } = received;
        // In an outage of millions of letters, to remember every receipt takes gigabytes.
        let is_listed = self.config.waiting_list;
        let first_handle = if is_listed { self.control.receive(requeue, &receipts) } else { 0 };
        let letters =
            receipts.iter().zip(first_handle..).map(|(receipt, handle)| receipt.letter(handle)).collect();
        let deadline = Duration::from_millis(u64::try_from(timeout(self.world)).unwrap());
        let memory = self.memories[instance].take().unwrap();
        let batch = Batch::new(self.config, memory, letters, deadline);
        let (began_at, age) = (self.now, self.age_of(instance));
        let run = ModelInvocation {
            requeue,
            instance,
            began: began_at,
            age,
            batch,
            receipts,
            first_handle,
            death,
            actions: 0,
            opening: 0,
            under_way: 0,
            turn: None,
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

    pub(super) fn answered(&mut self, coming: ComingAnswer) {
        let ComingAnswer { run: number, id, answer } = coming;
        let Some(mut run) = self.runs.remove(&number) else { return };
        run.under_way -= 1;
        run.batch.take(id, answer, run.now(self.now));
        self.drive(number, run);
    }

    pub(super) fn turn_comes(&mut self, number: u64) {
        if self.runs.get(&number).is_some_and(|run| run.turn == Some(self.now))
            && let Some(mut run) = self.runs.remove(&number)
        {
            run.turn = None;
            self.drive(number, run);
        }
    }

    /// Carries out the machine's actions until it waits, ends or dies.
    fn drive(&mut self, number: u64, mut run: ModelInvocation<'w>) {
        self.journal.run = number;
        loop {
            let asked = run.batch.poll(run.now(self.now));
            if asked.is_empty() {
                if run.under_way > 0 || run.batch.is_under_way() {
                    self.wait(number, run);
                } else {
                    self.end(run);
                }
                return;
            }
            for (id, action) in asked {
                let control = is_control(&action);
                run.actions += u32::from(!control);
                let again =
                    matches!(action, Action::LookUpQueues { suffices: RequiredFreshness::Answer, .. });
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

    /// Leaves an invocation until its next answer or turn.
    fn wait(&mut self, number: u64, mut run: ModelInvocation<'w>) {
        let next = run.batch.next_poll(run.now(self.now)).map(|elapsed| run.after(elapsed));
        assert!(run.under_way > 0 || next.is_some(), "an invocation waits for nothing");
        if let Some(next) = next.filter(|next| run.turn.is_none_or(|turn| *next < turn)) {
            run.turn = Some(next);
            self.schedule(next, ModelEvent::Turn(number));
        }
        self.runs.insert(number, run);
    }

    fn give(
        &mut self,
        number: u64,
        run: &mut ModelInvocation<'_>,
        id: ActionId,
        answer: ActionAnswer,
        took: ModelMillis,
    ) {
        if took == 0 {
            run.batch.take(id, answer, run.now(self.now));
            return;
        }
        run.under_way += 1;
        self.schedule(self.now + took, ModelEvent::Answer(ComingAnswer { run: number, id, answer }));
    }

    /// Removes the process. Another takes its place, as long as there are some.
    fn die(&mut self, run: ModelInvocation<'w>) {
        let ModelInvocation { requeue, mut instance, began, batch, receipts, .. } = run;
        self.idle(requeue, &receipts, IdleReason::Crashed);
        if self.spare < self.memories.len() {
            instance = self.spare;
            self.spare += 1;
        } else {
            self.memories[instance] = Some(batch.end(at(self.now)).1);
        }
        self.leave(requeue, instance, began);
    }

    fn leave(&mut self, requeue: bool, instance: usize, began: ModelMillis) {
        self.journal.counts.invocations += 1;
        self.journal.counts.busy += self.now - began;
        self.ages[instance].1 += self.now - began;
        self.free.push(instance);
        self.running[usize::from(requeue)] -= 1;
        self.busy -= 1;
        self.want_poll(false);
        if self.requeue.is_some() {
            self.want_poll(true);
        }
    }

    /// Tells Lambda which messages it may delete, unless the function dies just then.
    fn end(&mut self, run: ModelInvocation<'w>) {
        if run.death.is_some() {
            return self.die(run);
        }
        let ModelInvocation { requeue, instance, began, mut batch, receipts, .. } = run;
        let now = self.now;
        self.journal.changes.extend(batch.endpoint_changes());
        let (reports, memory) = batch.end(at(now));
        self.memories[instance] = Some(memory);
        for (report, receipt) in reports.iter().zip(&receipts) {
            let mut note = |what| self.journal.note(receipt.who, message(requeue, receipt), now, what);
            match &report.outcome {
                Outcome::Deferred(deferral) | Outcome::Requeued(deferral) => note(FactKind::Waits {
                    due: super::since_begin(deferral.due),
                    hide: deferral.hide,
                    why: deferral.why,
                }),
                Outcome::Held => note(FactKind::Held),
                Outcome::Failed(NotDone::OutOfTime) => note(FactKind::Idle(IdleReason::OutOfTime)),
                _ => {}
            }
            if report.outcome.leaves_queue() {
                let messages = &mut self.queue(requeue).messages;
                if let Ok(Some(number)) = messages.to_delete(receipt.handle) {
                    messages.remove(now, number);
                }
                self.journal.note(receipt.who, message(requeue, receipt), now, FactKind::Deleted);
            }
        }
        self.leave(requeue, instance, began);
    }
}

/// Reports whether an action is about control objects. No law depends on where it stands among the others.
fn is_control(action: &Action) -> bool {
    matches!(
        action,
        Action::ReadOverrides { .. }
            | Action::ListWaiting { .. }
            | Action::ReadRecoveries { .. }
            | Action::WriteRecoveries { .. }
            | Action::ListWaitingKeys { .. }
            | Action::ReadWaitingLines { .. }
            | Action::Wake { .. }
    )
}
