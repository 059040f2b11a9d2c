//! The decisions of the function, pure: a message of a queue becomes a letter, a policy says what should
//! happen to it and when, and a machine says what is to be done about a batch.
//!
//! It is a crate of its own for two reasons. Its dependencies include no AWS client, no tokio and no tracing,
//! so no code here can use one; time comes in as an argument. And it goes over every byte of every letter, so
//! it is compiled for speed, while everything else is compiled to be small.
//!
//! Each module knows only modules that stand below it in this list.
//!
//! | module | subject |
//! |---|---|
//! | [`notice`] | notices of archived letters and of endpoints: what they count, when they are due, how they read |
//! | [`batch`] | the batch machine: asks for actions, takes answers, ends in reports |
//! | [`policy`] | what should happen, and when: rules, schedule, decision |
//! | [`waiting`] | the list of waiting letters, and the keys of what operators and the function share |
//! | [`letter`] | the messages in the queue: origins, SNS messages, the mark |
//! | [`endpoint`] | where a retry can go |
//! | [`arn`] | ARNs, parsed once |
//! | [`failure`] | what a failure means for a letter |
//! | [`shell`] | others' texts in commands that operators copy |

pub mod arn;
pub mod batch;
pub mod endpoint;
pub mod failure;
pub mod letter;
pub mod notice;
pub mod policy;
pub mod shell;
pub mod waiting;
