//! The opening of a batch: the questions about its queues, and about letters that name no subscription.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::action::{
    Action, ActionAnswer, BatchNotice, InvocationNow, QueueAttributes, RequiredFreshness, SendResult,
    SubscriptionLookup, no_answer, whole,
};
use super::group_order::GroupOrder;
use super::health::{LookupQuestion, QuestionEnd, QuestionTurn};
use super::knowledge::InstanceKnowledge;
use super::pending_letter::{Disposition, PendingLetter, SEARCH_FAILED};
use super::resolve::subscriptions;

use super::state::{Batch, BatchStage, QueueInquiry, RoundPass};
use super::time::half_of;
use super::{expiry, queue_check};
use crate::arn::Arn;
use crate::failure::{Failure, FailureClass, SEARCH_UNFINISHED};
use crate::letter::Letter;
use crate::policy::{DeliveryPolicy, LetterFacts, Retention, Route};

/// The time for the delivery policies of subscriptions. Without them an attempt can be made, but its plan is not known.
const LONGEST_FOR_POLICIES: Duration = Duration::from_secs(3);

/// The number of times that a queue is asked in the first batch that needs its attributes.
const FIRST_TRIES: u32 = 3;

impl Batch<'_> {
    /// Asks for the attributes of the queues that the batch needs.
    pub(super) fn begin(&mut self, letters: Vec<Letter>, now: InvocationNow) -> (BatchStage, Option<Action>) {
        let queues = InstanceKnowledge::queues_of(&letters);
        let first = self.memory.knowledge.ask(&queues, now.age);
        // A queue that hung keeps its last answer, and none that has one waits for long.
        let asking = |queue: &Arn| self.memory.health.asking(&LookupQuestion::Queue(queue.clone()), now.age);
        let asking = queues.iter().map(asking).max().unwrap_or(QuestionTurn::AtOnce);
        let until = self.begin_to_ask(if first.is_empty() { asking } else { QuestionTurn::Later }, now);
        let tries = if first.is_empty() { 1 } else { FIRST_TRIES };
        let inquiry = QueueInquiry { known: HashMap::new(), first, tries, until };
        let (inquiry, action) = inquiry.ask(queues, RequiredFreshness::Kept, now.elapsed);
        (BatchStage::AwaitQueues(letters, inquiry), Some(action))
    }

    /// Takes over attributes of queues. Asks those again that were never asked before and did not answer.
    pub(super) fn queues_answered(
        &mut self,
        letters: Vec<Letter>,
        mut inquiry: QueueInquiry,
        answer: ActionAnswer,
        now: InvocationNow,
    ) -> BatchStage {
        if let ActionAnswer::Queues { known, unread } = &answer {
            let began = self.age_when_asked(now);
            let end = |(queue, attributes): (&Arn, &QueueAttributes)| {
                let is_unread = unread.iter().any(|(unread, _)| unread == queue);
                let is_read = attributes.read.is_some_and(|read| read >= began);
                let end = if is_unread { QuestionEnd::Failed } else { QuestionEnd::Answered };
                (is_unread || is_read).then(|| (LookupQuestion::Queue(queue.clone()), end))
            };
            let ends = known.iter().filter_map(end).collect();
            self.asked(ends, now);
        }
        inquiry.known.extend(self.queues(answer));
        let is_unread = |queue: &&Arn| !inquiry.known.get(*queue).is_some_and(QueueAttributes::were_read);
        let unread: BTreeSet<_> = inquiry.first.iter().filter(is_unread).cloned().collect();
        if unread.is_empty() || inquiry.tries == 0 || now.elapsed >= inquiry.until {
            return self.queues_known(letters, &inquiry.known, now);
        }
        BatchStage::AskQueuesAgain(letters, inquiry, unread)
    }

    /// Makes cases of the letters, now that their queues are known.
    pub(super) fn queues_known(
        &mut self,
        letters: Vec<Letter>,
        known: &HashMap<Arn, QueueAttributes>,
        now: InvocationNow,
    ) -> BatchStage {
        let config = self.config;
        let knowledge = &mut self.memory.knowledge;
        let of = |queue: &Arn| known.get(queue).cloned().unwrap_or_default();
        if let Some(queue) = letters.first().map(|letter| letter.sqs.queue.clone()) {
            let attributes = of(&queue);
            // A queue whose attributes cannot be read stays unchecked, so that the next batch checks it.
            if attributes.retention.is_some() && knowledge.checked.insert(queue.clone()) {
                let left = self.deadline.saturating_sub(now.elapsed);
                let findings = queue_check::findings(config, &queue, &attributes, &letters, left);
                let notice = |finding| BatchNotice::BadlySetUp { queue: queue.clone(), finding };
                self.notices.extend(findings.into_iter().map(notice));
            }
        }
        let facts = |letter: &Letter| {
            let default = LetterFacts::default();
            let source = letter.sqs.source_queue().map(|source| of(&source));
            LetterFacts {
                retention: knowledge.retention(&letter.sqs.queue, of(&letter.sqs.queue).retention, now.age),
                source_max_receives: source.as_ref().and_then(|source| source.max_receives),
                source_unread: source.is_some_and(|source| !source.were_read()),
                ceiling: config.ceiling,
                schedule_from: config.schedule_from,
                ..default
            }
        };
        let case = |letter: Letter| {
            let (facts, attributes) = (facts(&letter), of(&letter.sqs.queue));
            let mut case = PendingLetter::new(&config.policy, facts, letter);
            case.shows_in = expiry::visibility_timeout(&attributes);
            case
        };
        self.cases = letters.into_iter().map(case).collect();
        if let Some(case) = self.cases.iter().find(|case| case.facts.retention == Retention::Assumed) {
            self.retention_assumed = true;
            self.notices.extend(knowledge.assume(&case.letter.sqs.queue));
        }
        self.apply_overrides(now.moment());
        self.apply_recoveries(now.at);
        BatchStage::HideForInvocation
    }

    /// Hides letters near their end for this invocation only.
    pub(super) fn hide_for_invocation(&mut self, now: InvocationNow) -> (BatchStage, Option<Action>) {
        let timeout = self.cases.first().map_or(0, |case| case.shows_in);
        let left = self.deadline.saturating_sub(now.elapsed);
        let (near, run) = expiry::near_their_end(&self.cases, timeout, left, now.at);
        if near.is_empty() || !self.is_active() {
            self.resume();
            return (BatchStage::Discover, None);
        }
        let letters = near.iter().map(|index| (self.cases[*index].letter.clone(), run)).collect();
        let until = half_of(now.elapsed, self.time.deliver);
        (BatchStage::AwaitHiddenForInvocation(near, run), Some(Action::Hide { letters, until }))
    }

    /// Takes up the letters that the archive did not accept before, except those whose override to give up was
    /// taken back, those that an override holds, those that a later override sends, and those that only a guess of
    /// the retention has ended that is known now.
    pub(super) fn resume(&mut self) {
        if self.is_active() {
            let knowledge = &mut self.memory.knowledge;
            for case in &mut self.cases {
                match knowledge.unarchived.of(&case.letter.sqs) {
                    Some(unarchived)
                        if case.is_sent_by_override_since(unarchived.at.at)
                            || case.is_taken_back(&Disposition::Archive(unarchived.context.reason))
                            || (unarchived.is_guess && case.facts.retention.is_read()) =>
                    {
                        knowledge.unarchived.forget(&case.letter.sqs);
                    }
                    Some(_) if case.is_held_by_override() => {}
                    Some(unarchived) => case.resume(unarchived),
                    None => {}
                }
            }
        }
    }

    /// Finds the subscription of letters that name none, if their rule asks for it.
    pub(super) fn discover(&mut self, now: InvocationNow) -> (BatchStage, Option<Action>) {
        let needs = |index: &usize| self.cases[*index].needs_discovery();
        let asked: Vec<usize> = (0..self.cases.len()).filter(needs).collect();
        if asked.is_empty() {
            return (BatchStage::DeliveryPolicies, None);
        }
        let search = |index: &usize| {
            let letter = &self.cases[*index].letter;
            (letter.dead_letter_queue().clone(), letter.first_arrival())
        };
        let searches = asked.iter().map(search).collect();
        let health = &self.memory.health;
        let asking = self.queue().map(|queue| health.asking(&LookupQuestion::Search(queue), now.age));
        // A search of a large account takes minutes. It works, so it has the time of what is slow.
        let keeps_others = asked.len() < self.cases.len();
        let asking = match asking.unwrap_or(QuestionTurn::AtOnce) {
            QuestionTurn::AtOnce if keeps_others && health.slow_must_wait(now.age) => QuestionTurn::NotNow,
            asking => asking,
        };
        let mut until = self.begin_to_ask(asking, now);
        if asking == QuestionTurn::AtOnce && !keeps_others {
            until = half_of(now.elapsed, self.time.deliver);
        }
        (BatchStage::AwaitDiscovered(asked), Some(Action::Discover { searches, until }))
    }

    /// Takes over the subscriptions that were found. A letter without an answer stays in its queue untouched,
    /// and the search goes on next time.
    pub(super) fn discovered(
        &mut self,
        asked: Vec<usize>,
        answer: ActionAnswer,
        now: InvocationNow,
    ) -> BatchStage {
        let answers = if let ActionAnswer::Discovered(answers) = answer { answers } else { Vec::new() };
        let active = self.is_active();
        let answers = whole(answers, asked.len(), || Err(no_answer()));
        self.search_ended(&answers, now);
        for (index, answer) in asked.into_iter().zip(answers) {
            let case = &mut self.cases[index];
            case.searched = true;
            match answer {
                Ok(found) => case.facts.discovered = found,
                Err(failure) => {
                    case.failure = Some(failure);
                    if active {
                        case.disposition = Disposition::OutOfTime;
                        case.detail = Some(SEARCH_FAILED.to_owned());
                    }
                }
            }
        }
        BatchStage::DeliveryPolicies
    }

    /// Takes note of what a search has cost. One that only has to go on has worked.
    fn search_ended(&mut self, answers: &[Result<Option<Arn>, Failure>], now: InvocationNow) {
        // It was not asked if it had no time.
        let Some(queue) = self.queue().filter(|_| self.asked_for != Some(Duration::ZERO)) else { return };
        let failure = answers.iter().find_map(|answer| answer.as_ref().err());
        if failure.is_some_and(|failure| failure.code == SEARCH_UNFINISHED) {
            let began = self.age_when_asked(now);
            self.memory.health.worked_slowly(began, now.age);
        }
        let failed = failure.filter(|failure| failure.code != SEARCH_UNFINISHED);
        let end = if failed.is_none() { QuestionEnd::Answered } else { QuestionEnd::Failed };
        self.asked(vec![(LookupQuestion::Search(queue), end)], now);
    }

    /// Looks up subscriptions before anything is decided: for rules that use their delivery policies, and for overrides that
    /// ask for targets.
    pub(super) fn read_delivery_policies(&mut self, now: InvocationNow) -> (BatchStage, Option<Action>) {
        self.order = GroupOrder::new(self.cases.iter().map(PendingLetter::fifo_group));
        let routes: Vec<_> = self.cases.iter().map(PendingLetter::route_of_delivery_policy).collect();
        let mut subscriptions = subscriptions(routes.iter().flatten());
        subscriptions.extend(self.subscriptions_for_overrides(now));
        let asking =
            |arn: &Arn| self.memory.health.asking(&LookupQuestion::Subscription(arn.clone()), now.age);
        subscriptions.retain(|arn| asking(arn) != QuestionTurn::NotNow);
        if subscriptions.is_empty() {
            self.take_delivery_policies(&routes, &HashMap::new(), now);
            return (BatchStage::NextRound, None);
        }
        let until = self.begin_to_ask(QuestionTurn::Later, now).min(now.elapsed + LONGEST_FOR_POLICIES);
        let action = Action::LookUpSubscriptions { subscriptions, until };
        (BatchStage::AwaitDeliveryPolicies(routes), Some(action))
    }

    /// Returns the subscriptions whose endpoints overrides ask for and that were not seen yet.
    fn subscriptions_for_overrides(&self, now: InvocationNow) -> BTreeSet<Arn> {
        let memory = &self.memory;
        if !self.config.overrides || !memory.overrides.ask_for_target(now.at) {
            return BTreeSet::new();
        }
        let undecided = self.cases.iter().filter(|case| case.is_undecided());
        let routes = undecided.filter_map(PendingLetter::route_by_rule);
        let routes: Vec<_> = routes.filter(|route| memory.targets.must_look_up(route, now.age)).collect();
        subscriptions(routes.iter())
    }

    /// Takes over the delivery policies. A subscription that does not exist has none.
    pub(super) fn take_delivery_policies(
        &mut self,
        routes: &[Option<Route>],
        known: &HashMap<Arn, SubscriptionLookup>,
        now: InvocationNow,
    ) {
        // There is no second pass here.
        self.pass = RoundPass::Second;
        self.subscriptions_asked(known, now);
        if self.memory.overrides.ask_for_target(now.at) {
            self.apply_overrides(now.moment());
        }
        let knowledge = &mut self.memory.knowledge;
        for (case, route) in self.cases.iter_mut().zip(routes) {
            let Some(arn) = route.as_ref().and_then(Route::subscription) else { continue };
            match delivery_policy(known.get(arn)) {
                Ok(policy) => {
                    case.facts.subscription_delivery = policy;
                    knowledge.policy_read(arn);
                }
                Err(failure) => {
                    case.facts.delivery_unread = true;
                    self.notices.extend(knowledge.policy_unread(arn, failure));
                }
            }
        }
    }
}

impl QueueInquiry {
    /// Asks these queues. What is left of the time is divided by the tries that are left.
    pub(super) fn ask(
        mut self,
        queues: BTreeSet<Arn>,
        suffices: RequiredFreshness,
        elapsed: Duration,
    ) -> (Self, Action) {
        let until = elapsed + self.until.saturating_sub(elapsed) / self.tries.max(1);
        self.tries = self.tries.saturating_sub(1);
        (self, Action::LookUpQueues { queues, suffices, until })
    }
}

/// Returns the delivery policy of a subscription, if it has one, or the reason why that cannot be told.
fn delivery_policy(known: Option<&SubscriptionLookup>) -> Result<Option<DeliveryPolicy>, Option<Failure>> {
    match known {
        Some(Ok(None)) => Ok(None),
        Some(Ok(Some(subscription))) => {
            let unreadable = || Some(Failure::ours(FailureClass::ActionRequired, "DeliveryPolicyUnreadable"));
            let read = |json: &String| DeliveryPolicy::from_effective(json).ok_or_else(unreadable);
            subscription.delivery_policy.as_ref().map(read).transpose()
        }
        Some(Err(SendResult::Failed(failure))) => Err(Some(failure.clone())),
        Some(Err(_)) | None => Err(None),
    }
}
