//! Measurements of the function, and attempts to break it.
//!
//! The release binary runs as Lambda runs it: [`Sandbox`] starts the process and serves its runtime API. An
//! account of `redrive-sim`, with adjustable latency and faults, answers the process's calls. All of it is on
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

pub use circumstances::{circumstances, put};
pub use sandbox::{ClockOffset, ProcessKiller, Sandbox, SandboxEnd, TRACE};

/// Makes a panic of any thread end the process with code 101 from now on. Without this, a dead server or
/// poller would look like a fault that the function survives.
pub fn panics_are_failures() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::exit(101);
    }));
}
