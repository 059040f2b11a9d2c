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
use redrive_aws::clients::AwsClients;
use redrive_aws::clock::InstanceClock;
use redrive_aws::delivery::{
    AddressReach, DeliveryPayload, DeliveryWindow, Dispatcher, OutgoingMessage, PendingDelivery, RetryNumber,
};
use redrive_core::batch::{
    CONCURRENT_REQUESTS, CONCURRENT_SINGLES, CannotPack, Health, PackedFacts, RequestPurpose, SendResult,
};
use redrive_core::endpoint::{DeliverySubscription, Destination, Endpoint};
use redrive_core::failure::{Failure, FailureClass};
use redrive_core::letter::Letter;
use redrive_core::policy::{Retry, RetryPhase};
use redrive_support::*;
use serde_json::json;
use tokio::time::Instant;

/// Returns a destination other than the endpoint of the letter's own subscription.
fn elsewhere(to: &str) -> Destination {
    Destination { endpoint: Endpoint::of_arn(arn(to)).unwrap(), subscription: None }
}

/// Returns the endpoint of the letter's own subscription.
fn endpoint(to: &str) -> Destination {
    let through = DeliverySubscription {
        subscription: arn(SUBSCRIPTION),
        topic: TOPIC.to_owned(),
        content_type: None,
        record_delimiter: "",
    };
    Destination { subscription: Some(through), ..elsewhere(to) }
}

fn dispatcher(clients: &AwsClients) -> Dispatcher {
    Dispatcher::new(clients, AddressReach::Public, InstanceClock::system())
}

/// Returns the message in a payload for a topic or a queue.
fn pack<'a>(letter: &'a Letter, to: &'a Destination, retry: u32) -> Result<OutgoingMessage<'a>, CannotPack> {
    match DeliveryPayload::pack(letter, to, false, retry)? {
        DeliveryPayload::Message(message) => Ok(message),
        other => panic!("{other:?} is no message"),
    }
}

/// Returns an account with the queues of [`one_for_each_queue`].
fn with_queues(count: usize) -> TestAccount {
    let account = TestAccount::new();
    for number in 0..count {
        account.queue(&format!("q{number}"), &[]);
    }
    account
}

fn in_time() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

/// Sends each letter to its destination as retry 1.
async fn send_to(clients: AwsClients, letters: &[(Letter, Destination)], until: Instant) -> Vec<SendResult> {
    let packed: Vec<_> = letters
        .iter()
        .map(|(letter, to)| (&to.endpoint, DeliveryPayload::pack(letter, to, false, 1).unwrap()))
        .collect();
    let not_before = Instant::now();
    let waiting: Vec<_> = packed
        .iter()
        .map(|(to, payload)| PendingDelivery {
            to,
            payload,
            not_before,
            at_once: usize::MAX,
            purpose: RequestPurpose::Other,
        })
        .collect();
    dispatcher(&clients).deliver(&waiting, DeliveryWindow::until(until), &mut Health::default()).await
}

/// Sends all letters to one destination.
async fn send(cloud: &TestAccount, letters: Vec<Letter>, to: &str) -> Vec<SendResult> {
    let letters: Vec<_> = letters.into_iter().map(|letter| (letter, elsewhere(to))).collect();
    send_to(cloud.clients(), &letters, in_time()).await
}

fn envelopes(count: usize) -> Vec<Letter> {
    (0..count).map(|number| letter(&RecordBuilder::envelope(&format!("m{number}")))).collect()
}

/// Returns letters for the queues `q0`, `q1` and so on, one for each.
fn one_for_each_queue(count: usize) -> Vec<(Letter, Destination)> {
    let queue = |number| elsewhere(&format!("arn:aws:sqs:eu-central-1:123456789012:q{number}"));
    envelopes(count).into_iter().enumerate().map(|(number, letter)| (letter, queue(number))).collect()
}

fn failed(class: FailureClass, code: &str) -> SendResult {
    SendResult::Failed(Failure { class, code: code.to_owned(), message: None, retry_after: None })
}

fn attributes(given: &[(&str, &str, &str)]) -> BTreeMap<String, SimAttribute> {
    given.iter().map(|(name, kind, value)| ((*name).to_owned(), attribute(kind, value))).collect()
}

/// A mark can be forged, and every subscriber of a topic knows the ids of its messages.
#[test]
fn a_forged_letter_cannot_have_another_ones_retry_swallowed() {
    let mark = json!({ "v": 2, "spent": 2, "id": "letter-1", "first": NOW, "gen": 0 });
    let ids = ["one text", "another"].map(|body| {
        let letter = letter(&RecordBuilder::raw("a", body).mark(&mark).group("g"));
        OutgoingMessage::pack(&letter, &arn(FIFO_WORKER), false, 3).unwrap().deduplication_id
    });
    assert_ne!(ids[0], ids[1]);
}
