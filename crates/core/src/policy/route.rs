//! The route on which a rule sends a letter, as far as the letter itself tells.

use std::borrow::Cow;

use super::decision::ArchiveReason;
use super::rule::{Rule, RuleAction, SubscriptionSpec, TargetSpec};
use crate::arn::{Arn, ArnKind};
use crate::letter::{Letter, Origin, OriginClaim, ReplayTarget};

/// The route on which a rule sends a letter, before SNS is asked about any subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// To this topic, queue, function or stream.
    To(Arn),
    /// To the endpoint of this subscription.
    ThroughSubscription(Arn),
    /// To the topic of this subscription, once SNS confirms it: a letter alone could name any topic.
    ToTopicOf(Arn, SubscriptionVoucher),
    /// Back to the endpoint of this subscription, where a copy that our own publishing made has failed.
    Returned {
        /// The subscription.
        subscription: Arn,
        /// True if the letter may be published once more when only SNS can deliver to that endpoint.
        again: bool,
    },
    /// Nowhere. The letter is archived for this reason; the text says it in words.
    Nowhere(ArchiveReason, &'static str),
}

/// The fact that SNS must confirm about a subscription before the letter's topic is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubscriptionVoucher {
    /// The subscription names the letter's dead-letter queue: SNS itself put the letter there.
    DeadLetters,
    /// The subscription delivers to this queue or function, from which the letter came.
    DeliversTo(Arn),
    /// The subscription belongs to that topic.
    Exists,
}

impl Route {
    /// Returns the subscription that SNS must be asked about.
    #[must_use]
    pub fn subscription(&self) -> Option<&Arn> {
        match self {
            Self::ThroughSubscription(arn)
            | Self::ToTopicOf(arn, _)
            | Self::Returned { subscription: arn, .. } => Some(arn),
            Self::To(_) | Self::Nowhere(..) => None,
        }
    }
}

impl Rule {
    /// Reports whether a letter counts as raw under this rule, whatever origin it claims. A rule that names a
    /// subscription is about raw deliveries, and any publisher of its topic can write such a claim.
    #[must_use]
    pub fn takes_as_raw(&self, letter: &Letter) -> bool {
        let claimed = match letter.origin {
            Origin::LambdaAsync | Origin::LambdaDestination { .. } | Origin::EventBridge { .. } => true,
            Origin::Sns | Origin::Sqs { .. } | Origin::EventBusRecord | Origin::Raw => false,
        };
        claimed && matches!(self.subscription, SubscriptionSpec::Named(_)) && letter.subscription().is_none()
    }

    /// Reports whether the letter goes through a subscription that neither it nor the rule names, and the
    /// rule says to discover it.
    #[must_use]
    pub fn asks_for_subscription(&self, letter: &Letter) -> bool {
        self.action == RuleAction::Redrive && self.leaves_subscription_open(letter)
    }

    /// Reports whether a retry of the letter would go through a subscription that is yet to be discovered,
    /// whatever the rule does with its letters.
    #[must_use]
    pub fn leaves_subscription_open(&self, letter: &Letter) -> bool {
        let through_subscription = match (self.target_of(letter).as_ref(), &letter.origin) {
            (_, Origin::EventBusRecord) => false,
            (TargetSpec::Subscription, _) | (TargetSpec::Origin, Origin::Sns | Origin::Raw) => true,
            (TargetSpec::Origin | TargetSpec::Source | TargetSpec::Topic | TargetSpec::Arn(_), _) => false,
        };
        self.subscription == SubscriptionSpec::Discover
            && through_subscription
            && letter.subscription().is_none()
    }

    /// Returns the rule's target, unless the replay of the letter named another.
    fn target_of(&self, letter: &Letter) -> Cow<'_, TargetSpec> {
        let to = letter.mark.as_ref().and_then(|mark| mark.requeued.to.as_ref());
        to.map_or(Cow::Borrowed(&self.target), |to| {
            Cow::Owned(match to {
                ReplayTarget::Topic => TargetSpec::Topic,
                ReplayTarget::Arn(arn) => TargetSpec::Arn(arn.clone()),
                ReplayTarget::Subscription(_) => TargetSpec::Subscription,
            })
        })
    }

    /// Returns the route on which the rule sends a letter. `discovered` is the one subscription that names
    /// the letter's queue, if the rule asks for it and it was found.
    #[must_use]
    pub fn route(&self, letter: &Letter, discovered: Option<&Arn>) -> Route {
        if self.takes_as_raw(letter) {
            return self.route(&letter.clone().into_raw(), discovered);
        }
        if letter.origin == Origin::EventBusRecord {
            return Route::Nowhere(
                ArchiveReason::UndeliverableProtocol,
                "the letter is a record of events that a custom event bus could not deliver, without the events: replay \
                 them from the archive of that bus (busArn)",
            );
        }
        let route = match (self.target_of(letter).as_ref(), &letter.origin) {
            (TargetSpec::Arn(arn), _) if arn.kind() == ArnKind::Topic => self.to_topic(letter, Some(arn)),
            (TargetSpec::Arn(arn), _) => to(arn),
            (TargetSpec::Topic, _) => self.to_topic(letter, None),
            (TargetSpec::Origin | TargetSpec::Source, Origin::Sqs { source }) => to(source),
            (TargetSpec::Source, _) => {
                nowhere("SQS did not move the letter here, so the letter has no source queue")
            }
            (TargetSpec::Subscription, _)
            | (TargetSpec::Origin, Origin::Sns | Origin::Raw | Origin::EventBusRecord) => {
                self.through_subscription(letter, discovered)
            }
            (TargetSpec::Origin, Origin::LambdaAsync) => nowhere(
                "the letter does not name the function that failed: set the target of its rule to that function's ARN",
            ),
            (TargetSpec::Origin, Origin::LambdaDestination { function }) => to(function),
            (TargetSpec::Origin, Origin::EventBridge { target, .. }) => match target.kind() {
                ArnKind::Function | ArnKind::Queue => to(target),
                _ => Route::Nowhere(
                    ArchiveReason::UndeliverableProtocol,
                    "the letter failed at a target that is neither a function nor a queue: set the target of its rule",
                ),
            },
        };
        let advice = || letter.unlisted.map(OriginClaim::advice).or_else(|| advice_on_raw(letter));
        match route {
            Route::Nowhere(ArchiveReason::Unrecognised, why) => nowhere(advice().unwrap_or(why)),
            route => route,
        }
    }

    fn through_subscription(&self, letter: &Letter, discovered: Option<&Arn>) -> Route {
        if let Some(successor) = successor(letter) {
            return match (&letter.origin, letter.subscription()) {
                (Origin::Sns, Some(_)) => Route::ThroughSubscription(successor.clone()),
                _ => Route::Nowhere(
                    ArchiveReason::Refused,
                    "the replay sends the letter to a new subscription, but it is no dead letter of a subscription",
                ),
            };
        }
        let given = match &self.subscription {
            SubscriptionSpec::None => None,
            SubscriptionSpec::Named(arn) => Some(arn),
            SubscriptionSpec::Discover => discovered,
        };
        let arn = letter.subscription().or(given);
        arn.cloned().map_or(nowhere(NO_SUBSCRIPTION), Route::ThroughSubscription)
    }

    /// Returns the route to the letter's own topic, or to the one that is `named`.
    ///
    /// Every subscriber gets a copy of a published message, and copies can fail as the first message did. A
    /// letter that is such a copy goes back to the subscriber where it failed and is not published again.
    /// Otherwise, with two failing subscribers, each retry would turn one letter into two: 4,096 of each
    /// after twelve retries, and as many copies for every healthy subscriber.
    fn to_topic(&self, letter: &Letter, named: Option<&Arn>) -> Route {
        if letter.published() > 0 {
            return self.returned(letter);
        }
        if let Some(topic) = named {
            return to(topic);
        }
        let Some(_) = letter.topic() else { return nowhere(NO_TOPIC) };
        let Some(subscription) = letter.subscription() else {
            return match letter.origin {
                Origin::Sns => nowhere(NO_SUBSCRIPTION),
                _ => Route::Nowhere(
                    ArchiveReason::Refused,
                    "the letter names a topic but no subscription of it, so SNS cannot confirm that it comes from there",
                ),
            };
        };
        let voucher = match &letter.origin {
            Origin::Sns => SubscriptionVoucher::DeadLetters,
            Origin::Sqs { source } => SubscriptionVoucher::DeliversTo(source.clone()),
            Origin::LambdaDestination { function } => SubscriptionVoucher::DeliversTo(function.clone()),
            Origin::LambdaAsync | Origin::EventBridge { .. } | Origin::EventBusRecord | Origin::Raw => {
                SubscriptionVoucher::Exists
            }
        };
        Route::ToTopicOf(subscription.clone(), voucher)
    }

    /// Returns the route of a copy that our own publishing made, back to where it failed.
    fn returned(&self, letter: &Letter) -> Route {
        match (&letter.origin, letter.subscription(), &self.subscription) {
            (Origin::Sqs { source }, ..) => to(source),
            (Origin::LambdaDestination { function }, ..) => to(function),
            (_, Some(subscription), _) => {
                let again = is_first(letter, subscription);
                if !again && letter.published() > 1 {
                    return Route::Nowhere(
                        ArchiveReason::Returned,
                        "the letter is a copy that came about when the letter of another subscriber was published \
                         again: an earlier copy is on its way to this subscriber",
                    );
                }
                Route::Returned { subscription: subscription.clone(), again }
            }
            (_, None, SubscriptionSpec::Named(subscription)) => {
                Route::ThroughSubscription(subscription.clone())
            }
            (_, None, SubscriptionSpec::None | SubscriptionSpec::Discover) => Route::Nowhere(
                ArchiveReason::Returned,
                "the letter is a copy that the function published, and does not name the subscription where it failed: \
                 set the subscription of its rule",
            ),
        }
    }
}

/// Returns the subscription that has replaced the letter's own, as the replay of the letter named it.
fn successor(letter: &Letter) -> Option<&Arn> {
    match letter.mark.as_ref()?.requeued.to.as_ref()? {
        ReplayTarget::Subscription(arn) => Some(arn),
        ReplayTarget::Topic | ReplayTarget::Arn(_) => None,
    }
}

/// Reports whether a letter is the published one itself, which came back from its own subscription, and not
/// the copy of another subscriber.
fn is_first(letter: &Letter, subscription: &Arn) -> bool {
    let id = letter.id.as_str().split_once('/');
    id.is_some_and(|(_, original)| original == subscription.as_str())
}

/// Returns advice about a letter that names nothing, and that another service wrote.
fn advice_on_raw(letter: &Letter) -> Option<&'static str> {
    if letter.origin != Origin::Raw {
        return None;
    }
    if letter.sqs.attributes.contains_key("SCHEDULE_ARN") {
        return Some(SCHEDULE);
    }
    letter.is_stream_batch().then_some(STREAM_BATCH)
}

/// Source: <https://docs.aws.amazon.com/scheduler/latest/UserGuide/configuring-schedule-dlq.html>
const SCHEDULE: &str = "the letter looks like one of EventBridge Scheduler. Its body is the request that the schedule makes \
                        of its target (TARGET_ARN), and only Scheduler makes such requests: make it yourself, or set the \
                        target of a rule for messageAttributes.SCHEDULE_ARN to a queue or function that takes it";

/// Sources: <https://docs.aws.amazon.com/lambda/latest/dg/kinesis-on-failure-destination.html>,
/// <https://docs.aws.amazon.com/lambda/latest/dg/services-dynamodb-errors.html>
const STREAM_BATCH: &str = "the letter looks like one of Lambda's event source mapping of a stream. It names the batch that \
                            a function could not process, without its records: read them from the stream, at the place \
                            that the ...BatchInfo in the letter gives, before the stream drops them";

const NO_SUBSCRIPTION: &str = "the letter names no subscription: set the subscription of its rule";

const NO_TOPIC: &str = "the letter names no topic: set the target of its rule to a topic's ARN";

fn nowhere(why: &'static str) -> Route {
    Route::Nowhere(ArchiveReason::Unrecognised, why)
}

fn to(arn: &Arn) -> Route {
    match arn.kind() {
        ArnKind::Topic | ArnKind::Queue | ArnKind::Function | ArnKind::Stream => Route::To(arn.clone()),
        ArnKind::Subscription | ArnKind::Other => Route::Nowhere(
            ArchiveReason::UndeliverableProtocol,
            "the function cannot deliver to this kind of target: set another target in the letter's rule",
        ),
    }
}
