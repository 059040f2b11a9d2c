use std::io::{Read, Write};

use super::*;

#[tokio::test]
async fn are_classified_as_sns_does() {
    let delivered = ("delivered", None);
    let failed = |class| ("deferred", Some(class));
    let permanent = ("archived", Some("permanent"));
    for (status, (outcome, class)) in [
        (200, delivered),
        (201, delivered),
        (202, delivered),
        (204, delivered),
        (299, delivered),
        (300, failed("action_required")),
        (304, failed("action_required")),
        (400, permanent),
        (401, permanent),
        (403, permanent),
        (404, permanent),
        (408, permanent),
        (410, permanent),
        (413, permanent),
        (429, failed("throttling")),
        (500, failed("transient")),
        (502, failed("transient")),
        (503, failed("transient")),
        (504, failed("transient")),
        (599, failed("transient")),
    ] {
        let server = Server::answering(status);
        let world = world_of(&json!({}), "http", &server.url());
        let ran = world.run([&Post::envelope("a")]).await;
        let [told_outcome, reason, _, code, told_class] = told(&ran, "a");
        assert_eq!(told_outcome, outcome, "{status}");
        assert_eq!(told_class, json!(class), "{status}");
        let expected = class.map(|_| format!("Http{status}"));
        assert_eq!(code, json!(expected), "{status}");
        if outcome == "archived" {
            assert_eq!(reason, "permanent");
        }
        assert_eq!(server.seen().len(), 1, "{status}: a post is made once");
        assert_eq!(ran.kept.is_empty(), outcome != "deferred", "{status}");
    }
}

/// The second server could be anywhere.
#[tokio::test]
async fn that_redirect_are_not_followed() {
    for status in [301, 302, 303, 307, 308] {
        let elsewhere = Server::answering(200);
        let location = format!("{}/orders", elsewhere.url());
        let server = Server::scripted(move |_, _| WebAnswer::status(status).with("location", &location));
        let world = world_of(&json!({}), "http", &server.url());
        let ran = world.run([&Post::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["a deferred failed"]);
        let line = ran.letter("a");
        assert_eq!(
            [&line["error.code"], &line["error.class"]],
            [&json!(format!("Http{status}")), &json!("action_required")]
        );
        assert_eq!(
            line["detail"],
            "the endpoint redirects, which SNS does not follow: subscribe the URL that it redirects to"
        );
        assert_eq!((server.seen().len(), elsewhere.connections()), (1, 0));
    }
}

#[tokio::test]
async fn that_do_not_come_are_transient() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let world = world_of(&json!({}), "http", &format!("http://{closed}/"));
    let ran = world.run([&Post::envelope("a")]).await;
    assert_eq!(ran.outcomes(), ["a deferred failed"]);
    assert_eq!(told(&ran, "a")[3..], [json!("Unreachable"), json!("transient")]);

    for answer in
        [WebAnswer::fault(Fault::ResetAfter), WebAnswer::status(200).with("x", &"x".repeat(1_000_000))]
    {
        let server = Server::scripted(move |_, _| answer.clone());
        let world = world_of(&json!({}), "http", &server.url()).with_time(Duration::from_secs(5));
        let ran = world.run([&Post::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["a deferred failed"]);
        assert_eq!(told(&ran, "a")[3..], [json!("Unreachable"), json!("transient")]);
        assert_eq!(server.seen().len(), 1, "who knows what the server did: it is not asked again");
    }
    for line in ["HTTP/2 what\r\n\r\n", "SSH-2.0-OpenSSH_9.6\r\n"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, accepting) = (listener.local_addr().unwrap(), listener.try_clone().unwrap());
        std::thread::spawn(move || {
            let (mut stream, _) = accepting.accept().unwrap();
            let _ = stream.read(&mut [0; 1 << 14]).and_then(|_| stream.write_all(line.as_bytes()));
        });
        let world = world_of(&json!({}), "http", &format!("http://{address}/"));
        let ran = world.run([&Post::envelope("a")]).await;
        assert_eq!(told(&ran, "a")[3..], [json!("Unreachable"), json!("transient")]);
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "it is not asked again");
    }
}

#[tokio::test]
async fn that_come_after_the_functions_time_are_transient_and_keep_nobody_waiting() {
    let late = WebAnswer::status(200).after(Duration::from_secs(9));
    for answer in [WebAnswer::fault(Fault::HangAfter), late] {
        let server = Server::scripted(move |_, _| answer.clone());
        let world = world_of(&json!({}), "http", &server.url()).with_time(Duration::from_millis(600));
        let began = Instant::now();
        let ran = world.run([&Post::envelope("a")]).await;
        assert!(began.elapsed() < Duration::from_millis(600));
        assert_eq!(ran.outcomes(), ["a deferred failed"]);
        assert_eq!(told(&ran, "a")[3..], [json!("DeadlineExceeded"), json!("transient")]);
    }
}

#[tokio::test]
async fn that_are_slow_but_in_time_count() {
    let server = Server::scripted(|_, _| WebAnswer::status(200).after(Duration::from_millis(300)));
    let world = world_of(&json!({}), "http", &server.url());
    assert_eq!(world.run([&Post::envelope("a")]).await.outcomes(), ["a delivered"]);
}

/// SNS waits 15 s. Only this test waits as long; requests under way at the same time wait together.
#[tokio::test]
async fn are_waited_for_15_seconds() {
    let silent = Server::scripted(|_, _| WebAnswer::fault(Fault::HangAfter));
    let stalled = Server::scripted(|_, _| WebAnswer::fault(Fault::Stall(1)));
    let world = world_of(&json!({}), "http", &silent.url());
    world.cloud.subscribe_endpoint(OTHER_SUBSCRIPTION, TOPIC, "http", &stalled.url(), DLQ);
    let began = Instant::now();
    let ran = world.run([&Post::envelope("a"), &Post::envelope("b").subscription(OTHER_SUBSCRIPTION)]).await;
    let range = Duration::from_millis(14_900)..Duration::from_secs(17);
    assert!(range.contains(&began.elapsed()), "{:?}", began.elapsed());
    assert_eq!(told(&ran, "a")[3..], [json!("Timeout"), json!("transient")]);
    // The server's status says that it took the letter, even if its answer does not end.
    assert_eq!(ran.outcomes(), ["a deferred failed", "b delivered"]);
}

#[tokio::test]
async fn without_end_are_not_read_to_the_end() {
    for (status, outcome) in [(200, "a delivered"), (500, "a deferred failed"), (400, "a archived permanent")]
    {
        let began = Instant::now();
        let server = Server::scripted(move |_, _| WebAnswer {
            body: "x".repeat(1 << 20),
            fault: Fault::Stall(1 << 19),
            ..WebAnswer::status(status)
        });
        let world = world_of(&json!({}), "http", &server.url());
        assert_eq!(world.run([&Post::envelope("a")]).await.outcomes(), [outcome]);
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn count_by_their_status_though_there_is_no_time_for_their_bodies() {
    let server = Server::scripted(|_, _| WebAnswer {
        body: "ok".to_owned(),
        fault: Fault::Stall(1),
        ..WebAnswer::status(200)
    });
    let world = world_of(&json!({}), "http", &server.url()).with_time(Duration::from_millis(600));
    assert_eq!(world.run([&Post::envelope("a")]).await.outcomes(), ["a delivered"]);
}

#[tokio::test]
async fn keep_the_connection_for_the_next_letter() {
    let server = Server::answering(200);
    let world = world_of(&json!({}), "http", &server.url());
    for id in ["a", "b", "c"] {
        assert_eq!(world.run([&Post::envelope(id)]).await.outcomes(), [format!("{id} delivered")]);
    }
    assert_eq!((server.seen().len(), server.connections()), (3, 1));
}

/// If the server has closed a connection in the meantime, this costs no retry.
#[tokio::test]
async fn on_a_connection_that_was_closed_meanwhile_come_over_a_new_one() {
    let server = Server::answering(200);
    let world = world_of(&json!({}), "http", &server.url());
    for id in ["a", "b", "c"] {
        assert_eq!(world.run([&Post::envelope(id)]).await.outcomes(), [format!("{id} delivered")]);
        server.hang_up();
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    assert_eq!((server.seen().len(), server.connections()), (3, 3));
}

#[tokio::test]
async fn are_those_of_each_letter_alone() {
    let server = Server::scripted(|number, _| WebAnswer::status([200, 500, 404][number % 3]));
    let world = world_of(&json!({}), "http", &server.url());
    let ran = world.run(&["a", "b", "c"].map(Post::envelope)).await;
    let mut outcomes: Vec<_> =
        ran.letters().iter().map(|line| line["outcome"].as_str().unwrap().to_owned()).collect();
    outcomes.sort();
    assert_eq!(outcomes, ["archived", "deferred", "delivered"]);
    assert_eq!(ran.metrics()["FailuresTransient"], 1);
    assert_eq!(ran.metrics()["FailuresPermanent"], 1);
}
