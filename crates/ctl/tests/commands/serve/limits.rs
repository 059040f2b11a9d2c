//! Tests that no client can block the server.

use std::time::Duration;

use redrive_support::TestAccount;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::serving;

#[tokio::test]
async fn heads_and_forms_have_a_size() {
    let cloud = TestAccount::new();
    serving(&cloud, &["--operate"], async |client| {
        let (host, origin) = (client.host(), client.origin());
        let long = "x".repeat(20 << 10);
        let reply = client.send("GET", "/TOKEN/", &[("Host", &host), ("X-Long", &long)], "").await;
        assert_eq!(reply.status, 431);
        let many: Vec<_> = (0..70).map(|_| ("X", "y")).chain([("Host", host.as_str())]).collect();
        assert_eq!(client.send("GET", "/TOKEN/", &many, "").await.status, 431);
        let form = format!("why=w&rate={}", "x".repeat(5 << 20));
        let reply = client
            .send("POST", "/TOKEN/act?do=hold&topic=payments", &[("Host", &host), ("Origin", &origin)], &form)
            .await;
        // The server refuses while the client still sends, so the answer may get lost. The action is not
        // done.
        assert!(matches!(reply.status, 413 | 0), "{}", reply.status);
        assert!(client.get("jobs").await.text().contains("Nothing was done in this session."));
    })
    .await;
}

/// Time passes by itself.
#[tokio::test(start_paused = true)]
async fn whoever_sends_slowly_is_cut_off() {
    let cloud = TestAccount::new();
    serving(&cloud, &["--operate"], async |client| {
        let head = format!("GET /{}/ HTTP/1.1\r\nHost: {}\r\n", client.token, client.host());
        let form = format!(
            "POST /{}/act HTTP/1.1\r\nHost: {}\r\nOrigin: {}\r\nContent-Length: 100\r\n\r\ndo=hold",
            client.token,
            client.host(),
            client.origin()
        );
        for (sent, status) in [(head, ""), (form, "HTTP/1.1 408 ")] {
            let begun = tokio::time::Instant::now();
            let mut stream = TcpStream::connect(("127.0.0.1", client.port)).await.unwrap();
            stream.write_all(sent.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with(status), "{answer}");
            assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn more_connections_than_it_holds_wait_and_do_not_hold_it_up_for_long() {
    let cloud = TestAccount::new();
    serving(&cloud, &[], async |client| {
        let mut idle = Vec::new();
        for _ in 0..40 {
            idle.push(TcpStream::connect(("127.0.0.1", client.port)).await.unwrap());
        }
        let begun = tokio::time::Instant::now();
        assert_eq!(client.get("").await.status, 200);
        // The server had to give up the first 32 connections for this one.
        let waited = begun.elapsed();
        assert!(waited >= Duration::from_secs(4) && waited < Duration::from_secs(30), "{waited:?}");
    })
    .await;
}
