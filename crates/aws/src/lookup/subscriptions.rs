//! Look-ups of subscriptions in SNS.
//!
//! `GetSubscriptionAttributes` has a small quota (30 a second in small regions), so answers are kept for a
//! while. That a subscription does not exist is an answer too.
//! <https://docs.aws.amazon.com/sns/latest/api/API_GetSubscriptionAttributes.html>

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_sns::config::Region;
use aws_sdk_sns::error::SdkError;
use jiff::Timestamp;
use redrive_core::arn::Arn;
use redrive_core::batch::{RequiredFreshness, SendResult, Subscription, SubscriptionLookup};
use redrive_core::failure::{DEADLINE_EXCEEDED, Failure, FailureClass, SEARCH_UNFINISHED};
use tokio::time::Instant;

use super::cache::{CacheLimits, LookupCache, MissedLookup};
use super::search::{SearchProgress, SubscriptionSearches};
use super::sharing::SharedQueues;
use crate::clients::{failure_of_call, in_time, too_late};
use crate::clock::InstanceClock;

/// The time for which an answer is valid. A repaired subscription is noticed after this time at the latest.
const MAX_AGE: Duration = Duration::from_mins(5);

/// The greatest number of answers in the cache, so that a forger of letters cannot fill the memory.
const MAX_KEPT: usize = 1_000;

/// A reader of subscriptions that keeps SNS's answers for a while.
#[derive(Debug)]
pub struct SubscriptionReader {
    sns: aws_sdk_sns::Client,
    clock: InstanceClock,
    cache: LookupCache<Arn, Option<Subscription>>,
    searches: tokio::sync::Mutex<SubscriptionSearches>,
    sharing: Mutex<SharedQueues>,
}

impl SubscriptionReader {
    /// Creates a reader. It makes no call before a subscription is needed.
    #[must_use]
    pub fn new(sns: aws_sdk_sns::Client, clock: InstanceClock) -> Self {
        // A failure belongs to one attempt. The next attempt asks again.
        let keeping = CacheLimits { max_age: MAX_AGE, pause: Duration::ZERO, max_kept: MAX_KEPT };
        let cache = LookupCache::new(keeping, clock.clone());
        let (searches, sharing) = <_>::default();
        Self { sns, clock, cache, searches, sharing }
    }

    /// Looks up each of these subscriptions. It asks SNS about those without a valid answer in the cache. No
    /// call goes on after `until`.
    pub async fn look_up(&self, arns: BTreeSet<Arn>, until: Instant) -> HashMap<Arn, SubscriptionLookup> {
        let answers =
            self.cache.look_up(arns, RequiredFreshness::Kept, until, async |arn| self.ask(arn).await).await;
        let known =
            |missed: MissedLookup<_>| missed.failure.map_or(SendResult::NotStarted, SendResult::Failed);
        answers.into_iter().map(|(arn, answer)| (arn, answer.map_err(known))).collect()
    }

    /// Searches all subscriptions of the account for the one that names `dlq` as its dead-letter target.
    /// Returns `None` if there is none or more than one. `arrived` is the time at which the letter in
    /// question arrived.
    ///
    /// A search takes a call for every subscription, within a small quota. So it is made for all queues
    /// together, and its result is valid for a while. A search that is cut off by `until` continues later
    /// where it stopped. A letter that arrived after the search began may belong to a newer subscription. It
    /// causes a new search, which lists all subscriptions and asks about those without a valid answer.
    ///
    /// # Errors
    ///
    /// [`Failure`] as long as no search that covers the letter is finished.
    async fn discover(&self, dlq: &Arn, arrived: Timestamp, until: Instant) -> Result<Option<Arn>, Failure> {
        let mut searches = self.searches.lock().await;
        let now = self.clock.moment();
        // Clocks differ, and a mark can hold any time. A search that begins now covers all letters that have
        // arrived.
        let arrived = arrived.min(now.at);
        let mut progress = false;
        loop {
            if let Some(found) = searches.done.as_ref().filter(|found| found.covers(arrived, now.age)) {
                return Ok(found.only.get(dlq.as_str()).cloned().flatten());
            }
            let cut_off = |failure: Failure| match failure.code.as_str() {
                DEADLINE_EXCEEDED if progress => Failure::ours(failure.class, SEARCH_UNFINISHED),
                _ => failure,
            };
            if Instant::now() >= until {
                return Err(cut_off(too_late()));
            }
            in_time(until, self.search_on(&mut searches)).await.map_err(cut_off)?;
            progress = true;
        }
    }

    /// Asks about one subscription, or reads one page of the list.
    async fn search_on(&self, searches: &mut SubscriptionSearches) -> Result<(), Failure> {
        let SubscriptionSearches { done, under_way } = searches;
        let search = under_way.get_or_insert_with(|| SearchProgress::beginning(self.clock.moment()));
        if let Some(arn) = search.waiting.last() {
            // This bypasses the cache, because a whole account would push everything else out of it.
            let target = self.ask(arn).await?.and_then(|subscription| subscription.dead_letter_target);
            search.asked.extend(search.waiting.pop().map(|arn| (arn, target)));
        } else {
            let page = self.sns.list_subscriptions().set_next_token(search.next_page.clone()).send().await;
            let page = page.map_err(|error| failure_of_call(&error))?;
            // An unconfirmed subscription has no ARN yet.
            let arns = page.subscriptions().iter().filter_map(|one| one.subscription_arn()?.parse().ok());
            search.list(arns, page.next_token().map(str::to_owned), done.as_ref());
        }
        if search.is_done() {
            *done = under_way.take().map(|search| search.finish(self.clock.age()));
        }
        Ok(())
    }

    /// Searches for each of these dead-letter queues and arrival times. After one search has failed, none is
    /// continued, but finished ones may still cover older letters.
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

    /// Returns those of these queues that a raw subscription shares with others, by all answers so far. It
    /// returns each queue only once.
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
                // An answer without content is a failure. SNS answers "not found" if a subscription does not
                // exist.
                let unread = || Failure::ours(FailureClass::Transient, "NoAnswer");
                answer.attributes().and_then(Subscription::from_attributes).ok_or_else(unread).map(Some)
            }
            // A text that is invalid as a subscription's ARN names no subscription.
            Err(SdkError::ServiceError(error))
                if error.err().is_not_found_exception() || error.err().is_invalid_parameter_exception() =>
            {
                Ok(None)
            }
            Err(error) => Err(failure_of_call(&error)),
        }
    }
}
