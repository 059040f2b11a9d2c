//! The origins that a letter can only claim.
//!
//! A sender cannot write SQS's own attribute (`DeadLetterQueueSourceArn`), and what an SNS envelope says of
//! its subscription is checked with SNS. Everything else that shows an origin is text of the message's
//! sender: with raw delivery, a publisher sets every attribute and every byte of the body. So these origins
//! count only if the policy lists them for the letter's dead-letter queue.
//! Source: <https://docs.aws.amazon.com/sns/latest/dg/sns-large-payload-raw-message-delivery.html>

use std::collections::BTreeMap;

use crate::arn::Arn;

/// An origin that a letter claims by attributes or by its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OriginClaim {
    /// The dead-letter queue of a function: attributes `RequestID` and `ErrorCode`.
    LambdaAsync,
    /// The on-failure destination of a function: a body with `requestContext` and `requestPayload`.
    LambdaDestination,
    /// The dead-letter queue of an `EventBridge` rule: attributes `RULE_ARN` and `TARGET_ARN`.
    EventBridge,
}

impl OriginClaim {
    /// Every claim, in the order of the docs.
    pub const ALL: [Self; 3] = [Self::LambdaAsync, Self::LambdaDestination, Self::EventBridge];

    /// Returns the origin's name in policies, logs and archived records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LambdaAsync => "lambda-async",
            Self::LambdaDestination => "lambda-destination",
            Self::EventBridge => "eventbridge",
        }
    }

    /// Returns the reason why the claim was not followed, and the text that would make the policy follow it.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            Self::LambdaAsync => {
                "the letter looks like one of Lambda, but any sender can write such a letter, and the policy's origins do \
                 not list it: if Lambda writes to this queue, add \"origins\": {\"<ARN of its queue>\": [\"lambda-async\"]} \
                 to the policy"
            }
            Self::LambdaDestination => {
                "the letter looks like one of a Lambda destination, but any sender can write such a letter, and the \
                 policy's origins do not list it: if Lambda writes to this queue, add \"origins\": \
                 {\"<ARN of its queue>\": [\"lambda-destination\"]} to the policy"
            }
            Self::EventBridge => {
                "the letter looks like one of EventBridge, but any sender can write such a letter, and the policy's \
                 origins do not list it: if EventBridge writes to this queue, add \"origins\": \
                 {\"<ARN of its queue>\": [\"eventbridge\"]} to the policy"
            }
        }
    }
}

/// The claims that are believed, by dead-letter queue. By default there are none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedOrigins {
    everywhere: Vec<OriginClaim>,
    by_queue: BTreeMap<Arn, Vec<OriginClaim>>,
}

impl TrustedOrigins {
    /// Returns the list that believes no claim.
    #[must_use]
    pub fn none() -> &'static Self {
        static NONE: TrustedOrigins = TrustedOrigins { everywhere: Vec::new(), by_queue: BTreeMap::new() };
        &NONE
    }

    /// Returns the list that believes every claim in every queue. It is for records of the archive, whose
    /// origin was judged before.
    #[must_use]
    pub fn all() -> Self {
        Self { everywhere: OriginClaim::ALL.to_vec(), by_queue: BTreeMap::new() }
    }

    /// Adds claims that are believed in one queue, or in all queues if `queue` is `None`.
    pub fn add(&mut self, queue: Option<Arn>, claims: Vec<OriginClaim>) {
        match queue {
            None => self.everywhere.extend(claims),
            Some(queue) => self.by_queue.entry(queue).or_default().extend(claims),
        }
    }

    /// Reports whether a claim of a letter in this dead-letter queue is believed.
    #[must_use]
    pub fn list(&self, queue: &Arn, claim: OriginClaim) -> bool {
        let here = self.by_queue.get(queue).is_some_and(|claims| claims.contains(&claim));
        here || self.everywhere.contains(&claim)
    }
}
