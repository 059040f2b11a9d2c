use super::*;

#[tokio::test]
async fn ten_letters_for_one_topic_cost_one_publish_batch() {
    let cloud = TestAccount::new();
    assert_eq!(send(&cloud, envelopes(10), TOPIC).await, vec![SendResult::Accepted; 10]);
    assert_eq!(cloud.summary(), ["PublishBatch payments 10"]);
}

#[tokio::test]
async fn ten_letters_for_one_queue_cost_one_send_message_batch() {
    let cloud = TestAccount::new();
    assert_eq!(send(&cloud, envelopes(10), WORKER).await, vec![SendResult::Accepted; 10]);
    assert_eq!(cloud.summary(), ["SendMessageBatch payments-worker 10"]);
}

#[tokio::test]
async fn twenty_five_letters_go_in_requests_of_ten_and_keep_their_order() {
    for (to, op) in [(TOPIC, "PublishBatch payments"), (WORKER, "SendMessageBatch payments-worker")] {
        let cloud = TestAccount::new();
        assert_eq!(send(&cloud, envelopes(25), to).await, vec![SendResult::Accepted; 25]);
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
    let cloud = TestAccount::new();
    let targets = [TOPIC, WORKER, BILLING, TOPIC, WORKER, TOPIC].map(elsewhere);
    let letters: Vec<_> = envelopes(6).into_iter().zip(targets).collect();
    assert_eq!(send_to(cloud.clients(), &letters, in_time()).await, vec![SendResult::Accepted; 6]);
    let mut requests = cloud.summary();
    requests.sort();
    assert_eq!(
        requests,
        [
            "PublishBatch payments 3",
            "SendMessageBatch payments-billing 1",
            "SendMessageBatch payments-worker 2"
        ]
    );
}

/// The largest batch that a service takes is one request. One byte more makes two.
#[tokio::test]
async fn the_total_of_a_request_is_256_kib_for_topics_and_1_mib_for_queues() {
    for (to, limit) in [(TOPIC, 256 * 1024), (WORKER, 1024 * 1024)] {
        let two =
            |bytes: usize| ["a", "b"].map(|id| letter(&RecordBuilder::raw(id, &"x".repeat(bytes)))).to_vec();
        let around = pack(&two(0)[0], &elsewhere(to), 1).unwrap().size();
        for (bytes, requests) in [(limit / 2 - around, 1), (limit / 2 - around + 1, 2)] {
            let cloud = TestAccount::new();
            assert_eq!(send(&cloud, two(bytes), to).await, vec![SendResult::Accepted; 2]);
            assert_eq!(cloud.journal().len(), requests, "{bytes} bytes each to {to}");
        }
    }
}

#[tokio::test]
async fn big_letters_are_spread_over_requests_and_a_huge_one_goes_alone() {
    let cloud = TestAccount::new();
    cloud.topic("payments", 1024 * 1024);
    let sizes = [100, 100, 100, 300, 10, 10].map(|kib| kib * 1024);
    let letters = sizes
        .iter()
        .enumerate()
        .map(|(n, bytes)| letter(&RecordBuilder::raw(&n.to_string(), &"x".repeat(*bytes))));
    assert_eq!(send(&cloud, letters.collect(), TOPIC).await, vec![SendResult::Accepted; 6]);
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
    let cloud = TestAccount::new();
    assert_eq!(send(&cloud, Vec::new(), TOPIC).await, []);
    assert_eq!(cloud.summary(), [""; 0]);
}

/// The machine divides letters into requests by sizes that it counts without packing them.
#[test]
fn a_letter_weighs_what_the_machine_counts_wherever_it_goes() {
    let full =
        (0..10).fold(RecordBuilder::raw("r", "x"), |post, n| post.attribute(&format!("a{n}"), "String", "x"));
    let events = samples().into_iter().map(|(_, event)| event).chain([event(&[full])]);
    let letters: Vec<_> = events.flat_map(|event| letters_of(&event)).collect();
    let mut packable = 0;
    for (letter, to) in letters.iter().flat_map(|letter| {
        let places = [WORKER, FIFO_WORKER, TOPIC, FIFO_TOPIC, NOTIFIER, STREAM];
        places.into_iter().flat_map(move |to| [(letter, elsewhere(to)), (letter, endpoint(to))])
    }) {
        for (unmarked, planned) in [(false, None), (false, Some(at(NOW))), (true, None)] {
            let retry = Retry { number: 3, of: 12, phase: RetryPhase::Backoff, planned };
            let counted = PackedFacts::new(letter, &to, retry, unmarked);
            let is_single = matches!(to.endpoint, Endpoint::Function(_));
            let packed = DeliveryPayload::pack(letter, &to, unmarked, retry).map(|payload| PackedFacts {
                bytes: if is_single { 0 } else { payload.size() },
                waits: payload.waits(),
            });
            assert_eq!(counted, packed, "{} to {to:?}", letter.id);
            packable += usize::from(packed.is_ok());
        }
    }
    assert!(packable > 100, "{packable}");
}
