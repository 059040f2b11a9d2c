//! The search through all subscriptions for those that name a dead-letter queue.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

use crate::arn::Arn;

/// How long the search through all subscriptions believes what it was told of each.
const SEARCH_MAX_AGE: SignedDuration = SignedDuration::from_mins(30);

/// Searches through all subscriptions.
#[derive(Debug, Default)]
pub(super) struct Searches {
    /// The last one that came to its end.
    pub(super) done: Option<Found>,
    pub(super) under_way: Option<Search>,
}

/// A search that has come to its end.
#[derive(Debug)]
pub(super) struct Found {
    /// When it began: subscriptions that were made later may be missing.
    began: Timestamp,
    /// Since when its oldest answer is known.
    oldest: Timestamp,
    /// Every subscription that was listed.
    answers: HashMap<Arn, Answer>,
    /// Queues that are named as dead-letter targets, with the subscription that names one, if it is the only one.
    pub(super) only: HashMap<String, Option<Arn>>,
}

/// The dead-letter target of a subscription.
#[derive(Debug, Clone)]
struct Answer {
    target: Option<String>,
    /// When the search that asked came to its end. Were it the moment of asking, a search that takes longer than
    /// answers are believed would never have an end.
    since: Timestamp,
}

/// How far a search has come.
#[derive(Debug)]
pub(super) struct Search {
    began: Timestamp,
    pub(super) next_page: Option<String>,
    listed_all: bool,
    /// Those of the last page that nobody has asked about.
    pub(super) waiting: Vec<Arn>,
    /// What an earlier search was told of those listed.
    known: HashMap<Arn, Answer>,
    /// The dead-letter targets that this one was told.
    pub(super) asked: HashMap<Arn, Option<String>>,
}

impl Found {
    /// Whether it can say, at `now`, whose a letter is that arrived then.
    pub(super) fn covers(&self, arrived: Timestamp, now: Timestamp) -> bool {
        arrived <= self.began && now.duration_since(self.oldest) < SEARCH_MAX_AGE
    }

    /// What is known of a subscription, if a search that begins at `now` need not ask.
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

    /// Takes a page over. What an earlier search knows of its subscriptions is not asked again.
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
