//! The endpoints that an instance remembers.

use std::collections::HashMap;
use std::time::Duration;

use super::allowance::TimeAllowance;
use super::endpoint_health::{EndpointHealth, RequestAdmission, RequestCandidate};
use super::health_change::HealthChange;
use super::hung_questions::HungQuestions;
use super::slow;
use crate::batch::action::SendResult;
use crate::batch::function_calls::CallTimes;
use crate::endpoint::{Endpoint, TargetName};
use crate::failure::{FUNCTION_ERROR, Failure, FailureClass};

/// The largest number of endpoints that are remembered. The endpoints that were used longest ago are
/// forgotten first.
pub(super) const MAX_KEPT: usize = 1_000;

/// The part of the time that may be spent on endpoints that do not work, all together, and the most that is saved:
/// two attempts at web servers that hang.
const FAILURE_SHARE: (u32, Duration) = (20, Duration::from_secs(30));

/// The number of letters from which on a batch counts as full: the function may have more to do than it can.
pub(in crate::batch) const FULL_BATCH: usize = 10;

/// The time after which an endpoint that accepted a message at once no longer counts as one that slow endpoints could
/// keep waiting.
const FAST_ANSWER_MAX_AGE: Duration = Duration::from_mins(1);

/// The health of every endpoint. Times are counted from any fixed point in the life of an instance.
#[derive(Debug)]
pub struct Health {
    pub(super) endpoints: HashMap<Endpoint, EndpointHealth>,
    changes: Vec<(Endpoint, HealthChange)>,
    /// The time that may be spent on endpoints that do not work, and on questions without an answer.
    pub(super) for_failures: TimeAllowance,
    /// The time that may be spent on endpoints that work slowly, while batches are full.
    for_slow: TimeAllowance,
    /// True if the batch is full.
    is_busy: bool,
    /// The time when an endpoint last accepted a message at once.
    fast: Option<Duration>,
    /// What is asked before letters are sent.
    pub(in crate::batch) questions: HungQuestions,
    /// The time that the calls of functions took.
    pub calls: CallTimes,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            endpoints: HashMap::new(),
            changes: Vec::new(),
            for_failures: TimeAllowance::new(FAILURE_SHARE.0, FAILURE_SHARE.1),
            for_slow: TimeAllowance::new(slow::SLOW_SHARE.0, slow::SLOW_SHARE.1),
            is_busy: false,
            fast: None,
            questions: HungQuestions::default(),
            calls: CallTimes::default(),
        }
    }
}

impl Health {
    /// Takes note that a batch of so many letters begins.
    pub(in crate::batch) fn batch_begins(&mut self, letters: usize) {
        self.is_busy = letters >= FULL_BATCH;
    }

    /// Decides whether a request to this endpoint begins.
    pub(in crate::batch) fn admit(
        &self,
        to: &Endpoint,
        attempt: RequestCandidate,
        now: Duration,
    ) -> RequestAdmission {
        let can_spend = !self.for_failures.is_empty(now);
        let Some(known) = self.endpoints.get(to) else {
            return EndpointHealth::new(now).admit(attempt, can_spend, now);
        };
        // Once a minute it shows whether it is still slow.
        if known.is_slow() && known.lived_within(FAST_ANSWER_MAX_AGE, now) && self.slow_must_wait(now) {
            return RequestAdmission::PutOff;
        }
        known.admit(attempt, can_spend, now)
    }

    /// Reports whether others may wait for what is slow: batches are full, and an endpoint took a message at once lately.
    fn others_wait(&self, now: Duration) -> bool {
        self.is_busy && self.fast.is_some_and(|fast| now.saturating_sub(fast) < FAST_ANSWER_MAX_AGE)
    }

    /// Reports whether what is slow, but works, has had its part of the time.
    pub(in crate::batch) fn slow_must_wait(&self, now: Duration) -> bool {
        self.others_wait(now) && self.for_slow.is_empty(now)
    }

    /// Takes note that something slow worked since then. It costs its part of the time only while others wait.
    pub(in crate::batch) fn worked_slowly(&mut self, began: Duration, now: Duration) {
        if self.others_wait(now) {
            self.for_slow.charge(began, now);
        }
    }

    /// Returns the number of full minutes for which a letter waits that is put off, beside what is left of this one.
    pub(in crate::batch) fn put_off(&mut self, to: &Endpoint, now: Duration) -> u32 {
        self.endpoints.get_mut(to).map_or(0, |known| known.put_off(now))
    }

    /// Takes note that a request begins.
    pub(in crate::batch) fn begins(&mut self, to: &Endpoint, now: Duration) {
        if let Some(known) = self.endpoints.get_mut(to) {
            known.begins(now);
        }
    }

    /// Takes note of the answers to a request that began then and has ended now.
    pub(in crate::batch) fn ended(
        &mut self,
        to: &Endpoint,
        began: Duration,
        answers: &[SendResult],
        now: Duration,
    ) {
        let refused =
            |failure: &Failure| failure.class == FailureClass::Permanent || failure.code == FUNCTION_ERROR;
        let mut failures = answers.iter().filter_map(|answer| match answer {
            SendResult::Failed(failure) => Some(failure),
            _ => None,
        });
        // A permanent failure is about the letter, which the endpoint has looked at. So has a function that
        // fails by itself.
        let lives = answers.contains(&SendResult::Accepted) || failures.clone().any(refused);
        let failure = failures.next();
        let change = match failure.filter(|_| !lives) {
            Some(failure) => {
                self.for_failures.charge(began, now);
                let can_spend = !self.for_failures.is_empty(now);
                self.known(to, now).failed(began, failure, can_spend, now)
            }
            None if lives => {
                if now.saturating_sub(began) > slow::SLOW_ANSWER_TIME {
                    self.worked_slowly(began, now);
                } else {
                    self.fast = Some(now);
                }
                self.known(to, now).took(began, now)
            }
            None => return,
        };
        self.changes.extend(change.map(|change| (to.clone(), change)));
    }

    /// Reports whether an endpoint works as far as is known, so that its requests need not be treated
    /// differently.
    #[must_use]
    pub fn is_up(&self, to: &Endpoint) -> bool {
        self.endpoints.get(to).is_none_or(EndpointHealth::is_up)
    }

    /// Reports the same of an endpoint of this name.
    pub(in crate::batch) fn is_up_by_name(&self, name: &TargetName) -> bool {
        let mut named = self.endpoints.iter().filter(|(to, _)| to.name() == *name);
        named.all(|(_, known)| known.is_up())
    }

    /// Takes note that an endpoint of this name has accepted a letter of another instance at that age of this one.
    pub(in crate::batch) fn is_back(&mut self, name: &TargetName, at: Duration) {
        for (_, known) in self.endpoints.iter_mut().filter(|(to, _)| to.name() == *name) {
            known.is_back(at);
        }
    }

    /// Returns the changes since the last call.
    pub(in crate::batch) fn changes(&mut self) -> Vec<(Endpoint, HealthChange)> {
        std::mem::take(&mut self.changes)
    }

    fn known(&mut self, to: &Endpoint, now: Duration) -> &mut EndpointHealth {
        let all = &mut self.endpoints;
        if !all.contains_key(to) && all.len() >= MAX_KEPT {
            // One that is down would be unknown again, and cost its time once more.
            let oldest = all.iter().min_by_key(|(_, known)| (!known.is_up(), known.used()));
            let oldest = oldest.map(|(to, _)| to.clone());
            oldest.map(|to| all.remove(&to));
        }
        all.entry(to.clone()).or_insert_with(|| EndpointHealth::new(now))
    }
}
