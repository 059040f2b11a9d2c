//! Targets: what goes over the wire, in how many requests, and what becomes of each message.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use serde_json::json;
use sns_redrive::batch::{CannotPack, Sent};
use sns_redrive::clients::Clients;
use sns_redrive::delivery::{
    CONCURRENT_REQUESTS, CONCURRENT_SINGLES, Dispatcher, OutgoingMessage, Payload, PendingDelivery, Reach,
    Time,
};
use sns_redrive::endpoint::{Destination, Endpoint, Through};
use sns_redrive::failure::{Failure, FailureClass};
use sns_redrive::letter::Letter;
use support::*;
use tokio::time::Instant;

/// A destination other than the endpoint of the letter's own subscription.
fn elsewhere(to: &str) -> Destination {
    Destination { endpoint: Endpoint::of_arn(arn(to)).unwrap(), subscription: None }
}

/// The endpoint of the letter's own subscription.
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
    Dispatcher::new(clients, Reach::Public)
}

/// The message in a payload for a topic or a queue.
fn pack<'a>(letter: &'a Letter, to: &'a Destination, retry: u32) -> Result<OutgoingMessage<'a>, CannotPack> {
    match Payload::pack(letter, to, retry)? {
        Payload::Message(message) => Ok(message),
        other => panic!("{other:?} is no message"),
    }
}

fn in_time() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

/// Sends each letter to its destination as retry 1.
async fn send_to(clients: Clients, letters: &[(Letter, Destination)], until: Instant) -> Vec<Sent> {
    let packed: Vec<_> =
        letters.iter().map(|(letter, to)| (&to.endpoint, Payload::pack(letter, to, 1).unwrap())).collect();
    let not_before = Instant::now();
    let waiting: Vec<_> = packed
        .iter()
        .map(|(to, payload)| PendingDelivery { to, payload, not_before, at_once: usize::MAX })
        .collect();
    dispatcher(&clients).deliver(&waiting, Time::until(until)).await
}

/// Sends all letters to one destination.
async fn send(cloud: &Cloud, letters: Vec<Letter>, to: &str) -> Vec<Sent> {
    let letters: Vec<_> = letters.into_iter().map(|letter| (letter, elsewhere(to))).collect();
    send_to(cloud.clients(), &letters, in_time()).await
}

fn envelopes(count: usize) -> Vec<Letter> {
    (0..count).map(|number| letter(&Post::envelope(&format!("m{number}")))).collect()
}

/// Queues `q0`, `q1` ... with a letter for each.
fn one_for_each_queue(count: usize) -> Vec<(Letter, Destination)> {
    let queue = |number| elsewhere(&format!("arn:aws:sqs:eu-central-1:123456789012:q{number}"));
    envelopes(count).into_iter().enumerate().map(|(number, letter)| (letter, queue(number))).collect()
}

fn failed(class: FailureClass, code: &str) -> Sent {
    Sent::Failed(Failure { class, code: code.to_owned(), message: None })
}

fn attributes(given: &[(&str, &str, &str)]) -> BTreeMap<String, (String, String)> {
    let owned = |(name, kind, value): &(&str, &str, &str)| {
        ((*name).to_owned(), ((*kind).to_owned(), (*value).to_owned()))
    };
    given.iter().map(owned).collect()
}

mod number_of_requests {
    use super::*;

    #[tokio::test]
    async fn ten_letters_for_one_topic_cost_one_publish_batch() {
        let cloud = Cloud::new();
        assert_eq!(send(&cloud, envelopes(10), TOPIC).await, vec![Sent::Accepted; 10]);
        assert_eq!(cloud.summary(), ["PublishBatch orders 10"]);
    }

    #[tokio::test]
    async fn ten_letters_for_one_queue_cost_one_send_message_batch() {
        let cloud = Cloud::new();
        assert_eq!(send(&cloud, envelopes(10), WORKER).await, vec![Sent::Accepted; 10]);
        assert_eq!(cloud.summary(), ["SendMessageBatch orders-worker 10"]);
    }

    #[tokio::test]
    async fn twenty_five_letters_go_in_requests_of_ten_and_keep_their_order() {
        for (to, op) in [(TOPIC, "PublishBatch orders"), (WORKER, "SendMessageBatch orders-worker")] {
            let cloud = Cloud::new();
            assert_eq!(send(&cloud, envelopes(25), to).await, vec![Sent::Accepted; 25]);
            assert_eq!(cloud.summary(), [format!("{op} 10"), format!("{op} 10"), format!("{op} 5")]);
            let calls = cloud.journal();
            let sent: Vec<_> = calls.iter().flat_map(|call| &call.entries).collect();
            for (number, entry) in sent.iter().enumerate() {
                assert!(entry.body.contains(&format!("message of m{number}")), "{number}: {}", entry.body);
            }
        }
    }

    #[tokio::test]
    async fn letters_for_several_targets_share_requests_with_those_of_their_target_only() {
        let cloud = Cloud::new();
        let targets = [TOPIC, WORKER, BILLING, TOPIC, WORKER, TOPIC].map(elsewhere);
        let letters: Vec<_> = envelopes(6).into_iter().zip(targets).collect();
        assert_eq!(send_to(cloud.clients(), &letters, in_time()).await, vec![Sent::Accepted; 6]);
        let mut requests = cloud.summary();
        requests.sort();
        assert_eq!(
            requests,
            [
                "PublishBatch orders 3",
                "SendMessageBatch orders-billing 1",
                "SendMessageBatch orders-worker 2"
            ]
        );
    }

    /// The largest batch that a service takes is still one request, and one byte more makes two.
    #[tokio::test]
    async fn the_total_of_a_request_is_256_kib_for_topics_and_1_mib_for_queues() {
        for (to, limit) in [(TOPIC, 256 * 1024), (WORKER, 1024 * 1024)] {
            let two = |bytes: usize| ["a", "b"].map(|id| letter(&Post::raw(id, &"x".repeat(bytes)))).to_vec();
            let around = pack(&two(0)[0], &elsewhere(to), 1).unwrap().size();
            for (bytes, requests) in [(limit / 2 - around, 1), (limit / 2 - around + 1, 2)] {
                let cloud = Cloud::new();
                assert_eq!(send(&cloud, two(bytes), to).await, vec![Sent::Accepted; 2]);
                assert_eq!(cloud.journal().len(), requests, "{bytes} bytes each to {to}");
            }
        }
    }

    #[tokio::test]
    async fn big_letters_are_spread_over_requests_and_a_huge_one_goes_alone() {
        let cloud = Cloud::new();
        let sizes = [100, 100, 100, 300, 10, 10].map(|kib| kib * 1024);
        let letters = sizes
            .iter()
            .enumerate()
            .map(|(n, bytes)| letter(&Post::raw(&n.to_string(), &"x".repeat(*bytes))));
        assert_eq!(send(&cloud, letters.collect(), TOPIC).await, vec![Sent::Accepted; 6]);
        let mut requests: Vec<Vec<usize>> = cloud
            .journal()
            .iter()
            .map(|call| call.entries.iter().map(|entry| entry.body.len() / 1024).collect())
            .collect();
        requests.sort();
        assert_eq!(requests, [vec![10, 10], vec![100], vec![100, 100], vec![300]]);
    }

    #[tokio::test]
    async fn nothing_to_send_costs_no_request() {
        let cloud = Cloud::new();
        assert_eq!(send(&cloud, Vec::new(), TOPIC).await, []);
        assert_eq!(cloud.summary(), [""; 0]);
    }
}

mod time {
    use super::*;

    #[tokio::test]
    async fn independent_requests_are_under_way_together_up_to_a_limit() {
        let limit = CONCURRENT_REQUESTS;
        for (queues, together) in [(5, 5), (limit, limit), (limit + 4, limit)] {
            let cloud = Cloud::new();
            cloud.script(move |_| Reply::Together(together));
            let sent = send_to(cloud.clients(), &one_for_each_queue(queues), in_time()).await;
            assert_eq!(sent, vec![Sent::Accepted; queues]);
            assert_eq!((cloud.journal().len(), cloud.peak()), (queues, together));
        }
    }

    /// Each letter is a request to a function, and one with few instances would fail the others.
    #[tokio::test]
    async fn of_requests_to_functions_fewer_are_under_way_together() {
        let cloud = Cloud::new();
        cloud.script(|_| Reply::Slow(Duration::from_secs(1)));
        let letters = envelopes(CONCURRENT_SINGLES + 4).into_iter();
        let letters: Vec<_> = letters.map(|letter| (letter, elsewhere(NOTIFIER))).collect();
        let sent = send_to(cloud.clients(), &letters, in_time()).await;
        assert_eq!(sent, vec![Sent::Accepted; CONCURRENT_SINGLES + 4]);
        assert_eq!(cloud.journal().len(), CONCURRENT_SINGLES + 4);
        assert!(cloud.peak() > 1 && cloud.peak() <= CONCURRENT_SINGLES, "{}", cloud.peak());
    }

    #[tokio::test]
    async fn a_request_that_hangs_keeps_none_of_the_others() {
        let cloud = Cloud::new();
        cloud.script(|call| if call.to == "q1" { Reply::Hang } else { Reply::Accept });
        let began = Instant::now();
        let until = began + Duration::from_secs(1);
        let sent = send_to(cloud.clients(), &one_for_each_queue(3), until).await;
        let late = failed(FailureClass::Transient, "DeadlineExceeded");
        assert_eq!(sent, [Sent::Accepted, late, Sent::Accepted]);
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn no_request_begins_after_the_time_is_over() {
        let cloud = Cloud::new();
        cloud.script(|_| Reply::Hang);
        let until = Instant::now() + Duration::from_secs(6);
        let sent = send_to(cloud.clients(), &one_for_each_queue(CONCURRENT_REQUESTS + 2), until).await;
        let late = failed(FailureClass::Transient, "DeadlineExceeded");
        let count = |what: &Sent| sent.iter().filter(|answer| *answer == what).count();
        assert_eq!((count(&late), count(&Sent::NotStarted)), (CONCURRENT_REQUESTS, 2));
        assert_eq!(cloud.journal().len(), CONCURRENT_REQUESTS);

        let cloud = Cloud::new();
        let sent = send_to(cloud.clients(), &one_for_each_queue(2), Instant::now()).await;
        assert_eq!((sent, cloud.journal().len()), (vec![Sent::NotStarted; 2], 0));
    }
}

/// A call that waits for its function cannot be taken back: one that is cut off leaves the function working, and
/// has it work once more at the next retry.
mod synchronous_calls {
    use super::*;

    fn plain(count: usize) -> Vec<(Letter, Destination)> {
        let letters = (0..count).map(|number| letter(&Post::raw(&format!("m{number}"), "{}")));
        letters.map(|letter| (letter, elsewhere(NOTIFIER))).collect()
    }

    /// Calls a function once for each of so many letters; answers how many calls it took, were cut off and did not
    /// begin.
    async fn call(dispatcher: &Dispatcher, count: usize, time: Time) -> [usize; 3] {
        let letters = plain(count);
        let packed: Vec<_> = letters
            .iter()
            .map(|(letter, to)| (&to.endpoint, Payload::pack(letter, to, 1).unwrap()))
            .collect();
        let not_before = Instant::now();
        let waiting: Vec<_> = packed
            .iter()
            .map(|(to, payload)| PendingDelivery { to, payload, not_before, at_once: usize::MAX })
            .collect();
        let sent = dispatcher.deliver(&waiting, time).await;
        let late = failed(FailureClass::Transient, "DeadlineExceeded");
        [Sent::Accepted, late, Sent::NotStarted]
            .map(|what| sent.iter().filter(|answer| **answer == what).count())
    }

    fn within(millis: u64) -> Time {
        Time::until(Instant::now() + Duration::from_millis(millis))
    }

    #[tokio::test]
    async fn one_that_would_not_end_in_time_is_not_begun() {
        let cloud = Cloud::new();
        cloud.script(|_| Reply::Slow(Duration::from_millis(3_500)));
        // The second row of calls could begin two seconds and a half before the end.
        let answers = call(&dispatcher(&cloud.clients()), CONCURRENT_SINGLES + 4, within(6_000)).await;
        assert_eq!(answers, [CONCURRENT_SINGLES, 0, 4]);
        assert_eq!(cloud.journal().len(), CONCURRENT_SINGLES);
    }

    #[tokio::test]
    async fn a_function_slower_than_all_the_time_is_called_once_in_an_invocation() {
        let cloud = Cloud::new();
        cloud.script(|_| Reply::Hang);
        let dispatcher = dispatcher(&cloud.clients());
        assert_eq!(call(&dispatcher, 3, within(300)).await, [0, 3, 0], "nothing is known yet");
        for _ in 0..3 {
            assert_eq!(call(&dispatcher, 3, within(300)).await, [0, 1, 2]);
        }
        // One call that comes back shows that not all of them are so slow.
        cloud.script(|_| Reply::Accept);
        assert_eq!(call(&dispatcher, 3, within(300)).await, [1, 0, 2]);
        assert_eq!(call(&dispatcher, 3, within(900)).await, [3, 0, 0]);
    }

    /// The rounds of a FIFO queue are one invocation.
    #[tokio::test]
    async fn the_first_call_of_an_invocation_is_one_for_all_its_rounds() {
        let cloud = Cloud::new();
        let dispatcher = dispatcher(&cloud.clients());
        cloud.script(|_| Reply::Slow(Duration::from_millis(500)));
        assert_eq!(call(&dispatcher, 1, within(1_200)).await, [1, 0, 0]);
        let time = within(450);
        cloud.script(|_| Reply::Accept);
        assert_eq!(
            call(&dispatcher, 1, time).await,
            [1, 0, 0],
            "half a second does not fit, but it is the first"
        );
        assert_eq!(call(&dispatcher, 1, time).await, [0, 0, 1]);
        assert_eq!(call(&dispatcher, 1, within(450)).await, [1, 0, 0]);
    }

    /// An error of the function took the time that it took; what Lambda refuses did not run at all.
    #[tokio::test]
    async fn what_counts_is_how_long_functions_ran() {
        for (reply, begun) in
            [(Reply::FunctionError, 2), (Reply::Fail(429, "TooManyRequestsException", "no"), 1)]
        {
            let cloud = Cloud::new();
            let dispatcher = dispatcher(&cloud.clients());
            let first = reply.clone();
            cloud.script(move |_| first.clone());
            // A turn in the last part of the time: nothing but a measure lets a second call begin there.
            let letters = plain(2);
            let packed: Vec<_> = letters
                .iter()
                .map(|(letter, to)| (&to.endpoint, Payload::pack(letter, to, 1).unwrap()))
                .collect();
            let time = within(5_000);
            let waiting: Vec<_> = packed
                .iter()
                .zip([0, 2_750])
                .map(|((to, payload), turn)| PendingDelivery {
                    to,
                    payload,
                    not_before: time.start + Duration::from_millis(turn),
                    at_once: usize::MAX,
                })
                .collect();
            dispatcher.deliver(&waiting, time).await;
            assert_eq!(cloud.journal().len(), begun, "{reply:?}");
        }
    }

    /// One that Lambda queues takes no time of ours.
    #[tokio::test]
    async fn events_of_sns_wait_for_no_function() {
        let cloud = Cloud::new();
        cloud.script(|_| Reply::Slow(Duration::from_millis(500)));
        let letters: Vec<_> = envelopes(CONCURRENT_SINGLES + 1)
            .into_iter()
            .map(|letter| (letter, elsewhere(NOTIFIER)))
            .collect();
        let until = Instant::now() + Duration::from_millis(1_200);
        let sent = send_to(cloud.clients(), &letters, until).await;
        assert_eq!(sent, vec![Sent::Accepted; CONCURRENT_SINGLES + 1]);
    }
}

mod failures {
    use super::*;

    /// Nothing of what a service says in words is kept, but where it names what is to be mended.
    #[tokio::test]
    async fn every_failed_entry_of_a_200_has_its_own_class_and_its_neighbours_are_delivered() {
        let fates = [
            (1, EntryFate::Failed("InvalidParameter", "says too much", true)),
            (3, EntryFate::Failed("Throttled", "says too much", false)),
            (4, EntryFate::Failed("KMSAccessDenied", "not allowed to use the key", true)),
            (6, EntryFate::Failed("InternalFailure", "says too much", false)),
            (7, EntryFate::Failed("SomethingNew", "says too much", true)),
            (8, EntryFate::Missing),
        ];
        for to in [TOPIC, WORKER] {
            let cloud = Cloud::new();
            cloud.script(move |_| Reply::Except(fates.to_vec()));
            let no_key = Sent::Failed(Failure {
                class: FailureClass::ActionRequired,
                code: "KMSAccessDenied".to_owned(),
                message: Some("not allowed to use the key".to_owned()),
            });
            assert_eq!(
                send(&cloud, envelopes(10), to).await,
                [
                    Sent::Accepted,
                    failed(FailureClass::Permanent, "InvalidParameter"),
                    Sent::Accepted,
                    failed(FailureClass::Throttling, "Throttled"),
                    no_key,
                    Sent::Accepted,
                    failed(FailureClass::Transient, "InternalFailure"),
                    failed(FailureClass::ActionRequired, "SomethingNew"),
                    failed(FailureClass::Transient, "NoAnswer"),
                    Sent::Accepted,
                ]
            );
            assert_eq!(cloud.journal().len(), 1, "one bad entry is no reason to repeat a request");
        }
    }

    #[tokio::test]
    async fn a_failed_request_fails_each_of_its_letters_and_is_made_once() {
        use FailureClass::{ActionRequired, Throttling, Transient};
        let named = |class, code: &str, message: &str| {
            let (code, message) = (code.to_owned(), Some(message.to_owned()));
            Sent::Failed(Failure { class, code, message })
        };
        let no_queue = "AWS.SimpleQueueService.NonExistentQueue";
        for (to, reply, sent) in [
            (TOPIC, Reply::Fail(400, "Throttling", "Rate exceeded"), failed(Throttling, "Throttling")),
            (TOPIC, Reply::Fail(429, "Throttled", "Rate exceeded"), failed(Throttling, "Throttled")),
            (WORKER, Reply::Fail(403, "RequestThrottled", "slow"), failed(Throttling, "RequestThrottled")),
            (
                TOPIC,
                Reply::Fail(403, "AuthorizationError", "no"),
                named(ActionRequired, "AuthorizationError", "no"),
            ),
            (WORKER, Reply::Fail(403, "AccessDenied", "no"), named(ActionRequired, "AccessDenied", "no")),
            (TOPIC, Reply::Fail(404, "NotFound", "gone"), named(ActionRequired, "NotFound", "gone")),
            (WORKER, Reply::Fail(400, no_queue, "gone"), named(ActionRequired, no_queue, "gone")),
            (TOPIC, Reply::Fail(500, "InternalError", "oh"), failed(Transient, "InternalError")),
            (WORKER, Reply::Fail(503, "ServiceUnavailable", "oh"), failed(Transient, "ServiceUnavailable")),
            (WORKER, Reply::Nonsense(502, "<html>Bad Gateway</html>"), failed(Transient, "Http502")),
            (TOPIC, Reply::Nonsense(502, ""), failed(Transient, "Http502")),
            (TOPIC, Reply::Nonsense(200, "<html>"), failed(Transient, "Http200")),
            (WORKER, Reply::Nonsense(200, "{"), failed(Transient, "Http200")),
            (WORKER, Reply::Nonsense(200, "{}"), failed(Transient, "NoAnswer")),
            (TOPIC, Reply::Reset, failed(Transient, "Unreachable")),
            (WORKER, Reply::Reset, failed(Transient, "Unreachable")),
            (WORKER, Reply::NoConnection, failed(Transient, "Timeout")),
        ] {
            let cloud = Cloud::new();
            let what = format!("{reply:?} of {to}");
            cloud.script(move |_| reply.clone());
            assert_eq!(send(&cloud, envelopes(3), to).await, vec![sent; 3], "{what}");
            assert_eq!(cloud.journal().len(), 1, "{what}");
        }
    }

    #[tokio::test]
    async fn what_is_refused_as_a_whole_for_its_content_is_sent_again_one_by_one() {
        for (to, whole) in
            [(TOPIC, "InvalidParameter"), (WORKER, "AWS.SimpleQueueService.BatchRequestTooLong")]
        {
            let cloud = Cloud::new();
            cloud.script(move |call| match call.entries_with("message of m4").as_slice() {
                [] => Reply::Accept,
                _ if call.entries.len() == 1 => Reply::Fail(400, "InvalidMessageContents", "bad"),
                _ => Reply::Fail(400, whole, "bad"),
            });
            let mut expected = vec![Sent::Accepted; 10];
            expected[4] = failed(FailureClass::Permanent, "InvalidMessageContents");
            assert_eq!(send(&cloud, envelopes(10), to).await, expected);
            let counts: Vec<_> = cloud.journal().iter().map(|call| call.entries.len()).collect();
            assert_eq!(counts, [10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        }
    }

    #[tokio::test]
    async fn one_refused_letter_alone_is_not_sent_again() {
        let cloud = Cloud::new();
        cloud.script(|_| Reply::Fail(400, "InvalidParameter", "bad"));
        let sent = send(&cloud, envelopes(1), TOPIC).await;
        assert_eq!(sent, [failed(FailureClass::Permanent, "InvalidParameter")]);
        assert_eq!(cloud.journal().len(), 1);
    }

    #[tokio::test]
    async fn one_failing_target_is_none_of_the_others() {
        let cloud = Cloud::new();
        cloud.script(|call| if call.to == "q0" { Reply::Reset } else { Reply::Accept });
        let sent = send_to(cloud.clients(), &one_for_each_queue(3), in_time()).await;
        let unreachable = failed(FailureClass::Transient, "Unreachable");
        assert_eq!(sent, [unreachable, Sent::Accepted, Sent::Accepted]);
    }

    /// A hiccup costs a letter none of its retries: the SDK tries again, with the very same request.
    #[tokio::test]
    async fn the_sdk_repeats_a_request_as_it_was() {
        let cloud = Cloud::new();
        let tries = std::sync::atomic::AtomicUsize::new(0);
        cloud.script(move |_| match tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => Reply::Fail(503, "ServiceUnavailable", "oh"),
            1 => Reply::Reset,
            _ => Reply::Accept,
        });
        let retry =
            RetryConfig::standard().with_max_attempts(3).with_initial_backoff(Duration::from_millis(1));
        let letters: Vec<_> =
            envelopes(2).into_iter().map(|letter| (letter, elsewhere(FIFO_TOPIC))).collect();
        assert_eq!(send_to(cloud.clients_with(retry), &letters, in_time()).await, vec![Sent::Accepted; 2]);
        let calls = cloud.journal();
        assert_eq!(calls.len(), 3);
        assert_eq!((&calls[0].entries, &calls[1].entries), (&calls[2].entries, &calls[2].entries));
    }

    /// That our own credentials cannot be had says nothing about a letter.
    #[tokio::test]
    async fn without_credentials_no_letter_is_called_undeliverable() {
        let cloud = Cloud::new();
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-central-1"))
            .http_client(cloud.clone())
            .retry_config(RetryConfig::disabled())
            .build();
        for to in [TOPIC, WORKER] {
            let letters = [(envelopes(1).remove(0), elsewhere(to))];
            let sent = send_to(Clients::from_config(&config, false), &letters, in_time()).await;
            assert_eq!(sent, [failed(FailureClass::Transient, "Unreachable")]);
        }
        assert_eq!(cloud.journal().len(), 0);
    }

    #[tokio::test]
    async fn a_target_is_called_in_its_own_region() {
        let cloud = Cloud::new();
        for (to, host) in [
            ("arn:aws:sns:us-east-1:123456789012:orders", "sns.us-east-1.amazonaws.com"),
            ("arn:aws:sqs:ap-southeast-2:123456789012:q", "sqs.ap-southeast-2.amazonaws.com"),
            ("arn:aws-cn:sqs:cn-north-1:123456789012:q", "sqs.cn-north-1.amazonaws.com.cn"),
        ] {
            cloud.forget();
            assert_eq!(send(&cloud, envelopes(1), to).await, [Sent::Accepted]);
            assert_eq!(cloud.journal()[0].host, host);
        }
    }
}

mod content {
    use super::*;

    /// The only entry of the only request.
    async fn sent(letter: &Letter, to: Destination, retry: u32) -> Entry {
        let cloud = Cloud::new();
        let payload = Payload::pack(letter, &to, retry).unwrap();
        let waiting = PendingDelivery {
            to: &to.endpoint,
            payload: &payload,
            not_before: Instant::now(),
            at_once: usize::MAX,
        };
        let answers = dispatcher(&cloud.clients()).deliver(&[waiting], Time::until(in_time())).await;
        assert_eq!(answers, [Sent::Accepted]);
        let mut entries: Vec<_> = cloud.journal().into_iter().flat_map(|call| call.entries).collect();
        assert_eq!(entries.len(), 1);
        entries.remove(0)
    }

    fn typed() -> Post {
        Post::envelope("a")
            .subject("Order placed")
            .sns_attribute("tenant", "String", "gold & <b>=+%")
            .sns_attribute("priority", "Number", "1.50")
            .sns_attribute("tags", "String.Array", r#"["new", 7, true, null]"#)
            .sns_attribute("checksum", "Binary", "AAECA/3+/w==")
    }

    #[tokio::test]
    async fn a_topic_gets_message_subject_attributes_with_their_types_group_and_mark() {
        let letter = letter(&typed().group("customer-20").system("AWSTraceHeader", "Root=1-2"));
        assert_eq!(
            sent(&letter, elsewhere(TOPIC), 4).await,
            Entry {
                body: "message of a".to_owned(),
                subject: Some("Order placed".to_owned()),
                attributes: attributes(&[
                    ("tenant", "String", "gold & <b>=+%"),
                    ("priority", "Number", "1.50"),
                    ("tags", "String.Array", r#"["new", 7, true, null]"#),
                    ("checksum", "Binary", "base64 AAECA/3+/w=="),
                    (
                        "sns-redrive",
                        "String",
                        &published(&mark_text(4, &letter_id("a"), NOW, "message of a"), 1)
                    ),
                ]),
                group_id: Some("customer-20".to_owned()),
                ..Entry::default()
            }
        );
    }

    #[tokio::test]
    async fn the_queue_of_a_subscription_gets_the_stored_body_byte_for_byte() {
        let post = typed().group("customer-20").system("AWSTraceHeader", "Root=1-2");
        assert_eq!(
            sent(&letter(&post), endpoint(WORKER), 1).await,
            Entry {
                body: post.body(),
                attributes: attributes(&[(
                    "sns-redrive",
                    "String",
                    &mark_text(1, &letter_id("a"), NOW, "message of a")
                )]),
                group_id: Some("customer-20".to_owned()),
                trace_header: Some("Root=1-2".to_owned()),
                ..Entry::default()
            }
        );
    }

    #[tokio::test]
    async fn a_raw_letter_keeps_body_and_attributes_on_its_way_to_a_queue_and_to_a_topic() {
        let body = r#"{ "spaces" : 1 }"#;
        let post = Post::raw("r", body)
            .attribute("tenant", "String", "silver")
            .attribute("priority", "Number", "1.50")
            .attribute("price", "Number.euro", "7")
            .attribute("checksum", "Binary", "AAECA/3+/w==")
            .attribute("picture", "Binary.png", "iVBORw==");
        let mark = mark_text(2, "r", NOW, body);
        for (to, mark) in [(WORKER, &mark), (TOPIC, &published(&mark, 1))] {
            assert_eq!(
                sent(&letter(&post), elsewhere(to), 2).await,
                Entry {
                    body: body.to_owned(),
                    attributes: attributes(&[
                        ("tenant", "String", "silver"),
                        ("priority", "Number", "1.50"),
                        ("price", "Number.euro", "7"),
                        ("checksum", "Binary", "base64 AAECA/3+/w=="),
                        ("picture", "Binary.png", "base64 iVBORw=="),
                        ("sns-redrive", "String", mark),
                    ]),
                    ..Entry::default()
                },
                "{to}"
            );
        }
    }

    /// Odd Unicode, control characters, brackets, deep nesting: what lies in the queue is sent.
    #[tokio::test]
    async fn every_sample_reaches_a_queue_byte_for_byte() {
        for (name, event) in samples() {
            for letter in letters_of(&event) {
                let entry = sent(&letter, elsewhere(WORKER), 1).await;
                assert_eq!(entry.body, letter.sqs.body, "{name}");
            }
        }
        let odd = letters_of(&sample("garbage")).remove(5);
        assert_eq!(sent(&odd, elsewhere(TOPIC), 1).await.body, odd.sqs.body);
    }

    /// A letter that comes back carries its mark in the envelope (from a topic) or as an SQS
    /// attribute (from a raw subscription); the next delivery replaces it.
    #[tokio::test]
    async fn the_mark_is_replaced_and_keeps_id_first_arrival_and_generation() {
        let old = json!({ "v": 1, "spent": 3, "id": "first/id", "first": 1_700_000_000_000_i64, "gen": 2 });
        let new = |message: &str| {
            let fields = r#""v":2,"spent":5,"id":"first/id","first":1700000000000,"gen":2"#;
            format!(r#"{{{fields},"msg":"{}","passes":4}}"#, digest(message))
        };
        for post in [
            Post::envelope("a").mark(&old),
            Post::envelope("a").sqs_mark(&old),
            Post::raw("r", "x").mark(&old),
        ] {
            let letter = letter(&post);
            let new = new(&letter.message());
            let times = letter.published();
            let to_queue = if times == 0 { new.clone() } else { published(&new, times) };
            for (to, new) in [(endpoint(WORKER), &to_queue), (elsewhere(TOPIC), &published(&new, times + 1))]
            {
                let entry = sent(&letter, to, 5).await;
                assert_eq!(entry.attributes, attributes(&[("sns-redrive", "String", new)]));
            }
        }
    }

    #[tokio::test]
    async fn the_mark_stays_as_small_as_it_was_over_fifty_round_trips() {
        let mut raw = Post::raw("r", "x");
        let mut wrapped = Post::envelope("a");
        for retry in 1..=50 {
            let to_queue = sent(&letter(&raw), elsewhere(WORKER), retry).await;
            let to_topic = sent(&letter(&wrapped), elsewhere(TOPIC), retry).await;
            assert_eq!(
                to_queue.attributes,
                attributes(&[("sns-redrive", "String", &mark_again(retry, retry, "r", NOW, "x"))])
            );
            let mark = mark_again(retry, retry, &letter_id("a"), NOW, "message of a");
            assert_eq!(
                to_topic.attributes,
                attributes(&[("sns-redrive", "String", &published(&mark, retry))])
            );
            let (kind, mark) = &to_queue.attributes["sns-redrive"];
            // It comes back as a new message, later.
            raw = Post::raw(&format!("r-{retry}"), &to_queue.body)
                .attribute("sns-redrive", kind, mark)
                .sent(NOW + i64::from(retry));
            let (kind, mark) = &to_topic.attributes["sns-redrive"];
            wrapped = Post::envelope(&format!("a-{retry}"))
                .message(&to_topic.body)
                .sns_attribute("sns-redrive", kind, mark)
                .sent(NOW + i64::from(retry));
        }
    }

    fn with_attributes(post: Post, count: usize) -> Post {
        (0..count).fold(post, |post, number| post.attribute(&format!("a{number}"), "String", "x"))
    }

    #[tokio::test]
    async fn the_mark_may_be_the_tenth_attribute() {
        let letter = letter(&with_attributes(Post::raw("r", "x"), 9));
        let mark = mark_text(1, "r", NOW, "x");
        for (to, mark) in [(endpoint(WORKER), &mark), (elsewhere(TOPIC), &published(&mark, 1))] {
            let entry = sent(&letter, to, 1).await;
            assert_eq!(entry.attributes.len(), 10);
            assert_eq!(&entry.attributes["sns-redrive"].1, mark);
        }
    }

    #[tokio::test]
    async fn a_mark_among_ten_attributes_is_replaced() {
        let post = with_attributes(Post::raw("r", "x"), 9).mark(&mark(1, "r", NOW));
        let entry = sent(&letter(&post), elsewhere(TOPIC), 2).await;
        assert_eq!(entry.attributes.len(), 10);
        let mark = mark_again(2, 2, "r", NOW, "x");
        assert_eq!(entry.attributes["sns-redrive"].1, published(&mark, 1));
    }

    #[tokio::test]
    async fn where_the_mark_would_be_the_eleventh_only_the_own_endpoint_gets_the_letter() {
        let letter = letter(&with_attributes(Post::raw("r", "x"), 10));
        let entry = sent(&letter, endpoint(WORKER), 1).await;
        assert_eq!(entry.attributes.keys().filter(|name| name.starts_with('a')).count(), 10);
        assert_eq!(entry.attributes.len(), 10);
        assert!(pack(&letter, &endpoint(WORKER), 1).unwrap().unmarked);
        assert_eq!(pack(&letter, &elsewhere(WORKER), 1), Err(CannotPack::Unmarkable));
        assert_eq!(pack(&letter, &elsewhere(TOPIC), 1), Err(CannotPack::Unmarkable));
    }

    /// SNS takes more than ten attributes, a raw subscription does not: it would drop the message.
    #[tokio::test]
    async fn an_envelope_of_ten_attributes_is_no_hindrance_for_a_queue_but_for_a_topic() {
        let full =
            (0..10).fold(Post::envelope("a"), |post, n| post.sns_attribute(&format!("a{n}"), "String", "x"));
        let letter = letter(&full);
        assert_eq!(sent(&letter, elsewhere(WORKER), 1).await.attributes.len(), 1);
        assert_eq!(pack(&letter, &elsewhere(TOPIC), 1), Err(CannotPack::Unmarkable));
    }
}

mod fifo {
    use super::*;

    fn deduplication_id(post: &Post, to: &str, retry: u32) -> String {
        let (letter, to) = (letter(post), elsewhere(to));
        let message = pack(&letter, &to, retry).unwrap();
        message.deduplication_id.unwrap()
    }

    #[test]
    fn each_retry_has_a_new_deduplication_id_and_a_repeated_one_its_old() {
        let post = Post::envelope("a").group("g").system("MessageDeduplicationId", "o-1017-placed");
        for to in [FIFO_WORKER, FIFO_TOPIC] {
            let ids: Vec<_> = (1..=100).map(|retry| deduplication_id(&post, to, retry)).collect();
            let again: Vec<_> = (1..=100).map(|retry| deduplication_id(&post, to, retry)).collect();
            assert_eq!(ids, again);
            let different: std::collections::BTreeSet<_> = ids.iter().collect();
            assert_eq!(different.len(), 100);
            assert!(ids.iter().all(|id| (1..=128).contains(&id.len())));
            // SQS and SNS take letters, digits and punctuation.
            assert!(ids.iter().all(|id| id.chars().all(|c| c.is_ascii_graphic())));
        }
    }

    /// SQS gives a message that comes back a new id and a new receipt: the letter stays the same.
    #[test]
    fn the_deduplication_id_follows_the_letter_and_its_generation_and_not_the_message() {
        let first = mark(1, "letter", NOW);
        let id = |message: &str, mark: &serde_json::Value| {
            deduplication_id(&Post::raw(message, "x").mark(mark), FIFO_WORKER, 2)
        };
        assert_eq!(id("m1", &first), id("m2", &first));
        assert_ne!(id("m1", &first), id("m1", &mark(1, "other letter", NOW)));
        let replayed = json!({ "v": 1, "spent": 1, "id": "letter", "first": NOW, "gen": 1 });
        assert_ne!(id("m1", &first), id("m1", &replayed));
    }

    #[test]
    fn a_fifo_target_gets_the_letters_group_and_one_group_where_there_is_none() {
        for to in [FIFO_WORKER, FIFO_TOPIC] {
            let group =
                |post: &Post| pack(&letter(post), &elsewhere(to), 1).unwrap().group_id.map(str::to_owned);
            assert_eq!(group(&Post::envelope("a").group("customer-17")).as_deref(), Some("customer-17"));
            assert_eq!(group(&Post::envelope("a")).as_deref(), Some("sns-redrive"));
        }
    }

    #[test]
    fn a_standard_target_gets_a_fair_queue_group_and_no_deduplication_id() {
        for to in [WORKER, TOPIC] {
            let (fair, to) = (letter(&Post::envelope("a").group("tenant-7")), elsewhere(to));
            let message = pack(&fair, &to, 1).unwrap();
            assert_eq!((message.group_id, message.deduplication_id), (Some("tenant-7"), None));
            let plain = letter(&Post::envelope("a"));
            let message = pack(&plain, &to, 1).unwrap();
            assert_eq!((message.group_id, message.deduplication_id), (None, None));
        }
    }

    #[tokio::test]
    async fn group_and_deduplication_id_are_in_the_request() {
        for to in [FIFO_WORKER, FIFO_TOPIC] {
            let cloud = Cloud::new();
            let post = Post::envelope("a").group("customer-17");
            assert_eq!(send(&cloud, vec![letter(&post)], to).await, [Sent::Accepted]);
            let entry = &cloud.journal()[0].entries[0];
            assert_eq!(entry.group_id.as_deref(), Some("customer-17"));
            assert_eq!(entry.deduplication_id, Some(deduplication_id(&post, to, 1)));
        }
    }
}

/// SNS takes the trace from a header of the request, so it is one for all messages of it.
mod traces {
    use super::*;

    const RECORDED: &str = "Root=1-69e5f0de-0123456789abcdef01234567;Parent=0123456789abcdef;Sampled=1";
    const OTHER: &str = "Root=1-69e5f0de-fedcba9876543210fedcba98;Parent=fedcba9876543210;Sampled=1";
    const UNRECORDED: &str = "Root=1-69e5f0de-aaaaaaaaaaaaaaaaaaaaaaaa;Sampled=0";

    /// The header of each request with the number of its messages.
    async fn published(traces: &[Option<&str>]) -> Vec<(Option<String>, usize)> {
        let cloud = Cloud::new();
        let letters = traces.iter().enumerate().map(|(index, trace)| {
            let post = Post::envelope(&index.to_string());
            letter(&trace.iter().fold(post, |post, trace| post.system("AWSTraceHeader", trace)))
        });
        assert_eq!(send(&cloud, letters.collect(), TOPIC).await, vec![Sent::Accepted; traces.len()]);
        let calls = cloud.calls("PublishBatch").into_iter();
        let mut published: Vec<_> =
            calls.map(|call| (call.headers.get("x-amzn-trace-id").cloned(), call.entries.len())).collect();
        published.sort();
        published
    }

    #[tokio::test]
    async fn letters_of_recorded_traces_are_published_under_their_own() {
        let traces = [Some(RECORDED), Some(OTHER), Some(RECORDED), None];
        let expected = [(None, 1), (Some(RECORDED.to_owned()), 2), (Some(OTHER.to_owned()), 1)];
        assert_eq!(published(&traces).await, expected);
    }

    #[tokio::test]
    async fn letters_of_traces_that_nobody_records_share_requests() {
        assert_eq!(published(&[Some(UNRECORDED), None, Some(UNRECORDED)]).await, [(None, 3)]);
    }

    #[tokio::test]
    async fn a_trace_that_is_no_header_keeps_no_letter_back() {
        assert_eq!(published(&[Some("Root=\n1")]).await, [(None, 1)]);
    }
}

/// A mark can be forged, and ids of messages are known to every subscriber of a topic.
#[test]
fn a_forged_letter_cannot_have_another_ones_retry_swallowed() {
    let mark = json!({ "v": 1, "spent": 2, "id": "letter-1", "first": NOW, "gen": 0 });
    let ids = ["one text", "another"].map(|body| {
        let letter = letter(&Post::raw("a", body).mark(&mark).group("g"));
        OutgoingMessage::pack(&letter, &arn(FIFO_WORKER), false, 3).unwrap().deduplication_id
    });
    assert_ne!(ids[0], ids[1]);
}
