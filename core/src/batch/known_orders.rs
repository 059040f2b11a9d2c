//! The orders that an instance knows: when they are read, what a reading means, and for how long it counts.
//!
//! A failure to read them is handled safely. A hold that was read stays until it ends or a reading shows that
//! it is gone. Orders to retry and to archive lapse some minutes after the last good reading. An instance
//! that never read the orders hides its letters for a minute at a time, and after ten minutes follows its
//! rules alone.

use std::time::Duration;

use super::action::{OrdersRead, no_answer};
use super::moment::Moment;
use crate::failure::{Failure, FailureClass};
use crate::letter::Letter;
use crate::policy::{BadOrders, Order, OrderAction, Ordered, Orders};

/// The time after which the orders are read again. A new hold counts after this time at the latest.
const READ_EVERY: Duration = Duration::from_secs(15);

/// The time for which orders to retry and to archive count after the last good reading. An instance that has
/// never read the orders waits for them for the same time.
const PATIENCE: Duration = Duration::from_mins(10);

/// The number of faults of a document that are reported.
const MAX_FAULTS: usize = 3;

/// The orders that an instance knows.
#[derive(Debug, Default)]
pub struct KnownOrders {
    orders: Orders,
    /// S3's tag of the document that was read last.
    tag: Option<String>,
    /// The time of the last good reading.
    pub(super) read: Option<Moment>,
    /// The age of the instance when it first asked for them.
    first_asked: Option<Duration>,
    /// Its age when it last asked for them.
    asked: Option<Duration>,
    /// True if deliveries begin by an old reading, because no time is left to wait for a new one.
    pub(super) waits_no_more: bool,
    /// True if the last reading failed.
    failed: bool,
    /// True if the last reading failed for a reason that somebody must mend, or the one before failed too.
    pub(super) is_unread: bool,
}

impl KnownOrders {
    /// Reports whether deliveries must wait: the last reading is too old, and a new one is on its way.
    #[must_use]
    pub fn are_old(&self, age: Duration) -> bool {
        !self.waits_no_more && self.is_due(age)
    }

    /// Reports whether an attempt that was decided by an earlier reading may still begin. `ordered` says
    /// whether an order asked for it.
    #[must_use]
    pub fn allow_attempt(&self, letter: &Letter, ordered: bool, now: Moment) -> bool {
        match self.on(letter, now).action() {
            Some(OrderAction::Hold | OrderAction::Archive) => false,
            Some(OrderAction::Retry) => true,
            None => !ordered,
        }
    }

    /// Reports whether it is time to read the orders.
    pub(super) fn is_due(&self, age: Duration) -> bool {
        self.due_in(age).is_zero()
    }

    /// Returns the time until the orders are read again.
    pub(super) fn due_in(&self, age: Duration) -> Duration {
        let since = self.asked.map_or(READ_EVERY, |asked| age.saturating_sub(asked));
        READ_EVERY.saturating_sub(since)
    }

    /// Takes note that the orders are being read. Returns the tag of the document that is known already.
    pub(super) fn ask(&mut self, age: Duration) -> Option<String> {
        self.first_asked.get_or_insert(age);
        self.tag.clone()
    }

    /// Takes over a reading that was asked for at that age.
    pub(super) fn take(
        &mut self,
        reading: Result<OrdersRead, Failure>,
        asked: Duration,
        now: Moment,
    ) -> Result<(), Failure> {
        self.asked = Some(asked);
        let taken = match reading {
            Ok(OrdersRead::Document { json, tag }) => Orders::parse(&json)
                .map(|orders| (self.orders, self.tag) = (orders, tag))
                .map_err(|bad| broken(&bad)),
            Ok(OrdersRead::None) => {
                (self.orders, self.tag) = <_>::default();
                Ok(())
            }
            Ok(OrdersRead::NotModified) => self.read.map(|_| ()).ok_or_else(no_answer),
            Err(failure) => Err(failure),
        };
        let is_lasting = |failure: &Failure| self.failed || failure.class == FailureClass::ActionRequired;
        self.is_unread = taken.as_ref().is_err_and(is_lasting);
        self.failed = taken.is_err();
        if taken.is_ok() {
            self.read = Some(now);
        }
        taken
    }

    /// Returns the known order about a letter.
    pub(super) fn on(&self, letter: &Letter, now: Moment) -> Ordered {
        let Some(read) = self.read else {
            return if self.waits(now.age) { Ordered::Unread } else { Ordered::Nothing };
        };
        let is_fresh = now.age.saturating_sub(read.age) <= PATIENCE;
        let counts = |order: &Order| is_fresh || order.action == OrderAction::Hold;
        let first = self.orders.first(letter, now.at, counts);
        first.map_or(Ordered::Nothing, |order| Ordered::By(order.clone().into()))
    }

    /// Reports whether letters wait until the orders are read for the first time.
    pub(super) fn waits(&self, age: Duration) -> bool {
        let asks = self.first_asked.is_some_and(|first| age.saturating_sub(first) < PATIENCE);
        self.read.is_none() && asks
    }
}

/// Returns the failure of reading a document that is broken, or newer than this code.
fn broken(bad: &BadOrders) -> Failure {
    let told: Vec<_> = bad.0.iter().take(MAX_FAULTS).map(ToString::to_string).collect();
    let more = bad.0.len().saturating_sub(MAX_FAULTS);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let failure = Failure::ours(FailureClass::ActionRequired, "OrdersBroken");
    Failure { message: Some(told.join("; ") + &more), ..failure }
}
