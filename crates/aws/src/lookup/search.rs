//! The search through all subscriptions for those that name a dead-letter queue.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use redrive_core::arn::Arn;
use redrive_core::batch::Moment;

/// The time for which the search through all subscriptions trusts an answer about one of them.
const SEARCH_MAX_AGE: Duration = Duration::from_mins(30);

/// The searches through all subscriptions.
#[derive(Debug, Default)]
pub(super) struct SubscriptionSearches {
    /// The last search that finished.
    pub(super) done: Option<FinishedSearch>,
    pub(super) under_way: Option<SearchProgress>,
}

/// The result of a finished search.
#[derive(Debug)]
pub(super) struct FinishedSearch {
    /// The beginning of the search. Subscriptions that were made later may be missing.
    began: Timestamp,
    /// The age of the instance at its oldest answer.
    oldest: Duration,
    /// Every subscription that was listed.
    answers: HashMap<Arn, DeadLetterTarget>,
    /// The queues that are dead-letter targets. The value is the subscription that names the queue, if only
    /// one does.
    pub(super) only: HashMap<String, Option<Arn>>,
}

/// The dead-letter target of a subscription.
#[derive(Debug, Clone)]
struct DeadLetterTarget {
    target: Option<String>,
    /// The age of the instance at the end of the search that asked. If it were the time of the question, a search that takes longer than
    /// answers are valid would never finish.
    since: Duration,
}

/// The progress of a search.
#[derive(Debug)]
pub(super) struct SearchProgress {
    began: Moment,
    pub(super) next_page: Option<String>,
    listed_all: bool,
    /// The listed subscriptions that are still to be asked about.
    pub(super) waiting: Vec<Arn>,
    /// The answers of an earlier search about listed subscriptions.
    known: HashMap<Arn, DeadLetterTarget>,
    /// The dead-letter targets that this search was told.
    pub(super) asked: HashMap<Arn, Option<String>>,
}

impl FinishedSearch {
    /// Reports whether this result, at this age of the instance, can tell the subscription of a letter that
    /// arrived at `arrived`.
    pub(super) fn covers(&self, arrived: Timestamp, age: Duration) -> bool {
        arrived <= self.began && age.saturating_sub(self.oldest) < SEARCH_MAX_AGE
    }

    /// Returns the known answer for a subscription if a search that begins at this age need not ask again.
    fn fresh(&self, subscription: &Arn, age: Duration) -> Option<&DeadLetterTarget> {
        let answer = self.answers.get(subscription)?;
        (age.saturating_sub(answer.since) < SEARCH_MAX_AGE).then_some(answer)
    }
}

impl SearchProgress {
    pub(super) fn beginning(now: Moment) -> Self {
        Self {
            began: now,
            next_page: None,
            listed_all: false,
            waiting: Vec::new(),
            known: HashMap::new(),
            asked: HashMap::new(),
        }
    }

    /// Takes over a page of the list. Subscriptions whose answer is known from an earlier search are not
    /// asked about again.
    pub(super) fn list(
        &mut self,
        page: impl Iterator<Item = Arn>,
        next_page: Option<String>,
        earlier: Option<&FinishedSearch>,
    ) {
        for arn in page {
            match earlier.and_then(|found| found.fresh(&arn, self.began.age)) {
                Some(answer) => _ = self.known.insert(arn, answer.clone()),
                None => self.waiting.push(arn),
            }
        }
        self.listed_all = next_page.is_none();
        self.next_page = next_page;
    }

    pub(super) fn is_done(&self) -> bool {
        self.listed_all && self.waiting.is_empty()
    }

    pub(super) fn finish(self, age: Duration) -> FinishedSearch {
        let mut answers = self.known;
        answers.extend(
            self.asked.into_iter().map(|(arn, target)| (arn, DeadLetterTarget { target, since: age })),
        );
        let oldest = answers.values().map(|answer| answer.since).min().unwrap_or(age);
        let mut only = HashMap::new();
        for (arn, answer) in &answers {
            let Some(target) = &answer.target else { continue };
            only.entry(target.clone()).and_modify(|one| *one = None).or_insert_with(|| Some(arn.clone()));
        }
        FinishedSearch { began: self.began.at, oldest, answers, only }
    }
}
