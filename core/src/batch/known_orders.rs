//! The orders, as far as an instance knows them: when they are read, what a reading means, and for how long it counts.
//!
//! What cannot be read fails safe. A hold that was read stays until it ends or is read as gone. Orders to retry and to
//! archive lapse some minutes after the last good reading. An instance that never read the orders hides its letters for a
//! minute at a time, and after ten minutes goes by its rules alone.

use jiff::{SignedDuration, Timestamp};

use super::action::{OrdersRead, no_answer};
use crate::failure::{Failure, FailureClass};
use crate::letter::Letter;
use crate::policy::{BadOrders, OrderAction, Ordered, Orders};

/// How soon the orders are read again. A hold counts no later.
const READ_EVERY: SignedDuration = SignedDuration::from_secs(15);

/// How long orders to retry and to archive count after the last good reading, and how long an instance that has never
/// read the orders waits for them.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// Faults of a document that are told.
const MAX_FAULTS: usize = 3;

/// The orders, as far as an instance knows them.
#[derive(Debug, Default)]
pub struct KnownOrders {
    orders: Orders,
    /// S3's tag of the document that was read last.
    tag: Option<String>,
    /// The last good reading.
    pub(super) read: Option<Timestamp>,
    first_asked: Option<Timestamp>,
    asked: Option<Timestamp>,
    /// Whether deliveries begin by an old reading: no time is left to wait for a new one.
    pub(super) waits_no_more: bool,
    /// Whether the last reading failed.
    pub(super) is_unread: bool,
}

impl KnownOrders {
    /// Whether deliveries must wait: the last reading is too old, and a new one is on its way.
    #[must_use]
    pub fn are_old(&self, now: Timestamp) -> bool {
        !self.waits_no_more && self.is_due(now)
    }

    /// Whether an attempt may still begin that was decided by an earlier reading; `ordered` is whether an order asked for
    /// it.
    #[must_use]
    pub fn let_go(&self, letter: &Letter, ordered: bool, now: Timestamp) -> bool {
        match self.on(letter, now).action() {
            Some(OrderAction::Hold | OrderAction::Archive) => false,
            Some(OrderAction::Retry) => true,
            None => !ordered,
        }
    }

    /// Whether it is time to read them.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.due_in(now).is_zero()
    }

    /// The time until they are read again.
    pub(super) fn due_in(&self, now: Timestamp) -> SignedDuration {
        let age = self.asked.map_or(READ_EVERY, |asked| now.duration_since(asked).abs());
        READ_EVERY.saturating_sub(age).max(SignedDuration::ZERO)
    }

    /// Takes note that they are being read; returns the tag of the document that is known already.
    pub(super) fn ask(&mut self, now: Timestamp) -> Option<String> {
        self.first_asked.get_or_insert(now);
        self.tag.clone()
    }

    /// Takes a reading over that was asked for then.
    pub(super) fn take(
        &mut self,
        reading: Result<OrdersRead, Failure>,
        asked: Timestamp,
        now: Timestamp,
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
        self.is_unread = taken.is_err();
        if taken.is_ok() {
            self.read = Some(now);
        }
        taken
    }

    /// Returns what is known to be ordered of a letter.
    pub(super) fn on(&self, letter: &Letter, now: Timestamp) -> Ordered {
        let Some(read) = self.read else {
            return if self.waits(now) { Ordered::Unread } else { Ordered::Nothing };
        };
        let is_fresh = now.duration_since(read) <= PATIENCE;
        let first = self.orders.first(letter, now, |order| is_fresh || order.action == OrderAction::Hold);
        first.map_or(Ordered::Nothing, |order| Ordered::By(order.clone()))
    }

    /// Whether letters wait until the orders are read for the first time.
    pub(super) fn waits(&self, now: Timestamp) -> bool {
        let asks = self.first_asked.is_some_and(|first| now.duration_since(first) < PATIENCE);
        self.read.is_none() && asks
    }
}

/// The failure of reading a document that is broken, or newer than this code.
fn broken(bad: &BadOrders) -> Failure {
    let told: Vec<_> = bad.0.iter().take(MAX_FAULTS).map(ToString::to_string).collect();
    let more = bad.0.len().saturating_sub(MAX_FAULTS);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let failure = Failure::ours(FailureClass::ActionRequired, "OrdersBroken");
    Failure { message: Some(told.join("; ") + &more), ..failure }
}
