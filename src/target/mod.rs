//! Where retries go.
//!
//! [`Parcel`] is what is sent, [`Courier`] sends it: many parcels in few batch requests, several
//! requests at a time, and an answer for every single parcel. One file per kind of destination
//! knows its service's request; nothing here knows of policies or schedules.

mod packing;
mod parcel;
mod queue;
mod subscription;
mod topic;

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt};
use tokio::time::{Instant, timeout_at};

pub use packing::{MAX_ENTRIES, runs};
pub use parcel::{Destination, MAX_ATTRIBUTES, Parcel, Unmarkable};
pub use subscription::{Check, Known, Refusal, Subscription, Subscriptions};

use crate::arn::{Arn, ArnKind};
use crate::failure::{Failure, FailureClass};

/// Requests under way at once. At 10 ms each this is 16,000 messages a second, more than one
/// function can prepare, and still few connections.
pub const CONCURRENT_REQUESTS: usize = 16;

/// Sends parcels to topics and queues.
#[derive(Debug, Clone)]
pub struct Courier {
    sns: aws_sdk_sns::Client,
    sqs: aws_sdk_sqs::Client,
}

/// What became of one parcel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// The service has taken it.
    Accepted,
    /// It was not taken, or nobody can say: a time-out may hide a success.
    Failed(Failure),
    /// There was no time to begin.
    NotStarted,
}

impl Courier {
    /// A courier on these clients.
    #[must_use]
    pub fn new(sns: aws_sdk_sns::Client, sqs: aws_sdk_sqs::Client) -> Self {
        Self { sns, sqs }
    }

    /// Sends every parcel to its destination and says what became of each, in the same order.
    ///
    /// Parcels for one destination share requests and keep their order within them. No request
    /// begins after `until`; one that is under way then counts as timed out. What the service
    /// refuses as a whole for reasons of its content is sent again one by one, so that one bad
    /// parcel does not take its neighbours along.
    pub async fn deliver(&self, parcels: &[(&Arn, &Parcel<'_>)], until: Instant) -> Vec<Sent> {
        let mut by_destination: BTreeMap<&Arn, Vec<usize>> = BTreeMap::new();
        for (index, (to, _)) in parcels.iter().enumerate() {
            by_destination.entry(to).or_default().push(index);
        }
        let requests = by_destination.into_iter().flat_map(|(to, indexes)| {
            let sizes: Vec<_> = indexes.iter().map(|index| parcels[*index].1.size()).collect();
            let runs = runs(&sizes, max_request_bytes(to));
            runs.into_iter().map(move |run| (to, indexes[run].to_vec()))
        });
        let answers = stream::iter(requests.collect::<Vec<_>>())
            .map(|(to, indexes)| async move {
                let request: Vec<_> = indexes.iter().map(|index| parcels[*index].1).collect();
                let answers = self.request(to, &request, until).await;
                indexes.into_iter().zip(answers).collect::<Vec<_>>()
            })
            .buffer_unordered(CONCURRENT_REQUESTS)
            .collect::<Vec<_>>()
            .await;

        let mut sent = vec![Sent::NotStarted; parcels.len()];
        for (index, answer) in answers.into_iter().flatten() {
            sent[index] = answer;
        }
        sent
    }

    async fn request(&self, to: &Arn, parcels: &[&Parcel<'_>], until: Instant) -> Vec<Sent> {
        let mut answers = self.request_once(to, parcels, until).await;
        let content =
            |sent: &Sent| matches!(sent, Sent::Failed(failure) if failure.class == FailureClass::Permanent);
        if answers.refused_whole && parcels.len() > 1 && answers.sent.iter().all(content) {
            answers.sent.clear();
            for parcel in parcels {
                answers.sent.extend(self.request_once(to, &[parcel], until).await.sent);
            }
        }
        answers.sent
    }

    async fn request_once(&self, to: &Arn, parcels: &[&Parcel<'_>], until: Instant) -> Answers {
        if Instant::now() >= until {
            return Answers::all(parcels.len(), &Sent::NotStarted, false);
        }
        let call = async {
            match to.kind() {
                ArnKind::Topic => topic::publish(&self.sns, to, parcels).await,
                _ => queue::send(&self.sqs, to, parcels).await,
            }
        };
        match timeout_at(until, call).await {
            Ok(Ok(sent)) => Answers { sent, refused_whole: false },
            Ok(Err(failure)) => Answers::all(parcels.len(), &Sent::Failed(failure), true),
            Err(_) => {
                let timeout = Failure::ours(FailureClass::Transient, "DeadlineExceeded");
                Answers::all(parcels.len(), &Sent::Failed(timeout), false)
            }
        }
    }
}

/// The answers to one request.
struct Answers {
    sent: Vec<Sent>,
    refused_whole: bool,
}

impl Answers {
    fn all(count: usize, sent: &Sent, refused_whole: bool) -> Self {
        Self { sent: vec![sent.clone(); count], refused_whole }
    }
}

/// The greatest total of one batch request.
fn max_request_bytes(to: &Arn) -> usize {
    match to.kind() {
        ArnKind::Topic => topic::MAX_REQUEST_BYTES,
        _ => queue::MAX_REQUEST_BYTES,
    }
}

/// Puts the two lists of a batch answer in the order of the request. An entry that stands in
/// neither was not taken, as far as anybody can tell.
fn in_order<'a>(
    count: usize,
    successful: impl Iterator<Item = &'a str>,
    failed: impl Iterator<Item = (&'a str, Failure)>,
) -> Vec<Sent> {
    let unanswered = Failure::ours(FailureClass::Transient, "NoAnswer");
    let mut sent = vec![Sent::Failed(unanswered); count];
    let mut put = |id: &str, answer| {
        if let Some(place) = id.parse::<usize>().ok().and_then(|index| sent.get_mut(index)) {
            *place = answer;
        }
    };
    successful.for_each(|id| put(id, Sent::Accepted));
    failed.for_each(|(id, failure)| put(id, Sent::Failed(failure)));
    sent
}
