//! Tests of the function and its parts, on an account in `sim`. They are one binary, because each binary
//! links the whole SDK.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod archive;
mod attacks;
mod batches;
mod big_batches;
mod clients;
mod corpus;
mod discovery;
mod dispatcher;
mod endpoints;
mod failure_classes;
mod loops;
mod notices;
mod orders;
mod origins;
mod pace;
mod replay;
mod requeue;
mod retention;
mod signature;
mod start;
mod subscriptions;
mod telemetry;
mod template;
mod visibility;
