//! The part of its time that an instance spends on endpoints that do not work, or are slow.

use std::time::Duration;

/// A part of the time that passes. What is not spent is saved, up to a limit. More may be spent than there is, up to the
/// same limit: then nothing is left until the time that passes has paid for it.
#[derive(Debug)]
pub(super) struct TimeAllowance {
    /// The time that must pass for each second that is spent, in seconds.
    factor: u32,
    /// The most that is saved.
    most: Duration,
    /// The time by which everything that was spent is paid, later by what can be saved.
    paid: Duration,
    /// The time up to which is charged.
    charged: Duration,
}

impl TimeAllowance {
    /// Creates the allowance of a new instance: one of so many seconds, and as much as can be saved.
    pub(super) const fn new(factor: u32, most: Duration) -> Self {
        Self { factor, most, paid: Duration::ZERO, charged: Duration::ZERO }
    }

    /// Reports whether nothing is left.
    pub(super) fn is_empty(&self, now: Duration) -> bool {
        self.paid > now + self.most * self.factor
    }

    /// Charges the time since something began that ends now. Time in which several were under way is charged once.
    pub(super) fn charge(&mut self, began: Duration, now: Duration) {
        let cost = now.saturating_sub(began.max(self.charged));
        self.charged = self.charged.max(now);
        // What was not spent before is saved up to the limit: `now` then.
        let latest = now + self.most * self.factor * 2;
        self.paid = latest.min(self.paid.max(now) + cost * self.factor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn more_can_be_spent_than_there_is_and_then_time_must_pay_for_it() {
        let mut allowance = TimeAllowance::new(20, SECOND * 30);
        // A new instance has what can be saved.
        allowance.charge(SECOND, SECOND * 16);
        assert!(!allowance.is_empty(SECOND * 16));
        allowance.charge(SECOND * 16, SECOND * 36);
        // It has spent 35 s: the thirty that were saved, and those of a hundred seconds more.
        assert!(allowance.is_empty(SECOND * 115) && !allowance.is_empty(SECOND * 116));
    }

    #[test]
    fn what_is_under_way_at_once_is_charged_once() {
        let mut allowance = TimeAllowance::new(20, SECOND * 10);
        for (began, ended) in [(0, 10), (0, 10), (5, 12), (3, 11)] {
            allowance.charge(SECOND * began, SECOND * ended);
        }
        // Twelve seconds, ten of which were saved.
        assert!(allowance.is_empty(SECOND * 49) && !allowance.is_empty(SECOND * 51));
    }

    #[test]
    fn no_more_is_owed_than_can_be_saved() {
        let mut allowance = TimeAllowance::new(20, SECOND * 30);
        allowance.charge(SECOND, SECOND * 10_000);
        assert!(allowance.is_empty(SECOND * 10_599) && !allowance.is_empty(SECOND * 10_601));
    }

    #[test]
    fn no_more_is_saved_than_the_limit() {
        let mut allowance = TimeAllowance::new(20, SECOND * 30);
        let day = SECOND * 86_400;
        allowance.charge(day, day + SECOND * 31);
        assert!(allowance.is_empty(day + SECOND * 32));
    }
}
