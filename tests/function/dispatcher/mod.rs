//! Tests of the dispatcher: the content of messages, the number of requests, and the result for each message.

mod content;
mod failures;
mod fifo;
mod number_of_requests;
mod synchronous_calls;
mod time;
mod traces;

use std::collections::BTreeMap;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use redrive_support::*;
use serde_json::json;
use sns_redrive::batch::{
    CONCURRENT_REQUESTS, CONCURRENT_SINGLES, CannotPack, Health, Packed, Purpose, Sent,
};
use sns_redrive::clients::Clients;
use sns_redrive::clock::Clock;
use sns_redrive::delivery::{Dispatcher, Numbered, OutgoingMessage, Payload, PendingDelivery, Reach, Time};
use sns_redrive::endpoint::{Destination, Endpoint, Through};
use sns_redrive::failure::{Failure, FailureClass};
use sns_redrive::letter::Letter;
use sns_redrive::policy::{Phase, Retry};
use tokio::time::Instant;

/// Returns a destination other than the endpoint of the letter's own subscription.
fn elsewhere(to: &str) -> Destination {
    Destination { endpoint: Endpoint::of_arn(arn(to)).unwrap(), subscription: None }
}

/// Returns the endpoint of the letter's own subscription.
fn endpoint(to: &str) -> Destination {
    let through = Through {
        subscription: arn(SUBSCRIPTION),
        topic: TOPIC.to_owned(),
        content_type: None,
        record_delimiter: "",
    };
    Destination { subscription: Some(through), ..elsewhere(to) }
}

fn dispatcher(clients: &Clients) -> Dispatcher {
    Dispatcher::new(clients, Reach::Public, Clock::system())
}

/// Returns the message in a payload for a topic or a queue.
fn pack<'a>(letter: &'a Letter, to: &'a Destination, retry: u32) -> Result<OutgoingMessage<'a>, CannotPack> {
    match Payload::pack(letter, to, false, retry)? {
        Payload::Message(message) => Ok(message),
        other => panic!("{other:?} is no message"),
    }
}

/// Returns an account with the queues of [`one_for_each_queue`].
fn with_queues(count: usize) -> Account {
    let account = Account::new();
    for number in 0..count {
        account.queue(&format!("q{number}"), &[]);
    }
    account
}

fn in_time() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

/// Sends each letter to its destination as retry 1.
async fn send_to(clients: Clients, letters: &[(Letter, Destination)], until: Instant) -> Vec<Sent> {
    let packed: Vec<_> = letters
        .iter()
        .map(|(letter, to)| (&to.endpoint, Payload::pack(letter, to, false, 1).unwrap()))
        .collect();
    let not_before = Instant::now();
    let waiting: Vec<_> = packed
        .iter()
        .map(|(to, payload)| PendingDelivery {
            to,
            payload,
            not_before,
            at_once: usize::MAX,
            purpose: Purpose::Other,
        })
        .collect();
    dispatcher(&clients).deliver(&waiting, Time::until(until), &mut Health::default()).await
}

/// Sends all letters to one destination.
async fn send(cloud: &Account, letters: Vec<Letter>, to: &str) -> Vec<Sent> {
    let letters: Vec<_> = letters.into_iter().map(|letter| (letter, elsewhere(to))).collect();
    send_to(cloud.clients(), &letters, in_time()).await
}

fn envelopes(count: usize) -> Vec<Letter> {
    (0..count).map(|number| letter(&Post::envelope(&format!("m{number}")))).collect()
}

/// Returns letters for the queues `q0`, `q1` and so on, one for each.
fn one_for_each_queue(count: usize) -> Vec<(Letter, Destination)> {
    let queue = |number| elsewhere(&format!("arn:aws:sqs:eu-central-1:123456789012:q{number}"));
    envelopes(count).into_iter().enumerate().map(|(number, letter)| (letter, queue(number))).collect()
}

fn failed(class: FailureClass, code: &str) -> Sent {
    Sent::Failed(Failure { class, code: code.to_owned(), message: None, retry_after: None })
}

fn attributes(given: &[(&str, &str, &str)]) -> BTreeMap<String, Attribute> {
    given.iter().map(|(name, kind, value)| ((*name).to_owned(), attribute(kind, value))).collect()
}

/// A mark can be forged, and every subscriber of a topic knows the ids of its messages.
#[test]
fn a_forged_letter_cannot_have_another_ones_retry_swallowed() {
    let mark = json!({ "v": 2, "spent": 2, "id": "letter-1", "first": NOW, "gen": 0 });
    let ids = ["one text", "another"].map(|body| {
        let letter = letter(&Post::raw("a", body).mark(&mark).group("g"));
        OutgoingMessage::pack(&letter, &arn(FIFO_WORKER), false, 3).unwrap().deduplication_id
    });
    assert_ne!(ids[0], ids[1]);
}
