//! From a rule's target, in the words of the policy, to a destination.

use std::collections::{BTreeSet, HashMap};

use crate::arn::Arn;
use crate::letter::{Letter, Origin};
use crate::policy::{ArchiveReason, Rule, TargetSpec};
use crate::target::{Check, Destination, Known, Refusal, Sent};

/// Where the rule sends a letter, before any subscription was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    /// To this topic or queue.
    To(Arn),
    /// To the endpoint of this subscription.
    ThroughSubscription(Arn),
    /// To a function, which is no destination of this version.
    ToFunction,
    /// Nowhere: the letter does not name what the target needs.
    Nowhere,
}

/// What came out of looking for a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// Send it there.
    Send(Destination),
    /// It may not or cannot go there.
    Archive(ArchiveReason, String),
    /// Nobody could say whether it may: a failed attempt.
    Unknown(Sent),
}

/// Where the rule sends a letter.
pub(super) fn way(rule: &Rule, letter: &Letter) -> Way {
    let through_subscription = || {
        let arn = letter.subscription().or(rule.subscription.as_ref());
        arn.cloned().map_or(Way::Nowhere, Way::ThroughSubscription)
    };
    match (&rule.target, &letter.origin) {
        (TargetSpec::Arn(arn), _) => Way::To(arn.clone()),
        (TargetSpec::Topic, _) => letter.topic().cloned().map_or(Way::Nowhere, Way::To),
        (TargetSpec::Origin | TargetSpec::Source, Origin::Sqs { source }) => Way::To(source.clone()),
        (TargetSpec::Source, _) => Way::Nowhere,
        (TargetSpec::Subscription, _) | (TargetSpec::Origin, Origin::Sns | Origin::Raw) => {
            through_subscription()
        }
        (
            TargetSpec::Origin,
            Origin::LambdaAsync | Origin::LambdaDestination { .. } | Origin::EventBridge { .. },
        ) => Way::ToFunction,
    }
}

/// The subscriptions that must be asked about.
pub(super) fn subscriptions<'a>(ways: impl Iterator<Item = &'a Way>) -> BTreeSet<&'a Arn> {
    ways.filter_map(|way| match way {
        Way::ThroughSubscription(arn) => Some(arn),
        Way::To(_) | Way::ToFunction | Way::Nowhere => None,
    })
    .collect()
}

/// The destination of a letter, if it may go there. `dlq` is the queue that SNS put it into.
pub(super) fn route(
    way: &Way,
    rule: &Rule,
    letter: &Letter,
    dlq: &Arn,
    known: &HashMap<Arn, Known>,
) -> Route {
    let refused = |detail: &str| Route::Archive(ArchiveReason::Refused, detail.to_owned());
    let destination = match way {
        Way::Nowhere => {
            return Route::Archive(
                ArchiveReason::Unrecognised,
                "names nothing that it could go to".to_owned(),
            );
        }
        Way::ToFunction => {
            let detail = "functions are no targets in this version".to_owned();
            return Route::Archive(ArchiveReason::UndeliverableProtocol, detail);
        }
        Way::To(arn) => Destination { arn: arn.clone(), own_endpoint: false },
        Way::ThroughSubscription(subscription) => match known.get(subscription) {
            None => return Route::Unknown(Sent::NotStarted),
            Some(Err(sent)) => return Route::Unknown(sent.clone()),
            Some(Ok(None)) => return refused(Refusal::Unknown.detail()),
            Some(Ok(Some(attributes))) => match attributes.check(letter.topic(), dlq) {
                Check::Queue(queue) => Destination { arn: queue, own_endpoint: true },
                Check::Refused(refusal) => return refused(refusal.detail()),
                Check::Undeliverable { protocol } => {
                    let detail =
                        format!("subscriptions of the protocol {protocol} are no targets in this version");
                    return Route::Archive(ArchiveReason::UndeliverableProtocol, detail);
                }
            },
        },
    };
    if destination.arn == letter.sqs.queue {
        return refused("the target is the queue that the letter came from");
    }
    let allowed = rule.allow_targets.as_ref();
    if allowed.is_some_and(|allowed| !allowed.iter().any(|arn| arn == destination.arn.as_str())) {
        return refused("the target is not in the rule's allowTargets");
    }
    Route::Send(destination)
}
