//! What became of a batch's letters, by endpoint.

use std::collections::{BTreeMap, BTreeSet};

use crate::arn::Arn;
use crate::batch::pending_letter::{Disposition, PendingLetter};
use crate::endpoint::{Endpoint, TargetName};
use crate::failure::FailureClass;

/// The attempts of a batch at one endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct EndpointTally {
    /// The letters that it took.
    pub(super) delivered: u64,
    /// Those of them that came before their planned moment.
    pub(super) early: u64,
    /// The letters that it did not take, without those that it will never take.
    pub(super) failed: u64,
    /// The code of a failure.
    pub(super) error: Option<String>,
    /// The largest number of letters a second, if a rule says so.
    pub(super) rate: Option<u32>,
    /// The topics of the letters, as far as they may be told of.
    pub(super) topics: BTreeSet<Arn>,
    /// True if there is a letter of another topic than that of notices.
    pub(super) may_tell: bool,
}

/// Counts the attempts of a batch. `notices` is the topic of notices.
pub(super) fn tally(
    cases: &[PendingLetter<'_>],
    notices: Option<&Arn>,
) -> BTreeMap<TargetName, EndpointTally> {
    let mut all: BTreeMap<TargetName, EndpointTally> = BTreeMap::new();
    for case in cases {
        let (Some(target), Some(retry)) = (&case.target, case.retry) else { continue };
        let failure = case.failure.as_ref();
        if failure.is_some_and(|failure| failure.class == FailureClass::Permanent) {
            continue;
        }
        let tally = all.entry(Endpoint::name(target)).or_default();
        let rate = case.verdict.as_ref().and_then(|verdict| verdict.delivery.max_receives_per_second);
        let topic = case.letter.topic();
        if topic.is_none() || topic != notices {
            tally.may_tell = true;
            tally.topics.extend(topic.cloned());
        }
        tally.rate = [tally.rate, rate].into_iter().flatten().min();
        match (&case.disposition, failure) {
            (Disposition::Delivered, _) => {
                tally.delivered += 1;
                let is_early = case.verdict.as_ref().is_some_and(|verdict| verdict.comes_early(retry));
                tally.early += u64::from(is_early);
            }
            (_, Some(failure)) => {
                tally.failed += 1;
                tally.error = Some(failure.code.clone());
            }
            (_, None) => {}
        }
    }
    all
}
