//! A call that waits for its function cannot be taken back. If it is cut off, the function continues, and
//! does its work once more at the next retry.

use super::*;

fn plain(count: usize) -> Vec<(Letter, Destination)> {
    let letters = (0..count).map(|number| letter(&RecordBuilder::raw(&format!("m{number}"), "{}")));
    letters.map(|letter| (letter, elsewhere(NOTIFIER))).collect()
}

/// Calls a function once for each of so many letters. Returns how many calls succeeded, were cut off, and did
/// not begin.
async fn call(
    (dispatcher, health): (&Dispatcher, &mut Health),
    count: usize,
    time: DeliveryWindow,
) -> [usize; 3] {
    let letters = plain(count);
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
    let sent = dispatcher.deliver(&waiting, time, health).await;
    let late = failed(FailureClass::Transient, "DeadlineExceeded");
    [SendResult::Accepted, late, SendResult::NotStarted]
        .map(|what| sent.iter().filter(|answer| **answer == what).count())
}

fn within(millis: u64) -> DeliveryWindow {
    DeliveryWindow::until(Instant::now() + Duration::from_millis(millis))
}

#[tokio::test(start_paused = true)]
async fn one_that_would_not_end_in_time_is_not_begun() {
    let cloud = TestAccount::new();
    cloud.script(|_| SimFault::Pass.after(Duration::from_millis(3_500)));
    // The second row of calls could begin only two and a half seconds before the end.
    let instance = (&dispatcher(&cloud.clients()), &mut Health::default());
    let answers = call(instance, CONCURRENT_SINGLES + 4, within(6_000)).await;
    assert_eq!(answers, [CONCURRENT_SINGLES, 0, 4]);
    assert_eq!(cloud.journal().len(), CONCURRENT_SINGLES);
}

#[tokio::test(start_paused = true)]
async fn a_function_slower_than_all_the_time_is_called_once_in_an_invocation() {
    let cloud = TestAccount::new();
    cloud.script(|_| SimFault::HangBefore);
    let (dispatcher, mut health) = (dispatcher(&cloud.clients()), Health::default());
    assert_eq!(call((&dispatcher, &mut health), 3, within(300)).await, [0, 3, 0], "nothing is known yet");
    for _ in 0..3 {
        assert_eq!(call((&dispatcher, &mut health), 3, within(300)).await, [0, 1, 2]);
    }
    // One call that comes back shows that not all calls are so slow.
    cloud.script(|_| SimFault::Pass);
    assert_eq!(call((&dispatcher, &mut health), 3, within(299)).await, [1, 0, 2]);
    assert_eq!(call((&dispatcher, &mut health), 3, within(900)).await, [3, 0, 0]);
}

/// The rounds of a FIFO queue are one invocation.
#[tokio::test(start_paused = true)]
async fn the_first_call_of_an_invocation_is_one_for_all_its_rounds() {
    let cloud = TestAccount::new();
    let (dispatcher, mut health) = (dispatcher(&cloud.clients()), Health::default());
    cloud.script(|_| SimFault::Pass.after(Duration::from_millis(500)));
    assert_eq!(call((&dispatcher, &mut health), 1, within(1_200)).await, [1, 0, 0]);
    let time = within(450);
    cloud.script(|_| SimFault::Pass);
    assert_eq!(
        call((&dispatcher, &mut health), 1, time).await,
        [1, 0, 0],
        "half a second does not fit, but it is the first"
    );
    assert_eq!(call((&dispatcher, &mut health), 1, time).await, [0, 0, 1]);
    // An invocation is told from the one before by its start.
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(call((&dispatcher, &mut health), 1, within(450)).await, [1, 0, 0]);
}

/// An error of the function counts with its duration. If Lambda refuses the call, the function did not run.
#[tokio::test]
async fn what_counts_is_how_long_functions_ran() {
    for (reply, begun) in
        [(SimFault::FunctionError, 2), (SimFault::refuse(429, "TooManyRequestsException", "no"), 1)]
    {
        let cloud = TestAccount::new();
        let dispatcher = dispatcher(&cloud.clients());
        let first = reply.clone();
        cloud.script(move |_| first.clone());
        // The turn is in the last part of the time, so only a measurement lets a second call begin there.
        let letters = plain(2);
        let packed: Vec<_> = letters
            .iter()
            .map(|(letter, to)| (&to.endpoint, DeliveryPayload::pack(letter, to, false, 1).unwrap()))
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
                purpose: RequestPurpose::Other,
            })
            .collect();
        dispatcher.deliver(&waiting, time, &mut Health::default()).await;
        assert_eq!(cloud.journal().len(), begun, "{reply:?}");
    }
}

/// A call that Lambda queues takes none of our time.
#[tokio::test(start_paused = true)]
async fn events_of_sns_wait_for_no_function() {
    let cloud = TestAccount::new();
    cloud.script(|_| SimFault::Pass.after(Duration::from_millis(500)));
    let letters: Vec<_> =
        envelopes(CONCURRENT_SINGLES + 1).into_iter().map(|letter| (letter, elsewhere(NOTIFIER))).collect();
    let until = Instant::now() + Duration::from_millis(1_200);
    let sent = send_to(cloud.clients(), &letters, until).await;
    assert_eq!(sent, vec![SendResult::Accepted; CONCURRENT_SINGLES + 1]);
}
