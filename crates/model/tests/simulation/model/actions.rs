//! The actions that the machine asks for, carried out in the model.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use redrive_core::arn::Arn;
use redrive_core::batch::{
    Action, ActionAnswer, Delivery, QueueAttributes, RequestEnd, RequestResult, RequeueMove,
    RequiredFreshness, SendRequest, SendResult, SignatureResult,
};
use redrive_core::failure::{
    DEADLINE_EXCEEDED, FUNCTION_ERROR, Failure, FailureClass, HANDLE_EXPIRED, MESSAGE_GONE,
};
use redrive_core::letter::{Letter, MARK_ATTRIBUTE, Mark, TrustedOrigins};
use redrive_core::waiting::LISTED_ABOVE;
use redrive_sim_queue::{ReceiptRefusal, SimMessage as Sending};

use super::function::{
    ModelInvocation, SOURCE_RECEIVES, subscriber_at, subscriber_of, subscriptions, transient,
};
use super::journal::{FactKind, ModelMessage};
use super::queue::{ModelLetter, ModelReceipt};
use super::state::{ModelEvent, Simulation, message};
use super::world::FailureStyle;
use super::{ModelMillis, SECOND, at, duration, seconds, since_begin};

/// The time after which a client gives up on an endpoint that hangs.
const CLIENT_TIMEOUT: ModelMillis = 15 * SECOND;

impl Simulation<'_> {
    /// Carries out an action. Returns the answer, and how long it takes.
    pub(super) fn act(
        &mut self,
        run: &mut ModelInvocation<'_>,
        action: Action,
    ) -> (ActionAnswer, ModelMillis) {
        let answer = match action {
            Action::LookUpQueues { queues, suffices, .. } => {
                let known = queues.into_iter().map(|queue| {
                    let attributes = self.attributes(run, &queue, suffices);
                    (queue, attributes)
                });
                ActionAnswer::Queues { known: known.collect::<HashMap<_, _>>(), unread: Vec::new() }
            }
            Action::LookUpSubscriptions { subscriptions: asked, until } => {
                let mut known = subscriptions(asked, &self.dlq.arn);
                let hangs =
                    |arn: &Arn| self.world.fails(subscriber_of(arn), FailureStyle::LookUpHanging, self.now);
                let hung = known.iter_mut().filter(|(arn, _)| hangs(arn));
                let hung = hung
                    .map(|(_, known)| *known = Err(SendResult::Failed(transient(DEADLINE_EXCEEDED))))
                    .count();
                let takes = if hung > 0 { run.after(until).max(self.now) - self.now } else { 0 };
                return (ActionAnswer::Subscriptions(known), takes);
            }
            Action::Verify { letters, until } => {
                let hangs = |letter: &Arc<Letter>| {
                    let to = self.world.letters[run.receipt(letter).who].to;
                    self.world.fails(to, FailureStyle::CertificateHanging, self.now)
                };
                let late = || SignatureResult::Unknown(SendResult::Failed(transient(DEADLINE_EXCEEDED)));
                let check = |letter| if hangs(letter) { late() } else { SignatureResult::Genuine };
                let answers: Vec<_> = letters.iter().map(check).collect();
                let hung = answers.iter().any(|answer| *answer != SignatureResult::Genuine);
                let takes = if hung { run.after(until).max(self.now) - self.now } else { 0 };
                return (ActionAnswer::Verified(answers), takes);
            }
            Action::LookUpSharing { .. } => ActionAnswer::Shared(Vec::new()),
            Action::Discover { .. } => unreachable!("no rule asks for it"),
            Action::Send(request) => return self.send(run, &request),
            Action::Move { moves, .. } => {
                ActionAnswer::Moved(moves.into_iter().map(|one| Some(self.move_away(run, &one))).collect())
            }
            Action::Archive { letters, .. } => {
                // One object has all letters of an invocation, or none is stored.
                let fails = self.chance.happens(self.world.trouble.archive_fails);
                let now = self.now;
                let results = letters.iter().map(|(letter, context)| {
                    let receipt = run.receipt(letter);
                    let archived = FactKind::Archived { reason: context.reason };
                    let what = if fails { FactKind::NotArchived } else { archived };
                    self.journal.note(receipt.who, message(run.requeue, receipt), now, what);
                    if fails { Err(transient("ServiceUnavailable")) } else { Ok(()) }
                });
                ActionAnswer::Archived(results.collect())
            }
            Action::Hide { letters, .. } => {
                let is_listed = letters.iter().any(|(_, hide)| *hide > LISTED_ABOVE);
                self.journal.counts.long_hides += u64::from(is_listed);
                let hide = |(letter, hide): &(Arc<Letter>, u64)| self.hide(run, letter, *hide);
                ActionAnswer::Hidden(letters.iter().map(hide).collect())
            }
            Action::ReadOverrides { unless, .. } => {
                let operator = &self.world.operator;
                let fails = self.chance.happens(operator.reads_fail);
                let read = operator.read(self.now, unless.as_deref());
                ActionAnswer::Overrides(if fails { Err(transient("SlowDown")) } else { Ok(read) })
            }
            control => return (self.act_on_control(run, control), self.world.control_takes),
        };
        (answer, 0)
    }

    /// Reads and writes control objects, and wakes letters of the list.
    fn act_on_control(&mut self, run: &ModelInvocation<'_>, action: Action) -> ActionAnswer {
        let requeue = run.requeue;
        let queue = self.queue(requeue).arn.clone();
        let fails = self.chance.happens(self.world.trouble.control_fails);
        let failure = || transient("SlowDown");
        match action {
            Action::ListWaiting { .. } if fails => ActionAnswer::Listed(Err(failure())),
            Action::ListWaiting { letters, at, .. } => {
                self.journal.counts.lists += 1;
                self.control.list(requeue, &queue, at, letters);
                ActionAnswer::Listed(Ok(()))
            }
            Action::ReadRecoveries { unless, .. } => {
                self.journal.counts.control_reads += 1;
                let read = self.control.read(unless.as_deref());
                ActionAnswer::Recoveries(if fails { Err(failure()) } else { Ok(read) })
            }
            Action::WriteRecoveries { .. } if fails => ActionAnswer::Written(Err(failure())),
            Action::WriteRecoveries { json, replaces, .. } => {
                self.journal.counts.control_writes += 1;
                ActionAnswer::Written(Ok(self.control.write(json, replaces.as_deref())))
            }
            Action::ListWaitingKeys { after, .. } => {
                self.journal.counts.control_listings += 1;
                let keys = self.control.keys(requeue, after);
                ActionAnswer::WaitingKeys(if fails { Err(failure()) } else { Ok(keys) })
            }
            Action::ReadWaitingLines { keys, .. } => {
                self.journal.counts.control_reads += keys.len() as u64;
                let lines = self.control.lines(requeue, &keys);
                ActionAnswer::WaitingLines(if fails { Err(failure()) } else { Ok(lines) })
            }
            Action::Wake { letters, .. } => {
                self.journal.counts.woken += letters.len() as u64;
                for line in &letters {
                    let (_, receipt) = self.control.receipt(&line.receipt_handle).clone();
                    self.wake(requeue, &receipt, FactKind::Woken);
                }
                ActionAnswer::Hidden(letters.iter().map(|_| Ok(())).collect())
            }
            other => unreachable!("{other:?}"),
        }
    }

    fn attributes(
        &mut self,
        run: &ModelInvocation<'_>,
        arn: &Arn,
        suffices: RequiredFreshness,
    ) -> QueueAttributes {
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
    fn note_reading(
        &mut self,
        run: &ModelInvocation<'_>,
        arn: &Arn,
        feeds: bool,
        is_read: bool,
        asked: ModelMillis,
    ) {
        // Later readings change no decision.
        if run.opening != run.actions || (feeds && *arn != self.queue(run.requeue).arn) {
            return;
        }
        let what = match (feeds, is_read) {
            (true, true) if run.opening > 1 => FactKind::RetentionRead,
            (true, false) => FactKind::RetentionUnread { asked },
            (false, true) if run.opening > 1 => FactKind::SourceRead,
            (false, false) => FactKind::SourceUnread,
            (_, true) => return,
        };
        let moved = |receipt: &&ModelReceipt| feeds || self.world.letters[receipt.who].moved.is_some();
        for receipt in run.receipts.iter().filter(moved) {
            self.journal.note(receipt.who, message(run.requeue, receipt), self.now, what.clone());
        }
    }

    /// Makes a request. Its attempts end together.
    fn send(&mut self, run: &ModelInvocation<'_>, request: &SendRequest) -> (ActionAnswer, ModelMillis) {
        let (now, world) = (self.now, self.world);
        let subscriber = world.subscriber(subscriber_at(&request.to));
        let is_down = subscriber.is_down(now)
            && [FailureStyle::AtOnce, FailureStyle::Hanging].contains(&subscriber.fails);
        let slowest = request.deliveries.iter().map(|_| self.chance.within(&subscriber.takes)).max();
        let takes = match (is_down, subscriber.fails == FailureStyle::Hanging) {
            (true, true) => CLIENT_TIMEOUT,
            (true, false) => 0,
            (false, _) => slowest.unwrap_or(0),
        };
        let until = run.after(request.until).max(now);
        let (end, is_cut_off) = (until.min(now + takes), until < now + takes);
        let is_whole = request.deliveries.len() > 1 && !is_cut_off;
        let how = if is_whole && self.chance.happens(world.trouble.refused_whole) {
            RequestEnd::Failed(Failure::ours(FailureClass::ActionRequired, "Strange"))
        } else {
            let failure = (is_down || is_cut_off).then(|| transient("Unreachable"));
            let attempt = |one: &Arc<Delivery>| self.attempt(run, one, end, is_cut_off, failure.clone());
            let answers = request.deliveries.iter().map(attempt).collect();
            if is_cut_off { RequestEnd::CutOff } else { RequestEnd::Answered(answers) }
        };
        (ActionAnswer::Sent(RequestResult { end: how, took: duration(end - now) }), end - now)
    }

    /// Makes the attempt of one letter in a request, which fails if its endpoint does.
    fn attempt(
        &mut self,
        run: &ModelInvocation<'_>,
        delivery: &Delivery,
        end: ModelMillis,
        is_cut_off: bool,
        failure: Option<Failure>,
    ) -> SendResult {
        let world = self.world;
        if !is_cut_off && self.chance.happens(world.trouble.out_of_time) {
            return SendResult::NotStarted;
        }
        let receipt = run.receipt(&delivery.letter);
        // Its endpoint works.
        let poison = || world.letters[receipt.who].poison.then(|| transient(FUNCTION_ERROR));
        let subscriber = world.subscriber(world.letters[receipt.who].to);
        let flaky = || self.chance.happens(subscriber.flaky).then(|| transient("InternalError"));
        let failure = failure.or_else(poison).or_else(flaky);
        let failure =
            failure.or_else(|| self.is_beyond(receipt.who).then(|| transient("ServiceUnavailable")));
        let attempt = FactKind::Attempt {
            number: delivery.retry.number,
            planned: delivery.retry.planned.map(since_begin),
            receives: delivery.letter.sqs.receive_count,
            end,
            delivered: failure.is_none(),
        };
        if failure.is_none() && world.letters[receipt.who].to > 0 {
            self.journal.waits_of_others.push(end - world.letters[receipt.who].arrives);
        }
        self.journal.note(receipt.who, message(run.requeue, receipt), self.now, attempt);
        failure.map_or(SendResult::Accepted, SendResult::Failed)
    }

    /// Reports whether the subscriber of a letter takes no more in this second, and counts the letter otherwise.
    fn is_beyond(&mut self, who: usize) -> bool {
        let limit = self.world.takes_a_second.filter(|_| self.world.letters[who].to == 0);
        let Some(limit) = limit else { return false };
        let second = self.now / SECOND;
        let (counted, taken) = &mut self.taken;
        if *counted != second {
            (*counted, *taken) = (second, 0);
        }
        *taken += 1;
        *taken > limit
    }

    fn move_away(&mut self, run: &ModelInvocation<'_>, one: &RequeueMove) -> SendResult {
        let receipt = run.receipt(&one.letter);
        let (who, from, now) = (receipt.who, message(run.requeue, receipt), self.now);
        if self.chance.happens(self.world.trouble.send_fails) {
            self.journal.note(who, from, now, FactKind::NotMoved);
            return SendResult::Failed(transient("ServiceUnavailable"));
        }
        let due = one.mark.requeued.due.map(since_begin);
        let letter = Rc::new(self.moved(&one.letter, &one.mark));
        let sending = Sending::new(ModelLetter { who, letter }, receipt.group, now);
        let (delay, deduplication) = (seconds(one.delay), format!("{}-{}", one.letter.id, one.mark.spent));
        let (to, is_new) = self.queue(true).send(now, sending, delay, deduplication);
        if is_new {
            self.sent(who, ModelMessage { requeue: true, number: to }, due, now + delay);
        }
        self.journal.note(who, from, now, FactKind::Moved { to, due });
        SendResult::Accepted
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
        Letter::parse_requeued(sqs, TrustedOrigins::none())
    }

    fn hide(&mut self, run: &ModelInvocation<'_>, letter: &Letter, hide: u64) -> Result<(), Failure> {
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
                self.schedule(until, ModelEvent::Show { requeue: run.requeue });
                if hide > 0 && self.chance.happens(self.world.trouble.comes_back) {
                    let early = now + self.chance.within(&(0..=seconds(hide)));
                    let event = ModelEvent::ComeBack { requeue: run.requeue, receipt: receipt.clone() };
                    self.schedule(early, event);
                }
                // An early action hides letters near their end for the invocation only.
                let early = run.actions <= run.opening + 1 && hide > 0;
                let what =
                    if early { FactKind::HiddenForInvocation { until } } else { FactKind::Hidden { until } };
                self.journal.note(who, message, now, what);
                Ok(())
            }
            // A standard queue answers 200 to a handle that is no longer valid.
            Ok(false) if !fails => {
                self.journal.note(who, message, now, FactKind::NotHidden);
                Ok(())
            }
            Ok(false) => {
                self.journal.note(who, message, now, FactKind::NotHidden);
                Err(transient("ServiceUnavailable"))
            }
            Err(refused) => {
                self.journal.note(who, message, now, FactKind::NotHidden);
                let code = match refused {
                    ReceiptRefusal::Gone => MESSAGE_GONE,
                    ReceiptRefusal::NoLongerValid => HANDLE_EXPIRED,
                    ReceiptRefusal::TooLong => "BeyondTheLimit",
                };
                Err(Failure::ours(FailureClass::Permanent, code))
            }
        }
    }
}
