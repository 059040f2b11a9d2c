//! The subscription that failed: where its endpoint is, and whether the letter may go there.
//!
//! A letter is only a message in a queue, and whoever can write to the queue can write any letter.
//! So nothing that it says of its subscription is believed: the subscription is asked for its
//! endpoint, its topic and its own dead-letter target, and a letter goes there only if the owner
//! of the subscription has pointed its dead letters at this queue.
//!
//! `GetSubscriptionAttributes` has a small quota (30 a second in small regions), so answers are
//! kept for a while; that a subscription does not exist is an answer too.
//! <https://docs.aws.amazon.com/sns/latest/api/API_GetSubscriptionAttributes.html>

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use aws_sdk_sns::config::Region;
use aws_sdk_sns::error::SdkError;
use futures_util::stream::{self, StreamExt};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use super::Sent;
use super::endpoint::{Endpoint, HttpUrl};
use super::sharing::Sharing;
use crate::arn::Arn;
use crate::clock::Clock;
use crate::failure::{Failure, FailureClass};
use crate::policy::Voucher;

/// How long an answer is believed. A repaired subscription is seen after this time at the latest.
const MAX_AGE: SignedDuration = SignedDuration::from_mins(5);

/// How long the search through all subscriptions believes what it was told of each.
const SEARCH_MAX_AGE: SignedDuration = SignedDuration::from_mins(30);

/// Answers kept at most; a forger of letters cannot fill the memory.
const MAX_KEPT: usize = 1_000;

/// Calls at once, with the small quota in mind.
const CONCURRENT_CALLS: usize = 4;

/// What SNS says of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// `sqs`, `lambda`, `https`, `email` ...
    pub protocol: String,
    /// An ARN, a URL or an address.
    pub endpoint: String,
    /// The topic.
    pub topic: String,
    /// The queue that its own `RedrivePolicy` names.
    pub dead_letter_target: Option<String>,
    /// Whether its letters lie in that queue as they were published, without an envelope.
    pub raw: bool,
    /// Whether it still waits to be confirmed.
    pub pending: bool,
    /// `EffectiveDeliveryPolicy`, JSON; HTTP/S only.
    pub delivery_policy: Option<String>,
}

/// Whether a letter may go to its subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// To this place.
    Endpoint(Endpoint),
    /// Its endpoint is none that can be delivered to; why, in words.
    Undeliverable(String),
    /// It may not.
    Refused(Refusal),
}

/// The check that a letter failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such subscription.
    Unknown,
    /// Nobody has confirmed it.
    Pending,
    /// It belongs to another topic than the letter.
    OtherTopic,
    /// It is in another region than its dead-letter queue would be.
    OtherRegion,
    /// It does not name this queue as its dead-letter target.
    OtherDeadLetterQueue,
    /// It delivers elsewhere than where the letter came from.
    OtherEndpoint,
}

impl Subscription {
    /// Whether a letter of `topic` (raw letters name none), read from `dlq`, may go there.
    #[must_use]
    pub fn check(&self, topic: Option<&Arn>, dlq: &Arn) -> Check {
        if topic.is_some_and(|topic| topic.as_str() != self.topic) {
            return Check::Refused(Refusal::OtherTopic);
        }
        if self.dead_letter_target.as_deref() != Some(dlq.as_str()) {
            return Check::Refused(Refusal::OtherDeadLetterQueue);
        }
        if self.pending {
            return Check::Refused(Refusal::Pending);
        }
        self.reachable().map_or_else(Check::Undeliverable, Check::Endpoint)
    }

    /// Whether this subscription vouches for the topic that a letter from `dlq` names.
    ///
    /// # Errors
    ///
    /// The [`Refusal`] of the first check that fails.
    pub fn vouches(&self, topic: Option<&Arn>, dlq: &Arn, voucher: &Voucher) -> Result<(), Refusal> {
        if topic.is_none_or(|topic| topic.as_str() != self.topic) {
            return Err(Refusal::OtherTopic);
        }
        let vouches = match voucher {
            Voucher::Exists => Ok(()),
            Voucher::DeadLetters => {
                let names = self.dead_letter_target.as_deref() == Some(dlq.as_str());
                names.then_some(()).ok_or(Refusal::OtherDeadLetterQueue)
            }
            Voucher::DeliversTo(arn) => {
                let endpoint = self.endpoint.parse::<Arn>().ok().map(Arn::without_latest);
                (endpoint.as_ref() == Some(arn)).then_some(()).ok_or(Refusal::OtherEndpoint)
            }
        };
        vouches.and(if self.pending { Err(Refusal::Pending) } else { Ok(()) })
    }

    /// Whether a letter that Lambda itself gave up on may go to the function of this subscription. Its own dead letters
    /// may lie elsewhere: those of the function lie here, and the policy says so.
    #[must_use]
    pub fn check_function(&self, topic: Option<&Arn>, dlq: &Arn) -> Check {
        if let Err(refusal) = self.vouches(topic, dlq, &Voucher::Exists) {
            return Check::Refused(refusal);
        }
        match self.reachable() {
            Ok(function @ Endpoint::Function(_)) => Check::Endpoint(function),
            Ok(_) => Check::Refused(Refusal::OtherEndpoint),
            Err(why) => Check::Undeliverable(why),
        }
    }

    /// The endpoint by its protocol.
    fn reachable(&self) -> Result<Endpoint, String> {
        let protocol = self.protocol.as_str();
        let arn = || self.endpoint.parse::<Arn>().ok().and_then(Endpoint::of_arn);
        match (protocol, arn()) {
            ("http" | "https", _) => {
                HttpUrl::parse(&self.endpoint).map(Endpoint::Http).map_err(|bad| bad.to_string())
            }
            ("sqs", Some(queue @ Endpoint::Queue(_))) => Ok(queue),
            ("lambda", Some(function @ Endpoint::Function(_))) => Ok(function),
            ("firehose", Some(stream @ Endpoint::Stream(_))) => Ok(stream),
            _ => Err(format!("nobody but SNS can deliver by the protocol {protocol:?}")),
        }
    }

    fn from_attributes(attributes: &HashMap<String, String>) -> Option<Self> {
        let text = |name: &str| attributes.get(name).cloned().unwrap_or_default();
        let redrive = attributes.get("RedrivePolicy");
        Some(Self {
            protocol: text("Protocol"),
            endpoint: text("Endpoint"),
            topic: attributes.get("TopicArn")?.clone(),
            dead_letter_target: redrive
                .and_then(|json| serde_json::from_str::<RedrivePolicy>(json).ok())
                .map(|policy| policy.dead_letter_target_arn),
            raw: text("RawMessageDelivery") == "true",
            pending: text("PendingConfirmation") == "true",
            delivery_policy: attributes.get("EffectiveDeliveryPolicy").cloned(),
        })
    }
}

/// SNS's own `RedrivePolicy` attribute of a subscription.
#[derive(Deserialize)]
struct RedrivePolicy {
    #[serde(rename = "deadLetterTargetArn")]
    dead_letter_target_arn: String,
}

impl Refusal {
    /// The check in words that an operator can act on.
    #[must_use]
    pub fn detail(self) -> &'static str {
        match self {
            Self::Unknown => "the subscription does not exist",
            Self::Pending => "the subscription is not confirmed",
            Self::OtherTopic => "the subscription belongs to another topic",
            Self::OtherRegion => "the subscription is in another region than this queue",
            Self::OtherDeadLetterQueue => {
                "the subscription does not name this queue as its dead-letter target"
            }
            Self::OtherEndpoint => {
                "the subscription does not deliver to the queue or function that the letter came from"
            }
        }
    }
}

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

/// What is known of a subscription: its attributes, `None` where it does not exist, or why nobody
/// could say.
pub type Known = Result<Option<Subscription>, Sent>;

impl Subscriptions {
    /// Nothing is asked before it is needed.
    #[must_use]
    pub fn new(sns: aws_sdk_sns::Client, clock: Clock) -> Self {
        let (kept, searches, sharing) = <_>::default();
        Self { sns, clock, kept, searches, sharing }
    }

    /// Looks up each of these subscriptions, asking SNS where no fresh answer is kept. No call
    /// begins after `until`.
    pub async fn look_up(&self, arns: BTreeSet<&Arn>, until: Instant) -> HashMap<Arn, Known> {
        stream::iter(arns)
            .map(|arn| async move { (arn.clone(), self.one(arn, until).await) })
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
            let page = page.map_err(|error| Failure::of_call(&error))?;
            // One that is not confirmed has no ARN yet.
            let arns = page.subscriptions().iter().filter_map(|one| one.subscription_arn()?.parse().ok());
            search.list(arns, page.next_token().map(str::to_owned), done.as_ref());
        }
        if search.is_done() {
            *done = under_way.take().map(|search| search.finish(self.clock.now()));
        }
        Ok(())
    }

    /// Whether a raw subscription shares this queue with others, by all answers so far. Says so once.
    pub fn newly_shared(&self, queue: &Arn) -> bool {
        self.sharing.lock().unwrap_or_else(PoisonError::into_inner).newly(queue)
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
            Err(error) => Err(Failure::of_call(&error)),
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
