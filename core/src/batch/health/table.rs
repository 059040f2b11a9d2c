//! The endpoints that an instance remembers.

use std::collections::HashMap;
use std::time::Duration;

use super::known::{Admission, Change, Known, Made};
use crate::batch::action::Sent;
use crate::batch::calls::CallTimes;
use crate::batch::purpose::Purpose;
use crate::endpoint::Endpoint;
use crate::failure::{FUNCTION_ERROR, Failure, FailureClass};

/// The largest number of endpoints that are remembered. The endpoints that were used longest ago are
/// forgotten first.
pub(super) const MAX_KEPT: usize = 1_000;

/// The health of every endpoint. Times are counted from any fixed point in the life of an instance.
#[derive(Debug, Default)]
pub struct Health {
    pub(super) endpoints: HashMap<Endpoint, Known>,
    changes: Vec<(Endpoint, Change)>,
    /// The time that the calls of functions took.
    pub calls: CallTimes,
}

impl Health {
    /// Decides whether a request to this endpoint begins, if so many are under way. If the endpoint asks for
    /// a pause, the request grants `longest` at most. `slots` is the number of requests that there may be at
    /// once to all endpoints of its kind.
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
        // A permanent failure is about the letter, which the endpoint has looked at. So has a function that
        // fails by itself.
        let lives = answers.contains(&Sent::Accepted) || failures.clone().any(refused);
        let failure = failures.next();
        if !lives && failure.is_none() {
            return;
        }
        let change = self.known(to, now).ended(made, failure.filter(|_| !lives), now);
        self.changes.extend(change.map(|change| (to.clone(), change)));
    }

    /// Returns how long a letter that is left out waits for the endpoint. A letter that an override sends comes
    /// back soon after the trial.
    pub fn wait(&mut self, to: &Endpoint, purpose: Purpose, now: Duration) -> Duration {
        match (self.endpoints.get_mut(to), purpose) {
            (None, _) | (_, Purpose::Other) => Duration::ZERO,
            (Some(known), Purpose::Retry { overridden: true, last: false, longest }) => {
                known.wait_on_override(longest, now)
            }
            (Some(known), Purpose::Retry { last, longest, .. }) => known.wait(last, longest, now),
        }
    }

    /// Reports whether an endpoint works as far as is known, so that its requests need not be treated
    /// differently.
    #[must_use]
    pub fn is_up(&self, to: &Endpoint) -> bool {
        self.endpoints.get(to).is_none_or(Known::is_up)
    }

    /// Returns the changes since the last call.
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
