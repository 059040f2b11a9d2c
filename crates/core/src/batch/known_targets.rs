//! The endpoints of subscriptions, as far as an instance has seen them, and what they tell of letters' targets.

use std::collections::HashMap;
use std::time::Duration;

use super::action::SubscriptionLookup;
use super::resolve::refusal_at_sight;
use super::subscription::Subscription;
use crate::arn::Arn;
use crate::endpoint::{Endpoint, TargetName};
use crate::letter::Letter;
use crate::policy::{LetterTarget, Route, Rule};

/// The largest number of subscriptions that are remembered.
const MAX_KEPT: usize = 1_000;

/// The time after which a subscription is looked up again before an override counts, since it may lead elsewhere now.
const LOOK_AGAIN_AFTER: Duration = Duration::from_mins(5);

/// The endpoints of subscriptions that an instance has seen, and the age of the instance when it saw them.
#[derive(Debug, Default)]
pub struct KnownTargets(HashMap<Arn, (Option<TargetName>, Duration)>);

impl KnownTargets {
    /// Takes note of what SNS says of subscriptions. One that does not exist, or to which only SNS can deliver, leads
    /// nowhere.
    pub(super) fn looked_up(&mut self, known: &HashMap<Arn, SubscriptionLookup>, age: Duration) {
        for (subscription, known) in known {
            if let Ok(known) = known {
                if self.0.len() >= MAX_KEPT && !self.0.contains_key(subscription) {
                    self.0.clear();
                }
                let endpoint = known.as_ref().and_then(Subscription::deliverable);
                self.0.insert(subscription.clone(), (endpoint.map(|endpoint| endpoint.name()), age));
            }
        }
    }

    /// Reports whether the subscription of a route must be looked up to know its endpoint.
    pub(super) fn must_look_up(&self, route: &Route, age: Duration) -> bool {
        let is_old = |seen: &Duration| age.saturating_sub(*seen) >= LOOK_AGAIN_AFTER;
        match route {
            Route::ThroughSubscription(subscription) | Route::Returned { subscription, .. } => {
                self.0.get(subscription).is_none_or(|(_, seen)| is_old(seen))
            }
            Route::To(_) | Route::ToTopicOf(..) | Route::Nowhere(..) => false,
        }
    }

    /// Returns what is known of the endpoint to which a letter goes by its rule, with the subscription that was discovered.
    /// `is_searched` is true if that was searched for, so that none is an answer.
    #[must_use]
    pub fn of(
        &self,
        letter: &Letter,
        rule: &Rule,
        discovered: Option<&Arn>,
        is_searched: bool,
    ) -> LetterTarget {
        if discovered.is_none() && !is_searched && rule.leaves_subscription_open(letter) {
            return LetterTarget::Unknown;
        }
        let route = rule.route(letter, discovered);
        // One that is refused is not looked up.
        match refusal_at_sight(&route, letter, letter.dead_letter_queue()) {
            Some(_) => LetterTarget::Nowhere,
            None => self.on(&route, letter),
        }
    }

    fn on(&self, route: &Route, letter: &Letter) -> LetterTarget {
        let topic = || letter.topic().and_then(|topic| Endpoint::of_arn(topic.clone()));
        let known =
            |endpoint: Option<TargetName>| endpoint.map_or(LetterTarget::Nowhere, LetterTarget::Known);
        match route {
            Route::Nowhere(..) => LetterTarget::Nowhere,
            Route::To(arn) => known(Endpoint::of_arn(arn.clone()).map(|endpoint| endpoint.name())),
            Route::ToTopicOf(..) => known(topic().map(|topic| topic.name())),
            Route::ThroughSubscription(subscription) | Route::Returned { subscription, .. } => {
                let again = matches!(route, Route::Returned { again: true, .. });
                match self.0.get(subscription) {
                    None => LetterTarget::Unknown,
                    Some((None, _)) if again => known(topic().map(|topic| topic.name())),
                    Some((endpoint, _)) => known(endpoint.clone()),
                }
            }
        }
    }
}
