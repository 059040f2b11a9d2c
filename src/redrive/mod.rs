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
mod outcome;
mod queues;
mod route;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

pub use outcome::{NotDone, Outcome, Report, response};

use crate::archive::{Archive, Batch, Epitaph};
use crate::arn::Arn;
use crate::clock::Clock;
use crate::failure::{Failure, FailureClass};
use crate::letter::{Letter, SqsMessage};
use crate::policy::{ArchiveReason, Policy, QueueFacts, Retry, VISIBILITY_CEILING};
use crate::settings::Mode;
use crate::target::{Courier, Destination, Known, Parcel, Sent, Subscriptions};
use crate::telemetry;
use crate::visibility::{Hiding, hide};
use case::{Case, Fate, blocked_groups, rounds};
use queues::{QueueAttributes, Queues};
use route::{Route, Way, route, subscriptions, way};

/// Everything that handling a batch takes.
#[derive(Debug)]
pub struct Redrive {
    policy: Policy,
    archive: Archive,
    mode: Mode,
    requeue: Option<Arn>,
    ceiling: u64,
    sqs: aws_sdk_sqs::Client,
    courier: Courier,
    subscriptions: Subscriptions,
    queues: Queues,
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
    /// The queue whose marks are believed on where a letter came from.
    pub requeue: Option<Arn>,
    /// The client for queues.
    pub sqs: aws_sdk_sqs::Client,
    /// The client for topics and subscriptions.
    pub sns: aws_sdk_sns::Client,
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
        let Parts { policy, archive, mode, requeue, sqs, sns, clock } = parts;
        Self {
            policy,
            archive,
            mode,
            requeue,
            ceiling: VISIBILITY_CEILING,
            courier: Courier::new(sns.clone(), sqs.clone()),
            subscriptions: Subscriptions::new(sns, clock.clone()),
            queues: Queues::new(sqs.clone(), clock.clone()),
            sqs,
            clock,
        }
    }

    /// Hides letters for at most `seconds` at once, so that tests can see hops.
    #[must_use]
    pub fn with_ceiling(mut self, seconds: u64) -> Self {
        self.ceiling = seconds;
        self
    }

    /// Handles a batch; the reports are in its order. Never fails.
    pub async fn handle(&self, messages: Vec<SqsMessage>, invocation: Invocation<'_>) -> Vec<Report> {
        let time = Budget::until(invocation.deadline);
        let letters: Vec<_> = messages.into_iter().map(Letter::parse).collect();
        let Some(queue) = letters.first().map(|letter| letter.sqs.queue.clone()) else {
            return Vec::new();
        };
        let attributes = self.queues.look_up(queues_of(&letters), half_of(time.deliver)).await;
        let mut cases: Vec<_> =
            letters.into_iter().map(|letter| Case::new(self.facts(&letter, &attributes), letter)).collect();
        for round in rounds(&cases) {
            self.decide(&mut cases, &round);
            if self.mode == Mode::Active {
                self.deliver(&mut cases, &round, time.deliver).await;
            }
        }
        let batch = Batch {
            queue: &queue,
            request_id: invocation.request_id,
            now: self.clock.now(),
            until: time.finish,
        };
        let (archived, hidden) =
            tokio::join!(self.archive(&cases, batch), self.hide(&cases, &queue, time.finish));
        let now = self.clock.now();
        let reports = cases.into_iter().enumerate().map(|(index, case)| {
            let failed = archived.get(&index).or(hidden.get(&index));
            case.report(failed.cloned(), now)
        });
        reports.collect()
    }

    fn facts(&self, letter: &Letter, attributes: &HashMap<Arn, QueueAttributes>) -> QueueFacts {
        let of = |arn: &Arn| attributes.get(arn).copied().unwrap_or_default();
        let source = letter.sqs.source_queue();
        let default = QueueFacts::default();
        QueueFacts {
            retention: of(&letter.sqs.queue).retention.unwrap_or(default.retention),
            source_max_receives: source.and_then(|source| of(&source).max_receives),
            ceiling: self.ceiling,
        }
    }

    /// Asks the policy about the letters of a round, but for those behind another of their group.
    fn decide<'p>(&'p self, cases: &mut [Case<'p>], round: &[usize]) {
        let now = self.clock.now();
        let blocked = blocked_groups(cases);
        for &index in round {
            let case = &mut cases[index];
            let behind = case.fifo_group().is_some_and(|group| blocked.contains(group));
            if behind && self.mode == Mode::Active {
                case.fate = Fate::Held;
                continue;
            }
            let verdict = self.policy.decide(&case.letter, case.facts, now);
            let decision = verdict.decision.clone();
            case.verdict = Some(verdict);
            match self.mode {
                Mode::Observe => case.fate = Fate::Observed(decision),
                Mode::Active => case.settle(&decision),
            }
        }
    }

    /// Sends the letters of a round that are due.
    async fn deliver(&self, cases: &mut [Case<'_>], round: &[usize], until: Instant) {
        let due: Vec<(usize, Retry, Way)> = round
            .iter()
            .filter_map(|&index| {
                let case = &cases[index];
                let (Fate::Due(retry), Some(verdict)) = (&case.fate, &case.verdict) else { return None };
                Some((index, *retry, way(verdict.rule, &case.letter)))
            })
            .collect();
        let asked = subscriptions(due.iter().map(|(_, _, way)| way));
        let known = self.subscriptions.look_up(asked, half_of(until)).await;

        let mut ready: Vec<(usize, Retry, Destination)> = Vec::new();
        for (index, retry, way) in &due {
            if let Some(destination) = self.address(&mut cases[*index], *retry, way, &known) {
                ready.push((*index, *retry, destination));
            }
        }
        let mut sent: Vec<(usize, Retry, Sent)> = Vec::new();
        let mut unmarkable = Vec::new();
        {
            let mut parcels = Vec::new();
            for (index, retry, destination) in &ready {
                match Parcel::pack(&cases[*index].letter, destination, retry.number) {
                    Ok(parcel) => parcels.push((*index, *retry, &destination.arn, parcel)),
                    Err(error) => unmarkable.push((*index, error.to_string())),
                }
            }
            for (index, ..) in parcels.iter().filter(|(.., parcel)| parcel.unmarked) {
                telemetry::unmarked(&cases[*index].letter);
            }
            let addressed: Vec<_> = parcels.iter().map(|(_, _, to, parcel)| (*to, parcel)).collect();
            let answers = self.courier.deliver(&addressed, until).await;
            sent.extend(
                parcels.iter().zip(answers).map(|((index, retry, ..), answer)| (*index, *retry, answer)),
            );
        }
        for (index, detail) in unmarkable {
            cases[index].archive(ArchiveReason::Unmarkable, Some(detail));
        }
        let now = self.clock.now();
        for (index, retry, answer) in sent {
            cases[index].answered(retry, answer, now);
        }
    }

    /// Finds the destination of a letter that is due, or settles what becomes of it instead.
    fn address(
        &self,
        case: &mut Case<'_>,
        retry: Retry,
        way: &Way,
        known: &HashMap<Arn, Known>,
    ) -> Option<Destination> {
        let verdict = case.verdict.as_ref()?;
        let dlq = self.dead_letter_queue(&case.letter);
        match route(way, verdict.rule, &case.letter, dlq, known) {
            Route::Send(destination) => {
                case.target = Some(destination.arn.clone());
                Some(destination)
            }
            Route::Archive(reason, detail) => {
                case.archive(reason, Some(detail));
                None
            }
            Route::Unknown(sent) => {
                case.answered(retry, sent, self.clock.now());
                None
            }
        }
    }

    /// The queue that a letter was dead-lettered to: the event source, unless that is the requeue;
    /// only there is the mark believed.
    fn dead_letter_queue<'a>(&self, letter: &'a Letter) -> &'a Arn {
        let from_requeue = self.requeue.as_ref() == Some(&letter.sqs.queue);
        let marked = letter.mark.as_ref().and_then(|mark| mark.dlq.as_ref());
        marked.filter(|_| from_requeue).unwrap_or(&letter.sqs.queue)
    }

    /// Archives; what the archive did not take is in the answer.
    async fn archive(&self, cases: &[Case<'_>], batch: Batch<'_>) -> HashMap<usize, (NotDone, Failure)> {
        let doomed: Vec<(usize, (&Letter, Epitaph<'_>))> = cases
            .iter()
            .enumerate()
            .filter_map(|(index, case)| Some((index, (&case.letter, case.epitaph()?))))
            .collect();
        let (indexes, letters): (Vec<_>, Vec<_>) = doomed.into_iter().unzip();
        let answers = if self.archive.is(batch.queue) {
            let failure = Failure::ours(FailureClass::Mendable, "ArchiveIsDeadLetterQueue");
            vec![Err(failure); letters.len()]
        } else {
            self.archive.store(&letters, batch).await
        };
        failures(indexes, answers, NotDone::Archive)
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
        let (indexes, hidings): (Vec<_>, Vec<_>) = cases
            .iter()
            .enumerate()
            .filter_map(|(index, case)| {
                let seconds = match &case.fate {
                    Fate::Defer(deferral) => deferral.hide,
                    Fate::Held => 0,
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
    /// A fifth of the time, 10 s at most, is kept for archive and hiding, and half a second of that
    /// for the answer: a letter whose retry was cut off must still be hidden.
    fn until(deadline: Instant) -> Self {
        let left = deadline.saturating_duration_since(Instant::now());
        let kept = (left / 5).min(Duration::from_secs(10));
        let answer = (kept / 4).min(Duration::from_millis(500));
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
