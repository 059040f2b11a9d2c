use super::*;

/// The message of a service is kept only if it names what an operator must fix.
#[tokio::test]
async fn every_failed_entry_of_a_200_has_its_own_class_and_its_neighbours_are_delivered() {
    let fates = [
        (1, EntryFault::sender("InvalidParameter", "says too much")),
        (3, EntryFault::service("Throttled", "says too much")),
        (4, EntryFault::sender("KMSAccessDenied", "not allowed to use the key")),
        (6, EntryFault::service("InternalFailure", "says too much")),
        (7, EntryFault::sender("SomethingNew", "says too much")),
        (8, EntryFault::Missing),
    ];
    for to in [TOPIC, WORKER] {
        let cloud = TestAccount::new();
        let failing = SimFault::Entries(fates.to_vec());
        cloud.script(move |_| failing.clone());
        let no_key = SendResult::Failed(Failure {
            class: FailureClass::ActionRequired,
            code: "KMSAccessDenied".to_owned(),
            message: Some("not allowed to use the key".to_owned()),
            retry_after: None,
        });
        assert_eq!(
            send(&cloud, envelopes(10), to).await,
            [
                SendResult::Accepted,
                failed(FailureClass::Permanent, "InvalidParameter"),
                SendResult::Accepted,
                failed(FailureClass::Throttling, "Throttled"),
                no_key,
                SendResult::Accepted,
                failed(FailureClass::Transient, "InternalFailure"),
                failed(FailureClass::ActionRequired, "SomethingNew"),
                failed(FailureClass::Transient, "NoAnswer"),
                SendResult::Accepted,
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
        SendResult::Failed(Failure { class, code, message, retry_after: None })
    };
    let no_queue = "AWS.SimpleQueueService.NonExistentQueue";
    for (to, reply, sent) in [
        (TOPIC, SimFault::refuse(400, "Throttling", "Rate exceeded"), failed(Throttling, "Throttling")),
        (TOPIC, SimFault::refuse(429, "Throttled", "Rate exceeded"), failed(Throttling, "Throttled")),
        (WORKER, SimFault::refuse(403, "RequestThrottled", "slow"), failed(Throttling, "RequestThrottled")),
        (
            TOPIC,
            SimFault::refuse(403, "AuthorizationError", "no"),
            named(ActionRequired, "AuthorizationError", "no"),
        ),
        (WORKER, SimFault::refuse(403, "AccessDenied", "no"), named(ActionRequired, "AccessDenied", "no")),
        (TOPIC, SimFault::refuse(404, "NotFound", "gone"), named(ActionRequired, "NotFound", "gone")),
        (WORKER, SimFault::refuse(400, no_queue, "gone"), named(ActionRequired, no_queue, "gone")),
        (TOPIC, SimFault::refuse(500, "InternalError", "oh"), failed(Transient, "InternalError")),
        (WORKER, SimFault::refuse(503, "ServiceUnavailable", "oh"), failed(Transient, "ServiceUnavailable")),
        (
            WORKER,
            SimFault::Nonsense(502, "<html>Bad Gateway</html>".to_owned()),
            failed(Transient, "Http502"),
        ),
        (TOPIC, SimFault::Nonsense(502, String::new()), failed(Transient, "Http502")),
        (TOPIC, SimFault::Nonsense(200, "<html>".to_owned()), failed(Transient, "Http200")),
        (WORKER, SimFault::Nonsense(200, "{".to_owned()), failed(Transient, "Http200")),
        (WORKER, SimFault::Nonsense(200, "{}".to_owned()), failed(Transient, "NoAnswer")),
        (TOPIC, SimFault::ResetBefore, failed(Transient, "Unreachable")),
        (WORKER, SimFault::ResetBefore, failed(Transient, "Unreachable")),
        (WORKER, SimFault::ConnectTimeout, failed(Transient, "Timeout")),
    ] {
        let cloud = TestAccount::new();
        let what = format!("{reply:?} of {to}");
        cloud.script(move |_| reply.clone());
        assert_eq!(send(&cloud, envelopes(3), to).await, vec![sent; 3], "{what}");
        assert_eq!(cloud.journal().len(), 1, "{what}");
    }
}

#[tokio::test]
async fn what_is_refused_as_a_whole_for_its_content_is_sent_again_one_by_one() {
    for (to, whole) in [
        (TOPIC, "InvalidParameter"),
        // SNS refuses the whole request for an attribute without a type.
        (TOPIC, "ValidationError"),
        (TOPIC, "CodeThatNobodyKnows"),
        (WORKER, "AWS.SimpleQueueService.BatchRequestTooLong"),
        // SQS refuses the whole request for an entry without a group.
        (FIFO_WORKER, "InvalidParameterValue"),
        (WORKER, "CodeThatNobodyKnows"),
    ] {
        let cloud = TestAccount::new();
        cloud.script(move |call| match call.entries_with("message of m4").as_slice() {
            [] => SimFault::Pass,
            _ if call.entries.len() == 1 => SimFault::refuse(400, "InvalidMessageContents", "bad"),
            _ => SimFault::refuse(400, whole, "bad"),
        });
        let mut expected = vec![SendResult::Accepted; 10];
        expected[4] = failed(FailureClass::Permanent, "InvalidMessageContents");
        assert_eq!(send(&cloud, envelopes(10), to).await, expected);
        let counts: Vec<_> = cloud.journal().iter().map(|call| call.entries.len()).collect();
        assert_eq!(counts, [10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
    }
}

/// Nobody's content is the reason, so that one request is enough.
#[tokio::test]
async fn what_is_refused_for_another_reason_is_not_sent_again_one_by_one() {
    for code in ["AccessDenied", "KMS.DisabledException", "ExpiredToken", "Throttling", "InternalError"] {
        let cloud = TestAccount::new();
        cloud.reply("PublishBatch", SimFault::refuse(400, code, "bad"));
        let sent = send(&cloud, envelopes(10), TOPIC).await;
        assert!(sent.iter().all(|sent| matches!(sent, SendResult::Failed(failure) if failure.code == code)));
        assert_eq!(cloud.journal().len(), 1, "{code}");
    }
}

#[tokio::test]
async fn one_refused_letter_alone_is_not_sent_again() {
    let cloud = TestAccount::new();
    cloud.script(|_| SimFault::refuse(400, "InvalidParameter", "bad"));
    let sent = send(&cloud, envelopes(1), TOPIC).await;
    assert_eq!(sent, [failed(FailureClass::Permanent, "InvalidParameter")]);
    assert_eq!(cloud.journal().len(), 1);
}

#[tokio::test]
async fn one_failing_target_is_none_of_the_others() {
    let cloud = with_queues(3);
    cloud.script(|call| if call.target == "q0" { SimFault::ResetBefore } else { SimFault::Pass });
    let sent = send_to(cloud.clients(), &one_for_each_queue(3), in_time()).await;
    let unreachable = failed(FailureClass::Transient, "Unreachable");
    assert_eq!(sent, [unreachable, SendResult::Accepted, SendResult::Accepted]);
}

/// A hiccup does not cost a letter a retry, because the SDK repeats the same request.
#[tokio::test]
async fn the_sdk_repeats_a_request_as_it_was() {
    let cloud = TestAccount::new();
    let tries = std::sync::atomic::AtomicUsize::new(0);
    cloud.script(move |_| match tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0 => SimFault::refuse(503, "ServiceUnavailable", "oh"),
        1 => SimFault::ResetBefore,
        _ => SimFault::Pass,
    });
    let retry = RetryConfig::standard().with_max_attempts(3).with_initial_backoff(Duration::from_millis(1));
    let letters: Vec<_> = envelopes(2).into_iter().map(|letter| (letter, elsewhere(FIFO_TOPIC))).collect();
    assert_eq!(send_to(cloud.clients_with(retry), &letters, in_time()).await, vec![SendResult::Accepted; 2]);
    let calls = cloud.journal();
    assert_eq!(calls.len(), 3);
    assert_eq!((&calls[0].entries, &calls[1].entries), (&calls[2].entries, &calls[2].entries));
}

/// If the function's own credentials are missing, this says nothing about a letter.
#[tokio::test]
async fn without_credentials_no_letter_is_called_undeliverable() {
    let cloud = TestAccount::new();
    let config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-central-1"))
        .http_client(cloud.config(RetryConfig::disabled()).http_client().unwrap())
        .retry_config(RetryConfig::disabled())
        .build();
    for to in [TOPIC, WORKER] {
        let letters = [(envelopes(1).remove(0), elsewhere(to))];
        let sent = send_to(AwsClients::from_config(&config, false), &letters, in_time()).await;
        assert_eq!(sent, [failed(FailureClass::Transient, "Unreachable")]);
    }
    assert_eq!(cloud.journal().len(), 0);
}

#[tokio::test]
async fn a_target_is_called_in_its_own_region() {
    let cloud = TestAccount::new();
    cloud.queue("q", &[]);
    for (to, host) in [
        ("arn:aws:sns:us-east-1:123456789012:payments", "sns.us-east-1.amazonaws.com"),
        ("arn:aws:sqs:ap-southeast-2:123456789012:q", "sqs.ap-southeast-2.amazonaws.com"),
        ("arn:aws-cn:sqs:cn-north-1:123456789012:q", "sqs.cn-north-1.amazonaws.com.cn"),
    ] {
        cloud.forget();
        assert_eq!(send(&cloud, envelopes(1), to).await, [SendResult::Accepted]);
        assert_eq!(cloud.journal()[0].host, host);
    }
}
