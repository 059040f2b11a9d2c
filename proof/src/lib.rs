//! What measures the function and tries to break it.
//!
//! The release binary runs as Lambda runs it: [`Sandbox`] starts the process and is its runtime API, and what it calls is an
//! account of `sim`, with settable latency and faults. All of it is on loopback.
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

pub use circumstances::{circumstances, put};
pub use sandbox::{Ended, Killer, Sandbox, TRACE};

/// From now on a panic of any thread ends the process with code 101: a server or a poller that is not there any
/// more would look like a fault that the function survives.
pub fn panics_are_failures() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::exit(101);
    }));
}
