//! What is decided, without anything being done: a message of a queue becomes a letter, and a policy says what
//! should happen to it, and when.
//!
//! A crate of its own for two reasons. No AWS client, no tokio and no tracing is among its dependencies, so
//! nothing here can reach for one; time comes in as an argument. And it goes over every byte of every letter, so it
//! is compiled for speed, while everything else is compiled to be small.
//!
//! | module | what it holds |
//! |---|---|
//! | [`letter`] | what lies in the queue: origins, SNS messages, the mark |
//! | [`policy`] | what should happen, and when: rules, schedule, decision |
//! | [`arn`] | ARNs, parsed once |
//! | [`failure`] | what an error means for a letter |

pub mod arn;
pub mod batch;
pub mod endpoint;
pub mod failure;
pub mod letter;
pub mod policy;
