//! Subscriptions that were deleted and made again. Each new one takes over the letters of an old one.

use std::collections::BTreeMap;

use redrive_core::arn::{Arn, ArnKind};
use redrive_core::letter::{Letter, Origin, ReplayTarget};
use serde::{Deserialize, Serialize};

/// The new subscriptions by the old ones that they replace. In JSON it is an object of ARNs, `{"OLD":
/// "NEW"}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct Successors(BTreeMap<Arn, Arn>);

/// The faults of such an object, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct BadSuccessors(Vec<String>);

impl Successors {
    /// Reports whether there is no pair.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the pairs of old and new subscriptions.
    pub fn pairs(&self) -> impl Iterator<Item = (&Arn, &Arn)> {
        self.0.iter()
    }

    /// Returns the target of a letter that SNS gave up on for one of the old subscriptions, and `None` for
    /// any other letter. A letter that SQS has moved had been delivered, and goes back to its source queue
    /// without a subscription.
    pub(super) fn target_of(&self, letter: &Letter) -> Option<ReplayTarget> {
        if letter.origin != Origin::Sns {
            return None;
        }
        self.0.get(letter.subscription()?).cloned().map(ReplayTarget::Subscription)
    }
}

impl TryFrom<BTreeMap<String, String>> for Successors {
    type Error = BadSuccessors;

    fn try_from(pairs: BTreeMap<String, String>) -> Result<Self, BadSuccessors> {
        let mut faults = Vec::new();
        let mut successors = BTreeMap::new();
        for (old, new) in &pairs {
            let [old, new] = [old, new].map(|text| {
                subscription(text).inspect_err(|fault| faults.push(format!("subscriptions: {fault}"))).ok()
            });
            let Some((old, new)) = old.zip(new) else { continue };
            if old == new {
                faults.push(format!("subscriptions: {old} cannot replace itself"));
            } else if topic_of(&old) != topic_of(&new) {
                faults.push(format!("subscriptions: {old} and {new} belong to different topics"));
            } else if pairs.contains_key(new.as_str()) {
                faults.push(format!(
                    "subscriptions: {new} is replaced too: name the subscription that exists now"
                ));
            }
            successors.insert(old, new);
        }
        if faults.is_empty() { Ok(Self(successors)) } else { Err(BadSuccessors(faults)) }
    }
}

impl From<Successors> for BTreeMap<String, String> {
    fn from(successors: Successors) -> Self {
        successors.0.into_iter().map(|(old, new)| (old.into(), new.into())).collect()
    }
}

fn subscription(text: &str) -> Result<Arn, String> {
    let arn = text.parse::<Arn>().ok().filter(|arn| arn.kind() == ArnKind::Subscription);
    arn.ok_or_else(|| format!("{text:?} is not the ARN of a subscription"))
}

/// Returns the ARN of a subscription's topic.
fn topic_of(subscription: &Arn) -> Option<&str> {
    subscription.as_str().rsplit_once(':').map(|(topic, _)| topic)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:payments";

    fn read(pairs: &[(&str, &str)]) -> Result<Successors, String> {
        let pairs = pairs.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned()));
        Successors::try_from(pairs.collect::<BTreeMap<_, _>>()).map_err(|bad| bad.to_string())
    }

    #[test]
    fn only_another_subscription_of_the_same_topic_can_replace_one() {
        let of = |topic: &str, id: &str| format!("{topic}:{id}");
        let (old, new, newer) = (of(TOPIC, "a"), of(TOPIC, "b"), of(TOPIC, "c"));
        assert!(read(&[(&old, &newer), (&new, &newer)]).is_ok(), "it was made again twice");
        let invoices = of("arn:aws:sns:eu-central-1:123456789012:invoices", "a");
        let prefix = of("arn:aws:sns:eu-central-1:123456789012:payments-eu", "a");
        let elsewhere = of("arn:aws:sns:eu-west-1:123456789012:payments", "a");
        for (pairs, fault) in [
            (&[("old", new.as_str())][..], "\"old\" is not the ARN of a subscription".to_owned()),
            (&[(&old, TOPIC)], format!("{TOPIC:?} is not the ARN of a subscription")),
            (&[(&old, &old)], format!("{old} cannot replace itself")),
            (&[(&old, &invoices)], format!("{old} and {invoices} belong to different topics")),
            (&[(&old, &prefix)], format!("{old} and {prefix} belong to different topics")),
            (&[(&old, &elsewhere)], format!("{old} and {elsewhere} belong to different topics")),
            (
                &[(&old, &new), (&new, &newer)],
                format!("{new} is replaced too: name the subscription that exists now"),
            ),
        ] {
            assert_eq!(read(pairs), Err(format!("subscriptions: {fault}")), "{pairs:?}");
        }
        let two = read(&[("a", "b")]).unwrap_err();
        assert_eq!(two.matches("subscriptions: ").count(), 2, "all faults at once: {two}");
    }
}
