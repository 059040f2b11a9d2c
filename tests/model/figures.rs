//! The page of figures: outages in the model, and what waiting costs.

use std::fmt::Write as _;

use sns_redrive::policy::{IN_FLIGHT_LIMIT, Jitter, MAX_DELAY, VISIBILITY_CEILING};

use super::outage::{BATCH, BATCH_TAKES, BUILT_IN, BUILT_IN_JITTER, Outage, Toll};
use super::{DAY, HOUR, MINUTE, Millis, SECOND};

/// USD for a million requests of SQS, standard queues, us-east-1, after the free tier.
/// <https://aws.amazon.com/sqs/pricing/>
const SQS_MILLION: f64 = 0.40;
/// USD for a million invocations, and for a GB-second on arm64, us-east-1.
/// <https://aws.amazon.com/lambda/pricing/>
const LAMBDA_MILLION: f64 = 0.20;
const LAMBDA_GB_SECOND: f64 = 0.000_013_333_4;
/// The template's memory, GB.
const MEMORY_GB: f64 = 0.25;

/// Letters that a call takes.
const CALL: u64 = 10;

/// The three tables are found in the page by this.
pub const BEGIN: &str = "<!-- make figures: outages -->";
pub const END: &str = "<!-- make figures: end of outages -->";
