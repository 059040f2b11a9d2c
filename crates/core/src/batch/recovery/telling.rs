//! The endpoints of which the topic of notices is told: which one went down or came back, and how many letters wait for it.

use jiff::{SignedDuration, Timestamp};

use super::endpoint_change::{ChangeKind, EndpointChange};
use super::endpoint_tally::EndpointTally;
use super::failing_endpoints::FailingEndpoints;
use super::recovery_task::{RecoveryStage, RecoveryTask};
use crate::arn::Arn;
use crate::batch::action::{Action, ActionAnswer, InvocationNow};
use crate::batch::pending_letter::Disposition;
use crate::batch::state::Batch;
use crate::endpoint::TargetName;
use crate::waiting::{LISTED_ABOVE, Recoveries, WaitingKey, waiting_from};

/// The time before an outage from which on waiting letters are counted. Another instance may have seen it begin earlier.
const COUNTED_BEFORE: SignedDuration = SignedDuration::from_mins(15);

/// The largest number of topics of a notice, and the length of the longest. SNS's own ARNs are shorter.
const MOST_TOPICS: usize = 10;
const LONGEST_TOPIC: usize = 400;

/// Claims in the document the notice that is due about an endpoint, if one is. `is_back` is the time since which an endpoint was
/// down that has just come back.
///
/// Letters of the topic of notices cause no notice that their endpoint is down, since that would be one more of them.
pub(super) fn claim_change(
    document: &mut Recoveries,
    (queue, target): (&Arn, &TargetName),
    tally: &EndpointTally,
    failing: &FailingEndpoints,
    is_back: Option<Timestamp>,
    now: Timestamp,
) -> Option<EndpointChange> {
    // The document forgets, if hundreds of endpoints are down.
    let is_forgotten = failing.is_told(target) && document.told(target).0.is_none();
    let (down_since, kind) = match (is_back, failing.down_since(target)) {
        (Some(since), _) => {
            (document.tell_recovered(target, since, now)?, ChangeKind::Recovered { woken: 0 })
        }
        (None, Some((_, error))) if tally.delivered == 0 && tally.may_tell && !is_forgotten => {
            (document.tell_down(target, now)?, ChangeKind::Down { error: error.to_owned() })
        }
        _ => return None,
    };
    let mut topics = failing.topics(target);
    topics.extend(tally.topics.iter().cloned());
    // Whoever writes letters can name many, and long ones.
    topics.retain(|topic| topic.as_str().len() <= LONGEST_TOPIC);
    let topics = topics.into_iter().take(MOST_TOPICS).collect();
    let (queue, target) = (queue.clone(), target.clone());
    Some(EndpointChange { target, queue, topics, down_since, at: now, waiting: None, kind })
}

impl Batch<'_> {
    /// Returns the endpoints of which the topic of notices is to be told, once.
    pub fn endpoint_changes(&mut self) -> Vec<EndpointChange> {
        std::mem::take(&mut self.changes)
    }

    /// Takes note of letters that were woken.
    pub(super) fn woken_for(&mut self, target: &TargetName, letters: usize) {
        for change in self.changes.iter_mut().filter(|change| change.target == *target) {
            if let ChangeKind::Recovered { woken } = &mut change.kind {
                *woken += letters as u64;
            }
        }
    }

    /// Asks for the keys of the list by which waiting letters are counted: once, and only if something is to be told.
    pub(super) fn count_waiting(&self, task: &RecoveryTask) -> (RecoveryStage, Option<Action>) {
        let Some(since) = self.changes.iter().map(|change| change.down_since).min() else {
            return (RecoveryStage::Wake, None);
        };
        let after = waiting_from(since.saturating_sub(COUNTED_BEFORE).unwrap_or(Timestamp::MIN));
        (RecoveryStage::AwaitCounted, Some(Action::ListWaitingKeys { after: Some(after), until: task.until }))
    }

    /// Counts the letters that wait: by the keys, and in this batch, whose own object may not be written yet. If the list cannot be
    /// read or goes on behind the page, their number stays unknown.
    pub(super) fn waiting_counted(&mut self, answer: ActionAnswer, now: InvocationNow) -> RecoveryStage {
        let ActionAnswer::WaitingKeys(Ok(page)) = answer else { return RecoveryStage::Wake };
        if page.is_cut {
            return RecoveryStage::Wake;
        }
        let keys: Vec<_> = page.keys.iter().map(|key| WaitingKey::read(key)).collect();
        for change in &mut self.changes {
            let digest = change.target.digest();
            let listed = keys.iter().map(|key| key.most_letters_of(&digest)).fold(0, u64::saturating_add);
            let waits = self.cases.iter().filter(|case| {
                matches!(case.disposition, Disposition::Defer(_))
                    && case.target.as_ref().is_some_and(|target| target.name() == change.target)
                    && case.hiding(now.at).is_some_and(|hide| hide > LISTED_ABOVE)
            });
            change.waiting = Some(listed.saturating_add(waits.count() as u64));
        }
        RecoveryStage::Wake
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::batch::moment::Moment;

    const QUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:dlq";

    fn topic(name: &str) -> Arn {
        format!("arn:aws:sns:eu-central-1:123456789012:{name}").parse().unwrap()
    }

    fn target() -> TargetName {
        TargetName::read("arn:aws:sqs:eu-central-1:123456789012:worker")
    }

    fn at(minute: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute)
    }

    /// Returns an instance that has seen the endpoint fail for three minutes, and the document that knows of it.
    fn outage() -> (FailingEndpoints, Recoveries) {
        let (mut failing, mut document) = (FailingEndpoints::default(), Recoveries::default());
        for minute in [0, 3] {
            let age = Duration::from_mins(u64::try_from(minute).unwrap());
            let topics = [topic(&format!("at-{minute}"))].into();
            failing.failed(&target(), ("Http503", 1), &topics, false, Moment { at: at(minute), age });
        }
        document.add("dlq", &target()).down_since = Some(at(0));
        (failing, document)
    }

    fn claim(
        document: &mut Recoveries,
        tally: &EndpointTally,
        failing: &FailingEndpoints,
        is_back: Option<Timestamp>,
    ) -> Option<EndpointChange> {
        claim_change(document, (&QUEUE.parse().unwrap(), &target()), tally, failing, is_back, at(3))
    }

    #[test]
    fn a_notice_names_the_topics_of_all_letters_that_failed_here() {
        let (failing, mut document) = outage();
        let tally =
            EndpointTally { may_tell: true, topics: [topic("new")].into(), ..EndpointTally::default() };
        let change = claim(&mut document, &tally, &failing, None).unwrap();
        assert_eq!(change.topics, [topic("at-0"), topic("at-3"), topic("new")].into());
        assert_eq!((change.down_since, change.at), (at(0), at(3)));
        assert_eq!(change.kind, ChangeKind::Down { error: "Http503".to_owned() });
        let back = claim(&mut document, &tally, &failing, Some(at(1))).unwrap();
        assert_eq!((back.down_since, back.kind), (at(1), ChangeKind::Recovered { woken: 0 }));
    }

    /// Otherwise hundreds of endpoints that are down would be told of with each batch.
    #[test]
    fn an_instance_tells_once_of_an_outage_that_the_document_has_forgotten() {
        let (mut failing, mut document) = outage();
        let tally = EndpointTally { may_tell: true, ..EndpointTally::default() };
        let mut forgotten = document.clone();
        assert!(claim(&mut document, &tally, &failing, None).is_some());
        failing.told(&target());
        assert_eq!(claim(&mut forgotten, &tally, &failing, None), None);
        document.tell_recovered(&target(), at(0), at(4));
        let later =
            claim_change(&mut document, (&QUEUE.parse().unwrap(), &target()), &tally, &failing, None, at(30));
        assert!(later.is_some(), "another instance has seen it work since");
    }

    #[test]
    fn an_endpoint_that_has_just_taken_a_letter_is_not_told_to_be_down() {
        let (failing, mut document) = outage();
        let tally = EndpointTally { may_tell: true, delivered: 1, ..EndpointTally::default() };
        assert_eq!(claim(&mut document, &tally, &failing, None), None);
        assert_eq!(claim(&mut document, &tally, &FailingEndpoints::default(), None), None);
    }
}
