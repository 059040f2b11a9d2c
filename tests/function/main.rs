//! Tests of the function and its parts, on an account in `redrive-sim`. They are one binary, because each binary
//! links the whole SDK.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod archive;
mod attacks;
mod batches;
mod big_batches;
mod clients;
mod corpus;
mod cost;
mod discovery;
mod dispatcher;
mod endpoint_notices;
mod endpoints;
mod failure_classes;
mod loops;
mod notices;
mod origins;
mod overrides;
mod pace;
mod policy_in_s3;
mod recovery;
mod replay;
mod requeue;
mod retention;
mod signature;
mod start;
mod subscriptions;
mod telemetry;
mod template;
mod visibility;

/// Details of refused letters that several tests meet.
const OF_OTHER_QUEUE: &str = "the subscription does not name the letter's dead-letter queue: if it should, set its deadLetterTargetArn";
const UNSIGNED: &str = "the letter is not signed: SNS may not have written it. Raw deliveries need a rule with \
                        \"verifySignature\": false, letters of FIFO topics a queue of their own";
const FORGED_OR_EDITED: &str = "the signature does not match: the letter was forged or edited";
