//! The resolution of the route that a rule names to a destination that may be reached.

use std::collections::{BTreeSet, HashMap};

use super::action::{SendResult, SubscriptionLookup};
use super::subscription::{Subscription, SubscriptionCheck, SubscriptionRefusal};
use crate::arn::Arn;
use crate::endpoint::{DeliverySubscription, Destination, Endpoint};
use crate::letter::{Letter, Origin};
use crate::policy::{ArchiveReason, DeliveryPolicy, Route, Verdict};

/// The result of looking for a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RouteResolution {
    /// The letter goes to this destination.
    Send(Destination),
    /// It may not or cannot go there.
    Archive(ArchiveReason, String),
    /// It is unknown whether it may, which counts as a failed attempt.
    Unknown(SendResult),
}

/// Returns the subscriptions that must be looked up.
pub(super) fn subscriptions<'a>(routes: impl Iterator<Item = &'a Route>) -> BTreeSet<Arn> {
    routes.filter_map(Route::subscription).cloned().collect()
}

/// Finds a forged subscription before SNS is asked. A subscription must belong to the letter's topic, and be
/// in the region of its dead-letter queue, as SNS demands, so that a letter does not choose which of AWS's
/// hosts is called. The subscription that the letter itself names must belong to the topic too, since the
/// successor that a replay names accepts no letters of another topic.
/// <https://docs.aws.amazon.com/sns/latest/dg/sns-dead-letter-queues.html>
pub(super) fn refusal_at_sight(route: &Route, letter: &Letter, dlq: &Arn) -> Option<SubscriptionRefusal> {
    let subscription = route.subscription()?;
    let of_topic = |topic: &Arn, subscription: &Arn| {
        let rest = subscription.as_str().strip_prefix(topic.as_str());
        rest.is_some_and(|rest| rest.starts_with(':'))
    };
    let mut named = letter.subscription().into_iter().chain([subscription]);
    if letter.topic().is_some_and(|topic| !named.all(|one| of_topic(topic, one))) {
        return Some(SubscriptionRefusal::OtherTopic);
    }
    let near = (subscription.partition(), subscription.region()) == (dlq.partition(), dlq.region());
    (!near).then_some(SubscriptionRefusal::OtherRegion)
}

/// Returns the destination of a letter, if it may go there. `requeue` is this function's own.
pub(super) fn resolve(
    verdict: &Verdict<'_>,
    letter: &Letter,
    requeue: Option<&Arn>,
    known: &HashMap<Arn, SubscriptionLookup>,
) -> RouteResolution {
    let dlq = letter.dead_letter_queue();
    let refused = |detail: &str| RouteResolution::Archive(ArchiveReason::Refused, detail.to_owned());
    let undeliverable = |why: String| RouteResolution::Archive(ArchiveReason::UndeliverableProtocol, why);
    if let Some(refusal) = refusal_at_sight(&verdict.route, letter, dlq) {
        return refused(refusal.detail());
    }
    let destination = match &verdict.route {
        Route::Nowhere(reason, why) => return RouteResolution::Archive(*reason, (*why).to_owned()),
        Route::To(arn) => match Endpoint::of_arn(arn.clone()) {
            Some(endpoint) => Destination { endpoint, subscription: None },
            None => return undeliverable(
                "the function cannot deliver to this kind of target: set another target in the letter's rule"
                    .to_owned(),
            ),
        },
        Route::ThroughSubscription(arn)
        | Route::ToTopicOf(arn, _)
        | Route::Returned { subscription: arn, .. } => {
            let subscription = match known.get(arn) {
                None => return RouteResolution::Unknown(SendResult::NotStarted),
                Some(Err(sent)) => return RouteResolution::Unknown(sent.clone()),
                Some(Ok(None)) => return refused(SubscriptionRefusal::Unknown.detail()),
                Some(Ok(Some(subscription))) => subscription,
            };
            let its_topic = || {
                letter
                    .topic()
                    .map(|topic| Destination { endpoint: Endpoint::Topic(topic.clone()), subscription: None })
            };
            let checked = match &verdict.route {
                Route::ToTopicOf(_, voucher) => match subscription.vouches(letter.topic(), dlq, voucher) {
                    Err(refusal) => return refused(refusal.detail()),
                    Ok(()) => its_topic().ok_or_else(|| "the letter names no topic".to_owned()),
                },
                route => match (check(subscription, letter, dlq, route), route) {
                    (SubscriptionCheck::Refused(refusal), _) => return refused(refusal.detail()),
                    (SubscriptionCheck::Endpoint(endpoint), _) => {
                        Ok(through(verdict, arn, subscription, endpoint))
                    }
                    (SubscriptionCheck::Undeliverable(why), Route::Returned { again: true, .. }) => {
                        its_topic().ok_or(why)
                    }
                    (SubscriptionCheck::Undeliverable(why), _) => Err(why),
                },
            };
            match checked {
                Ok(destination) => destination,
                Err(why) => return undeliverable(why),
            }
        }
    };
    let ours = |arn: &Arn| arn == &letter.sqs.queue || arn == dlq || Some(arn) == requeue;
    if destination.endpoint.arn().is_some_and(ours) {
        return refused(
            "the target is a queue that feeds this function: set another target in the letter's rule",
        );
    }
    let allowed = verdict.rule.allow_targets.as_ref();
    if allowed.is_some_and(|allowed| !destination.endpoint.is_allowed(allowed)) {
        return refused("the target is not in the rule's allowTargets: add it there, or set another target");
    }
    RouteResolution::Send(destination)
}

/// Checks whether a letter may go to the endpoint of its subscription.
fn check(subscription: &Subscription, letter: &Letter, dlq: &Arn, route: &Route) -> SubscriptionCheck {
    match (route, &letter.origin) {
        (Route::Returned { .. }, Origin::LambdaAsync) => subscription.check_function(letter.topic(), dlq),
        (_, _) => subscription.check(letter.topic(), dlq),
    }
}

/// Returns the endpoint of a subscription.
fn through(verdict: &Verdict<'_>, arn: &Arn, subscription: &Subscription, endpoint: Endpoint) -> Destination {
    let content_type = verdict.delivery.content_type_for(subscription.raw).map(str::to_owned);
    let own = || DeliveryPolicy::from_effective(subscription.delivery_policy.as_deref()?)?.content_type;
    let through = DeliverySubscription {
        subscription: arn.clone(),
        topic: subscription.topic.clone(),
        content_type: content_type.or_else(own),
        record_delimiter: verdict.rule.record_delimiter.text(),
    };
    Destination { endpoint, subscription: Some(through) }
}
