//! Doing it: a batch in, an outcome for every letter out.
//!
//! [`Redrive::handle`] asks the policy about each letter, sends what is due, archives what cannot be
//! saved and hides the rest, with as few calls as the batch allows. Nothing that happens to a single
//! letter fails the batch: each ends in exactly one [`Outcome`], and only letters that are safe
//! elsewhere may be deleted.
//!
//! Within a FIFO queue letters of one group go one after the other, in rounds: a letter that does
//! not leave by delivery holds the rest of its group. A standard queue is one round.

mod case;
mod checkup;
mod deliver;
mod ending;
mod outcome;
mod queues;
mod requeue;
mod resolve;
mod signatures;
mod throttle;
mod unarchived;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

pub use outcome::{NotDone, Outcome, Report, response};

use crate::archive::{Archive, ArchiveContext, Batch};
use crate::arn::Arn;
use crate::clients::Clients;
use crate::clock::Clock;
use crate::delivery::{Dispatcher, Reach, Subscriptions};
use crate::failure::{Failure, FailureClass};
use crate::letter::{Letter, SqsMessage};
use crate::policy::{Decision, DeliveryPolicy, Facts, Policy, Route, plus, seconds_until};
use crate::settings::Mode;
use crate::signature::Certificates;
use crate::visibility::{Hiding, hide};
use case::{Case, Disposition, rounds};
use queues::{QueueAttributes, Queues};
use requeue::InFlightEstimates;
use resolve::{refusal_at_sight, subscriptions};
use throttle::Throttle;
use unarchived::{Memory, Unarchived};

/// Everything that handling a batch takes.
#[derive(Debug)]
pub struct Redrive {
    policy: Policy,
    archive: Archive,
    mode: Mode,
    requeue: Option<Arn>,
    ceiling: u64,
    estimates: InFlightEstimates,
    checked: Mutex<HashSet<Arn>>,
    unarchived: Memory,
    sqs: aws_sdk_sqs::Client,
    dispatcher: Dispatcher,
    subscriptions: Subscriptions,
    queues: Queues,
    certificates: Certificates,
    throttle: Throttle,
    clock: Clock,
}

/// What [`Redrive`] is made of.
#[derive(Debug)]
pub struct Parts {
    /// The redrive policy.
    pub policy: Policy,
    /// Where letters rest that cannot be saved.
    pub archive: Archive,
    /// Whether anything is done at all.
    pub mode: Mode,
    /// The queue for letters that cannot wait in their own; its marks are believed on where a letter came
    /// from.
    pub requeue: Option<Arn>,
    /// Messages in flight that SQS allows in a queue.
    pub in_flight_limit: u64,
    /// The longest that a message is hidden at once, seconds.
    pub ceiling: u64,
    /// The AWS clients.
    pub clients: Clients,
    /// SNS's certificates, for rules that verify signatures.
    pub certificates: Certificates,
    /// Which addresses HTTP/S posts may reach.
    pub reach: Reach,
    /// How many instances of the function may run at once; they share rate limits.
    pub instances: u32,
    /// The time.
    pub clock: Clock,
}

/// One call of the function.
#[derive(Debug, Clone, Copy)]
pub struct Invocation<'a> {
    /// Lambda's id of it.
    pub request_id: &'a str,
    /// When Lambda ends it.
    pub deadline: Instant,
}

impl Redrive {
    /// Joins the parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { policy, archive, mode, requeue, in_flight_limit, ceiling, .. } = parts;
        let Parts { clients, certificates, reach, instances, clock, .. } = parts;
        let dispatcher = Dispatcher::new(&clients, reach);
        // The requeue has a mapping of its own, with as many instances again.
        let deliverers = if requeue.is_some() { instances.saturating_mul(2) } else { instances };
        let Clients { sns, sqs, .. } = clients;
        Self {
            policy,
            archive,
            mode,
            requeue,
            ceiling,
            estimates: InFlightEstimates::new(in_flight_limit, deliverers),
            checked: Mutex::default(),
            unarchived: Memory::default(),
            dispatcher,
            subscriptions: Subscriptions::new(sns, clock.clone()),
            queues: Queues::new(sqs.clone(), clock.clone()),
            certificates,
            throttle: Throttle::new(deliverers),
            sqs,
            clock,
        }
    }

    /// The redrive policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether anything is done at all.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Handles a batch; the reports are in its order. Never fails.
    pub async fn handle(&self, messages: Vec<SqsMessage>, invocation: Invocation<'_>) -> Vec<Report> {
        let time = Budget::until(invocation.deadline, messages.len());
        let requeue = self.requeue.as_ref();
        let letters: Vec<_> =
            messages.into_iter().map(|message| self.policy.read(message, requeue)).collect();
        let Some(queue) = letters.first().map(|letter| letter.sqs.queue.clone()) else {
            return Vec::new();
        };
        let attributes = self.queues.look_up(queues_of(&letters), half_of(time.deliver)).await;
        self.check_up(&queue, &attributes, &letters, invocation.deadline);
        let mut cases: Vec<_> = letters
            .into_iter()
            .map(|letter| Case::new(&self.policy, self.facts(&letter, &attributes), letter))
            .collect();
        let of_queue = attributes.get(&queue).copied().unwrap_or_default();
        let early = half_of(time.deliver);
        self.hide_for_invocation(&mut cases, &queue, of_queue, invocation.deadline, early).await;
        self.resume(&mut cases);
        self.discover(&mut cases, half_of(time.deliver)).await;
        self.read_delivery_policies(&mut cases, half_of(time.deliver)).await;
        let (mut blocked, mut requeue_works, mut begun) = (HashSet::new(), true, None);
        for round in rounds(&cases) {
            self.decide(&mut cases, &round, &blocked);
            if self.mode == Mode::Active {
                self.deliver(&mut cases, &round, time.deliver, &mut begun).await;
                self.place(&mut cases, &round, &queue, half_of(time.finish), &mut requeue_works).await;
            }
            blocked.extend(round.iter().filter_map(|index| cases[*index].blocks().map(str::to_owned)));
        }
        self.check_sharing(&cases);
        self.archive_what_ends(&mut cases);
        // What the archive does not take is hidden afterwards, so it does not get all of the time.
        let batch = Batch {
            queue: &queue,
            request_id: invocation.request_id,
            now: self.clock.now(),
            until: half_of(time.finish),
        };
        let (archived, hidden) =
            tokio::join!(self.archive(&cases, batch), self.hide(&cases, &queue, time.finish));
        self.hide_unarchived(&mut cases, &archived, &queue, time.finish).await;
        let now = self.clock.now();
        let reports = cases.into_iter().enumerate().map(|(index, case)| {
            let failed = archived.get(&index).or(hidden.get(&index));
            case.report(failed.cloned(), now)
        });
        reports.collect()
    }

    fn facts(&self, letter: &Letter, attributes: &HashMap<Arn, QueueAttributes>) -> Facts {
        let of = |arn: &Arn| attributes.get(arn).copied().unwrap_or_default();
        let source = letter.sqs.source_queue();
        let default = Facts::default();
        Facts {
            retention: of(&letter.sqs.queue).retention.unwrap_or(default.retention),
            source_max_receives: source.and_then(|source| of(&source).max_receives),
            ceiling: self.ceiling,
            ..default
        }
    }

    /// Takes up what the archive did not take before.
    fn resume(&self, cases: &mut [Case<'_>]) {
        if self.mode == Mode::Active {
            for case in cases {
                if let Some(unarchived) = self.unarchived.of(&case.letter.sqs) {
                    case.resume(unarchived);
                }
            }
        }
    }

    /// Remembers and hides what the archive did not take, and forgets what it took. Within a FIFO group only the first
    /// is hidden: while the others were in flight they would block it.
    async fn hide_unarchived(
        &self,
        cases: &mut [Case<'_>],
        undone: &HashMap<usize, (NotDone, Failure)>,
        queue: &Arn,
        until: Instant,
    ) {
        let now = self.clock.now();
        let mut blocked: HashSet<&str> = HashSet::new();
        let (mut indexes, mut hidings) = (Vec::new(), Vec::new());
        for (index, case) in cases.iter().enumerate() {
            let first = case.blocks().is_none_or(|group| blocked.insert(group));
            let Some(context) = case.context() else { continue };
            if !undone.contains_key(&index) {
                self.unarchived.forget(&case.letter.sqs);
                continue;
            }
            let unarchived = Unarchived::of(&context, case.unarchived.as_ref(), now, case.end());
            let seconds = if first { unarchived.hide } else { 0 };
            self.unarchived.keep(&case.letter.sqs, unarchived, now);
            indexes.push(index);
            hidings.push(Hiding { receipt_handle: &case.letter.sqs.receipt_handle, seconds });
        }
        let answers = hide(&self.sqs, queue, &hidings, until).await;
        let hidden: Vec<_> = hidings.iter().map(|hiding| hiding.seconds).collect();
        for ((index, seconds), answer) in indexes.into_iter().zip(hidden).zip(answers) {
            cases[index].hidden = answer.is_ok().then_some(seconds);
        }
    }

    /// Finds the subscription of letters that name none, where their rule asks for it. Letters for
    /// which nobody can say yet stay in their queue untouched: the search goes on next time.
    async fn discover(&self, cases: &mut [Case<'_>], until: Instant) {
        let mut unfinished: Option<Failure> = None;
        for case in cases.iter_mut().filter(|case| case.needs_discovery()) {
            // Once a search has failed nobody goes on with it here; older letters may still be covered.
            let until = if unfinished.is_none() { until } else { Instant::now() };
            let (dlq, arrived) = (case.letter.dead_letter_queue(), case.letter.first_arrival());
            match self.subscriptions.discover(dlq, arrived, until).await {
                Ok(found) => {
                    case.facts.discovered = found;
                    continue;
                }
                Err(failure) => case.failure = Some(unfinished.get_or_insert(failure).clone()),
            }
            if self.mode == Mode::Observe {
                continue;
            }
            case.disposition = Disposition::OutOfTime;
            case.detail = Some("its subscription could not be searched for in time".to_owned());
        }
    }

    /// Reads the delivery policies of subscriptions, for rules that go by them.
    async fn read_delivery_policies(&self, cases: &mut [Case<'_>], until: Instant) {
        let route = |case: &Case<'_>| {
            let route = case.route_of_delivery_policy()?;
            let refused = refusal_at_sight(&route, &case.letter, case.letter.dead_letter_queue());
            refused.is_none().then_some(route)
        };
        let routes: Vec<_> = cases.iter().map(route).collect();
        let known = self.subscriptions.look_up(subscriptions(routes.iter().flatten()), until).await;
        for (case, route) in cases.iter_mut().zip(&routes) {
            let Some(arn) = route.as_ref().and_then(Route::subscription) else { continue };
            let Some(Ok(Some(subscription))) = known.get(arn) else { continue };
            let json = subscription.delivery_policy.as_deref();
            case.facts.subscription_delivery = json.and_then(DeliveryPolicy::from_effective);
        }
    }

    /// Asks the policy about the letters of a round, but for those behind another of their group and
    /// those whose disposition is known already.
    fn decide(&self, cases: &mut [Case<'_>], round: &[usize], blocked: &HashSet<String>) {
        let now = self.clock.now();
        for &index in round {
            let case = &mut cases[index];
            let behind = case.fifo_group().is_some_and(|group| blocked.contains(group));
            if behind && self.mode == Mode::Active {
                case.disposition = Disposition::Held;
                continue;
            }
            let decision = match case.disposition {
                Disposition::Open => {
                    let verdict = case.rule.decide(&case.letter, &case.facts, now);
                    let decision = verdict.decision.clone();
                    case.verdict = Some(verdict);
                    decision
                }
                Disposition::Archive(reason) => Decision::Archive(reason, None),
                _ => continue,
            };
            match (self.mode, &case.disposition) {
                (Mode::Observe, _) => case.disposition = Disposition::Observed(decision),
                (Mode::Active, Disposition::Open) => case.settle(&decision, now),
                (Mode::Active, _) => {}
            }
        }
    }

    /// Archives; what the archive did not take is in the answer.
    async fn archive(&self, cases: &[Case<'_>], batch: Batch<'_>) -> HashMap<usize, (NotDone, Failure)> {
        let to_archive: Vec<(usize, (&Letter, ArchiveContext<'_>))> = cases
            .iter()
            .enumerate()
            .filter_map(|(index, case)| Some((index, (&case.letter, case.context()?))))
            .collect();
        // In the queue that it is read from, or came from, it would only go round.
        let goes_round = |letter: &Letter| {
            self.archive.is(&letter.sqs.queue) || self.archive.is(letter.dead_letter_queue())
        };
        let (round, to_archive): (Vec<_>, Vec<_>) =
            to_archive.into_iter().partition(|(_, (letter, _))| goes_round(letter));
        let mut undone = self.store(cases, to_archive, batch).await;
        let failure = Failure::ours(FailureClass::ActionRequired, "ArchiveIsDeadLetterQueue");
        undone.extend(round.into_iter().map(|(index, _)| (index, (NotDone::Archive, failure.clone()))));
        undone
    }

    /// Stores letters. An archive in S3 takes all of them or none; of one in SQS a letter may be refused, and then
    /// nothing of its FIFO group is stored after it.
    async fn store<'c>(
        &self,
        cases: &[Case<'_>],
        mut left: Vec<(usize, (&'c Letter, ArchiveContext<'c>))>,
        batch: Batch<'_>,
    ) -> HashMap<usize, (NotDone, Failure)> {
        let limit = match self.archive.queue() {
            None => None,
            Some(queue) => {
                let known = self.queues.look_up([queue.clone()].into(), half_of(batch.until)).await;
                known.get(queue).and_then(|attributes| attributes.max_message_bytes)
            }
        };
        let one_by_one = self.archive.queue().is_some() && batch.queue.is_fifo();
        let mut undone = HashMap::new();
        let mut blocked: HashMap<&str, Failure> = HashMap::new();
        while !left.is_empty() {
            let mut met = HashSet::new();
            let group = |index: &usize| cases[*index].fifo_group().filter(|_| one_by_one);
            let (now, later): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|(index, _)| group(index).is_none_or(|group| met.insert(group)));
            left = later;
            let (held, now): (Vec<_>, Vec<_>) = now
                .into_iter()
                .partition(|(index, _)| group(index).is_some_and(|group| blocked.contains_key(group)));
            undone.extend(held.into_iter().filter_map(|(index, _)| {
                let failure = blocked.get(group(&index)?)?.clone();
                Some((index, (NotDone::Archive, failure)))
            }));
            let (indexes, letters): (Vec<_>, Vec<_>) = now.into_iter().unzip();
            let answers = self.archive.store(&letters, batch, limit).await;
            for (index, (what, failure)) in failures(indexes, answers, NotDone::Archive) {
                blocked.extend(group(&index).map(|group| (group, failure.clone())));
                undone.insert(index, (what, failure));
            }
        }
        undone
    }

    /// Hides; what could not be hidden is in the answer. Held letters are shown again at once: SQS
    /// keeps them behind the hidden head of their group, and while they were in flight they would
    /// block that head.
    async fn hide(
        &self,
        cases: &[Case<'_>],
        queue: &Arn,
        until: Instant,
    ) -> HashMap<usize, (NotDone, Failure)> {
        let now = self.clock.now();
        let (indexes, hidings): (Vec<_>, Vec<_>) = cases
            .iter()
            .enumerate()
            .filter_map(|(index, case)| {
                // Deliveries took their time: what is sent is what is left of the wait.
                let seconds = match &case.disposition {
                    Disposition::Defer(deferral) => seconds_until(now, plus(case.decided, deferral.hide)),
                    Disposition::Held => 0,
                    _ => return None,
                };
                Some((index, Hiding { receipt_handle: &case.letter.sqs.receipt_handle, seconds }))
            })
            .unzip();
        let answers = hide(&self.sqs, queue, &hidings, until).await;
        failures(indexes, answers, NotDone::Hide)
    }
}

fn failures(
    indexes: Vec<usize>,
    answers: Vec<Result<(), Failure>>,
    what: NotDone,
) -> HashMap<usize, (NotDone, Failure)> {
    let pairs = indexes.into_iter().zip(answers);
    pairs.filter_map(|(index, answer)| Some((index, (what, answer.err()?)))).collect()
}

/// How the time of an invocation is divided.
struct Budget {
    /// No delivery goes on after this.
    deliver: Instant,
    /// Archive and queue must have answered by this.
    finish: Instant,
}

impl Budget {
    /// A fifth of the time, 10 s at most, is kept for archive and hiding: a letter whose retry was cut
    /// off must still be hidden. Of that, half a second and more for many letters is kept for the log
    /// lines and the answer.
    fn until(deadline: Instant, letters: usize) -> Self {
        let left = deadline.saturating_duration_since(Instant::now());
        let kept = (left / 5).min(Duration::from_secs(10));
        let lines = Duration::from_micros(200).saturating_mul(u32::try_from(letters).unwrap_or(u32::MAX));
        let answer = (kept / 2).min(Duration::from_millis(500) + lines);
        let before = |duration| deadline.checked_sub(duration).unwrap_or(deadline);
        Self { deliver: before(kept), finish: before(answer) }
    }
}

/// Half of the time until then: a look-up that hangs must leave the other letters time to go.
fn half_of(until: Instant) -> Instant {
    let now = Instant::now();
    now + until.saturating_duration_since(now) / 2
}

/// The queues whose attributes the batch needs.
fn queues_of(letters: &[Letter]) -> BTreeSet<Arn> {
    letters
        .iter()
        .flat_map(|letter| [Some(letter.sqs.queue.clone()), letter.sqs.source_queue()])
        .flatten()
        .collect()
}
