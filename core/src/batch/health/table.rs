//! The endpoints that an instance remembers.

use std::collections::HashMap;
use std::time::Duration;

use super::known::{Admission, Change, Known, Made};
use crate::batch::action::Sent;
use crate::batch::calls::CallTimes;
use crate::batch::purpose::Purpose;
use crate::endpoint::Endpoint;
use crate::failure::{FUNCTION_ERROR, Failure, FailureClass};

/// Endpoints remembered at most; those that were used longest ago are forgotten first.
pub(super) const MAX_KEPT: usize = 1_000;

/// What is known of every endpoint. Moments are counted from any one point in the life of an instance.
#[derive(Debug, Default)]
pub struct Health {
    pub(super) endpoints: HashMap<Endpoint, Known>,
    changes: Vec<(Endpoint, Change)>,
    /// How long the calls of functions took.
    pub calls: CallTimes,
}

impl Health {
    /// Whether a request to this endpoint begins, of which so many are under way. It waits for the endpoint for `longest` if
    /// that asks for it. `slots` is how many there may be at once to all endpoints of its kind.
    pub(in crate::batch) fn admit(
        &self,
        to: &Endpoint,
        last: bool,
        longest: Duration,
        under_way: usize,
        slots: usize,
        now: Duration,
    ) -> Admission {
        let admit = |known: &Known| known.admit(last, longest, under_way, slots, now);
        self.endpoints.get(to).map_or_else(|| admit(&Known::new(now)), admit)
    }

    /// Takes note that a request begins.
    pub(in crate::batch) fn begins(&mut self, to: &Endpoint, now: Duration) {
        if let Some(known) = self.endpoints.get_mut(to) {
            known.begins(now);
        }
    }

    /// Takes note of the answers to a request that has ended now.
    pub(in crate::batch) fn ended(&mut self, to: &Endpoint, made: Made, answers: &[Sent], now: Duration) {
        let refused =
            |failure: &Failure| failure.class == FailureClass::Permanent || failure.code == FUNCTION_ERROR;
        let mut failures = answers.iter().filter_map(|answer| match answer {
            Sent::Failed(failure) => Some(failure),
            _ => None,
        });
        // A failure that is for good is about the letter: the endpoint has looked at it. So has a function that fails.
        let lives = answers.contains(&Sent::Accepted) || failures.clone().any(refused);
        let failure = failures.next();
        if !lives && failure.is_none() {
            return;
        }
        let change = self.known(to, now).ended(made, failure.filter(|_| !lives), now);
        self.changes.extend(change.map(|change| (to.clone(), change)));
    }

    /// Returns how long a letter that is left out waits for the endpoint. One that an order sends there comes back soon after
    /// the trial.
    pub fn wait(&mut self, to: &Endpoint, purpose: Purpose, now: Duration) -> Duration {
        match (self.endpoints.get_mut(to), purpose) {
            (None, _) | (_, Purpose::Other) => Duration::ZERO,
            (Some(known), Purpose::Retry { ordered: true, last: false, longest }) => {
                known.wait_on_order(longest, now)
            }
            (Some(known), Purpose::Retry { last, longest, .. }) => known.wait(last, longest, now),
        }
    }

    /// Whether an endpoint works as far as is known, so that nothing about it has to be told apart.
    #[must_use]
    pub fn is_up(&self, to: &Endpoint) -> bool {
        self.endpoints.get(to).is_none_or(Known::is_up)
    }

    /// Returns what has changed since it was asked last.
    pub(in crate::batch) fn changes(&mut self) -> Vec<(Endpoint, Change)> {
        std::mem::take(&mut self.changes)
    }

    fn known(&mut self, to: &Endpoint, now: Duration) -> &mut Known {
        let all = &mut self.endpoints;
        if !all.contains_key(to) && all.len() >= MAX_KEPT {
            let oldest = all.iter().min_by_key(|(_, known)| known.used()).map(|(to, _)| to.clone());
            oldest.map(|to| all.remove(&to));
        }
        all.entry(to.clone()).or_insert_with(|| Known::new(now))
    }
}
