//! A web server on loopback, in an account of its own in [`redrive_sim`].

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};

use redrive_sim::{Aws, Call, Caller, Clock, WebAnswer};

/// The name of the server in its account.
const NAME: &str = "server";

/// The server, which runs until it is dropped.
#[derive(Debug)]
pub struct Server {
    aws: Aws,
    socket: redrive_sim::Server,
}

impl Server {
    /// Starts a server that answers every request with this status.
    pub fn answering(status: u16) -> Self {
        Self::scripted(move |_, _| WebAnswer::status(status))
    }

    /// Starts a server that answers by the request and its number, from 0.
    pub fn scripted(script: impl Fn(usize, &Call) -> WebAnswer + Send + Sync + 'static) -> Self {
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
    pub fn seen(&self) -> Vec<Call> {
        self.aws.calls().iter().map(|call| (**call).clone()).collect()
    }
}

impl Deref for Server {
    type Target = redrive_sim::Server;

    fn deref(&self) -> &redrive_sim::Server {
        &self.socket
    }
}

fn account(script: impl Fn(usize, &Call) -> WebAnswer + Send + Sync + 'static) -> Aws {
    let (aws, asked) = (Aws::new(Clock::real(), 7), AtomicUsize::new(0));
    aws.act("test", |it, _| {
        it.web.serve(NAME, move |call| script(asked.fetch_add(1, Ordering::Relaxed), call));
    });
    aws
}
