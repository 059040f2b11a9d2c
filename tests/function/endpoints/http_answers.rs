use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use redrive_aws::delivery::{AddressReach, HttpClient};

use super::*;

/// A server that answers every post with these bytes, and then closes the connection.
struct RawServer {
    url: String,
    posts: Arc<AtomicUsize>,
}

impl RawServer {
    fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::serving(move |stream| stream.write_all(&answer))
    }

    fn serving(answer: impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let posts = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&posts);
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                if read_post(&mut stream).is_some() {
                    counted.fetch_add(1, Ordering::Relaxed);
                    let _ = answer(&mut stream);
                }
            }
        });
        Self { url, posts }
    }

    fn posts(&self) -> usize {
        self.posts.load(Ordering::Relaxed)
    }
}

/// Reads a whole post. If a connection is closed with something unread, the answer can be lost.
fn read_post(stream: &mut TcpStream) -> Option<()> {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.split("content-length: ").nth(1)?.lines().next()?.parse().ok()?;
            if body.len() >= length {
                return Some(());
            }
        }
        let mut bytes = [0; 1 << 14];
        let count = stream.read(&mut bytes).ok().filter(|count| *count > 0)?;
        read.extend_from_slice(&bytes[..count]);
    }
}

fn head(header: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{header}\r\nContent-Length: 2\r\n\r\nok").into_bytes()
}

fn headers(count: usize) -> Vec<u8> {
    head(&(0..count).map(|number| format!("x-{number}: y")).collect::<Vec<_>>().join("\r\n"))
}

/// Browsers and curl accept these.
#[tokio::test]
async fn that_are_not_quite_http_count_by_their_status() {
    for answer in [
        head("X-A : b"),
        head("Content-Type: a;\r\n b"),
        head("Content-Type:\r\n\tb"),
        head("X(A): b"),
        head("no colon"),
        head(": b"),
        head("X-A: b\u{1}c\u{7f}"),
        head("X-A: \u{e4}"),
        head("Content-Length: 2"),
        headers(101),
        headers(4_900),
        b"HTTP/1.1 200 OK\nX-A: b\nContent-Length: 2\n\nok".into(),
        b"HTTP/1.1 200 OK\r\n\r\n".into(),
        b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n".into(),
        b"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n".into(),
        b"HTTP/1.1 200 \xe4\r\nContent-Length: 0\r\n\r\n".into(),
        b"HTTP/1.0 200 OK\r\n\r\nok".into(),
        b"\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".into(),
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"
            .into(),
        b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nbroken off".into(),
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more".into(),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nmore".into(),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n".into(),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\nContent-Length: 900\r\n\r\n2\r\nok\r\n0\r\n\r\n"
            .into(),
    ] {
        let text = String::from_utf8_lossy(&answer[..answer.len().min(100)]).into_owned();
        for (status, outcome) in [("200", "a delivered"), ("404", "a archived permanent")] {
            let bytes = String::from_utf8_lossy(&answer).replace("200", status).into_bytes();
            let server = RawServer::answering(if status == "200" { answer.clone() } else { bytes });
            let world = world_of(&json!({}), "http", &server.url);
            let ran = world.run([&RecordBuilder::envelope("a")]).await;
            assert_eq!(ran.outcomes(), [outcome], "{text:?}: {}", ran.text);
            assert_eq!(server.posts(), 1, "{text:?}");
        }
    }
}

/// Nothing of such an answer is logged.
#[tokio::test]
async fn that_cannot_be_read_say_that_the_server_may_have_the_message() {
    for answer in [
        head("Content-Length: 3"),
        head("X-A: S3CR3T\0"),
        head("X-A: S3CR3T\rb"),
        headers(5_001),
        head(&format!("X-A: {}", "S3CR3T".repeat(100_000))),
        b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok".into(),
        b"HTTP/1.1 200 OK\r\nContent-Length: 2 2\r\n\r\nok".into(),
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok".into(),
        b"HTTP/1.1 200 S3CR3T\x01\r\nContent-Length: 0\r\n\r\n".into(),
        b"HTTP/1.1 2000 OK\r\n\r\n".into(),
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".into(),
        b"HTTP/2 200\r\n\r\n".into(),
        b"<html>S3CR3T, as HTTP/0.9 answers</html>".into(),
        b"SSH-2.0-OpenSSH_9.6\r\n".into(),
        b"HTTP/1.1 200 OK\r\nX-A: S3CR3T".into(),
        b"HTTP/1.1 100 Continue\r\n\r\n".into(),
        b"".into(),
    ] {
        let text = String::from_utf8_lossy(&answer[..answer.len().min(100)]).into_owned();
        let server = RawServer::answering(answer);
        let world = world_of(&json!({}), "http", &server.url);
        let ran = world.run([&RecordBuilder::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["a deferred failed"], "{text:?}");
        let [_, _, detail, code, class] = told(&ran, "a");
        assert_eq!([code, class], [json!("AnswerUnreadable"), json!("transient")], "{text:?}");
        assert!(detail.as_str().unwrap().contains("the server may have taken the message"), "{detail}");
        assert!(!ran.letter("a")["error.message"].as_str().unwrap().is_empty(), "{}", ran.text);
        assert!(!ran.text.contains("S3CR3T"), "{}", ran.text);
        assert_eq!(server.posts(), 1, "{text:?}: who knows what the server did: it is not asked again");
    }
}

/// A server that answers a post with this, again and again, after this pause.
struct FloodServer {
    server: RawServer,
    ended: Arc<AtomicUsize>,
}

impl FloodServer {
    fn of(first: &'static [u8], again: &'static [u8], pause: Duration) -> Self {
        let ended = Arc::<AtomicUsize>::default();
        let ends = Arc::clone(&ended);
        let server = RawServer::serving(move |stream| {
            stream.write_all(first)?;
            while stream.write_all(again).is_ok() {
                std::thread::sleep(pause);
            }
            ends.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        Self { server, ended }
    }

    /// Asserts that its answer to one letter counts as this failure, and that its connection is closed then.
    async fn fails_as(&self, code: &str, time: Duration) {
        let world = world_of(&json!({}), "http", &self.server.url).with_time(time);
        let ran = tokio::time::timeout(Duration::from_mins(3), world.run([&RecordBuilder::envelope("a")]))
            .await
            .unwrap();
        assert_eq!(ran.outcomes(), ["a deferred failed"]);
        assert_eq!(told(&ran, "a")[3..], [json!(code), json!("transient")]);
        for _ in 0..3_000 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if self.ended.load(Ordering::Relaxed) == 1 {
                break;
            }
        }
        assert_eq!((self.server.posts(), self.ended.load(Ordering::Relaxed)), (1, 1));
    }
}

const PROCESSING: &[u8] = b"HTTP/1.1 102 Processing\r\n\r\n";

#[tokio::test]
async fn without_end_are_given_up() {
    let time = Duration::from_secs(30);
    for (first, again) in [
        (&b""[..], PROCESSING),
        (b"", b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"y"),
    ] {
        FloodServer::of(first, again, Duration::ZERO).fails_as("AnswerUnreadable", time).await;
    }
}

/// The time of the request bounds them.
#[tokio::test]
async fn that_never_have_a_status_that_counts_keep_nobody_waiting() {
    let slow = FloodServer::of(b"", PROCESSING, Duration::from_millis(5));
    slow.fails_as("DeadlineExceeded", Duration::from_secs(15)).await;
}

/// The function reads no more of them than it needs.
#[tokio::test]
async fn with_a_long_head_or_a_longer_body_count_by_their_status() {
    let long = format!("X: {}\r\n", "y".repeat(1_000)).repeat(390);
    let early = "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n".repeat(1_000);
    for before in [long, String::new()] {
        let answer = format!("{early}HTTP/1.1 200 OK\r\n{before}Content-Length: 2000000\r\n\r\n");
        let server = RawServer::answering(answer + &"z".repeat(2_000_000));
        let world = world_of(&json!({}), "http", &server.url);
        for id in ["a", "b"] {
            let ran = world.run([&RecordBuilder::envelope(id)]).await;
            assert_eq!(ran.outcomes(), [format!("{id} delivered")], "{}", ran.text);
        }
        assert_eq!(server.posts(), 2);
    }
}

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
        let server = TestWebServer::answering(status);
        let world = world_of(&json!({}), "http", &server.url());
        let ran = world.run([&RecordBuilder::envelope("a")]).await;
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
        let elsewhere = TestWebServer::answering(200);
        let location = format!("{}/payments", elsewhere.url());
        let server =
            TestWebServer::scripted(move |_, _| WebAnswer::status(status).with("location", &location));
        let world = world_of(&json!({}), "http", &server.url());
        let ran = world.run([&RecordBuilder::envelope("a")]).await;
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
    let closed = ClosedPort::new();
    let world = world_of(&json!({}), "http", &format!("{}/", closed.url()));
    let ran = world.run([&RecordBuilder::envelope("a")]).await;
    assert_eq!(ran.outcomes(), ["a deferred failed"]);
    assert_eq!(told(&ran, "a")[3..], [json!("Unreachable"), json!("transient")]);

    // A server that took the message and then broke down may have it.
    let server = TestWebServer::scripted(|_, _| WebAnswer::fault(SimFault::ResetAfter));
    let world = world_of(&json!({}), "http", &server.url()).with_time(Duration::from_secs(5));
    let ran = world.run([&RecordBuilder::envelope("a")]).await;
    assert_eq!(ran.outcomes(), ["a deferred failed"]);
    assert_eq!(told(&ran, "a")[3..], [json!("AnswerUnreadable"), json!("transient")]);
    assert_eq!(server.seen().len(), 1, "who knows what the server did: it is not asked again");
}

#[tokio::test(start_paused = true)]
async fn that_come_after_the_functions_time_are_transient_and_keep_nobody_waiting() {
    const INVOCATION_TIMEOUT: Duration = Duration::from_secs(2);
    let silent = |_| futures_util::future::pending().boxed();
    let world = world_of(&json!({}), "http", "https://hooks.example.com/").with_time(INVOCATION_TIMEOUT);
    let http = HttpClient::simulated(AddressReach::Public, Arc::new(silent));
    let world = world.map_redrive(|it| it.with_http(http));
    let began = tokio::time::Instant::now();
    let ran = world.run([&RecordBuilder::envelope("a")]).await;
    assert!(began.elapsed() < INVOCATION_TIMEOUT, "{:?}", began.elapsed());
    assert_eq!(ran.outcomes(), ["a deferred failed"]);
    assert_eq!(told(&ran, "a")[3..], [json!("DeadlineExceeded"), json!("transient")]);
}

#[tokio::test]
async fn that_are_slow_but_in_time_count() {
    let server = TestWebServer::scripted(|_, _| WebAnswer::status(200).after(Duration::from_millis(300)));
    let world = world_of(&json!({}), "http", &server.url());
    assert_eq!(world.run([&RecordBuilder::envelope("a")]).await.outcomes(), ["a delivered"]);
}

/// SNS waits 15 s. Only this test waits as long; requests under way at the same time wait together.
#[tokio::test]
async fn are_waited_for_15_seconds() {
    let silent = TestWebServer::scripted(|_, _| WebAnswer::fault(SimFault::HangAfter));
    let stalled = TestWebServer::scripted(|_, _| WebAnswer::fault(SimFault::Stall(1)));
    let world = world_of(&json!({}), "http", &silent.url());
    world.cloud.subscribe_endpoint(OTHER_SUBSCRIPTION, TOPIC, "http", &stalled.url(), DLQ);
    let began = Instant::now();
    let ran = world
        .run([&RecordBuilder::envelope("a"), &RecordBuilder::envelope("b").subscription(OTHER_SUBSCRIPTION)])
        .await;
    let range = Duration::from_millis(14_900)..Duration::from_mins(25);
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
        let server = TestWebServer::scripted(move |_, _| WebAnswer {
            body: "x".repeat(1 << 20),
            fault: SimFault::Stall(1 << 19),
            ..WebAnswer::status(status)
        });
        let world = world_of(&json!({}), "http", &server.url());
        assert_eq!(world.run([&RecordBuilder::envelope("a")]).await.outcomes(), [outcome]);
        // A request has 15 s, which one that waited for the end would take.
        assert!(began.elapsed() < Duration::from_secs(14), "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn count_by_their_status_though_there_is_no_time_for_their_bodies() {
    let server = TestWebServer::scripted(|_, _| WebAnswer {
        body: "ok".to_owned(),
        fault: SimFault::Stall(1),
        ..WebAnswer::status(200)
    });
    let world = world_of(&json!({}), "http", &server.url()).with_time(Duration::from_secs(15));
    assert_eq!(world.run([&RecordBuilder::envelope("a")]).await.outcomes(), ["a delivered"]);
}

#[tokio::test]
async fn keep_the_connection_for_the_next_letter() {
    let server = TestWebServer::answering(200);
    let world = world_of(&json!({}), "http", &server.url());
    for id in ["a", "b", "c"] {
        assert_eq!(world.run([&RecordBuilder::envelope(id)]).await.outcomes(), [format!("{id} delivered")]);
    }
    assert_eq!((server.seen().len(), server.connections()), (3, 1));
}

/// If the server has closed a connection in the meantime, this costs no retry.
#[tokio::test]
async fn on_a_connection_that_was_closed_meanwhile_come_over_a_new_one() {
    let server = TestWebServer::answering(200);
    let world = world_of(&json!({}), "http", &server.url());
    for id in ["a", "b", "c"] {
        assert_eq!(world.run([&RecordBuilder::envelope(id)]).await.outcomes(), [format!("{id} delivered")]);
        server.hang_up();
        // While nothing else is to do, the runtime looks at its connections.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!((server.seen().len(), server.connections()), (3, 3));
}

#[tokio::test]
async fn are_those_of_each_letter_alone() {
    let server = TestWebServer::scripted(|number, _| WebAnswer::status([200, 500, 404][number % 3]));
    let world = world_of(&json!({}), "http", &server.url());
    let ran = world.run(&["a", "b", "c"].map(RecordBuilder::envelope)).await;
    let mut outcomes: Vec<_> =
        ran.letters().iter().map(|line| line["outcome"].as_str().unwrap().to_owned()).collect();
    outcomes.sort();
    assert_eq!(outcomes, ["archived", "deferred", "delivered"]);
    assert_eq!(ran.metrics()["FailuresTransient"], 1);
    assert_eq!(ran.metrics()["FailuresPermanent"], 1);
}
