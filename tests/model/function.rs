//! One invocation: the real decisions, in a shell like that of `src/redrive`.
//!
//! Real: [`Policy::rule_for`], `Rule::decide`, `Verdict::after_failure` and `put_off`,
//! `Letter::mark_for_requeue`, `Deferral::for_mark`, [`InFlightEstimate`]. Written again after `src/redrive/case.rs`,
//! `mod.rs` and `requeue.rs`: [`rounds`], [`Case::blocks`], [`Case::settle`], and what is done in which order.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use jiff::Timestamp;
use sns_redrive::batch::{InFlightEstimate, Place};
use sns_redrive::failure::FailureClass;
use sns_redrive::policy::{
    ArchiveReason, Decision, DeferReason, Deferral, Facts, Policy, Retry, Verdict, expiry_margin, plus,
    seconds_until,
};

use super::journal::{Idle, Journal, Message, What};
use super::queue::Receipt;
use super::world::Plan;
use super::{Chance, Millis, at, seconds, since_begin};

/// What the function is set to.
#[derive(Debug)]
pub struct Settings {
    pub policy: Policy,
    pub ceiling: u64,
    /// What it believes that SQS allows in flight.
    pub in_flight_limit: u64,
    pub instances: u32,
    /// Retention of the requeue, where there is one.
    pub requeue: Option<u64>,
    pub step_aside: bool,
}

/// Who takes the letters.
#[derive(Debug, Clone)]
pub struct Subscriber {
    /// When it is down: from, until.
    pub outages: Vec<(Millis, Millis)>,
    /// Per cent of attempts that fail for no reason.
    pub flaky: u8,
    /// How long an attempt takes.
    pub takes: RangeInclusive<Millis>,
}

impl Subscriber {
    fn is_down(&self, now: Millis) -> bool {
        self.outages.iter().any(|(from, until)| (*from..*until).contains(&now))
    }
}

/// What goes wrong, in per cent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Trouble {
    /// A batch is received, and the function does not run.
    pub throttled: u8,
    /// The function dies, somewhere.
    pub crash: u8,
    /// There is no time for a letter.
    pub out_of_time: u8,
    /// A throttle policy puts a letter off.
    pub put_off: u8,
    pub hide_fails: u8,
    pub send_fails: u8,
    pub archive_fails: u8,
}

/// How far an invocation gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    Nothing,
    Delivered,
    Moved,
    Hidden,
    Answered,
}

/// A letter on its way to an outcome.
#[derive(Debug)]
pub struct Case {
    pub receipt: Receipt,
    pub message: Message,
    pub disposition: Disposition,
    decided: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    Open,
    Delivered,
    Archive(ArchiveReason),
    Defer(Deferral),
    /// The requeue is to have it, after so many seconds.
    Requeue(Deferral, u64),
    Held,
    OutOfTime,
}

impl Case {
    pub fn new(receipt: Receipt, requeue: bool) -> Self {
        let message = Message { requeue, number: receipt.number };
        Self { receipt, message, disposition: Disposition::Open, decided: at(0) }
    }

    fn group(&self) -> Option<u32> {
        self.receipt.letter.sqs.queue.is_fifo().then_some(self.receipt.group)
    }

    /// The group that this letter holds up, having neither been delivered nor moved.
    fn blocks(&self) -> Option<u32> {
        self.group()
            .filter(|_| !matches!(self.disposition, Disposition::Delivered | Disposition::Requeue(..)))
    }

    fn settle(&mut self, decision: &Decision, now: Timestamp) {
        self.decided = now;
        self.disposition = match decision {
            Decision::Archive(reason, _) => Disposition::Archive(*reason),
            Decision::Defer(deferral) => Disposition::Defer(*deferral),
            Decision::Deliver(_) => unreachable!("a due retry is made at once"),
        };
    }

    /// For how long it is to be hidden now.
    pub fn hiding(&self, now: Millis) -> Option<u64> {
        match self.disposition {
            Disposition::Defer(deferral) => Some(seconds_until(at(now), plus(self.decided, deferral.hide))),
            Disposition::Held => Some(0),
            _ => None,
        }
    }
}

/// Letters that may be handled together: all of a standard queue, one of each group of a FIFO queue.
fn rounds(cases: &[Case]) -> Vec<Vec<usize>> {
    let mut rounds: Vec<Vec<usize>> = Vec::new();
    let mut seen: HashMap<u32, usize> = HashMap::new();
    for (index, case) in cases.iter().enumerate() {
        let round = case.group().map_or(0, |group| {
            let count = seen.entry(group).or_default();
            *count += 1;
            *count - 1
        });
        if rounds.len() <= round {
            rounds.resize_with(round + 1, Vec::new);
        }
        rounds[round].push(index);
    }
    rounds
}

/// What an invocation works with.
pub struct Run<'w> {
    pub settings: &'w Settings,
    pub subscriber: &'w Subscriber,
    pub letters: &'w [Plan],
    pub trouble: Trouble,
    pub facts: Facts,
    pub journal: &'w mut Journal,
    pub chance: &'w mut Chance,
}

impl Run<'_> {
    /// Decides about the letters of a batch and makes the attempts that are due; when it is through.
    pub fn deliver(&mut self, cases: &mut [Case], begin: Millis) -> Millis {
        let mut now = begin;
        let mut blocked = HashSet::new();
        for round in rounds(cases) {
            now = self.deliver_round(cases, &round, &blocked, now);
            for &index in &round {
                self.step_aside(&mut cases[index], now);
                blocked.extend(cases[index].blocks());
            }
        }
        now
    }

    fn deliver_round(
        &mut self,
        cases: &mut [Case],
        round: &[usize],
        blocked: &HashSet<u32>,
        now: Millis,
    ) -> Millis {
        let policy = &self.settings.policy;
        let mut due: Vec<(usize, Retry, Verdict<'_>)> = Vec::new();
        for &index in round {
            let case = &mut cases[index];
            if case.group().is_some_and(|group| blocked.contains(&group)) {
                case.disposition = Disposition::Held;
                self.journal.note(case.receipt.who, case.message, now, What::Held);
                continue;
            }
            if self.chance.happens(self.trouble.out_of_time) {
                case.disposition = Disposition::OutOfTime;
                self.journal.note(case.receipt.who, case.message, now, What::Idle(Idle::OutOfTime));
                continue;
            }
            let rule = policy.rule_for(&case.receipt.letter).unwrap();
            let facts = Facts {
                source_max_receives: case.receipt.letter.sqs.source_queue().map(|_| SOURCE_RECEIVES),
                ..self.facts.clone()
            };
            let verdict = rule.decide(&case.receipt.letter, &facts, at(now));
            match verdict.decision.clone() {
                Decision::Deliver(retry) if self.chance.happens(self.trouble.put_off) => {
                    let turn = now + self.chance.within(&(1..=600_000));
                    case.settle(&verdict.put_off(retry, at(now), at(turn)), at(now));
                }
                Decision::Deliver(retry) => due.push((index, retry, verdict)),
                decision => case.settle(&decision, at(now)),
            }
        }
        let took = due.iter().map(|_| self.chance.within(&self.subscriber.takes)).max().unwrap_or(0);
        let end = now + took;
        for (index, retry, verdict) in due {
            let case = &mut cases[index];
            let who = case.receipt.who;
            let fails = self.letters[who].poison
                || self.subscriber.is_down(now)
                || self.chance.happens(self.subscriber.flaky);
            let attempt = What::Attempt { number: retry.number, end, delivered: !fails };
            self.journal.note(who, case.message, now, attempt);
            if fails {
                case.settle(&verdict.after_failure(retry, FailureClass::Transient, at(end)), at(end));
            } else {
                case.disposition = Disposition::Delivered;
            }
        }
        end
    }

    /// A head of a FIFO group that failed makes way for its group, where its rule says so and the requeue
    /// takes it.
    fn step_aside(&mut self, case: &mut Case, now: Millis) {
        let Disposition::Defer(deferral) = case.disposition else { return };
        let may = self.settings.step_aside && !case.message.requeue && deferral.why == DeferReason::Failed;
        if may && case.group().is_some() && self.may_move(case, now, deferral.hide) {
            case.disposition = Disposition::Requeue(deferral, 0);
        }
    }

    /// Decides where the deferred letters of a standard queue wait.
    pub fn place(&mut self, cases: &mut [Case], estimate: &mut InFlightEstimate, now: Millis) {
        for case in cases.iter_mut().filter(|case| case.group().is_none()) {
            let Disposition::Defer(deferral) = case.disposition else { continue };
            match estimate.place(seconds_until(at(now), deferral.due)) {
                Place::Moved { delay } if self.may_move(case, now, deferral.hide.max(delay)) => {
                    case.disposition = Disposition::Requeue(deferral, delay);
                }
                Place::Moved { .. } => estimate.hide(1, at(now)),
                Place::Hidden => estimate.hide(u64::from(deferral.hide > 0), at(now)),
            }
        }
    }

    /// Whether the requeue takes a letter, and would keep it as long as it waits.
    fn may_move(&mut self, case: &Case, now: Millis, wait: u64) -> bool {
        let Some(retention) = self.settings.requeue else { return false };
        let first = since_begin(case.receipt.letter.first_arrival()).min(now);
        let kept = now + seconds(wait + expiry_margin(retention)) <= first + seconds(retention);
        if !kept {
            return false;
        }
        let fails = self.chance.happens(self.trouble.send_fails);
        if fails {
            self.journal.note(case.receipt.who, case.message, now, What::NotMoved);
        }
        !fails
    }
}

/// `maxReceiveCount` of the source queue of every letter that SQS moved.
pub const SOURCE_RECEIVES: u32 = 5;

/// How crowded the queues are, as one instance of the function knows it.
#[derive(Debug, Clone)]
pub struct Instance {
    pub dlq: InFlightEstimate,
    pub requeue: InFlightEstimate,
}

impl Instance {
    pub fn new(settings: &Settings) -> Self {
        // Each of two mappings may run as many.
        let processes = settings.instances * if settings.requeue.is_some() { 2 } else { 1 };
        let estimate = InFlightEstimate::new(settings.in_flight_limit, processes);
        Self { dlq: estimate.clone(), requeue: estimate }
    }

    pub fn estimate(&mut self, requeue: bool) -> &mut InFlightEstimate {
        if requeue { &mut self.requeue } else { &mut self.dlq }
    }
}
