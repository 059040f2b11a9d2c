//! What SNS says of subscriptions.
//!
//! `GetSubscriptionAttributes` has a small quota (30 a second in small regions), so answers are kept for a while; that a
//! subscription does not exist is an answer too.
//! <https://docs.aws.amazon.com/sns/latest/api/API_GetSubscriptionAttributes.html>

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use aws_sdk_sns::config::Region;
use aws_sdk_sns::error::SdkError;
use futures_util::stream::{self, StreamExt};
use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, timeout_at};

use super::sharing::Sharing;
use crate::arn::Arn;
use crate::batch::{Known, Sent, Subscription};
use crate::clients::failure_of_call;
use crate::clock::Clock;
use crate::failure::{Failure, FailureClass};

/// How long an answer is believed. A repaired subscription is seen after this time at the latest.
const MAX_AGE: SignedDuration = SignedDuration::from_mins(5);

/// How long the search through all subscriptions believes what it was told of each.
const SEARCH_MAX_AGE: SignedDuration = SignedDuration::from_mins(30);

/// Answers kept at most; a forger of letters cannot fill the memory.
const MAX_KEPT: usize = 1_000;

/// Calls at once, with the small quota in mind.
const CONCURRENT_CALLS: usize = 4;

/// Asks SNS about subscriptions and keeps the answers for a while.
#[derive(Debug)]
pub struct Subscriptions {
    sns: aws_sdk_sns::Client,
    clock: Clock,
    kept: Mutex<HashMap<Arn, Kept>>,
    searches: tokio::sync::Mutex<Searches>,
    sharing: Mutex<Sharing>,
}

/// Searches through all subscriptions.
#[derive(Debug, Default)]
struct Searches {
    /// The last one that came to its end.
    done: Option<Found>,
    under_way: Option<Search>,
}

/// A search that has come to its end.
#[derive(Debug)]
struct Found {
    /// When it began: subscriptions that were made later may be missing.
    began: Timestamp,
    /// Since when its oldest answer is known.
    oldest: Timestamp,
    /// Every subscription that was listed.
    answers: HashMap<Arn, Answer>,
    /// Queues that are named as dead-letter targets, with the subscription that names one, if it is the only one.
    only: HashMap<String, Option<Arn>>,
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
struct Search {
    began: Timestamp,
    next_page: Option<String>,
    listed_all: bool,
    /// Those of the last page that nobody has asked about.
    waiting: Vec<Arn>,
    /// What an earlier search was told of those listed.
    known: HashMap<Arn, Answer>,
    /// The dead-letter targets that this one was told.
    asked: HashMap<Arn, Option<String>>,
}

impl Found {
    /// Whether it can say, at `now`, whose a letter is that arrived then.
    fn covers(&self, arrived: Timestamp, now: Timestamp) -> bool {
        arrived <= self.began && now.duration_since(self.oldest) < SEARCH_MAX_AGE
    }

    /// What is known of a subscription, if a search that begins at `now` need not ask.
    fn fresh(&self, subscription: &Arn, now: Timestamp) -> Option<&Answer> {
        let answer = self.answers.get(subscription)?;
        (now.duration_since(answer.since) < SEARCH_MAX_AGE).then_some(answer)
    }
}

impl Search {
    fn beginning(now: Timestamp) -> Self {
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
    fn list(&mut self, page: impl Iterator<Item = Arn>, next_page: Option<String>, earlier: Option<&Found>) {
        for arn in page {
            match earlier.and_then(|found| found.fresh(&arn, self.began)) {
                Some(answer) => _ = self.known.insert(arn, answer.clone()),
                None => self.waiting.push(arn),
            }
        }
        self.listed_all = next_page.is_none();
        self.next_page = next_page;
    }

    fn is_done(&self) -> bool {
        self.listed_all && self.waiting.is_empty()
    }

    fn finish(self, now: Timestamp) -> Found {
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

#[derive(Debug, Clone)]
struct Kept {
    since: Timestamp,
    answer: Option<Subscription>,
}

impl Subscriptions {
    /// Nothing is asked before it is needed.
    #[must_use]
    pub fn new(sns: aws_sdk_sns::Client, clock: Clock) -> Self {
        let (kept, searches, sharing) = <_>::default();
        Self { sns, clock, kept, searches, sharing }
    }

    /// Looks up each of these subscriptions, asking SNS where no fresh answer is kept. No call
    /// begins after `until`.
    pub async fn look_up(&self, arns: BTreeSet<Arn>, until: Instant) -> HashMap<Arn, Known> {
        stream::iter(arns)
            .map(|arn| async move {
                let known = self.one(&arn, until).await;
                (arn, known)
            })
            .buffer_unordered(CONCURRENT_CALLS)
            .collect()
            .await
    }

    async fn one(&self, arn: &Arn, until: Instant) -> Known {
        if let Some(kept) = self.fresh(arn) {
            return Ok(kept.answer);
        }
        if Instant::now() >= until {
            return Err(Sent::NotStarted);
        }
        let answer = timeout_at(until, self.ask(arn))
            .await
            .unwrap_or_else(|_| Err(Failure::ours(FailureClass::Transient, "DeadlineExceeded")));
        let answer = answer.map_err(Sent::Failed)?;
        self.keep(arn, answer.clone());
        Ok(answer)
    }

    /// Looks through all subscriptions of the account for those that name `dlq` as their dead-letter
    /// target: the answer is the one that does, or `None` where there is none or more than one. `arrived` is when
    /// the letter arrived that this is about.
    ///
    /// That takes a call for every subscription, within a small quota, so it is done for all queues at
    /// once and believed for a while; a search that is cut off by `until` goes on where it stopped. A letter that
    /// arrived after the search began may be that of a younger subscription: it asks for a new search, which lists all
    /// subscriptions and asks about those of which nothing is known.
    ///
    /// # Errors
    ///
    /// [`Failure`] while no search that could say is at its end.
    pub async fn discover(
        &self,
        dlq: &Arn,
        arrived: Timestamp,
        until: Instant,
    ) -> Result<Option<Arn>, Failure> {
        let mut searches = self.searches.lock().await;
        let now = self.clock.now();
        // Clocks differ, and a mark can say anything: a search that begins now covers all that have arrived.
        let arrived = arrived.min(now);
        let late = || Failure::ours(FailureClass::Transient, "DeadlineExceeded");
        loop {
            if let Some(found) = searches.done.as_ref().filter(|found| found.covers(arrived, now)) {
                return Ok(found.only.get(dlq.as_str()).cloned().flatten());
            }
            if Instant::now() >= until {
                return Err(late());
            }
            timeout_at(until, self.search_on(&mut searches)).await.unwrap_or_else(|_| Err(late()))?;
        }
    }

    /// Looks at one subscription, or reads one page of them.
    async fn search_on(&self, searches: &mut Searches) -> Result<(), Failure> {
        let Searches { done, under_way } = searches;
        let search = under_way.get_or_insert_with(|| Search::beginning(self.clock.now()));
        if let Some(arn) = search.waiting.last() {
            // Asked for here rather than through what is kept: a whole account would push that out.
            let target = self.ask(arn).await?.and_then(|subscription| subscription.dead_letter_target);
            search.asked.extend(search.waiting.pop().map(|arn| (arn, target)));
        } else {
            let page = self.sns.list_subscriptions().set_next_token(search.next_page.clone()).send().await;
            let page = page.map_err(|error| failure_of_call(&error))?;
            // One that is not confirmed has no ARN yet.
            let arns = page.subscriptions().iter().filter_map(|one| one.subscription_arn()?.parse().ok());
            search.list(arns, page.next_token().map(str::to_owned), done.as_ref());
        }
        if search.is_done() {
            *done = under_way.take().map(|search| search.finish(self.clock.now()));
        }
        Ok(())
    }

    /// The same for each of these dead-letter queues and moments of arrival. Once a search has failed nobody goes on with
    /// it here; it may still cover older letters.
    pub async fn discover_all(
        &self,
        searches: &[(Arn, Timestamp)],
        until: Instant,
    ) -> Vec<Result<Option<Arn>, Failure>> {
        let mut unfinished: Option<Failure> = None;
        let mut answers = Vec::with_capacity(searches.len());
        for (dlq, arrived) in searches {
            let until = if unfinished.is_none() { until } else { Instant::now() };
            let answer = self.discover(dlq, *arrived, until).await;
            answers.push(answer.map_err(|failure| unfinished.get_or_insert(failure).clone()));
        }
        answers
    }

    /// Which of these queues a raw subscription shares with others, by all answers so far. Says so once of each.
    pub fn newly_shared(&self, queues: BTreeSet<Arn>) -> Vec<Arn> {
        let mut sharing = self.sharing.lock().unwrap_or_else(PoisonError::into_inner);
        queues.into_iter().filter(|queue| sharing.newly(queue)).collect()
    }

    async fn ask(&self, arn: &Arn) -> Result<Option<Subscription>, Failure> {
        let answer = self.ask_sns(arn).await?;
        self.sharing.lock().unwrap_or_else(PoisonError::into_inner).learn(arn, answer.as_ref());
        Ok(answer)
    }

    async fn ask_sns(&self, arn: &Arn) -> Result<Option<Subscription>, Failure> {
        let region = Region::new(arn.region().to_owned());
        let answer = self
            .sns
            .get_subscription_attributes()
            .subscription_arn(arn.as_str())
            .customize()
            .config_override(aws_sdk_sns::config::Builder::new().region(region))
            .send()
            .await;
        match answer {
            Ok(answer) => {
                // An answer that says nothing is none; what does not exist is said to be not found.
                let unread = || Failure::ours(FailureClass::Transient, "NoAnswer");
                answer.attributes().and_then(Subscription::from_attributes).ok_or_else(unread).map(Some)
            }
            // What cannot be the ARN of a subscription is that of none.
            Err(SdkError::ServiceError(error))
                if error.err().is_not_found_exception() || error.err().is_invalid_parameter_exception() =>
            {
                Ok(None)
            }
            Err(error) => Err(failure_of_call(&error)),
        }
    }

    fn fresh(&self, arn: &Arn) -> Option<Kept> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.get(arn)?;
        let age = self.clock.now().duration_since(found.since);
        (age < MAX_AGE).then(|| found.clone())
    }

    fn keep(&self, arn: &Arn, answer: Option<Subscription>) {
        let since = self.clock.now();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_KEPT {
            kept.retain(|_, old| since.duration_since(old.since) < MAX_AGE);
        }
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert(arn.clone(), Kept { since, answer });
    }
}
