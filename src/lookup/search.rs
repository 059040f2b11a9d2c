//! The search through all subscriptions for those that name a dead-letter queue.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

use crate::arn::Arn;

/// The time for which the search through all subscriptions trusts an answer about one of them.
const SEARCH_MAX_AGE: SignedDuration = SignedDuration::from_mins(30);

/// The searches through all subscriptions.
#[derive(Debug, Default)]
pub(super) struct Searches {
    /// The last search that finished.
    pub(super) done: Option<Found>,
    pub(super) under_way: Option<Search>,
}

/// The result of a finished search.
#[derive(Debug)]
pub(super) struct Found {
    /// The beginning of the search. Subscriptions that were made later may be missing.
    began: Timestamp,
    /// The time of its oldest answer.
    oldest: Timestamp,
    /// Every subscription that was listed.
    answers: HashMap<Arn, Answer>,
    /// The queues that are dead-letter targets. The value is the subscription that names the queue, if only
    /// one does.
    pub(super) only: HashMap<String, Option<Arn>>,
}

/// The dead-letter target of a subscription.
#[derive(Debug, Clone)]
struct Answer {
    target: Option<String>,
    /// The end of the search that asked. If it were the time of the question, a search that takes longer than
    /// answers are valid would never finish.
    since: Timestamp,
}

/// The progress of a search.
#[derive(Debug)]
pub(super) struct Search {
    began: Timestamp,
    pub(super) next_page: Option<String>,
    listed_all: bool,
    /// The listed subscriptions that are still to be asked about.
    pub(super) waiting: Vec<Arn>,
    /// The answers of an earlier search about listed subscriptions.
    known: HashMap<Arn, Answer>,
    /// The dead-letter targets that this search was told.
    pub(super) asked: HashMap<Arn, Option<String>>,
}

impl Found {
    /// Reports whether this result, at `now`, can tell the subscription of a letter that arrived at
    /// `arrived`.
    pub(super) fn covers(&self, arrived: Timestamp, now: Timestamp) -> bool {
        arrived <= self.began && now.duration_since(self.oldest) < SEARCH_MAX_AGE
    }

    /// Returns the known answer for a subscription if a search that begins at `now` need not ask again.
    fn fresh(&self, subscription: &Arn, now: Timestamp) -> Option<&Answer> {
        let answer = self.answers.get(subscription)?;
        (now.duration_since(answer.since) < SEARCH_MAX_AGE).then_some(answer)
    }
}

impl Search {
    pub(super) fn beginning(now: Timestamp) -> Self {
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
        earlier: Option<&Found>,
    ) {
        for arn in page {
            match earlier.and_then(|found| found.fresh(&arn, self.began)) {
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

    pub(super) fn finish(self, now: Timestamp) -> Found {
        let mut answers = self.known;
        answers.extend(self.asked.into_iter().map(|(arn, target)| (arn, Answer { target, since: now })));
        let oldest = answers.values().map(|answer| answer.since).min().unwrap_or(now);
        let mut only = HashMap::new();
        for (arn, answer) in &answers {
            let Some(target) = &answer.target else { continue };
            only.entry(target.clone()).and_modify(|one| *one = None).or_insert_with(|| Some(arn.clone()));
        }
        Found { began: self.began, oldest, answers, only }
    }
}
