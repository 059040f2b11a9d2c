//! A web server on loopback, in an account of its own in [`redrive_sim`], and a port without a server.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};

use redrive_sim::{Caller, SimAws, SimCall, SimClock, WebAnswer};
use tokio::net::TcpSocket;

/// The name of the server in its account.
const NAME: &str = "server";

/// The server, which runs until it is dropped.
#[derive(Debug)]
pub struct TestWebServer {
    aws: SimAws,
    socket: redrive_sim::SocketServer,
}

impl TestWebServer {
    /// Starts a server that answers every request with this status.
    pub fn answering(status: u16) -> Self {
        Self::scripted(move |_, _| WebAnswer::status(status))
    }

    /// Starts a server that answers by the request and its number, from 0.
    pub fn scripted(script: impl Fn(usize, &SimCall) -> WebAnswer + Send + Sync + 'static) -> Self {
        let aws = account(script);
        Self { socket: aws.listen_web(&Caller::new("client"), NAME).unwrap(), aws }
    }

    /// Starts a server with TLS that answers 200. `chain` and `key` are PEM.
    pub fn with_tls(chain: &str, key: &str) -> Self {
        let aws = account(|_, _| WebAnswer::status(200));
        Self { socket: aws.listen_web_tls(&Caller::new("client"), NAME, chain, key).unwrap(), aws }
    }

    /// Returns its URL with this host, without a path.
    pub fn url_of(&self, scheme: &str, host: &str) -> String {
        self.url().replace("http://127.0.0.1", &format!("{scheme}://{host}"))
    }

    /// Returns every request so far, with its headers and its path as parameters.
    pub fn seen(&self) -> Vec<SimCall> {
        self.aws.calls().iter().map(|call| (**call).clone()).collect()
    }
}

impl Deref for TestWebServer {
    type Target = redrive_sim::SocketServer;

    fn deref(&self) -> &redrive_sim::SocketServer {
        &self.socket
    }
}

/// A port of loopback that takes no connection. It is bound for as long as this lives: the port of a listener that was closed
/// can be the next server's, in another test.
#[derive(Debug)]
pub struct ClosedPort(TcpSocket);

impl ClosedPort {
    /// Takes any free port.
    pub fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        Self(socket)
    }

    /// Returns `http://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("http://{}", self.0.local_addr().unwrap())
    }
}

fn account(script: impl Fn(usize, &SimCall) -> WebAnswer + Send + Sync + 'static) -> SimAws {
    let (aws, asked) = (SimAws::new(SimClock::real(), 7), AtomicUsize::new(0));
    aws.act("test", |it, _| {
        it.web.serve(NAME, move |call| script(asked.fetch_add(1, Ordering::Relaxed), call));
    });
    aws
}
