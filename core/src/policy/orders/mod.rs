//! Orders: an operator's instructions about letters, which take precedence over the rules while the function
//! runs.
//!
//! Orders stand in one JSON document, which the function reads now and then:
//!
//! ```json
//! {
//!   "version": 1,
//!   "orders": [
//!     {
//!       "id": "20261122T101500Z-7f3a",
//!       "do": "hold",
//!       "match": { "topicArn": [{ "suffix": ":orders" }] },
//!       "arrivedBefore": "2026-11-22T10:15:00Z",
//!       "at": "2026-11-22T10:15:00Z",
//!       "until": "2026-11-22T12:00:00Z",
//!       "by": "arn:aws:sts::123456789012:assumed-role/operator/ada",
//!       "why": "the warehouse's database is down"
//!     }
//!   ]
//! }
//! ```
//!
//! `match` is a pattern as in rules. `arrivedBefore`, `arrivedAfter` and `until` may be left out. The first order that
//! matches a letter and is in force counts.

mod document;
mod reach;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::fields::Fault;
use super::matcher::{Matcher, View};
use crate::letter::Letter;

pub use reach::{Reach, Touches};

/// The version of the document that this code reads and writes.
pub const ORDERS_VERSION: u64 = 1;

/// The largest document that is read, in bytes.
pub const MAX_ORDERS_BYTES: usize = 256 * 1024;

/// The largest number of orders in a document. Each is matched against each letter that it may be about.
pub const MAX_ORDERS: usize = 100;

/// The time for which an order to retry is in force if it does not name its end.
pub const RETRY_IN_FORCE: SignedDuration = SignedDuration::from_mins(15);

/// The orders of a document, in their order.
#[derive(Debug, Default)]
pub struct Orders {
    orders: Vec<Order>,
    /// The pattern of each order.
    matchers: Vec<Matcher>,
}

/// An operator's instruction about the letters that a pattern matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    /// Its id, unique within the document.
    pub id: String,
    /// The action on the letters.
    #[serde(rename = "do")]
    pub action: OrderAction,
    /// The pattern over letters, as in rules.
    #[serde(rename = "match")]
    pub pattern: Value,
    /// If set, the order is about letters that arrived before this time only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrived_before: Option<Timestamp>,
    /// If set, the order is about letters that arrived at this time or later only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrived_after: Option<Timestamp>,
    /// The beginning of the order.
    pub at: Timestamp,
    /// The end of the order. Without it, an order to retry ends after [`RETRY_IN_FORCE`], any other when it
    /// is taken out of the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The operator who gave it, as the writer claims.
    pub by: String,
    /// The reason.
    pub why: String,
}

/// The action of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderAction {
    /// Makes no attempts.
    Hold,
    /// Makes an attempt at once for each letter that is received.
    Retry,
    /// Archives the letters, with the reason `ordered`.
    Archive,
}

/// Everything that is wrong with a document of orders.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct BadOrders(pub Vec<Fault>);

impl OrderAction {
    /// Every action, in the order of the docs.
    pub const ALL: [Self; 3] = [Self::Hold, Self::Retry, Self::Archive];

    /// Returns the name in documents and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Retry => "retry",
            Self::Archive => "archive",
        }
    }
}

impl Order {
    /// Returns the end of the order, if it has one.
    #[must_use]
    pub fn end(&self) -> Option<Timestamp> {
        let after_a_while = || self.at.saturating_add(RETRY_IN_FORCE).unwrap_or(Timestamp::MAX);
        self.until.or_else(|| (self.action == OrderAction::Retry).then(after_a_while))
    }

    /// Reports whether the order has ended by then.
    #[must_use]
    pub fn has_ended(&self, now: Timestamp) -> bool {
        self.end().is_some_and(|end| end <= now)
    }

    /// Reports whether the order counts at a time.
    #[must_use]
    pub fn is_in_force(&self, now: Timestamp) -> bool {
        self.at <= now && !self.has_ended(now)
    }

    /// Reports whether the order is about letters that arrived then.
    fn is_about(&self, arrived: Timestamp) -> bool {
        self.arrived_before.is_none_or(|before| arrived < before)
            && self.arrived_after.is_none_or(|after| arrived >= after)
    }

    /// Reports whether a letter was sent by an order to retry and came back since this order began. Without
    /// this check it would be sent again and again without a pause.
    fn is_carried_out(&self, letter: &Letter) -> bool {
        self.action == OrderAction::Retry && letter.came_back_early().is_some_and(|back| back >= self.at)
    }
}

/// The answer of the orders about one letter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Ordered {
    /// The orders say nothing, so its rule decides.
    #[default]
    Nothing,
    /// Unknown, because the orders were never read.
    Unread,
    /// This order takes precedence over its rule.
    By(Box<Order>),
}

impl Ordered {
    /// Returns the order, if there is one.
    #[must_use]
    pub fn order(&self) -> Option<&Order> {
        match self {
            Self::By(order) => Some(order),
            Self::Nothing | Self::Unread => None,
        }
    }

    /// Returns the action of the order, if there is one.
    #[must_use]
    pub fn action(&self) -> Option<OrderAction> {
        self.order().map(|order| order.action)
    }
}

impl Orders {
    /// Returns the orders, in their order.
    #[must_use]
    pub fn all(&self) -> &[Order] {
        &self.orders
    }

    /// Returns the answer of these orders about a letter, if they were read just now.
    #[must_use]
    pub fn on(&self, letter: &Letter, now: Timestamp) -> Ordered {
        self.first(letter, now, |_| true).map_or(Ordered::Nothing, |order| Ordered::By(order.clone().into()))
    }

    /// Returns the first order that is in force and matches the letter, of those that `counts` accepts. An order to
    /// retry no longer applies to a letter that was sent on an order since it began: that letter keeps to its
    /// schedule.
    #[must_use]
    pub fn first(&self, letter: &Letter, now: Timestamp, counts: impl Fn(&Order) -> bool) -> Option<&Order> {
        let arrived = letter.first_arrival();
        let applies = |order: &Order| {
            order.is_in_force(now)
                && order.is_about(arrived)
                && !order.is_carried_out(letter)
                && counts(order)
        };
        let all = self.orders.iter().zip(&self.matchers).filter(|(order, _)| applies(order));
        let all: Vec<_> = all.collect();
        let message = all.iter().any(|(_, matcher)| matcher.is_about_message()).then(|| letter.message());
        let view = View::of(letter, message.as_deref());
        all.into_iter().find(|(_, matcher)| matcher.first_of(&view).is_some()).map(|(order, _)| order)
    }
}
