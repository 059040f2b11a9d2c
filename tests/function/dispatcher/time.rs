use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use super::*;

#[tokio::test]
async fn independent_requests_are_under_way_together_up_to_a_limit() {
    let limit = CONCURRENT_REQUESTS;
    for (queues, together) in [(5, 5), (limit, limit), (limit + 4, limit)] {
        let cloud = with_queues(queues);
        cloud.script(move |_| SimFault::Together(together));
        let sent = send_to(cloud.clients(), &one_for_each_queue(queues), in_time()).await;
        assert_eq!(sent, vec![SendResult::Accepted; queues]);
        assert_eq!((cloud.journal().len(), cloud.peak()), (queues, together));
    }
}

/// Each letter is one request to a function. If the function has few instances, it would fail the others.
#[tokio::test(start_paused = true)]
async fn of_requests_to_functions_fewer_are_under_way_together() {
    let cloud = TestAccount::new();
    cloud.script(|_| SimFault::Pass.after(Duration::from_secs(1)));
    let letters = envelopes(CONCURRENT_SINGLES + 4).into_iter();
    let letters: Vec<_> = letters.map(|letter| (letter, elsewhere(NOTIFIER))).collect();
    let sent = send_to(cloud.clients(), &letters, in_time()).await;
    assert_eq!(sent, vec![SendResult::Accepted; CONCURRENT_SINGLES + 4]);
    assert_eq!(cloud.journal().len(), CONCURRENT_SINGLES + 4);
    assert!(cloud.peak() > 1 && cloud.peak() <= CONCURRENT_SINGLES, "{}", cloud.peak());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_hangs_keeps_none_of_the_others() {
    let cloud = with_queues(3);
    cloud.script(|call| if call.target == "q1" { SimFault::HangBefore } else { SimFault::Pass });
    let began = Instant::now();
    let until = began + Duration::from_secs(1);
    let sent = send_to(cloud.clients(), &one_for_each_queue(3), until).await;
    let late = failed(FailureClass::Transient, "DeadlineExceeded");
    assert_eq!(sent, [SendResult::Accepted, late, SendResult::Accepted]);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn no_request_begins_after_the_time_is_over() {
    let cloud = TestAccount::new();
    cloud.script(|_| SimFault::HangBefore);
    let until = Instant::now() + Duration::from_secs(6);
    let sent = send_to(cloud.clients(), &one_for_each_queue(CONCURRENT_REQUESTS + 2), until).await;
    let late = failed(FailureClass::Transient, "DeadlineExceeded");
    let count = |what: &SendResult| sent.iter().filter(|answer| *answer == what).count();
    assert_eq!((count(&late), count(&SendResult::NotStarted)), (CONCURRENT_REQUESTS, 2));
    assert_eq!(cloud.journal().len(), CONCURRENT_REQUESTS);

    let cloud = TestAccount::new();
    let sent = send_to(cloud.clients(), &one_for_each_queue(2), Instant::now()).await;
    assert_eq!((sent, cloud.journal().len()), (vec![SendResult::NotStarted; 2], 0));
}

/// They come back as they are, and nothing of them is cut off.
#[tokio::test(start_paused = true)]
async fn what_is_refused_as_a_whole_is_not_sent_again_one_by_one_after_the_time_is_over() {
    let cloud = TestAccount::new();
    cloud.script(|_| SimFault::refuse(400, "InvalidParameter", "bad").after(Duration::from_millis(700)));
    let letters: Vec<_> = envelopes(2).into_iter().map(|letter| (letter, elsewhere(TOPIC))).collect();
    let sent = send_to(cloud.clients(), &letters, Instant::now() + Duration::from_secs(1)).await;
    assert_eq!((sent, cloud.journal().len()), (vec![SendResult::NotStarted; 2], 1));
}

/// A connection is such a task. Else the first request of a batch would leave when the last one is made.
#[tokio::test]
async fn connections_work_before_the_next_request_begins() {
    let cloud = with_queues(5);
    // Each request gives a task to the runtime, and counts those that have run by then.
    let (run, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let noted = Arc::clone(&seen);
    cloud.script(move |_| {
        noted.lock().unwrap().push(run.load(Relaxed));
        let run = Arc::clone(&run);
        tokio::spawn(async move { run.fetch_add(1, Relaxed) });
        SimFault::Pass.after(Duration::from_millis(50))
    });
    let sent = send_to(cloud.clients(), &one_for_each_queue(5), in_time()).await;
    assert_eq!(sent, vec![SendResult::Accepted; 5]);
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2, 3, 4]);
}
