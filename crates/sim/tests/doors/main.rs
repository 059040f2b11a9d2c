//! The doors as a plain client sees them: HTTP/1.1 on a loopback socket, and the web servers of subscribers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop anywhere")]

mod plain;
mod recorded;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redrive_sim::sqs::QueueSettings;
use redrive_sim::{
    Caller, EntryFault, FaultHook, SimAws, SimCall, SimClock, SimEvent, SimFault, SimRecord, SocketServer,
    WebAnswer, WireRequest,
};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

fn aws() -> SimAws {
    let aws = SimAws::new(SimClock::real(), 7);
    aws.act("test", |it, _| {
        it.sqs.create("dlq", QueueSettings::default());
        it.web.serve("hooks.example.com", |call: &SimCall| match call.parameter("path") {
            Some("/busy") => WebAnswer::status(503).retry_after(7),
            Some("/gone") => WebAnswer::fault(SimFault::NoConnection),
            Some("/slow") => WebAnswer::status(200).after(Duration::from_millis(60)),
            Some("/silent") => WebAnswer::fault(SimFault::HangAfter),
            _ => WebAnswer::status(200),
        });
    });
    aws
}

fn post(path: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: any\r\ncontent-length: 2\r\n\r\nhi")
}

/// Sends a text and reads until the connection ends, or for a fifth of a second.
fn exchange(server: &SocketServer, text: &str) -> String {
    String::from_utf8(exchange_bytes(server, text)).unwrap()
}

fn exchange_bytes(server: &SocketServer, text: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn a_web_server_answers_as_it_is_told() {
    let aws = aws();
    let server = aws.listen_web(&Caller::new("fn-1"), "hooks.example.com").unwrap();
    assert!(exchange(&server, &post("/")).starts_with("HTTP/1.1 200 "));
    let busy = exchange(&server, &post("/busy"));
    assert!(busy.starts_with("HTTP/1.1 503 ") && busy.contains("\r\nretry-after: 7\r\n"), "{busy}");
    assert_eq!(exchange(&server, &post("/gone")), "");
    assert_eq!(exchange(&server, &post("/silent")), "");
    let start = Instant::now();
    assert!(exchange(&server, &post("/slow")).starts_with("HTTP/1.1 200 "));
    assert!(start.elapsed() >= Duration::from_millis(60));
    let posted = |record: &SimRecord| match &record.event {
        SimEvent::Posted { path, body, .. } => Some(format!("{path} {}", String::from_utf8_lossy(body))),
        _ => None,
    };
    let posted: Vec<_> = aws.journal(|records| records.iter().filter_map(posted).collect());
    assert_eq!(posted, ["/ hi", "/busy hi", "/silent hi", "/slow hi"], "/gone was never reached");
}

#[test]
fn a_connection_takes_several_requests_in_chunks_too() {
    let aws = aws();
    let server = aws.listen_web(&Caller::new("fn-1"), "hooks.example.com").unwrap();
    let chunked = "POST / HTTP/1.1\r\nhost: any\r\nexpect: 100-continue\r\ntransfer-encoding: chunked\r\n\r\n\
                   3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    let answers = exchange(&server, &format!("{}{chunked}{}", post("/"), post("/busy")));
    let statuses: Vec<_> =
        answers.match_indices("HTTP/1.1 ").map(|(at, _)| &answers[at + 9..at + 12]).collect();
    assert_eq!(statuses, ["200", "100", "200", "503"], "{answers}");
    assert!(aws.calls().iter().any(|call| call.body == b"abcde"));
}

#[test]
fn a_connection_that_is_forgotten_is_reset_when_the_client_speaks() {
    let aws = aws();
    let server = aws.listen_web(&Caller::new("fn-1"), "hooks.example.com").unwrap();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let mut answer = [0; 1_000];
    stream.write_all(post("/").as_bytes()).unwrap();
    assert!(stream.read(&mut answer).unwrap() > 0);
    server.forget();
    stream.write_all(post("/").as_bytes()).unwrap();
    let ended = stream.read(&mut answer).map_err(|error| error.kind());
    assert_eq!(ended, Err(std::io::ErrorKind::ConnectionReset));
    assert!(exchange(&server, &post("/")).starts_with("HTTP/1.1 200 "), "a new one works");
    assert_eq!(aws.calls().len(), 2);
}

#[test]
fn an_answer_breaks_off_and_a_caller_that_is_cut_off_hears_nothing() {
    let aws = aws();
    let caller = Caller::new("fn-1");
    let server = aws.listen(&caller).unwrap();
    let body = r#"{"QueueUrl":"dlq","MessageBody":"a"}"#;
    let send = format!(
        "POST / HTTP/1.1\r\nhost: {}\r\nx-amz-target: AmazonSQS.SendMessage\r\ncontent-length: {}\r\n\r\n{body}",
        server.address(),
        body.len()
    );
    let len = || aws.act("test", |it, _| it.sqs.queue("dlq").unwrap().len());
    let whole = exchange(&server, &send);
    aws.set_faults(FaultHook::new(|_| SimFault::BreakOff(5)));
    let broken = exchange(&server, &send);
    let head = whole.split_once("\r\n\r\n").unwrap().0;
    let (same, rest) = broken.split_once("\r\n\r\n").unwrap();
    assert_eq!((same, rest.len(), len()), (head, 5, 2), "the head promises the whole body");
    caller.cut();
    assert_eq!((exchange(&server, &send), len()), (String::new(), 2));
}

/// <https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html>
#[test]
fn an_upload_may_come_in_chunks_and_is_compared_with_its_checksum() {
    let aws = aws();
    aws.act("test", |it, _| it.s3.create("archive"));
    let chunks = b"3;chunk-signature=a\r\nabc\r\n2\r\nde\r\n0\r\nx-amz-checksum-crc32:hYfYZQ==\r\n\r\n";
    let request = WireRequest {
        method: "PUT".to_owned(),
        uri: "https://archive.s3.eu-central-1.amazonaws.com/key".to_owned(),
        headers: vec![("content-encoding".to_owned(), "aws-chunked".to_owned())],
        body: chunks.to_vec(),
    };
    assert_eq!(aws.answer(&Caller::new("fn-1"), &request).status, 200);
    aws.act("test", |it, _| assert_eq!(it.s3.objects("archive").unwrap()["key"].bytes, b"abcde"));
    let torn = WireRequest { body: chunks[..30].to_vec(), ..request.clone() };
    assert_eq!(aws.answer(&Caller::new("fn-1"), &torn).status, 400);
    // Other bytes came than were sent, in chunks and in one.
    let mut other = request.clone();
    other.body[21] = b'x';
    let whole = WireRequest {
        headers: vec![("x-amz-checksum-crc32".to_owned(), "hYfYZQ==".to_owned())],
        body: b"abxde".to_vec(),
        ..request
    };
    for request in [other, whole] {
        let answer = aws.answer(&Caller::new("fn-1"), &request);
        assert!(answer.status == 400 && String::from_utf8_lossy(&answer.body).contains("BadDigest"));
    }
    aws.act("test", |it, _| assert_eq!(it.s3.objects("archive").unwrap()["key"].bytes, b"abcde"));
}

#[test]
fn entries_of_a_batch_fail_or_are_missing_in_every_protocol() {
    let aws = aws();
    aws.act("test", |it, _| {
        it.firehose.create("payments");
        it.sns.create("payments", redrive_sim::sns::TopicSettings::default());
    });
    let failed = EntryFault::service("InternalFailure", "Try again.");
    aws.set_faults(FaultHook::new(move |_| {
        SimFault::Entries(vec![(0, failed.clone()), (2, EntryFault::Missing)])
    }));
    let server = aws.listen(&Caller::new("fn-1")).unwrap();
    let post = |header: &str, body: &str| {
        let length = body.len();
        let head =
            format!("POST / HTTP/1.1\r\nhost: 127.0.0.1\r\n{header}\r\ncontent-length: {length}\r\n\r\n");
        exchange(&server, &format!("{head}{body}"))
    };
    let records =
        r#"{"DeliveryStreamName":"payments","Records":[{"Data":"YQ=="},{"Data":"Yg=="},{"Data":"Yw=="}]}"#;
    let answer = post("x-amz-target: Firehose_20150804.PutRecordBatch", records);
    assert!(answer.contains("\"FailedPutCount\":2") && answer.contains("InternalFailure"), "{answer}");
    assert_eq!(answer.matches("RecordId").count(), 1, "nothing follows a missing answer");
    assert!(!answer.contains("missing"), "{answer}");
    let entry = |n: usize| {
        format!(
            "&PublishBatchRequestEntries.member.{n}.Id={n}&PublishBatchRequestEntries.member.{n}.Message=m"
        )
    };
    let form = format!(
        "Action=PublishBatch&TopicArn={}{}{}{}",
        redrive_sim::arn("sns", "payments"),
        entry(1),
        entry(2),
        entry(3)
    );
    let answer = post("content-type: application/x-www-form-urlencoded", &form);
    assert!(answer.contains("<Failed><member><Id>1</Id><Code>InternalFailure</Code>"), "{answer}");
    assert!(
        answer.contains("<SenderFault>false</SenderFault>") && !answer.contains("<Id>3</Id>"),
        "{answer}"
    );
    let took =
        |record: &SimRecord| matches!(record.event, SimEvent::Published { .. } | SimEvent::Streamed { .. });
    assert_eq!(aws.journal(|records| records.iter().filter(|it| took(it)).count()), 2);
}

#[test]
fn a_process_has_one_address_for_all_services_and_other_names_are_web_servers() {
    let aws = aws();
    let request =
        |uri: &str| WireRequest { method: "POST".to_owned(), uri: uri.to_owned(), ..WireRequest::default() };
    let answer = |uri: &str| aws.answer(&Caller::new("fn-1"), &request(uri)).status;
    assert_eq!(answer("https://hooks.example.com/busy"), 503);
    assert_eq!(answer("https://nowhere.example.com/"), 503, "nobody answers there");
    let last = aws.calls().last().map(|call| call.summary());
    assert_eq!(last.as_deref(), Some("POST nowhere.example.com"));
}

#[test]
fn a_socket_may_have_tls() {
    let aws = aws();
    let (chain, key) = (
        include_str!("../../../../tests/data/https/localhost.pem"),
        include_str!("../../../../tests/data/https/localhost.key"),
    );
    let server = aws.listen_tls(&Caller::new("fn-1"), chain, key).unwrap();
    let authority = include_bytes!("../../../../tests/data/https/authority.pem");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let session = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let mut stream = StreamOwned::new(session, TcpStream::connect(server.address()).unwrap());
    stream.write_all(b"GET /archive/none HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 404");
    let plain = exchange_bytes(&server, "GET / HTTP/1.1\r\n\r\n");
    assert!(!plain.starts_with(b"HTTP"), "there is no answer without TLS");
}

#[test]
fn a_server_hangs_up() {
    let aws = aws();
    let server = aws.listen_web(&Caller::new("fn-1"), "hooks.example.com").unwrap();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(post("/").as_bytes()).unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    server.hang_up();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(exchange(&server, &post("/")).starts_with("HTTP/1.1 200 "), "others may come");
}

#[test]
fn the_journal_has_the_end_of_every_request() {
    let aws = aws();
    aws.act("test", |it, _| {
        it.lambda.create("notifier", redrive_sim::lambda::FunctionSettings::default(), |_| {
            redrive_sim::lambda::SimInvocationResult::ok("1")
        });
    });
    let server = aws.listen(&Caller::new("fn-1")).unwrap();
    let send = |header: &str, path: &str, body: &str| {
        let host = server.address();
        let length = body.len();
        let text = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\n{header}\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        exchange(&server, &text)
    };
    let batch = r#"{"QueueUrl":"dlq","Entries":[{"Id":"0","MessageBody":"a"},{"Id":"1","MessageBody":"b"}]}"#;
    let faults = [
        SimFault::Pass,
        SimFault::Entries(vec![(0, EntryFault::service("InternalError", ""))]),
        SimFault::Throttle,
        SimFault::ResetBefore,
        SimFault::ResetAfter,
    ];
    for fault in faults {
        aws.set_faults(FaultHook::new(move |_| fault.clone()));
        send("x-amz-target: AmazonSQS.SendMessageBatch", "/", batch);
    }
    aws.set_faults(FaultHook::new(|_| SimFault::FunctionError));
    let answer =
        send("x-amz-invocation-type: RequestResponse", "/2015-03-31/functions/notifier/invocations", "1");
    assert!(answer.contains("x-amz-function-error: Unhandled"), "{answer}");
    let end = |record: &SimRecord| match &record.event {
        SimEvent::Answered { call, status, effects, .. } => Some((call.operation.clone(), *status, *effects)),
        _ => None,
    };
    let ends: Vec<_> = aws.journal(|records| records.iter().filter_map(end).collect());
    let sent = |status, effects| ("SendMessageBatch".to_owned(), status, effects);
    let invoked = ("Invoke".to_owned(), Some(200), 0);
    assert_eq!(
        ends,
        [
            sent(Some(200), 2),
            sent(Some(200), 1),
            sent(Some(403), 0),
            sent(None, 0),
            sent(Some(200), 2),
            invoked
        ]
    );
}
