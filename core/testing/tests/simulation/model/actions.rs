//! The actions that the machine asks for, carried out in the model.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::arn::Arn;
use redrive_core::batch::{Action, Answer, Attempt, Delivery, Move, QueueAttributes, Sent, Suffices, Window};
use redrive_core::failure::{Failure, FailureClass, HANDLE_EXPIRED, MESSAGE_GONE};
use redrive_core::letter::{Letter, MARK_ATTRIBUTE, Mark, Origins};
use sim_queue::{Message as Sending, Refused};

use super::function::{Run, SOURCE_RECEIVES, begins, subscriptions, transient};
use super::journal::{Message, What};
use super::queue::{Content, Receipt};
use super::state::{Event, Simulation, message};
use super::{MINUTE, Millis, at, seconds, since_begin};

impl Simulation<'_> {
    /// Carries out an action. Returns the answer, and how long it takes.
    pub(super) fn act(&mut self, run: &mut Run<'_>, action: Action) -> (Answer, Millis) {
        let answer = match action {
            Action::LookUpQueues { queues, suffices, .. } => {
                let known = queues.into_iter().map(|queue| {
                    let attributes = self.attributes(run, &queue, suffices);
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
                // One object has all letters of an invocation, or none is stored.
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
            Action::ReadOverrides { unless, .. } => {
                let operator = &self.world.operator;
                let fails = self.chance.happens(operator.reads_fail);
                let read = operator.read(self.now, unless.as_deref());
                Answer::Overrides(if fails { Err(transient("SlowDown")) } else { Ok(read) })
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

    fn attributes(&mut self, run: &Run<'_>, arn: &Arn, suffices: Suffices) -> QueueAttributes {
        let (now, trouble) = (self.now, self.world.trouble);
        let requeue = self.requeue.as_ref().is_some_and(|requeue| requeue.arn == *arn);
        // Otherwise this is the queue that SQS moved letters from.
        let feeds = requeue || self.dlq.arn == *arn;
        let lag = if feeds { self.queue(requeue).messages.settings.lag } else { 0 };
        let then = now - self.chance.within(&(0..=lag));
        let fails = now < trouble.unread_until || self.chance.happens(trouble.reads_fail);
        let mut kept = std::mem::take(&mut self.kept[run.instance]);
        let attributes = kept.look_up(arn, suffices, (now, run.now(now).age), || {
            self.journal.counts.readings += u64::from(feeds);
            if fails {
                return None;
            }
            if !feeds {
                let source =
                    QueueAttributes { max_receives: Some(SOURCE_RECEIVES), ..QueueAttributes::default() };
                return Some(QueueAttributes { retention: Some(1_209_600), ..source });
            }
            let queue = &self.queue(requeue).messages;
            Some(QueueAttributes {
                retention: Some(u64::try_from(queue.settings.retention).unwrap()),
                visibility_timeout: Some(u64::try_from(queue.settings.visibility).unwrap()),
                in_flight: u64::try_from(queue.counts(then).in_flight).ok(),
                ..QueueAttributes::default()
            })
        });
        self.note_reading(run, arn, feeds, attributes.retention.is_some(), kept.asked_since(arn));
        self.kept[run.instance] = kept;
        attributes
    }

    /// Notes whether the queues of an invocation's letters have told what its decisions depend on.
    fn note_reading(&mut self, run: &Run<'_>, arn: &Arn, feeds: bool, is_read: bool, asked: Millis) {
        // Later readings change no decision.
        if run.opening != run.actions || (feeds && *arn != self.queue(run.requeue).arn) {
            return;
        }
        let what = match (feeds, is_read) {
            (true, true) if run.opening > 1 => What::RetentionRead,
            (true, false) => What::RetentionUnread { asked },
            (false, true) if run.opening > 1 => What::SourceRead,
            (false, false) => What::SourceUnread,
            (_, true) => return,
        };
        let moved = |receipt: &&Receipt| feeds || self.world.letters[receipt.who].moved.is_some();
        for receipt in run.receipts.iter().filter(moved) {
            self.journal.note(receipt.who, message(run.requeue, receipt), self.now, what.clone());
        }
    }

    /// Makes the attempts of a round, which end together.
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
                    planned: delivery.retry.planned.map(since_begin),
                    receives: delivery.letter.sqs.receive_count,
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
        let due = one.mark.requeued.due.map(since_begin);
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

    /// Returns a letter as the requeue has it: body and attributes unchanged, except for the mark.
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
                if hide > 0 && self.chance.happens(self.world.trouble.comes_back) {
                    let early = now + self.chance.within(&(0..=seconds(hide)));
                    let event = Event::ComeBack { requeue: run.requeue, receipt: receipt.clone() };
                    self.schedule(early, event);
                }
                // An early action hides letters near their end for the invocation only.
                let early = run.actions <= run.opening + 1 && hide > 0;
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
            Err(refused) => {
                self.journal.note(who, message, now, What::NotHidden);
                let code = match refused {
                    Refused::Gone => MESSAGE_GONE,
                    Refused::NoLongerValid => HANDLE_EXPIRED,
                    Refused::TooLong => "BeyondTheLimit",
                };
                Err(Failure::ours(FailureClass::Permanent, code))
            }
        }
    }
}
