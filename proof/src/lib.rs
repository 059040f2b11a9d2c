//! What measures the function and tries to break it.
//!
//! The release binary runs as Lambda runs it: [`Sandbox`] starts the process and is its runtime API,
//! and [`Server`] is the network that it sees, with settable latency and faults. All of it is on
//! loopback.
#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a tool for measuring: what is not as it must be ends it"
)]

mod circumstances;
pub mod loss;
mod sandbox;
mod server;
mod sink;

pub use protocol::{self, wire};

pub use circumstances::{circumstances, put};
pub use sandbox::{Ended, Killer, Sandbox, TRACE};
pub use server::{Reply, Server};
pub use sink::{Count, Sink, Subscribed};

/// From now on a panic of any thread ends the process with code 101: a server or a poller that is not there any
/// more would look like a fault that the function survives.
pub fn panics_are_failures() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::exit(101);
    }));
}

/// What AWS reads in a request. All services share the server, so a queue is named by its name alone.
#[must_use]
pub fn call(request: &wire::Raw) -> protocol::Call {
    let uri = ["http://", request.header("host").unwrap_or_default(), request.path()].concat();
    let header = |name: &str| request.header(name).map(str::to_owned);
    let mut call = protocol::read(request.method(), &uri, header, &request.body);
    if call.to.starts_with("https://sqs.")
        && let Some((_, name)) = call.to.rsplit_once('/')
    {
        call.to = name.to_owned();
    }
    call
}
