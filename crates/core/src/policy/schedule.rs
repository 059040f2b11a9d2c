//! The schedule: the delay before each retry, in SNS's four phases.
//!
//! SNS retries immediately, then a few times at the least delay, then along a backoff function, then at the
//! greatest delay. A [`Schedule`] holds the nine numbers of SNS's delivery policy that matter for this and
//! answers "how long before retry k".
//!
//! AWS publishes no formula for three of the four functions, only that all run from the least delay to the
//! greatest. The formulas here are our own: similar to SNS's, not identical.
//! Source: <https://docs.aws.amazon.com/sns/latest/dg/sns-message-delivery-retries.html>
//!
//! ```
//! use redrive_core::policy::{Backoff, Schedule};
//! let schedule = Schedule { min: 20, max: 40, retries: 3, backoff: Backoff::Linear, ..Schedule::HTTP_DEFAULT };
//! let delays: Vec<_> = (1..=4).map(|retry| schedule.delay(retry)).collect();
//! assert_eq!(delays, [Some(20.0), Some(30.0), Some(40.0), None]);
//! ```

use sha2::{Digest, Sha256};

/// The longest delay, in seconds: SQS keeps no message longer than 14 days.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
pub const MAX_DELAY_SECONDS: u32 = 14 * 24 * 3600;

/// The largest number of retries that SNS itself ever makes, for its AWS-managed endpoints.
/// <https://docs.aws.amazon.com/sns/latest/dg/sns-message-delivery-retries.html>
pub const MAX_RETRIES: u32 = 100_015;

/// The rounding error to ignore. Powers miss whole numbers by some 1e-12 of their size: 16.000000000000004 s
/// are 16 s, not 17.
const FLOAT_NOISE: f64 = 1e-6;

/// A schedule of retries. The policy document builds it and refuses what does not add up: `1 <= min <= max`,
/// and the three counted phases hold no more than `retries`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// `minDelayTarget`, in seconds.
    pub min: u32,
    /// `maxDelayTarget`, in seconds.
    pub max: u32,
    /// `numRetries`: all phases together.
    pub retries: u32,
    /// `numNoDelayRetries`: the immediate phase.
    pub no_delay: u32,
    /// `numMinDelayRetries`: the pre-backoff phase.
    pub min_delay: u32,
    /// `numMaxDelayRetries`: the post-backoff phase.
    pub max_delay: u32,
    /// The growth of the delays in between.
    pub backoff: Backoff,
}

/// The `backoffFunction`: the growth of the delays in the backoff phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backoff {
    /// Delays that grow in equal steps.
    Linear,
    /// Delays whose steps grow by the same amount.
    Arithmetic,
    /// Delays that grow by the same factor.
    Geometric,
    /// Delays that double, or grow faster if doubling would not reach the greatest delay.
    Exponential,
}

/// The phase a retry belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RetryPhase {
    /// Retries without a delay.
    Immediate,
    /// Retries after the least delay.
    PreBackoff,
    /// Retries after growing delays.
    Backoff,
    /// Retries after the greatest delay.
    PostBackoff,
}

impl Schedule {
    /// SNS's policy for HTTP/S endpoints by default, and the value of every attribute that a policy leaves
    /// out.
    pub const HTTP_DEFAULT: Self = Self {
        min: 20,
        max: 20,
        retries: 3,
        no_delay: 0,
        min_delay: 0,
        max_delay: 0,
        backoff: Backoff::Linear,
    };

    /// SNS's policy for SQS, Lambda and Firehose endpoints: over 23 days.
    pub const AWS_MANAGED: Self = Self {
        min: 1,
        max: 20,
        retries: 100_015,
        no_delay: 3,
        min_delay: 2,
        max_delay: 100_000,
        backoff: Backoff::Exponential,
    };

    /// SNS's policy for e-mail, SMS and mobile push: over 6 hours.
    pub const CUSTOMER_MANAGED: Self = Self {
        min: 10,
        max: 600,
        retries: 50,
        no_delay: 0,
        min_delay: 2,
        max_delay: 38,
        backoff: Backoff::Exponential,
    };

    /// SNS's policy for Firehose streams that throttle is [`Schedule::CUSTOMER_MANAGED`]. Here its last delay goes on as
    /// long as [`Schedule::AWS_MANAGED`], which counts the same retries: a stream that was broken before it throttled
    /// has used up fifty within minutes.
    pub const THROTTLED_STREAM: Self = Self {
        retries: Self::AWS_MANAGED.retries,
        max_delay: Self::AWS_MANAGED.retries - Self::CUSTOMER_MANAGED.retries
            + Self::CUSTOMER_MANAGED.max_delay,
        ..Self::CUSTOMER_MANAGED
    };

    /// The schedule of a function that is configured with no policy: 12 retries over about 21.5 hours.
    pub const BUILT_IN: Self = Self {
        min: 60,
        max: 21_600,
        retries: 12,
        no_delay: 1,
        min_delay: 2,
        max_delay: 2,
        backoff: Backoff::Exponential,
    };

    /// Returns the number of retries in the backoff phase, which the other phases leave.
    #[must_use]
    pub fn in_backoff(&self) -> u32 {
        self.retries
            .saturating_sub(self.no_delay)
            .saturating_sub(self.min_delay)
            .saturating_sub(self.max_delay)
    }

    /// Returns the phase of retry `k`, counted from 1, or `None` if there is no such retry.
    #[must_use]
    pub fn phase(&self, k: u32) -> Option<RetryPhase> {
        self.place(k).map(|(phase, _)| phase)
    }

    /// Returns the delay before retry `k`, counted from 1, in seconds and before jitter, or `None` if there
    /// is no such retry.
    #[must_use]
    pub fn delay(&self, k: u32) -> Option<f64> {
        let (min, max) = (f64::from(self.min), f64::from(self.max));
        let (phase, i) = self.place(k)?;
        Some(match phase {
            RetryPhase::Immediate => 0.0,
            RetryPhase::PreBackoff => min,
            RetryPhase::Backoff => self.backoff.delay(i, self.in_backoff(), min, max),
            RetryPhase::PostBackoff => max,
        })
    }

    /// Returns the delay before retry `k` after jitter, in seconds: shortened by jitter, then rounded up,
    /// since SQS hides messages by the second. It is never above `max`.
    #[must_use]
    pub fn wait(&self, k: u32, jitter: &Jitter) -> Option<u64> {
        let shortened = self.delay(k)? * (1.0 - jitter.share * jitter.fraction(k));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 14 days")]
        Some((shortened - FLOAT_NOISE).ceil() as u64)
    }

    /// Returns the shortest delay before retry `k` that a jitter of this `share` (0 to 1) can leave, in seconds.
    #[must_use]
    pub fn shortest_wait(&self, k: u32, share: f64) -> Option<u64> {
        let shortened = self.delay(k)? * (1.0 - share);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 14 days")]
        Some((shortened - FLOAT_NOISE).ceil() as u64)
    }

    /// Returns the phase of retry `k` and its index within that phase, from 0.
    fn place(&self, k: u32) -> Option<(RetryPhase, u32)> {
        let mut i = k.checked_sub(1)?;
        for (phase, size) in [
            (RetryPhase::Immediate, self.no_delay),
            (RetryPhase::PreBackoff, self.min_delay),
            (RetryPhase::Backoff, self.in_backoff()),
            (RetryPhase::PostBackoff, self.max_delay),
        ] {
            if i < size {
                return Some((phase, i));
            }
            i -= size;
        }
        None
    }
}

impl Backoff {
    /// Returns delay `i` of `n` between `min` and `max`, with `i` from 0.
    fn delay(self, i: u32, n: u32, min: f64, max: f64) -> f64 {
        if n <= 1 {
            return min;
        }
        let (i, n) = (f64::from(i), f64::from(n));
        // Powers take a fraction as exponent, so 100,000 steps neither overflow nor drift.
        let delay = match self {
            Self::Linear => min + (max - min) * i / (n - 1.0),
            Self::Arithmetic => min + (max - min) * i * (i + 1.0) / (n * (n - 1.0)),
            Self::Geometric => min * (max / min).powf(i / (n - 1.0)),
            Self::Exponential => min * (max / min).powf(1.0 / (n - 1.0)).max(2.0).powf(i),
        };
        delay.clamp(min, max)
    }

    /// Returns the name in a policy document.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Arithmetic => "arithmetic",
            Self::Geometric => "geometric",
            Self::Exponential => "exponential",
        }
    }

    /// All four, in SNS's order.
    pub const ALL: [Self; 4] = [Self::Linear, Self::Arithmetic, Self::Geometric, Self::Exponential];
}

impl RetryPhase {
    /// Returns the name in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Immediate => "immediate",
            Self::PreBackoff => "pre-backoff",
            Self::Backoff => "backoff",
            Self::PostBackoff => "post-backoff",
        }
    }
}

/// Spreads the retries of letters that failed together, without randomness: the same letter waits the same
/// time on every receive, in whichever instance of the function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Jitter {
    share: f64,
    seed: u64,
}

impl Jitter {
    /// Delays without jitter, as the schedule gives them.
    pub const NONE: Self = Self { share: 0.0, seed: 0 };

    /// Creates jitter that shortens delays by up to `share` (0 to 1), by a hash of the letter's id and the
    /// retry.
    #[must_use]
    pub fn new(share: f64, letter_id: &str) -> Self {
        let seed = if share > 0.0 { hash64(letter_id) } else { 0 };
        Self { share: share.clamp(0.0, 1.0), seed }
    }

    /// Returns the letter's number for retry `k`, in [0, 1).
    fn fraction(&self, k: u32) -> f64 {
        // SplitMix64's finaliser: consecutive k give independent numbers.
        let mut x = self.seed.wrapping_add(u64::from(k).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^= x >> 31;
        #[expect(clippy::cast_precision_loss, reason = "the upper 53 bits fit an f64 exactly")]
        let fraction = (x >> 11) as f64 / (1_u64 << 53) as f64;
        fraction
    }
}

/// Returns a hash that stays the same over versions and machines, which std's hashers do not promise.
fn hash64(text: &str) -> u64 {
    let digest = Sha256::digest(text.as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    u64::from_be_bytes(first)
}
