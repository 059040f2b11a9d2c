//! Where a rule sends a letter, as far as the letter itself tells.

use std::borrow::Cow;

use super::{Action, ArchiveReason, Rule, SubscriptionSpec, TargetSpec};
use crate::arn::{Arn, ArnKind};
use crate::letter::{Letter, Origin, ReplayTarget};

/// Where a rule sends a letter, before any subscription is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// To this topic, queue, function or stream.
    To(Arn),
    /// To the endpoint of this subscription.
    ThroughSubscription(Arn),
    /// To the topic of this subscription, which vouches for it: a letter alone could name any.
    ToTopicOf(Arn),
    /// Nowhere: why, as the reason it is archived for and in words.
    Nowhere(ArchiveReason, &'static str),
}

impl Rule {
    /// Whether the letter goes through a subscription that neither it nor the rule names, and the rule
    /// asks to look for it.
    #[must_use]
    pub fn asks_for_subscription(&self, letter: &Letter) -> bool {
        let through_subscription = match self.target_of(letter).as_ref() {
            TargetSpec::Subscription => true,
            TargetSpec::Origin => matches!(letter.origin, Origin::Sns | Origin::Raw),
            TargetSpec::Source | TargetSpec::Topic | TargetSpec::Arn(_) => false,
        };
        self.action == Action::Redrive
            && self.subscription == SubscriptionSpec::Discover
            && through_subscription
            && letter.subscription().is_none()
    }

    /// The rule's target, unless whoever replayed the letter named another.
    fn target_of(&self, letter: &Letter) -> Cow<'_, TargetSpec> {
        let to = letter.mark.as_ref().and_then(|mark| mark.requeued.to.as_ref());
        to.map_or(Cow::Borrowed(&self.target), |to| {
            Cow::Owned(match to {
                ReplayTarget::Topic => TargetSpec::Topic,
                ReplayTarget::Arn(arn) => TargetSpec::Arn(arn.clone()),
            })
        })
    }

    /// Where the rule sends a letter. `discovered` is the one subscription that names the letter's
    /// queue, where the rule asks for it and it was found.
    #[must_use]
    pub fn way(&self, letter: &Letter, discovered: Option<&Arn>) -> Way {
        let through_subscription = || {
            let given = match &self.subscription {
                SubscriptionSpec::None => None,
                SubscriptionSpec::Named(arn) => Some(arn),
                SubscriptionSpec::Discover => discovered,
            };
            let arn = letter.subscription().or(given);
            arn.cloned().map_or(nowhere("names no subscription"), Way::ThroughSubscription)
        };
        match (self.target_of(letter).as_ref(), &letter.origin) {
            (TargetSpec::Arn(arn), _) => to(arn),
            (TargetSpec::Topic, origin) => match (letter.subscription(), letter.topic()) {
                (Some(subscription), _) if is_by_product(letter) => {
                    Way::ThroughSubscription(subscription.clone())
                }
                (Some(subscription), Some(_)) if *origin == Origin::Sns => {
                    Way::ToTopicOf(subscription.clone())
                }
                (None, Some(_)) if *origin == Origin::Sns => nowhere("names no subscription"),
                (_, topic) => topic.map_or(nowhere("names no topic"), to),
            },
            (TargetSpec::Origin | TargetSpec::Source, Origin::Sqs { source }) => to(source),
            (TargetSpec::Source, _) => nowhere("was not moved here by SQS, so it has no source queue"),
            (TargetSpec::Subscription, _) | (TargetSpec::Origin, Origin::Sns | Origin::Raw) => {
                through_subscription()
            }
            (TargetSpec::Origin, Origin::LambdaAsync) => {
                nowhere("does not name the function that failed: give its rule that function as target")
            }
            (TargetSpec::Origin, Origin::LambdaDestination { function }) => to(function),
            (TargetSpec::Origin, Origin::EventBridge { target, .. }) => match target.kind() {
                ArnKind::Function | ArnKind::Queue => to(target),
                _ => Way::Nowhere(
                    ArchiveReason::UndeliverableProtocol,
                    "failed at a target that is neither a function nor a queue",
                ),
            },
        }
    }
}

/// Whether our own republishing made this letter: it carries the mark of a letter of another
/// subscription. Published once more it would multiply, with each retry of each copy, so it goes
/// back to the one subscription that failed.
fn is_by_product(letter: &Letter) -> bool {
    let (Some(mark), Some(subscription)) = (&letter.mark, letter.subscription()) else { return false };
    mark.id.split_once('/').is_some_and(|(_, original)| original != subscription.as_str())
}

fn nowhere(why: &'static str) -> Way {
    Way::Nowhere(ArchiveReason::Unrecognised, why)
}

fn to(arn: &Arn) -> Way {
    match arn.kind() {
        ArnKind::Topic | ArnKind::Queue | ArnKind::Function | ArnKind::Stream => Way::To(arn.clone()),
        ArnKind::Subscription | ArnKind::Other => Way::Nowhere(
            ArchiveReason::UndeliverableProtocol,
            "failed at a target of a kind that is not delivered to",
        ),
    }
}
