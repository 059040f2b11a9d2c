//! The stages of a batch, and which comes next.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use super::action::{Action, Answer, Known, Notice, Now, QueueAttributes};
use super::case::{Case, Disposition};
use super::finish::Archiving;
use super::order::Order;
use super::outcome::{NotDone, Report};
use super::place::Placing;
use super::resolve::{refusal_at_sight, subscriptions};
use super::time::{Budget, half_of};
use super::{Machine, Mode, checkup, ending};
use crate::arn::Arn;
use crate::failure::{Failure, FailureClass};
use crate::letter::Letter;
use crate::policy::{DeliveryPolicy, Facts, Retry, Route};

/// A batch on its way to its reports.
///
/// [`Batch::poll`] says what is to be done now, [`Batch::take`] takes an answer; when nothing is under way and nothing is
/// asked any more, the batch is at its end. A batch that is dropped before leaves its letters in their queue.
#[derive(Debug)]
pub struct Batch<'m> {
    pub(super) machine: &'m Machine,
    pub(super) time: Budget,
    deadline: Duration,
    pub(super) cases: Vec<Case<'m>>,
    pub(super) stage: Stage,
    /// The order of the cases.
    pub(super) order: Order,
    pub(super) round: Vec<usize>,
    /// When the first round of the invocation was sent.
    pub(super) begun: Option<Duration>,
    /// Once the requeue has failed in an invocation it is left alone.
    pub(super) requeue_works: bool,
    pub(super) archiving: Option<Archiving>,
    /// What is asked of the archive now.
    pub(super) archive_asked: Option<Asked>,
    /// The letters that are being hidden at the end.
    pub(super) hiding: Option<Vec<usize>>,
    pub(super) notices: Vec<Notice>,
}

/// Which action an answer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ActionId(pub(super) Chain);

/// What may be under way at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Chain {
    /// The stages one after the other.
    Stages,
    /// Archiving, at the end.
    Archive,
    /// Hiding, at the same time.
    Hide,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Limit,
    Store,
}

/// What comes next, or which answer is waited for.
#[derive(Debug)]
pub(super) enum Stage {
    /// The letters, before anything is known of their queues.
    Begin(Vec<Letter>),
    AwaitQueues(Vec<Letter>),
    HideForInvocation,
    AwaitHiddenForInvocation(Vec<usize>, u64),
    Discover,
    AwaitDiscovered(Vec<usize>),
    DeliveryPolicies,
    AwaitDeliveryPolicies(Vec<Option<Route>>),
    NextRound,
    Verify,
    AwaitVerified {
        passed: Due,
        asked: Due,
    },
    LookUp(Due),
    AwaitSubscriptions(Due),
    Send(Due, HashMap<Arn, Known>),
    AwaitDelivered(Due),
    Place,
    AwaitReading(Duration),
    PlaceWithEstimate(Duration),
    AwaitRequeue(Placing, Duration),
    Move(Placing, Duration),
    AwaitMoved(Placing),
    EndRound,
    Share,
    AwaitShared,
    Finish,
    AwaitFinished,
    HideUnarchived,
    AwaitHiddenUnarchived(Vec<(usize, u64)>),
    Done,
}

/// Letters whose retry is due.
pub(super) type Due = Vec<(usize, Retry)>;

impl<'m> Batch<'m> {
    pub(super) fn new(machine: &'m Machine, letters: Vec<Letter>, deadline: Duration) -> Self {
        Self {
            machine,
            time: Budget::until(deadline, letters.len()),
            deadline,
            cases: Vec::new(),
            stage: if letters.is_empty() { Stage::Done } else { Stage::Begin(letters) },
            order: Order::default(),
            round: Vec::new(),
            begun: None,
            requeue_works: true,
            archiving: None,
            archive_asked: None,
            hiding: None,
            notices: Vec::new(),
        }
    }

    /// Returns the actions that are to be done now; none where answers are waited for, or at the end.
    pub fn poll(&mut self, now: Now) -> Vec<(ActionId, Action)> {
        let mut asked: Vec<_> = self.next_stage(now).into_iter().collect();
        if matches!(self.stage, Stage::AwaitFinished) {
            asked.extend(self.archive_on(now));
            if self.archiving.is_none() && self.hiding.is_none() {
                self.stage = Stage::HideUnarchived;
                asked.extend(self.next_stage(now));
            }
        }
        asked
    }

    /// Takes the answer to an action. One of another kind than was asked counts as an answer that says nothing.
    pub fn take(&mut self, id: ActionId, answer: Answer, now: Now) {
        match id.0 {
            Chain::Stages => self.stage_answered(answer, now),
            Chain::Archive => self.archive_answered(answer),
            Chain::Hide => {
                let hidden = self.hiding.take().unwrap_or_default();
                let answers = results(answer, hidden.len());
                for (index, answer) in hidden.into_iter().zip(answers) {
                    self.cases[index].undone = answer.err().map(|failure| (NotDone::Hide, failure));
                }
            }
        }
    }

    /// Returns what happened besides, since it was asked last.
    pub fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// The report of each letter, in the order of the batch.
    #[must_use]
    pub fn into_reports(self, now: Timestamp) -> Vec<Report> {
        self.cases.into_iter().map(|case| case.report(now)).collect()
    }

    pub(super) fn is_active(&self) -> bool {
        self.machine.config.mode == Mode::Active
    }

    pub(super) fn queue(&self) -> Option<Arn> {
        self.cases.first().map(|case| case.letter.sqs.queue.clone())
    }

    /// Takes note of what queues say.
    pub(super) fn queues(&mut self, answer: Answer) -> HashMap<Arn, QueueAttributes> {
        let Answer::Queues { known, unread } = answer else { return HashMap::new() };
        self.machine.knowledge().read(&self.machine.config, &known);
        let notice = |(queue, failure)| Notice::QueueUnreadable { queue, failure };
        self.notices.extend(unread.into_iter().map(notice));
        known
    }

    /// Goes on until an answer is needed.
    fn next_stage(&mut self, now: Now) -> Option<(ActionId, Action)> {
        loop {
            let stage = std::mem::replace(&mut self.stage, Stage::Done);
            let (next, action) = match stage {
                Stage::Begin(letters) => self.begin(letters, now),
                Stage::HideForInvocation => self.hide_for_invocation(now),
                Stage::Discover => self.discover(now),
                Stage::DeliveryPolicies => self.read_delivery_policies(now),
                Stage::NextRound => (self.next_round(now), None),
                Stage::Verify => self.verify(now),
                Stage::LookUp(due) => self.look_up(due, now),
                Stage::Send(due, known) => self.send(due, &known, now),
                Stage::Place => self.place(now),
                Stage::PlaceWithEstimate(until) => self.place_with_estimate(until, now),
                Stage::Move(placing, until) => self.make_moves(placing, until),
                Stage::EndRound => {
                    for &index in self.round.iter().filter(|index| self.cases[**index].blocks()) {
                        self.order.block(index, ());
                    }
                    (Stage::NextRound, None)
                }
                Stage::Share => self.look_at_sharing(),
                Stage::Finish => self.finish(now),
                Stage::HideUnarchived => self.hide_unarchived(now),
                waiting => {
                    self.stage = waiting;
                    return None;
                }
            };
            self.stage = next;
            let id = if matches!(self.stage, Stage::AwaitFinished) { Chain::Hide } else { Chain::Stages };
            if let Some(action) = action {
                return Some((ActionId(id), action));
            }
            if matches!(self.stage, Stage::AwaitFinished) {
                return None;
            }
        }
    }

    fn stage_answered(&mut self, answer: Answer, now: Now) {
        let stage = std::mem::replace(&mut self.stage, Stage::Done);
        self.stage = match stage {
            Stage::AwaitQueues(letters) => {
                let known = self.queues(answer);
                self.queues_known(letters, &known, now)
            }
            Stage::AwaitHiddenForInvocation(near, run) => {
                let answers = results(answer, near.len());
                for (index, _) in near.into_iter().zip(answers).filter(|(_, answer)| answer.is_ok()) {
                    self.cases[index].shows_in = run;
                }
                self.resume();
                Stage::Discover
            }
            Stage::AwaitDiscovered(asked) => self.discovered(asked, answer),
            Stage::AwaitDeliveryPolicies(routes) => {
                let Answer::Subscriptions(known) = answer else { return self.stage = Stage::NextRound };
                self.take_delivery_policies(&routes, &known);
                Stage::NextRound
            }
            Stage::AwaitVerified { passed, asked } => self.verified(passed, asked, answer, now),
            Stage::AwaitSubscriptions(due) => match answer {
                Answer::Subscriptions(known) => Stage::Send(due, known),
                _ => Stage::Send(due, HashMap::new()),
            },
            Stage::AwaitDelivered(sent) => self.delivered(sent, answer, now),
            Stage::AwaitReading(until) => {
                self.queues(answer);
                Stage::PlaceWithEstimate(until)
            }
            Stage::AwaitRequeue(placing, until) => {
                let known = self.queues(answer);
                self.move_away(placing, &known, until, now)
            }
            Stage::AwaitMoved(placing) => self.moved(placing, answer, now),
            Stage::AwaitShared => {
                let Answer::Shared(shared) = answer else { return self.stage = Stage::Finish };
                let notice =
                    |queue: Arn| Notice::SharedWithRaw { advice: checkup::advice_on_sharing(&queue), queue };
                self.notices.extend(shared.into_iter().map(notice));
                Stage::Finish
            }
            Stage::AwaitHiddenUnarchived(hidings) => {
                let answers = results(answer, hidings.len());
                for ((index, seconds), answer) in hidings.into_iter().zip(answers) {
                    self.cases[index].hidden = answer.is_ok().then_some(seconds);
                }
                Stage::Done
            }
            other => other,
        };
    }

    /// Asks for the attributes of the queues that the batch needs.
    fn begin(&mut self, letters: Vec<Letter>, now: Now) -> (Stage, Option<Action>) {
        let queues =
            letters.iter().flat_map(|letter| [Some(letter.sqs.queue.clone()), letter.sqs.source_queue()]);
        let queues = queues.flatten().collect();
        let until = half_of(now.elapsed, self.time.deliver);
        (Stage::AwaitQueues(letters), Some(Action::LookUpQueues { queues, again: false, until }))
    }

    /// Makes cases of the letters, now that their queues are known.
    fn queues_known(
        &mut self,
        letters: Vec<Letter>,
        known: &HashMap<Arn, QueueAttributes>,
        now: Now,
    ) -> Stage {
        let config = &self.machine.config;
        let mut knowledge = self.machine.knowledge();
        let of = |queue: &Arn| known.get(queue).copied().unwrap_or_default();
        if let Some(queue) = letters.first().map(|letter| letter.sqs.queue.clone()) {
            let attributes = of(&queue);
            // Nobody checks a queue that does not tell, so that the next batch can.
            if attributes.retention.is_some() && knowledge.checked.insert(queue.clone()) {
                let left = self.deadline.saturating_sub(now.elapsed);
                let findings = checkup::findings(config, &queue, &attributes, &letters, left);
                let notice = |finding| Notice::BadlySetUp { queue: queue.clone(), finding };
                self.notices.extend(findings.into_iter().map(notice));
            }
        }
        let facts = |letter: &Letter| {
            let default = Facts::default();
            Facts {
                retention: of(&letter.sqs.queue).retention.unwrap_or(default.retention),
                source_max_receives: letter.sqs.source_queue().and_then(|source| of(&source).max_receives),
                ceiling: config.ceiling,
                ..default
            }
        };
        let case = |letter: Letter| {
            let (facts, attributes) = (facts(&letter), of(&letter.sqs.queue));
            let mut case = Case::new(&config.policy, facts, letter);
            case.shows_in = ending::visibility_timeout(attributes);
            case
        };
        self.cases = letters.into_iter().map(case).collect();
        Stage::HideForInvocation
    }

    /// Hides letters near their end for this invocation only.
    fn hide_for_invocation(&mut self, now: Now) -> (Stage, Option<Action>) {
        let timeout = self.cases.first().map_or(0, |case| case.shows_in);
        let left = self.deadline.saturating_sub(now.elapsed);
        let (near, run) = ending::near_their_end(&self.cases, timeout, left, now.at);
        if near.is_empty() || !self.is_active() {
            self.resume();
            return (Stage::Discover, None);
        }
        let letters = near.iter().map(|index| (self.cases[*index].letter.clone(), run)).collect();
        let until = half_of(now.elapsed, self.time.deliver);
        (Stage::AwaitHiddenForInvocation(near, run), Some(Action::Hide { letters, until }))
    }

    /// Takes up what the archive did not take before.
    fn resume(&mut self) {
        if self.is_active() {
            let knowledge = self.machine.knowledge();
            for case in &mut self.cases {
                if let Some(unarchived) = knowledge.unarchived.of(&case.letter.sqs) {
                    case.resume(unarchived);
                }
            }
        }
    }

    /// Finds the subscription of letters that name none, where their rule asks for it.
    fn discover(&mut self, now: Now) -> (Stage, Option<Action>) {
        let needs = |index: &usize| self.cases[*index].needs_discovery();
        let asked: Vec<usize> = (0..self.cases.len()).filter(needs).collect();
        if asked.is_empty() {
            return (Stage::DeliveryPolicies, None);
        }
        let search = |index: &usize| {
            let letter = &self.cases[*index].letter;
            (letter.dead_letter_queue().clone(), letter.first_arrival())
        };
        let searches = asked.iter().map(search).collect();
        let until = half_of(now.elapsed, self.time.deliver);
        (Stage::AwaitDiscovered(asked), Some(Action::Discover { searches, until }))
    }

    /// Letters for which nobody can say yet stay in their queue untouched: the search goes on next time.
    fn discovered(&mut self, asked: Vec<usize>, answer: Answer) -> Stage {
        let answers = if let Answer::Discovered(answers) = answer { answers } else { Vec::new() };
        let active = self.is_active();
        let answers = answers.into_iter().chain(std::iter::repeat_with(|| Err(no_answer())));
        for (index, answer) in asked.into_iter().zip(answers) {
            let case = &mut self.cases[index];
            match answer {
                Ok(found) => case.facts.discovered = found,
                Err(failure) => {
                    case.failure = Some(failure);
                    if active {
                        case.disposition = Disposition::OutOfTime;
                        case.detail = Some("its subscription could not be searched for in time".to_owned());
                    }
                }
            }
        }
        Stage::DeliveryPolicies
    }

    /// Reads the delivery policies of subscriptions, for rules that go by them.
    fn read_delivery_policies(&mut self, now: Now) -> (Stage, Option<Action>) {
        self.order = Order::new(self.cases.iter().map(Case::fifo_group));
        let route = |case: &Case<'_>| {
            let route = case.route_of_delivery_policy()?;
            let refused = refusal_at_sight(&route, &case.letter, case.letter.dead_letter_queue());
            refused.is_none().then_some(route)
        };
        let routes: Vec<_> = self.cases.iter().map(route).collect();
        let subscriptions = subscriptions(routes.iter().flatten());
        if subscriptions.is_empty() {
            return (Stage::NextRound, None);
        }
        let until = half_of(now.elapsed, self.time.deliver);
        let action = Action::LookUpSubscriptions { subscriptions, until };
        (Stage::AwaitDeliveryPolicies(routes), Some(action))
    }

    fn take_delivery_policies(&mut self, routes: &[Option<Route>], known: &HashMap<Arn, Known>) {
        for (case, route) in self.cases.iter_mut().zip(routes) {
            let Some(arn) = route.as_ref().and_then(Route::subscription) else { continue };
            let Some(Ok(Some(subscription))) = known.get(arn) else { continue };
            let json = subscription.delivery_policy.as_deref();
            case.facts.subscription_delivery = json.and_then(DeliveryPolicy::from_effective);
        }
    }

    /// Asks whether publishers of a raw subscription's topic can write letters of other subscriptions of a queue.
    fn look_at_sharing(&mut self) -> (Stage, Option<Action>) {
        let queues = checkup::open_to_forgery(&self.machine.config.policy, &self.cases);
        if queues.is_empty() {
            return (Stage::Finish, None);
        }
        (Stage::AwaitShared, Some(Action::LookUpSharing { queues }))
    }
}

/// The results of archiving or hiding so many letters. What was not answered has failed.
pub(super) fn results(answer: Answer, count: usize) -> Vec<Result<(), Failure>> {
    let mut results = match answer {
        Answer::Archived(results) | Answer::Hidden(results) => results,
        _ => Vec::new(),
    };
    results.resize_with(count, || Err(no_answer()));
    results
}

pub(super) fn no_answer() -> Failure {
    Failure::ours(FailureClass::Transient, "NoAnswer")
}
