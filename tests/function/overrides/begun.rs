//! Overrides that change while a batch goes on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive_support::*;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{due, give, is_warned, override_, world};

/// Lets time run. Every call of a function takes two seconds. Returns the times of the calls, in seconds from
/// now.
fn slow_functions(
    world: &FunctionWorld,
    s3: impl Fn(&SimCall) -> SimFault + Send + Sync + 'static,
) -> Arc<Mutex<Vec<f64>>> {
    world.cloud.subscribe_endpoint(OTHER_SUBSCRIPTION, TOPIC, "lambda", NOTIFIER, DLQ);
    world.let_time_run();
    let (calls, begun) = (Arc::new(Mutex::default()), Instant::now());
    let noted: Arc<Mutex<Vec<f64>>> = Arc::clone(&calls);
    world.cloud.script(move |call| match call.operation.as_str() {
        "GetObject" => s3(call),
        "Invoke" => {
            noted.lock().unwrap().push(begun.elapsed().as_secs_f64());
            SimFault::Pass.after(Duration::from_secs(2))
        }
        _ => SimFault::Pass,
    });
    calls
}

/// Returns more letters for one function than it takes in a minute.
fn crowd() -> Vec<RecordBuilder> {
    (0..480)
        .map(|number| RecordBuilder::envelope(&format!("l{number}")).subscription(OTHER_SUBSCRIPTION))
        .collect()
}

fn outcomes(ran: &TestInvocation, outcome: &str, reason: &str) -> usize {
    let is = |line: &&&Value| line["outcome"] == outcome && line["reason"].as_str().unwrap_or("") == reason;
    ran.letters().iter().filter(is).count()
}

#[tokio::test(start_paused = true)]
async fn a_hold_counts_within_15_s_in_a_batch_that_has_begun() {
    let world = world(&[]).with_time(Duration::from_mins(2));
    give(&world, &[]);
    let calls = slow_functions(&world, |_| SimFault::Pass);
    let held = async {
        tokio::time::sleep(Duration::from_millis(15_500)).await;
        give(&world, &[override_("hold", &json!({}))]);
    };
    let crowd = crowd();
    let (ran, ()) = tokio::join!(world.run(&crowd), held);
    let calls = calls.lock().unwrap();
    let last = calls.iter().copied().fold(0.0, f64::max);
    assert!((15.5..=30.5).contains(&last), "an attempt began after {last} s");
    assert_eq!(outcomes(&ran, "delivered", ""), calls.len());
    assert_eq!(outcomes(&ran, "deferred", "overridden"), 480 - calls.len(), "{}", ran.text);
    assert_eq!(super::calls(&world, "GetObject").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_override_to_archive_counts_in_a_batch_that_has_begun_and_one_to_retry_takes_nothing_back() {
    for (action, outcome, reason) in [("give-up", "archived", "given-up"), ("retry", "delivered", "")] {
        let world = world(&[]).with_time(Duration::from_mins(2));
        give(&world, &[]);
        let calls = slow_functions(&world, |_| SimFault::Pass);
        let overridden = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            give(&world, &[override_(action, &json!({}))]);
        };
        let crowd = crowd();
        let (ran, ()) = tokio::join!(world.run(&crowd), overridden);
        let calls = calls.lock().unwrap().clone();
        if action == "give-up" {
            let last = calls.iter().copied().fold(0.0, f64::max);
            assert!((5.0..=20.0).contains(&last), "an attempt began after {last} s");
        }
        let rest = if action == "retry" { 480 } else { 480 - calls.len() };
        assert_eq!(outcomes(&ran, outcome, reason), rest, "{action}");
        assert!(outcomes(&ran, "delivered", "") >= 100, "{action}");
    }
}

/// Without the override none of these letters would be attempted now.
#[tokio::test(start_paused = true)]
async fn an_override_to_retry_that_is_taken_back_while_the_batch_goes_on_sends_nothing_more() {
    let world = world(&[]).with_time(Duration::from_mins(2));
    give(&world, &[override_("retry", &json!({}))]);
    let calls = slow_functions(&world, |_| SimFault::Pass);
    let taken_back = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        give(&world, &[]);
    };
    let ahead = |post: RecordBuilder| post.mark(&mark(6, "letter", NOW)).received(1);
    let crowd: Vec<_> = crowd().into_iter().map(ahead).collect();
    let (ran, ()) = tokio::join!(world.run(&crowd), taken_back);
    let calls = calls.lock().unwrap();
    let last = calls.iter().copied().fold(0.0, f64::max);
    assert!((5.0..=20.0).contains(&last), "an attempt began after {last} s");
    assert_eq!(outcomes(&ran, "delivered", ""), calls.len());
    assert_eq!(outcomes(&ran, "deferred", "early"), 480 - calls.len(), "{}", ran.text);
}

#[tokio::test(start_paused = true)]
async fn an_s3_that_fails_while_a_batch_goes_on_holds_it_up_for_a_second_at_most() {
    for reply in [SimFault::HangBefore, SimFault::ResetBefore, SimFault::refuse(503, "SlowDown", "slow")] {
        let world = world(&[]).with_time(Duration::from_mins(2));
        give(&world, &[]);
        let began = Instant::now();
        let calls = slow_functions(&world, move |_| {
            if began.elapsed() < Duration::from_secs(10) { SimFault::Pass } else { reply.clone() }
        });
        let ran = world.run(&crowd()).await;
        assert_eq!(outcomes(&ran, "delivered", ""), 480);
        let last = calls.lock().unwrap().iter().copied().fold(0.0, f64::max);
        assert!((60.0..61.0).contains(&last), "{last}");
        assert!(is_warned(&ran, "overrides"), "{}", ran.text);
        assert!(began.elapsed() < Duration::from_millis(63_100), "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn an_override_to_archive_that_is_taken_back_while_the_batch_goes_on_archives_nothing() {
    let world = world(&[]).with_time(Duration::from_mins(2));
    let about = json!({ "match": { "subscriptionArn": [SUBSCRIPTION] } });
    give(&world, &[override_("give-up", &about)]);
    let _calls = slow_functions(&world, |_| SimFault::Pass);
    let taken_back = async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        give(&world, &[]);
    };
    let batch: Vec<_> = crowd().into_iter().chain([due()]).collect();
    let (ran, ()) = tokio::join!(world.run(&batch), taken_back);
    assert_eq!(ran.letter("a")["reason"], "out_of_time", "{}", ran.text);
    assert_eq!((world.cloud.hidden()["handle-a"], outcomes(&ran, "delivered", "")), (1, 480));
    let metrics = ran.metrics();
    assert_eq!(
        (&metrics["LettersFailed"], metrics.get("LettersStuck")),
        (&json!(1), None),
        "nobody is paged"
    );
}

/// What could be read of it decides whether an override holds it, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_read_stays_one_when_its_hold_is_taken_back() {
    let world = world(&[]).with_time(Duration::from_mins(2));
    give(&world, &[override_("hold", &json!({ "match": { "subscriptionArn": [SUBSCRIPTION] } }))]);
    let _calls = slow_functions(&world, |_| SimFault::Pass);
    let taken_back = async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        give(&world, &[]);
    };
    let batch: Vec<_> = crowd().into_iter().chain([due()]).collect();
    let mut event = redrive_support::event(&batch);
    let last = event["Records"].as_array_mut().unwrap().last_mut().unwrap();
    last["messageAttributes"]["bad"] = json!({ "dataType": "Binary", "binaryValue": "?" });
    let (ran, ()) = tokio::join!(world.run_event(&event), taken_back);
    assert_eq!(outcomes(&ran, "archived", "unrecognised"), 1, "{}", ran.text);
    let detail = ran.letter("a")["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("Records[480]"), "{detail}");
}
