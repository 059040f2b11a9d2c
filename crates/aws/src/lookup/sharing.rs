//! Dead-letter queues that a raw subscription shares with others.
//!
//! The publisher writes the whole text of a raw letter. So a publisher of a raw subscription's topic can
//! write the envelope of another subscription. If that subscription names the same queue, the letter reaches
//! it. No API lists the subscriptions that name a queue, but each one's attributes name its queue.

use std::collections::{HashMap, HashSet};

use redrive_core::arn::Arn;
use redrive_core::batch::Subscription;

/// The greatest number of queues remembered. A search looks at all queues of the account.
const MAX_KEPT: usize = 10_000;

/// The dead-letter queues that subscriptions name.
#[derive(Debug, Default)]
pub(super) struct SharedQueues {
    /// One of the subscriptions that name each queue. It only matters whether there is another.
    named: HashMap<String, NamedQueue>,
    /// The shared queues that were already reported.
    told: HashSet<String>,
}

#[derive(Debug)]
struct NamedQueue {
    by: Arn,
    raw: bool,
    /// `true` if another subscription names the queue too, and one of them is raw.
    shared: bool,
}

impl SharedQueues {
    /// Records SNS's answer about a subscription, which is `None` if it does not exist.
    pub(super) fn learn(&mut self, subscription: &Arn, answer: Option<&Subscription>) {
        let target = answer.and_then(|answer| Some((answer.dead_letter_target.as_deref()?, answer.raw)));
        // The subscription may have named another queue before.
        self.named.retain(|queue, one| {
            one.by != *subscription || target.is_some_and(|(target, _)| target == queue)
        });
        let Some((queue, raw)) = target else { return };
        match self.named.get_mut(queue) {
            Some(one) if one.by == *subscription => one.raw = raw,
            Some(one) => one.shared |= raw || one.raw,
            None => {
                if self.named.len() >= MAX_KEPT {
                    self.named.clear();
                }
                self.named
                    .insert(queue.to_owned(), NamedQueue { by: subscription.clone(), raw, shared: false });
            }
        }
    }

    /// Reports whether a raw subscription shares this queue with another. It returns `true` only once per
    /// queue.
    pub(super) fn newly(&mut self, queue: &Arn) -> bool {
        let shared = self.named.get(queue.as_str()).is_some_and(|one| one.shared);
        shared && self.told.insert(queue.as_str().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:dlq";
    const OTHER: &str = "arn:aws:sqs:eu-central-1:123456789012:other-dlq";

    /// Reports whether the queue is shared after these answers, in order. An answer says whether the
    /// subscription is raw and which queue it names; `None` means that it does not exist.
    fn shared(answers: &[(&str, Option<(bool, &str)>)]) -> bool {
        let mut sharing = SharedQueues::default();
        for (name, answer) in answers {
            let arn = format!("arn:aws:sns:eu-central-1:123456789012:payments:{name}").parse().unwrap();
            let answer = answer.map(|(raw, queue)| Subscription {
                protocol: "sqs".to_owned(),
                endpoint: String::new(),
                topic: String::new(),
                dead_letter_target: Some(queue.to_owned()),
                raw,
                pending: false,
                delivery_policy: None,
            });
            sharing.learn(&arn, answer.as_ref());
        }
        sharing.newly(&QUEUE.parse().unwrap())
    }

    #[test]
    fn a_queue_is_shared_that_a_raw_subscription_and_another_name() {
        let (raw, wrapped, elsewhere) = (Some((true, QUEUE)), Some((false, QUEUE)), Some((true, OTHER)));
        for (answers, expected) in [
            (vec![("a", raw), ("b", wrapped)], true),
            (vec![("a", wrapped), ("b", raw)], true),
            (vec![("a", wrapped), ("b", wrapped), ("c", raw)], true),
            (vec![("a", raw), ("b", raw)], true),
            (vec![("a", wrapped), ("a", raw), ("b", wrapped)], true),
            (vec![("a", wrapped), ("b", wrapped)], false),
            (vec![("a", raw), ("a", raw)], false),
            (vec![("a", wrapped), ("b", elsewhere)], false),
            (vec![("a", raw), ("a", elsewhere), ("b", wrapped)], false),
            (vec![("a", raw), ("a", None), ("b", wrapped)], false),
        ] {
            assert_eq!(shared(&answers), expected, "{answers:?}");
        }
    }

    #[test]
    fn it_is_said_once() {
        let mut sharing = SharedQueues::default();
        let queue: Arn = QUEUE.parse().unwrap();
        let by = "arn:aws:sns:eu-central-1:123456789012:payments:a".parse().unwrap();
        sharing.named.insert(QUEUE.to_owned(), NamedQueue { by, raw: true, shared: true });
        assert_eq!([sharing.newly(&queue), sharing.newly(&queue)], [true, false]);
    }
}
