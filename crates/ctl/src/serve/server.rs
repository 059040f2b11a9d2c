//! The HTTP server on loopback, with its limits.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::StatusCode;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::answer::ServeAnswer;
use super::route::answer;
use super::session::ServeSession;
use crate::console::CommandFailure;

/// The most connections at once. Further ones wait.
const MAX_CONNECTIONS: usize = 32;

/// The longest head of a request, bytes.
const LONGEST_HEAD: usize = 16 << 10;

/// The most headers of a request.
const MAX_REQUEST_HEADERS: usize = 64;

/// How long the head of a request may take to arrive.
const HEAD_WITHIN: Duration = Duration::from_secs(5);

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// How long a connection may take in all.
const CONNECTION_WITHIN: Duration = Duration::from_mins(1);

/// How often the server checks for Ctrl-C.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(100);

/// Opens a port on loopback, which no other machine can reach.
///
/// # Errors
///
/// The port is taken, or this user may not open it.
pub(super) async fn listen(port: u16) -> Result<(TcpListener, u16), CommandFailure> {
    let bad =
        |error: std::io::Error| CommandFailure::Work(format!("cannot listen on 127.0.0.1:{port}: {error}"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(bad)?;
    let port = listener.local_addr().map_err(bad)?.port();
    Ok((listener, port))
}

/// Serves until Ctrl-C.
pub(super) async fn serve(listener: TcpListener, session: &Rc<ServeSession>, stop: &AtomicBool) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    while !stop.load(Ordering::Relaxed) {
        while connections.try_join_next().is_some() {}
        let next = async {
            // The semaphore is never closed, so this cannot fail.
            let place = Arc::clone(&places).acquire_owned().await.ok()?;
            let (stream, _) = listener.accept().await.ok()?;
            Some((place, stream))
        };
        let Ok(Some((place, stream))) = timeout(INTERRUPT_INTERVAL, next).await else {
            // If accepting fails at once, for example because the process has no file descriptor left, the
            // loop must not use all of a processor.
            sleep(Duration::from_millis(1)).await;
            continue;
        };
        let session = Rc::clone(session);
        connections.spawn_local(async move {
            // A client that disconnects early is no problem.
            let _ = timeout(CONNECTION_WITHIN, connection(stream, &session)).await;
            drop(place);
        });
    }
}

/// Answers the only request of a connection.
async fn connection(stream: TcpStream, session: &Rc<ServeSession>) -> hyper::Result<()> {
    let service = service_fn(|request| async {
        let answered = timeout(ANSWER_WITHIN, answer(session, request)).await;
        let late = |_| ServeAnswer::text(StatusCode::GATEWAY_TIMEOUT, "The answer took too long.");
        Ok::<_, Infallible>(answered.unwrap_or_else(late).into_response())
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_headers(MAX_REQUEST_HEADERS)
        .max_header_size(LONGEST_HEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await
}
