//! A part of the archive that holds nothing of the selection can take long. It is neither deaf nor without its
//! lock meanwhile.

use super::*;

/// Two hundred objects of another queue's topic, each of which takes its time.
fn desert() -> Console {
    let console = Console::new();
    for number in 0..200 {
        console.archive(&format!("o{number:03}"), &[plain(&number.to_string())]);
    }
    console.cloud.script(|call| match call.operation.as_str() {
        "GetObject" if call.target.contains("queue=") => Fault::Pass.after(Duration::from_millis(200)),
        _ => Fault::Pass,
    });
    console
}

#[tokio::test]
async fn stops_when_it_is_told_to() {
    let console = desert();
    let operator = console.operator();
    let began = Instant::now();
    let request = json!({ "select": { "origins": ["eventbridge"] } });
    let (ended, ()) = tokio::join!(console.run_by(&operator, request), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        operator.stopped.store(true, Ordering::Relaxed);
    });
    assert!(matches!(ended, Err(ReplayError::NotCounted)), "{ended:?}");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test]
async fn keeps_its_lock() {
    let console = desert();
    let now = Arc::clone(&console.now);
    let request = json!({ "select": { "origins": ["eventbridge"] } });
    let (done, ()) = tokio::join!(console.run(request), async {
        // A minute goes by, twice as long as the lock holds.
        for _ in 0..6 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            now.fetch_add(10_000, Ordering::Relaxed);
        }
    });
    assert_eq!(done.unwrap().status, Status::Done);
    let locks =
        console.cloud.calls("PutObject").into_iter().filter(|call| call.target.ends_with("lock.json"));
    assert!(locks.count() >= 5, "taken, renewed while it read, given back");
}
