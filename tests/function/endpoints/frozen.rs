//! Tests of connections that were idle while Lambda froze the process, or while a server hung up.

use super::*;

/// Runs six invocations with a letter each; `meanwhile` happens between two of them. Returns the outcomes.
async fn six(server: &TestWebServer, meanwhile: impl Fn(&FunctionWorld)) -> Vec<String> {
    let world = world_of(&json!({}), "http", &server.url());
    let mut outcomes = Vec::new();
    for number in 0..6 {
        outcomes.extend(world.run([&RecordBuilder::envelope(&format!("a{number}"))]).await.outcomes());
        meanwhile(&world);
    }
    outcomes
}

fn delivered() -> Vec<String> {
    (0..6).map(|number| format!("a{number} delivered")).collect()
}

/// Only the wall clock runs on while Lambda freezes the process. The network forgets its connections.
#[tokio::test]
async fn posts_after_a_freeze_go_on_new_connections() {
    for seconds in [2, 60, 7_200] {
        let server = TestWebServer::answering(200);
        let outcomes = six(&server, |world| {
            server.forget();
            world.pass(seconds);
        });
        assert_eq!(outcomes.await, delivered(), "{seconds} s");
        assert_eq!((server.seen().len(), server.connections()), (6, 6), "{seconds} s");
    }
}

/// Between the invocations of a busy function are milliseconds.
#[tokio::test]
async fn a_busy_function_uses_its_connections_again() {
    let server = TestWebServer::answering(200);
    assert_eq!(six(&server, |_| {}).await, delivered());
    assert_eq!((server.seen().len(), server.connections()), (6, 1));
}

/// The process hears of it before it posts again, and what could not begin is made again on another connection. It
/// is one attempt.
#[tokio::test]
async fn a_post_that_could_not_begin_because_the_server_hung_up_is_made_again_and_not_counted() {
    let server = TestWebServer::answering(200);
    assert_eq!(six(&server, |_| server.hang_up()).await, delivered());
    assert_eq!((server.seen().len(), server.connections()), (6, 6));
}
