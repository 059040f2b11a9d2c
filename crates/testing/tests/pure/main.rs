//! Tests of the decisions, without anything that carries them out: no AWS client, no clock, no tokio.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod batch;
mod decisions;
mod failure_classes;
mod letters;
mod overrides;
mod policy_document;
mod schedule;
